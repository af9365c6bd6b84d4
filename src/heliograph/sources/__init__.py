"""The process of sources: connections to servers elsewhere, whose messages it brings to the node beside it.

A node starts it, and knows it by its command line only. A peer that is slow or hostile so never has the broker's loop.
What a message becomes here, the node decides (`control.sources`): this process carries it, and acknowledges it at its
origin when the node has answered that all that is kept of it is durable.

`interface` says what a type of sources is, and `mqtt` is one; `inlet` bounds what is under way.
"""
