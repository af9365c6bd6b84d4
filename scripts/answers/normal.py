"""What differs between two runs of the same code, and what stands in its place in a recording."""

import re
import time
from collections.abc import Callable
from typing import Any, Final

_DAY_S: Final = 86_400
#: Keys whose numbers are of the moment, in the answers of all calls: what has passed, and what a process takes.
_OF_THE_MOMENT: Final = (
    "uptime",
    "uptime_s",
    "uptime_ms",
    "pid",
    "load1",
    "load5",
    "load15",
)


class Normal:
    """The rules of one recording.

    A rule holds for calls whose file name a pattern finds, so a number that is always the same stays one elsewhere.
    """

    def __init__(self) -> None:
        self._words: list[tuple[str, str]] = []
        self._now_s = time.time()
        days = (time.gmtime(self._now_s + day * _DAY_S) for day in range(-1, 32))
        dates = "|".join(sorted({time.strftime("%Y-%m-%d", day) for day in days}))
        self._time = re.compile(rf"(?:{dates})(?:[T_ ]\d\d[:-]\d\d[:-]\d\d(?:\.\d+)?)?")

    def word(self, word: str, name: str) -> None:
        """Write the name of a word of this run, such as an id, in its place."""
        if word and (word, name) not in self._words:
            self._words.append((word, name))
            self._words.sort(key=lambda each: -len(each[0]))

    def forget(self) -> None:
        """Forget the words, which another node uses for other things."""
        self._words.clear()

    def words(self, text: str) -> str:
        """A text with the names of words that are of this run."""
        for word, name in self._words:
            # The digits of a port may be a part of another number.
            text = re.sub(rf"(?<!\w){word}(?!\w)", name, text) if word.isdigit() else text.replace(word, name)
        return text

    def text(self, call: str, text: str) -> str:
        """The text of a call in the form that is the same each time."""
        text = self._time.sub(lambda found: re.sub(r"\d", "0", found[0]), self.words(text))
        text = re.sub(r"(?<![\w.])\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?![\w.])", self._epoch, text)
        for pattern, replace in _ALL:
            text = pattern.sub(replace, text)
        for calls, rules in _RULES:
            if calls.search(call):
                for pattern, replace in rules:
                    text = pattern.sub(replace, text)
        return text

    def _epoch(self, found: re.Match[str]) -> str:
        """A time near now, in seconds to nanoseconds, as the name of its unit."""
        whole, _, fraction = found[0].partition(".")
        unit = 10 ** (len(whole) - 10)
        is_near = -_DAY_S < int(whole) / unit - self._now_s < 32 * _DAY_S
        return f"<time in 1/{unit} s{' with a fraction' if fraction else ''}>" if is_near else found[0]

    def value(self, call: str, value: Any) -> Any:
        """The JSON of a call: of charts only the form, with one point each."""
        return _form(value) if _CHARTS.search(call) else value


def _form(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _form(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_form(each) for each in value[:1]]
    return "<number>" if value is None or (isinstance(value, int | float) and not isinstance(value, bool)) else value


Replace = str | Callable[[re.Match[str]], str]
Rules = list[tuple[re.Pattern[str], Replace]]


def _rules(calls: str, *rules: tuple[str, Replace]) -> tuple[re.Pattern[str], Rules]:
    return re.compile(calls), [(re.compile(pattern, re.MULTILINE), replace) for pattern, replace in rules]


def _number(keys: str) -> tuple[str, Replace]:
    """The numbers of JSON keys that a pattern finds, or null."""
    return rf'("(?:{keys})"): ?(?:-?[\d.]+(?:e-?\d+)?|null)', r'\1: "<number>"'


def _sample(names: str) -> tuple[str, Replace]:
    """The values of metrics that a pattern finds, in Prometheus' text."""
    return rf"^((?:{names})(?:\{{[^}}]*\}})?) \S+$", r"\1 <number>"


#: Where each point of a chart, and how many there are, is of the moment.
_CHARTS: Final = re.compile(r"^reads/(monitor|heliograph/history|heliograph/nodes/[^/]*/(turns|memory))")
_ALL: Final = _rules(
    "",
    (r"127\.0\.0\.1:\d{5}\b", "127.0.0.1:<port>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b(?!0{16})[0-9A-Fa-f]{32}\b", "<id of 32 digits>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b(pid|process) \d+\b", r"\1 <pid>"),
    (r"emqx-export-0000-00-00-\d\d-\d\d-\d\d\.\d{3}", "<archive>"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    _number("|".join(_OF_THE_MOMENT)),
)[1]
#: Metrics whose values are of the moment: times, what the machine has, how commits came together.
_MEASURED: Final = (
    r"[\w.]*(?:loop|lag|turn|commit|memory|latency|vm|uptime|cpu|batch|time|rate|compaction|disk|heap|collections"
    r"|sessions\.messages)[\w.+]*"
)
_SPACES: Final = (" {2,}", "  ")  # of tables whose columns are as wide as what they hold
_RULES: Final = [
    _rules("clients", _number("port|heap_size|reductions"), (r'("start": "\d_)\d+', r"\1<position>")),
    _rules("clients|heliograph/messages", (r'("cursor": ")[\w=+/-]{12,}"', r'\1<cursor>"')),
    _rules("^commands/reads/clients/", (r"\b\d{5}\b", "<port>")),
    _rules("^(reads|refused)/prometheus/", _sample(_MEASURED.replace("[\\w.", "[\\w")), _number(_MEASURED)),
    _rules("^(reads|refused)/prometheus/", _sample("heliograph_storage_messages_total")),
    _rules("^reads/(heliograph/live|metrics|stats|nodes|monitor)", _number(_MEASURED)),
    _rules("^reads/nodes", (r'("memory_used": ")[\d.]+\w?"', r'\1<size>"')),
    _rules("^commands/reads/broker.*nonzero", (rf"^(\{{.*)?\b{_MEASURED}.*\n", "")),
    _rules("^commands/reads/(broker|vm)", (rf"^(.*?{_MEASURED}[^\d\n]*?)  +[\d,.]+.*$", r"\1  <number>"), _SPACES),
    _rules("^commands/reads/(broker|vm).*json", (rf'^(.*"{_MEASURED}".*"value":)[\d.e-]+', r"\1<number>")),
    _rules("^commands/reads/vm", (r"(?<![\w.])[\d,.]+(?![\w.])", "<number>"), (r"\d+\.\d+", "<number>")),
    _rules("^commands/reads/(vm|status)", (r"up for( \d+[dhms])+", "up for <time>")),
    _rules("heliograph/live/", _number(r"\w+")),
    _rules("delayed", _number("delayed_remaining|remaining_s")),
    _rules("storage|ds/", _number(r"[\w.]*(?:commit|batch|bytes|size|per_second|messages|compaction)[\w.]*")),
    _rules("^commands/reads/ds/ds_info(_--database_messages)?.txt", (r"\b[\d.]+ ([KM]iB|B)\b", "<size>"), _SPACES),
    _rules("api_key", (r'("api_secret": )"\w+"', r'\1"<secret>"'), (r'("api_key": )"\w{16}"', r'\1"<key>"')),
    _rules("api_keys", (r"(secret +)\S{43}$", r"\1<secret>"), (r'("secret":)"\S{43}"', r'\1"<secret>"')),
    _rules("people", (r'("token": )"[\w-]{43}"', r'\1"<token>"')),
    _rules("^(reads|changes)/rules", _number(r"matched\.rate.*")),
    _rules("authorization|authz", (r"(mean_s\":|latency\w*\": ?)[\d.e-]+", r"\1<number>"), _number("rate.*|mean_s")),
    _rules("authz_sources.txt|authz/", (r"\d\.\d{1,3}$", "<ms>")),
    _rules("olp/", (r"[\d.]+ (?=s,|%,)", "<number> "), (r'("value":)[\d.e-]+', r"\1<number>")),
    _rules("trace", (r"modified at  [\d,.]+", "modified at  <time>"), (r"\b\d+m( \d+s)?\b", "<time left>"), _SPACES),
    _rules("trace_list", (r"\b\d+B\b", "<size>")),
    _rules("trace", _number("left_s|modified_at"), (r"\d\d:\d\d:\d\d\.\d{6}\b", "<time of day>")),
    _rules("traces?/.*GET_trace", (r'("heliograph@127\.0\.0\.1": )\d+', r"\1<size>")),
    _rules("conf_revisions", _SPACES),
    _rules("/log/", (r"number \d+:", "number <number>:")),
    _rules("backups/", _number("size")),
    _rules("replays/", _number("seconds|rows_per_second|messages_per_second")),
]
