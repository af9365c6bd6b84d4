"""Finds words in our texts that `docs/glossary.md` replaces by others. Part of `make lint`.

Texts are comments, docstrings and other strings with a space of `src` and `scripts`, the Markdown pages without their
code, and the texts of the dashboard.

    python scripts/check_words.py
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/glossary.md"
HEADING: Final = "## Words to avoid"

_FILES: Final = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "tests/support/README.md",
    "src/heliograph/**/*.py",
    "bench/**/*.py",
    "scripts/**/*.py",
    "src/heliograph/management/dashboard/static/texts/en/*.js",
)
_NAME: Final = re.compile(r"^ +\w+(?=: )", re.MULTILINE)  # of an argument, an attribute, a text of the dashboard
_GAP: Final = r"(?:\s|#)+"  # between two words: also a line break, and the sign of a comment after it
_ARTICLE: Final = "(?:a|an|all|another|each|every|its|one|other|the|their|what)"
_NO_VERB: Final = r"(?!(?:can|cannot|is|may|must|not|to|was|will)\b)"
_OBJECT: Final = rf"(?:it|one|them|others|{_ARTICLE}(?:{_GAP}{_NO_VERB}[\w'`-]+){{1,2}}){_GAP}"


@dataclass(frozen=True)
class Offence:
    """A word at its place."""

    path: str
    line: int
    text: str
    instead: str


@dataclass(frozen=True)
class Rule:
    """A row of the glossary: what is found, where it is right, and what to write."""

    found: re.Pattern[str]
    allowed: re.Pattern[str] | None
    instead: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the text has what is found, but for what is allowed."""
        allowed = [each.span() for each in self.allowed.finditer(text)] if self.allowed else []
        for each in self.found.finditer(text):
            if not any(start <= each.start() and each.end() <= end for start, end in allowed):
                yield each.span()


def read_rules(page: str) -> list[Rule]:
    """The rules of the table in the glossary.

    Args:
        page: The text of `docs/glossary.md`.
    """
    rows = re.findall(r"^\| (`.+?) \| (.*?) \| ?(.*?) ?\|$", page.partition(HEADING)[2], re.MULTILINE)
    if not rows:
        raise ValueError(f"{GLOSSARY} has no table below {HEADING!r}")
    return [Rule(_pattern(words), _pattern(allowed) if "`" in allowed else None, to) for words, to, allowed in rows]


def _pattern(cell: str) -> re.Pattern[str]:
    """Matches any of the phrases of a cell, in backticks.

    `…` stands for an object such as "it" or "the last session", `/` is between words of which one is there, and a
    word that begins with a capital does so in the text.
    """
    phrases = [_phrase(phrase.split()) for phrase in re.findall(r"`(.+?)`", cell)]
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b".replace(f"…{_GAP}", _OBJECT))


def _phrase(words: Sequence[str]) -> str:
    first, *others = ("…" if word == "…" else f"(?:{'|'.join(map(re.escape, word.split('/')))})" for word in words)
    return _GAP.join((re.sub(r"(?<=[:|])[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", first), *others))


def texts(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """The texts of a file for people, each with its first line."""
    if path.suffix == ".md":
        page = source.partition(HEADING)[0] if path.as_posix().endswith(GLOSSARY) else source
        yield 1, re.sub(r"^```.*?^```|`[^`\n]*`", _blank, page, flags=re.MULTILINE | re.DOTALL)
    elif path.suffix == ".js":
        yield 1, _NAME.sub("", source)
    else:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, _NAME.sub("", re.sub(r"`[^`\n]*`", _blank, node.value))
        yield from _comments(source)


def _blank(code: re.Match[str]) -> str:
    """Code without its text, so that lines keep their numbers."""
    return "`" + "\n" * code[0].count("\n") + "`"


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments; lines of one that follow each other are one text."""
    begin, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] == begin + len(lines):
                lines.append(token.string)
                continue
            if lines:
                yield begin, "\n".join(lines)
            begin, lines = token.start[0], [token.string]
    if lines:
        yield begin, "\n".join(lines)


def offences(rules: Sequence[Rule], root: Path = ROOT) -> Iterator[Offence]:
    """All offences of the tree."""
    any_of_them = re.compile("|".join(rule.found.pattern for rule in rules))
    for path in sorted({path for pattern in _FILES for path in root.glob(pattern)}):
        source = path.read_text(encoding="utf-8")
        if any_of_them.search(source):  # most files have none, and reading the syntax of all takes long
            name = path.relative_to(root).as_posix()
            for line, text in texts(path, source):
                yield from offences_in(rules, name, line, text)


def offences_in(rules: Sequence[Rule], name: str, line: int, text: str) -> Iterator[Offence]:
    """The offences of one text, whose first line is `line` of the file `name`."""
    for rule in rules:
        for start, end in rule.spans(text):
            around = " ".join(text[max(0, start - 60) : end + 60].split())
            yield Offence(name, line + text.count("\n", 0, start), f"{text[start:end]!r} in “{around}”", rule.instead)


def main() -> int:
    """Print each offence; return the exit code."""
    found = list(offences(read_rules((ROOT / GLOSSARY).read_text(encoding="utf-8"))))
    for offence in found:
        print(f"{offence.path}:{offence.line}: {offence.text}; write: {offence.instead}")
    if found:
        print(f"{len(found)} words that {GLOSSARY} replaces by others", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
