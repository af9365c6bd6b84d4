"""Export of one installation, import into another: what was told to the one holds in the other."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import httpx
import pytest

from heliograph.cli.main import main
from support.api_node import ApiNode
from support.management import Served

BUILT_IN = {"mechanism": "password_based", "backend": "built_in_database"}
PASSWORD = "Tr0ub4dor"
USERS = "/authentication/password_based:built_in_database/users"


def _fill(api: httpx.Client) -> None:
    assert api.post("/authentication", json=BUILT_IN).status_code == 200
    assert api.post(USERS, json={"user_id": "ann", "password": "secret"}).status_code == 201
    rules = {"type": "file", "enable": True, "rules": '{deny, all, publish, ["x/#"]}.\n'}
    assert api.put("/authorization/sources/file", json=rules).status_code == 204
    assert api.post("/authorization/sources", json={"type": "built_in_database"}).status_code == 204
    own = {"permission": "allow", "action": "all", "topic": "a/#"}
    built_in = "/authorization/sources/built_in_database/rules/users"
    assert api.post(built_in, json=[{"username": "ann", "rules": [own]}]).status_code == 204
    assert api.post("/banned", json={"as": "clientid", "who": "bad"}).status_code == 200
    message = {"topic": "kept/1", "payload": "warm", "retain": True, "properties": {"content_type": "text"}}
    assert api.post("/publish", json=message).status_code == 202


def _user(node: Served, name: str, role: str = "administrator") -> httpx.Client:
    """The API as a user who has logged in; closed by the caller."""
    assert main(["ctl", "--data-dir", str(node.data_dir), "admins", "add", name, PASSWORD, "--role", role]) == 0
    with node.client() as stranger:
        token = stranger.post("/login", json={"username": name, "password": PASSWORD}).json()["token"]
    return node.client(headers={"authorization": f"Bearer {token}"})


def _refused(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["code"]) == (401, "API_KEY_NOT_ALLOW")
    return str(answer.json()["message"])


def _exported(api: httpx.Client, **more: object) -> tuple[str, bytes]:
    made = api.post("/data/export", json=more)
    assert made.status_code == 200, made.text
    name = made.json()["filename"]
    assert name.startswith("emqx-export-")
    return name, api.get(f"/data/files/{name}").content


def test_another_installation_takes_everything(
    managed: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(managed.api)
    keys = ["ctl", "--data-dir", str(managed.data_dir), "api_keys"]
    assert main([*keys, "add", "copied"]) == 0
    with _user(managed, "ann") as user:
        name, archive = _exported(user, passphrase="open sesame")
    assert b"ann" not in archive
    with ApiNode(tmp_path, 'durable_storage.flight.enable = false\nnode.name = "other@here"') as other:
        api = other.api
        assert api.post("/data/files", files={"filename": (name, archive)}).status_code == 204
        assert [one["filename"] for one in api.get("/data/files").json()["data"]] == [name]
        user = _user(other, "bea")
        refused = user.post("/data/import", json={"filename": name, "passphrase": "wrong"})
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
        assert api.get("/authentication").json() == []
        of_key = _refused(api.post("/data/import", json={"filename": name, "passphrase": "open sesame"}))
        assert of_key.startswith("API keys neither export nor import api_keys: log in as a user")
        assert api.get("/authentication").json() == []
        taken = user.post("/data/import", json={"filename": name, "passphrase": "open sesame"})
        assert taken.status_code == 204, taken.text
        assert api.get(f"{USERS}/ann").json()["user_id"] == "ann"
        assert api.get("/authorization/sources/file").json()["rules"].startswith("{deny")
        assert str(managed.data_dir) not in api.get("/configs").text
        assert [one["who"] for one in api.get("/banned").json()["data"]] == ["bad"]
        assert api.get("/mqtt/retainer/message/kept%2F1").json()["payload"] == "d2FybQ=="
        of_nodes = api.get("/mqtt/retainer/messages", params={"topic": "$SYS/brokers/+/version"}).json()["data"]
        assert [one["topic"] for one in of_nodes] == ["$SYS/brokers/other@here/version"]
        capsys.readouterr()
        assert main(["ctl", "--data-dir", str(other.data_dir), "api_keys", "list"]) == 0
        assert "copied" in capsys.readouterr().out
        again = user.post("/data/import", json={"filename": name, "passphrase": "open sesame"})
        assert again.status_code == 204, again.text
        user.close()
        assert api.delete(f"/data/files/{name}").status_code == 204
        assert api.get(f"/data/files/{name}").status_code == 404


def test_a_part_is_exported(managed: Served) -> None:
    _, archive = _exported(managed.api, table_sets=["banned"], root_keys=["authentication"])
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        names = {Path(one).name for one in tar.getnames()}
    assert {"META.hocon", "cluster.hocon"} <= names <= {"META.hocon", "cluster.hocon", "banned"}
    for wrong in ({"table_sets": ["nothing"]}, {"root_keys": ["nothing"], "table_sets": []}):
        assert managed.api.post("/data/export", json=wrong).status_code == 400


def test_keys_do_not_get_who_may_log_in(managed: Served) -> None:
    keys = managed.api
    told = _refused(keys.post("/data/export"))
    others = "banned, builtin_authn, builtin_authz, builtin_retainer"
    assert told.startswith("API keys neither export nor import api_keys, dashboard_users: log in as a user")
    assert told.endswith(f"table_sets of {others}")
    assert "dashboard_users:" in _refused(keys.post("/data/export", json={"table_sets": ["banned", "dashboard_users"]}))
    assert keys.post("/data/export", json={"table_sets": others.split(", ")}).status_code == 200
    with _user(managed, "cleo") as user:
        name = user.post("/data/export").json()["filename"]
        assert user.get(f"/data/files/{name}").status_code == 200
        archive = user.get(f"/data/files/{name}").content
        assert "api_keys" in _refused(keys.post("/data/files", files={"filename": ("brought.tar.gz", archive)}))
        assert user.post("/data/files", files={"filename": ("brought.tar.gz", archive)}).status_code == 204
    assert "api_keys, dashboard_users" in _refused(keys.get(f"/data/files/{name}"))
    assert "api_keys" in _refused(keys.post("/data/import", json={"filename": "brought.tar.gz"}))
    assert "api_keys" in _refused(keys.post("/data/import", json={"filename": name}))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tar.gz", b"no archive"),
        ("keys.tar.gz", b"evil:secret:administrator\n"),
        ("empty.tar.gz", gzip.compress(bytes(10_240))),
        ("../x.tar.gz", b""),
        (".x.tar.gz", b""),
        ("x.zip", b""),
    ],
)
def test_what_is_no_archive_is_not_kept(managed: Served, name: str, content: bytes) -> None:
    before = managed.api.get("/data/files").json()["data"]
    sent = managed.api.post("/data/files", files={"filename": (name, content)})
    assert (sent.status_code, sent.json()["code"]) == (400, "BAD_REQUEST")
    assert managed.api.get("/data/files").json()["data"] == before


def test_an_archive_with_a_bootstrap_file_is_not_taken_from_a_key(managed: Served) -> None:
    name = managed.api.post("/data/export", json={"table_sets": [], "root_keys": []}).json()["filename"]
    backups = managed.data_dir / "backup"
    with tarfile.open(backups / name) as tar, tarfile.open(backups / "own.tar.gz", "w:gz") as out:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            text = content.read()
            if member.name.endswith("cluster.hocon"):
                text = b'{"api_key": {"bootstrap_file": "@DATA_DIR@/certs/keys"}}'
                member.size = len(text)
            out.addfile(member, io.BytesIO(text))
    answer = managed.api.post("/data/import", json={"filename": "own.tar.gz"})
    assert (answer.status_code, "API keys do not change api_key" in answer.text) == (400, True)
    with _user(managed, "emil") as user:
        assert user.post("/data/import", json={"filename": "own.tar.gz"}).status_code == 204
        held = user.get("/heliograph/configuration", params={"path": "api_key.bootstrap_file"}).json()
        assert held[0]["plain"].endswith("/certs/keys")
        back = {"values": {"api_key.bootstrap_file": "null"}}
        assert user.post("/heliograph/configuration/change", json=back).status_code == 200


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("node.control_group", 'node.control_group = "users"'),
        ("backup.place", 'backup.place = "/srv/mine"'),
        ("pipeline.spark_conf", 'pipeline.spark_conf { "spark.pyspark.python" = x }'),
    ],
)
def test_a_key_changes_nothing_that_leads_to_users_and_keys(managed: Served, path: str, text: str) -> None:
    refusal = _refused(managed.api.post("/heliograph/configuration/change", json={"text": text}))
    assert refusal.startswith(f"API keys do not change {path}, wh")


@pytest.mark.parametrize("role", ["operator", "viewer", "publisher"])
def test_archives_are_for_administrators(managed: Served, role: str, capsys: pytest.CaptureFixture[str]) -> None:
    ctl = ["ctl", "--data-dir", str(managed.data_dir)]
    with _user(managed, f"made_for_{role}") as administrator:
        name, archive = _exported(administrator)
    capsys.readouterr()
    assert main([*ctl, "api_keys", "add", f"of-{role}", "--role", role, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    callers = [managed.client((made["key"]["api_key"], made["secret"]))]
    if role != "publisher":  # which only keys have
        callers.append(_user(managed, f"is_{role}", role))
    for caller in callers:
        answers = (
            caller.post("/data/export", json={"table_sets": ["banned"]}),
            caller.post("/data/import", json={"filename": name}),
            caller.post("/data/files", files={"filename": ("mine.tar.gz", archive)}),
            caller.get("/data/files"),
            caller.get(f"/data/files/{name}"),
            caller.delete(f"/data/files/{name}"),
        )
        assert {(one.status_code, one.json()["code"]) for one in answers} == {(403, "UNAUTHORIZED_ROLE")}
        caller.close()
    assert (managed.data_dir / "backup" / name).is_file()
    assert not (managed.data_dir / "backup" / "mine.tar.gz").exists()


def test_the_command_does_the_same(managed: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text("a passphrase\n")
    command = ["ctl", "--data-dir", str(managed.data_dir), "data"]
    options = ["--passphrase-file", str(secret)]
    assert main([*command, "export", "--table-sets", "banned", "--dir", str(tmp_path), *options]) == 0
    (archive,) = tmp_path.glob("*.tar.gz")
    assert str(archive) in capsys.readouterr().out
    assert main([*command, "import", str(archive), *options]) == 0
    assert main([*command, "import", str(archive)]) != 0


def test_a_node_is_backed_up_to_its_place(managed: Served, tmp_path: Path) -> None:
    backups = "/heliograph/nodes/heliograph@127.0.0.1/backups"
    missing = managed.api.post(backups)
    assert (missing.status_code, missing.json()["code"]) == (400, "BAD_REQUEST")
    assert "backup.place" in missing.json()["message"]
    place = {"values": {"backup.place": f'"{tmp_path}/place"'}}
    with _user(managed, "dora") as user:
        assert user.post("/heliograph/configuration/change", json=place).status_code == 200
    made = managed.api.post(backups)
    assert made.status_code == 200, made.text
    listed = managed.api.get(backups).json()
    assert (listed["enable"], listed["place"], listed["next_at"]) == (False, f"{tmp_path}/place", None)
    assert listed["last_at"] == made.json()["at"]
    assert [(one["id"], one["problems"]) for one in listed["data"]] == [(made.json()["id"], [])]
    assert managed.api.get("/heliograph/nodes/nobody/backups").json()["code"] == "NOT_FOUND"


def test_archives_have_so_many_bytes(managed: Served, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data-dir", str(managed.data_dir)]
    assert main(["ctl", "conf", "set", "management.max_archive_bytes=1MB", *data]) == 0
    name, _ = _exported(managed.api, table_sets=["banned"])
    for path in (managed.data_dir / "backup").glob("*.tar.gz"):
        if path.name != name:
            path.unlink()
    large = {"filename": ("large.tar.gz", b"x" * (1 << 20))}
    refused = managed.api.post("/data/files", files=large)
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert "1,048,576 would be beyond the 1,048,576 of management.max_archive_bytes: delete some" in refused.text
    with (managed.data_dir / "backup" / name).open("ab") as file:
        file.write(b"x" * (1 << 20))
    assert "delete some first" in managed.api.post("/data/export", json={"table_sets": ["banned"]}).json()["message"]
    capsys.readouterr()
    assert main(["ctl", "data", "export", *data]) == 2
    assert "management.max_archive_bytes" in capsys.readouterr().err
    assert managed.api.delete(f"/data/files/{name}").status_code == 204
    _exported(managed.api, table_sets=["banned"])
    assert main(["ctl", "conf", "set", "management.max_archive_bytes=null", *data]) == 0
