"""What the nodes of a cluster agree on: small records that a coordinator keeps, each written in one order for all.

`interface` says what any coordinator does; `etcd` is one, `embedded` another, for one core node. `mirror` holds the
records below a prefix as they are, `holding` a lease for as long as this node may rely on it. The coordinator decides
and carries nothing: nothing of a client or a message is in it, and the cluster goes on with what it knows while it is
away.
"""
