"""Compiling in parts: what stays is not compiled again, and a file changes with its own module only."""

import shutil
from pathlib import Path
from typing import Final

import pytest
from scripts.compiling.build import drop_leftovers
from scripts.compiling.objects import Builder, CompileError, Extension
from scripts.compiling.stable_code import stabilize

COMPILER: Final = ("cc", "-fPIC", "-Werror=implicit-function-declaration")
HEADER: Final = """#ifndef MYPYC_NATIVE_g_H
#include <Python.h>
#ifndef MYPYC_DECLARED_tuple_T1O
#define MYPYC_DECLARED_tuple_T1O
typedef struct tuple_T1O {
    PyObject *f0;
} tuple_T1O;
#endif
typedef struct {
    PyObject_HEAD
    PyObject *_name;
} g___a___UserObject;
#endif
"""
INTERNAL: Final = """#ifndef MYPYC_LIBRT_INTERNAL_g_H
#include <Python.h>
#include "__native_g.h"
extern PyObject *CPyStatics[%d];
extern char CPyDef_a___greet(PyObject *cpy_r_name);
extern tuple_T1O CPyDef_b___count(PyObject *cpy_r_name);
#endif
"""
MODULE: Final = """#include "__native_g.h"
#include "__native_internal_g.h"
char CPyDef_%s(PyObject *cpy_r_name) {
    PyObject *__tmp%d;
    __tmp%d = CPyStatics[%d]; /* 'hello' */
    return 0;
}
"""


def builder(folder: Path) -> Builder:
    return Builder(COMPILER, ("cc", "-shared"), folder / "kept")


def write_c(folder: Path, count: int, literal: int, temporary: int) -> tuple[str, str]:
    """Two modules as mypyc writes them, of a unit with `count` literals: their texts after `stabilize`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "__native_g.h").write_text(HEADER)
    (folder / "__native_internal_g.h").write_text(INTERNAL % count)
    (folder / "__native_g.c").write_text(f"PyObject *CPyStatics[{count}];\n")
    (folder / "__native_g___a.c").write_text(MODULE % ("a___greet", temporary, temporary, literal))
    (folder / "__native_g___b.c").write_text("tuple_T1O CPyDef_b___count(PyObject *cpy_r_name);\n")
    stabilize(folder, "g")
    return (folder / "__native_g___a.c").read_text(), (folder / "__native_g___b.c").read_text()


def test_a_file_does_not_change_with_literals_and_names_of_other_modules(tmp_path: Path) -> None:
    assert write_c(tmp_path / "c", 10, 3, 7) == write_c(tmp_path / "c", 99, 5, 8)


def test_a_file_has_the_declarations_that_it_names(tmp_path: Path) -> None:
    a, b = write_c(tmp_path / "c", 10, 3, 7)
    assert "CPyDef_a___greet" in a
    assert "CPyDef_b___count" not in a
    assert "struct tuple_T1O {" in b  # named by what it names
    assert "UserObject" not in a + b


def test_only_what_has_changed_is_compiled_again(tmp_path: Path) -> None:
    sources = [tmp_path / name for name in ("one.c", "two.c")]
    for path in sources:
        path.write_text(f"int {path.stem}(void) {{ return 1; }}\n")
    target = tmp_path / "library.so"
    extension = Extension("library", target, [(path, ()) for path in sources])
    builder(tmp_path).build([extension])
    kept = set((tmp_path / "kept").iterdir())
    first = target.stat().st_ino
    builder(tmp_path).build([extension])
    assert (set((tmp_path / "kept").iterdir()), target.stat().st_ino) == (kept, first)
    sources[0].write_text("int one(void) { return 2; }\n")
    builder(tmp_path).build([extension])
    new = {path.suffix for path in set((tmp_path / "kept").iterdir()) - kept}
    assert (len(set((tmp_path / "kept").iterdir()) - kept), new) == (2, {".o", ".so"})
    assert target.stat().st_ino != first  # a process that runs keeps the file that it has opened


def test_a_file_that_does_not_compile_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int one(void) { return unknown(); }\n")
    extension = Extension("library", tmp_path / "library.so", [(tmp_path / "one.c", ())])
    with pytest.raises(CompileError, match=r"one\.c:1:.*unknown"):
        builder(tmp_path).build([extension])


def test_what_was_built_of_a_module_that_is_gone_does_not_stay(tmp_path: Path) -> None:
    for name in ("house__mypyc", "kept", "gone"):
        (tmp_path / f"{name}.cpython-311-x86_64-linux-gnu.so").touch()
    drop_leftovers(tmp_path, [str(tmp_path / "kept.py")])
    assert sorted(left.name.partition(".")[0] for left in tmp_path.iterdir()) == ["house__mypyc", "kept"]
    drop_leftovers(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
