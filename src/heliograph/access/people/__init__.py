"""Who may manage a node: users of the HTTP API and API keys, as the node keeps them and as others make them."""
