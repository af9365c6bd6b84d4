"""The links between the nodes of a cluster, sans-IO: how two nodes come to trust each other.

`proto_v1` has the frames, which are frozen. `handshake` is the exchange of them.
"""
