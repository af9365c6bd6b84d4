"""The setting `fallback_actions` of an action: what gets the rows that its target refuses for good."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.config.republish import RepublishAction, refuse_unknown, republish_action, shown_value
from heliograph.hocon.values import Content, Node
from heliograph.settings.kinds import NAME, Kind, RefusedError

_KEYS: Final = {"reference": ("kind", "type", "name"), "republish": ("kind", "args")}
_VALID: Final = "valid are " + " and ".join(_KEYS)


@dataclass(frozen=True, slots=True)
class FallbackReference:
    """Another action, which gets the row as if its rule named it."""

    type: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class FallbackRepublish:
    """A message made of the row, published here."""

    message: RepublishAction


Fallback: TypeAlias = FallbackReference | FallbackRepublish


class FallbackActions(Kind[tuple[Fallback, ...]]):
    """What gets the rows that an action refuses."""

    expected = "a list of { kind = reference, type, name } and { kind = republish, args { topic, payload, ... } }"

    def convert(self, value: Content) -> tuple[Fallback, ...]:
        if not isinstance(value, list):
            raise RefusedError
        return tuple(_fallback(item, f"fallback {number}") for number, item in enumerate(value, 1))


def _fallback(item: Node, place: str) -> Fallback:
    if not isinstance(item.value, dict):
        raise RefusedError(f"{place} is {shown_value(item)}, not an object")
    fields = item.value
    kind = fields["kind"].value if "kind" in fields else None
    if not isinstance(kind, str) or kind not in _KEYS:
        found = shown_value(fields["kind"]) if "kind" in fields else "nothing"
        raise RefusedError(f"{place}: its kind is {found}; {_VALID}")
    refuse_unknown(fields, _KEYS[kind], place)
    if kind == "reference":
        return _reference(fields, place)
    args = fields.get("args")
    if args is None or not isinstance(args.value, dict):
        raise RefusedError(f"{place}, republish, needs args with topic")
    return FallbackRepublish(republish_action(args.value, f"{place}, args"))


def _reference(fields: dict[str, Node], place: str) -> FallbackReference:
    texts = {}
    for key in ("type", "name"):
        if key not in fields or not isinstance(fields[key].value, str):
            found = shown_value(fields[key]) if key in fields else "nothing"
            raise RefusedError(f"{place}: its {key} is {found}, not the {key} of an action")
        texts[key] = str(fields[key].value)
    if not NAME.fullmatch(texts["name"]):
        raise RefusedError(f"{place}: {texts['name'][:100]!r} is not the name of an action")
    return FallbackReference(texts["type"], texts["name"])
