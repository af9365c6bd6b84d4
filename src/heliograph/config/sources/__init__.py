"""Settings of `sources`: messages that come in from elsewhere, in EMQX's words."""
