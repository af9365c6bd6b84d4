"""The document of the API, OpenAPI 3.1, made from the routes."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI

from heliograph import __version__
from heliograph.management.web.area import BASE, Area

_SCHEMES: Final = {
    "basicAuth": {"type": "http", "scheme": "basic", "description": "An API key and its secret."},
    "bearerAuth": {"type": "http", "scheme": "bearer", "description": "The token of a login."},
}

_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def document_of(app: FastAPI, areas: Sequence[Area]) -> dict[str, Any]:
    """The document: made at its first use, since it takes a while."""
    from fastapi.openapi.utils import get_openapi  # the process that serves requests makes no document

    if app.openapi_schema is None:
        document = get_openapi(
            title="Heliograph API",
            version=__version__,
            openapi_version="3.1.0",
            routes=app.routes,
            tags=[{"name": name, "description": said} for name, said in _tags(areas).items()],
        )
        document["servers"] = [{"url": BASE}]
        document["components"] = document.get("components", {}) | {"securitySchemes": _SCHEMES}
        document["security"] = [{name: []} for name in _SCHEMES]
        document["paths"] = {path.removeprefix(BASE): item for path, item in document["paths"].items()}
        for item in document["paths"].values():
            for operation in item.values():
                operation["responses"].pop("422", None)  # a request that is not valid is answered with 400
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"].get("schemas", {}).pop(name, None)
        app.openapi_schema = _with_bounds(document)
    return app.openapi_schema


def _tags(areas: Sequence[Area]) -> dict[str, str]:
    """What is said of the areas by their names; several modules may have routes of one."""
    said: dict[str, str] = {}
    for area in areas:
        said[area.name] = said.get(area.name) or area.description
    return said


def _with_bounds(value: Any) -> Any:
    """A document whose bounds have the names of JSON Schema; pydantic leaves its own where a validator comes first."""
    if isinstance(value, list):
        return [_with_bounds(one) for one in value]
    if not isinstance(value, dict):
        return value
    is_integer = value.get("type") == "integer"
    return {_BOUNDS.get(name, name) if is_integer else name: _with_bounds(one) for name, one in value.items()}
