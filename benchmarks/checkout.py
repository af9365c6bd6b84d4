"""Another commit of this project, unpacked and compiled beside this one. Nothing is measured here."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent


def checkout(which: str, folder: Path) -> Path:
    """The tree of a commit, compiled.

    Args:
        which: A revision of git, or the directory of a checkout, which is taken as it is.
        folder: Where the trees of revisions are kept; one that is there is not compiled again.

    Raises:
        SystemExit: There is no such revision, or it cannot be compiled.
    """
    if Path(which).is_dir():
        return Path(which)
    commit = _run(["git", "rev-parse", "--verify", f"{which}^{{commit}}"], _ROOT).strip()
    tree = (folder / f"before-{commit[:12]}").resolve()
    done = tree / ".compiled"
    if not done.exists():
        print(f"compiling {which} ({commit[:12]}) in {tree}", file=sys.stderr, flush=True)
        tree.mkdir(parents=True, exist_ok=True)
        _run(["git", "archive", "--output", str(tree / "all.tar"), commit], _ROOT)
        _run(["tar", "-xf", "all.tar"], tree)
        for package in (tree, tree / "bench"):
            if (package / "setup.py").exists():  # earlier revisions have the load tool among the broker's packages
                _run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], package)
        done.touch()
    return tree


def _run(command: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "HELIOGRAPH_PURE"}
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed in {folder}:\n{finished.stderr.strip()[-2000:]}")
    return finished.stdout
