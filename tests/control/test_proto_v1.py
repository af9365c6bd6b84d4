"""The asks and structs of version 1 are frozen: commands and nodes of neighbouring versions understand each other.

`proto_v1.txt` holds them as they were: `python tests/control/test_proto_v1.py` adds what is new there.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, get_args, get_origin

import msgspec

from heliograph.actions import fallback_calls
from heliograph.control import proto_v1
from heliograph.control.columns import Fact
from heliograph.rpc.asks import AnsweredBy, AnyAsk, Ask, Effect, ListAsk

RECORDED = Path(__file__).with_name("proto_v1.txt")


def modules() -> Iterator[tuple[str, ModuleType]]:
    """What declares asks: those of version 1, and what the pipeline asks, which imports nothing of the control room."""
    for info in pkgutil.iter_modules(proto_v1.__path__):
        yield info.name, importlib.import_module(f"{proto_v1.__name__}.{info.name}")
    yield "fallback_calls", fallback_calls


def structs() -> dict[str, list[str]]:
    """Each struct with its fields: name, type, and `?` where it has a default."""
    found: dict[str, list[str]] = {}
    for name, module in modules():
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == module.__name__:
                found[f"{name}.{thing.__name__}"] = [
                    f"{field.encode_name}{'' if field.required else '?'}: {_type(field.type)}"
                    for field in msgspec.structs.fields(thing)
                ]
    return found


def asks() -> dict[str, AnyAsk]:
    """Every ask that is declared, by its name; those of a family are attributes of one object."""
    found: dict[str, AnyAsk] = {}
    for _, module in modules():
        for thing in vars(module).values():
            members = [thing] if isinstance(thing, Ask | ListAsk) else vars(thing).values() if _is_family(thing) else []
            found |= {one.name: one for one in members if isinstance(one, Ask | ListAsk)}
    return found


def _is_family(thing: object) -> bool:
    return type(thing).__name__.endswith("Asks") and not isinstance(thing, type)


def frozen() -> dict[str, list[str]]:
    """What is recorded: structs, and asks with the types that they bind."""
    listed = {
        f"ask {name}": [f"{one.args.__name__} -> {'rows of ' if isinstance(one, ListAsk) else ''}{one.answer.__name__}"]
        for name, one in asks().items()
    }
    return structs() | listed


def _type(annotation: object) -> str:
    """The type on the wire, without what the API makes of it."""
    kind, *declared = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    plain: object = kind if any(isinstance(one, Fact) for one in declared) else annotation
    name = plain.__name__ if type(plain) is type else str(plain)
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
    now = frozen()
    for name, fields in recorded().items():
        assert now[name][: len(fields)] == fields, f"{name} is frozen: what must change gets a new name"
        assert all("?:" in field for field in now[name][len(fields) :]), f"{name}: a new field needs a default"


def test_an_ask_says_which_nodes_answer_it_and_what_it_changes() -> None:
    for name, one in asks().items():
        assert isinstance(one.nodes, AnsweredBy), name
        assert isinstance(one.effect, Effect), name
        assert one.effect is not Effect.CONFIGURES or one.nodes in (
            AnsweredBy.STATE,
            AnsweredBy.ONE,
            AnsweredBy.EQUAL,
        ), f"{name}: the configuration is that of the cluster, or of one node"


if __name__ == "__main__":
    RECORDED.write_text(text(frozen()))
