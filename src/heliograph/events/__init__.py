"""What a node tells of clients, sessions and messages: `$SYS` topics, `$events` and lines of the log."""
