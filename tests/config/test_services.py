"""Settings of the services around the kernel: what their defaults are, and what an operator is told of mistakes."""

from config.writing import Write, config_of, mistakes_in
from heliograph.config.services import AutoSubscribeTopic, FlappingDetect, RewriteRule
from heliograph.config.settings import Config
from support.cases import cases


def test_defaults_are_those_of_emqx() -> None:
    config = Config()
    assert (config.sys_topics.sys_msg_interval, config.sys_topics.sys_heartbeat_interval) == (60.0, 30.0)
    assert config.sys_topics.sys_event_messages.client_connected
    assert config.sys_topics.sys_event_messages.client_disconnected
    assert not config.sys_topics.sys_event_messages.client_subscribed
    assert not config.event_message.client_connected
    assert (config.delayed.enable, config.delayed.max_delayed_messages) == (True, 100_000)
    assert config.rewrite == ()
    assert config.auto_subscribe.topics == ()
    assert config.flapping_detect == FlappingDetect(False, 60.0, 15, 300.0)


def test_lists_of_rules(write: Write) -> None:
    config = config_of(
        write(
            'rewrite = [{ action = publish, source_topic = "x/#", re = "^x/(.+)$", dest_topic = "y/$1" }, {}]\n'
            'auto_subscribe { topics = [{ topic = "c/${clientid}", qos = 1, nl = 1 }] }\n'
            "delayed.max_delayed_messages = 0\n"
        )
    )
    assert config.rewrite == (RewriteRule("publish", "x/#", "^x/(.+)$", "y/$1"), RewriteRule())
    assert config.auto_subscribe.topics == (AutoSubscribeTopic("c/${clientid}", 1, 0, 0, 1),)
    assert config.delayed.max_delayed_messages is None


def test_a_zone_has_what_it_leaves_out_from_the_root(write: Write) -> None:
    config = config_of(write("flapping_detect.max_count = 5\nzones.z.flapping_detect.enable = true"))
    assert config.zones["z"].flapping_detect == FlappingDetect(True, 60.0, 5, 300.0)


@cases(
    ("text", "mistake"),
    [
        ('rewrite = [{ re = "^x$" }]', "rewrite.1: a rewrite rule needs source_topic and dest_topic too"),
        ("rewrite = [{ action = publish }]", "rewrite.1: a rewrite rule needs source_topic and re and dest_topic too"),
        (
            'rewrite = [{ source_topic = "a", re = "^a$", dest_topic = "b/#" }]',
            'rewrite.1: dest_topic "b/#" holds a wildcard, and messages are published to topic names; only a rule with '
            "action = subscribe may hold + and #",
        ),
        ("auto_subscribe.topics = [{ qos = 1 }]", "auto_subscribe.topics.1: an automatic subscription needs topic too"),
        (
            'auto_subscribe.topics = [{ topic = "a/#/b" }]',
            "auto_subscribe.topics.1: '#' must stand alone and last in 'a/#/b'",
        ),
        (
            'auto_subscribe.topics = [{ topic = "$share/g/t", nl = 1 }]',
            'auto_subscribe.topics.1: nl = 1 is not allowed for a shared subscription such as "$share/g/t"',
        ),
        ("flapping_detect.max_count = 0", "flapping_detect.max_count: found 0, expected an integer of at least 1"),
        (
            "delayed.max_delayed_messages = -1",
            "delayed.max_delayed_messages: found -1, expected an integer of at least 1, ",
        ),
        ("sys_topics.sys_msg_interval = 0s", "sys_topics.sys_msg_interval: found"),
        ("banned.bootstrap = x", "banned.bootstrap: unknown key; did you mean bootstrap_file?"),
    ],
)
def test_mistakes(text: str, mistake: str, write: Write) -> None:
    (told,) = mistakes_in(write(text))
    assert told.removeprefix("node.conf:1: ").startswith(mistake)


def test_an_expression_that_is_none(write: Write) -> None:
    told = mistakes_in(write('rewrite = [{ source_topic = "a", re = "(", dest_topic = "b" }]'))
    expected = 'a regular expression, as in "^x/y/(.+)$": missing ) at position 1'
    assert told[0] == f'node.conf:1: rewrite.1.re: found "(", expected {expected}'


def test_there_may_be_only_so_many_automatic_subscriptions(write: Write) -> None:
    topics = ", ".join(f'{{ topic = "t/{number}" }}' for number in range(21))
    assert mistakes_in(write(f"auto_subscribe.topics = [{topics}]")) == [
        "node.conf:1: auto_subscribe: found 21 topics, at most 20 are allowed"
    ]
