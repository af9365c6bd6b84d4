"""What the dashboard's modules have from declarations: types of the API's answers, and the words of a client's facts.

The types of TypeScript are made from the document of the API.

They are in the namespace `Api`: the schemas by their names, `Gets`, `Posts`, `Puts` and `Deletes`, the answers by their
paths, and `Streams`, likewise what server-sent events have by their names.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from heliograph.control.columns import FactKind, In, columns_in
from heliograph.control.proto_v1.clients import CLIENT
from heliograph.management.document import whole_document
from heliograph.management.web.area import EVENTS

_METHODS: Final = {"get": "Gets", "post": "Posts", "put": "Puts", "delete": "Deletes"}
_SCALARS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_REFERENCE: Final = "#/components/schemas/"

Schema = Mapping[str, Any]


def declarations() -> str:
    """The text of a `.d.ts` file."""
    document = whole_document()
    lines = ["// Made by scripts/lint_page.py from the document of the API.", "declare namespace Api {"]
    for name, schema in document["components"]["schemas"].items():
        lines += [*_comment(schema, "  "), f"  type {_named(name)} = {_type(schema, '  ')};"]
    for method, title in _METHODS.items():
        answers = {path: _answer(item[method], "    ") for path, item in document["paths"].items() if method in item}
        lines += _interface(title, answers)
    contents = {
        path: item["get"]["responses"].get("200", {}).get("content", {})
        for path, item in document["paths"].items()
        if "get" in item
    }
    streams = {path: _type(one[EVENTS]["schema"], "    ") for path, one in contents.items() if EVENTS in one}
    lines += _interface("Streams", streams)
    return "\n".join([*lines, "}", ""])


def client_facts() -> str:
    """The text of the module that has labels, kinds and units of a client's facts."""
    kinds = " | ".join(json.dumps(kind.value) for kind in FactKind)
    facts = [
        f"  {json.dumps(one.name)}: {{ title: {json.dumps(one.label)}, kind: {json.dumps(one.kind.value)}, "
        f"unit: {json.dumps(one.unit)} }},"
        for one in columns_in(CLIENT, In.API).values()
    ]
    return "\n".join(
        [
            "// @ts-check",
            "/** Facts of clients, made by scripts/lint_page.py from control/proto_v1/clients.py. */",
            "",
            f"/** @typedef {{{{ title: string, kind: {kinds}, unit: string }}}} Fact */",
            "",
            "/** @type {Record<keyof Api.ClientObject, Fact>} */",
            "export const FACTS = {",
            *facts,
            "};",
            "",
        ]
    )


def _interface(title: str, types: Mapping[str, str]) -> list[str]:
    fields = [f"    {json.dumps(path.removeprefix('/'))}: {one};" for path, one in types.items()]
    return [f"  interface {title} {{", *fields, "  }"]


def _answer(operation: Schema, indent: str) -> str:
    """The type of what an operation answers where it succeeds; null for nothing."""
    answers = [one for status, one in operation["responses"].items() if status.startswith("2")]
    contents = [one.get("content", {}) for one in answers]
    schemas = [one["application/json"].get("schema", {}) for one in contents if "application/json" in one]
    kinds = dict.fromkeys(_type(schema, indent) for schema in schemas)
    return " | ".join(kinds) or ("string" if any(contents) else "null")


def _type(schema: Schema, indent: str) -> str:
    if "$ref" in schema:
        return _named(schema["$ref"].removeprefix(_REFERENCE))
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")]))
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_type(one, indent) for one in choices))
    kinds = schema.get("type", [])
    return (
        " | ".join(_of_kind(kind, schema, indent) for kind in ([kinds] if isinstance(kinds, str) else kinds))
        or "unknown"
    )


def _of_kind(kind: str, schema: Schema, indent: str) -> str:
    if kind == "array":
        item = _type(schema.get("items", {}), indent)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind != "object":
        return _SCALARS[kind]
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values, indent) if isinstance(values, dict) else 'unknown'}>"
    required, inner = set(schema.get("required", ())), f"{indent}  "
    fields = []
    for name, field in schema["properties"].items():
        mark = "" if name in required else "?"
        fields += [*_comment(field, inner), f"{inner}{json.dumps(name)}{mark}: {_type(field, inner)};"]
    return "\n".join(["{", *fields, f"{indent}}}"])


def _named(name: str) -> str:
    """The name of a type; `PageOf_Ban_` becomes `PageOfBan`."""
    return re.sub(r"\W|_", "", name)


def _comment(schema: Schema, indent: str) -> list[str]:
    description = " ".join(str(schema.get("description", "")).split()).replace("*/", "* /")
    return [f"{indent}/** {description} */"] if description else []
