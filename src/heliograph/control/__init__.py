"""What can be asked of a node, one module for each area; `node/asked.py` joins them to the node's parts.

A module offers `methods(...)`, which takes the objects that it asks (of the kernel, not parts) and returns its methods.
The structs of arguments and rows stand in `proto_v1`.
"""
