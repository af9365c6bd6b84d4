"""Steps of families of changes: one call each, and those that every family has."""

from typing import Any, Final

from scripts.answers.reads import MISSING

HTTPX: Final = {"params", "content", "files", "headers", "json"}
#: One call: method, path, and what httpx takes (`HTTPX`); any other value is the JSON body.
Step = tuple[str, str] | tuple[str, str, Any]


def params(**query: Any) -> dict[str, Any]:
    """What httpx takes for a query."""
    return {"params": query}


def crud(list_path: str, one: str, *, new: Any, other: Any, wrong: list[Any], put: str = "") -> list[Step]:
    """Make, make twice, read, change, change wrongly, and change what is not there."""
    missing = one.rpartition("/")[0] + f"/{MISSING}"
    put, put_missing = put or one, put or missing
    return [
        *(("POST", list_path, each) for each in wrong),
        ("POST", list_path, new),
        ("POST", list_path, new),
        ("GET", list_path),
        ("GET", one),
        ("PUT", put, other),
        *(("PUT", put, each) for each in wrong),
        ("PUT", put_missing, {**other, **({"name": MISSING} if put == put_missing else {})}),
        ("GET", one),
    ]


def gone(list_path: str, one: str) -> list[Step]:
    """Delete, delete twice, and delete what is not there."""
    missing = one.rpartition("/")[0] + f"/{MISSING}"
    return [("DELETE", one), ("DELETE", one), ("GET", one), ("DELETE", missing), ("GET", list_path)]
