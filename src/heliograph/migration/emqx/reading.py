"""From EMQX's files to a configuration, and what became of each setting.

Its settings are ours where there is such a thing, so most of them stay as they are. What the reader of configurations
refuses is taken out one by one, with the reason that it gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from heliograph.config.contradictions import open_listener_faults
from heliograph.config.emqx_forms import in_our_form, is_needless
from heliograph.config.layers import parse
from heliograph.config.reading import Check, ConfigReader
from heliograph.config.settings import Config
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.merging import merge_nodes
from heliograph.hocon.values import Node, to_json, to_plain
from heliograph.hocon.walking import run_walk
from heliograph.migration.draft import ImportDraft
from heliograph.migration.emqx.adjusting import Adjusting, action_types
from heliograph.migration.emqx.archive import Archive, read_archive
from heliograph.migration.emqx.databases import import_tables
from heliograph.migration.emqx.trees import KeyPath, every_leaf, made, there, value_at, with_value, without
from heliograph.migration.errors import ImportRefusedError
from heliograph.migration.outcomes import CHANGED, DROPPED, KEPT, REFUSED, ForeignLine, ImportOutcome
from heliograph.settings.errors import ConfigSyntaxError, Problem
from heliograph.settings.kinds import is_pem
from heliograph.settings.masking import masked
from heliograph.settings.reading import list_items

_ARCHIVE: Final = ".tar.gz"
_LOWEST: Final = ("base.hocon", "cluster.hocon")  # below emqx.conf, in this order
_UNKNOWN: Final = "unknown key; "
_DELETE: Final = ": delete it"
_TYPED: Final = ("connectors", "actions")
_SHOWN_MAX: Final = 60
_CHAIN: Final = "authentication"
_RULE_ENGINE: Final = ("rule_engine", "rules")
_PSK: Final = ("psk_authentication",)
_RULES: Final = (("authorization",), ("authorization", "sources"), ("authorization", "no_match"))
# Settings of a listener that keep clients out: without one the listener is not started.
_GUARDS: Final = ("access_rules", "authentication", "enable_authn", "ssl_options", "zone")


def import_emqx(files: Sequence[Path], checks: Iterable[Check] = ()) -> ImportDraft:
    """What the files are here, one laid over the other as EMQX does: cluster.hocon below emqx.conf.

    Args:
        checks: See `import_files`.

    Raises:
        ImportRefusedError: One cannot be read.
        ConfigSyntaxError: One is no HOCON.
    """
    try:
        archives = [read_archive(file) for file in files if file.name.endswith(_ARCHIVE)]
    except HoconError as error:
        raise ConfigSyntaxError.of(error) from None
    if len(archives) > 1:
        raise ImportRefusedError("one archive of EMQX can be imported at a time")
    archive = archives[0] if archives else None
    plain = [file for file in files if not file.name.endswith(_ARCHIVE)]
    trees = [parse(file) for file in sorted(plain, key=_layer)]
    if archive is not None and archive.tree is not None:
        trees.insert(0, in_our_form(archive.tree))
    tree = trees[0] if trees else Node({}, SourcePosition(str(files[0])))
    for top in trees[1:]:
        tree = run_walk(merge_nodes(tree, top))
    return _Reading(tree, files[0], archive, tuple(checks)).draft()


def _layer(file: Path) -> int:
    return _LOWEST.index(file.name) if file.name in _LOWEST else len(_LOWEST)


class _Reading:
    def __init__(self, tree: Node, file: Path, archive: Archive | None, checks: tuple[Check, ...]) -> None:
        self._checks = checks
        self._tree = tree
        self._file = file
        self._archive = archive
        self._draft = ImportDraft()
        self._outcomes = self._draft.outcomes

    def draft(self) -> ImportDraft:
        draft = self._draft
        adjusting = Adjusting(self._tree, self._file, draft)
        self._tree = adjusting.adjusted()
        self._tree = import_tables(self._tree, self._archive, ForeignLine(str(self._file)), draft)
        config = self._settle()
        self._drop_missing_actions()
        self._open_listeners(config)
        self._outcomes += self._kept()
        self._outcomes.sort(key=lambda outcome: (outcome.place.line == 0, outcome.place.file, outcome.place.line))
        draft.tree = adjusting.with_files(to_plain(self._tree))
        return draft

    def _settle(self) -> Config:
        """Take out what is refused until all that is left is valid; the configuration that is left."""
        checks: tuple[Check, ...] = ()
        while True:
            reader = ConfigReader(checks=checks)
            config = reader.read(self._tree)
            if reader.problems:
                self._take_out(reader.problems[0])
            elif checks == self._checks:
                return config
            else:  # which take longer, and look at valid settings alone
                checks = self._checks

    def _take_out(self, problem: Problem) -> None:
        path = there(self._tree, tuple(problem.path.split(".")))
        if not path:
            raise ImportRefusedError(str(problem))
        is_unknown = problem.message.startswith(_UNKNOWN)
        place = ForeignLine(problem.file, problem.line or 0)
        reason = problem.message.removeprefix(_UNKNOWN)
        if is_unknown:
            kind = DROPPED if is_needless(path) else REFUSED
            reason = reason.removesuffix(_DELETE)  # which is done
            if path[0] in _TYPED and len(path) == 2:
                reason = f"this type is not there; types are {', '.join(action_types())} (docs/actions.md)"
            loses = path == _PSK and self._is_enabled(path, default=False)
            self._outcomes.append(ImportOutcome(place, kind, ".".join(path), reason=reason, loses_login=loses))
        else:
            path = _whole(path)
            loses = _CHAIN in path and self._is_enabled(path)
            name = ".".join(path)
            where = "" if name == problem.path else f"{problem.path}: "
            self._outcomes.append(ImportOutcome(place, REFUSED, name, reason=where + reason, loses_login=loses))
        self._tree = without(self._tree, path)
        self._close(path, place, is_unknown=is_unknown)

    def _drop_missing_actions(self) -> None:
        """Take out of rules the actions that could not be imported."""
        rules = value_at(self._tree, _RULE_ENGINE)
        for rule in rules.value if rules is not None and isinstance(rules.value, dict) else ():
            path = (*_RULE_ENGINE, rule, "actions")
            listed = value_at(self._tree, path)
            for number, action in reversed(list(enumerate(list_items(listed) or () if listed is not None else (), 1))):
                kind, _, name = str(action.value).partition(":")
                if isinstance(action.value, str) and name and value_at(self._tree, ("actions", kind, name)) is None:
                    place = ForeignLine(action.position.source, action.position.line or 0)
                    setting = f"{'.'.join(path)}: {action.value}"
                    self._outcomes.append(ImportOutcome(place, REFUSED, setting, reason="this action is not there"))
                    self._tree = without(self._tree, (*path, str(number)))

    def _is_enabled(self, path: KeyPath, *, default: bool = True) -> bool:
        switch = value_at(self._tree, (*path, "enable"))
        return default if switch is None else switch.value not in (False, "false")

    def _close(self, path: KeyPath, place: ForeignLine, *, is_unknown: bool) -> None:
        """See that no client may do more without what was taken out."""
        if path[:1] == (_CHAIN,) and not is_unknown:
            self._close_chain((_CHAIN,), place)
        elif path[:2] in _RULES and not is_unknown:
            self._deny_rest(place)
        elif path[0] == "listeners" and len(path) > 3 and _guards(path, is_unknown):
            listener = path[:3]
            self._set((*listener, "enable"), False)
            here = f"{'.'.join(listener)}.enable = false"
            reason = f"without {'.'.join(path[3:])} it would let in others; mend that, and switch it on"
            self._outcomes.append(ImportOutcome(place, CHANGED, ".".join(listener), here, reason))

    def _close_chain(self, path: KeyPath, place: ForeignLine) -> None:
        """Set an authenticator without users where none is left."""
        chain = value_at(self._tree, path)
        if chain is not None and chain.value:
            return
        self._set(path, [{"mechanism": "password_based", "backend": "built_in_database"}])
        here = "authentication = [{ mechanism = password_based, backend = built_in_database }]"
        reason = (
            "no authenticator is left, and without any everyone would be let in: add users, or other authenticators"
        )
        self._outcomes.append(ImportOutcome(place, CHANGED, ".".join(path), here, reason))

    def _deny_rest(self, place: ForeignLine) -> None:
        """Deny what no rule allows where a source of rules is missing."""
        self._set(("authorization", "no_match"), "deny")
        reason = "a source of rules is missing, which may have denied something"
        self._outcomes.append(
            ImportOutcome(place, CHANGED, "authorization.no_match", "authorization.no_match = deny", reason)
        )

    def _open_listeners(self, config: Config) -> None:
        for path, _ in open_listener_faults(config):
            listener = path[:3]
            self._set((*listener, "allow_anonymous_network"), True)
            here = f"{'.'.join(listener)}.allow_anonymous_network = true"
            reason = (
                "every client that reaches it is let in, as in EMQX; better add an authenticator, and delete this line"
            )
            place = ForeignLine(str(self._file))
            self._outcomes.append(
                ImportOutcome(place, CHANGED, f"{'.'.join(listener)} without authenticators", here, reason)
            )

    def _set(self, path: KeyPath, value: object) -> None:
        self._tree = with_value(self._tree, path, made(value, SourcePosition("")))

    def _kept(self) -> Iterator[ImportOutcome]:
        reported = {outcome.here.partition(" = ")[0] for outcome in self._outcomes}
        for path, node in every_leaf(masked(self._tree, Config)):
            name = ".".join(path)
            if node.position.source and name not in reported:
                place = ForeignLine(node.position.source, node.position.line or 0)
                yield ImportOutcome(place, KEPT, name, f"{name} = {_shown(node)}")


def _whole(path: KeyPath) -> KeyPath:
    """What has to go with a value that is refused: a whole authenticator or source, which means less without it."""
    if path[0] == _CHAIN:
        return path[:2]
    if path[:2] == ("authorization", "sources"):
        return path[:3]
    if path[0] in _TYPED or path[:2] == _RULE_ENGINE:
        return path[:3]
    if path[0] == "listeners" and path[3:4] == (_CHAIN,):
        return path[:5]
    return path


def _guards(path: KeyPath, is_unknown: bool) -> bool:
    if is_unknown:
        return path[-1] == "verify_peer_ext_key_usage"
    is_version = path[3:5] == ("ssl_options", "versions")
    return path[3] in _GUARDS and not is_version


def _shown(node: Node) -> str:
    if isinstance(node.value, str) and is_pem(node.value):
        return "a text in PEM"
    if isinstance(node.value, str):
        text = json.dumps(node.value, ensure_ascii=False) if "\n" in node.value else node.value
    else:
        text = to_json(node, None)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
