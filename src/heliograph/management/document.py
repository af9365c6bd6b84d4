"""`python -m heliograph.management.document`: the document of the API in each of its forms, as one object of JSON.

It is made in a process of its own, which ends: what it takes to make it would stay with a process that lasts.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson
from fastapi.openapi.utils import get_openapi

from heliograph import __version__
from heliograph.management.api.areas import AREAS
from heliograph.management.web.area import BASE, EVENTS, Area
from heliograph.management.web.rows import ATTRIBUTE

_SCHEMES: Final = {
    "basicAuth": {"type": "http", "scheme": "basic", "description": "An API key and its secret."},
    "bearerAuth": {"type": "http", "scheme": "bearer", "description": "The token of a login."},
}

_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def whole_document() -> dict[str, Any]:
    """The document of all areas."""
    document = get_openapi(
        title="Heliograph API",
        version=__version__,
        openapi_version="3.1.0",
        routes=[route.documented() for area in AREAS for route in area.routes],
        tags=[{"name": name, "description": words} for name, words in _tags(AREAS).items()],
    )
    document["servers"] = [{"url": BASE}]
    document["components"] = document.get("components", {}) | {"securitySchemes": _SCHEMES}
    document["security"] = [{name: []} for name in _SCHEMES]
    document["paths"] = {path.removeprefix(BASE): item for path, item in document["paths"].items()}
    for item in document["paths"].values():
        for operation in item.values():
            operation["responses"].pop("422", None)  # a request that is not valid is answered with 400
            content = operation["responses"].get("200", {}).get("content", {})
            if EVENTS in content:
                content[EVENTS] = content.pop("application/json")
    schemas = document["components"].get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for schema in schemas.values():
        _describe_fields(schema)
    found: dict[str, Any] = _with_bounds(document)
    return found


def _tags(areas: Sequence[Area]) -> dict[str, str]:
    """What is said of the areas by their names; several modules may have routes of one."""
    words: dict[str, str] = {}
    for area in areas:
        words[area.name] = words.get(area.name) or area.description
    return words


def _describe_fields(schema: dict[str, Any]) -> None:
    """Move what a docstring says of attributes to the properties."""
    schema["description"], _, attributes = schema.get("description", "").partition("\n\nAttributes:\n")
    for name, description in ATTRIBUTE.findall(attributes):
        schema["properties"][name]["description"] = " ".join(description.split())


def _with_bounds(value: Any) -> Any:
    """A document whose bounds have the names of JSON Schema; pydantic leaves its own where a validator comes first."""
    if isinstance(value, list):
        return [_with_bounds(one) for one in value]
    if not isinstance(value, dict):
        return value
    is_integer = value.get("type") == "integer"
    return {_BOUNDS.get(name, name) if is_integer else name: _with_bounds(one) for name, one in value.items()}


_NULL: Final = {"type": "null"}


def as_openapi_30(document: dict[str, Any]) -> dict[str, Any]:
    """The same document in the words of OpenAPI 3.0."""
    return {**_converted(document), "openapi": "3.0.3"}


def _converted(value: Any) -> Any:
    if isinstance(value, list):
        return [_converted(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _converted(one) for name, one in value.items()}
    if isinstance(found.get("anyOf"), list) and _NULL in value["anyOf"]:
        rest = [one for one in found.pop("anyOf") if one != _NULL]
        found = {
            **found,
            **(rest[0] if len(rest) == 1 and "$ref" not in rest[0] else {"anyOf": rest}),
            "nullable": True,
        }
    if isinstance(found.get("type"), list):
        kinds = [kind for kind in found["type"] if kind != "null"]
        if "null" in found["type"]:
            found["nullable"] = True
        if len(kinds) == 1:
            found["type"] = kinds[0]
        else:
            found.pop("type")
            found["anyOf"] = [{"type": kind} for kind in kinds]
    if found.get("type") == "null":
        found = {"nullable": True}
    if "const" in found and _is_schema(found):
        found["enum"] = [found.pop("const")]
    if isinstance(found.get("examples"), list):
        found["example"] = found.pop("examples")[0]
    for bound, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(found.get(bound), int | float) and not isinstance(found[bound], bool):
            found[plain] = found[bound]
            found[bound] = True
    if "prefixItems" in found:
        found["items"] = {"anyOf": found.pop("prefixItems")}
    for unknown in ("propertyNames", "contentMediaType", "$defs"):
        if unknown in found and _is_schema(found):
            found.pop(unknown)
    return found


def _is_schema(value: dict[str, Any]) -> bool:
    """Whether it is a schema, and not the properties of one."""
    return not any(isinstance(value.get(name), dict) for name in ("const", "contentMediaType"))


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_text(value: Any) -> str:
    """A value as YAML."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _entry(f"{_key(name)}:", one)
    elif isinstance(value, list) and value:
        for one in value:
            first, *rest = _lines(one)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield orjson.dumps(value).decode()


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {orjson.dumps(value).decode()}"


def _key(name: str) -> str:
    is_plain = _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else orjson.dumps(name).decode()


def main() -> int:
    """Write the document."""
    document = whole_document()
    forms = {
        "json": orjson.dumps(document).decode(),
        "json 3.0": orjson.dumps(as_openapi_30(document)).decode(),
        "yaml": yaml_text(document),
    }
    sys.stdout.buffer.write(orjson.dumps(forms))
    return 0


if __name__ == "__main__":
    sys.exit(main())
