"""How a setting changes while the program runs."""

from enum import StrEnum


class How(StrEnum):
    """When another value of a setting holds, and what that costs."""

    LIVE = "live"
    """From the turn of the change on, for everything."""
    NEW_CONNECTIONS = "new connections"
    """For connections that come then; those that stand keep what they have."""
    LISTENER_REPLACED = "listener replaced"
    """Another listener takes the place of the one before, whose connections end."""
    RESTART = "restart"
    """With the next start."""
