"""Every module with attacks; importing this one registers them."""

from attack import callers, later, memory, strangers, work

__all__ = ["callers", "later", "memory", "strangers", "work"]
