"""Asking a process that runs: frames, what can be asked, a server for a Unix socket and a blocking client.

It does not know who asks or what about: methods are given to the server, and who asks is what the socket says.
"""
