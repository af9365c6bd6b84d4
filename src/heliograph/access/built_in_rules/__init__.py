"""The rules of the built-in database: of client ids, of user names, and of all clients."""
