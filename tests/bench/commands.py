"""`heliograph bench` as its user calls it."""

import argparse

from heliograph_bench import command as bench


def run(*options: object) -> int:
    """What `heliograph bench OPTIONS` does; its exit code."""
    parser = argparse.ArgumentParser()
    bench.add_parser(parser.add_subparsers())
    args = parser.parse_args(["bench", *map(str, options)])
    code = args.run(args)
    assert isinstance(code, int)
    return code
