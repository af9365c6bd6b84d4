"""The chain of authenticators, as clients of a node that runs see it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import jwt
import pytest
import pytest_asyncio

from heliograph.access.authentication.chain import AuthenticationChain, ChainMember, Failures
from heliograph.access.authentication.interface import Answer, Authenticator
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import Faults
from heliograph.broker.pending import Pending
from heliograph.config.authentication import AuthenticatorConfig
from heliograph.config.layers import Sources
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.checked_config import checked_config
from heliograph.settings.errors import ConfigError
from support.running import RunningNode

LISTENERS = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.own.bind = "127.0.0.1:0"
listeners.tcp.open { bind = "127.0.0.1:0", enable_authn = false }
listeners.tcp.quick { bind = "127.0.0.1:0", enable_authn = quick_deny_anonymous }
"""
SECRET = "a secret that is long enough for every hash"
ASKS = "{ mechanism = password_based, backend = http, method = get"
JWT = f'mechanism = jwt, secret = "{SECRET}"'


def cinfo(username: str, result: str, more: str = "") -> str:
    """An authenticator that decides about one user."""
    check = f"{{ is_match = \"str_eq(username, '{username}')\", result = {result} }}"
    return f"{{ mechanism = cinfo, checks = [ {check} ] {more} }}"


def token(**claims: object) -> bytes:
    """A token that the authenticator of `JWT` takes."""
    return jwt.encode(claims, SECRET, "HS256").encode()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path_factory.mktemp("chain"), LISTENERS) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_without_authenticators_all_are_let_in(node: RunningNode) -> None:
    assert await node.change()
    assert await node.connack("c") == rc.SUCCESS
    assert await node.change(f"authentication = [ {cinfo('u', 'deny', ', enable = false')} ]")
    assert await node.connack("c", "u") == rc.SUCCESS


async def test_the_first_that_knows_the_client_decides(node: RunningNode) -> None:
    assert await node.change(f"authentication = [ {{ {JWT} }}, {cinfo('good', 'allow')} ]")
    assert await node.connack("c", "good", b"any") == rc.SUCCESS
    assert await node.connack("c", "bad", token()) == rc.SUCCESS
    assert await node.connack("c", "good", token(exp=1)) == rc.BAD_USERNAME_OR_PASSWORD
    assert await node.connack("c", "bad", b"any") == rc.NOT_AUTHORIZED
    assert await node.connack("c") == rc.NOT_AUTHORIZED
    assert await node.connack("c", version=p.V3_1_1) == rc.NOT_AUTHORIZED


async def test_an_object_alone_is_a_chain_of_one(node: RunningNode) -> None:
    assert await node.change(f"authentication = {cinfo('u', 'deny')}")
    assert await node.connack("c", "u", version=p.V3_1_1) == rc.BAD_USERNAME_OR_PASSWORD
    assert await node.connack("c", "u") == rc.BAD_USERNAME_OR_PASSWORD


async def test_the_chain_of_a_listener_takes_the_place_of_the_other(node: RunningNode) -> None:
    own = f"listeners.tcp.own.authentication = [ {cinfo('own', 'allow')} ]"
    assert await node.change(f"authentication = [ {cinfo('u', 'allow')} ]\n{own}")
    assert await node.connack("c", "u") == rc.SUCCESS
    assert await node.connack("c", "own") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "u", listener="tcp:own") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "own", listener="tcp:own") == rc.SUCCESS
    assert await node.connack("c", "nobody", listener="tcp:open") == rc.SUCCESS
    assert await node.connack("c", listener="tcp:quick") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "", listener="tcp:quick") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "u", listener="tcp:quick") == rc.SUCCESS
    disabled = f"listeners.tcp.own.authentication = [ {cinfo('own', 'deny', ', enable = false')} ]"
    assert await node.change(f"authentication = [ {cinfo('u', 'deny')} ]\n{disabled}")
    assert await node.connack("c", "u", listener="tcp:own") == rc.SUCCESS


@pytest.mark.parametrize(
    ("precondition", "code"),
    [
        ("str_eq(listener, 'tcp:default')", rc.SUCCESS),
        ("str_eq(listener, 'tcp:own')", rc.NOT_AUTHORIZED),
        ("str_eq(peerhost, '127.0.0.1')", rc.SUCCESS),
        ("str_eq(clientid, 'c')", rc.SUCCESS),
        ("str_eq(password, 'p')", rc.SUCCESS),
        ("str_eq(cert_common_name, '')", rc.NOT_AUTHORIZED),
        ("clientid", rc.NOT_AUTHORIZED),
        (" ", rc.SUCCESS),
    ],
)
async def test_a_precondition_says_who_is_asked_about(node: RunningNode, precondition: str, code: int) -> None:
    more = f', precondition = "{precondition}"'
    assert await node.change(f"authentication = {cinfo('u', 'allow', more)}")
    assert await node.connack("c", "u", b"p") == code


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (f"[ {cinfo('u', 'allow')}, {cinfo('u', 'deny')} ]", "there is a cinfo before it"),
        ("[ { mechanism = magic } ]", "expected one of"),
        ("[ { mechanism = jwt } ]", "needs secret"),
        ('[ { mechanism = jwt, secret = "x", secret_base64_encoded = true } ]', "Base64"),
        ("[ { mechanism = jwt, algorithm = public-key } ]", "public_key"),
        ('[ { mechanism = jwt, secret = "s", verify_claims { exp = "1" } } ]', "exp"),
        ("[ { mechanism = cinfo, checks = [] } ]", "at least one"),
    ],
)
async def test_wrong_settings_are_refused_with_a_reason(node: RunningNode, settings: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        node.load(f"authentication = {settings}")


async def test_what_cannot_be_made_changes_nothing(node: RunningNode, tmp_path: Path) -> None:
    assert await node.change(f"authentication = {cinfo('u', 'allow')}")
    missing = tmp_path / "missing.pem"
    assert not await node.change(
        f'authentication = {{ mechanism = jwt, algorithm = public-key, public_key = "{missing}" }}'
    )
    assert await node.connack("c", "u") == rc.SUCCESS


async def test_what_stays_keeps_its_counts_when_others_come_and_all_move(node: RunningNode) -> None:
    def total() -> float:
        return node.node.parts.statistics()["authenticator.total.global.cinfo"]

    assert await node.change(f"authentication = [ {cinfo('u', 'allow')} ]")
    before = total()
    assert await node.connack("c", "u") == rc.SUCCESS
    assert await node.change(f"authentication = [ {{ {JWT} }}, {cinfo('u', 'allow')} ]")
    assert await node.connack("c", "u") == rc.SUCCESS
    assert total() == before + 2
    members = node.node.parts.get(AuthenticationPart).chains()[""]
    assert await node.change(f"authentication = [ {cinfo('u', 'allow')}, {{ {JWT} }} ]")
    assert node.node.parts.get(AuthenticationPart).chains()[""] == list(reversed(members))
    numbers = node.node.parts.statistics()
    assert numbers["authenticator.nomatch.global.jwt"] == 1
    assert numbers["authenticator.latency.global.cinfo.le.+Inf"] == before + 2


async def test_what_an_authenticator_grants_holds(node: RunningNode) -> None:
    assert await node.change(f"authentication = {{ {JWT} }}")
    granted = token(is_superuser=True, client_attrs={"site": "one", "bad name": "x"})
    client = await node.connect("c", username="u", password=granted)
    info = node.client("c")
    assert info.is_superuser
    assert info.client_attrs == {"site": "one"}
    await client.leave()


class Slow(Authenticator):
    """Answers when a test says so.

    Args:
        answer: Makes what it answers.
    """

    def __init__(self, answer: Callable[[], Awaitable[Answer]]) -> None:
        super().__init__("slow")
        self._answer = answer

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Awaitable[Answer]:
        """Later."""
        return self._answer()


class Raises(Authenticator):
    """Has a fault."""

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer:
        """Raise."""
        raise RuntimeError("a fault")


class Chained:
    """A chain of these authenticators, and what they caused."""

    def __init__(self, *authenticators: Authenticator, refuse: bool = False) -> None:
        self.faults: list[str] = []
        self.tasks: set[asyncio.Task[None]] = set()
        faults = Faults()
        faults.on_fault = lambda boundary, error: self.faults.append(boundary)
        failures = Failures(refuse, 10.0, False, faults, lambda: 0)
        self.members = [ChainMember(AuthenticatorConfig(), one, None) for one in authenticators]
        self.chain = AuthenticationChain(self.members, failures, self.tasks)
        self.client, self.attempt = ClientInfo("c", "u", "127.0.0.1:1"), AuthAttempt(None, None, "u", b"p")

    def ask(self) -> AuthStep | Pending[object]:
        """What it says about a client."""
        return self.chain.authenticate(self.client, self.attempt)

    async def step(self) -> AuthStep:
        """The same, waited for."""
        asked = self.ask()
        if isinstance(asked, AuthStep):
            return asked
        await asyncio.wait(self.tasks)
        assert isinstance(asked.answer, tuple)
        step = asked.answer[1]
        assert isinstance(step, AuthStep)
        return step


class Asks(Authenticator):
    """Challenges, and accepts who says "right"."""

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer:
        """Challenge, or decide."""
        if attempt.state is None:
            attempt.state = "challenged"
            return AuthStep(rc.CONTINUE_AUTHENTICATION, b"?")
        return AuthStep(rc.SUCCESS) if attempt.data == b"right" else None


async def say(answer: Answer) -> Answer:
    return answer


async def test_one_that_raises_is_passed_over_and_counted() -> None:
    chained = Chained(Raises("raises"), Slow(lambda: say(AuthStep(rc.SUCCESS))))
    assert (await chained.step()).code == rc.SUCCESS
    assert chained.faults == ["authentication.raises"]
    assert chained.members[0].counts.numbers()["error"] == 1
    assert chained.members[1].counts.numbers()["success"] == 1


async def test_one_that_fails_refuses_where_settings_say_so() -> None:
    assert (await Chained(Raises("raises"), refuse=True).step()).code == rc.SERVER_UNAVAILABLE


async def test_those_behind_one_that_had_to_wait_are_asked() -> None:
    chained = Chained(*(Slow(lambda: say(None)) for _ in range(3)))
    assert (await chained.step()).code == rc.NOT_AUTHORIZED
    assert [member.counts.numbers()["nomatch"] for member in chained.members] == [1, 1, 1]


async def test_only_the_one_that_challenged_a_client_takes_its_answer() -> None:
    accepts = Slow(lambda: say(AuthStep(rc.SUCCESS)))
    for data, code in ((b"right", rc.SUCCESS), (b"wrong", rc.NOT_AUTHORIZED)):
        chained = Chained(Slow(lambda: say(None)), Asks("asks"), accepts)
        assert (await chained.step()).code == rc.CONTINUE_AUTHENTICATION
        chained.attempt.data = data
        assert (await chained.step()).code == code
        counts = [member.counts.numbers()["total"] for member in chained.members]
        assert counts == [1, 1, 0]


async def test_one_that_was_taken_out_meanwhile_takes_no_answer() -> None:
    chained = Chained(Asks("asks"))
    assert (await chained.step()).code == rc.CONTINUE_AUTHENTICATION
    other = Chained(Asks("asks"))
    other.attempt = chained.attempt
    other.attempt.data = b"right"
    assert (await other.step()).code == rc.NOT_AUTHORIZED


async def test_a_question_ends_with_its_client() -> None:
    ended = asyncio.Event()

    async def never() -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    chained = Chained(Slow(never))
    asked = chained.ask()
    assert isinstance(asked, Pending)
    await asyncio.sleep(0)
    asked.cancel()
    async with asyncio.timeout(10):
        await ended.wait()
    assert chained.faults == []


async def test_reasons_do_not_say_which_users_there_are_where_settings_hide_them(node: RunningNode) -> None:
    chain = f"authentication = {cinfo('known', 'deny')}"
    assert await node.change(chain)
    assert await node.connack("c", "known", b"wrong") == rc.BAD_USERNAME_OR_PASSWORD
    assert await node.change(f"{chain}\nauthentication_settings.hide_reasons = true")
    assert await node.connack("c", "known", b"wrong") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "unknown", b"wrong") == rc.NOT_AUTHORIZED
    assert await node.change(chain)
    assert await node.connack("c", "known", b"wrong") == rc.BAD_USERNAME_OR_PASSWORD


async def test_events_tell_of_each_decision(node: RunningNode) -> None:
    rule = """rule_engine.rules.seen { sql = "SELECT * FROM '$events/auth/check_authn_complete'", actions = [ {
      function = republish
      args { topic = "seen/${username}", payload = "${reason_code} ${is_superuser} ${is_anonymous}" }
    } ] }"""
    assert await node.change(f"{rule}\nlisteners.tcp.own.authentication = [ {{ {JWT} }}, {cinfo('bad', 'deny')} ]")
    watcher = await node.connect("watcher")
    await watcher.subscribe("seen/#")
    assert await node.connack("c", "root", token(is_superuser=True), listener="tcp:own") == rc.SUCCESS
    assert await node.connack("c", "bad", b"p", listener="tcp:own") == rc.BAD_USERNAME_OR_PASSWORD
    assert await node.connack("c", "nobody", b"p") == rc.SUCCESS
    messages = [await watcher.take(p.Publish) for _ in range(3)]
    assert {bytes(message.topic).decode(): message.payload for message in messages} == {
        "seen/root": b"success true false",
        "seen/bad": b"bad_username_or_password false false",
        "seen/nobody": b"success false true",
    }
    await watcher.leave()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (cinfo("u", "allow", ', precondition = "str_eq("'), "authentication.1.precondition"),
        (cinfo("u", "allow", ', precondition = "nothing(1)"'), "there is no function nothing"),
        ('{ mechanism = cinfo, checks = [ { is_match = "user", result = deny } ] }', "there is no variable user"),
        ('{ mechanism = jwt, algorithm = public-key, public_key = "-----BEGIN X-----" }', "no public key"),
        (
            '{ mechanism = password_based, backend = http, method = get, url = "http://${clientid}/" }',
            "not in its host",
        ),
        ('{ mechanism = password_based, backend = http, method = get, url = "http://u:p@h/" }', "names a user"),
    ],
)
async def test_what_languages_find_wrong_is_refused_before_a_start(tmp_path: Path, settings: str, told: str) -> None:
    (tmp_path / "node.conf").write_text(f"authentication = {settings}")
    layers = Sources(tmp_path / "node.conf", {}, {"node.data_dir": str(tmp_path)}).read()
    with pytest.raises(ConfigError, match=told):
        checked_config(layers)
