"""State databases: small keyed records (sessions, groups) that change often and are committed together."""
