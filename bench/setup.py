"""Builds `heliograph-bench` in a checkout: its compiler and its version are those of `heliograph`."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts.compiling.build import options_of
from scripts.compiling.sources import BENCH_COMPILED, version

setup(
    version=version(),
    install_requires=[f"heliograph=={version()}", "uvloop>=0.22"],
    **options_of("heliograph_bench", [f"src/heliograph_bench/{module}" for module in BENCH_COMPILED]),
)
