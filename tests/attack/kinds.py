"""Every module with attacks; importing this one registers them."""

from attack import later, memory, strangers, work

__all__ = ["later", "memory", "strangers", "work"]
