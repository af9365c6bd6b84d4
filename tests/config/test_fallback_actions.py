"""What `fallback_actions` of actions may say."""

import pytest

from config.writing import Write
from heliograph.cli.main import main
from heliograph.config.actions.fallback_ways import actions_with_rows
from heliograph.config.actions.fallbacks import FallbackReference, FallbackRepublish
from heliograph.config.loading import load_config
from heliograph.config.republish import RepublishAction
from heliograph.settings.errors import ConfigError
from support.cases import cases

_WEB = 'connectors.http.web.url = "http://127.0.0.1:1"\n'
_ACTION = "actions.http.%s { connector = web, fallback_actions = [%s] }\n"
_TO = "{ kind = reference, type = http, name = %s }"


def test_fallbacks_are_read_and_their_actions_get_rows(write: Write) -> None:
    args = '{ topic = "bad/${clientid}", qos = 1, mqtt_properties { "Content-Type" = "${type}" } }'
    republish = f"{{ kind = republish, args {args} }}"
    rule = 'rule_engine.rules.r { sql = "SELECT * FROM a", actions = ["http:first"] }'
    text = _WEB + _ACTION % ("first", f"{_TO % 'second'}, {republish}") + _ACTION % ("second", _TO % "third")
    config = load_config(write(text + _ACTION % ("third", "") + rule))
    properties = {"Content-Type": "${type}"}
    assert config.actions.http["first"].fallback_actions == (
        FallbackReference("http", "second"),
        FallbackRepublish(RepublishAction("bad/${clientid}", qos=1, mqtt_properties=properties)),
    )
    # What came as a fallback does not fall back again, so the third gets nothing.
    assert actions_with_rows(config.rule_engine, config.actions) == {"http:first", "http:second"}


@cases(
    ("fallbacks", "why"),
    [
        (_TO % "a", "http:a is its own fallback"),
        (_TO % "none", "there is no action http:none; there are: http:a, http:b"),
        (_TO % "b", "the fallbacks form a cycle: http:a -> http:b -> http:a"),
        ("{ kind = reference, type = htp, name = b }", "there is no action htp:b; there are: http:a, http:b"),
        ("{ kind = reference, type = http }", "fallback 1: its name is nothing, not the name of an action"),
        ("{ kind = reference, type = http, name = b, args {} }", "fallback 1: unknown key args (line 2)"),
        ("{ kind = other }", 'fallback 1: its kind is "other"; valid are reference and republish'),
        ("{ kind = republish }", "fallback 1, republish, needs args with topic"),
        ("{ kind = republish, args { topic = a, qos = 7 } }", "fallback 1, args.qos is 7; valid is"),
        ("http", 'fallback 1 is "http", not an object'),
    ],
)
def test_what_leads_nowhere_is_refused_with_its_place(write: Write, fallbacks: str, why: str) -> None:
    text = _WEB + _ACTION % ("a", fallbacks) + _ACTION % ("b", _TO % "a" if fallbacks == _TO % "b" else "")
    try:
        load_config(write(text))
    except ConfigError as error:
        (problem,) = error.problems
        assert str(problem.path) == "actions.http.a.fallback_actions"
        assert why in str(problem)
    else:
        raise AssertionError(f"{fallbacks} is not refused")


@cases("mistake", ["parameters.method = none", 'tags = "x"', "connector = absent"])
def test_the_command_says_what_is_wrong_with_an_action(
    write: Write, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    file = write(f"{_WEB}actions.http.a {{ connector = web, {mistake} }}\n")
    assert main(["conf", "check", str(file)]) == 1
    assert ":2: actions.http.a." in capsys.readouterr().err
