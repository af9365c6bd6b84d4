"""Layers to one configuration: what each says is in `layers`, and what a value may be in `reading`."""

import logging
import os
from collections.abc import Iterable, Mapping

from heliograph.config.emqx_forms import our_path
from heliograph.config.layers import Layers, Sources
from heliograph.config.reading import Check, ConfigReader, knows_path
from heliograph.config.settings import Config
from heliograph.hocon.environment import DEFAULT_PREFIX, environment_overrides
from heliograph.settings.errors import ConfigError

_LOGGER = logging.getLogger(__name__)


def load_config(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    checks: Iterable[Check] = (),
    base: str | os.PathLike[str] | None = None,
) -> Config:
    """Read the configuration of a node, every layer of it.

    Args:
        environ: See `Sources`. Unknown roots are ignored (other programs may use the prefix), unknown names below a
            known root are ignored with one warning.
        checks: Checks of other packages for settings that are valid by themselves, such as whether a text is a rule.

    Raises:
        ConfigSyntaxError: A file or a variable is not HOCON, or a file cannot be read.
        ConfigError: With every problem that was found.
    """
    return config_of(Sources(file, environ or {}, overrides or {}, base).read(), checks, environ or {})


def config_of(layers: Layers, checks: Iterable[Check] = (), environ: Mapping[str, str] | None = None) -> Config:
    """What layers say; see `load_config`. Variables of `environ` without a meaning get a warning."""
    reader = ConfigReader(frozenset(variable.name for variable in layers.variables), checks)
    config = reader.read(layers.merged)
    if reader.problems:
        raise ConfigError(reader.problems)
    if environ is not None:
        _warn_of_ignored(environ, reader.ignored)
    return config


def environment_name(path: str) -> str:
    """The variable that sets a path: `mqtt.max_inflight` is `HELIOGRAPH_MQTT__MAX_INFLIGHT`."""
    return DEFAULT_PREFIX + "__".join(path.upper().split("."))


def _warn_of_ignored(environ: Mapping[str, str], ignored: list[str]) -> None:
    unknown = [
        variable.name
        for variable in environment_overrides(environ)
        if knows_path(variable.path[:1]) and not knows_path(our_path(variable.path))
    ]
    names = sorted([*unknown, *ignored])
    if names:
        _LOGGER.warning("ignored environment variables that name no setting: %s", ", ".join(names))
