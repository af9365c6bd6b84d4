"""Many nodes as one broker: what they agree on, and what they know of each other."""
