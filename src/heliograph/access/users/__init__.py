"""The users of the built-in database: their records, the files that bring them, and the database that keeps them."""
