"""What models of requests share: what is not declared is refused, and scalars are what JSON says they are."""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictBool, StrictStr


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Row(BaseModel):
    """An object of an answer, which may have more keys than the document names."""

    model_config = ConfigDict(extra="allow")


def _whole(value: Any) -> Any:
    """An integer as JSON Schema has it: 1.0 is one, true and "1" are not."""
    if isinstance(value, bool | str):
        raise ValueError("an integer is expected")
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError("an integer is expected")
        return int(value)
    return value


Whole: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Bool: TypeAlias = StrictBool
Str: TypeAlias = StrictStr
