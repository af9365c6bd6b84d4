"""JSON Schema: JSON text that must fit a schema, of any draft from 4 to 2020-12."""

import json
from typing import Any, Final

import jsonschema_rs
import orjson

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.settings import JSON, SchemaSourceError
from heliograph.rules.values import Value

_loads: Final = orjson.loads
_PROBLEM_CHARACTERS: Final = 300

# Saying why a value does not fit costs far more than finding that it does not: with a choice in the schema, every
# alternative reports every item, which makes seconds and gigabytes of a megabyte.
_EXPLAINED_BYTES_MAX: Final = 65_536
_EXPLAINED_BYTES_MAX_OF_CHOICES: Final = 2_048
_CHOICES: Final = ('"anyOf"', '"oneOf"', '"contains"')

# How often a regular expression of a schema may go back on one string, so that no message can buy much time with it.
_BACKTRACKING_MAX: Final = 20_000


class JsonSchema:
    kind = JSON
    may_block = False

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        validator = _validator(source)
        self._is_valid = validator.is_valid
        self._iter_errors = validator.iter_errors
        has_choices = any(word in source for word in _CHOICES) or "\\u" in source
        self._explained_bytes_max = _EXPLAINED_BYTES_MAX_OF_CHOICES if has_choices else _EXPLAINED_BYTES_MAX

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        try:
            value = decode_json(data)
        except EvaluationFault as fault:
            raise SchemaError(str(fault)) from None
        if not self._is_valid(value):
            raise SchemaError(self._problem(value, len(data)))
        return value

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        try:
            text = encode_json(value).encode()
        except EvaluationFault as fault:
            raise SchemaError(str(fault)) from None
        self.decode(text)
        return text

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        if type(data) is bytes or isinstance(data, str | bytes):  # the first is what a publish asks, and quicker
            try:
                value = _loads(data)
            except orjson.JSONDecodeError as error:
                return f"not valid JSON: {error}"
            return None if self._is_valid(value) else self._problem(value, len(data))
        try:
            self.encode(data)
        except SchemaError as error:
            return str(error)
        return None

    def _problem(self, value: Value, size: int) -> str:
        if size > self._explained_bytes_max:
            most = self._explained_bytes_max
            return f"it does not fit the schema (why is explained up to {most:,} bytes, not for {size:,})"
        error = next(iter(self._iter_errors(value)))
        text = " ".join(error.message.split())
        if len(text) > _PROBLEM_CHARACTERS:
            text = text[: _PROBLEM_CHARACTERS - 3] + "..."
        path = ".".join(map(str, error.instance_path))
        return f"at {path[:_PROBLEM_CHARACTERS]}: {text}" if path else text

    def __repr__(self) -> str:
        return f"JsonSchema({self.name})"


def _validator(source: str) -> Any:
    try:
        schema = json.loads(source)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaSourceError(f"not valid JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise SchemaSourceError("a JSON Schema must be an object")
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKING_MAX)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=patterns)
    except jsonschema_rs.ValidationError as error:
        path = ".".join(map(str, error.instance_path))
        raise SchemaSourceError(f"not a JSON Schema: {f'at {path}: ' if path else ''}{error.message}") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaSourceError(f"not a JSON Schema that can be used: {' '.join(str(error).split())}") from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"it refers to {uri}, and what lies outside of a schema is not fetched")
