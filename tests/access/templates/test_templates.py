"""Placeholders: what is one, what stands for it in texts, topics, SQL, JSON, URLs, forms and LDAP."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.access.templates import Template, TemplateError, client_values
from heliograph.access.templates.documents import Document, DocumentTemplate
from heliograph.access.templates.ldap import dn_value, filter_value
from heliograph.access.templates.sql import FORMAT, MYSQL, POSTGRESQL, Statement
from heliograph.access.templates.values import AUTHENTICATION_NAMES, QUERY_NAMES, TOPIC_NAMES
from heliograph.access.templates.web import FormTemplate, UrlTemplate, header_value
from heliograph.broker.authentication import AuthAttempt
from heliograph.broker.client import ClientInfo
from support.cases import cases

VALUES = {"clientid": "c 1", "username": "a/b&c", "client_attrs.site": "x", "peerport": "1883", "password": "p\udcff"}


@cases(
    ("text", "rendered"),
    [
        ("${clientid}", "c 1"),
        ("${.clientid}", "c 1"),
        ("<${clientid}|${username}>", "<c 1|a/b&c>"),
        ("${client_attrs.site}", "x"),
        ("${client_attrs.none}", ""),
        ("${zone}", ""),
        ("${$}", "$"),
        ("${$}{clientid}", "${clientid}"),
        ("${$}${clientid}", "$c 1"),
        ("${foo}", "${foo}"),
        ("${.foo}", "${foo}"),
        ("${foo} ${client_attrs.site}", "${foo} x"),
        ("${client_attrs}", "${client_attrs}"),
        ("${ClientId}", "${ClientId}"),
        ("${}", "${}"),
        ("${..clientid}", "${.clientid}"),
        ("${ clientid}", "${ clientid}"),
        ("${clientid }", "${clientid }"),
        ("$clientid", "$clientid"),
        ("${clientid", "${clientid"),
        ("$${clientid}", "$c 1"),
        ("${${clientid}}", "${c 1}"),
        ("%u %c", "%u %c"),
        ("", ""),
        ("ü${client_attrs.site}€", "üx€"),
        ("${client_attrs.a-b}", "${client_attrs.a-b}"),
    ],
)
def test_a_text(text: str, rendered: str) -> None:
    assert Template(text, AUTHENTICATION_NAMES).render(VALUES) == rendered


def test_names_that_a_place_does_not_allow_are_text_and_are_told() -> None:
    template = Template("${password} ${clientid} ${nope}", QUERY_NAMES)
    assert template.render(VALUES) == "${password} c 1 ${nope}"
    assert template.unknown == ["password", "nope"]


@given(st.text(), st.text(alphabet="$${}.clientd ", max_size=40))
def test_what_is_inserted_is_not_looked_at_again(value: str, text: str) -> None:
    rendered = Template(text, ("clientid",)).render({"clientid": value})
    other = Template(text, ("clientid",)).render({"clientid": "\0"})
    assert rendered == other.replace("\0", value)


@cases(
    ("text", "topic"),
    [
        ("a/${clientid}", "a/c 1"),
        ("a/${username}", "a/a/b&c"),
        ("a/${zone}", None),
        ("a/${client_attrs.none}/b", None),
        ("a/${peerport}", "a/${peerport}"),
        ("${$}SYS/#", "$SYS/#"),
    ],
)
def test_a_topic_needs_all_its_values(text: str, topic: str | None) -> None:
    assert Template(text, TOPIC_NAMES).topic(VALUES) == topic


@cases(
    ("text", "mysql", "postgresql", "params"),
    [
        ("SELECT 1", "SELECT 1", "SELECT 1", []),
        ("u = ${username}", "u = ?", "u = $1", ["a/b&c"]),
        ('u = "${username}"', "u = ?", "u = $1", ["a/b&c"]),
        ("u = '${username}'", "u = '?'", "u = '$1'", ["a/b&c"]),
        ("${clientid} ${username} ${clientid}", "? ? ?", "$1 $2 $3", ["c 1", "a/b&c", "c 1"]),
        ("${foo} ${clientid}", "${foo} ?", "${foo} $1", ["c 1"]),
        ('"${foo}"', '"${foo}"', '"${foo}"', []),
        ("${zone}", "?", "$1", [""]),
        ('"${username}', '"?', '"$1', ["a/b&c"]),
        ("${$}1 ${clientid}", "$1 ?", "$1 $1", ["c 1"]),
    ],
)
def test_in_sql_each_placeholder_is_a_parameter(text: str, mysql: str, postgresql: str, params: list[str]) -> None:
    for dialect, wanted in ((MYSQL, mysql), (POSTGRESQL, postgresql)):
        statement = Statement(text, AUTHENTICATION_NAMES, dialect)
        assert (statement.text, statement.params(VALUES)) == (wanted, params)


def test_a_client_that_inserts_parameters_gets_no_placeholder_in_quotes() -> None:
    statement = Statement(
        "SELECT a LIKE '%' AND u = ${username} -- it's\n AND c = \"${clientid}\"", QUERY_NAMES, FORMAT
    )
    assert statement.text == "SELECT a LIKE '%%' AND u = %s -- it's\n AND c = %s"
    for text in (
        "'${username}'",
        '"a ${username}"',
        "`${username}`",
        "/* ${username} */",
        "-- ${username}",
        "'\\'${zone}'",
    ):
        with pytest.raises(TemplateError, match="leave the quotes out"):
            Statement(f"SELECT {text}", QUERY_NAMES, FORMAT)


def test_a_parameter_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(TemplateError, match="password"):
        Statement("${password}", AUTHENTICATION_NAMES, MYSQL).params(VALUES)


def test_documents_have_templates_at_any_depth_and_in_keys() -> None:
    document: Document = {"${clientid}": ["${username}", 1, 2.5, True, None, {"a": "${peerport}"}], "b": "${foo}"}
    wanted = {"c 1": ["a/b&c", 1, 2.5, True, None, {"a": "1883"}], "b": "${foo}"}
    template = DocumentTemplate(document, AUTHENTICATION_NAMES)
    assert template.render(VALUES) == wanted == template.query(VALUES)
    assert template.json({}) == b'{"":["",1,2.5,true,null,{"a":""}],"b":"${foo}"}'
    assert template.unknown == ["foo"]


def test_json_that_would_not_be_utf8_is_refused() -> None:
    with pytest.raises(TemplateError, match="UTF-8"):
        DocumentTemplate({"p": "${password}"}, AUTHENTICATION_NAMES).json(VALUES)


@cases("name", ["$where", "a.b", "x\0"])
def test_no_value_makes_a_filter_of_another_field(name: str) -> None:
    template = DocumentTemplate({"${username}": "1", "u": "${username}", "$or": []}, QUERY_NAMES)
    with pytest.raises(TemplateError, match="field"):
        template.query({"username": name})
    assert template.query({"username": "ok"}) == {"ok": "1", "u": "ok", "$or": []}


def test_urls_encode_values_by_the_rules_of_forms() -> None:
    url = UrlTemplate("http://host:8080/auth/${username}?c=${clientid}&x=${foo}&p=${password}", AUTHENTICATION_NAMES)
    assert url.base == "http://host:8080"
    assert url.render(VALUES) == "http://host:8080/auth/a%2Fb%26c?c=c+1&x=${foo}&p=p%FF"
    assert UrlTemplate("https://host", QUERY_NAMES).render(VALUES, "a=1") == "https://host/?a=1"
    assert UrlTemplate("http://h/a?b=1", QUERY_NAMES).render({}, "c=2") == "http://h/a?b=1&c=2"


@cases(
    "url",
    [
        *("ftp://h/", "h/a", "http://", "http://u@h/", "http://u:p@h/", "http://h/a#b", "http://h/#", "http://h:x/"),
        *("http://${clientid}/", "http://h:${peerport}/", "http://[::1/"),
    ],
)
def test_urls_that_cannot_be_used_are_refused(url: str) -> None:
    with pytest.raises(TemplateError):
        UrlTemplate(url, AUTHENTICATION_NAMES)


@cases("value", [".", ".."])
def test_no_value_names_a_folder_above(value: str) -> None:
    with pytest.raises(TemplateError, match="segment"):
        UrlTemplate("http://h/users/${username}/x", QUERY_NAMES).render({"username": value})
    assert UrlTemplate("http://h/u?n=${username}", QUERY_NAMES).render({"username": value}) == f"http://h/u?n={value}"


def test_forms_encode_names_and_values() -> None:
    form = FormTemplate({"u": "${username}", "${clientid}": "1 2", "p": "${password}"}, AUTHENTICATION_NAMES)
    assert form.render(VALUES) == "u=a%2Fb%26c&c+1=1+2&p=p%FF"


@cases("value", ["a\r\nX: y", "a\0", "\x7f", "p\udcff"])
def test_no_value_ends_a_header(value: str) -> None:
    with pytest.raises(TemplateError, match="header"):
        Template("Bearer ${username}", QUERY_NAMES).render({"username": value}, header_value)


@cases(
    ("value", "in_filter", "in_name"),
    [
        ("alice", "alice", "alice"),
        ("*", "\\2a", "*"),
        ("a)(uid=*", "a\\29\\28uid\\3d*".replace("\\3d*", "=\\2a"), "a)(uid\\=*"),
        ("a\\b", "a\\5cb", "a\\\\b"),
        ("a\0b", "a\\00b", "a\\00b"),
        ("#x", "#x", "\\#x"),
        (" x ", " x ", "\\ x\\ "),
        (" ", " ", "\\ "),
        ('x,ou=y+z;<>"', 'x,ou=y+z;<>"', 'x\\,ou\\=y\\+z\\;\\<\\>\\"'),
        ("ü\udcff", "ü\\ff", "ü\\ff"),
        ("", "", ""),
    ],
)
def test_values_in_ldap(value: str, in_filter: str, in_name: str) -> None:
    assert Template("(uid=${username})", QUERY_NAMES).render({"username": value}, filter_value) == f"(uid={in_filter})"
    assert Template("uid=${username},dc=x", QUERY_NAMES).render({"username": value}, dn_value) == f"uid={in_name},dc=x"


@given(st.text())
def test_a_filter_gets_its_value_back(value: str) -> None:
    def unescaped(found: re.Match[str]) -> str:
        return chr(int(found[1], 16))

    escaped = filter_value(value.replace("\ud800", ""))
    assert not set("*()\0") & set(escaped)
    assert re.sub(r"\\([0-9a-f]{2})", unescaped, escaped) == value.replace("\ud800", "")


def test_the_values_of_a_client() -> None:
    client = ClientInfo("c1", None, "[2001:db8::1]:4711")
    client.client_attrs = {"site": "x"}
    values = client_values(client, AuthAttempt(None, None, "u", b"p\xff"), topic="t/1", qos=None)
    assert values["username"] == "u"
    assert values["password"] == "p\udcff"
    assert (values["peerhost"], values["listener"], values["zone"]) == ("2001:db8::1", "tcp:default", "default")
    assert (values["client_attrs.site"], values["topic"]) == ("x", "t/1")
    assert "qos" not in values
    assert "cert_common_name" not in values
    assert "username" not in client_values(client)
