"""Checks the types of the dashboard's modules: `make lint-page`, and part of `make lint`.

What the API answers they know from `api.d.ts` beside their `tsconfig.json`, which is made here from its document; so is
the module with the words of a client's facts, from their declaration.
TypeScript and the types of the libraries come from npm in the versions of `scripts/page_types/package-lock.json`, once,
into a cache directory. Where npm is not installed, or cannot get them, it says so and checks nothing.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.api_types import client_facts, declarations

CHECKOUT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = CHECKOUT / "scripts" / "page_types"
OPTIONS: Final = CHECKOUT / "src" / "heliograph" / "management" / "dashboard" / "tsconfig.json"
CLIENT_FACTS: Final = OPTIONS.parent / "static" / "pages" / "clients" / "declared.js"
INSTALL_S: Final = 300
LEFT_OUT: Final = "the types of the dashboard's modules are not checked"


def main() -> int:
    """Check; 0 if nothing is wrong, or nothing could be checked."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        print(f"{LEFT_OUT}: node and npm are not installed")
        return 0
    try:
        folder = installed()
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", "") or str(error)
        print(f"{LEFT_OUT}: npm cannot install TypeScript: {said.strip()[-500:]}", file=sys.stderr)
        return 0
    (OPTIONS.parent / "api.d.ts").write_text(declarations())
    CLIENT_FACTS.write_text(client_facts())
    # In a file of its own, named by the checkout: several of them share the packages.
    project = folder / f"{hashlib.sha256(bytes(CHECKOUT)).hexdigest()[:16]}.json"
    project.write_text(json.dumps(options(folder)))
    return subprocess.run([folder / "node_modules" / ".bin" / "tsc", "--project", project], check=False).returncode


def installed() -> Path:
    """The folder with the packages, made on first use.

    Raises:
        subprocess.SubprocessError: npm cannot install them.
    """
    lock = (PACKAGES / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heliograph-tests"
    folder = cache / f"page-types-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGES / name, folder)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=True)
        (folder / "installed").touch()
    return folder


def options(folder: Path) -> dict[str, object]:
    """The options of the compiler, with the places of this checkout and of the packages."""
    packages = f"{folder}/node_modules"
    return {
        "extends": str(OPTIONS),
        "compilerOptions": {
            "paths": {"*": [f"{packages}/*", f"{packages}/@types/*"]},
            "typeRoots": [f"{packages}/@types"],
        },
        "include": [f"{OPTIONS.parent}/api.d.ts", f"{OPTIONS.parent}/static/**/*.js"],
    }


if __name__ == "__main__":
    sys.exit(main())
