"""An archive of EMQX's data export: its tables are backups that a Mnesia has made."""

import base64
import json
import re
import tarfile
from contextlib import chdir, suppress
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.migration.emqx.archive import rows_of
from heliograph.migration.emqx.terms import TermError, read_term
from heliograph.mqtt import reason_codes as rc
from support.api_node import ApiNode
from support.cases import cases
from support.management import KEY, SECRET
from support.running import RunningNode

EXPORT = Path(__file__).parent / "export"
NAME = "emqx-export-2026-01-31-10-00-00.000"
BIND = re.compile(r'bind = "[0-9.\[\]:]+:[0-9]+"')


def archive(folder: Path, *left_out: str, **replaced: bytes) -> Path:
    """The archive in a folder, without some of its files, or with others in their place."""
    path = folder / f"{NAME}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for file in sorted(EXPORT.rglob("*")):
            if file.is_file() and file.name not in left_out:
                source = file
                if file.name in replaced:
                    source = folder / "replaced"
                    source.write_bytes(replaced[file.name])
                tar.add(source, f"{NAME}/{file.relative_to(EXPORT)}")
    return path


def imported(path: Path, *options: str) -> int:
    """The exit code of an import into `out` beside the archive."""
    with chdir(path.parent):
        return main(["conf", "import", path.name, "--output", "out", *options])


def test_who_could_not_log_in_any_more_is_named_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(archive(tmp_path)) == 1
    assert not (tmp_path / "out").exists()
    expected = capsys.readouterr().err
    assert "4 logins would be lost, so nothing is made:" in expected
    for words in (
        "user of the dashboard admin: cannot be imported: it has a salted SHA-256 of EMQX: heliograph ctl admins add",
        "API key grafana: cannot be imported: it has a hash of EMQX: heliograph ctl api_keys add grafana",
        "identity meter-7: cannot be imported: it has a key of TLS-PSK",
        "user sue: cannot be imported: it has SCRAM keys: heliograph ctl users add sue --mechanism scram",
        "--lose-logins",
    ):
        assert words in expected


async def test_users_rules_and_bans_are_as_in_emqx(tmp_path: Path) -> None:
    assert imported(archive(tmp_path), "--lose-logins") == 0
    out = tmp_path / "out"
    assert (out / "acl.conf").read_text().splitlines() == [
        '{allow, {clientid, "c-1"}, publish, ["c/1"]}.',
        '{allow, {username, "bob"}, {publish, [{qos, [0, 1]}, {retain, false}]}, ["bob/${clientid}"]}.',
        '{deny, {\'and\', [{username, "bob"}, {ipaddr, "10.0.0.0/8"}]}, all, ["bob/#"]}.',
        '{allow, all, subscribe, ["public/#"]}.',
        '{deny, all, all, [{eq, "#"}, "secret/#"]}.',
        '{allow, {username, "ann"}, all, ["#"]}.',
        '{deny, all, subscribe, ["$SYS/#"]}.',
    ]
    messages = json.loads((out / "retained.json").read_text())
    assert [(each["topic"], each["qos"], each["properties"]) for each in messages] == [
        ("a/b", 1, {"content_type": "text", "user_properties": {"k": "v"}})
    ]
    text = BIND.sub('bind = "127.0.0.1:0"', (out / "heliograph.conf").read_text())
    async with RunningNode(tmp_path, text, "management.enable = false") as node:
        assert await node.connack("a", "ann", b"ann-secret") == rc.SUCCESS
        assert await node.connack("a", "bob", b"bob-secret") == rc.SUCCESS
        assert await node.connack("a", "bob", b"ann-secret") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.connack("p", "plc-1", b"plc-secret", listener="tcp:plant") == rc.SUCCESS
        assert await node.connack("p", "plc-1", b"plc-secret") == rc.NOT_AUTHORIZED
        assert await node.connack("evil", "bob", b"bob-secret") == rc.BANNED
        bob = await node.connect("c", username="bob", password=b"bob-secret")
        assert await bob.publish("bob/c", b"x", qos=1) != rc.NOT_AUTHORIZED
        assert await bob.publish("bob/d", b"x", qos=1) == rc.NOT_AUTHORIZED
        assert await bob.subscribe("public/#") == rc.SUCCESS
        assert await bob.subscribe("secret/x") == rc.NOT_AUTHORIZED


def test_without_the_table_of_users_they_would_be_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logins = ("emqx_admin", "emqx_app", "emqx_psk", "emqx_enhanced_authn_scram_mnesia")
    assert imported(archive(tmp_path, "emqx_authn_mnesia", *logins)) == 1
    expected = capsys.readouterr().err
    assert "the users of authentication.1: cannot be imported: no file has them: export them in EMQX" in expected
    assert "the users of listeners.tcp.plant.authentication.1" in expected


def test_without_the_table_of_rules_the_rest_is_denied(tmp_path: Path) -> None:
    assert imported(archive(tmp_path, "emqx_acl"), "--lose-logins") == 0
    assert 'no_match = "deny"' in (tmp_path / "out" / "heliograph.conf").read_text()
    report = (tmp_path / "out" / "report.txt").read_text()
    assert "the rules of the built-in database: cannot be imported: no file has them" in report
    assert "authorization.no_match: changed to authorization.no_match = deny: rules are missing" in report


def test_a_damaged_table_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = (EXPORT / "mnesia" / "emqx_authn_mnesia").read_bytes()
    assert imported(archive(tmp_path, emqx_authn_mnesia=users[:-3])) == 1
    assert "the table emqx_authn_mnesia is not readable: it is damaged at byte" in capsys.readouterr().err


@cases(
    ("content", "expected"),
    [(b"", "cannot be read as an archive"), (b"\x1f\x8b\x08 no gzip", "cannot be read as an archive")],
)
def test_what_is_no_archive_is_refused(
    content: bytes, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "emqx-export-x.tar.gz"
    path.write_bytes(content)
    assert imported(path) == 1
    assert expected in capsys.readouterr().err


def test_an_archive_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(archive(tmp_path, "META.hocon")) == 1
    assert "is no export of EMQX: it has no META.hocon" in capsys.readouterr().err


@cases("count", range(1, 400, 7))
def test_a_backup_that_was_cut_gives_no_wrong_rows(count: int) -> None:
    whole = (EXPORT / "mnesia" / "emqx_acl").read_bytes()
    rows = list(rows_of(whole))
    found = []
    with suppress(TermError):
        for row in rows_of(whole[:-count]):
            found.append(row)
    assert found == rows[: len(found)]
    assert len(found) < len(rows)


@cases(
    ("data", "expected"),
    [
        (b"", "version byte"),
        (b"\x83", "too early"),
        (b"\x83m\x00\x00\xff\xffx", "too early"),
        (b"\x83l\xff\xff\xff\xff", "too early"),
        (b"\x83g", "tag 103"),
        (b"\x83" + b"h\x01" * 100 + b"j", "nested"),
        (b"\x83P\xff\xff\xff\xffx", "are read at most"),
        (b"\x83P\x00\x00\x00\x09xxxx", "decompressed"),
        (b"\x83t\x00\x00\x00\x01jj", "not valid"),
    ],
)
def test_what_is_no_term_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(TermError, match=expected):
        read_term(data)


def test_the_api_takes_retained_messages(tmp_path: Path) -> None:
    assert imported(archive(tmp_path), "--lose-logins") == 0
    messages = json.loads((tmp_path / "out" / "retained.json").read_text())
    (tmp_path / "node").mkdir()
    with ApiNode(tmp_path / "node") as node, node.client((KEY, SECRET)) as api:
        assert api.post("/publish/bulk", json=messages).status_code == 202  # no subscriber
        found = api.get("/mqtt/retainer/message/a%2Fb").json()
    assert base64.b64decode(found["payload"]) == b"hello"
