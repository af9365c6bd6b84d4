"""`schema_registry` in a configuration file, and `heliograph schema`."""

from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.rules.schemas.configured import schema_faults, schema_settings
from heliograph.rules.schemas.settings import HttpService
from heliograph.settings.errors import ConfigError
from support.cases import cases

PROTO = 'syntax = "proto3"; message M { int32 n = 1; }'


def config_of(directory: Path, text: str) -> Config:
    """The configuration with these schemas."""
    file = directory / "node.conf"
    file.write_text(f"schema_registry.schemas {{\n{text}\n}}\n")
    return load_config(file, checks=(schema_faults,))


def mistake_in(directory: Path, text: str) -> str:
    """The first mistake in these schemas."""
    with pytest.raises(ConfigError) as caught:
        config_of(directory, text)
    return str(caught.value).replace(f"{directory}/", "")


def test_schemas_of_every_type(tmp_path: Path) -> None:
    (tmp_path / "protos" / "parts").mkdir(parents=True)
    (tmp_path / "protos" / "main.proto").write_text(f'{PROTO} import "parts/part.proto"; message N {{ Part p = 1; }}')
    (tmp_path / "protos" / "parts" / "part.proto").write_text('syntax = "proto3"; message Part { int32 n = 1; }')
    (tmp_path / "r.avsc").write_text('{"type": "record", "name": "r", "fields": []}')
    config = config_of(
        tmp_path,
        f"""
        text {{ type = protobuf, source = \"\"\"{PROTO}\"\"\", description = "what it is" }}
        file {{ type = avro, source {{ type = file, path = "r.avsc" }} }}
        disk {{ type = protobuf, source {{ type = bundle, root_proto_path = "protos/main.proto" }} }}
        here {{
          type = protobuf
          source {{ type = bundle, files = [
            {{ path = "main.proto", root = true, contents = \"\"\"{PROTO} import "x.proto";\"\"\" }}
            {{ path = "x.proto", contents = \"\"\"{PROTO.replace("M", "X")}\"\"\" }}
          ] }}
        }}
        json {{ type = json, source = \"\"\"{{"type": "string"}}\"\"\" }}
        http {{
          type = external_http
          parameters {{ url = "http://127.0.0.1:9500/serde", headers {{ x-key = k }}, request_timeout = 2s }}
        }}
        """,
    )
    settings = {name: schema_settings(name, one) for name, one in config.schema_registry.schemas.items()}
    assert list(settings) == ["text", "file", "disk", "here", "json", "http"]
    assert settings["disk"].root == "main.proto"
    assert dict(settings["disk"].files).keys() == {"main.proto", "parts/part.proto"}
    assert settings["http"].service == HttpService(
        "http://127.0.0.1:9500/serde", headers=(("x-key", "k"),), request_timeout_s=2.0
    )


@cases(
    ("text", "mistake"),
    [
        (
            'p { type = protobuf, source = """syntax = "proto3";\nmessage A { strin a = 1; }""" }',
            'node.conf:2: schema_registry.schemas.p.source: line 2, column 13: "strin" is not defined.',
        ),
        (
            '\n\na { type = avro, source { type = file, path = "no.avsc" } }',
            "node.conf:4: schema_registry.schemas.a.source: found",
        ),
        ('j { type = json, source = "{" }', "node.conf:2: schema_registry.schemas.j.source: not valid JSON"),
        ("j { type = json }", "node.conf:2: schema_registry.schemas.j: a schema of type json needs source"),
        ('j { source = "{}" }', "node.conf:2: schema_registry.schemas.j: a schema needs type: avro, protobuf, json"),
        ("h { type = external_http }", "node.conf:2: schema_registry.schemas.h: a schema of type external_http needs"),
        ('sparkplug_b { type = json, source = "{}" }', "the schema sparkplug_b is built in; choose another name"),
        ('j { type = xml, source = "{}" }', 'found "xml", expected avro, protobuf, json or external_http'),
        (
            "j { type = protobuf, source { type = bundle, files = [] } }",
            "one of its files must have root = true, not 0",
        ),
    ],
)
def test_mistakes_show_file_and_line(tmp_path: Path, text: str, mistake: str) -> None:
    assert mistake in mistake_in(tmp_path, text)


def test_schema_ls_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_of(tmp_path, f'm {{ type = protobuf, source = """{PROTO}""" }}\nj {{ type = json, source = "{{}}" }}')
    config, data = str(tmp_path / "node.conf"), tmp_path / "data"
    assert main(["schema", "ls", "--config", config]) == 0
    assert capsys.readouterr().out == "m  protobuf  M\nj  json\n"
    data.write_bytes(b"\x08\x05")
    assert main(["schema", "check", "--config", config, "m", str(data)]) == 0
    assert capsys.readouterr().out == '{"n":5}\n'
    assert main(["schema", "check", "sparkplug_b", str(data)]) == 0
    assert capsys.readouterr().out == '{"timestamp":5}\n'
    data.write_bytes(b"\xff")
    assert main(["schema", "check", "--config", config, "m", str(data)]) == 1
    assert "these are not bytes of the Protobuf message M" in capsys.readouterr().err
    assert main(["schema", "check", "--config", config, "none", str(data)]) == 1
    assert "there is no schema 'none'; there are: m, j" in capsys.readouterr().err
