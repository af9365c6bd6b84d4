"""Settings of the source `ldap`."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.ldap import ATTRIBUTE, LdapConnection
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Choice


@dataclass(frozen=True, kw_only=True)
class LdapSourceConfig(SourceConfig, LdapConnection):
    """What clients may do, in entries of a directory."""

    type: str = setting(Choice("ldap"), "ldap", "Which source it is.")
    publish_attribute: str = setting(
        ATTRIBUTE, "mqttPublishTopic", "Where the entry has topics that the client may publish to."
    )
    subscribe_attribute: str = setting(
        ATTRIBUTE, "mqttSubscriptionTopic", "Where it has topics that the client may subscribe to."
    )
    all_attribute: str = setting(ATTRIBUTE, "mqttPubSubTopic", "Where it has topics for both.")
    acl_rule_attribute: str = setting(ATTRIBUTE, "mqttAclRule", "Where it has rules, each a JSON object.")
