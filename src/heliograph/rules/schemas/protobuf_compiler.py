"""Text of `.proto` files to descriptors, in this process: the compiler is a library, and nothing is fetched."""

import tempfile
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_tools import _protoc_compiler, protoc

from heliograph.rules.schemas.settings import SchemaSourceError

_PROBLEMS_TOLD_MAX: Final = 5


def compile_protobuf(sources: Mapping[str, str], root: str) -> tuple[DescriptorPool, FileDescriptorSet]:
    """Compile a file with those that it imports.

    Args:
        sources: Text of each file by its path, as imports name it. Those of `google/protobuf` need not be there.
        root: Path of the file that is compiled.

    Returns:
        The pool of everything in it, and the files in the order in which they import one another, the root last.

    Raises:
        SchemaSourceError: The compiler refuses it; the message has file, line and column.
    """
    with tempfile.TemporaryDirectory(prefix="heliograph-proto-") as directory:
        for path, text in sources.items():
            _write(Path(directory), path, text)
        with as_file(files("grpc_tools") / "_proto") as well_known:
            includes = [directory, str(well_known)]
            _check(root, includes)
            compiled = _descriptors(root, includes, Path(directory))
    pool = DescriptorPool()
    for one in compiled.file:
        pool.Add(one)
    return pool, compiled


def _write(directory: Path, path: str, text: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise SchemaSourceError(f"the path {path!r} of a file leads out of its directory")
    target = directory / pure
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def _check(root: str, includes: list[str]) -> None:
    """Compile once for the mistakes: only this form of the compiler tells them to its caller."""
    try:
        _protoc_compiler.get_protos(root.encode(), [include.encode() for include in includes])
    except _protoc_compiler.ProtocErrors as error:
        told = [_problem(one, root) for one in error.errors()[:_PROBLEMS_TOLD_MAX]]
        raise SchemaSourceError("; ".join(told)) from None


def _problem(error: "_protoc_compiler.ProtocError", root: str) -> str:
    text = error.message.decode(errors="replace")
    if error.line < 0:
        return f"{error.filename.decode(errors='replace')}: {text}"
    file = error.filename.decode(errors="replace")
    return f"{'' if file == root == 'schema' else f'{file}, '}line {error.line + 1}, column {error.column + 1}: {text}"


def _descriptors(root: str, includes: list[str], directory: Path) -> FileDescriptorSet:
    target = directory / ".descriptors"
    options = [f"-I{include}" for include in includes]
    code = protoc.main(["protoc", *options, f"--descriptor_set_out={target}", "--include_imports", root])
    if code != 0:
        raise SchemaSourceError("the Protobuf compiler refused it and did not say why")
    try:
        return FileDescriptorSet.FromString(target.read_bytes())
    except (OSError, DecodeError) as error:
        raise SchemaSourceError(f"the Protobuf compiler did not do its work: {error}") from None
