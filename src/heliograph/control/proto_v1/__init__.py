"""What can be asked of a node, by area: each ask with the structs of its arguments and answers. Version 1, frozen.

A field keeps its name, type and meaning. One may be added after the others, with a default; an ask that must change
otherwise gets a new name. Arguments are `heliograph.rpc.methods.Args`, answers plain structs that are encoded as maps.
"""
