"""Settings of `authorization`: what a client may do, as sources of rules say; `kinds` lists the sources."""
