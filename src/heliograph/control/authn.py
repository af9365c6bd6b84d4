"""What can be asked of the authenticators of a node, and done with them: changes are changes of the configuration."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from heliograph.access.authentication.members import GLOBAL
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.config_changes.list_edits import REAR, GroupList
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Terms
from heliograph.control.conf import answered, author_of
from heliograph.control.proto_v1 import authn as proto
from heliograph.hocon.values import Node
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError

Settings = dict[str, Any]
_GLOBAL_NAME: Final = "global"  # for people
_KINDS: Final = ("tcp", "ssl", "ws", "wss")


def methods(part: AuthenticationPart, manager: ConfigManager) -> list[Method]:
    """`authn.*`; the manager writes changes and refused attempts into the audit log itself."""
    answers = AuthnAnswers(part, manager)
    return [
        proto.AUTHN_LIST.by(answers.rows),
        proto.AUTHN_SHOW.by(answers.show),
        proto.AUTHN_STATUS.by(answers.status),
        proto.AUTHN_ADD.by(answers.add),
        proto.AUTHN_UPDATE.by(answers.update),
        proto.AUTHN_DELETE.by(answers.delete),
        proto.AUTHN_ENABLE.by(answers.enable),
        proto.AUTHN_DISABLE.by(answers.disable),
        proto.AUTHN_MOVE.by(answers.move),
        proto.AUTHN_ORDER.by(answers.order),
    ]


class AuthnAnswers:
    def __init__(self, part: AuthenticationPart, manager: ConfigManager) -> None:
        self._part = part
        self._manager = manager

    def rows(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.AuthnRow]]:
        for chain in self._chains():
            yield [self._row(chain, settings) for settings in self._chain(chain).plain()]

    def show(self, args: proto.AuthnName, call: Call) -> proto.AuthnShown:
        settings = self._found(args.chain, args.id)
        return proto.AuthnShown(args.chain or _GLOBAL_NAME, args.id, json.dumps(settings, indent=2, ensure_ascii=False))

    def status(self, args: proto.AuthnName, call: Call) -> proto.AuthnRow:
        return self._row(args.chain, self._found(args.chain, args.id))

    async def add(self, args: proto.AuthnSettings, call: Call) -> proto.AuthnChanged:
        return await self._change(
            args.chain, call, "an authenticator is added", lambda chain: chain.add(args.text, REAR)
        )

    async def update(self, args: proto.AuthnSettings, call: Call) -> proto.AuthnChanged:
        return await self._change(args.chain, call, "an authenticator is changed", lambda chain: _updated(chain, args))

    async def delete(self, args: proto.AuthnName, call: Call) -> proto.AuthnChanged:
        """Answer `authn.delete`: take one out of its chain; its users are deleted with it."""
        return await self._change(args.chain, call, "an authenticator is deleted", lambda chain: chain.delete(args.id))

    async def enable(self, args: proto.AuthnName, call: Call) -> proto.AuthnChanged:
        return await self._change(
            args.chain, call, "an authenticator is enabled", lambda chain: chain.enable(args.id, is_enabled=True)
        )

    async def disable(self, args: proto.AuthnName, call: Call) -> proto.AuthnChanged:
        """Answer `authn.disable`: disable one; its users stay."""
        return await self._change(
            args.chain, call, "an authenticator is disabled", lambda chain: chain.enable(args.id, is_enabled=False)
        )

    async def move(self, args: proto.AuthnMove, call: Call) -> proto.AuthnChanged:
        return await self._change(
            args.chain, call, "an authenticator is moved", lambda chain: chain.move(args.id, args.position)
        )

    async def order(self, args: proto.AuthnOrder, call: Call) -> proto.AuthnChanged:
        return await self._change(
            args.chain, call, "the order of authenticators is changed", lambda chain: chain.order(args.ids)
        )

    async def _change(
        self, name: str, call: Call, comment: str, change: Callable[[GroupList], object]
    ) -> proto.AuthnChanged:
        return await answered(self._changed(name, call, comment, change))

    async def _changed(
        self, name: str, call: Call, comment: str, change: Callable[[GroupList], object]
    ) -> proto.AuthnChanged:
        chain = self._chain(name)
        change(chain)
        terms = Terms(revision=self._manager.revision, comment=comment)
        outcome = await self._manager.change(chain.edit(), author_of(call), terms)
        return proto.AuthnChanged(name or _GLOBAL_NAME, tuple(chain.names), outcome.revision)

    # --- what there is

    def _chains(self) -> Iterator[str]:
        yield GLOBAL
        listeners = _below(self._manager.layers.merged, "listeners")
        for kind in _KINDS:
            named = _below(listeners, kind)
            for name in named.value if named is not None and isinstance(named.value, dict) else ():
                yield f"{kind}:{name}"

    def _chain(self, name: str) -> GroupList:
        """A chain as it is configured, with stars for secrets."""
        return GroupList(self._manager.layers, _path(name), "authenticator")

    def _found(self, chain: str, name: str) -> Settings:
        there = self._chain(chain)
        if name not in there.names:
            raise RpcError("not_found", f"{_place(chain)} has no {name}; there are {', '.join(there.names) or 'none'}")
        return there.plain()[there.names.index(name)]

    def _row(self, chain: str, settings: Settings) -> proto.AuthnRow:
        name = id_of(settings)
        member = next((one for one in self._part.chains().get(chain, ()) if one.id == name), None)
        state = "disabled" if member is None else member.authenticator.health() or "enabled"
        counts = {} if member is None else member.counts.numbers()
        rates = self._part.rates(chain, name)
        return proto.AuthnRow(chain or _GLOBAL_NAME, name, state, str(settings.get("precondition", "")), counts, rates)


def id_of(settings: Settings) -> str:
    """Mechanism and backend of settings, as far as they say them."""
    return ":".join(str(settings[tag]) for tag in ("mechanism", "backend") if tag in settings)


def _updated(chain: GroupList, args: proto.AuthnSettings) -> None:
    found = chain.name_in(args.text)
    if found != args.id:
        raise RpcError("authn_invalid", _other_id(found, args.id))
    chain.update(args.text)


def _path(chain: str) -> tuple[str, ...]:
    if chain == GLOBAL:
        return ("authentication",)
    kind, colon, name = chain.partition(":")
    if kind not in _KINDS or not colon or not name:
        raise RpcError("authn_invalid", f"{chain!r} is no listener; one is named as tcp:default")
    return ("listeners", kind, name, "authentication")


def _other_id(found: str, wanted: str) -> str:
    if found:
        return (
            f"the settings are those of {found}, not of {wanted}: mechanism and backend cannot change; delete the one, "
            "add the other"
        )
    mechanism, _, backend = wanted.partition(":")
    text = f"mechanism = {mechanism}{f', backend = {backend}' if backend else ''}"
    return f"the settings say no mechanism: give all settings of {wanted}, with {text}; `ctl authn show` prints them"


def _place(chain: str) -> str:
    return f"the chain of the listener {chain}" if chain else "the chain"


def _below(node: Node | None, name: str) -> Node | None:
    return node.value.get(name) if node is not None and isinstance(node.value, dict) else None
