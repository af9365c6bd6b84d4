"""`heliograph rule --schemas FILE`: schemas of a pipeline file or a node configuration for the rules that name them."""

from pathlib import Path

from heliograph.cli.usage import UsageError
from heliograph.hocon.document import parse_file
from heliograph.hocon.errors import HoconError
from heliograph.pipeline.datasource.schemas import read_schemas
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.section import FileSection
from heliograph.rules.schemas.settings import SchemaSettings


def schemas_of(file: Path) -> tuple[SchemaSettings, ...]:
    """What makes the schemas of a file.

    Raises:
        UsageError: It cannot be read, says something that is not valid, or has no schemas.
    """
    try:
        settings = read_schemas(FileSection(parse_file(file)))
    except (HoconError, RuleFileError) as error:
        raise UsageError(f"--schemas: {error}") from None
    if not settings:
        raise UsageError(f"--schemas: {file} has neither a section schemas nor schema_registry with schemas in it")
    return settings
