"""Every module with attacks; importing this one registers them."""

from attack import work

__all__ = ["work"]
