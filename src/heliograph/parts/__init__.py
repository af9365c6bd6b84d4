"""What a node is made of: parts that start in order and stop in reverse, and whose faults are their own."""

from heliograph.parts.changes import Change, Plan
from heliograph.parts.lifecycle import Parts, each, every
from heliograph.parts.part import Hook, HookedPart, Part

__all__ = ["Change", "Hook", "HookedPart", "Part", "Parts", "Plan", "each", "every"]
