"""Writes the C code of the compiled modules with mypyc; a program, so that its memory is free while C is compiled.

    python c_code.py GROUP DIRECTORY SOURCE...

The answer on standard output is JSON: a list of `[extension, C files, include directories]`.
"""

import contextlib
import json
import sys


def write_c_code(group: str, directory: str, sources: list[str]) -> list[tuple[str, list[str], list[str]]]:
    """Write the C code of `sources` below `directory`: one file for each module, and a small one that loads it.

    Returns:
        For each extension module its name, its C files and the directories of its headers; the shared library first.
    """
    import setuptools  # noqa: F401 - before mypyc, which takes its class of extensions
    from mypyc.build import mypycify

    extensions = mypycify(
        [
            # `make lint` checks the types strictly. Here mypyc must know what it can rely on, from these sources alone.
            "--config-file=",
            "--no-site-packages",
            "--ignore-missing-imports",
            "--warn-unreachable",
            "--cache-dir=build/types",
            *sources,
        ],
        multi_file=True,
        group_name=group,
        target_dir=directory,
    )
    return [(each.name, list(each.sources), list(each.include_dirs)) for each in extensions]


def main() -> None:
    """Write the code and print what there is to compile; what mypyc says goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        found = write_c_code(sys.argv[1], sys.argv[2], sys.argv[3:])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
