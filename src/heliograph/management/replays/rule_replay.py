"""A rule that is run over stored messages: the state of its process, and the rule's start from then on."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from heliograph.control.proto_v1.pipeline import PIPELINE_BACKFILL, BackfillWanted
from heliograph.management.asking.nodes import Node
from heliograph.management.replays.jobs import CANCELLED, FAILED, FINISHED, RUNNING, Job, Owner, State
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_MODULE: Final = "heliograph.pipeline.replay"  # which needs pyarrow or Spark, and ends with its input
_GRACE_S: Final = 120.0  # beyond the time that the process allows itself: Spark has to be started and ended
_BACKFILL_S: Final = 7 * 86_400.0


class RuleReplay(Job):
    """One replay of a rule.

    Args:
        owner: Who began it.
        order: What was asked for, as its asker sees it again.
        seconds_max: How long the process allows itself.
    """

    def __init__(self, owner: Owner, order: State, seconds_max: float) -> None:
        super().__init__(_MODULE, owner, order, seconds_max + _GRACE_S)
        self._began: State = {}
        self._result = b""
        self._start: State = {}

    async def begun(self) -> None:
        """Wait until it has found its rules, or failed."""
        while not self._began and self.state == RUNNING:
            await self.changed.wait()

    def shown(self) -> State:
        """What is to be known of it, without its result."""
        return {**super().shown(), **self._began, **({"start": self._start} if self._start else {})}

    def whole(self) -> State:
        result = {"result": orjson.loads(zlib.decompress(self._result))} if self._result else {}
        return {**self.shown(), **result}

    async def take(self, report: State) -> None:
        """Keep what its process tells."""
        if "began" in report:
            self._began = report["began"]
        elif "progress" in report:
            self.progress = report["progress"]
        elif "error" in report:
            self.error, self.state = report["error"], FAILED
        elif "result" in report:
            self._result, self.state = zlib.compress(orjson.dumps(report["result"])), FINISHED
            self.progress = {**self.progress, "share": 1.0}

    async def ended(self) -> None:
        """Nothing: only streams need to know."""

    def why_not_started(self) -> str:
        """Why its rule cannot be started from then on; empty where it can."""
        rule = self._began.get("rule", {})
        if self.state != FINISHED:
            return f"the replay is {self.state}: a rule is started when its replay has finished"
        if rule["of"] == "broker":
            return (
                f"the rule {rule['name']} runs in the broker, which acts on messages when they are published: its "
                "actions cannot be done for the past. A rule of the pipeline can be started from then on"
            )
        if rule["of"] != "pipeline":
            return "this SQL is no rule of the pipeline: put it into the pipeline's file, and replay it by its name"
        if rule["is_edited"]:
            return f"the pipeline runs another text of {rule['name']}: change it in its file first, and replay it again"
        if self._start.get("state") == RUNNING:
            return "it is being started already"
        return ""

    def start(self, node: Node, check: Callable[[], Awaitable[None]]) -> None:
        """Run its rule over all that was stored since the stretch began, into its sink.

        Args:
            check: Raises `ApiError` when that may not go on.
        """
        self._start = {"state": RUNNING}
        self.work(self._backfill(node), check, self._refuse_start)
        self.tell()

    def _refuse_start(self, why: str) -> None:
        if self._start["state"] == RUNNING:
            self._start = {"state": FAILED, "message": why}

    async def _backfill(self, node: Node) -> None:
        wanted = BackfillWanted(self._began["rule"]["name"], self.order["from_us"])
        try:
            with node.alone() as alone:
                done = await alone.ask(PIPELINE_BACKFILL(wanted), timeout_s=_BACKFILL_S)
            self._start = {"state": FINISHED, "figures": [orjson.loads(line) for line in done.lines]}
        except (RpcError, UnreachableError) as error:
            self._start = {"state": FAILED, "message": str(error)}
        except asyncio.CancelledError:
            if self._start["state"] == RUNNING:
                self._start = {"state": CANCELLED}
            raise
        finally:
            asyncio.get_running_loop().call_soon(self.tell)  # when this task has ended
