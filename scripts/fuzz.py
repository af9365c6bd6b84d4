"""Fuzzes the broker's parsers and its whole channels, without end if you like. `make fuzz`.

    python scripts/fuzz.py                             every target for a minute each
    python scripts/fuzz.py decoder --runs 10000000     one of them, so many inputs
    python scripts/fuzz.py conversation --engine atheris --seconds 3600
    python scripts/fuzz.py conversation FILE...        run these inputs and nothing else
    python scripts/fuzz.py conversation --adopt FOUND  keep the corpus, and of FOUND what reaches more of the sources

Two engines run the same targets. `atheris` (libFuzzer) knows which lines an input reached and keeps what is new; it
needs the package and the sources (`HELIOGRAPH_PURE=1`, which it sets). `own` changes the inputs of the corpus by
chance, the same ones for the same seed; it runs compiled code too, and watches time and memory from a second process.

It prints inputs, inputs a second, the size of the corpus and the peak of resident memory; it exits with 1 if something
was found, and says in which file the input is that shows it.
"""

import argparse
import gc
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
ARTIFACTS: Final = ROOT / "fuzz-output"
NAMES: Final = ("decoder", "conversation", "filters", "websocket", "handshake")
INSTRUMENTED: Final = "heliograph."
HANG_S: Final = 10
MEMORY_MAX_MB: Final = 2048
_DONE: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_PEAK: Final = re.compile(r"stat::peak_rss_mb:\s*(\d+)")
_CORPUS: Final = re.compile(r"corp: (\d+)/")


def main() -> int:
    """The exit code: 1 if something was found."""
    options = _parser().parse_args()
    if options.worker:
        return _atheris_worker(options)
    if options.engine == "atheris" and importlib.util.find_spec("atheris") is None:
        print("atheris is not installed; use --engine own", file=sys.stderr)
        return 2
    names = [options.target] if options.target else list(NAMES)
    if options.files:
        return _replay(names[0], options.files)
    if options.adopt is not None:
        return _adopt(names[0], options.adopt)
    seconds = options.seconds if options.seconds or options.runs else 60.0
    found = 0
    for name in names:
        run = _run_atheris if options.engine == "atheris" else _run_own
        found += run(name, options.runs, seconds, options.seed)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("target", nargs="?", choices=NAMES, help="what to fuzz; all targets, one after the other")
    parser.add_argument("files", nargs="*", type=Path, help="run these inputs only")
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target")
    parser.add_argument("--seconds", type=float, default=0.0, help="time for each target (60 without --runs)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with")
    parser.add_argument("--keep", type=Path, help="atheris: add what reaches new lines to this directory")
    parser.add_argument(
        "--adopt", type=Path, help="add to the corpus what this directory's inputs reach and it does not"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def _import_targets() -> ModuleType:
    sys.path[0] = str(ROOT / "tests")  # instead of this directory, where `fuzz` would be this file
    return importlib.import_module("fuzz.targets")


def _replay(name: str, files: list[Path]) -> int:
    target = _import_targets().TARGETS[name]
    for file in files:
        target.run(file.read_bytes())
        print(f"{file}: nothing found")
    return 0


def _adopt(name: str, directory: Path) -> int:
    os.environ["HELIOGRAPH_PURE"] = "1"
    targets = _import_targets()
    target, selection, engine = targets.TARGETS[name], *map(importlib.import_module, ("fuzz.selection", "fuzz.engine"))
    kept = selection.select(target.run, target.corpus + engine.corpus(directory))
    selection.write(targets.CORPUS / name, kept)
    print(f"{name}: {len(kept)} inputs of {sum(map(len, kept)):,} bytes")
    return 0


def _say(name: str, runs: int, seconds: float, corpus: int, peak_mb: float, end: str = "\n") -> None:
    rate = runs / seconds if seconds else 0.0
    print(
        f"{name}: {runs:,} inputs in {seconds:,.0f} s, {rate:,.0f}/s, corpus {corpus:,}, peak {peak_mb:,.0f} MiB",
        end=end,
        flush=True,
    )


# --- our own engine


def _run_own(name: str, runs: int, seconds: float, seed: int) -> int:
    targets = _import_targets()
    engine = importlib.import_module("fuzz.engine")
    target = targets.TARGETS[name]
    size = len(target.corpus)
    is_terminal = sys.stdout.isatty()

    def tell(outcome: Any) -> None:
        if is_terminal:
            _say(name, outcome.runs, outcome.seconds, size, outcome.peak_bytes / 2**20, end="\r")

    outcome = engine.fuzz(name, target.run, target.mutator(seed), engine.Budget(runs, seconds), ARTIFACTS, tell)
    _say(name, outcome.runs, outcome.seconds, size, outcome.peak_bytes / 2**20)
    if not outcome.fault:
        return 0
    print(f"{name}: {outcome.fault}", file=sys.stderr)
    if outcome.reproducer is not None:
        print(f"{name}: shown by {outcome.reproducer} (scripts/fuzz.py {name} {outcome.reproducer})", file=sys.stderr)
    return 1


# --- atheris


def _run_atheris(name: str, runs: int, seconds: float, seed: int) -> int:
    options = _parser().parse_args()
    ARTIFACTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        found = options.keep if options.keep is not None else Path(scratch, "found")
        found.mkdir(parents=True, exist_ok=True)
        seeds = Path(scratch, "seeds")
        seeds.mkdir()
        for number, data in enumerate(_import_targets().TARGETS[name].corpus):
            seeds.joinpath(f"{number:05}").write_bytes(data)
        command = [sys.executable, __file__, name, "--worker", "--seed", str(seed)]
        flags = [
            str(found),
            str(seeds),
            f"-artifact_prefix={ARTIFACTS}/{name}-",
            f"-max_total_time={int(seconds)}",
            f"-runs={runs or -1}",
            f"-seed={seed}",
            f"-timeout={HANG_S}",
            f"-rss_limit_mb={MEMORY_MAX_MB}",
            "-max_len=1024",
            "-print_final_stats=1",
        ]
        environment = {**os.environ, "HELIOGRAPH_PURE": "1", "HELIOGRAPH_FUZZ_FLAGS": "\n".join(flags)}
        done = subprocess.run(
            command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
    log = done.stderr
    executed, peak, kept = _DONE.search(log), _PEAK.search(log), _CORPUS.findall(log)
    spent = re.findall(r"Done \d+ runs in (\d+) second", log)
    runs_done = int(executed[1]) if executed else 0
    _say(
        name,
        runs_done,
        float(spent[-1]) if spent else seconds,
        int(kept[-1]) if kept else 0,
        int(peak[1]) if peak else 0,
    )
    if done.returncode:
        print(log[-4000:], file=sys.stderr)
    return 1 if done.returncode else 0


def _atheris_worker(options: argparse.Namespace) -> int:
    atheris = importlib.import_module("atheris")
    target = _import_targets().TARGETS[options.target]
    # Not by its import hook, which would find the compiled modules beside the sources.
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and str(function.__module__).startswith(INSTRUMENTED):
            atheris.instrument_func(function)
    mutator = target.mutator(options.seed)

    def mutate(data: bytes, bytes_max: int, seed: int) -> bytes:
        # Half of the time libFuzzer's own, which knows what was compared with what.
        return bytes(atheris.Mutate(data, bytes_max) if seed & 1 else mutator.mutated(bytearray(data), bytes_max))

    flags = os.environ["HELIOGRAPH_FUZZ_FLAGS"].split("\n")
    atheris.Setup([sys.argv[0], *flags], target.run, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
