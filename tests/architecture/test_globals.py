"""Nothing that changes belongs to a module: two nodes in one process know nothing of each other (`test_two_nodes`).

What stays is listed here with its reason.
"""

import ast
from collections.abc import Iterator

from architecture.syntax import SOURCES, modules, nodes

ALLOWED = {
    # Grammars, compiled when they are first needed.
    "hocon/grammar.py _parser",
    "rules/parser.py _parser",
    # What pure functions gave: it depends on nothing but the argument.
    "access/acl/actions.py _bits",
    "pipeline/runner/local_rows.py _compiled",
    "pipeline/sinks/redis_cluster.py _tags",
    "rules/functions/characters.py _may_join",
    "rules/functions/patterns.py _long_pattern",
    "rules/functions/patterns.py _short_pattern",
    "rules/bounded_pattern.py _steps_of_repetitions",
    "storage/columnar/offloaded.py _record_of",
    "storage/topic_filter.py topic_filter",
    "management/api/client_objects.py _answers",
    "management/api/configs.py _schema",
    "settings/fields.py _settings_of",
    "management/web/area.py _described",
    "management/web/proxies.py _networks",
    "management/web/times.py _of_second",
    # Patterns that operators wrote: how much time one may still take is the same wherever it is used.
    "rules/bounded_pattern.py pattern_of_text",
    "transport/addresses.py own_address_text",
    # Empty, and nothing is added to them.
    "shared_groups/open_share.py _NOTHING",
    "shared_groups/turns.py _NO_READERS",
    # What this process has put into its environment, once, before Spark starts.
    "pipeline/datasource/worker_python.py name_own_python",
    # How services are described in the files of a library.
    "pipeline/sinks/aws.py _descriptions",
    # The databases that are open: a directory can be open once in a process, and each is looked up by its place.
    "storage/store.py _OPEN",
    # The schema that is built in: nothing can change it.
    "rules/schemas/sparkplug.py sparkplug_schema",
    # What a Python worker of Spark keeps from task to task; the process is Spark's, and so are its tasks.
    "_spark_worker.py settle_process",
    "pipeline/datasource/partitions.py worker_connections",
    "pipeline/datasource/schemas.py _avro_columns",
    "pipeline/datasource/schemas.py _protobuf_columns",
    "pipeline/datasource/schemas.py built_schema",
    "rules/spark/row_evaluator.py worker",
}

_MAKERS = {"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter", "WeakSet", "WeakValueDictionary"}
_MAKERS |= {"WeakKeyDictionary", "ContextVar", "local", "Lock", "RLock", "Condition"}
_CACHES = ("cache", "lru_cache")


def _name(node: ast.expr) -> str:
    """The last name of `a.b(...)(...)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _changing(found: list[ast.AST]) -> Iterator[str]:
    """Names of a module behind which there is something that changes, or may."""
    for node in found:
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.FunctionDef) and any(_name(one) in _CACHES for one in node.decorator_list):
            yield node.name
    for body in (node.body for node in found if isinstance(node, ast.Module | ast.ClassDef)):
        for statement in body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                continue
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            value = statement.value
            is_empty = ast.unparse(value) in ("{}", "[]")
            made = _name(value) if isinstance(value, ast.Call) else ""
            if is_empty or made in _CACHES or (made in _MAKERS and not _is_constant(value)):
                yield ast.unparse(target)


def _is_constant(value: ast.expr) -> bool:
    """Whether it is made of something, as tables are that nothing is added to."""
    return isinstance(value, ast.Call) and bool(value.args)


def test_what_belongs_to_a_module_and_changes_is_known_here() -> None:
    found = {f"{path.relative_to(SOURCES)} {name}" for path in modules(SOURCES) for name in _changing(nodes(path))}
    assert found == ALLOWED
