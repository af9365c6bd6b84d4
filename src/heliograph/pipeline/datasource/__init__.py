"""The format `heliograph` of Spark: stored messages as tables and streams, and rows published over MQTT."""
