"""Says in one sentence what is missing before a virtual environment can be made; silent when nothing is."""

import importlib.util
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this is what tells people
    found = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(f"Heliograph needs Python 3.11 or newer; {sys.executable} is {found}. Run make PYTHON=/path/to/python3.11")
if importlib.util.find_spec("ensurepip") is None:
    sys.exit("Python's venv module cannot make environments here; install it (on Debian: apt install python3-venv)")
