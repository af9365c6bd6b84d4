"""Access control: who may connect, and what clients may do.

One folder for each idea; they import downwards only: `authentication` and `authorization`; then the users and rules of
the built-in database and the connections to other services; then `acl`, `templates`, `passwords` and `bans`.
"""
