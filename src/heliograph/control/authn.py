"""What can be asked of the authenticators of a node, and done with them: changes are changes of the configuration."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from heliograph.access.authentication.members import GLOBAL
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.config.layers import node_at
from heliograph.config_changes.groups import GroupList
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import AUTHENTICATORS, LISTENERS, ConfiguredList
from heliograph.control.proto_v1 import authn as proto
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError

_GLOBAL_NAME: Final = "global"  # for people


def methods(part: AuthenticationPart, manager: ConfigManager) -> list[Method]:
    """`authn.*`; the manager writes changes and refused attempts into the audit log itself."""
    answers = AuthnAnswers(part, manager)
    changed = answers.changed
    return [
        proto.AUTHN_LIST.by(answers.rows),
        proto.AUTHN_SHOW.by(answers.show),
        proto.AUTHN_STATUS.by(answers.status),
        proto.AUTHN_ADD.by(lambda args, call: changed(args.chain, call, lambda chain: chain.add(args.text))),
        proto.AUTHN_UPDATE.by(
            lambda args, call: changed(args.chain, call, lambda chain: chain.update(args.text, args.id))
        ),
        # The users of one that is deleted go with it; those of one that is disabled stay.
        proto.AUTHN_DELETE.by(lambda args, call: changed(args.chain, call, lambda chain: chain.delete(args.id))),
        proto.AUTHN_ENABLE.by(
            lambda args, call: changed(args.chain, call, lambda chain: chain.enable(args.id, is_enabled=True))
        ),
        proto.AUTHN_DISABLE.by(
            lambda args, call: changed(args.chain, call, lambda chain: chain.enable(args.id, is_enabled=False))
        ),
        proto.AUTHN_MOVE.by(
            lambda args, call: changed(args.chain, call, lambda chain: chain.move(args.id, args.position))
        ),
        proto.AUTHN_ORDER.by(lambda args, call: changed(args.chain, call, lambda chain: chain.order(args.ids))),
    ]


class AuthnAnswers:
    def __init__(self, part: AuthenticationPart, manager: ConfigManager) -> None:
        self._part = part
        self._manager = manager

    async def rows(self, args: NoArgs, call: Call) -> AsyncIterator[Sequence[proto.AuthnRow]]:
        for chain in self._chains():
            groups = await self._chain(chain).groups()
            yield [self._row(chain, name, groups.plain(name)) for name in groups.names]

    async def show(self, args: proto.AuthnName, call: Call) -> proto.AuthnShown:
        settings = await self._chain(args.chain).shown(args.id)
        return proto.AuthnShown(args.chain or _GLOBAL_NAME, args.id, json.dumps(settings, indent=2, ensure_ascii=False))

    async def status(self, args: proto.AuthnName, call: Call) -> proto.AuthnRow:
        return self._row(args.chain, args.id, await self._chain(args.chain).shown(args.id))

    async def changed(self, chain: str, call: Call, change: Callable[[GroupList], str]) -> proto.AuthnChanged:
        done = await self._chain(chain).change(call, change)
        return proto.AuthnChanged(chain or _GLOBAL_NAME, tuple(done.names), done.outcome.revision)

    def _chains(self) -> Iterator[str]:
        yield GLOBAL
        for kind in LISTENERS.kinds:
            named = node_at(self._manager.layers.merged, (*LISTENERS.path, kind))
            for name in named.value if named is not None and isinstance(named.value, dict) else ():
                yield f"{kind}:{name}"

    def _chain(self, name: str) -> ConfiguredList:
        return ConfiguredList(self._manager, replace(AUTHENTICATORS, path=_path(name)))

    def _row(self, chain: str, name: str, settings: Mapping[str, object]) -> proto.AuthnRow:
        member = next((one for one in self._part.chains().get(chain, ()) if one.id == name), None)
        state = "disabled" if member is None else member.authenticator.health() or "enabled"
        counts = {} if member is None else member.counts.numbers()
        rates = self._part.rates(chain, name)
        return proto.AuthnRow(chain or _GLOBAL_NAME, name, state, str(settings.get("precondition", "")), counts, rates)


def _path(chain: str) -> tuple[str, ...]:
    if chain == GLOBAL:
        return AUTHENTICATORS.path
    kind, colon, name = chain.partition(":")
    if kind not in LISTENERS.kinds or not colon or not name:
        raise RpcError("authn_invalid", f"{chain!r} is no listener; one is named as tcp:default")
    return (*LISTENERS.path, kind, name, *AUTHENTICATORS.path)
