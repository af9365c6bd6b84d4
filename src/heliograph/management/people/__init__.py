"""Who may call the API."""
