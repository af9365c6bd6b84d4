"""mosquitto's ACL files: what the rules of one decide is what a mosquitto with it does."""

import asyncio
from collections.abc import Iterator

import pytest

from heliograph.access.acl.errors import AclError
from heliograph.access.acl.mosquitto import ImportedRules, read_mosquitto_acl
from heliograph.access.acl.rows import rules_of_rows
from heliograph.broker.actions import publish_action, subscribe_action
from heliograph.broker.client import ClientInfo
from support.cases import cases
from support.mosquitto import free_port, mosquitto
from support.running import MqttClient

FILE = """\
# clients without a name
topic read news/#
topic $SYS/broker/uptime
topic deny news/secret

user alice
topic read shared/#
topic write inbox/alice
topic readwrite both/+
topic own/alice/#
topic deny shared/hidden/#
topic read $SYS/broker/version

user two words
topic deny pat/deny
topic read two/ blank/x

pattern readwrite c/%c/#
pattern write u/%u
pattern deny c/+/never
pattern read pat/#

user alice
topic write again
"""
OWNERS = [(None, "c1"), ("alice", "c1"), ("two words", "c2"), ("stranger", "c3"), ("a/b", "x/y")]
TOPICS = [
    *(
        "news/a",
        "news/secret",
        "news",
        "shared/a",
        "shared/hidden/x",
        "shared/hidden",
        "inbox/alice",
        "both/x",
        "both/x/y",
    ),
    *(
        "own/alice",
        "own/alice/1",
        "own/bob",
        "again",
        "c/c1/x",
        "c/c1",
        "c/c2/x",
        "c/c1/never",
        "u/alice",
        "u/stranger",
    ),
    *(
        "u/two words",
        "u/a/b",
        "u/",
        "u/%u",
        "c/x/y/z",
        "c/%c/x",
        "pat/deny",
        "pat/x",
        "two/ blank/x",
        "elsewhere",
        "$own/x",
    ),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a mosquitto with the file."""
    folder = tmp_path_factory.mktemp("mosquitto")
    (folder / "acl").write_text(FILE + "\nuser admin\ntopic readwrite #\ntopic readwrite $own/#\n")
    number = free_port()
    # Without a limit, 2.0 closes the connection of a client whose message it has refused.
    settings = f"max_queued_messages 1000\nlistener {number} 127.0.0.1\nacl_file {folder / 'acl'}\n"
    with mosquitto(folder, settings):
        yield number


def decided(owned: list[ImportedRules], username: str | None, clientid: str, topic: str) -> tuple[bool, bool]:
    """Whether a client may publish to a topic and subscribe to it, in the order of the built-in rules."""
    own = [row for owner in owned if owner.kind == "username" and owner.name == username for row in owner.rows]
    rows = own + [row for owner in owned if owner.kind == "all" for row in owner.rows]
    prepared = rules_of_rows(rows).prepared(ClientInfo(clientid, username, "127.0.0.1:5"))
    rules = [prepared.check(action, topic) for action in (publish_action(1, False), subscribe_action(0))]
    return rules[0] is not None and rules[0].is_allowing, rules[1] is not None and rules[1].is_allowing


async def _connected(port: int, clientid: str, username: str | None) -> MqttClient:
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), 5)
    client.send_connect(clientid, username=username)
    return client


@pytest.mark.service
@pytest.mark.parametrize(("username", "clientid"), OWNERS)
async def test_a_mosquitto_lets_clients_do_the_same(port: int, username: str | None, clientid: str) -> None:
    owned = read_mosquitto_acl(FILE)
    client, admin = await _connected(port, clientid, username), await _connected(port, "admin", "admin")
    for topic in TOPICS:
        may_write = await client.publish(topic, qos=1) != 0x87
        await client.subscribe(topic)
        await client.payloads()
        await admin.publish(topic, b"x", qos=1)
        may_read = bool(await client.payloads())
        assert (may_write, may_read) == decided(owned, username, clientid, topic), topic
    await client.leave()
    await admin.leave()


def test_denials_count_before_what_is_allowed_and_nothing_else_is() -> None:
    assert read_mosquitto_acl("user u\ntopic read a/#\ntopic deny a/b\ntopic read c\npattern write p/%c\n") == [
        ImportedRules(
            "username",
            "u",
            [
                {"permission": "deny", "action": "all", "topics": ["a/b"]},
                {"permission": "allow", "action": "subscribe", "topics": ["a/#", "c"]},
            ],
        ),
        ImportedRules(
            "all",
            "",
            [
                {"permission": "allow", "action": "publish", "topics": ["p/${clientid}"]},
                {"permission": "deny", "action": "all", "topics": ["#", "$SYS/#"]},
            ],
        ),
    ]


def test_what_looks_like_a_placeholder_stays_text() -> None:
    owned = read_mosquitto_acl("user u\ntopic read a/${clientid}/%c\n")
    assert decided(owned, "u", "c", "a/${clientid}/%c") == (False, True)
    assert decided(owned, "u", "c", "a/c/c") == (False, False)


@cases(
    ("text", "line", "told"),
    [
        ("topic a\nTopic b", 2, "topic, pattern, user"),
        ("topic", 1, "a topic is missing"),
        ("user ", 1, "a user name is missing"),
        ("topic READ a", 1, "read, write, readwrite, deny"),
        ("topic a b", 1, "read, write, readwrite, deny"),
        ("topic read a/#/b", 1, "'#'"),
        ("topic read a+", 1, "'+'"),
        ("\ttopic read a", 1, "topic, pattern, user"),
        ("  # comment", 1, "beginning of a line"),
        ("topic read eq a", 1, "'eq '"),
    ],
)
def test_a_line_that_is_wrong_is_told(text: str, line: int, told: str) -> None:
    with pytest.raises(AclError) as caught:
        read_mosquitto_acl(text)
    assert caught.value.line == line
    assert told in str(caught.value)


def test_what_mosquitto_accepts_is_accepted() -> None:
    text = b"# c\r\n\r\n  topic  read   x y \r\ntopic read\r\nuser  a b \r\npattern a/b\r\n"
    assert [(owner.kind, owner.name) for owner in read_mosquitto_acl(text)] == [("all", "")]
    with pytest.raises(AclError, match="UTF-8"):
        read_mosquitto_acl(b"topic \xff")
