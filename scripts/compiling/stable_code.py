"""Gives each C file of mypyc a text that changes only with what its module uses, so that its object can be kept.

mypyc numbers literals and temporary names over all modules, and each file includes the declarations of all of them: one
more string in one module would change every file. Here the symbol of a literal is made of its value, which the linker
resolves; temporary names are numbered within their file; and of the declarations a file has those that it names.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

# What `emitfunc` writes for a literal, with its value behind it unless that is long.
_LITERAL: Final = re.compile(r"CPyStatics\[(\d+)\](.*?;)(?: /\* (.*) \*/)?$", re.MULTILINE)
_TEMPORARY: Final = re.compile(r"\b(__(?:tmp|LL))(\d+)\b")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_OWN_INCLUDE: Final = re.compile(r'#include "__native\w*\.h"\n')
_INCLUDE: Final = re.compile(r"#include .*")
_STRUCT: Final = re.compile(r"(?:struct (\w+) \{|\} (\w+);)")
_FUNCTION_OR_VARIABLE: Final = re.compile(r"(\w+)\)?(?:\[\d*\])?[(;]")
# Names that files refer to are within the shared library: its table of symbols is not asked where they are.
_WITHIN: Final = "#pragma GCC visibility push(hidden)\n"
_SYMBOLS: Final = """
#define TEXT_OF(name) #name
#define VALUE_OF(name) TEXT_OF(name)
__asm__(
{}
);
"""
_SYMBOL: Final = '".globl {0}\\n.hidden {0}\\n.set {0}, CPyStatics + {1} * " VALUE_OF(__SIZEOF_POINTER__) "\\n"'


def stabilize(directory: Path, group: str) -> None:
    """Rewrite the C files of the modules and of the group.

    Args:
        directory: Where mypyc wrote them.
        group: The name of the group of modules.
    """
    headers = [(directory / name).read_text() for name in (f"__native_{group}.h", f"__native_internal_{group}.h")]
    declarations = Declarations(headers)
    modules = {path: path.read_text() for path in sorted(directory.glob(f"__native_{group}___*.c"))}
    literals = _literal_symbols(modules.values())
    for path, text in modules.items():
        path.write_text(_stable(text, literals, declarations))
    whole = directory / f"__native_{group}.c"
    symbols = "\n".join(_SYMBOL.format(name, number) for number, name in sorted(literals.items()))
    whole.write_text(whole.read_text() + _SYMBOLS.format(symbols))


class Declarations:
    """What the headers of a group declare, by name.

    Args:
        headers: The texts of the headers.

    Attributes:
        includes: The headers of others that they include, as lines of C.
    """

    def __init__(self, headers: Iterable[str]) -> None:
        texts = [_OWN_INCLUDE.sub("", header) for header in headers]
        self.includes = "\n".join(dict.fromkeys(line for text in texts for line in _INCLUDE.findall(text)))
        self._chunks = [chunk for text in texts for chunk in _chunks(text)]
        self._names = [set(_NAME.findall(chunk)) for chunk in self._chunks]
        self._of_name: dict[str, list[int]] = {}
        for number, chunk in enumerate(self._chunks):
            for name in _declared(chunk):
                self._of_name.setdefault(name, []).append(number)

    def of(self, text: str) -> str:
        """Those that `text` names, and those that these name, in their order."""
        found: set[int] = set()
        todo = set(_NAME.findall(text))
        while todo:
            new = {number for name in todo for number in self._of_name.get(name, ())} - found
            found |= new
            todo = {name for number in new for name in self._names[number]}
        return "\n".join(self._chunks[number] for number in sorted(found))


def _stable(text: str, literals: dict[int, str], declarations: Declarations) -> str:
    used: set[str] = set()

    def literal(match: re.Match[str]) -> str:
        name = literals[int(match[1])]
        used.add(name)
        return f"{name}{match[2]}"

    temporaries: dict[str, str] = {}

    def temporary(match: re.Match[str]) -> str:
        return temporaries.setdefault(match[0], f"{match[1]}{len(temporaries)}")

    text = _TEMPORARY.sub(temporary, _LITERAL.sub(literal, _OWN_INCLUDE.sub("", text)))
    declared = "".join(f"extern PyObject *{name};\n" for name in sorted(used))
    return f"{declarations.includes}\n{_WITHIN}{declarations.of(text)}\n{declared}{text}"


def _literal_symbols(texts: Iterable[str]) -> dict[int, str]:
    """A symbol for the number of each literal: made of its value, and of its rank among those of the same text."""
    values = {int(match[1]): match[3] or "" for text in texts for match in _LITERAL.finditer(text)}
    ranks: dict[str, int] = {}
    symbols = {}
    for number, value in sorted(values.items()):
        ranks[value] = rank = ranks.get(value, -1) + 1
        symbols[number] = f"CPyLiteral_{hashlib.sha256(value.encode()).hexdigest()[:16]}_{rank}"
    return symbols


def _chunks(header: str) -> Iterator[str]:
    """The declarations of a header, each with the lines that belong together."""
    lines: list[str] = []
    depth = 0
    for line in header.splitlines():
        # Tuples may be in the headers of mypyc's library too, so that they have a guard each; that of the file goes.
        is_guard = line.startswith("#") and (bool(lines) or "MYPYC_DECLARED" in line)
        if not is_guard and not lines and (not line or line.startswith("#")):
            continue
        lines.append(line)
        depth += line.count("{") - line.count("}") + line.startswith("#ifndef") - line.startswith("#endif")
        if depth == 0 and line.endswith((";", "}", "#endif")):
            yield "\n".join(lines)
            lines = []


def _declared(chunk: str) -> Iterator[str]:
    """The names that a declaration introduces; without those of a structure's fields."""
    if "{" in chunk:
        yield from (name for names in _STRUCT.findall(chunk) for name in names if name)
    elif found := _FUNCTION_OR_VARIABLE.search(chunk):
        yield found[1]
