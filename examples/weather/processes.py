"""The processes of the demo: one Heliograph node and one pipeline driver, each with its log, and their orderly end."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_COMMAND = Path(sys.executable).with_name("heliograph")

_NODE_CONFIG = """\
# One node on free ports of this machine.
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage {
  # The alerts that the pipeline publishes are not stored, so the number of stored messages is that of the observations.
  messages.topics = ["weather/#"]
  flight.bind = "127.0.0.1:0"
}
"""

# Left in the directory that a demo writes to, so that it never clears a directory of somebody else.
_MARK = ".heliograph-demo"


class ProcessError(Exception):
    """A process of the demo ended, or did not get ready; the message names its log."""


def prepare_output(output: Path) -> Path:
    """An empty directory for a demo, with one for logs in it.

    Raises:
        SystemExit: It holds files that are none of a demo's.
    """
    if output.exists() and any(output.iterdir()) and not (output / _MARK).exists():
        raise SystemExit(f"{output} holds files that are not this demo's: give another directory with --output")
    shutil.rmtree(output, ignore_errors=True)
    (output / "logs").mkdir(parents=True)
    (output / _MARK).touch()
    return output.resolve()


class Process:
    """A child process that writes to a log and is ended by SIGTERM when the ``with`` block is left."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._log_file = log.open("wb")
        self._process = subprocess.Popen(
            [_COMMAND, *arguments], stdout=self._log_file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def check(self) -> None:
        """Raise `ProcessError` if the process has ended."""
        if self._process.poll() is not None:
            told = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise ProcessError(
                f"{self.name} ended with {self._process.returncode}; its log {self.log} ends:\n" + "\n".join(told)
            )

    def end(self, wait_s: float = 60) -> int:
        """Ask the process to end, wait for it, and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log_file.close()
        return self._process.returncode

    def await_line(self, pattern: str, deadline_s: float) -> re.Match[str]:
        """Wait for a line in the log."""
        end = time.monotonic() + deadline_s
        while (found := re.search(pattern, self.log.read_text(errors="replace"))) is None:
            self.check()
            if time.monotonic() > end:
                raise ProcessError(f"{self.name} was not ready after {deadline_s:.0f} s; its log is {self.log}")
            time.sleep(0.05)
        return found


class Node(Process):
    """One Heliograph node; of the demo, unless it is given another configuration."""

    def __init__(self, output: Path, settings: str = _NODE_CONFIG) -> None:
        config = output / "node.hocon"
        config.write_text(settings)
        arguments = ["start", "--config", str(config), "--data-dir", str(output / "data")]
        super().__init__("the node", arguments, output / "logs" / "node.log")
        try:
            ready = self.await_line(r"ready.*tcp://([\d.]+):(\d+).*grpc[^:]*://([\d.]+:\d+)", 30)
        except BaseException:
            self.end()  # nobody else will: the `with` block has not begun
            raise
        self.host, self.port, self.endpoint = ready[1], int(ready[2]), ready[3]


class PipelineDriver(Process):
    """The pipeline on Spark."""

    def __init__(self, rules: Path, output: Path, endpoint: str, mqtt: str) -> None:
        self._checkpoint = output / "checkpoint"
        arguments = ["pipeline", "run", str(rules), "--checkpoint", str(self._checkpoint), "--json"]
        arguments += ["--output", str(output / "tables"), "--endpoint", endpoint, "--mqtt", mqtt]
        arguments += ["--trigger", "500ms", "--spark-log", str(output / "logs" / "spark.log")]
        super().__init__("the pipeline", arguments, output / "logs" / "pipeline.log")

    def figures(self) -> dict[str, dict[str, Any]]:
        """What each query has done so far; nothing before the first of them runs."""
        try:
            status = json.loads((self._checkpoint / "status.json").read_bytes())
        except FileNotFoundError:
            return {}
        return {query["name"]: query for query in status["queries"]}

    def await_drained(self, messages: int, deadline_s: float, on_read: Any) -> dict[str, dict[str, Any]]:
        """Wait until every query has read so many messages; `on_read` is told how many all have read together."""
        end = time.monotonic() + deadline_s
        while True:
            self.check()
            figures = self.figures()
            on_read(sum(query["rows_read"] for query in figures.values()))
            if figures and all(query["rows_read"] >= messages for query in figures.values()):
                return figures
            if time.monotonic() > end:
                reads = ", ".join(f"{name} {query['rows_read']:,}" for name, query in figures.items())
                raise ProcessError(f"the pipeline has not read {messages:,} messages after {deadline_s:.0f} s: {reads}")
            time.sleep(0.1)
