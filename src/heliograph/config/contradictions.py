"""What no single setting shows: settings of which each is valid, and which contradict one another."""

from collections.abc import Iterator
from typing import Final

from heliograph.config.listeners import Listener, enabled
from heliograph.config.settings import Config
from heliograph.config.storage import RESERVED_NAMES, MessagesConfig
from heliograph.config.units import Address, UnixAddress

DEFAULT_ZONE: Final = "default"

Path = tuple[str, ...]


def contradictions(config: Config) -> Iterator[tuple[Path, str]]:
    """Each setting that does not go together with the others: its path, and what is wrong with it."""
    taken: dict[Address | UnixAddress, Path] = {}
    for kind, name, listener in enabled(config.listeners):
        path = ("listeners", kind, name)
        if listener.zone != DEFAULT_ZONE and listener.zone not in config.zones:
            yield (*path, "zone"), _no_zone(config, listener.zone)
        if _is_fixed(listener):
            other = taken.setdefault(listener.bind, path)
            if other != path:
                yield (*path, "bind"), _same_address(listener.bind, other)
    yield from _offload(config)
    for name in config.durable_storage.databases:
        if name in RESERVED_NAMES:
            own = ", ".join(RESERVED_NAMES)
            yield (
                ("durable_storage", "databases", name),
                f"the broker has databases of its own: {own}; choose another name",
            )


def _offload(config: Config) -> Iterator[tuple[Path, str]]:
    storage = config.durable_storage
    databases: dict[Path, MessagesConfig] = {("durable_storage", "messages"): storage.messages}
    databases |= {("durable_storage", "databases", name): one for name, one in storage.databases.items()}
    for path, settings in databases.items():
        if settings.offload.enable and not settings.offload.target:
            yield (
                (*path, "offload", "target"),
                'found "", where offload is enabled: give a directory or a URI such as "s3://bucket/path"',
            )


def _no_zone(config: Config, zone: str) -> str:
    known = ", ".join(sorted({DEFAULT_ZONE, *config.zones}))
    return f'found "{zone}", but there is no such zone; there are {known}. Describe it under zones.{zone}'


def _same_address(bind: Address | UnixAddress, other: Path) -> str:
    path = ".".join(other)
    return f'found "{bind}", where {path} listens already: choose another, or say {path}.enable = false'


def _is_fixed(listener: Listener) -> bool:
    """Whether a listener opens just this address; of port 0 the system makes a free one."""
    return isinstance(listener.bind, UnixAddress) or listener.bind.port != 0
