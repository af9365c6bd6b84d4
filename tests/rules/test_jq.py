"""jq programs run in processes of their own: bounded in number, time and memory, and gone when their parent is."""

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from heliograph.rules.columns import MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.jq_process import WORKERS_MAX, Worker, WorkerPool
from heliograph.rules.values import Value
from support.cases import cases
from support.waiting import wait_until

_ENDLESS = b"def f: f; f"

UNLIMITED_S = 3600  # of a program whose time is not what is tested


@pytest.fixture
def workers() -> Iterator[WorkerPool]:
    """A pool of the test's own."""
    made = WorkerPool()
    yield made
    made.close()


def value_of(expression: str, environment: Environment) -> Value:
    rule = CompiledRule(f'SELECT {expression} AS x FROM "#"', environment=environment)
    return rule.apply(MessageColumns("t", b"{}"))[0]["x"]


def test_a_program_that_never_ends_is_stopped_and_the_next_one_runs(workers: WorkerPool) -> None:
    assert workers.evaluate(b".", b"1", UNLIMITED_S) == "[1]"
    (pid,) = workers.pids()
    with pytest.raises(EvaluationFault, match="the program was stopped after 50 ms"):
        workers.evaluate(_ENDLESS, b"1", 0.05)
    assert not psutil.pid_exists(pid)
    assert workers.evaluate(b".", b"2", UNLIMITED_S) == "[2]"


def test_a_program_that_never_ends_leaves_others_alone(workers: WorkerPool) -> None:
    faults: list[str] = []

    def run_endlessly() -> None:
        with pytest.raises(EvaluationFault) as raised:
            workers.evaluate(_ENDLESS, b"1", 60)
        faults.append(str(raised.value))

    threads = [threading.Thread(target=run_endlessly) for _ in range(WORKERS_MAX - 1)]
    for thread in threads:
        thread.start()
    assert [workers.evaluate(b".", b"1", UNLIMITED_S) for _ in range(50)] == ["[1]"] * 50
    while any(thread.is_alive() for thread in threads):
        workers.close()  # again, since a thread may have come to its worker only after the first time
        for thread in threads:
            thread.join(0.1)
    assert set(faults) <= {"the program ended its process; it needs too much memory or nests too deep"}


def test_workers_are_bounded_and_waiting_for_one_counts() -> None:
    limited = WorkerPool(workers_max=1)

    def run_endlessly() -> None:
        with pytest.raises(EvaluationFault):
            limited.evaluate(_ENDLESS, b"1", 60)

    assert limited.evaluate(b".", b"1", UNLIMITED_S) == "[1]"
    thread = threading.Thread(target=run_endlessly)
    thread.start()
    wait_until(lambda: limited.statistics() == {"workers": 1, "idle": 0}, "the worker is busy")
    with pytest.raises(EvaluationFault, match="every worker was busy for 20 ms"):
        limited.evaluate(b".", b"1", 0.02)
    assert limited.statistics() == {"workers": 1, "idle": 0}
    limited.close()
    thread.join()


def test_a_worker_that_answers_while_its_pool_is_closed_is_ended_too(
    workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, made = Worker.ask, list[Worker]()

    def ask_and_close(worker: Worker, program: bytes, document: bytes, deadline: float) -> tuple[bool, str]:
        answer = ask(worker, program, document, deadline)
        made.append(worker)
        workers.close()
        return answer

    monkeypatch.setattr(Worker, "ask", ask_and_close)
    assert workers.evaluate(b".", b"1", UNLIMITED_S) == "[1]"
    (worker,) = made
    assert not psutil.pid_exists(worker.pid)
    assert workers.statistics() == {"workers": 0, "idle": 0}


@cases(
    ("program", "problem"),
    [
        (b'reduce range(100) as $i ("x"; . + .)', "the program ended its process; it needs too much memory"),
        (b'("x" * 1000000) as $text | repeat($text)', "the outputs are longer than 16,777,216 bytes"),
        (b'import "x" as x; .', "module not found"),
        (b"a \x00", "a program holds no NUL"),
    ],
)
def test_what_a_program_may_not(program: bytes, problem: str, workers: WorkerPool) -> None:
    with pytest.raises(EvaluationFault, match=problem):
        workers.evaluate(program, b"1", UNLIMITED_S)
    assert workers.evaluate(b".", b"1", UNLIMITED_S) == "[1]"


def test_an_idle_worker_that_somebody_killed_is_replaced(workers: WorkerPool) -> None:
    workers.evaluate(b".", b"1", UNLIMITED_S)
    (pid,) = workers.pids()
    psutil.Process(pid).send_signal(signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [])
    assert workers.evaluate(b".", b"1", UNLIMITED_S) == "[1]"
    assert workers.pids() != [pid]


def test_large_documents_pass_both_ways(workers: WorkerPool) -> None:
    document = f'["{"x" * 1_000_000}"]'
    assert workers.evaluate(b".", document.encode(), UNLIMITED_S) == f"[{document}]"


# It kills itself when it is told to go on; where the worker is to be busy, as soon as that works.
_PARENT = """
import os, signal, sys, threading, time
import psutil
from heliograph.rules.jq_process import WorkerPool
pool = WorkerPool()
pool.evaluate(b".", b"1", 3600)
worker = psutil.Process(pool.pids()[0])
print(worker.pid, flush=True)
sys.stdin.readline()
if sys.argv[1] == "busy":
    before = sum(worker.cpu_times()[:2])
    threading.Thread(target=pool.evaluate, args=(b"def f: f; f", b"1", 0.5), daemon=True).start()
    while sum(worker.cpu_times()[:2]) < before + 0.05:
        time.sleep(0.01)  # only its time shows that it works
os.kill(os.getpid(), signal.SIGKILL)
"""


@cases("state", ["idle", "busy"])
def test_a_worker_ends_when_its_parent_is_killed(state: str) -> None:
    command = [sys.executable, "-c", _PARENT, state]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.communicate(b"go on\n")
    worker.wait(timeout=30)
    assert not worker.is_running()


def test_a_forked_process_leaves_the_workers_of_its_parent_alone() -> None:
    program = (
        "import os, sys\n"
        "from heliograph.rules.jq_process import WorkerPool\n"
        "pool = WorkerPool()\n"
        "pool.evaluate(b'.', b'1', 3600)\n"
        "before = pool.pids()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    own = WorkerPool()\n"
        "    sys.exit(0 if own.evaluate(b'.', b'2', 3600) == '[2]' and own.pids() != before else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert pool.evaluate(b'.', b'3', 3600) == '[3]'\n"
        "assert pool.pids() == before\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_default_timeout_is_a_setting() -> None:
    environment = Environment(jq_timeout_s=0.05)
    with pytest.raises(RuleEvaluationError, match="jq: the program was stopped after 50 ms"):
        value_of("jq('def f: f; f', 1)", environment)
    assert value_of("jq('.', 1, 10000)", environment) == [1]
    environment.close()


def test_each_environment_has_workers_of_its_own_which_end_with_it() -> None:
    one, other = Environment(), Environment()
    assert value_of("jq('.', 1)", one) == value_of("jq('.', 1)", other) == [1]
    ((pid,), (other_pid,)) = one.jq.pids(), other.jq.pids()
    one.close()
    assert not psutil.pid_exists(pid)
    assert value_of("jq('.', 2)", other) == [2]
    assert other.jq.pids() == [other_pid]
    del other
    gc.collect()
    assert not psutil.pid_exists(other_pid)


@cases(
    ("rule", "may_block"),
    [
        ("SELECT jq('.', payload) AS x FROM \"#\"", True),
        ("SELECT 1 AS x FROM \"#\" WHERE qos > 0 AND NOT (length(jq('.', payload)) > 0)", True),
        ("SELECT CASE WHEN qos = 1 THEN first(jq('.', 1)) END AS x FROM \"#\"", True),
        ("FOREACH [1, 2] AS x DO jq('.', x) AS y FROM \"#\"", True),
        ("FOREACH jq('.[]', payload) AS x FROM \"#\"", True),
        ("FOREACH [1] AS x INCASE first(jq('.', x)) = 1 FROM \"#\"", True),
        ("SELECT upper('jq(1)') AS jq, nosuch(1) AS y FROM \"#\" WHERE topic() = 'a'", False),
    ],
)
def test_a_rule_knows_that_it_may_block(rule: str, may_block: bool) -> None:
    assert CompiledRule(rule).may_block is may_block
