"""Copy selected items to their agent homes. Files with logins are opened only here."""

import errno
import os
from collections.abc import Iterable, Sequence

from agent_dev.home.importing import documents, record, settings_rules
from agent_dev.home.importing.find_items import Importer
from agent_dev.home.importing.items import LOGIN, SAME, Item, LeftOut
from agent_dev.home.importing.source import CHANGED, LARGEST_FILE, digest
from agent_dev.home.importing.target import Changed
from agent_dev.quick_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class CopiedItems:
    """The items that were copied, with the edits of their copies, and the paths that were not, with the reasons."""

    copied: tuple[Item, ...]
    failed: tuple[LeftOut, ...]


def copy_items(importer: Importer, items: Sequence[Item]) -> CopiedItems:
    """Copy items as they were listed; a file that has changed since is not copied."""
    names = tuple(item.name for item in items)
    copied: list[Item] = []
    failed: list[LeftOut] = []
    for item in items:
        count = len(failed)
        for path in _files(item):
            try:
                item = _copy(importer, item, path, names)  # noqa: PLW2901  (with what was found out)
            except (OSError, Changed, documents.NotADocument) as error:
                failed.append(LeftOut(path, _describe(error)))
        if len(failed) == count:
            copied.append(item)
            target = importer.targets[item.home]
            record.add(importer.context.store.path, item.home, item.name, item.marks, target.copies(item))
    return CopiedItems(tuple(copied), tuple(failed))


def _files(item: Item) -> Iterable[str]:
    """Return the files of an item that differ from those in the agent home."""
    if item.state == SAME:
        return ()
    return (item.path,) if item.keys else [path for path, mark in item.marks.items() if item.copies[path] != mark]


def _copy(importer: Importer, item: Item, path: str, names: tuple[str, ...]) -> Item:
    """Copy one file; return the item with the edits of its copy. Raises OSError, Changed or NotADocument."""
    target = importer.targets[item.home]
    part = item if item.keys else replace(item, marks={path: item.marks[path]}, copies={path: item.copies[path]})
    if target.copies(part) != part.copies:
        raise Changed(path)
    before = target.read(path)
    data = _read(importer, item, path)
    if item.keys and data is not None:
        item = _with_values(importer, item, data, names)
    content = _merge(item, before) if item.keys else data or b""
    target.write(path, content, before, is_program=importer.source.is_program(path))
    return item


def _read(importer: Importer, item: Item, path: str) -> bytes | None:
    """Return the content of a file as it was listed; None for settings, of which the item has the values. Raises OSError."""
    if not item.is_opened:
        return importer.source.read_login(path, item.marks[path])
    if item.keys:
        return None
    data = importer.source.tree.read(os.fsencode(path), LARGEST_FILE)
    if data is None or digest(data) != item.marks[path]:
        raise OSError(errno.ESTALE, CHANGED)
    return data


def _with_values(importer: Importer, item: Item, data: bytes, names: tuple[str, ...]) -> Item:
    """Return an item with its values from a file with a login, which was not opened before."""
    document = documents.parse(item.path, data)
    values = {key: document[key] for key in item.keys or () if key in document}
    if item.kind == LOGIN:
        return replace(item, values=values)
    agent = next(agent for agent in importer.agents if agent.profile.name == item.agent)
    translated, edits = settings_rules.translate_paths(values, importer.inside_paths(agent, names).locate)
    return replace(item, values=translated, edits=edits)


def _merge(item: Item, before: bytes | None) -> bytes:
    """Return the settings file of the agent home with the item's values."""
    if before is None and item.original is not None:
        return item.original
    return documents.write(item.path, documents.parse(item.path, before or b"") | item.values)


def _describe(error: Exception) -> str:
    match error:
        case Changed():
            return "the file in the agent home changed since it was listed"
        case documents.NotADocument():
            return "the file, or that in the agent home, is not in the format of its name"
        case OSError(errno=errno.ENOTDIR | errno.ELOOP):
            return "in the agent home, it is below a link or a file"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
