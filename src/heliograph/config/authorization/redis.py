"""Settings of the source `redis`."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.redis import RedisCommand, RedisCommandText, RedisConnection
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import Choice


@dataclass(frozen=True, kw_only=True)
class RedisSourceConfig(SourceConfig, RedisConnection):
    """What clients may do, in hashes of Redis."""

    type: str = setting(Choice("redis"), "redis", "Which source it is.")
    cmd: RedisCommand = required(
        RedisCommandText(RedisCommand.of_rules, 'HGETALL KEY or HMGET KEY FIELD .., as in "HGETALL acl:${username}"'),
        "What gives the topics of a client: each field is a topic filter, its value `publish`, `subscribe`, `all`, or "
        "JSON with `action`, `qos` and `retain`. What is there is allowed. The key may have placeholders.",
    )
