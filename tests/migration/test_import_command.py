"""`heliograph conf import`: what it refuses, what it keeps to itself, and that nothing gets in that did not before."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from support.cases import cases
from support.certificates import Authority


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory for each test."""
    monkeypatch.chdir(tmp_path)


def written(name: str, text: str) -> str:
    """A file in the working directory."""
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    return name


def report(*files: str, options: tuple[str, ...] = ()) -> str:
    """The report of an import that is made."""
    number = len(list(Path().glob("out*")))
    main(["conf", "import", *files, "--output", f"out{number}", *options])
    return Path(f"out{number}", "report.txt").read_text()


def test_without_output_the_report_stands_as_comments_before_the_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conf", "import", written("mosquitto.conf", "listener 1884 127.0.0.1\nmax_connections 7\n")]) == 0
    text = capsys.readouterr().out
    assert "# mosquitto.conf:2: max_connections 7: kept as listeners.tcp.default.max_connections = 7\n" in text
    listener = load_config(written("made.conf", text)).listeners.tcp["default"]
    assert (str(listener.bind), listener.max_connections) == ("127.0.0.1:1884", 7)
    assert sorted(os.listdir()) == ["made.conf", "mosquitto.conf"]


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    written("mosquitto.conf", "listener 1883 127.0.0.1\npassword_file passwd\n")
    written("passwd", "ann:$7$101$AAAA$AAAA\n")
    written("out/users.json", "mine")
    assert main(["conf", "import", "mosquitto.conf", "--output", "out"]) == 1
    assert "out has users.json already, and nothing is overwritten" in capsys.readouterr().err
    assert os.listdir("out") == ["users.json"]
    assert Path("out/users.json").read_text() == "mine"


def test_only_the_owner_reads_what_is_written() -> None:
    written("passwd", "ann:$7$101$AAAA$AAAA\n")
    report(written("mosquitto.conf", "listener 1883 127.0.0.1\npassword_file passwd\n"))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in Path("out0").iterdir()}
    assert modes == {0o600}


@cases(
    ("line", "expected"),
    [
        ("ann:$argon2id$v=19$m=4096$c2FsdA$aGFzaA", "user ann: cannot be imported: its hash is of another kind"),
        ("ann:secret", "user ann: cannot be imported: its password is not hashed: run mosquitto_passwd -U"),
        ("ann:$7$101$!$AAAA", "user ann: cannot be imported: its salt or hash is no Base64"),
        ("ann:$7$x$AAAA$AAAA", "user ann: cannot be imported: its number of iterations is not valid"),
    ],
)
def test_a_hash_that_cannot_be_taken_stops_the_import(
    line: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written("passwd", f"bob:$7$101$AAAA$AAAA\n{line}\n")
    written("mosquitto.conf", "listener 1883 127.0.0.1\npassword_file passwd\n")
    assert main(["conf", "import", "mosquitto.conf", "--output", "out"]) == 1
    text = capsys.readouterr()
    assert "1 logins would be lost, so nothing is made" in text.err
    assert expected in text.err
    assert "heliograph ctl users add ann" in text.err
    assert "secret" not in text.out + text.err
    assert not Path("out").exists()
    assert main(["conf", "import", "mosquitto.conf", "--output", "out", "--lose-logins"]) == 0
    assert [user["user_id"] for user in json.loads(Path("out/users.json").read_text())] == ["bob"]
    shutil.rmtree("out")


@cases(
    ("text", "expected"),
    [
        ("listener 1883\nacl_file none\n", "acl_file none cannot be read"),
        ("listener 1883\nacl_file bad\n", "bad: line 1, column 1: found 'tpoic'"),
        ("listener 1883\nmount_point a\nacl_file good\n", "the mountpoint 'a' ends within a level"),
        ("listener x\nallow_anonymous true\n", "listener needs a port"),
        ("listener 1883\nallow_anonymous maybe\n", "mosquitto.conf:2: allow_anonymous maybe: true and false are valid"),
    ],
)
def test_what_would_let_clients_do_too_much_is_refused(
    text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written("bad", "tpoic read a\n")
    written("good", "topic read a\n")
    assert main(["conf", "import", written("mosquitto.conf", text), "--output", "out"]) == 1
    text = capsys.readouterr().err
    assert "[import_refused]" in text
    assert expected in text
    assert not Path("out").exists()


def test_files_of_two_brokers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    written("mosquitto.conf", "listener 1883\n")
    assert main(["conf", "import", "mosquitto.conf", written("emqx.conf", "mqtt.max_inflight = 3\n")]) == 1
    assert "the files are of mosquitto and of EMQX" in capsys.readouterr().err


def test_a_plugin_that_authenticates_lets_nobody_in_here() -> None:
    written("mosquitto.conf", "listener 1883\nplugin /mosquitto/go-auth.so\nplugin_opt_backends postgres\n")
    assert "plugins are not there, so clients that only it knows are refused here" in report(
        "mosquitto.conf", options=("--lose-logins",)
    )
    config = load_config("out0/heliograph.conf")
    assert len(config.authentication) == 1
    assert config.authorization.no_match == "deny"
    assert not config.listeners.tcp["default"].allow_anonymous_network


def test_secrets_of_options_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    options = "remote_password s3cret\nlocal_password s3cret\nbridge_psk s3cret\npassword s3cret\n"
    written("mosquitto.conf", f"listener 1883 127.0.0.1\nconnection a\n{options}auth_opt_pg_password s3cret\n")
    main(["conf", "import", "mosquitto.conf"])
    text = capsys.readouterr()
    assert "remote_password ******" in text.out
    assert "s3cret" not in text.out + text.err


@cases(
    ("option", "here"),
    [
        ("max_inflight_messages 30", "kept as mqtt.max_inflight = 30"),
        ("max_queued_messages 0", "kept as mqtt.max_mqueue_len = infinity"),
        ("max_queued_bytes 100", "changed to mqtt.max_mqueue_bytes = 1024: less is not valid here"),
        ("message_size_limit 1000", "changed to mqtt.max_packet_size = 1000: it bounds the whole packet"),
        ("persistent_client_expiration 200y", "changed to mqtt.session_expiry_interval = 4294967295s"),
        ("persistent_client_expiration 3x", "cannot be imported: mosquitto does not take this value either"),
        ("max_topic_alias 3", "kept as mqtt.max_topic_alias of the listener tcp:default = 3"),
        ("use_username_as_clientid true", "kept as mqtt.use_username_as_clientid of the listener tcp:default = true"),
        ("bind_interface eth1", "cannot be imported: name an address of it in bind"),
        ("allow_zero_length_clientid false", "cannot be imported: such a client always gets an id"),
        ("log_dest syslog", "dropped: the service manager takes standard error"),
        ("no_such_option 1", "cannot be imported: mosquitto 2 has no such option"),
    ],
)
def test_an_option_has_its_outcome(option: str, here: str) -> None:
    written("mosquitto.conf", f"listener 1883\n{option}\n")
    assert f"mosquitto.conf:2: {option}: {here}" in report("mosquitto.conf")


@cases("option", ["protocol http_api", "psk_hint meters"])
def test_a_listener_that_speaks_something_else_is_left_out(option: str) -> None:
    lines = report(written("mosquitto.conf", f"listener 1883 127.0.0.1\nlistener 8080\n{option}\nmax_connections 3\n"))
    assert all(f"mosquitto.conf:{number}: " in lines for number in (2, 3, 4))
    assert lines.count("cannot be imported: this listener is left out") == 3
    made = sorted(file.name for file in Path().glob("out*"))[-1]
    assert list(load_config(f"{made}/heliograph.conf").listeners.tcp) == ["default"]


def test_what_a_listener_needs_no_certificate_for_stays_without(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.server()
    authority.revoke()
    written("passwd", "ann:$7$101$AAAA$AAAA\n")
    options = "certfile server.pem\nkeyfile server.pem\ncrlfile revoked.pem\npsk_hint meters\npassword_file passwd\n"
    lines = report(written("mosquitto.conf", f"listener 8883 127.0.0.1\n{options}"))
    assert "psk_hint meters: cannot be imported: only clients that use certificates connect here" in lines
    listener = load_config("out0/heliograph.conf").listeners.ssl["default"]
    assert not listener.ssl_options.enable_crl_check


def test_a_listener_of_an_interface_is_on_the_loopback() -> None:
    report(written("mosquitto.conf", "listener 1883\nbind_interface eth1\nallow_anonymous true\n"))
    assert str(load_config("out0/heliograph.conf").listeners.tcp["default"].bind) == "127.0.0.1:1883"


EMQX = "authorization.sources = []\nlisteners { ssl.default.enable = false, wss.default.enable = false }\n"


@cases(
    ("text", "expected"),
    [
        (
            "authentication = [{ mechanism = password_based, backend = tablestore }]",
            "authentication.1: cannot be imported: mechanism and backend say 'password_based:tablestore'",
        ),
        (
            "authentication = [{ mechanism = jwt, algorithm = none }]",
            "authentication.1: cannot be imported: authentication.1.algorithm: found",
        ),
    ],
)
def test_an_authenticator_that_is_lost_lets_nobody_in(
    text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written("emqx.conf", EMQX + text)
    assert main(["conf", "import", "emqx.conf", "--output", "refused"]) == 1
    assert expected in capsys.readouterr().err
    lines = report("emqx.conf", options=("--lose-logins",))
    assert "no authenticator is left, and without any everyone would be let in" in lines
    number = len(list(Path().glob("out*"))) - 1
    config = load_config(f"out{number}/heliograph.conf")
    assert len(config.authentication) == 1
    assert not config.listeners.tcp["default"].allow_anonymous_network


@cases(
    ("text", "path", "value"),
    [
        ("authorization.sources = [{ type = client_info }]", "authorization.no_match", "deny"),
        ("authorization.no_match = perhaps", "authorization.no_match", "deny"),
        ("listeners.tcp.default.access_rules = [nobody]", "listeners.tcp.default.enable", "false"),
        ("listeners.tcp.default.enable_authn = perhaps", "listeners.tcp.default.enable", "false"),
        ("listeners.tcp = [nothing]", "listeners.tcp.default.bind", "0.0.0.0:1883"),
    ],
)
def test_what_keeps_clients_out_is_not_lost(text: str, path: str, value: str) -> None:
    lines = report(written("emqx.conf", EMQX + text))
    assert f"{path} = {value}" in lines


def test_users_of_emqx_that_no_file_has_stop_the_import(capsys: pytest.CaptureFixture[str]) -> None:
    written("emqx.conf", EMQX + "authentication = { mechanism = password_based, backend = built_in_database }")
    assert main(["conf", "import", "emqx.conf", "--output", "out"]) == 1
    assert "the users of authentication.1: cannot be imported: no file has them" in capsys.readouterr().err


def test_rules_that_emqx_reads_by_default_must_be_there() -> None:
    lines = report(written("emqx.conf", "listeners.tcp.default.bind = 1883\n"))
    assert "put acl.conf beside this file, and import again; until then all is denied" in lines
    assert load_config("out0/heliograph.conf").authorization.no_match == "deny"
    written("acl.conf", '{deny, all, subscribe, ["secret/#"]}.\n{allow, all}.\n')
    assert "acl.conf, the source of rules: a copy of acl.conf" in report("emqx.conf")
    assert Path("out1/acl.conf").read_text() == Path("acl.conf").read_text()


def test_cluster_hocon_is_below_emqx_conf() -> None:
    written("configs/cluster.hocon", "mqtt { max_inflight = 5, max_qos_allowed = 1 }\n")
    lines = report(written("emqx.conf", EMQX + "mqtt.max_inflight = 7\n"), "configs/cluster.hocon")
    config = load_config("out0/heliograph.conf").mqtt
    assert (config.max_inflight, config.max_qos_allowed) == (7, 1)
    assert "emqx.conf:3: mqtt.max_inflight: kept as mqtt.max_inflight = 7" in lines
    assert "configs/cluster.hocon:1: mqtt.max_qos_allowed: kept as mqtt.max_qos_allowed = 1" in lines


def test_a_key_within_the_configuration_becomes_a_file(tmp_path: Path) -> None:
    server = Authority(tmp_path).server().read_text()
    options = f'ssl_options {{ certfile = """{server}""", keyfile = """{server}""" }}'
    written("emqx.conf", f'{EMQX}listeners.ssl.own {{ bind = "127.0.0.1:8883", {options} }}\n')
    lines = report("emqx.conf")
    assert (
        "keyfile: changed to listeners.ssl.own.ssl_options.keyfile = listeners-ssl-own-ssl_options-keyfile.pem" in lines
    )
    assert stat.S_IMODE(Path("out0/listeners-ssl-own-ssl_options-keyfile.pem").stat().st_mode) == 0o600
    assert "BEGIN" not in lines
    assert main(["conf", "check", "out0/heliograph.conf", "--data-dir", str(tmp_path / "data")]) == 0


def test_a_listener_that_was_deleted_in_emqx_is_not_there() -> None:
    lines = report(written("emqx.conf", f"{EMQX}listeners.ws.default = marked_for_deletion\n"))
    assert "listeners.ws.default: changed to listeners.ws.default.enable = false: it was deleted in EMQX" in lines
    assert not load_config("out0/heliograph.conf").listeners.ws["default"].enable


def test_a_rule_keeps_the_actions_that_are_there() -> None:
    connector = 'connectors.http.c { url = "http://localhost" }\n'
    good = "actions.http.good { connector = c, parameters { method = post } }\n"
    bad = "actions.http.bad { connector = c, parameters { method = fly } }\n"
    rule = 'rule_engine.rules.r { sql = "SELECT * FROM \'t\'", actions = ["http:good", "http:bad"] }\n'
    lines = report(written("emqx.conf", EMQX + connector + good + bad + rule))
    assert "actions.http.bad: cannot be imported: actions.http.bad.parameters.method: found" in lines
    assert "rule_engine.rules.r.actions: http:bad: cannot be imported: this action is not there" in lines
    assert 'rule_engine.rules.r.actions: kept as rule_engine.rules.r.actions = ["http:good"]' in lines


def test_a_rule_that_is_none_here_is_not_imported() -> None:
    rules = 'rule_engine.rules { good.sql = "SELECT * FROM \'t\'", bad.sql = "SELECT FROM WHERE" }\n'
    lines = report(written("emqx.conf", EMQX + rules))
    assert "rule_engine.rules.bad: cannot be imported: rule_engine.rules.bad.sql: [rule_syntax]" in lines
    assert list(load_config("out0/heliograph.conf").rule_engine.rules) == ["good"]


def test_secrets_of_emqx_are_stars_in_the_report() -> None:
    lines = report(written("emqx.conf", EMQX + 'dashboard.default_password = "s3cret"\n'))
    assert "dashboard.default_password: kept as dashboard.default_password = ******" in lines
    assert "s3cret" not in lines


def test_a_database_that_is_damaged_is_told() -> None:
    written("mosquitto.conf", "listener 1883 127.0.0.1\n")
    Path("mosquitto.db").write_bytes(b"\x00\xb5\x00mosquitto db" + bytes(7) + b"\x06" + b"\x00\x00\x00\x02\x00\x00")
    assert "mosquitto.db: the database: cannot be imported: it is damaged" in report("mosquitto.conf", "mosquitto.db")
    Path("mosquitto.db").write_bytes(b"\x00\xb5\x00mosquitto db" + bytes(7) + b"\x03")
    assert "it has the format 3" in report("mosquitto.conf", "mosquitto.db")


def test_users_of_dynamic_security_keep_their_passwords_and_may_do_nothing_yet() -> None:
    hashed = {"password": "AAAA", "salt": "AAAA", "iterations": 101}
    clients = [
        {"username": "admin", **hashed, "roles": [{"rolename": "admin"}]},
        {"username": "bound", **hashed, "clientid": "c-1"},
        {"username": "gone", **hashed, "disabled": True},
        {"username": "none"},
    ]
    written("dynamic-security.json", json.dumps({"clients": clients, "roles": []}))
    options = "plugin /usr/lib/mosquitto_dynamic_security.so\nplugin_opt_config_file dynamic-security.json\n"
    lines = report(written("mosquitto.conf", f"listener 1883 127.0.0.1\n{options}"))
    assert [user["user_id"] for user in json.loads(Path("out0/users.json").read_text())] == ["admin", "bound"]
    for words in (
        "its roles are not imported, so all is denied: say with heliograph ctl acl what users may do",
        "client admin: kept as a user with its PBKDF2 hash",
        "client bound: changed to a user with its PBKDF2 hash: it may log in with any client id, there with c-1 alone",
        "client gone: dropped: it is disabled",
        "client none: dropped: it has no password",
    ):
        assert words in lines
    assert load_config("out0/heliograph.conf").authorization.no_match == "deny"
