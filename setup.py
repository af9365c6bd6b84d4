"""Builds `heliograph`, compiled where a C compiler is at hand (`scripts/compiling`)."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))
from scripts.compiling.build import options_of
from scripts.compiling.sources import compiled_sources

setup(**options_of("heliograph", compiled_sources()))
