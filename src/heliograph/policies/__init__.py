"""What is done to topics between a client and the routing: rewriting, automatic subscriptions, delay."""
