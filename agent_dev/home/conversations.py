"""Find the conversation that an agent continues, in its home. It can write there: no link is followed, reading is bounded."""

import os
import stat
from itertools import islice

from agent_dev.config.profile import Settings
from agent_dev.fs import fast_json
from agent_dev.linux import syscalls

PLACEHOLDER = "{conversation}"
_FIRST = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_OTHERS = _FIRST | frozenset("_-.")
_LONGEST_ID = 128
_MOST_ENTRIES = 10_000  # of all directories
_MOST_READ = 10_000  # documents of all files
_LARGEST = 1 << 18  # bytes of a document
_STATUS = os.O_PATH | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_LINES = ".jsonl"
_SUBAGENT = "subagent"  # the kind of a conversation with a sub-agent of Grok
_WORDS = ("resume", "fork", "task_resume")
_NOT_INTERACTIVE = "{} continues its conversation only at a terminal and without a prompt: this is a new one"
_NOT_FOUND = "no conversation of {} in {} was found: this is a new one"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def with_conversation(settings: Settings, home: str, cwd: str, *, is_interactive: bool) -> tuple[Settings, tuple[str, ...]]:
    """Return settings whose `resume` words name the newest conversation, and are missing if it cannot continue; then why.

    `is_interactive`: the agent has a terminal and gets no prompt.
    """
    name, agent = settings.profile.name, dict(settings.profile.agent)
    if not agent.get("resume"):
        return settings, ()  # the caller says that there is no known way
    if agent.get("resume_interactive") and not is_interactive:
        return _replaced(settings, {"resume": ()}), (_NOT_INTERACTIVE.format(name),)
    if not any(PLACEHOLDER in word for key in _WORDS for word in agent.get(key, ())):
        return settings, ()
    one = newest_conversation(home, str(agent.get("conversations", "")), cwd)
    if not one:
        return _replaced(settings, {"resume": ()}), (_NOT_FOUND.format(name, cwd),)
    return _replaced(settings, {key: tuple(word.replace(PLACEHOLDER, one) for word in agent.get(key, ())) for key in _WORDS}), ()


def _replaced(settings: Settings, words: dict[str, tuple[str, ...]]) -> Settings:
    profile = settings.profile
    return settings.replace(profile=profile.replace(agent=tuple({**dict(profile.agent), **words}.items())))


def newest_conversation(home: str, place: str, cwd: str) -> str:
    """Return the id of the conversation in a directory whose file was changed last; "" if there is none.

    `place`: `PATH#KEY`, a file of each conversation, relative to the home: JSON, or JSON lines if its name ends in `.jsonl`.
    `{conversation}` in the path stands for the id, which is first in a name of one directory; before it, one directory may be
    `*`. KEY (`info.cwd`: in an object) has the directory where the conversation takes place.
    """
    path, _, key = place.partition("#")
    before, placeholder, after = path.partition(PLACEHOLDER)
    if not placeholder:
        return ""
    folder, _, prefix = before.rpartition("/")
    suffix, slash, rest = after.partition("/")
    try:
        fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = []
        for parent, name in islice(_entries(fd, folder or "."), _MOST_ENTRIES):
            if one := _id(name, prefix, suffix):
                file = f"{parent}/{name}{slash}{rest.replace(PLACEHOLDER, one)}"
                found.append((_changed(fd, file), one, file))
        newest = sorted((row for row in found if row[0]), reverse=True)
        read = islice(_directories(fd, newest, key.split(".")), _MOST_READ)
        return next((one for one, directory in read if directory == cwd), "")
    finally:
        os.close(fd)


def _entries(home: int, folder: str) -> "Iterator[tuple[str, str]]":
    """Yield the directory and the name of each entry of a directory, or of all that a `*` stands for."""
    above, star, below = folder.partition("*")
    for parent in (f"{above}{name}{below}" for name in _names(home, above or ".")) if star else (folder,):
        for name in _names(home, parent):
            yield parent, name


def _names(home: int, folder: str) -> list[str]:
    try:
        fd = syscalls.open_below(home, os.fsencode(folder), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []  # no conversation yet, or a link
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    finally:
        os.close(fd)


def _id(name: str, prefix: str, suffix: str) -> str:
    """Return the id in a name; "" if there is none. It becomes a word of a command: only a plain one is returned."""
    one = name[len(prefix) : len(name) - len(suffix)]
    is_plain = 0 < len(one) <= _LONGEST_ID and one[0] in _FIRST and _OTHERS.issuperset(one)
    return one if is_plain and name == f"{prefix}{one}{suffix}" else ""


def _changed(home: int, file: str) -> int:
    """Return when a regular file was changed, in nanoseconds; 0 for anything else."""
    try:
        opened = syscalls.open_below(home, os.fsencode(file), _STATUS)
    except OSError:
        return 0
    try:
        status = os.fstat(opened)
        return status.st_mtime_ns if stat.S_ISREG(status.st_mode) else 0
    finally:
        os.close(opened)


def _directories(home: int, rows: list[tuple[int, str, str]], keys: list[str]) -> "Iterator[tuple[str, str]]":
    """Yield the id and the directory of each file, after the id and "" for each of its lines that names none."""
    for _, one, file in rows:
        for data in _pieces(home, file):
            directory = _directory(data, keys, of=one if file.endswith(_LINES) else "")
            yield one, directory
            if directory:
                break


def _pieces(home: int, file: str) -> "Iterator[bytes]":
    """Yield the start of a file, or each of its lines; what is too long is no JSON then."""
    try:
        fd = syscalls.open_below(home, os.fsencode(file), _READ)
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # it was replaced since
            os.close(fd)
            return
        with os.fdopen(fd, "rb") as stream:
            if file.endswith(_LINES):
                yield from iter(lambda: stream.readline(_LARGEST), b"")
            else:
                yield stream.read(_LARGEST)
    except OSError:
        return


def _directory(data: bytes, keys: list[str], *, of: str) -> str:
    """Return the directory that an object names; "" if it names none. `of`: the id that it must name, too."""
    try:
        value: Any = fast_json.loads(data)
    except ValueError:
        return ""
    if not isinstance(value, dict) or _SUBAGENT in value.values() or (of and of not in value.values()):
        return ""  # a sub-agent's lines name the conversation of its caller
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return os.path.normpath(value) if isinstance(value, str) and value.startswith("/") else ""
