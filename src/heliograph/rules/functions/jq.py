"""jq programs in rules, which run in worker processes (`heliograph.rules.jq_process`) under a timeout."""

from typing import Final

from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.values import Value

FAMILY: Final = Family("jq")

_TIMEOUT_MS_MAX: Final = 3_600_000


@FAMILY.function("S program, V input[, I timeout_ms]", "A", may_block=True, asks_environment=True)
def jq(environment: Environment, program: str | bytes, document: Value, timeout_ms: int | None = None) -> Value:
    """All outputs of a jq program on a JSON text or any other value; fails if it fails or takes too long."""
    if timeout_ms is not None and not 0 < timeout_ms <= _TIMEOUT_MS_MAX:
        raise EvaluationFault(f"the timeout must be from 1 to {_TIMEOUT_MS_MAX:,} ms, not {timeout_ms}")
    timeout_s = None if timeout_ms is None else timeout_ms / 1000
    return decode_json(environment.jq.evaluate(utf8(program).encode(), _json_text(document), timeout_s))


def _json_text(document: Value) -> bytes:
    if not isinstance(document, str | bytes):
        return encode_json(document).encode()
    # jq itself would also take several documents in a row, and NaN.
    decode_json(document)
    return document.encode() if isinstance(document, str) else document
