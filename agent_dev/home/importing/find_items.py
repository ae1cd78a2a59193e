"""Find what can be imported from the real home, and compare it with the agent homes. No file with a login is opened."""

import os
from collections.abc import Iterator
from typing import Any

from agent_dev.config import load, validators
from agent_dev.config.agent_entry import agent_entry
from agent_dev.config.options import RunOptions
from agent_dev.config.profile import Profile
from agent_dev.errors import InvalidConfiguration, UsageError
from agent_dev.home import manage
from agent_dev.home.importing import documents, record, settings_rules
from agent_dev.home.importing.inside_paths import InsidePaths
from agent_dev.home.importing.items import ABSENT, DIFFERS, LOGIN, SECRET, SERVERS, UNCHECKED, Edit, Item, LeftOut, Offer
from agent_dev.home.importing.source import LARGEST_FILE, Found, SourceHome, Wanted, digest, flags_of, stat_mark, wanted_paths
from agent_dev.home.importing.target import TargetHome, key_digests
from agent_dev.linux import users
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session.sessions import CommandContext

_LONGEST_TEXT = 64 << 10  # bytes; differences of larger texts are not shown


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """An agent: its profile, its agent home and the paths that the profile names."""

    profile: Profile
    home: str
    wanted: tuple[Wanted, ...]


class Importer:
    """The real home and the agent homes of some agents."""

    def __init__(self, context: CommandContext, options: RunOptions, agents: tuple[str, ...]) -> None:
        """`agents`: their names, none for all. Raises UsageError for others, Refused for an unsuitable agent home."""
        self.context = context
        self.path = users.home_directory(context.environ)
        self.agents = tuple(_find_agents(context, options, agents, self.path))
        everyone = self.agents if not agents else tuple(_find_agents(context, options, (), self.path))
        self.source = SourceHome(self.path, {one.path for agent in everyone for one in agent.wanted if one.kind == LOGIN})
        self.targets = {agent.home: TargetHome(agent.home) for agent in self.agents}

    def close(self) -> None:
        """Close all descriptors."""
        self.source.close()
        for target in self.targets.values():
            target.close()

    def offer(self, selected: tuple[str, ...] | None = None) -> Offer:
        """Return everything that can be imported. `selected`: only the paths of these items will exist in the agent home."""
        self.source.left_out.clear()
        items: list[Item] = []
        for agent in self.agents:
            known = {(item.home, item.name) for item in items}
            items += (item for item in self._items(agent, selected) if (item.home, item.name) not in known)
        return Offer(self.path, tuple(items), tuple(dict.fromkeys(self.source.left_out)))

    def gone(self, offer: Offer) -> tuple[str, ...]:
        """Return the names of items that were imported and are no longer in the real home."""
        names = {item.name for item in offer.items}
        paths = {one.path for agent in self.agents for one in agent.wanted}
        homes = (home for home in self.targets if os.path.isdir(home))
        found = {name for home in homes for name in record.read(self.context.store.path, home)}
        return tuple(sorted(name for name in found - names if name.partition("#")[0] in paths))

    def differences(self, item: Item) -> tuple[tuple[str, str, str], ...]:
        """Return name, text in the agent home and text of the copy of each file to be replaced, but secrets and large files."""
        if not item.is_opened or SECRET in item.flags or item.state != DIFFERS:
            return ()
        try:
            found = tuple(self._differences(item))
        except (OSError, documents.NotADocument):
            return ()  # it cannot be compared
        rows = ((name, *(part.decode("utf-8", "replace") for part in parts)) for name, *parts in found if _are_short(parts))
        return tuple((name, old, new) for name, old, new in rows)

    def _differences(self, item: Item) -> Iterator[tuple[str, bytes, bytes]]:
        target = self.targets[item.home]
        if item.keys:
            document = documents.parse(item.path, target.read(item.path) or b"")
            old = {key: document[key] for key in item.keys if key in document}
            yield item.name, documents.write(item.path, old), documents.write(item.path, item.values)
            return
        for path, copy in item.copies.items():
            if copy not in (ABSENT, item.results[path]):
                yield path, target.read(path) or b"", self.source.tree.read(os.fsencode(path), LARGEST_FILE) or b""

    def inside_paths(self, agent: AgentFiles, selected: tuple[str, ...] | None) -> InsidePaths:
        """Return the paths that exist in the sandbox of an agent after an import of some items, or of all."""
        spelling = self.context.environ.get("HOME", "")
        inside = InsidePaths(agent.profile, self.path, spelling, agent.home, self.context.root)
        names = (one.path for one in agent.wanted) if selected is None else selected
        inside.imported = tuple(name.partition("#")[0] for name in names)
        return inside

    def _items(self, agent: AgentFiles, selected: tuple[str, ...] | None) -> Iterator[Item]:
        inside = self.inside_paths(agent, selected)
        target = self.targets[agent.home]
        imports = record.read(self.context.store.path, agent.home) if os.path.isdir(agent.home) else {}
        for wanted in agent.wanted:
            found = self.source.find(wanted)
            for item in self._split(found, target, inside) if found is not None else ():
                before = imports.get(item.name)
                is_same = before is not None and (before.marks, before.copies) == (item.marks, item.copies)
                is_same = is_same and not item.is_opened  # the others are compared by content
                yield replace(item, copies=item.results if is_same else item.copies, imported=before)

    def _split(self, found: Found, target: TargetHome, inside: InsidePaths) -> Iterator[Item]:
        """Yield the item of a path; for settings, one item of all harmless keys and one of each other key."""
        wanted = found.wanted
        data = found.files.get(wanted.path)
        if wanted.kind in ("settings", SERVERS) and data is not None:
            try:
                document = documents.parse(wanted.path, data) if documents.is_document(wanted.path) else None
            except documents.NotADocument:
                document = None
            if document is not None:
                yield from self._split_document(found, document, target, inside)
                return
        yield _whole(found, target)

    def _split_document(self, found: Found, document: dict[str, Any], target: TargetHome, inside: InsidePaths) -> Iterator[Item]:
        wanted = found.wanted
        plain: dict[str, Any] = {}
        plain_edits: list[Edit] = []
        for key, value in document.items():
            flags = settings_rules.assess(key, value)
            translated, edits = settings_rules.translate_paths({key: value}, inside.locate)
            if not flags:
                plain |= translated
                plain_edits += edits
            elif key in translated:
                kind = settings_rules.kind_of(key, wanted.kind)
                yield replace(_keyed(found, target, document, translated), kind=kind, is_named=True, flags=flags, edits=edits)
            else:
                text = next((edit.text for edit in edits), "")
                self.source.left_out.append(LeftOut(f"{wanted.path}#{key}", f"{text} does not exist in the sandbox"))
        if plain:
            is_unchanged = plain == document and not plain_edits
            original = found.files[wanted.path] if is_unchanged else None
            yield replace(_keyed(found, target, document, plain), edits=tuple(plain_edits), original=original)


def _are_short(texts: list[bytes]) -> bool:
    return all(len(text) <= _LONGEST_TEXT for text in texts)


def _whole(found: Found, target: TargetHome) -> Item:
    """Return the item of whole files, or of keys of a file that is not opened."""
    wanted, flags = found.wanted, flags_of(found)
    if wanted.kind == "settings":
        flags = (*flags, UNCHECKED)  # it is in no known format
    closed = None in found.files.values()
    if closed:
        marks = {path: stat_mark(entry) for path, entry in found.stats.items()}
    else:
        marks = {path: digest(data) for path, data in found.files.items() if data is not None}
    is_named = wanted.keys is not None and wanted.kind != LOGIN
    item = Item(
        wanted.agent, target.path, wanted.kind, wanted.path, found.size, marks, marks, {},
        keys=wanted.keys, is_named=is_named, is_opened=not closed, flags=flags,
    )  # fmt: skip
    return replace(item, copies=target.copies(item))


def _keyed(found: Found, target: TargetHome, document: dict[str, Any], translated: dict[str, Any]) -> Item:
    """Return the item of some keys of a document, with the values that exist inside."""
    wanted, keys = found.wanted, tuple(translated)
    marks = key_digests(wanted.path, document, keys)
    results = key_digests(wanted.path, translated, keys)
    size = len(documents.write(wanted.path, translated))
    item = Item(wanted.agent, target.path, wanted.kind, wanted.path, size, marks, results, {}, keys=keys, values=translated)
    return replace(item, copies=target.copies(item))


def _find_agents(context: CommandContext, options: RunOptions, names: tuple[str, ...], home: str) -> Iterator[AgentFiles]:
    known = load.list_profile_names(home, context.environ)
    for name in names or known:
        if name not in known:
            raise UsageError(message=f"no profile {name}{validators.did_you_mean(name, known)}", hint="agent-dev profiles")
        try:
            agent_home, profile = manage.find_home(context, options, name)
        except InvalidConfiguration:
            if names:
                raise
            continue  # `agent-dev profiles` shows it
        wanted = wanted_paths(name, agent_entry(profile))
        if wanted:
            manage.check_home(agent_home, context)
            yield AgentFiles(profile, agent_home, wanted)
        elif names:
            raise UsageError(message=f"the profile {name} names nothing to import", hint="agent-dev home --import")
