"""Find the conversation that an agent continues, in its home. It can write there: no link is followed, reading is bounded."""

import os
import stat
from itertools import islice

from agent_dev.config.profile import Settings
from agent_dev.fs import dir_tree, fast_json
from agent_dev.linux import syscalls
from agent_dev.paths import is_below

PLACEHOLDER = "{conversation}"
_FIRST = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_OTHERS = _FIRST | frozenset("_-.")
_LONGEST_ID = 128
_MOST_ENTRIES = 10_000  # of the directory
_MOST_READ = 1_000  # files
_LARGEST_FILE = 1 << 20  # bytes
_STATUS = os.O_PATH | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WORDS = ("resume", "fork", "task_resume")
_NOT_INTERACTIVE = "{} continues its conversation only at a terminal and without a prompt: this is a new one"
_NOT_FOUND = "no conversation of {} in {} was found: this is a new one"


def with_conversation(settings: Settings, home: str, root: str, *, is_interactive: bool) -> tuple[Settings, tuple[str, ...]]:
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
    one = newest_conversation(home, str(agent.get("conversations", "")), root)
    if not one:
        return _replaced(settings, {"resume": ()}), (_NOT_FOUND.format(name, root),)
    return _replaced(settings, {key: tuple(word.replace(PLACEHOLDER, one) for word in agent.get(key, ())) for key in _WORDS}), ()


def _replaced(settings: Settings, words: dict[str, tuple[str, ...]]) -> Settings:
    profile = settings.profile
    return settings.replace(profile=profile.replace(agent=tuple({**dict(profile.agent), **words}.items())))


def newest_conversation(home: str, place: str, root: str) -> str:
    """Return the id of the conversation in or below `root` whose file was changed last; "" if there is none.

    `place`: `PATH#KEY`, a JSON file of each conversation, relative to the home. `{conversation}` in the path stands for the id,
    which is first in a name of one directory. KEY has the directory where the conversation takes place.
    """
    path, _, key = place.partition("#")
    before, placeholder, after = path.partition(PLACEHOLDER)
    if not placeholder:
        return ""
    folder, _, prefix = before.rpartition("/")
    suffix, slash, rest = after.partition("/")
    try:
        fd = _open_directory(home, folder)
    except OSError:
        return ""  # no conversation yet, or a link
    try:
        found = []
        for one in _ids(fd, prefix, suffix):
            file = f"{prefix}{one}{suffix}{slash}{rest.replace(PLACEHOLDER, one)}"
            found.append((_changed(fd, file), one, file))
        newest = sorted((row for row in found if row[0]), reverse=True)[:_MOST_READ]
        return next((one for _, one, file in newest if is_below(_directory(fd, file, key), root)), "")
    finally:
        os.close(fd)


def _open_directory(home: str, folder: str) -> int:
    home_fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return syscalls.open_below(home_fd, os.fsencode(folder or "."), os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(home_fd)


def _ids(fd: int, prefix: str, suffix: str) -> list[str]:
    """Return the ids in the names of a directory. They become words of a command: only plain ones are."""
    with os.scandir(fd) as entries:
        names = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    ends = (prefix, suffix)
    ids = (name[len(prefix) : len(name) - len(suffix)] for name in names if name.startswith(ends[0]) and name.endswith(ends[1]))
    return [one for one in ids if 0 < len(one) <= _LONGEST_ID and one[0] in _FIRST and _OTHERS.issuperset(one)]


def _changed(fd: int, file: str) -> int:
    """Return when a regular file was changed, in nanoseconds; 0 for anything else."""
    try:
        opened = syscalls.open_below(fd, os.fsencode(file), _STATUS)
    except OSError:
        return 0
    try:
        status = os.fstat(opened)
        return status.st_mtime_ns if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_FILE else 0
    finally:
        os.close(opened)


def _directory(fd: int, file: str, key: str) -> str:
    """Return the directory that a conversation's file names; "" if it names none."""
    try:
        opened = syscalls.open_below(fd, os.fsencode(file), _READ)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        data = dir_tree.read_all(opened, max_size=_LARGEST_FILE)
        document = fast_json.loads(data)
    except (OSError, ValueError):
        return ""
    finally:
        os.close(opened)
    value = document.get(key) if isinstance(document, dict) else ""
    return os.path.normpath(value) if isinstance(value, str) and value.startswith("/") else ""
