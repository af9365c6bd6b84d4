"""Actions under `kill -9`: a node, its action runner, and a target for each kind of guarantee.

A publisher sends numbered messages at QoS 1 while the runner, the node or one of the targets is killed, whichever the
seed says, and not before rows have come to a target since the kill before. At the end each target is held against what
the node has stored for its action: a message that the publisher sent again after a kill may be stored twice, which is
the publisher's doing. Where Spark takes part, the engine of the actions changes with some kills of the node.
"""

import json
import os
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from heliograph.actions.figures import query_name
from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from pipeline_kills.action_targets import TARGETS, KilledTarget
from support.process import NodeProcess
from support.quick_spark import SESSION
from support.waiting import wait_until

RUNNER, NODE, TARGET = KILLED = ("runner", "node", "target")

_TOPIC = "kills/device"
_WINDOW = 20
_PAUSE_S = 0.02
_PAUSE_MAX_S = 0.5
_DEADLINE_S = 300.0
_SHOWN_MAX = 20
_BEHIND_MAX = 1000
_ENGINES = ("local", "spark")
_SPARK = f"""
pipeline {{
  enable = true, master = "local[2]", trigger = 500ms
  spark_conf {json.dumps({**SESSION, "spark.driver.memory": "512m"})}
}}
"""


@dataclass
class ActionsOutcome:
    """What a run has shown.

    Attributes:
        acknowledged: Messages that the node has acknowledged.
        kills: How often each was killed.
        changes: How often the engine changed.
        rows: Rows of each target.
        doubles: How many of them were there before, where rows come at least once.
        faults: What breaks a promise.
    """

    acknowledged: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    doubles: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """One line for people."""
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        rows = ", ".join(f"{target} {count:,}" for target, count in self.rows.items())
        doubles = ", ".join(f"{target} {count:,}" for target, count in self.doubles.items() if count) or "none"
        faults = "; ".join(self.faults) or "every target has what its guarantee says"
        engines = f", engine changed {self.changes} times" if self.changes else ""
        sent = f"{self.acknowledged:,} messages, killed: {kills}{engines}"
        return f"{sent}; rows: {rows}; doubles: {doubles}; {faults}"


class ActionsWorld:
    """One run; `run` is called once.

    Args:
        directory: Where everything is kept; empty or new.
        seed: Says what is killed when.
        kills: How many kills of each kind.
        targets: Names of `TARGETS`.
        changes: How often the engine changes, each with a kill of the node; it needs Spark.
        kills_s: Seconds after which kills end, also where some are left.
    """

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        kills: dict[str, int],
        targets: list[str],
        changes: int = 0,
        kills_s: float = float("inf"),
    ) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        plan = [kind for kind, count in kills.items() for _ in range(count)]
        self._plan = self._random.sample(plan, len(plan))
        self._names = targets
        self._changes = changes
        self._kills_s = kills_s
        self._engine = _ENGINES[0]
        self._targets: list[KilledTarget] = []
        self.outcome = ActionsOutcome()

    def run(self) -> ActionsOutcome:
        """Publish, kill, let it finish, compare."""
        with ExitStack() as stack:
            for name in self._names:
                folder = self._directory / name
                folder.mkdir()
                self._targets.append(stack.enter_context(TARGETS[name](folder)))
            self._node = stack.enter_context(NodeProcess(self._directory, self._settings(), reader=True))
            positions = stack.enter_context(SeenPositions(self._checkpoint))
            with NumberedPublisher(self._node.port) as publisher:
                self._await_rows(dict.fromkeys(self._actions, 0), self._actions)
                end = time.monotonic() + self._kills_s
                for number, kind in enumerate(self._plan):
                    if time.monotonic() < end:
                        self._kill(kind, number)
                        self._let_catch_up(publisher)
            self.outcome.acknowledged = len(publisher.acknowledged)
            self._finish()
            self._judge(publisher.acknowledged)
            self.outcome.faults += positions.faults
        return self.outcome

    @property
    def _actions(self) -> list[str]:
        return [target.action for target in self._targets]

    @property
    def _checkpoint(self) -> Path:
        return self._node.data_dir / "pipeline" / "checkpoint"

    def _settings(self) -> str:
        lines = [
            'dashboard.listeners.http.bind = "127.0.0.1:0"',
            f"actions.engine = {self._engine}",
            'durable_storage.messages.topics = ["only/rows"]',  # so that acknowledgements wait for rows alone
        ]
        if self._changes:
            lines.append(_SPARK)
        for target in self._targets:
            kind, _, name = target.action.partition(":")
            # So few that a kill finds many batches under way.
            action = {"connector": name, "parameters": target.parameters(), "resource_opts": {"batch_size": 100}}
            lines.append(f"connectors.{kind}.{name} {json.dumps(target.connector())}")
            lines.append(f"actions.{kind}.{name} {json.dumps(action)}")
        actions = json.dumps(self._actions)
        lines.append(f"""rule_engine.rules.kills {{ sql = "SELECT * FROM '{_TOPIC}'", actions = {actions} }}""")
        return "\n".join(lines)

    def _kill(self, kind: str, number: int) -> None:
        before = self._counts()
        if kind == RUNNER:
            self._await("the engine runs", lambda: self._engine_process() is not None)
            with suppress(ProcessLookupError):
                os.kill(self._engine_process() or 0, signal.SIGKILL)
        elif kind == NODE:
            self._node.kill()
            self._change_engine(number)
            self._node.start()
        else:
            self._random.choice(self._targets).kill()
        self.outcome.kills[kind] += 1
        self._await_rows(before, [self._random.choice(self._actions)])
        time.sleep(self._random.uniform(0, _PAUSE_MAX_S))  # to meet it at any step

    def _let_catch_up(self, publisher: "NumberedPublisher") -> None:
        """Hold the publisher while a target is far behind it, so that a run ends on a machine that is busy."""
        published = len(publisher.acknowledged)
        if min(self._counts().values()) < published - _BEHIND_MAX:
            publisher.may_go.clear()
            self._await("targets catch up", lambda: min(self._counts().values()) >= published - _BEHIND_MAX // 2)
            publisher.may_go.set()

    def _change_engine(self, number: int) -> None:
        """Change it with every so many kills, spread over the run."""
        if self.outcome.changes < self._changes * (number + 1) // len(self._plan):
            self._engine = _ENGINES[self._engine == _ENGINES[0]]
            self._node.settings = self._settings()
            self.outcome.changes += 1

    def _engine_process(self) -> int | None:
        """The process that brings rows to the targets: the runner, or the driver of the pipeline."""
        file = self._node.data_dir / "pipeline" / "runner" / "status.json"
        if self._engine == "spark":
            file = self._checkpoint / "status.json"
        try:
            pid = int(json.loads(file.read_bytes())["pid"])
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid

    def _counts(self) -> dict[str, int]:
        return {target.action: target.count() or 0 for target in self._targets}

    def _await_rows(self, before: dict[str, int], actions: list[str]) -> None:
        """Wait until targets have more rows than before; one that was away when they were counted has more at once."""
        for target in self._targets:
            if target.action in actions:
                self._await(f"rows come to {target.action}", partial(_has_more_rows, target, before[target.action]))

    def _await(self, what: str, condition: Callable[[], object]) -> None:
        wait_until(condition, lambda: f"{what}: {self._log()}", is_alive=self._node.is_alive, deadline_s=_DEADLINE_S)

    def _log(self) -> str:
        file = self._node.data_dir / "pipeline" / "runner" / "runner.log"
        return file.read_text(errors="replace")[-3000:] if file.exists() else "no log"

    def _finish(self) -> None:
        self._stored = {action: self._stored_for(action) for action in self._actions}
        for target in self._targets:
            self._await(f"{target.action} has every row", partial(self._has_every_row, target))
        # A batch that is brought again may still be on its way.
        self._await("no batch is under way", lambda: all(map(self._is_done, self._actions)))

    def _has_every_row(self, target: KilledTarget) -> bool:
        return target.count() is not None and set(self._stored[target.action]) <= set(target.rows())

    def _is_done(self, action: str) -> bool:
        directory = self._checkpoint / query_name(action)
        return _newest(directory / "offsets") == _newest(directory / "commits")

    def _stored_for(self, action: str) -> list[int]:
        selection = MessageSelection("messages", (f"$pipeline/{action}/+",))
        found: list[int] = []
        with StorageClient(f"127.0.0.1:{self._node.flight_port}") as client:
            for stream in sorted(one.stream for one in client.streams(selection)):
                for chunk in client.read(selection, stream, columns=["payload"]):
                    found += [json.loads(json.loads(row)["payload"])["n"] for row in chunk.column(0).to_pylist()]
        return found

    def _judge(self, acknowledged: set[int]) -> None:
        faults = self.outcome.faults
        for target in self._targets:
            action, rows, stored = target.action, target.rows(), self._stored[target.action]
            self.outcome.rows[action] = len(rows)
            self.outcome.doubles[action] = len(rows) - len(stored)
            if lost := acknowledged - set(stored):
                faults.append(f"{action}: {len(lost)} acknowledged messages are not stored: {_shown(lost)}")
            if target.is_exact and rows != stored:
                faults.append(f"{action}: the rows are not those that are stored: {_difference(rows, stored)}")
            if missing := Counter(stored) - Counter(rows):
                faults.append(f"{action}: {missing.total()} rows are lost, as {min(missing)}")
            if extra := set(rows) - set(stored):
                faults.append(f"{action}: {len(extra)} rows are of no message, as {min(extra)}")
            if list(dict.fromkeys(rows)) != list(dict.fromkeys(stored)):
                faults.append(f"{action}: rows came for the first time in another order than they were stored in")


class NumberedPublisher:
    """Publishes numbered messages at QoS 1, and again after a connection was lost. A context, in which it publishes.

    Attributes:
        acknowledged: The numbers of those that the node has acknowledged.
        may_go: Whether it goes on; set at first.
    """

    def __init__(self, port: int) -> None:
        self.acknowledged: set[int] = set()
        self.may_go = threading.Event()
        self.may_go.set()
        self._is_over = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, "device", protocol=MQTTProtocolVersion.MQTTv5)
        self._client.reconnect_delay_set(1, 1)
        self._taken: set[int] = set()
        self._client.on_publish = self._on_publish
        self._client.connect("127.0.0.1", port)
        self._thread = threading.Thread(target=self._publish)

    def __enter__(self) -> Self:
        self._client.loop_start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()

    def _on_publish(self, client: object, data: object, packet_id: int, reason: ReasonCode, _: object) -> None:
        assert not reason.is_failure, reason
        self._taken.add(packet_id)

    def _publish(self) -> None:
        under_way: deque[tuple[int, int]] = deque()
        number = 0
        while under_way or not self._is_over.is_set():
            if not self._is_over.is_set() and self.may_go.is_set() and len(under_way) < _WINDOW:
                under_way.append((number, self._client.publish(_TOPIC, json.dumps({"n": number}), 1).mid))
                number += 1
            while under_way and under_way[0][1] in self._taken:
                done, packet_id = under_way.popleft()
                self._taken.remove(packet_id)
                self.acknowledged.add(done)
            time.sleep(_PAUSE_S)  # a device sends now and then


class SeenPositions:
    """Watches the checkpoints of actions: no position goes back. A context, in which it watches.

    Attributes:
        faults: What went back.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.faults: list[str] = []
        self._checkpoint = checkpoint
        self._done: dict[str, int] = {}
        self._ends: dict[tuple[str, int], str] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            for directory in filter(Path.is_dir, self._checkpoint.glob("*")):  # Spark's log is beside them
                self._look(directory)

    def _look(self, directory: Path) -> None:
        name, done = directory.name, _newest(directory / "commits")
        if done < self._done.get(name, -1):
            self.faults.append(f"{name}: batch {self._done[name]} was done, and then {done} was the last")
        self._done[name] = max(done, self._done.get(name, -1))
        with suppress(FileNotFoundError):  # older ones are removed meanwhile
            text = (directory / "offsets" / str(done)).read_text().splitlines()[-1]
            if text != self._ends.setdefault((name, done), text):
                self.faults.append(f"{name}: the end of batch {done}, which was done, has changed")


def _has_more_rows(target: KilledTarget, before: int) -> bool:
    return (target.count() or 0) > before


def _newest(numbered: Path) -> int:
    return max((int(file.name) for file in numbered.glob("*") if file.name.isdigit()), default=-1)


def _difference(rows: list[int], stored: list[int]) -> str:
    more, less = Counter(rows) - Counter(stored), Counter(stored) - Counter(rows)
    if more or less:
        return f"{more.total()} too many{_first(more)}, {less.total()} too few{_first(less)}"
    return "their order differs"


def _shown(numbers: set[int]) -> str:
    shown = sorted(numbers)[:_SHOWN_MAX]
    return f"{', '.join(map(str, shown))}{', ...' if len(numbers) > len(shown) else ''}"


def _first(numbers: Counter[int]) -> str:
    return f", as {min(numbers)}" if numbers else ""
