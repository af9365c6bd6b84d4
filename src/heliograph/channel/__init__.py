"""The MQTT conversation of one client, sans-IO: bytes and time in, bytes out.

What breaks the specification or a limit raises `ProtocolError`, which the reader hands to the conversation.
"""
