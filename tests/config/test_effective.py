"""Settings in effect: their values as text and as JSON, and where secrets stand in them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from heliograph.config.effective import EffectiveSetting, effective_settings
from heliograph.config.layers import Sources
from heliograph.config.settings import Config
from heliograph.hocon.document import parse_text
from heliograph.hocon.values import to_plain
from heliograph.settings.fields import (
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    Setting,
    setting_at,
    settings_of,
)
from heliograph.settings.kinds import Kind, Unless
from support.cases import cases


def settings(directory: Path, text: str) -> dict[str, EffectiveSetting]:
    """What is in effect, by path."""
    file = directory / "node.conf"
    file.write_text(text)
    return {one.path: one for one in effective_settings(Sources(file, {}, {}).read(lambda data_dir: None))}


def declared(model: type[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Setting]]:
    """Every setting of a group and of the groups below it."""
    for name, setting in settings_of(model).items():
        place = (*path, name)
        if isinstance(setting.kind, Section | Named | Overlays | ListOfSections):
            yield from declared(setting.kind.model, place)
        else:
            yield ".".join(place), setting
        if isinstance(setting.kind, ListOfVariants):
            for one in setting.kind.models:
                yield from declared(one, (*place, setting.kind.name_of(one)))


DEFAULTS = {
    path: (setting.kind, setting.default)
    for path, setting in declared(Config)
    if isinstance(setting.kind, Kind | ListOf | ListOfVariants)
    and not setting.is_required
    and (setting.default is not None or isinstance(setting.kind, Unless))
}


@cases("path", DEFAULTS)
def test_a_default_is_the_same_as_text_and_as_json(path: str) -> None:
    kind, default = DEFAULTS[path]
    text, plain = kind.show(default), kind.plain(default)
    tree = to_plain(parse_text(f"value = {text}"))
    assert isinstance(tree, Mapping)
    assert tree["value"] == json.loads(json.dumps(plain))


def test_values_are_told_as_json_and_secrets_by_declaration(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        """
        mqtt.max_inflight = 7
        connectors.http.web {
          url = "http://u:hunter2@here/", description = "******"
          headers { x-plain = "hunter2", Content-Type = "text/plain" } }
        connectors.pgsql.db { server = "here", password = "hunter2", database = d, username = u }
        connectors.pgsql.of_file { server = "here", password = "file:///run/key", database = d, username = u }
        connectors.pgsql.without { server = "here", database = d, username = u }
        authentication = [
          { mechanism = password_based, backend = redis, server = "here", password = "hunter2"
            cmd = "HMGET a password_hash" }
          { mechanism = password_based, backend = http, method = get, url = "http://here?a=${username}&b=hunter2"
            body { p = "${password}", k = "hunter2" }
            headers { some-name = "hunter2" } }
        ]
        authorization.sources {
          type = http, method = get, url = "http://u:hunter2@here/", headers { a = "hunter2" }
        }
        opentelemetry.exporter { endpoint = "http://here", headers { k = "hunter2" } }
        """,
    )
    assert "hunter2" not in repr(found)
    assert (found["mqtt.max_inflight"].plain, found["mqtt.max_packet_size"].plain) == ("7", '"1MB"')
    assert json.loads(found["connectors.http.web.headers"].plain) == {"x-plain": "******", "Content-Type": "text/plain"}
    _, asked = json.loads(found["authentication"].plain)
    assert asked["url"] == "http://here?a=${username}&b=******"
    assert asked["body"] == {"p": "${password}", "k": "******"}
    secrets = {path: one.secrets for path, one in found.items() if one.secrets}
    assert secrets == {
        "connectors.http.web.url": ((),),
        "connectors.http.web.headers": (("x-plain",),),
        "connectors.pgsql.db.password": ((),),
        "connectors.pgsql.of_file.password": ((),),
        "authentication": (("1", "password"), ("2", "url"), ("2", "body", "k"), ("2", "headers", "some-name")),
        "authorization.sources": (("url",), ("headers", "a")),
        "opentelemetry.exporter.headers": (("k",),),
    }
    assert json.loads(found["connectors.pgsql.without.password"].plain) in (None, "")
    assert json.loads(found["dashboard.sso.oidc.default_role"].plain) == "none"  # a word, not that there is no value


@pytest.mark.parametrize(
    ("path", "is_place"),
    [
        ("connectors.http.web.url", True),
        ("connectors.pgsql.db.server", True),
        ("connectors.redis.r.parameters.servers", True),
        ("connectors.delta.d.storage_options.any name", True),
        ("connectors.s3.s.port", True),
        ("actions.http.a.connector", True),
        ("schema_registry.external.r.url", True),
        ("connectors.http.web.headers.host", False),
        ("connectors.http.web.pool_size", False),
    ],
)
def test_what_names_a_place_is_declared(path: str, is_place: bool) -> None:
    setting = setting_at(Config, path.split("."))
    assert setting is not None
    assert setting.is_place == is_place


def test_nothing_is_declared_at_other_paths() -> None:
    assert setting_at(Config, ("connectors", "http", "web", "nothing")) is None
    assert setting_at(Config, ()) is None
