"""Asking a process that runs: frames, what can be asked, a server for a Unix socket and a blocking client.

It knows neither callers nor methods: methods are given to the server, and the caller is the peer of the socket.
"""
