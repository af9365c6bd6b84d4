"""Commands about the pipeline of a node: its dead letters, what its rules would make of the last messages.

Each is the command that people have, in a process of its own with the settings of the node's pipeline; one at a time,
since some of them start Spark. Dead letters of actions without Spark are shown and replayed without a pipeline.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from heliograph.actions.figures import query_name
from heliograph.config.actions.roots import LOCAL, all_actions, engine_of, running_actions
from heliograph.config.settings import Config
from heliograph.control.proto_v1.pipeline import DeadLettersWanted, LateReplayWanted, LateRowsWanted
from heliograph.node.action_runner import ActionRunnerPart
from heliograph.node.pipeline import COMMAND, PipelinePart, PipelineProcess, output_of
from heliograph.processes.programs import PROGRAMS
from heliograph.rpc.codes import BAD_ARGUMENTS, OVERLOADED
from heliograph.rpc.methods import RpcError
from heliograph.settings.secrets import SecretError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_LETTERS_MAX: Final = 1000
_MESSAGES_MAX: Final = 1000
_OUTPUT_BYTES_MAX: Final = 3 << 20  # of an answer
_OUTPUT: Final = ("--output",)
_WITHOUT_VALUE: Final = ("--watch-stdin",)


class PipelineTools:
    """Owned by the control socket.

    Args:
        config: The settings of the node now.
    """

    def __init__(
        self, pipeline: PipelinePart, runner: ActionRunnerPart, config: Callable[[], Config], data_dir: Path
    ) -> None:
        self._pipeline = pipeline
        self._runner = runner
        self._config = config
        self._data_dir = data_dir
        self._one_at_a_time = asyncio.Lock()
        self._one_backfill = asyncio.Lock()  # it may last for hours

    async def dead_letters(self, args: DeadLettersWanted) -> list[str]:
        """Lines of JSON: of one rule or action, or how many there are of each."""
        _check_limit(args.limit)
        words = ["dlq", "ls"]
        if args.rule:
            words = ["dlq", "show", _query(args.rule), "--limit", str(args.limit)]
            words += ["--all"] if args.with_replayed else []
        output = output_of(self._config().pipeline, self._data_dir)
        if not await asyncio.to_thread(Path(output).is_dir):
            return []  # nothing was refused yet
        command = [*COMMAND, *words, "--path", _name(args.path), "--json", "--output", output]
        async with self._one(self._one_at_a_time):
            lines = await _lines(command, dict(os.environ))
        actions = self._actions()
        return [json.dumps({**(letter := json.loads(line)), "action": actions.get(letter["rule"])}) for line in lines]

    async def late_rows(self, args: LateRowsWanted) -> list[str]:
        """Lines of JSON: of one query, or how many there are of each."""
        _check_limit(args.limit)
        words = ["late", "ls"]
        if args.query:
            words = ["late", "show", _name(args.query), "--limit", str(args.limit)]
            words += ["--all"] if args.with_replayed else []
        return await self._run([*words, "--path", _name(args.path), "--json"], _OUTPUT)

    async def replay(self, rule: str) -> list[str]:
        """Bring the rows of dead letters to their sink: of an action, or of a rule as it is now."""
        query = _query(rule)
        action_id = self._actions().get(query, "")
        if not action_id or engine_of(self._config().actions.engine, action_id.partition(":")[0]) != LOCAL:
            return await self._run(["dlq", "replay", query, "--json"], None)
        if action_id not in running_actions(self._config().connectors, self._config().actions):
            raise RpcError("pipeline_command", f"{action_id}, or its connector, is disabled: enable it first")
        try:
            async with self._one(self._one_at_a_time):
                with self._runner.replay_command(action_id) as command:
                    return await _lines(command, dict(os.environ))
        except SecretError as error:
            raise RpcError("pipeline_command", str(error)) from error

    def _actions(self) -> dict[str, str]:
        """The actions by the names of their queries."""
        named = (f"{kind}:{name}" for kind, name, _ in all_actions(self._config().actions))
        return {query_name(action_id): action_id for action_id in named}

    async def replay_late_rows(self, args: LateReplayWanted) -> list[str]:
        """Bring the late rows of a query to a place of their own."""
        if bool(args.table) == bool(args.sink):
            raise RpcError(BAD_ARGUMENTS, "late rows go to a table or to a sink: name one of them")
        given = {"--table": args.table, "--sink": args.sink, "--view": args.view}
        words = [word for option, name in given.items() if name for word in (option, _name(name))]
        return await self._run(["late", "replay", _name(args.query), "--json", *words], None)

    async def plan(self, rule: str, last: int) -> list[str]:
        """What rules make of the last messages; nothing is written."""
        if not 1 <= last <= _MESSAGES_MAX:
            raise RpcError(BAD_ARGUMENTS, f"a plan is made of the last 1 to {_MESSAGES_MAX} messages, not {last}")
        words = ["plan", "--last", str(last), "--json", *(["--rule", _name(rule)] if rule else [])]
        return await self._run(words, None, without=("--checkpoint", "--output"))

    async def backfill(self, rule: str, since: str) -> list[str]:
        """Run a rule over what was stored since a time, up to where its query began, into its sink."""
        words = ["backfill", "--rule", _name(rule), "--from", _time(since), "--json"]
        return await self._run(words, None, lock=self._one_backfill)

    def _process(self) -> PipelineProcess:
        process = self._pipeline.process
        if process is None:
            raise RpcError("not_enabled", "this node runs no pipeline (pipeline.enable)")
        return process

    @asynccontextmanager
    async def _one(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        if lock.locked():
            raise RpcError(OVERLOADED, "another command about the pipeline is under way: try again when it has ended")
        async with lock:
            yield

    async def _run(
        self,
        words: Sequence[str],
        only: Sequence[str] | None,
        without: Sequence[str] = (),
        lock: asyncio.Lock | None = None,
    ) -> list[str]:
        """Run a command.

        Args:
            only: The options of the pipeline that it takes; None for all, with its files.
            without: Those of them that it does not take.
            lock: What keeps others of its kind away; None for that of all commands that are short.
        """
        process = self._process()
        async with self._one(lock or self._one_at_a_time):
            begin, files, options = _parts(process.command())
            if only == _OUTPUT and not await asyncio.to_thread(Path(dict(options)["--output"]).is_dir):
                return []  # it has yet to write something
            kept = [(name, value) for name, value in options if name not in (*without, "--trigger")]
            if only is not None:
                files, kept = [], [(name, value) for name, value in kept if name in only]
            else:
                words = [*words, "--spark-log", str(Path(process.log_file).with_name("commands.spark.log"))]
            given = [word for pair in kept for word in pair]
            return await _lines([*begin, *words, *files, *given], process.environment())


def _parts(command: Sequence[str]) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """The module and its command, the files, and the options with their values."""
    at = command.index("run")
    files, options = [], []
    rest = iter(command[at + 1 :])
    for word in rest:
        if word in _WITHOUT_VALUE:
            continue
        if word.startswith("--") and "=" not in word:
            options.append((word, next(rest)))
        else:
            files.append(word)
    return list(command[:at]), files, options


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= _LETTERS_MAX:
        raise RpcError(BAD_ARGUMENTS, f"a limit is 1 to {_LETTERS_MAX}, not {limit}")


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise RpcError(BAD_ARGUMENTS, f"{text[:100]!r} is no name of a rule or table: letters, digits, -, _ and .")
    return text


def _query(name: str) -> str:
    """The query of a name, which may be that of an action."""
    return query_name(name) if ":" in name else _name(name)


def _time(text: str) -> str:
    if text != "earliest" and not (text.isascii() and text.isdigit()):
        raise RpcError(BAD_ARGUMENTS, f"{text[:100]!r} is neither earliest nor microseconds since the epoch")
    return text


async def _lines(command: Sequence[str], environment: dict[str, str]) -> list[str]:
    """What a module prints; it and what it has started are ended where the caller is cancelled."""
    pipe = asyncio.subprocess.PIPE
    running = await PROGRAMS.start(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )
    try:
        stdout, stderr = await running.communicate()
    finally:
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)
            await running.wait()
    if running.returncode:
        words = stderr.decode(errors="replace").strip().splitlines()
        last = next((line for line in reversed(words) if line.startswith("heliograph")), words[-1] if words else "")
        raise RpcError("pipeline_command", last.removeprefix("heliograph pipeline: ") or "it ended without a word")
    if len(stdout) > _OUTPUT_BYTES_MAX:
        raise RpcError(BAD_ARGUMENTS, "there is more of it than an answer may hold: ask for less")
    return [line for line in stdout.decode(errors="replace").splitlines() if line.startswith("{")]
