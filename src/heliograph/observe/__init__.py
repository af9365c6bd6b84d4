"""What the broker reports about itself: metrics, `$SYS` topics, `$events` messages."""
