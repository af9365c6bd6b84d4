"""What every command says when its options do not make sense."""


class UsageError(Exception):
    """The options do not make sense; the message says what to do."""
