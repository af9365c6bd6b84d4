"""What a node reports about clients, sessions and messages: `$SYS` topics, `$events` and lines of the log."""
