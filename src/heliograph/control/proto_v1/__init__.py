"""The arguments and answers of version 1, by area. Frozen.

A field keeps its name, type and meaning. One may be added behind the others, with a default; a method that must change
otherwise gets a new name. Arguments are `heliograph.rpc.methods.Args`, answers plain structs that are encoded as maps.
"""
