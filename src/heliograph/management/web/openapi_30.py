"""The document of the API as OpenAPI 3.0, which generators of clients take that do not know 3.1."""

from typing import Any, Final

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
