"""What the sinks of table formats (Delta Lake, Iceberg) have in common: keys of their sections, and their errors."""

from urllib.parse import urlsplit

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.files import table_path
from heliograph.pipeline.sinks.interface import OutputMode
from heliograph.pipeline.sinks.table_locations import is_uri
from heliograph.settings.units import parse_duration

#: How people get the libraries of the sinks.


def check_result_keys(section: Section, mode: OutputMode) -> tuple[str, ...]:
    """The key `key`, which mode update needs.

    Raises:
        RuleFileError: It is not there.
    """
    key = section.names("key")
    if mode is OutputMode.UPDATE and not key:
        raise section.mistake(f"{section.path} has no key: mode update needs the columns that identify a row")
    return key


def lake_path(section: Section) -> str:
    """The key `path`: below the output directory, or a URI of any scheme that the library knows."""
    path = section.text("path")
    if not is_uri(path):
        return table_path(section)
    if "@" in urlsplit(path).netloc and not path.startswith("abfs"):
        # The path is shown everywhere.
        raise section.mistake(f"{section.path}.path has a login: give it in storage_options", section.fields["path"])
    if not urlsplit(path).path.strip("/"):
        raise section.mistake(f"{section.path}.path is {path!r}, but must have a path after the bucket")
    return path.rstrip("/")


def duration(section: Section, key: str, default: float) -> float:
    """A span of time under a key, in seconds."""
    if key not in section.fields:
        return default
    try:
        return parse_duration(section.text(key))
    except ValueError as error:
        raise section.mistake(
            f"{section.path}.{key} is {section.text(key)!r}, but must be a duration such as 7d: {error}",
            section.fields[key],
        ) from None


def refuse_foreign_table(table: str, found: str, owner: str) -> None:
    """Refuse a table that this checkpoint did not make.

    Raises:
        SinkError: It is one.
    """
    if found != owner:
        raise SinkError(
            f"the table {table} was made by {found}, not by this checkpoint ({owner}), so this could repeat rows: "
            "write to another table, use the checkpoint that made it, or set shared = true to add to what is there"
        )
