"""Objects and schemas of the API, made of the declarations of rows."""

from typing import Annotated, Any

import msgspec
from pydantic import TypeAdapter

from heliograph.control.columns import SECOND_US, Fact, Time
from heliograph.management.web.rows import ApiRow


class Step(msgspec.Struct, frozen=True):
    """A step.

    Attributes:
        what: What was done.
    """

    what: str
    at: Time


class Work(msgspec.Struct, frozen=True):
    """Some work."""

    name: Annotated[str, Fact("title")]
    steps: tuple[Step, ...]
    first: Step | None
    ends: Annotated[int | None, Fact("ends_at", time_us=SECOND_US, unknown="infinity")] = None
    note: Annotated[str, Fact(is_null_if_empty=True)] = ""
    left: Annotated[int | None, Fact(is_left_out=True)] = None
    size: Annotated[list[Step], Fact(answered=len, answers=int)] = []
    hidden: Annotated[int, Fact(is_shown=False)] = 0


ROW = ApiRow("WorkObject", Work, time_text=lambda time_us: f"{time_us} us", node=str)


def test_a_row_is_answered_as_its_fields_declare() -> None:
    step = Step("wait", 5)
    shown = {"what": "wait", "at": "5 us"}
    assert ROW(Work("one", (step,), step, size=[step, step]), node="here") == {
        "title": "one",
        "steps": [shown],
        "first": shown,
        "ends_at": "infinity",
        "note": None,
        "size": 2,
        "node": "here",
    }
    ended = ROW(Work("one", (), None, ends=3, note="done", left=0))
    assert (ended["first"], ended["ends_at"], ended["note"], ended["left"]) == (None, "3000000 us", "done", 0)


def test_the_schema_of_a_row_is_that_of_what_it_is_answered_as() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ROW.one())
    schema = adapter.json_schema()
    assert (schema["title"], schema["description"]) == ("WorkObject", "Some work.")
    assert set(schema["properties"]) - set(schema["required"]) == {"left"}
    assert schema["$defs"]["Step"]["properties"]["what"]["description"] == "What was done."
    for row in (Work("one", (Step("wait", 5),), Step("wait", 5), left=1), Work("one", (), None, ends=3, note="done")):
        adapter.validate_python(ROW(row, node="here"), strict=True)
