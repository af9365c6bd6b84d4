"""The MQTT protocol without any I/O: bytes to packets and back, properties, reason codes, topic rules."""
