"""Every module with attacks; importing this one registers them."""

from attack import later, work

__all__ = ["later", "work"]
