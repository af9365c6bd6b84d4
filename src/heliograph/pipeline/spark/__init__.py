"""How Spark is started: its Java runtime, the gateway to it, and sessions."""
