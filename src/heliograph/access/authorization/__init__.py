"""What a client may do: sources of rules, asked in their order; `interface` says what they are."""
