"""The sink `mongodb`: a document for each row, each once.

A document gets an `_id` made of the batch and the row's number in it, so a batch that runs again finds what it has
inserted: a duplicate of that key is no error. A document that brings an `_id` of its own counts as inserted where the
same document is there.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL, Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, TransientError
from heliograph.pipeline.sinks.row_values import RowValues, TextTemplate, check_template_columns
from heliograph.pipeline.sinks.rows import RowField, Rows
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, Text
from heliograph.settings.units import Address

# The library writes whole documents into a log of level debug.
logging.getLogger("pymongo").setLevel(logging.INFO)

SINGLE: Final = "single"
REPLICA_SET: Final = "rs"
SHARDED: Final = "sharded"

_PORT: Final = 27017
_ID: Final = "_id"
_DUPLICATE: Final = 11000
_TEXT_MAX: Final = 300
_DOCUMENT_BYTES_MAX: Final = 16 << 20
# Of a server that is away, starts, stops or is no primary any more, a limit of time, a conflict, a full disk.
_PASSING: Final = frozenset(
    {6, 7, 50, 64, 89, 91, 112, 133, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436, 14031}
)
# We may not write, or there can be no such collection: no fault of a row, unless it named the collection.
_LASTING: Final = frozenset({13, 18})
_NAMESPACE: Final = 73


@dataclass(frozen=True, kw_only=True)
class MongodbSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    mongo_type: str = setting(Choice(SINGLE, REPLICA_SET, SHARDED), SINGLE, "What there is at the addresses.")
    servers: tuple[str, ...] = required(
        ServerAddresses(), "The server, some members of the replica set, or the routers (mongos); port 27017."
    )
    replica_set_name: str | None = optional(Text("a name"), "Of `rs`: the name of the replica set.")
    srv_record: bool = setting(
        Boolean(), False, "Whether `servers` is one host whose SRV and TXT records say the rest."
    )
    database: str = required(Text("the name of a database"), "The database.")
    auth_source: str = setting(Text("the name of a database"), "admin", "The database that knows the user.")
    collection: str = setting(Text("a template of a collection"), "mqtt", "Template of the collection.")
    document: str = setting(
        Text("a template"), "${.}", "Template of the document, a JSON object.", name="payload_template"
    )
    batch_rows: int = setting(Integer(1, 100_000), 1000, "Documents of a request at most.")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    def __post_init__(self) -> None:
        if self.mongo_type == REPLICA_SET and self.replica_set_name is None:
            raise RefusedError("is missing: mongo_type = rs needs it", "replica_set_name")
        if len(self.servers) > 1 and (self.mongo_type == SINGLE or self.srv_record):
            raise RefusedError(f"has several servers, and {SINGLE} or srv_record needs one", "servers")
        for name, text in (("collection", self.collection), ("payload_template", self.document)):
            try:
                TextTemplate(text)
            except ValueError as error:
                raise RefusedError(str(error), name) from None

    @property
    def target(self) -> str:
        return f"MongoDB {self.database}.{self.collection} at {','.join(self.servers)}"

    def check_fields(self, fields: Sequence[RowField]) -> None:
        check_template_columns((self.collection, self.document), fields, self.target)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        identity = f"{batch.owner}-{batch.query}-{batch.number}"
        done: list[tuple[int, int]] = []  # rows that are there, and those of them that were before
        refused: list[tuple[dict[str, Any], str]] = []

        def attempt() -> None:
            begin = 0
            with batch.connections.opened(self.connected) as client:
                for number, chunk in enumerate(rows.chunks(self.batch_rows)):
                    if number >= len(done):
                        inserts = _Inserts(self, client, chunk, identity, begin)
                        inserts.insert()
                        refused.extend((rows.row(chunk, row), reason) for row, reason in inserts.refused.items())
                        done.append((chunk.num_rows - len(inserts.refused), inserts.repeated))
                    begin += chunk.num_rows

        attempts = Attempts(self.retry, tell=batch.tell_retry)
        attempts.run(attempt)
        for row, reason in refused:
            batch.refuse(row, reason)
        figures = {"rows": sum(count for count, _ in done), "repeated": sum(count for _, count in done)}
        return Written(figures=figures | {"retries": attempts.retries, "refused": len(refused)})

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A client that has reached a server, and whose servers may all be connected to."""
        try:
            from pymongo import MongoClient
        except ImportError as error:
            raise SinkError(f"the sink mongodb needs pymongo: {INSTALL}") from error
        # The library resolves names and connects by itself, so they are looked at before, and what it finds after.
        if not self.srv_record:
            for server in self.servers:
                self.addresses_of(ServerAddress(_PORT).convert(server))
        with self.translated():
            client: Any = MongoClient(**self._arguments())
        try:
            with self.translated():
                client[self.auth_source if self.username else self.database].command("ping")
            for host, port in client.nodes:
                self.deny_or_leave(Address(host, port))
            yield client
        finally:
            client.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate what the library raises for other reasons than a row."""
        from pymongo import errors

        try:
            yield
        except (errors.ConnectionFailure, errors.WTimeoutError, errors.ExecutionTimeout) as error:
            text = str(error).partition(", Topology Description:")[0][:_TEXT_MAX]
            raise TransientError(f"{self.target}: {text}") from error
        except errors.OperationFailure as error:
            text = f"{self.target}: {_sentence(error.details or {}) or str(error)[:_TEXT_MAX]}"
            raise (TransientError if error.code in _PASSING else SinkError)(text) from error
        except (errors.PyMongoError, OSError) as error:
            raise SinkError(f"{self.target}: {str(error)[:_TEXT_MAX]}") from error

    def _arguments(self) -> dict[str, Any]:
        milliseconds = max(1, round(1000 * self.timeout_s))
        arguments: dict[str, Any] = {
            "serverSelectionTimeoutMS": milliseconds,
            "connectTimeoutMS": milliseconds,
            "socketTimeoutMS": milliseconds,
            "retryWrites": False,  # one policy tries again
            "w": "majority",
            "journal": True,
            "serverMonitoringMode": "poll",  # one connection that watches a server instead of two
            "appname": "heliograph",
        }
        if self.srv_record:
            arguments["host"] = f"mongodb+srv://{ServerAddress(_PORT).convert(self.servers[0]).host}"
        else:
            arguments["host"] = [str(ServerAddress(_PORT).convert(server)) for server in self.servers]
            arguments["directConnection"] = self.mongo_type == SINGLE
        if self.replica_set_name is not None and self.mongo_type == REPLICA_SET:
            arguments["replicaSet"] = self.replica_set_name
        if self.username is not None:
            arguments |= {"username": self.username, "password": self.password_text or ""}
            arguments["authSource"] = self.auth_source
        if self.tls is not None:
            arguments |= {
                "tls": True,
                "tlsInsecure": not self.tls.verify,
                "tlsCAFile": self.tls.cacertfile or None,
                "tlsCertificateKeyFile": _both(self.tls.certfile, self.tls.keyfile, self.target),
            }
        return arguments


class _Inserts:
    """The documents of a chunk.

    Attributes:
        refused: Reasons, by row.
        repeated: Documents that were there before.
    """

    def __init__(self, sink: MongodbSink, client: Any, chunk: pa.RecordBatch, batch: str, begin: int) -> None:
        self.refused: dict[int, str] = {}
        self.repeated = 0
        self._sink = sink
        self._client = client
        self._own: set[int] = set()
        values, count = RowValues(chunk), chunk.num_rows
        self._collections = TextTemplate(sink.collection).texts(values, count)
        self._left: dict[int, Any] = {}
        for row, value in enumerate(TextTemplate(sink.document).values(values, count)):
            try:
                self._left[row] = self._encoded(row, value, f"{batch}-{begin + row}")
            except ValueError as error:
                self.refused[row] = str(error)

    def insert(self) -> None:
        from pymongo.errors import BulkWriteError, InvalidName, OperationFailure

        has_own_names = TextTemplate(self._sink.collection).has_values
        for collection in dict.fromkeys(self._collections[row] for row in self._left):
            rows = [row for row in self._left if self._collections[row] == collection]
            with self._sink.translated():
                try:
                    target = self._client[self._sink.database][collection]
                    target.insert_many([self._left[row] for row in rows], ordered=False)
                    errors: Sequence[Mapping[str, Any]] = ()
                    unsure: Sequence[Mapping[str, Any]] = ()
                except BulkWriteError as error:
                    errors, unsure = error.details["writeErrors"], error.details["writeConcernErrors"]
                except (InvalidName, OperationFailure) as error:
                    if has_own_names and (isinstance(error, InvalidName) or error.code == _NAMESPACE):
                        self._refuse_all(rows, f"there can be no such collection: {error}")
                        continue
                    raise
                again = self._judge(target, rows, errors)
            if again or unsure:
                raise TransientError(f"{self._sink.target}: {again or _sentence(unsure[0])}")
            for row in rows:
                self._left.pop(row, None)

    def _judge(self, target: Any, rows: list[int], errors: Sequence[Mapping[str, Any]]) -> str:
        """Look at the documents that were not inserted; why some may be later, which are left with all of them."""
        again = ""
        for error in errors:
            row, code = rows[error["index"]], error.get("code")
            text = _sentence(error)
            if code in _PASSING:
                again = again or text
            elif code in _LASTING:
                raise SinkError(f"{self._sink.target}: {text}")
            elif code == _DUPLICATE and self._is_there(target, row, error):
                self.repeated += 1
            else:
                self.refused[row] = text
                del self._left[row]
        return again

    def _is_there(self, target: Any, row: int, error: Mapping[str, Any]) -> bool:
        """Whether the key that is there already is that of the document itself."""
        if _ID not in error.get("keyPattern", {}) and f"index: {_ID}_" not in str(error.get("errmsg")):
            return False
        if row in self._own:
            return True
        found = target.find_one({_ID: self._left[row][_ID]})
        return found is not None and dict(found) == dict(self._left[row])

    def _refuse_all(self, rows: list[int], reason: str) -> None:
        for row in rows:
            self.refused[row] = reason[:_TEXT_MAX]
            del self._left[row]

    def _encoded(self, row: int, value: Any, name: str) -> Any:
        """A document in BSON. Raises `ValueError`."""
        import bson
        from bson.errors import BSONError
        from bson.json_util import loads
        from bson.objectid import ObjectId
        from bson.raw_bson import RawBSONDocument

        try:
            found = loads(value if isinstance(value, str) else json.dumps(value))
        except (ValueError, TypeError, RecursionError, OverflowError, BSONError) as error:
            raise ValueError(f"the document is no JSON: {str(error)[:_TEXT_MAX]}") from None
        if not isinstance(found, dict):
            raise ValueError("the document is no JSON object")
        if _ID not in found:
            self._own.add(row)
            found = {_ID: ObjectId(hashlib.sha256(name.encode()).digest()[:12]), **found}
        try:
            encoded = bson.encode(found)
        except (BSONError, OverflowError, RecursionError, ValueError) as error:
            raise ValueError(f"the document cannot be sent: {str(error)[:_TEXT_MAX]}") from None
        if len(encoded) > _DOCUMENT_BYTES_MAX:
            raise ValueError(f"the document has {len(encoded):,} bytes, and MongoDB takes {_DOCUMENT_BYTES_MAX:,}")
        return RawBSONDocument(encoded)


def _sentence(error: Mapping[str, Any]) -> str:
    code = error.get("codeName") or error.get("code")
    return " ".join(f"{code}: {error.get('errmsg', '')}".split())[:_TEXT_MAX] if error else ""


def _both(certfile: str, keyfile: str, target: str) -> str | None:
    """The file with certificate and key: the library takes one only."""
    if certfile and keyfile and certfile != keyfile:
        raise SinkError(f"{target}: certificate and key stand in one file for MongoDB: name it as certfile alone")
    return certfile or None
