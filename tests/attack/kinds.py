"""Every module with attacks; importing this one registers them."""

from attack import later, memory, work

__all__ = ["later", "memory", "work"]
