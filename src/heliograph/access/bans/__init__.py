"""Which clients may not connect: banned ones, and those that come and go all the time.

The limits on connections, before their clients are known, are in `transport.limits`.
"""
