"""Names the folders of tests that `.ci/run` repeats uncompiled: of compiled packages that a change has touched.

    python scripts/changed_tests.py [COMMIT]

The change is what differs from COMMIT, by default from where this branch left `origin/main`. A clone of that branch
does not know what was new in it: there it is what the last twelve hours before its newest commit have brought. A folder
is named where its tests or its package have changed, and every folder where the build has, or where git cannot answer.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_KERNEL: Final = ("mqtt", "broker", "session", "channel", "retainer")
# Folders of tests, and the packages whose code they run.
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    **{package: (package,) for package in (*_KERNEL, "transport")},
    "bench": (),
    "conformance": (*_KERNEL, "transport"),
    "durable": _KERNEL,
    "fuzz": (*_KERNEL, "transport"),
}
_BUILD: Final = (
    "setup.py",
    "bench/setup.py",
    "pyproject.toml",
    "constraints.txt",
    "scripts/set_up.py",
    "scripts/compiling/",
)
_NEW_S: Final = 12 * 3600


def main() -> int:
    """Print the folders; the exit code."""
    base = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else base_of(ROOT)
    for folder in folders(changed_since(base, ROOT)):
        print(f"tests/{folder}")
    return 0


def folders(changed: list[str] | None) -> list[str]:
    """The folders of tests that a change of these files touches; all of them for None."""
    if changed is None or any(file.startswith(_BUILD) for file in changed):
        return sorted(PACKAGES)

    def is_touched(folder: str) -> bool:
        places = (f"tests/{folder}/", f"{folder}/src/", *(f"src/heliograph/{package}/" for package in PACKAGES[folder]))
        return any(file.startswith(places) for file in changed)

    return sorted(folder for folder in PACKAGES if is_touched(folder))


def base_of(root: Path) -> str | None:
    """The commit before the change; None where there is none that git knows of."""
    head, left = _git(root, "rev-parse", "HEAD"), _git(root, "merge-base", "HEAD", "origin/main")
    if left is not None and left != head:
        return left
    newest = _git(root, "show", "-s", "--format=%ct", "HEAD")
    if newest is None:
        return None
    return _git(root, "rev-list", "-1", f"--before={int(newest) - _NEW_S}", "HEAD") or None


def changed_since(base: str | None, root: Path) -> list[str] | None:
    """The files that differ from a commit, those that git does not know yet included; None where git cannot answer."""
    if base is None:
        return None
    differing = _git(root, "diff", "--name-only", "--no-renames", base, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return None if differing is None or new is None else [*differing.splitlines(), *new.splitlines()]


def _git(root: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
