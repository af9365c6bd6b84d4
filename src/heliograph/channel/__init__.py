"""The MQTT conversation of one client: told bytes and time, it answers with bytes."""
