"""The MQTT conversation of one client, sans-IO: bytes and time in, bytes out."""
