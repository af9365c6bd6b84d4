"""Topic policies of the operator: rewriting, automatic subscriptions, delayed publish."""
