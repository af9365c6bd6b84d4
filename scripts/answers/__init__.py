"""Records what the HTTP API and `heliograph ctl` answer, so that two checkouts can be compared."""
