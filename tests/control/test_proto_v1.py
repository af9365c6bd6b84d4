"""The structs of version 1 are frozen: `heliograph ctl` and a node of neighbouring versions understand each other.

`proto_v1.txt` holds them as they were: `python tests/control/test_proto_v1.py` adds what is new there.
"""

import importlib
import pkgutil
from pathlib import Path

import msgspec

from heliograph.control import proto_v1

RECORDED = Path(__file__).with_name("proto_v1.txt")


def structs() -> dict[str, list[str]]:
    """Each struct with its fields: name, type, and `?` where it has a default."""
    found: dict[str, list[str]] = {}
    for info in pkgutil.iter_modules(proto_v1.__path__):
        module = importlib.import_module(f"{proto_v1.__name__}.{info.name}")
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == module.__name__:
                found[f"{info.name}.{thing.__name__}"] = [
                    f"{field.encode_name}{'' if field.required else '?'}: {_type(field.type)}"
                    for field in msgspec.structs.fields(thing)
                ]
    return found


def _type(annotation: object) -> str:
    name = annotation.__name__ if type(annotation) is type else str(annotation)
    return name.replace(f"{proto_v1.__name__}.", "")


def recorded() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in RECORDED.read_text().splitlines():
        if line.startswith("  "):
            found[name].append(line.strip())
        else:
            name = line
            found[name] = []
    return found


def text(listed: dict[str, list[str]]) -> str:
    return "".join(f"{name}\n" + "".join(f"  {field}\n" for field in fields) for name, fields in sorted(listed.items()))


def test_what_was_recorded_is_still_there_and_what_came_later_has_a_default() -> None:
    now = structs()
    for name, fields in recorded().items():
        assert now[name][: len(fields)] == fields, f"{name} is frozen: what must change gets a new name"
        assert all("?:" in field for field in now[name][len(fields) :]), f"{name}: a new field needs a default"


if __name__ == "__main__":
    RECORDED.write_text(text(structs()))
