"""`acl.conf`: where its mistakes are, and what is told about them."""

from pathlib import Path

import pytest

from heliograph.access.acl.conf import read_acl_conf
from heliograph.access.acl.errors import AclError
from heliograph.cli.main import main
from support.cases import cases


@cases(
    ("text", "line", "column", "told"),
    [
        ("{allow, all}.\n{permit, all}.", 2, 2, "allow or deny"),
        ("{allow, all}", 1, 13, "final dot"),
        ("{allow, all}.{deny, all}.", 1, 13, "follow the dot"),
        ('{allow, all, publish, "t"}.', 1, 23, "topics are all or a list"),
        ('{allow, all, publish, [\n  "a",\n  b]}.', 3, 3, "a topic is"),
        ("{allow, all, pub, all}.", 1, 14, "publish, subscribe, all"),
        ("{allow, all, {publish, [{qos, 3}]}, all}.", 1, 31, "0, 1, 2"),
        ("{allow, all, {publish, [{retain, x}]}, all}.", 1, 34, "true, false or all"),
        ('{allow, {ipaddr, "10.0.0.1/33"}, all, all}.', 1, 18, "10.0.0.0/8"),
        ('{allow, {username, {re, "("}}, all, all}.', 1, 25, "regular expression"),
        ("{allow, {user, 5}, all, all}.", 1, 16, "a text is wanted"),
        ("{allow, {name, 5}, all, all}.", 1, 9, "WHO is all"),
        ("{allow, {and, []}, all, all}.", 1, 10, "'and'"),
        ("\n# comment\n{allow, all}.", 2, 1, "begins with '%'"),
        ("{allow, All}.", 1, 9, "capital"),
        ('{allow, all, publish, ["a",]}.', 1, 28, "follow the comma"),
        ('{allow, all, publish, ["ü\\x{110000}"]}.', 1, 26, "Unicode"),
        ('{allow, all, publish, ["a]}.\n', 1, 24, "does not end"),
        ('{allow, all, publish, [<<"€">>]}.', 1, 26, "/utf8"),
        ("{allow, " + "[" * 100, 1, 73, "deep"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, line: int, column: int, told: str) -> None:
    with pytest.raises(AclError, match="line") as caught:
        read_acl_conf(text)
    fault = caught.value.faults[0]
    assert (fault.line, fault.column) == (line, column), fault
    assert told in fault.problem


def test_bytes_that_are_not_utf8_are_a_mistake_with_a_place() -> None:
    with pytest.raises(AclError, match="line 2, column 3: byte 0xff"):
        read_acl_conf(b"% \xc3\xbc\n\xc3\xbc \xff")


def test_the_command_tells_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "acl.conf"
    file.write_text(
        '{permit, all}.\n{allow, all, pub, ["a", b]}.\n# x\n{allow, all}.\n{deny, all, all, [}.\n{deny, all}'
    )
    assert main(["authz", "check", str(file)]) == 1
    told = capsys.readouterr().err.splitlines()
    places = [":".join(line.split(":")[1:3]) for line in told[:-1]]
    assert places == ["1:2", "2:14", "2:25", "3:1", "5:19", "6:12"]
    assert told[-1] == "[acl_invalid] 6 mistakes"


def test_the_command_tells_that_there_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "acl.conf"
    file.write_text("{allow, all}.\n")
    assert main(["authz", "check", str(file)]) == 0
    assert capsys.readouterr().out == "1 rule, no mistakes\n"
    file.write_text('{allow, all}.\n{deny, all, all, ["a/${peerhost}/${clientid}", {eq, "${qos}"}]}.')
    assert main(["authz", "check", str(file)]) == 0
    told = capsys.readouterr()
    assert told.out == "2 rules, no mistakes\n"
    assert told.err == f"{file}: line 2: ${{peerhost}} is no placeholder in the topic of a rule, so it stays as it is\n"
    assert main(["authz", "check", str(tmp_path / "none")]) == 1
    assert "none cannot be read" in capsys.readouterr().err
