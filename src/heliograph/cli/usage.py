"""What the modules of the command share: what an action is added to, and the error about options."""

import argparse
from typing import TypeAlias

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class UsageError(Exception):
    """The options do not make sense; the message says what to do."""
