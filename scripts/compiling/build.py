"""Commands of setuptools that build a package as one mypyc unit, or as Python where no C compiler is at hand.

What is compiled depends on these sources and on the compiler alone. mypyc sees none of the packages that happen to be
installed (their types would change the C code, or be missing), and no settings of the type checker. It works module by
module, side by side, and of an earlier build it reuses what is the same.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from scripts.compiling import objects
from scripts.compiling.stable_code import stabilize
from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

_HERE: Final = Path(__file__).resolve().parent
# Nothing outside the unit calls its functions by name: so calls within it are direct. Each begins at a cache line:
# otherwise its speed depends on what stands before it (a message took 13 % more time once, with the same instructions).
# Warnings about code that a program wrote, and symbols for a debugger, would take more time than all the rest.
# A file has just the declarations that it names: one that it lacks is no warning.
_COMPILER_ARGS = (
    *("-Wno-all", "-Wno-sign-compare", "-Werror=implicit-function-declaration", "-g0"),
    *("-fvisibility=hidden", "-falign-functions=64"),
)
_OPTIMIZE = "-O2"


def compiler_fault() -> str | None:
    """Why no extension can be compiled here; None if a small one can."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return f"there is no C compiler ({command[0]})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python's headers are not installed (on Debian: apt install python3-dev)"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\n")
        probe = [*command, "-c", str(source), "-I", sysconfig.get_path("include"), "-o", str(source.with_suffix(".o"))]
        answer = subprocess.run(probe, capture_output=True, check=False)
    return None if answer.returncode == 0 else f"the C compiler {shlex.join(command)} fails"


def write_c_code(group: str, sources: Sequence[str], folder: Path) -> list[Extension]:
    """Write the C code of all modules by mypyc, below `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, str(_HERE / "c_code.py"), group, str(folder), *sources]
    # Sources of the broker are read for their types, whichever package is compiled.
    environment = {**os.environ, "MYPYPATH": str(_HERE.parents[1] / "src")}
    answer = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False)
    if answer.returncode != 0:
        raise objects.CompileError("mypyc refuses the sources, see above")
    stabilize(folder, group)
    return [Extension(name, files, include_dirs=headers) for name, files, headers in json.loads(answer.stdout)]


def _say_progress(done: int, count: int) -> None:
    """Print a line that scripts/set_up.py shows as progress."""
    if os.environ.get("HELIOGRAPH_PROGRESS") == "1":
        print(f"compiled {done}/{count}", flush=True)


def drop_leftovers(folder: Path, sources: Collection[str]) -> None:
    """Remove what an earlier build left beside modules that are not compiled now: it would be imported before them.

    Args:
        sources: The modules that are compiled; without any, their library goes too.
    """
    compiled = {Path(each).with_suffix("") for each in sources}
    for left in folder.rglob("*.so"):
        is_library = bool(sources) and "__mypyc" in left.name
        if not is_library and left.with_name(left.name.partition(".")[0]) not in compiled:
            left.unlink()


class BuildExtensions(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Compiles a package, or says in one line why it stays Python."""

    group: ClassVar[str]
    sources: ClassVar[Sequence[str]]

    def run(self) -> None:
        """Build what can be built; a fault of the compiler is no reason to go without a broker."""
        fault = compiler_fault()
        if self.inplace:
            drop_leftovers(Path("src"), self.sources)
        if fault is None:
            try:
                self._build(write_c_code(self.group, self.sources, Path("build/c")))
            except Exception as error:  # noqa: BLE001 - whatever it is, the broker runs without
                fault = f"compiling failed ({type(error).__name__}: {error})"
        if fault is not None:
            if self.inplace:
                drop_leftovers(Path("src"), ())
            self._build([])
            print(f"{self.group}: {fault}; installing it uncompiled, several times slower", file=sys.stderr)

    def get_source_files(self) -> list[str]:
        """No files for a source distribution: each build writes the C code."""
        return []

    def build_extensions(self) -> None:
        """Compile and link all extensions side by side."""
        library, *loaders = self.extensions or [None]
        if library is None:
            return
        headers = [*library.include_dirs, *self.include_dirs]
        whole = objects.Extension(library.name, self._target(library), [(Path(file), ()) for file in library.sources])
        self._compile([*_COMPILER_ARGS, _OPTIMIZE, *(f"-I{folder}" for folder in headers)], [whole])
        small = [objects.Extension(each.name, self._target(each), [(Path(each.sources[0]), ())]) for each in loaders]
        self._compile(["-w", "-g0", "-O1", f"-I{os.path.relpath(_HERE / 'loader')}"], small)

    def _compile(self, options: list[str], extensions: list[objects.Extension]) -> None:
        compiler = [*self.compiler.compiler_so, *options]
        objects.Builder(compiler, self.compiler.linker_so, Path("build/objects"), _say_progress).build(extensions)

    def _target(self, extension: Extension) -> Path:
        return Path(self.get_ext_fullpath(extension.name))

    def _build(self, extensions: list[Extension]) -> None:
        self.distribution.ext_modules = extensions
        self.swig_opts = None  # of all options the one that cannot be finalized twice
        self.finalize_options()
        super().run()


class Wheel(bdist_wheel):  # type: ignore[misc]  # setuptools has no types
    """A wheel that says by its tag whether it has compiled modules, and has nothing of an earlier build."""

    def run(self) -> None:
        """Compile first, since only then it is known which kind of wheel it is."""
        build = self.get_finalized_command("build")
        for folder in {build.build_lib, build.build_platlib, build.build_purelib}:
            shutil.rmtree(folder, ignore_errors=True)
        if self.distribution.has_ext_modules():
            self.run_command("build_ext")
            self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


def options_of(group: str, sources: Sequence[str]) -> dict[str, Any]:
    """The arguments of `setup` that build a package, in the directory of its setup.py.

    Args:
        group: The package.
        sources: Paths of its modules to compile.
    """
    unit = type("BuildUnit", (BuildExtensions,), {"group": group, "sources": sources})
    is_pure = os.environ.get("HELIOGRAPH_PURE") == "1"
    return {
        # Stands for those that `BuildExtensions` makes: only a command that builds waits for mypyc.
        "ext_modules": [] if is_pure else [Extension(f"{group}__mypyc", [])],
        "cmdclass": {"build_ext": unit, "bdist_wheel": Wheel},
    }
