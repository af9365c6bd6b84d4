"""The ban list: who gets in and who does not."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import KINDS, Ban, BanError
from heliograph.access.bans.bootstrap import BootstrapFileError, load_bans
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.services import Node

NOW_S = 1_700_000_000


def bans(*entries: Ban, entries_max: int = 100) -> BanList:
    """A list with these bans; its clock stands."""
    result = BanList(lambda: NOW_S, entries_max)
    for entry in entries:
        assert result.add(entry)
    return result


@cases(
    ("kind", "who"),
    [
        ("clientid", "dev1"),
        ("username", "joe"),
        ("peerhost", "192.0.2.7"),
        ("peerhost", "::ffff:192.0.2.7"),
        ("clientid_re", "^dev[0-9]$"),
        ("clientid_re", "ev"),  # found anywhere
        ("username_re", "^j"),
        ("peerhost_net", "192.0.2.0/24"),
        ("peerhost_net", "192.0.2.9/24"),  # what stands behind the prefix does not matter
        ("peerhost_net", "0.0.0.0/0"),
        ("peerhost_net", "192.0.2.7"),
    ],
)
def test_a_ban_keeps_out_whom_it_names(kind: str, who: str) -> None:
    banned = bans(Ban(kind, who))
    found = banned.check("dev1", "joe", "192.0.2.7")
    assert found is not None
    assert found.who == who
    assert banned.check("other", "mary", "198.51.100.1" if who != "0.0.0.0/0" else "2001:db8::1") is None


def test_networks_of_ipv6() -> None:
    banned = bans(Ban("peerhost_net", "2001:db8::/32"), Ban("peerhost", "2001:DB8:1::0:1"))
    assert banned.check("c", None, "2001:db8:ffff::1") is not None
    assert banned.check("c", None, "2001:db9::1") is None
    assert banned.find("peerhost", "2001:db8:1::1") is not None
    assert banned.check("c", None, "fe80::1%eth0") is None
    assert banned.check("c", None, "/run/heliograph.sock") is None


def test_an_ipv4_client_at_an_ipv6_socket_is_the_same_client() -> None:
    assert bans(Ban("peerhost_net", "192.0.2.0/24")).check("c", None, "::ffff:192.0.2.1") is not None


def test_a_client_without_user_name_is_met_by_no_ban_of_user_names() -> None:
    assert bans(Ban("username_re", ".*")).check("c", None, "192.0.2.1") is None


def test_a_ban_ends() -> None:
    now = [NOW_S]
    banned = BanList(lambda: now[0])
    banned.add(Ban("clientid", "a", until_s=NOW_S + 10))
    banned.add(Ban("peerhost_net", "10.0.0.0/8", until_s=NOW_S + 10))
    banned.add(Ban("clientid_re", "^a", until_s=NOW_S + 20))
    now[0] += 9
    assert banned.check("a", None, "10.1.1.1") is not None
    now[0] += 1
    assert banned.check("b", None, "10.1.1.1") is None
    assert banned.check("a", None, "10.1.1.1") is not None  # by the expression
    banned.expire()
    assert len(banned) == 1
    now[0] += 10
    assert banned.check("a", None, "10.1.1.1") is None
    banned.expire()
    assert len(banned) == 0


def test_a_ban_that_was_lifted_and_made_again_ends_when_the_new_one_does() -> None:
    now = [NOW_S]
    banned = BanList(lambda: now[0])
    banned.add(Ban("clientid", "a", until_s=NOW_S + 10))
    assert banned.remove("clientid", "a")
    assert not banned.remove("clientid", "a")
    banned.add(Ban("clientid", "a"))
    now[0] += 100
    banned.expire()
    assert banned.is_banned("a")


def test_a_ban_that_holds_is_not_replaced_and_one_that_ended_is() -> None:
    now = [NOW_S]
    banned = BanList(lambda: now[0])
    assert banned.add(Ban("clientid", "a", reason="first", until_s=NOW_S + 10))
    assert not banned.add(Ban("clientid", "a", reason="second"))
    now[0] += 10
    assert banned.add(Ban("clientid", "a", reason="third"))
    found = banned.find("clientid", "a")
    assert found is not None
    assert found.reason == "third"


def test_the_list_is_bounded() -> None:
    banned = bans(Ban("clientid", "a"), Ban("clientid", "b"), entries_max=2)
    assert not banned.add(Ban("clientid", "c"))
    assert banned.statistics()["banned.refused_entries"] == 1
    assert sorted(ban.who for ban in banned) == ["a", "b"]


def test_automatic_bans_leave_places_for_those_of_people() -> None:
    banned = bans(entries_max=8)
    made = [banned.add(Ban("clientid", f"c{number}"), is_automatic=True) for number in range(10)]
    assert made == [True] * 6 + [False] * 4
    assert [banned.add(Ban("clientid", f"of people {number}")) for number in range(3)] == [True, True, False]


@cases("kind", ["clientid", "username"])
def test_of_a_long_name_the_beginning_and_a_hash_are_held(kind: str) -> None:
    name = "n" * 65_000
    banned = bans(Ban(kind, name), Ban(kind, name + "other"))
    assert not banned.add(Ban(kind, name))
    held = [ban.who for ban in banned]
    assert max(len(who) for who in held) < 1_024
    assert all(banned.find(kind, who) is not None for who in (*held, name))  # as they are read from the disk
    assert banned.check(name, name, "192.0.2.1") is not None
    assert banned.check(name + "x", name + "x", "192.0.2.1") is None
    assert banned.remove(kind, name)
    assert banned.check(name, name, "192.0.2.1") is None


@cases(
    "ban",
    [Ban("clientid", "c", reason="x" * 5_000), Ban("clientid", "c", by="x" * 5_000), Ban("clientid_re", "x" * 5_000)],
)
def test_what_people_say_of_a_ban_is_bounded(ban: Ban) -> None:
    with pytest.raises(BanError, match="has 5,000 characters; at most 4,096 are valid"):
        bans().add(ban)


def test_a_ban_is_replaced_also_where_there_are_more_than_there_may_be() -> None:
    banned = bans(Ban("clientid", "a"), Ban("clientid", "b"), Ban("clientid", "c"))
    banned.entries_max = 1
    assert banned.add(Ban("clientid", "a", reason="again"), replaces=True)
    assert sorted((ban.who, ban.reason) for ban in banned) == [("a", "again"), ("b", ""), ("c", "")]


def test_expressions_are_few() -> None:
    banned = bans(entries_max=10_000)
    for number in range(1000):
        assert banned.add(Ban("clientid_re", f"^{number}$"))
    assert not banned.add(Ban("clientid_re", "^a$"))
    assert banned.add(Ban("clientid", "a"))


@cases(
    ("ban", "fault"),
    [
        (Ban("client", "a"), "'client' is no kind of ban; clientid, username"),
        (Ban("clientid", ""), "names no clientid"),
        (Ban("peerhost", "localhost"), "'localhost' is no address"),
        (Ban("peerhost_net", "10.0.0.0/40"), "'10.0.0.0/40' is no network"),
        (Ban("clientid_re", "("), r"'\(' is no regular expression"),
        (Ban("clientid", "a", until_s=NOW_S), "has ended already"),
    ],
)
def test_a_ban_that_makes_no_sense(ban: Ban, fault: str) -> None:
    with pytest.raises(BanError, match=fault):
        bans().add(ban)


def test_an_expression_that_repeats_too_much_is_refused_before_it_is_compiled() -> None:
    with pytest.raises(BanError, match="repeats too much"):
        bans().add(Ban("clientid_re", "((a{1000}){1000}){1000}"))


def test_all_expressions_together_take_little_time_for_a_client() -> None:
    banned = bans(*[Ban("clientid_re", f"^(a|aa)+[bc]{number}$") for number in range(1000)], entries_max=1000)
    began_s = time.thread_time()
    assert banned.check("a" * 24, None, "192.0.2.1") is not None
    assert time.thread_time() - began_s < 0.5
    assert banned.check("x", None, "192.0.2.1") is None


def test_an_expression_that_never_ends_lets_nobody_in() -> None:
    banned = bans(Ban("clientid_re", "^(a|aa)+[bc]$"))
    assert banned.check("a" * 60, None, "192.0.2.1") is not None
    assert banned.check("x", None, "192.0.2.1") is None


_WHO = {
    "clientid": ["a", "b"],
    "username": ["a", "b"],
    "peerhost": ["10.0.0.1", "10.0.0.2"],
    "clientid_re": ["^a", "b$"],
    "username_re": ["^a", "b$"],
    "peerhost_net": ["10.0.0.0/31", "10.0.0.0/8", "10.0.0.2/32"],
}


@given(
    steps=st.lists(
        st.tuples(
            st.booleans(), st.sampled_from(KINDS), st.integers(0, 2), st.sampled_from([None, 5, 10]), st.integers(0, 4)
        ),
        max_size=30,
    )
)
def test_the_list_is_what_was_added_and_not_lifted(steps: list[tuple[bool, str, int, int | None, int]]) -> None:
    now = [NOW_S]
    banned = BanList(lambda: now[0])
    model: dict[tuple[str, str], int | None] = {}
    for adds, kind, index, length, passed in steps:
        now[0] += passed
        model = {key: until for key, until in model.items() if until is None or until > now[0]}
        who = _WHO[kind][index % len(_WHO[kind])]
        if adds:
            until = None if length is None else now[0] + length
            assert banned.add(Ban(kind, who, until_s=until)) == ((kind, who) not in model)
            model.setdefault((kind, who), until)
        else:
            banned.expire()
            assert banned.remove(kind, who) == ((kind, who) in model)
            model.pop((kind, who), None)
    banned.expire()
    assert {(ban.kind, ban.who): ban.until_s for ban in banned} == model
    assert len(banned) == len(model)


# --- as clients see it


@cases(("version", "code"), [(p.V5, rc.BANNED), (p.V3_1_1, rc.NOT_AUTHORIZED), (p.V3_1, rc.NOT_AUTHORIZED)])
def test_a_banned_client_is_refused(version: int, code: int) -> None:
    node = Node()
    node.bans.add(Ban("clientid", "bad"))
    peer = node.peer(version)
    peer.connect("bad")
    assert peer.take(p.Connack).code == code
    assert peer.closed()
    assert node.statistics()["banned.refused_clients"] == 1
    assert node.connect("good").heard() == []


def test_a_ban_by_address_and_by_user_name() -> None:
    node = Node()
    node.bans.add(Ban("username", "joe"))
    peer = node.peer()
    peer.connect("c", username="joe")
    assert peer.take(p.Connack).code == rc.BANNED
    node.bans.add(Ban("peerhost_net", "192.0.2.0/24"))
    peer = node.peer()
    peer.connect("c")
    assert peer.take(p.Connack).code == rc.BANNED


# --- the file


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "banned.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_of_bans(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "as,who,reason,by,at,until\n"
        'clientid,c1,"talks, a lot",admin,2021-10-25T21:53:47+08:00,2099-10-25T21:53:47+08:00\n'
        "username,u1,,,,\n"
        "peerhost,192.0.2.1,,,1600000000,infinity\n"
        "peerhost_net,10.0.0.0/8,,,,1900000000\n"
        "clientid_re,^x.*,,,,\n"
        "clientid,over,,,,2020-01-01T00:00:00Z\n",
    )
    banned = bans()
    assert load_bans(banned, file, NOW_S) == 5
    first = banned.find("clientid", "c1")
    assert first == Ban("clientid", "c1", "talks, a lot", "admin", 1_635_170_027, 4_096_619_627)
    assert banned.find("peerhost_net", "10.0.0.0/8") == Ban("peerhost_net", "10.0.0.0/8", until_s=1_900_000_000)
    assert banned.find("clientid", "over") is None


def test_columns_may_be_left_out_and_stand_in_any_order(tmp_path: Path) -> None:
    banned = bans()
    assert load_bans(banned, write(tmp_path, "\ufeffwho, as\r\nc1, clientid\r\n"), NOW_S) == 1
    assert banned.is_banned("c1")


@cases(
    ("text", "fault"),
    [
        ("", "the columns are ; expected as,who,reason,by,at,until"),
        ("who\nc1\n", "the columns are who; expected"),
        ("as,who,whom\n", "the columns are as,who,whom; expected"),
        ("as,who\nclientid,c1,more\n", "banned.csv:2: more values than columns"),
        ("as,who\nclientid\n", "banned.csv:2: the ban names no clientid"),
        ("as,who\nclient,c1\n", "banned.csv:2: 'client' is no kind of ban"),
        ("as,who,until\nclientid,c1,soon\n", "banned.csv:2: 'soon' is no time such as"),
        ("as,who\nclientid,c\npeerhost,here\nclientid_re,(\n", "banned.csv:3: 'here' is no address"),
        ("as,who\nclientid,c\npeerhost,here\nclientid_re,(\n", "banned.csv:4: the string '(' is no regular expression"),
        ("as,who\n" + "".join(f"clientid,c{n}\n" for n in range(101)), "holds more bans than banned.max_entries"),
        ("as,who\n" + "peerhost,x\n" * 100, "and 80 more lines"),
    ],
)
def test_a_file_with_mistakes_is_refused(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(BootstrapFileError) as caught:
        load_bans(bans(), write(tmp_path, text), NOW_S)
    assert fault in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BootstrapFileError, match="cannot be read: No such file or directory"):
        load_bans(bans(), tmp_path / "missing.csv", NOW_S)
    (tmp_path / "binary.csv").write_bytes(b"as,who\n\xff,\xfe\n")
    with pytest.raises(BootstrapFileError, match="is no CSV in UTF-8"):
        load_bans(bans(), tmp_path / "binary.csv", NOW_S)


def test_the_configuration_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "as,who\nclientid,bad\n")
    node = Node(f'banned.bootstrap_file = "{file}"')
    peer = node.peer()
    peer.connect("bad")
    assert peer.take(p.Connack).code == rc.BANNED
    with pytest.raises(BootstrapFileError):
        Node('banned.bootstrap_file = "nowhere.csv"')


def test_a_ban_of_the_file_holds_when_one_that_was_made_before_it_ends() -> None:
    now = [NOW_S]
    banned = BanList(lambda: now[0], 1)
    assert banned.add(Ban("clientid", "c", until_s=NOW_S + 10))
    banned.use_file(bans(Ban("clientid", "c", "of the file"), Ban("peerhost_net", "192.0.2.0/24"), entries_max=2))
    assert len(list(banned)) == 2
    now[0] += 11
    found = banned.check("c", None, "")
    assert found is not None
    assert found.reason == "of the file"
    banned.expire()
    assert len(banned) == 2
    assert not banned.add(Ban("clientid", "d"))  # there is no room beside those of the file
    banned.use_file(bans(Ban("clientid", "e"), entries_max=2))
    assert banned.check("c", None, "192.0.2.1") is None
    assert banned.add(Ban("clientid", "d"))


def test_bans_of_a_file_hold_however_many_were_made_before() -> None:
    banned = bans(*(Ban("clientid", f"made{number}") for number in range(3)), entries_max=3)
    banned.use_file(bans(Ban("username", "joe", until_s=NOW_S + 10), entries_max=3))
    assert banned.check("other", "joe", "") is not None
    assert banned.remove("username", "joe")  # until the file is read again
    assert banned.check("other", "joe", "") is None
