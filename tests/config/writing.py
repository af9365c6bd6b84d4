"""Writing a configuration file for a test and reading it back, or its error."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.settings.errors import ConfigError

Write = Callable[[str], Path]


def config_of(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration that the file gives."""
    return load_config(path, environ or {})


def mistakes_in(path: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """The lines that an operator sees, with the directory of the file left out."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ or {})
    return str(caught.value).replace(f"{path.parent}/", "").split("\n")
