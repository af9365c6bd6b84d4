"""The HTTP API: a process beside the nodes of a machine, which asks them over their control sockets.

It holds nothing that a client needs: its death or its overload reaches none of them.
"""
