"""The settings that sinks to SQL databases share, and SQL templates, whose placeholders become parameters."""

from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql.types import StructType

from heliograph.client_tls import ClientTls
from heliograph.pipeline.datasource.options import parse_endpoint
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.files.tls import read_tls
from heliograph.pipeline.sinks.interface import OutputMode
from heliograph.pipeline.sinks.retry import DEFAULT_RETRY, RetryPolicy
from heliograph.pipeline.sinks.secret import Secret, read_secret
from heliograph.pipeline.sinks.template import WHOLE_ROW, check_columns, column_at, parts_of, template_fault

#: What an insert does with a row whose key is there already.
UPDATE: Final = "update"
NOTHING: Final = "nothing"

_LEDGER: Final = "heliograph_batches"
_TIMEOUT_S: Final = 60.0
_BATCH_ROWS_MAX: Final = 1_000_000
# What begins a quote or a comment in SQL, with what ends it.
_ENDS: Final = {"'": "'", '"': '"', "`": "`", "--": "\n", "/*": "*/"}

_KEYS: Final = (
    "type",
    "server",
    "database",
    "username",
    "password",
    "password_file",
    "ssl",
    "table",
    "sql",
    "key",
    "on_conflict",
    "create",
    "ledger",
    "batch_rows",
    "timeout",
    "retry",
)


@dataclass(frozen=True)
class SqlTemplate:
    """A statement with parameters, made of a text such as ``INSERT INTO obs (id, t) VALUES (${id}, ${temp})``.

    Attributes:
        statement: The statement, with ``%s`` in the place of each parameter.
        names: What each parameter is: a column, or a path into one.
    """

    statement: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take a template apart.

        Raises:
            ValueError: It has no placeholder, or one in quotes or a comment, where the database would read it as text.
        """
        names: list[str] = []
        statement: list[str] = []
        if fault := template_fault(text):
            raise ValueError(fault)
        opened: tuple[str, ...] = ("", "")
        for part, name in parts_of(text):
            # By both readings, since a database may be set to either: with a backslash as an escape, and without.
            opened = (_left_open(part, opened[0], ""), _left_open(part, opened[1], "\\"))
            statement.append(part.replace("%", "%%"))
            if name is None:
                break
            if any(opened):
                where = "a comment" if {"--", "/*"} & set(opened) else "quotes"
                raise ValueError(f"${{{name}}} stands in {where}: leave these out, as it becomes a parameter, not text")
            if not name or name == WHOLE_ROW:
                raise ValueError(f"${{{name}}} is no parameter: name a column")
            statement.append("%s")
            names.append(name)
        if not names:
            raise ValueError("it takes nothing of a row: it needs placeholders such as ${id}")
        return cls("".join(statement), tuple(names))


@dataclass(frozen=True)
class SqlSettings:
    """Where the rows go, and how.

    Attributes:
        host: The server's host.
        port: Its port.
        database: The database.
        username: Who connects; None leaves it to the client library.
        password: Its password.
        tls: How to speak TLS; None is as the kind does without.
        table: The table, with its schema before a dot if wanted; None where `template` says what is done.
        template: The statement that is executed for each row.
        key: Columns that identify a row: one that is there already is updated or kept.
        on_conflict: Which: `update` or `nothing`.
        create: Whether a table that is not there is created.
        mode: Which rows the batches bring; `complete` replaces what the table has.
        ledger: The table that says which batch was the last.
        batch_rows: Rows that are sent at a time.
        timeout_s: Seconds that one statement may take.
        retry: How often it is tried again.
    """

    host: str
    port: int
    database: str
    username: str | None = None
    password: Secret | None = None
    tls: ClientTls | None = None
    table: str | None = None
    template: SqlTemplate | None = None
    key: tuple[str, ...] = ()
    on_conflict: str = UPDATE
    create: bool = False
    mode: OutputMode = OutputMode.APPEND
    ledger: str = _LEDGER
    batch_rows: int = 10_000
    timeout_s: float = _TIMEOUT_S
    retry: RetryPolicy = DEFAULT_RETRY

    @property
    def place(self) -> str:
        """Where, for people."""
        return f"{self.host}:{self.port}/{self.database}"

    @property
    def what(self) -> str:
        """The table, or that it is a statement, for people."""
        return f"table {self.table}" if self.table is not None else "by a statement"

    @property
    def owned(self) -> tuple[str, ...]:
        """The table, where a batch replaces all of it."""
        if self.mode is OutputMode.COMPLETE:
            return (f"the table {self.table} at {self.place}",)
        return ()


def read_sql_settings(
    section: Section, mode: OutputMode, port: int, batch_rows: int, more_keys: tuple[str, ...]
) -> SqlSettings:
    """Read the section of a sink to an SQL database.

    Args:
        section: The section.
        mode: Which rows the batches bring.
        port: The port where the server is named without one.
        batch_rows: Rows at a time, where nothing is said.
        more_keys: Keys that are valid besides.

    Raises:
        RuleFileError: Something in it is not valid.
    """
    section.check_keys(*_KEYS, *more_keys)
    host, port = read_server(section, port)
    settings = SqlSettings(
        host=host,
        port=port,
        database=section.text("database"),
        username=section.optional_text("username"),
        password=read_secret(section, "password"),
        tls=read_tls(section),
        table=section.optional_text("table"),
        template=_template(section),
        key=section.names("key"),
        on_conflict=_on_conflict(section),
        create=section.flag("create"),
        mode=mode,
        ledger=section.text("ledger", _LEDGER),
        batch_rows=section.number("batch_rows", batch_rows, range(1, _BATCH_ROWS_MAX + 1)),
        timeout_s=section.duration("timeout", _TIMEOUT_S),
        retry=RetryPolicy.read(section),
    )
    _check_whole(section, settings)
    return settings


def read_server(section: Section, port: int) -> tuple[str, int]:
    """The host and port under the key `server`; the port may be missing.

    Raises:
        RuleFileError: It is no server.
    """
    text = section.text("server")
    bare = text.rpartition("]")[2]
    try:
        return parse_endpoint("server", text if ":" in bare else f"{text}:{port}")
    except OptionError as error:
        raise section.mistake(f"{section.path}: {error}", section.fields["server"]) from error


def check_rows_of(settings: SqlSettings, schema: StructType) -> None:
    """Refuse rows that lack a column of the key, or one that the statement takes.

    Raises:
        SinkError: They lack one.
    """
    check_columns(settings.key, schema, f"the key of {settings.what}")
    for name in settings.template.names if settings.template is not None else ():
        column_at(name, schema, f"the statement takes ${{{name}}}")


def _template(section: Section) -> SqlTemplate | None:
    if "sql" not in section.fields:
        return None
    try:
        return SqlTemplate.parse(section.text("sql"))
    except ValueError as error:
        raise section.mistake(f"{section.path}.sql: {error}", section.fields["sql"]) from error


def _on_conflict(section: Section) -> str:
    said = section.text("on_conflict", UPDATE)
    if said not in (UPDATE, NOTHING):
        valid = f"{UPDATE} or {NOTHING}"
        raise section.mistake(
            f"{section.path}.on_conflict is {said!r}, but must be {valid}", section.fields["on_conflict"]
        )
    return said


def _check_whole(section: Section, settings: SqlSettings) -> None:
    if (settings.table is None) == (settings.template is None):
        raise section.mistake(f"{section.path} needs either table or sql: where the rows go, or what is done with each")
    if settings.template is not None:
        for name in ("key", "on_conflict", "create"):
            if name in section.fields:
                told = f"{section.path}.{name} is for a table: with sql, the statement says it"
                raise section.mistake(told, section.fields[name])
        if settings.mode is OutputMode.COMPLETE:
            raise section.mistake(f"{section.path}.sql cannot take mode complete: name a table, which is replaced")
    elif settings.mode is OutputMode.UPDATE and not settings.key:
        raise section.mistake(f"{section.path} has no key: mode update needs the columns that identify a row")


def _left_open(text: str, opened: str, escape: str) -> str:
    """The quote or comment that is open after a text, given the one that is open before it."""
    place = 0
    while place < len(text):
        end = _ENDS.get(opened, "")
        if opened and text.startswith(end, place):
            place, opened = place + len(end), ""
        elif opened in ("'", '"') and escape and text.startswith(escape, place):
            place += 2
        elif not opened and (begin := next((begin for begin in _ENDS if text.startswith(begin, place)), "")):
            place, opened = place + len(begin), begin
        else:
            place += 1
    return opened
