"""The files of the dashboard as who changes them meets them: small, all of them used, the vendored ones as listed."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from scripts.api_types import client_facts
from scripts.lint_page import CLIENT_FACTS

from heliograph.management.dashboard.page import ROOT
from support.servers import program

_PACKAGES: Final = Path(__file__).parents[2] / "scripts" / "page_types"
_TESTS: Final = Path(__file__).parent / "modules" / "all.mjs"
_IMPORT: Final = re.compile(r"(?:import|export)\s+([^;]*?)\s+from\s+\"(\.[^\"]+)\"")
_LAZY_IMPORT: Final = re.compile(r"import\(\"(\.[^\"]+)\"\)")
_EXPORT: Final = re.compile(r"^export (?:(default)\b|(?:async )?(?:function\*?|const|class) (\w+))", re.M)
_NAMES: Final = re.compile(r"\{(.*)\}", re.S)
_UNTYPED: Final = re.compile(r"(?:[{<(|:,=]|=>)\s*any\b(?! \w)|\bany\[\]|@ts-(?!check)[\w-]+")
_TEXT: Final = re.compile(r"^  (\w+)[:(]", re.M)


@pytest.mark.service
def test_what_modules_do_without_a_browser() -> None:
    """Every test of `modules`, by Node, in one process."""
    command = [program("node"), "--no-warnings", "--test-reporter=spec", str(_TESTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^. pass [1-9]\d+$", ran.stdout, re.MULTILINE), ran.stdout


def test_vendored_files_are_those_of_the_list() -> None:
    rows = re.findall(r"^\| (\S+) \|.*\| `([0-9a-f]{64})` \|$", (ROOT / "vendor" / "README.md").read_text(), re.M)
    named = dict(rows)
    assert named.keys() == {path.name for path in (ROOT / "vendor").iterdir() if path.suffix in (".mjs", ".css")}
    assert named == {name: hashlib.sha256((ROOT / "vendor" / name).read_bytes()).hexdigest() for name in named}


def test_types_are_checked_against_the_versions_of_the_vendored_libraries() -> None:
    listed = (ROOT / "vendor" / "README.md").read_text()
    packages = json.loads((_PACKAGES / "package.json").read_text())["dependencies"]
    packages.pop("typescript")
    assert set(re.findall(r"^\| \S+ \| [^|]+ \| (\S+) \|", listed, re.M)) - {"version", "---"} == set(packages.values())


def test_no_line_is_wide() -> None:
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path, source in _modules().items()
        for number, line in enumerate(source.split("\n"), 1)
        if len(line) > 120
    ]
    assert wide == []


def test_no_file_of_ours_is_long_and_no_module_imports_what_is_not_there() -> None:
    ours = [path for path in ROOT.rglob("*") if path.suffix in (".js", ".css") and "vendor" not in path.parts]
    long = {str(path.relative_to(ROOT)): lines for path in ours if (lines := path.read_text().count("\n")) > 150}
    assert long == {}
    for path in ours:
        for name in re.findall(r'(?:from |import\()"(\.{1,2}/[^"]+)"', path.read_text()):
            assert (path.parent / name).resolve().is_file(), f"{path} imports {name}"


def test_what_a_module_exports_is_imported() -> None:
    modules = _modules()
    imported: set[tuple[Path, str]] = set()
    for path, source in modules.items():
        for what, name in _IMPORT.findall(source):
            of = (path.parent / name).resolve()
            braces = _NAMES.search(what)
            imported |= {(of, one.split(" as ")[0].strip()) for one in (braces[1].split(",") if braces else ())}
            imported |= {(of, "default")} if not what.startswith("{") else set()
        imported |= {((path.parent / name).resolve(), "default") for name in _LAZY_IMPORT.findall(source)}
    exported = {(path, one or other) for path, source in modules.items() for one, other in _EXPORT.findall(source)}
    assert len(exported) > len(modules)
    assert {f"{path.relative_to(ROOT)} exports {name}" for path, name in exported - imported} == set()


def test_no_module_imports_one_that_imports_it() -> None:
    modules = _modules()
    left = {
        path: {(path.parent / name).resolve() for _, name in _IMPORT.findall(source)} & modules.keys()
        for path, source in modules.items()
    }
    while ready := {path for path, imported in left.items() if not imported & left.keys()}:
        left = {path: imported for path, imported in left.items() if path not in ready}
    assert [str(path.relative_to(ROOT)) for path in left] == []


def test_types_are_known() -> None:
    """Every type of the modules is checked: none is `any`, and nothing is left out."""
    comments = {path: re.findall(r"/\*.*?\*/|//[^\n]*", source, re.S) for path, source in _modules().items()}
    found = {path.name: _UNTYPED.findall("\n".join(some)) for path, some in comments.items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_words_of_facts_of_clients_are_those_of_the_declaration() -> None:
    """Else `make lint-page` makes the module again."""
    assert CLIENT_FACTS.read_text() == client_facts()


def test_every_text_is_shown_somewhere() -> None:
    modules = _modules()
    unused = {
        f"{path.name}: {key}" for path in modules if "texts" in path.parts for key in _unused_texts(path, modules)
    }
    assert unused == set()


def _unused_texts(path: Path, modules: dict[Path, str]) -> set[str]:
    """The texts of a module that no other one names; one chosen by a computed name is named in quotes somewhere."""
    users = ""
    for user, source in modules.items():
        for name, what in re.findall(r'^import (\w+) from "([^"]+)"', source, re.M):
            if (user.parent / what).resolve() == path:
                users += re.sub(rf"\b{name}\b", "TEXTS", source)
    named = set(re.findall(r"TEXTS\.(\w+)", users))
    for names in re.findall(r"\{([^}]*)\} = TEXTS", users):
        named |= {one.split(":")[0].strip() for one in names.split(",")}
    if "TEXTS[" in users:
        named |= set(re.findall(r"\"(\w+)\"", " ".join(modules.values())))
    if re.search(r"\bTEXTS[,}]", users):  # given as a whole to a part that pages share
        named |= set(re.findall(r"\bwords\.(\w+)", " ".join(modules.values())))
    return set(_TEXT.findall(modules[path])) - named


def _modules() -> dict[Path, str]:
    return {path: path.read_text() for path in ROOT.resolve().rglob("*.js") if "vendor" not in path.parts}
