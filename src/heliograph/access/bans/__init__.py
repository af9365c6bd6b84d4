"""Which clients may not connect: banned ones, and those that come and go all the time.

The limits on connections, before anybody knows whose they are, are in `transport.limits`.
"""
