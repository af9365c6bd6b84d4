"""`ctl vm`: what the process of a node uses, and what holds it."""

import argparse
from collections.abc import Callable, Mapping

import msgspec

from heliograph.cli.ctl.asking import add_command, asked
from heliograph.cli.ctl.printing import print_json
from heliograph.cli.ctl.status import duration
from heliograph.cli.ctl.times import size_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import vm as proto
from heliograph.rpc.client import RpcClient


def add_parser(actions: Actions) -> None:
    """Add `vm`."""
    parser = add_command(
        actions,
        _vm,
        "vm",
        "show processor, memory by owner, open files and the event loop of the node",
        "heliograph ctl vm memory",
    )
    parser.add_argument("what", nargs="?", choices=("all", *_SECTIONS), default="all", help="default: all")


def _vm(args: argparse.Namespace) -> int:
    """Show what the process of the node uses: `load` (processor), `memory` (by owner; docs/memory.md), `io` (open files
    and disks), `loop` (how long turns of the event loop keep others waiting); without a word all of it.
    """
    wanted = list(_SECTIONS) if args.what == "all" else [args.what]
    with asked(args) as node:
        answers = {name: _SECTIONS[name][0](node) for name in wanted}
    if args.json:
        print_json(answers if args.what == "all" else answers[args.what])
        return 0
    for name, answer in answers.items():
        if len(answers) > 1:
            print(name)
        lines = _SECTIONS[name][1](answer)
        width = max(map(len, lines))
        for heading, value in lines.items():
            print(f"{'  ' if len(answers) > 1 else ''}{heading:<{width}}  {value}")
    return 0


def _load(load: proto.VmLoad) -> dict[str, str]:
    return {
        "process": f"{load.pid}, up for {duration(int(load.uptime_s))}, {load.threads} threads",
        "processor": f"{load.percent:.1f} % of a core since this was last asked, or since the start",
        "processor time": f"{load.user_s:,.1f} s user, {load.system_s:,.1f} s system",
        "load of the machine": f"{' '.join(f'{one:.2f}' for one in load.averages)} on {load.cores} cores",
    }


def _memory(memory: proto.VmMemory) -> dict[str, str]:
    limit = f" of {size_of(memory.limit)} (node.memory_limit), stage {memory.stage}" if memory.limit else ", no limit"
    lines = {"used": size_of(memory.used) + limit}
    held = {**memory.held, "other": max(0, memory.used - sum(memory.held.values()))}
    for owner in sorted(held, key=lambda one: -held[one]):
        lines[f"  {owner}"] = size_of(held[owner])
    return lines


def _io(io: proto.VmIo) -> dict[str, str]:
    return {
        "open files": f"{'unknown' if io.open_files < 0 else f'{io.open_files:,}'} of {io.open_files_max:,}",
        "read from disks": size_of(io.read_bytes),
        "written to disks": size_of(io.written_bytes),
    }


def _loop(loop: proto.VmLoop) -> dict[str, str]:
    lines = {
        "last tick came late by": f"{loop.lag_s * 1000:.1f} ms",
        "latest tick came late by": f"{loop.longest_lag_s * 1000:.1f} ms",
    }
    for bucket in loop.ticks:
        at_most = bucket.at_most_s
        name = "ticks later" if at_most == "+Inf" else f"ticks late by at most {float(at_most) * 1000:g} ms"
        lines[name] = f"{bucket.count:,}"
    return lines


_SECTIONS: dict[str, tuple[Callable[[RpcClient], msgspec.Struct], Callable[..., Mapping[str, str]]]] = {
    "load": (lambda node: node.ask(proto.VM_LOAD()), _load),
    "memory": (lambda node: node.ask(proto.VM_MEMORY()), _memory),
    "io": (lambda node: node.ask(proto.VM_IO()), _io),
    "loop": (lambda node: node.ask(proto.VM_LOOP()), _loop),
}
