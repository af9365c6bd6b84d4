"""What the broker reports about itself: metrics and alarms; topics of `$SYS` and `$events` are in `events`."""
