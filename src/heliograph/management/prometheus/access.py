"""The families of `/prometheus/auth`: authenticators, sources of authorization, bans."""

from heliograph.control.proto_v1.authn import AUTHN_LIST, AuthnRow
from heliograph.control.proto_v1.authorization import AUTHZ_SOURCES, SourceStatus
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.numbers import numbers_of
from heliograph.management.prometheus.families import COUNTER, GAUGE, MetricFamilies

_ENABLED = "enabled"
_DISABLED = "disabled"
_WORKS = ("works", "no rules")


async def access_families(node: Node) -> MetricFamilies:
    """All of them, of one node."""
    found = MetricFamilies()
    for authenticator in await node.rows(AUTHN_LIST()):
        if authenticator.chain == "global":
            _put_authenticator(found, authenticator)
    for source in await node.rows(AUTHZ_SOURCES()):
        _put_source(found, source)
    banned = await numbers_of(node, ["banned.count"])
    found.put("emqx_banned_count", GAUGE, banned.get("banned.count", 0), "Bans that hold.")
    return found


def _put_authenticator(found: MetricFamilies, row: AuthnRow) -> None:
    is_enabled = row.state != _DISABLED
    found.put("emqx_authn_enable", GAUGE, is_enabled, "Whether an authenticator is asked.", id=row.id)
    found.put("emqx_authn_status", GAUGE, row.state == _ENABLED, "Whether it works.", id=row.id)
    for name in ("nomatch", "total", "success", "failed"):
        found.put(f"emqx_authn_{name}", COUNTER, row.counts.get(name, 0), _MEANT[name], id=row.id)


def _put_source(found: MetricFamilies, row: SourceStatus) -> None:
    found.put("emqx_authz_enable", GAUGE, row.enable, "Whether a source of authorization is asked.", type=row.type)
    found.put("emqx_authz_status", GAUGE, row.state in _WORKS, "Whether it works.", type=row.type)
    for name, count in (("nomatch", row.nomatch), ("total", row.total), ("allow", row.allow), ("deny", row.deny)):
        found.put(f"emqx_authz_{name}", COUNTER, count, _MEANT[name], type=row.type)


_MEANT = {
    "nomatch": "Times that it left the decision to others.",
    "total": "Times that it was asked.",
    "success": "Times that it let a client in.",
    "failed": "Times that it refused one.",
    "allow": "Times that it allowed.",
    "deny": "Times that it denied.",
}
