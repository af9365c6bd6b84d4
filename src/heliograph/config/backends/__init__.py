"""Settings that authenticators and sources of authorization have in common: connections to backends."""
