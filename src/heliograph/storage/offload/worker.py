"""The offload process: writes generations as Parquet, reads blocks back, removes files; asked over its pipes.

    python -m heliograph.storage.offload.worker --data-dir DIR

The requests, by `do` (see `process` for their form):

- `write` (database, shard, generation, target): answers `files` when they are whole and verified, then what takes the
  place of blocks (`offload_record.Replacement`).
- `resume` (database, shard, generation, target, files): the latter for files that were verified before.
- `fetch` (target, stream, key, stub): the block that a stub stands for.
- `remove` (target, files): removes them; what is gone already is no fault.

It opens RocksDB as a secondary and takes nothing from the broker. A fetch does not wait for a generation that is
written meanwhile. When its standard input closes, as it does when the broker dies however it dies, it ends at once, and
what it was writing is overwritten another time.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.offloaded import OffloadedFile, OffloadError, Replacement
from heliograph.storage.columnar.secondary import READERS, reading
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamId
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.offload.files import replacements, verified_replacements, write_files
from heliograph.storage.offload.target import Target, remove_file

_FRAME_BYTES: Final = 64 << 10
_NICENESS: Final = 10

Answer = tuple[dict[str, object], bytes]


class OffloadWorker:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._blocks = OffloadedBlocks(data_dir)

    def write(self, fields: dict[str, Any]) -> Iterator[Answer]:
        target = Target.open(fields["target"], self._data_dir)
        with reading(self._data_dir, fields["database"]) as (rocks, catalog):
            generation = _generation(catalog, fields)
            files = write_files(rocks, catalog, generation, target)
            verified = verified_replacements(rocks, catalog, generation, target, files)
        yield {"files": [file.to_json() for file in files]}, b""
        yield from _frames(verified)

    def resume(self, fields: dict[str, Any]) -> Iterator[Answer]:
        target = Target.open(fields["target"], self._data_dir)
        files = [OffloadedFile(**file) for file in fields["files"]]
        with reading(self._data_dir, fields["database"]) as (rocks, catalog):
            found = replacements(rocks, _generation(catalog, fields), target, files)
        yield from _frames(found)

    def fetch(self, fields: dict[str, Any]) -> Iterator[Answer]:
        key, stub = bytes.fromhex(fields["key"]), bytes.fromhex(fields["stub"])
        yield {}, self._blocks.read(fields["target"], StreamId.parse(fields["stream"]), key, stub)

    def remove(self, fields: dict[str, Any]) -> Iterator[Answer]:
        target = Target.open(fields["target"], self._data_dir)
        for file in fields["files"]:
            remove_file(target, file["path"])
        yield from ()


def _generation(catalog: Catalog, fields: dict[str, Any]) -> Generation:
    for generation in catalog.generations():
        info = generation.info
        if (info.shard, info.number) == (fields["shard"], fields["generation"]) and info.until is not None:
            return generation
    raise OffloadError(f"there is no closed generation {fields['generation']}", database=catalog.name)


def _frames(found: Iterable[Replacement]) -> Iterator[Answer]:
    waiting: list[list[str]] = []
    size = 0
    for one in found:
        waiting.append([field.hex() for field in one])
        size += sum(map(len, waiting[-1]))
        if size >= _FRAME_BYTES:
            yield {}, json.dumps(waiting).encode()
            waiting, size = [], 0
    if waiting:
        yield {}, json.dumps(waiting).encode()


class _Answers:
    """Writes answers, each whole."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def carry_out(self, act: Callable[[dict[str, Any]], Iterator[Answer]], fields: dict[str, Any]) -> None:
        number = fields["id"]
        try:
            for header, payload in act(fields):
                self._say({"id": number, **header}, payload)
            self._say({"id": number, "end": True})
        except StorageError as error:
            self._say({"id": number, "error": error.problem, "code": error.code})
        except Exception as error:  # noqa: BLE001 - the broker tells people, and tries again
            self._say({"id": number, "error": f"{type(error).__name__}: {error}", "code": OffloadError.code})

    def _say(self, header: dict[str, object], payload: bytes = b"") -> None:
        with self._lock:
            self._out.write(json.dumps({**header, "bytes": len(payload)}).encode() + b"\n" + payload)
            self._out.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Answer requests until standard input closes."""
    parser = argparse.ArgumentParser(prog="heliograph.storage.offload.worker", description="Write and read offload.")
    parser.add_argument("--data-dir", type=Path, required=True, help="the data directory of the node")
    data_dir: Path = parser.parse_args(arguments).data_dir
    worker = OffloadWorker(data_dir)
    os.nice(_NICENESS)
    # What a kill leaves there is removed by the next reader process.
    scratch = databases_path(data_dir) / READERS / str(os.getpid())
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)
    answers = _Answers(sys.stdout.buffer)
    fetching, working = ThreadPoolExecutor(1, "fetch"), ThreadPoolExecutor(1, "work")
    acts = {
        "write": (worker.write, working),
        "resume": (worker.resume, working),
        "remove": (worker.remove, working),
        "fetch": (worker.fetch, fetching),
    }
    for line in sys.stdin.buffer:
        fields = json.loads(line)
        act, executor = acts[fields["do"]]
        executor.submit(answers.carry_out, act, fields)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
