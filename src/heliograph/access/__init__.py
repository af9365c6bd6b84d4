"""Which clients are banned, also for coming and going all the time, and the default decision of authorization.

The limits on connections, before anybody knows whose they are, are in `transport.limits`.
"""
