"""The file that a ban list begins with: CSV with the columns as, who, reason, by, at, until, as EMQX has them.

A file with a mistake is refused as a whole, with every line that is wrong: a node that starts without half of its bans
lets in clients that its operator banned.
"""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import Ban, BanError

COLUMNS: Final = ("as", "who", "reason", "by", "at", "until")
_NEEDED: Final = ("as", "who")
_PROBLEMS_SHOWN: Final = 20


class BootstrapFileError(Exception):
    code: ClassVar[str] = "banned_bootstrap_file"


def load_bans(bans: BanList, file: str | Path, now_s: int) -> int:
    """Add the bans of a CSV file that have not ended, and count them. Raises `BootstrapFileError`."""
    path = Path(file)
    problems: list[str] = []
    read: list[tuple[int, Ban]] = []
    for line, row in _rows(path):
        try:
            ban = _ban(row)
            if ban.until_s is None or ban.until_s > now_s:
                read.append((line, ban))
        except BanError as error:
            problems.append(f"{path}:{line}: {error}")
    added = 0
    for line, ban in read:
        try:
            added += bans.add(ban)
        except BanError as error:
            problems.append(f"{path}:{line}: {error}")
    if problems:
        more = len(problems) - _PROBLEMS_SHOWN
        text = "\n".join(problems[:_PROBLEMS_SHOWN]) + (f"\nand {more} more lines" if more > 0 else "")
        raise BootstrapFileError(f"banned.bootstrap_file holds lines that are no bans:\n{text}")
    if bans.statistics()["banned.refused_entries"]:
        raise BootstrapFileError(
            f"banned.bootstrap_file {str(path)!r} holds more bans than banned.max_entries allows, or more than 1000 "
            "regular expressions. Raise the limit, or name networks (peerhost_net) instead"
        )
    return added


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            header = [name.strip() for name in reader.fieldnames or ()]
            _check_header(path, header)
            reader.fieldnames = header
            for row in reader:
                if None in row:
                    raise BootstrapFileError(f"{path}:{reader.line_num}: more values than columns")
                yield reader.line_num, {name: (value or "").strip() for name, value in row.items()}
    except OSError as error:
        raise BootstrapFileError(
            f"banned.bootstrap_file {str(path)!r} cannot be read: {error.strerror}. Mend the path, or leave it empty"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BootstrapFileError(f"banned.bootstrap_file {str(path)!r} is no CSV in UTF-8: {error}") from None


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in _NEEDED if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if missing or unknown:
        raise BootstrapFileError(f"{path}:1: the columns are {','.join(header)}; expected {','.join(COLUMNS)}")


def _ban(row: dict[str, str]) -> Ban:
    until = row.get("until", "")
    return Ban(
        row["as"],
        row["who"],
        row.get("reason", ""),
        row.get("by", ""),
        _seconds(row.get("at", "") or "0"),
        None if until in ("", "infinity") else _seconds(until),
    )


def _seconds(text: str) -> int:
    """Seconds since the epoch, of a number or an RFC 3339 time, which is UTC without an offset."""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise BanError(f"{text!r} is no time such as 2026-01-31T12:00:00Z, and no seconds since the epoch") from None
