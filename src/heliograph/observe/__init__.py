"""What the broker tells about itself: metrics, `$SYS` topics, `$events` messages."""
