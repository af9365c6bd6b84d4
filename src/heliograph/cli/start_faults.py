"""Checks what a valid configuration names: files and directories without which a node cannot start.

`heliograph conf check` looks at them as a start does, and changes nothing.
"""

import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path

from heliograph.config import Config
from heliograph.config.authentication.built_in_database import BuiltInDatabaseConfig
from heliograph.config.authentication.jwt import JwtConfig
from heliograph.config.open_listeners import open_listener_faults
from heliograph.node.file_faults import Fault, file_faults


def start_faults(config: Config) -> Iterator[Fault]:
    """The path of each setting that would stop a start, and why."""
    yield from open_listener_faults(config)
    yield from file_faults(config)
    yield from _authenticators(config)
    yield from _bans(config)
    yield from _data_dir(Path(config.node.data_dir))
    if config.pipeline.enable:
        yield from _pipeline(config.pipeline.file)


def _authenticators(config: Config) -> Iterator[Fault]:
    """Files of users and of keys; their modules are loaded where a configuration names some."""
    from heliograph.access.authentication.members import chain_settings

    for _, path, listed in chain_settings(config):
        for number, settings in enumerate(listed, 1):
            here = (*path, str(number))
            if not settings.enable:
                continue
            if isinstance(settings, BuiltInDatabaseConfig) and settings.bootstrap_file:
                yield from _users(settings, here)
            elif isinstance(settings, JwtConfig) and settings.public_key:
                from heliograph.access.authentication.jwt_keys import KeyUnusableError, pem_key

                try:
                    pem_key(settings.public_key)
                except KeyUnusableError as error:
                    yield (*here, "public_key"), str(error)


def _users(settings: BuiltInDatabaseConfig, path: tuple[str, ...]) -> Iterator[Fault]:
    from heliograph.access.users.files import UserFileError
    from heliograph.access.users.intake import checked_users

    file = Path(settings.bootstrap_file)
    form, kind = file.suffix.removeprefix("."), settings.bootstrap_type
    try:
        for _ in checked_users(file.read_bytes(), form, kind, settings.password_hash_algorithm):
            pass
    except OSError as error:
        yield (*path, "bootstrap_file"), f"{file} cannot be read: {error.strerror}"
    except UserFileError as error:
        yield (*path, "bootstrap_file"), f"{file}: {error}"


def _bans(config: Config) -> Iterator[Fault]:
    if config.banned.bootstrap_file:
        from heliograph.access.bans.ban_list import BanList
        from heliograph.access.bans.bootstrap import BootstrapFileError, load_bans

        now_s = int(time.time())
        try:
            load_bans(BanList(lambda: now_s, config.banned.max_entries), config.banned.bootstrap_file, now_s)
        except BootstrapFileError as error:
            yield ("banned", "bootstrap_file"), str(error)


def _data_dir(directory: Path) -> Iterator[Fault]:
    there = next(place for place in (directory.absolute(), *directory.absolute().parents) if place.exists())
    if not there.is_dir():
        yield ("node", "data_dir"), f"{str(directory)!r} cannot be used: {there} is no directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield ("node", "data_dir"), f"{str(directory)!r} cannot be used: {there} cannot be written"


def _pipeline(file: str) -> Iterator[Fault]:
    path = ("pipeline", "file")
    if importlib.util.find_spec("pyspark") is None:
        yield path, "pyspark is not installed: pip install 'heliograph[pipeline,sinks]'"
        return
    if not file:  # it runs only actions, which the configuration itself checks
        return
    # Imported where a node has a pipeline: the others need no Spark.
    from heliograph.pipeline.errors import RuleFileError
    from heliograph.pipeline.files.rulefile import load_pipeline
    from heliograph.pipeline.sinks.libraries import library_fault

    try:
        pipeline = load_pipeline(Path(file))
    except RuleFileError as error:
        yield from ((path, told) for told in error.mistakes)
        return
    for name in pipeline.query_names:
        fault = library_fault(pipeline.sink(name))
        if fault is not None:
            yield path, f"{pipeline.job(name).origin}: {name}: {fault}"
