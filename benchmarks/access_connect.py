"""What access control costs clients that connect: users of the built-in database, a million of them, and slow hashes.

- connects per second of the broker's CPU time, in turns without authenticators, with users whose passwords are hashed
  with sha256, and with tokens (JWT, HS256): 4,000 clients connect and leave;
- a million users: from the start of the process to the ready line, beside a node without users, and what they add to
  its resident memory after 20,000 of them have logged in;
- 500 clients at once log in with bcrypt, while ten clients of another listener exchange 1,000 messages/s at QoS 1: the
  ratio of their p99 is the median of pairs without and with the logins.

    python benchmarks/access_connect.py [--pairs N] [--users N]
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bcrypt
import jwt
from benchmarks import brokers
from benchmarks.brokers import HELIOGRAPH, Broker, BrokerError
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.logins import Logins, log_in
from benchmarks.noticed import noticed
from benchmarks.peers import PeerError

from heliograph.access.users.intake import user_with_password
from heliograph.access.users.records import PasswordUser
from heliograph.access.users.store import UserStore
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.storage.state.local import LocalState
from support.mosquitto import free_port

OUTPUT: Final = Path("bench-output")
_BUILT_IN: Final = "password_based:built_in_database"
_USERS: Final = "authentication = [{ mechanism = password_based, backend = built_in_database }]\n"
_SECRET: Final = "a secret that is long enough for HS256"
_TOKENS: Final = f"""
authentication = [{{ mechanism = jwt, secret = "{_SECRET}", verify_claims {{ username = "${{username}}" }} }}]
"""
_STORM: Final = """
listeners.tcp.storm {{
  bind = "127.0.0.1:{port}"
  authentication = [{{
    mechanism = password_based, backend = built_in_database, password_hash_algorithm.name = bcrypt
  }}]
}}
"""
_CLIENTS: Final = 4000
_LOGINS: Final = 20_000
_STORM_CLIENTS: Final = 500
_SECONDS: Final = 5.0


class Bench:
    """The measurements; each is a generator of findings."""

    def __init__(self, folder: Path, core: int | None, pairs: int, users: int) -> None:
        self._folder = folder
        self._core = core
        self._pairs = pairs
        self._users = users

    def connects(self) -> Iterator[Finding]:
        """Connects without authenticators, with users and with tokens, in turns."""
        without, guarded, signed = (self._folder / name for name in ("without", "guarded", "signed"))
        asyncio.run(add_users(guarded, "", 1, _user))
        token = jwt.encode({"exp": 2**33, "username": "user-0"}, _SECRET, "HS256")
        alone, users, tokens = [], [], []
        with (
            self._broker(without, "") as free,
            self._broker(guarded, _USERS) as checked,
            self._broker(signed, _TOKENS) as verified,
        ):
            for _ in range(self._pairs):
                alone.append(_connects_per_cpu_s(free))
                users.append(_connects_per_cpu_s(checked))
                tokens.append(_connects_per_cpu_s(verified, token))
        beside = statistics.median(alone)
        for name, rates in (("users with sha256", users), ("JWT with HS256", tokens)):
            what = f"connects per second of CPU time, {name}"
            yield Finding(what, statistics.median(rates), "", 5000, at_most=False, beside=beside)

    def million(self) -> Iterator[Finding]:
        """Start and memory with many users."""
        folder = self._folder / "million"
        asyncio.run(add_users(folder, "", self._users, _user))
        ready: dict[bool, list[float]] = {False: [], True: []}
        memory: dict[bool, int] = {}
        for _ in range(self._pairs):
            for has_users, where in ((False, self._folder / "none"), (True, folder)):
                with self._broker(where, _USERS) as broker:
                    ready[has_users].append(broker.ready_seconds)
                    asyncio.run(_log_in(broker.port, min(_LOGINS, self._users), self._users))
                    memory[has_users] = broker.memory_bytes()
        start, bare = statistics.median(ready[True]), statistics.median(ready[False])
        yield Finding(f"start to ready with {self._users:,} users", start, " s", bare + 1, beside=bare)
        each = (memory[True] - memory[False]) / self._users
        yield Finding(f"memory of each of {self._users:,} users, after {_LOGINS:,} logins", each, " B", 300)

    def storm(self) -> Iterator[Finding]:
        """What others notice of logins with bcrypt."""
        folder, port = self._folder / "storm", free_port()
        stored = PasswordUser(bcrypt.hashpw(b"secret", bcrypt.gensalt(10)))
        asyncio.run(add_users(folder, "tcp:storm", _STORM_CLIENTS, lambda: stored))
        codes: Counter[int] = Counter()
        with self._broker(folder, _STORM.format(port=port)) as broker:
            yield from noticed(
                broker,
                lambda: Logins(port, _STORM_CLIENTS, 1, codes),
                self._pairs,
                _SECONDS,
                (
                    "p99 of QoS 1 messages, without logins",
                    f"the same while {_STORM_CLIENTS} clients log in with bcrypt",
                ),
                2.0,
            )
        yield Finding("logins accepted per second meanwhile", codes[0] / (self._pairs * _SECONDS), "")

    def _broker(self, folder: Path, settings: str) -> Broker:
        return Broker(replace(HELIOGRAPH, settings=settings), folder, self._core)


async def add_users(folder: Path, chain: str, count: int, record: Callable[[], PasswordUser]) -> None:
    """Give a node that does not run users `user-0` and so on, all with one password."""
    state = LocalState(folder / "data", "users")
    state.open()
    store = UserStore(lambda: state)
    users = store.group(PasswordUser, chain, _BUILT_IN)
    await users.take(((f"user-{number}", record()) for number in range(count)), overwrite=True)
    await store.close()


def _user() -> PasswordUser:
    return user_with_password(b"secret", PasswordHashAlgorithm(), is_superuser=False)


async def _log_in(port: int, logins: int, users: int) -> None:
    """Log in with names that are spread over all users, twenty at a time."""
    for first in range(0, logins, 20):
        await asyncio.gather(*(log_in(port, (first + one) * (users // logins)) for one in range(20)))


def _connects_per_cpu_s(broker: Broker, password: str = "secret") -> float:
    before = broker.cpu_seconds()
    words = ["bench", "connect", "--port", broker.port, "--clients", _CLIENTS, "--mqtt", "3.1.1", "--duration", 1]
    options = ["--username", "user-0", "--password", password, "--json", "--quiet"]
    command = [sys.executable, "-m", "heliograph.cli.main", *map(str, words), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"heliograph bench failed: {done.stderr.strip()}")
    return _CLIENTS / (broker.cpu_seconds() - before)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, _ = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        bench = Bench(Path(folder), broker_core, args.pairs, args.users)
        cases = {"connects": bench.connects, "million": bench.million, "storm": bench.storm}
        for name in args.only or cases:
            try:
                findings += cases[name]()
            except (BrokerError, PeerError, OSError) as error:
                notes.append(f"FAILED: {name}: {error}")
    conditions = f"{machine()}, {args.pairs} pairs"
    return report(args, "access-connect", "", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with (default: %(default)s)")
    parser.add_argument("--users", type=int, default=1_000_000, help="of the built-in database (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=("connects", "million", "storm"), help="default: all")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
