"""Layers to one configuration: defaults, the file, environment variables, then what the command line says."""

import logging
import os
from collections.abc import Iterable, Mapping

from heliograph.config.reading import Check, ConfigReader, knows_path
from heliograph.config.settings import Config
from heliograph.hocon import (
    HoconError,
    Node,
    Override,
    SourcePosition,
    apply_overrides,
    environment_overrides,
    parse_file,
)
from heliograph.hocon.environment import DEFAULT_PREFIX, set_value
from heliograph.settings.errors import ConfigError, ConfigSyntaxError

_LOGGER = logging.getLogger(__name__)

COMMAND_LINE = "command line"


def load_config(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    checks: Iterable[Check] = (),
) -> Config:
    """Read the configuration of a node.

    Args:
        file: The HOCON file; None for the defaults alone.
        environ: Environment; variables `HELIOGRAPH_A__B` set `a.b`. Unknown roots are ignored (other programs may use
            the prefix), unknown names below a known root are ignored with one warning.
        overrides: Values by dotted path that win over everything, taken as they are: a text is not read as HOCON.
        checks: Checks of other packages for settings that are valid by themselves, such as whether a text is a rule.

    Raises:
        ConfigSyntaxError: The file or a variable is not HOCON, or the file cannot be read.
        ConfigError: With every problem that was found.
    """
    known = known_overrides(environ or {})
    try:
        node = Node({}, SourcePosition("defaults")) if file is None else parse_file(file)
        node = apply_overrides(node, known)
        for path, text in (overrides or {}).items():
            node = set_value(node, tuple(path.split(".")), Node(text, SourcePosition(COMMAND_LINE)))
    except HoconError as error:
        raise ConfigSyntaxError.of(error) from None
    reader = ConfigReader(frozenset(variable.name for variable in known), checks)
    config = reader.read(node)
    if reader.problems:
        raise ConfigError(reader.problems)
    _warn_of_ignored(environ or {}, reader.ignored)
    return config


def environment_name(path: str) -> str:
    """The variable that sets a path: `mqtt.max_inflight` is `HELIOGRAPH_MQTT__MAX_INFLIGHT`."""
    return DEFAULT_PREFIX + "__".join(path.upper().split("."))


def known_overrides(environ: Mapping[str, str]) -> list[Override]:
    """The environment variables that set something the schema has a place for, in the order in which they apply."""
    return [variable for variable in environment_overrides(environ) if knows_path(variable.path)]


def _warn_of_ignored(environ: Mapping[str, str], ignored: list[str]) -> None:
    unknown = [
        variable.name
        for variable in environment_overrides(environ)
        if knows_path(variable.path[:1]) and not knows_path(variable.path)
    ]
    names = sorted([*unknown, *ignored])
    if names:
        _LOGGER.warning("ignored environment variables that name no setting: %s", ", ".join(names))
