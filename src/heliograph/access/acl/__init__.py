"""Rules of authorization: `acl.conf`, rule objects, what a client carries; and which rule decides about an action."""
