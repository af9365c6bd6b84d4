"""Finds words in our texts that `docs/glossary.md` replaces by others. Part of `make lint`.

Texts are comments, docstrings and other strings with a space of `src` and `scripts`, the Markdown pages without their
code, and the texts of the dashboard. `scripts/words_left.toml` counts by file what is left from before: a count may
only fall, and a file that is not listed may have none.

    python scripts/check_words.py             each offence that is too much
    python scripts/check_words.py --all       each offence
    python scripts/check_words.py --lower     writes the counts, if none has risen
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/glossary.md"
LEFT: Final = "scripts/words_left.toml"
HEADING: Final = "## Words to avoid"

_FILES: Final = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "tests/support/README.md",
    "src/heliograph/**/*.py",
    "scripts/**/*.py",
    "src/heliograph/management/dashboard/static/texts/en/*.js",
)
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
        yield 1, source
    else:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
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


def count(found: Sequence[Offence]) -> dict[str, int]:
    """How many offences each file has."""
    names = [offence.path for offence in found]
    return {name: names.count(name) for name in sorted(set(names))}


def risen(counts: Mapping[str, int], left: Mapping[str, int]) -> list[str]:
    """The files that have more than is left to them."""
    return [name for name, number in counts.items() if number > left.get(name, 0)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is too much; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="print each offence, also of the files that may have some")
    parser.add_argument("--lower", action="store_true", help=f"write the counts into {LEFT}, if none has risen")
    chosen = parser.parse_args(arguments)
    found = list(offences(read_rules((ROOT / GLOSSARY).read_text(encoding="utf-8"))))
    counts = count(found)
    path = ROOT / LEFT
    left = tomllib.loads(path.read_text(encoding="utf-8"))["left"] if path.exists() else {}
    faulty = risen(counts, left)
    for offence in found:
        if chosen.all or offence.path in faulty:
            print(f"{offence.path}:{offence.line}: {offence.text}; write: {offence.instead}")
    for name in faulty:
        print(f"{name} has {counts[name]}, and may have {left.get(name, 0)}: see {GLOSSARY}", file=sys.stderr)
    if chosen.lower and not faulty:
        path.write_text("[left]\n" + "".join(f'"{name}" = {number}\n' for name, number in counts.items()))
    print(f"check_words: {sum(counts.values())} words left in {len(counts)} files")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
