"""Protobuf schemas: text `.proto` compiled when the schema is made, messages to maps and back."""

import tempfile
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import _protoc_compiler, protoc

from heliograph.rules.schemas.interface import SchemaError, fault_of
from heliograph.rules.schemas.protobuf_values import MessageDecoder, MessageEncoder
from heliograph.rules.schemas.settings import PROTOBUF, SchemaSourceError
from heliograph.rules.values import Value

_LISTED_NAMES_MAX: Final = 20
_PROBLEMS_MAX: Final = 5


class MessageType:
    """One kind of message of a schema, with its decoder and encoder."""

    def __init__(self, descriptor: Descriptor, *, has_required: bool) -> None:
        self.descriptor = descriptor
        self.name = descriptor.name
        self._class: Any = GetMessageClass(descriptor)
        self._from_string = self._class.FromString
        self._decode = MessageDecoder(descriptor, {}).decode
        self._encoder = MessageEncoder(descriptor, {})
        self._has_required = has_required

    def parse(self, data: bytes) -> Message:
        try:
            message: Message = self._from_string(data)
        except DecodeError:
            raise SchemaError(f"these are not bytes of the Protobuf message {self.name}") from None
        if self._has_required:
            self._require_all(message)
        return message

    def decode(self, data: bytes) -> Value:
        return self._decode(self.parse(data))

    def encode(self, value: Value) -> bytes:
        message: Message = self._class()
        self._encoder.fill(message, value, "")
        if self._has_required:
            self._require_all(message)
        try:
            return message.SerializeToString(deterministic=True)
        except (EncodeError, ValueError) as error:
            raise SchemaError(f"the value does not fit the Protobuf message {self.name}: {error}") from None

    def _require_all(self, message: Message) -> None:
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())  # type: ignore[attr-defined]  # a method that the stubs of protobuf leave out
            raise SchemaError(f"the Protobuf message {self.name} lacks {missing:.300}")


class ProtobufSchema:
    """The messages of a `.proto` file, ready to be used.

    Args:
        sources: Text of each file by its path, as imports name it.
        default: The message that is meant where none is named; None for the only one, if there is only one.
    """

    kind = PROTOBUF
    may_block = False

    def __init__(self, name: str, sources: Mapping[str, str], root: str, default: str | None = None) -> None:
        self.name = name
        pool, compiled = compile_protobuf(sources, root)
        self._pool = pool
        file = compiled.file[-1]
        self._package = file.package
        self._has_required = any(one.syntax != "proto3" for one in compiled.file)
        self._messages = tuple(file.message_type)
        names = [message.name for message in file.message_type]
        if not names:
            raise SchemaSourceError("it defines no message")
        self.message_names = tuple(names)
        self._default = default or (names[0] if len(names) == 1 else None)
        # Names that rules make up are not kept: a publisher may choose them.
        self._types: dict[str, MessageType] = {}

    @property
    def message_types(self) -> frozenset[str]:
        """Every name by which a message of the root file can be meant."""
        names: set[str] = set()
        pending = [(message, message.name) for message in self._messages]
        while pending:
            message, name = pending.pop()
            names |= {name, f"{self._package}.{name}" if self._package else name}
            pending += [(inner, f"{name}.{inner.name}") for inner in message.nested_type]
        return frozenset(names)

    def message(self, message_type: str | None) -> MessageType:
        """A kind of message by its name, with or without the package; a nested one as `Outer.Inner`."""
        name = message_type or self._default
        if name is None:
            raise SchemaError(f"name one of its messages: {self._names()}")
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = MessageType(self._descriptor(name), has_required=self._has_required)
        return found

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        return self.message(message_type).decode(data)

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        return self.message(message_type).encode(value)

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        kind = self.message(message_type)
        return fault_of(data, kind.parse, kind.encode)

    def _descriptor(self, name: str) -> Descriptor:
        for full_name in (f"{self._package}.{name}" if self._package else name, name):
            try:
                return self._pool.FindMessageTypeByName(full_name)
            except KeyError:
                continue
        raise SchemaError(f"it has no message {name!r:.100}; there are: {self._names()}")

    def _names(self) -> str:
        more = len(self.message_names) - _LISTED_NAMES_MAX
        return ", ".join(self.message_names[:_LISTED_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

    def __repr__(self) -> str:
        return f"ProtobufSchema({self.name}: {self._names()})"


def compile_protobuf(sources: Mapping[str, str], root: str) -> tuple[DescriptorPool, FileDescriptorSet]:
    """Compile a file with those that it imports.

    Args:
        sources: Text of each file by its path, as imports name it. Those of `google/protobuf` need not be there.

    Returns:
        The pool of everything in it, and the files in the order in which they import one another, the root last.
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
        problems = [_problem(one, root) for one in error.errors()[:_PROBLEMS_MAX]]
        raise SchemaSourceError("; ".join(problems)) from None


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
