"""Sources that do not go together with what else is configured."""

import pytest

from heliograph.config.settings import Config
from heliograph.settings.errors import ConfigError
from support.services import config_of

FAR = 'connectors.mqtt.far.server = "127.0.0.1:1"\n'
BACK = """
actions.mqtt.back { connector = far, parameters.topic = "ACTION" }
rule_engine.rules.out { sql = "SELECT * FROM 'RULE'", actions = ["mqtt:back"] }
"""


def read(settings: str) -> Config:
    return config_of(FAR + settings)


def looped(source: str, local: str, rule: str, action: str) -> bool:
    """Whether a source and an action of one connector are refused together."""
    text = f'sources.mqtt.one {{ connector = far, parameters.topic = "{source}", local.topic = "{local}" }}'
    try:
        read(text + BACK.replace("RULE", rule).replace("ACTION", action))
    except ConfigError as error:
        return "it would go round" in str(error)
    return False


def test_maps_that_feed_themselves_are_refused_and_others_are_not() -> None:
    assert looped("both/#", "${topic}", "both/#", "${topic}")
    assert looped("$share/g/a/+", "x/${topic}", "x/#", "a/b")
    assert not looped("plant/#", "in/${topic}", "#", "site/${topic}")
    assert not looped("a/+", "in/${topic}", "out/#", "${topic}")
    assert not looped("a/+", "in/a", "in/b", "a/${topic}")
    assert not looped("from_there", "${topic}", "from_here", "${topic}")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            'sources.mqtt.x { connector = no, parameters.topic = "a" }',
            "no such connector of type mqtt; there are: far",
        ),
        (
            'sources.mqtt.x { connector = far, parameters { topic = "$share/g/a", no_local = true } }',
            "MQTT forbids it for a shared subscription",
        ),
        ('sources.mqtt.x { connector = far, parameters.topic = "a/#/b" }', "parameters.topic"),
        (
            "sources.nats.x { connector = c, parameters { subject = a, queue_group = g } }",
            r'parameters.queue_group: found "g", which is only without JetStream: set jetstream = false',
        ),
        (
            "sources.nats.x { connector = c, parameters { subject = a, jetstream = false, durable = d } }",
            r'parameters.durable: found "d", which is only of JetStream; nodes share a `queue_group`',
        ),
        ('sources.nats.x { connector = c, parameters.subject = "a..b" }', r'"a..b", expected a subject'),
        (
            'connectors.nats.c { server = "h:1", username = u, password = p, token = t }',
            "token: stands in the place of username and password",
        ),
        (
            "sources.rabbitmq.x { connector = c, parameters { queue = q, prefetch_count = 0 } }",
            r"prefetch_count: found 0, expected",
        ),
        ('sources.http_in.x.parameters.token = "short"', "found a token of 5 characters"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(settings: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(settings)
