"""Who a client is: a chain of authenticators, each a module; `interface` says what they are."""
