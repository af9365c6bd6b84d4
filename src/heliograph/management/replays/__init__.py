"""Jobs that read stored messages, to publish them again or to run a rule over them, and their state."""
