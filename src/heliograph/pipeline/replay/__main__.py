"""The process of one replay: its request in the first line of standard input, what it tells in lines of its output.

It ends with its standard input, however that comes: with the process that asked for it, or when that cancels.
"""

import json
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import msgspec

from heliograph.pipeline.errors import PipelineError
from heliograph.pipeline.replay.request import ReplayError, ReplayRequest
from heliograph.pipeline.replay.running import run_replay

_END_S: Final = 20.0
_MEMORY_BYTES_MAX: Final = 1 << 30  # of the broker's engine; Spark has a bound of its own


def main() -> int:
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=ReplayRequest)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _end_in_order)
    threading.Thread(target=_end_with_input, name="stdin", daemon=True).start()
    if request.engine == "broker":
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    tell = _teller()
    try:
        tell({"result": run_replay(request, tell)})
    except PipelineError as error:
        field = error.field if isinstance(error, ReplayError) else ""
        tell({"error": {"code": error.code, "message": str(error), "field": field}})
    except RecursionError:
        tell({"error": {"code": ReplayError.code, "message": "the rule is nested too deeply", "field": "sql"}})
    except MemoryError:
        text = f"the rule needs more than {_MEMORY_BYTES_MAX >> 20} MiB for a message"
        tell({"error": {"code": ReplayError.code, "message": text, "field": ""}})
    return 0


def _teller() -> Callable[[dict[str, Any]], None]:
    """Writes lines; what else would be printed goes to the standard error."""
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def tell(line: dict[str, Any]) -> None:
        lines.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        lines.flush()

    return tell


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_END_S)
    os._exit(1)  # it waits for something that does not answer


def _end_in_order(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
