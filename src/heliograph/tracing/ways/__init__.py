"""What became of messages: recorded while they are under way, kept in a database, found again."""
