"""Tests look at the package from outside: no test names a private member of it.

What is private may change with no change in what a user sees, and a test that names it breaks for nothing, or goes on
with nothing to look at. `support.reach` says what an object holds, whatever that is called.
"""

import ast
from collections.abc import Iterable, Iterator

from architecture.syntax import ROOT, SOURCES, modules, nodes

TESTS = ROOT / "tests"

#: Where a test names a member that another library has, too: the name, and whose it is.
ALLOWED = {
    "clients/test_transports.py sender._client": "aiomqtt's; no client has a public way to end without a word",
    "pipeline/test_sink_mongodb.py '_id'": "MongoDB's key of a document",
    "support/elasticsearch.py '_id'": "a word of Elasticsearch's bulk API",
    "support/elasticsearch.py '_index'": "as above",
    "pipeline/test_jre.py spark.sparkContext._gateway": "PySpark's; it has the process",
    "pipeline/test_jre.py spark.sparkContext._jvm": "PySpark's; it asks the Java process for its options",
    "sim/loop.py handle._run": "asyncio's; a loop that has no selector runs its handles itself",
    "sim/mutations.py '_keep'": "it breaks the package on purpose, to see that the simulation finds it",
    "sim/mutations.py '_sync'": "as above",
}
#: The dummy variable, and what named tuples have for everybody.
_PUBLIC = {"_", "_asdict", "_fields", "_make", "_replace"}


def _is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in _PUBLIC


def _own_names() -> set[str]:
    """Every private name that the package gives to something."""
    names: set[str] = set()
    for path in modules(SOURCES):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return {name for name in names if _is_private(name)}


def _named(nodes: Iterable[ast.AST], own: set[str]) -> Iterator[str]:
    """The private members that a module of tests names as another's."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            is_its_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in own and not is_its_own:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heliograph"):
            words = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if any(map(_is_private, words)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            *place, last = node.value.split(".")
            if last in own and (not place or place[0] == "heliograph"):
                yield repr(node.value)  # an argument of `setattr`, `getattr` or `monkeypatch`


def test_no_test_names_a_private_member_of_the_package() -> None:
    own = _own_names()
    found = {
        f"{path.relative_to(TESTS)} {name}"
        for path in modules(TESTS)
        for name in _named(ast.walk(ast.parse(path.read_text())), own)
    }
    assert found == set(ALLOWED)


def test_the_check_sees_each_way_to_name_one() -> None:
    own = {"".join(("_", "rest"))}
    for source in (
        "peer.reader._rest",
        "from heliograph.a._b import c",
        "from heliograph.a import _rest",
        "monkeypatch.setattr('heliograph.a." + "_rest', 1)",
        "monkeypatch.setattr(a, '" + "_rest', 1)",
    ):
        assert len(list(_named(ast.walk(ast.parse(source)), own))) == 1, source
    for source in ("self._rest", "cls._rest", "other._unknown", "from pyspark.find import _find"):
        assert list(_named(ast.walk(ast.parse(source)), own)) == [], source
