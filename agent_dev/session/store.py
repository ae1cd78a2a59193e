"""Sessions on disk: `$XDG_STATE_HOME/agent-dev/sessions/<id>/`, their records and locks."""

import fcntl
import os
from binascii import crc32

from agent_dev.errors import MissingRoot, NewerState, SessionBusy, UnreadableSession, UnusableStateDirectory
from agent_dev.fs import checksummed_json, fast_json, state_files
from agent_dev.fs.rmtree import remove_tree
from agent_dev.session import session_ids
from agent_dev.session.root import Root
from agent_dev.value import Value

VERSION = 1
ARCHIVED_VERSION = 2  # of the record of an archived session: programs that read only the first version refuse it
STATE_FORMAT = 1  # of the whole state directory; an older program refuses it
DEFAULT_SIMILARITY = 50  # percent of a renamed file's content that is the same, as in git
NEWEST = 100  # newest sessions that a start reads, and that are compared per root: each needs a descriptor, often of 1,024
JOIN_SOCKET = "join"  # in a session's folder: where commands ask to join the running sandbox
ARCHIVE = "archive"  # in a session's folder: directories of a merged session (checkpoint/session_archive)
QUESTIONS = "asks"  # in a session's folder: questions to the user (session/approvals)
PUBLISHED = "published.json"  # in a session's folder: its published ports, while it runs
UNLOCKED_FILE = "opened"  # in a session's folder: the unlocked directories of its uppers (session/uppers)
RUNNING, WAITING, MERGED, DISCARDED, KILLED = "running", "waiting", "merged", "discarded", "killed"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NotRequired, TypedDict

    class GitRecord(TypedDict):
        """A root's git directory: the work tree's own, the common one, and whether that is inside the root."""

        root: int
        folder: str
        common: str
        inside: bool

    class GitFields(TypedDict):
        """The fields of a record about a session's git directories, see `Record` and `OptionalFields`."""

        git: list[GitRecord]  # one for each git directory, with the first of its roots
        stores: list[list[str]]
        large: list[list[str]]
        copies: list[int]
        bound: list[list[str]]

    class PolicyRecord(TypedDict):
        """The policy of a run: the name of the rule set, and the digest of its rules."""

        set: str
        digest: str

    class NetRecord(TypedDict):
        """The network of a session: its mode, and the rules at the start of its last run."""

        mode: str
        allow: list[str]
        deny: list[str]

    class LogRecord(TypedDict):
        """The end of a log: its lines, the chain of the last one, and the lines dropped because the log or the disk was full."""

        count: int
        chain: str
        dropped: int

    class ImportedRecord(TypedDict):
        """The origin of an imported session: the host by its own account, the signer ("": unsigned), omitted parts."""

        host: str
        signer: str
        left_out: list[str]
        task: NotRequired[str]  # the id of the task for which it was made

    class AttemptRecord(TypedDict):
        """An attempt of `tx --best`: the id of the run, its number from 1 of how many, and its result as plain values."""

        run: str
        number: int
        count: int
        command: str  # of --score
        lowest: bool
        host: str
        result: dict[str, object]

    class OptionalFields(TypedDict, total=False):
        """The fields that a record gets later or only in some cases."""

        version: int
        init: int
        life: tuple[int, int, str, str]  # of the pid namespace: pid_namespace.NamespaceIdentity
        launched: int
        resumed: int
        ended: int
        exit: int
        homes: str
        clipboard: bool  # False: the agent may not write to the clipboard of the terminal
        leaves: list[str]  # patterns of what the agent leaves in each repository, not part of its work
        large: list[list[str]]  # as `stores`: LFS objects
        copies: list[int]  # roots with a private git dir in the upper
        discarded_as: str  # the state before the session was discarded
        undone: str  # the result of rolling back a transaction that the agent left open
        bound: list[list[str]]  # private git directories of other roots, and their paths inside
        is_restore: bool  # a restore of direct mode: `.git` is the user's own, and is merged
        policy: PolicyRecord
        commands: LogRecord
        net: NetRecord
        network: LogRecord
        events: LogRecord
        rename_similarity: int  # percent of a renamed file's content that is the same
        packed: bool  # reduced to what an undo needs
        packed_copies: list[int]  # `copies` before packing
        archived: bool  # the archive has directories of the session
        imported: ImportedRecord  # of a session that came as a bundle
        attempt: AttemptRecord  # of `tx --best`, until it is resumed
        forked: bool  # a copy of a session, until its agent runs

    class Record(OptionalFields):
        """session.json. Times in ns since 1970; `stores` are pairs of (host directory, path inside)."""

        state: str
        name: str
        root: str
        roots: list[str]
        cwd: str
        git: list[GitRecord]
        stores: list[list[str]]
        profile: str
        command: list[str]
        words: list[str]
        options: dict[str, object]
        is_command: bool
        agent_home: str
        launcher: int
        started: int
        rw: list[str]

else:
    Record = LogRecord = AttemptRecord = dict

# The record of a damaged session.
BLANK: "Record" = {
    "state": "damaged",
    "name": "",
    "root": "",
    "roots": [],
    "cwd": "",
    "git": [],
    "stores": [],
    "profile": "",
    "command": [],
    "words": [],
    "options": {},
    "is_command": False,
    "agent_home": "",
    "launcher": 0,
    "started": 0,
    "rw": [],
}


class Store(Value):
    """The state directory. `empty_file` is an empty file for masks."""

    path: str

    @property
    def sessions(self) -> str:
        """The folder of the sessions."""
        return f"{self.path}/sessions"

    @property
    def merges(self) -> str:
        """The folder of journals, staged contents and replaced files."""
        return f"{self.path}/merges"

    @property
    def pending(self) -> str:
        """The folder with a mark for each unfinished merge."""
        return f"{self.path}/pending"

    @property
    def trash(self) -> str:
        """The folder of discarded sessions until their retention ends."""
        return f"{self.path}/trash"

    @property
    def removals_folder(self) -> str:
        """The folder in which removed sessions are deleted."""
        return f"{self.path}/gone"

    @property
    def format_file(self) -> str:
        """The path of the file with the format of the state directory."""
        return f"{self.path}/format"

    @property
    def empty_file(self) -> str:
        """The path of an empty file."""
        return f"{self.path}/empty"


class Session(Value):
    """A session: its folder and the descriptor of its lock (-1: not locked)."""

    id: str
    folder: str
    lock: int = -1

    def root(self, number: int, path: str) -> Root:
        """Return the paths of the overlay of one root."""
        return Root(path, f"{self.folder}/roots/{number}/upper", f"{self.folder}/roots/{number}/work")

    @property
    def lower_snapshot(self) -> str:
        """The path of the lower snapshot."""
        return f"{self.folder}/base"


def state_store(state: str, environ: dict[str, str]) -> Store:
    """Return the state directory: configured, else `$XDG_STATE_HOME/agent-dev`. Nothing is created."""
    state_home = environ.get("XDG_STATE_HOME", "")
    if not state_home.startswith("/"):
        state_home = environ.get("HOME", "") + "/.local/state"
    return Store(os.path.realpath(state or f"{state_home}/agent-dev"))


def require_known_format(store: Store) -> None:
    """Raise NewerState if a newer agent-dev has written the state directory in a format that this one does not know.

    A directory without a readable format is accepted: each of its files has a version of its own, too.
    """
    try:
        fd = os.open(store.format_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    data = os.read(fd, 32)
    os.close(fd)
    number = data.partition(b" ")[0]
    if number.isdigit() and int(number) > STATE_FORMAT and data == format_line(int(number)):
        raise NewerState(
            path=store.path,
            found=int(number),
            known=STATE_FORMAT,
            hint="upgrade agent-dev, or set `state:` in config.yaml to another directory",
        )


def format_line(number: int) -> bytes:
    """Return the content of the format file: the number and a checksum, so that damage does not look like a newer format."""
    return b"%d %08x\n" % (number, crc32(b"%d" % number))


def create_session(store: Store) -> Session:
    """Create a new, locked, empty session. Raises UnusableStateDirectory."""
    try:
        session = _create(store)
    except OSError as error:
        raise UnusableStateDirectory(
            path=store.path, reason=error.strerror, hint="set `state:` in config.yaml to another directory"
        ) from None
    return session


def _create(store: Store) -> Session:
    if not os.path.isdir(store.sessions):
        _prepare(store)
    creation_lock = lock_creation(store, fcntl.LOCK_SH)
    try:
        return _create_locked(store)
    finally:
        os.close(creation_lock)


def lock_creation(store: Store, operation: int) -> int:
    """Take the lock on the creation of sessions until the descriptor is closed: shared to create one, exclusive to prevent that.

    A new session is unlocked for an instant: only the holder of the exclusive lock knows that an unlocked one stays so.
    """
    fd = os.open(store.sessions, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, operation)
    return fd


def _create_locked(store: Store) -> Session:
    while True:
        name = session_ids.new_id(state_files.list_names(store.sessions) + state_files.list_names(store.trash))
        folder = f"{store.sessions}/{name}"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        else:
            session = Session(name, folder, _lock(folder, fcntl.LOCK_EX))  # never blocks for long: others only test the lock
            os.mkdir(f"{folder}/roots", 0o700)
            return session


def _prepare(store: Store) -> None:
    os.makedirs(store.path, 0o700, exist_ok=True)
    os.chmod(store.path, 0o700)
    for path in (store.sessions, store.merges, store.trash):
        os.makedirs(path, 0o700, exist_ok=True)
    try:
        fd = os.open(store.format_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.write(fd, format_line(STATE_FORMAT))
        os.close(fd)
    except FileExistsError:
        pass
    try:
        os.close(os.open(store.empty_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    except FileExistsError:
        pass


def _lock(folder: str, operation: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Lock a session by its directory: no lock file is needed, and the lock ends with its holder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, operation)
    return fd


def add_root(session: Session, number: int, path: str) -> Root:
    """Create upper and work directory of a root; the upper has the root's mode, attributes and ACL."""
    root = session.root(number, path)
    os.mkdir(os.path.dirname(root.upper), 0o700)
    os.mkdir(root.upper, 0o755)
    os.chmod(root.upper, os.stat(path).st_mode & 0o7777)
    _copy_attributes(path, root.upper)
    os.mkdir(root.work, 0o700)
    return root


def _copy_attributes(path: str, copy: str) -> None:
    try:
        for name in os.listxattr(path):
            if name.startswith(("user.", "system.posix_acl_")) and not name.startswith("user.overlay."):
                os.setxattr(copy, name, os.getxattr(path, name))
    except OSError:
        return  # one of the two file systems has none


def add_cache(session: Session, number: int, path: str) -> Root:
    """Create a temporary upper and work directory for a package cache."""
    upper = f"{session.folder}/caches/{number}"
    os.makedirs(upper, 0o700)
    os.mkdir(f"{upper}.work", 0o700)  # not in a directory with it: at the start, each new directory takes time
    return Root(path, upper, f"{upper}.work")


def write_record(session: Session, record: Record, *, is_durable: bool = False) -> None:
    """Replace session.json by writing a new file and renaming it.

    `is_durable`: sync it first, so that a power cut cannot lose both versions; else `sync_record` makes it durable.
    """
    data = checksummed_json.dumps({**record, "version": ARCHIVED_VERSION if record.get("archived") else VERSION})
    state_files.replace_file(f"{session.folder}/session.json", data, is_durable=is_durable)


def sync_record(session: Session) -> None:
    """Make session.json durable."""
    for path in (f"{session.folder}/session.json", session.folder):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)


def read_record(session: Session) -> Record:
    """Return session.json. Raises UnreadableSession if it is missing, damaged or of another version."""
    try:
        record = checksummed_json.loads(state_files.read_file(f"{session.folder}/session.json"))
    except (OSError, ValueError) as error:
        hint = f"agent-dev merge {session.id} --export DIR copies its files out, agent-dev discard {session.id} removes it"
        raise UnreadableSession(session=session.id, reason=f"unreadable record ({error})", hint=hint) from None
    if record.get("version") not in (VERSION, ARCHIVED_VERSION):
        hint = "use the version of agent-dev that wrote it"
        raise UnreadableSession(session=session.id, reason=f"its record has version {record.get('version')}", hint=hint)
    if not isinstance(record.get("git"), list):
        record["git"] = _git_list(record.get("git"))
    return record  # type: ignore[return-value]  # ours, by its version


def require_roots(session: Session, record: Record) -> None:
    """Raise MissingRoot if a directory in which the session ran was moved or deleted."""
    for path in record["roots"]:
        if not os.path.isdir(path):
            hint = f"move it back, or make a link: ln -s NEW_PATH {path}"
            raise MissingRoot(session=session_name(session), path=path, hint=hint)


def has_in_record(session: Session, texts: "Sequence[str]") -> bool:
    """Return whether session.json contains one of these strings: of a thousand sessions, only a few must be parsed."""
    try:
        data = state_files.read_file(f"{session.folder}/session.json")
    except OSError:
        return False
    return any(_quoted(text) in data for text in texts)


def mentioning_sessions(store: Store, name: str) -> tuple[Session, ...]:
    """Return the sessions with this id, or with this text in their records, oldest first."""
    folder, text, found = store.sessions, _quoted(name), []
    for session_id in sorted(state_files.list_names(folder)):  # of a thousand, few become values
        try:
            is_mentioned = session_id == name or text in state_files.read_file(f"{folder}/{session_id}/session.json")
        except OSError:
            continue
        if is_mentioned:
            found.append(Session(session_id, f"{folder}/{session_id}"))
    return tuple(found)


_json_texts: dict[str, bytes] = {}  # cached: each is searched in a thousand records


def _quoted(text: str) -> bytes:
    """Return a text as it is in a record, as JSON."""
    if text not in _json_texts:
        _json_texts[text] = fast_json.dumps(text)
    return _json_texts[text]


def is_merged(session: Session) -> bool:
    """Return whether all of a session is merged. False if its record is unreadable."""
    try:
        return has_in_record(session, (MERGED,)) and read_record(session)["state"] == MERGED
    except UnreadableSession:
        return False


def _git_list(git: object) -> "list[GitRecord]":
    """Return the git directories of a record from before each root could have one: none, or that of the first root."""
    return [{"root": 0, **git}] if isinstance(git, dict) else []  # type: ignore[typeddict-item]


def session_name(session: Session) -> str:
    """Return the name that the user gave a session, else its id."""
    try:
        return str(read_record(session).get("name") or session.id)
    except UnreadableSession:
        return session.id


def name_of_session(store: Store, session_id: str) -> str:
    """Return the name of a session, also of one in the trash, else its id."""
    places = (f"{folder}/{session_id}" for folder in (store.sessions, store.trash))
    return next((session_name(Session(session_id, folder)) for folder in places if os.path.isdir(folder)), session_id)


def untrusted_paths(record: Record) -> tuple[str, ...]:
    """Return the paths to which a session's agent may have written; the host runs no program there."""
    return (*record["roots"], record["agent_home"], record.get("homes", record["agent_home"]), *record.get("rw", ()))


def has_root(record: Record, path: str) -> bool:
    """Return whether a directory is one of a session's roots."""
    return path == record.get("root") or path in record.get("roots", ())


def is_direct(record: Record) -> bool:
    """Return whether a session's agent works in the real tree: it has no overlay."""
    return bool(record["options"].get("direct"))


def has_no_record(session: Session) -> bool:
    """Return whether a session has no record: it is being created, or its creator was killed."""
    return not may_have_record(session.folder) and os.path.isdir(session.folder)


def may_have_record(folder: str) -> bool:
    """Return whether the directory of a session has a record, or cannot be searched, such as one of another user."""
    try:
        os.lstat(f"{folder}/session.json")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def have_records(store: Store) -> bool:
    """Return whether `has_no_record` is false for every session; of a thousand, none becomes a value."""
    folders = (f"{store.sessions}/{name}" for name in state_files.list_names(store.sessions))
    return all(may_have_record(folder) or not os.path.isdir(folder) for folder in folders)


def all_sessions(store: Store, folder: str = "") -> tuple[Session, ...]:
    """Return all sessions, oldest first, optionally those in another `folder` such as the trash."""
    folder = folder or store.sessions
    return tuple(Session(name, f"{folder}/{name}") for name in sorted(state_files.list_names(folder)))


def is_locked(session: Session) -> bool:
    """Return whether a living process holds the session's lock."""
    try:
        os.close(_lock(session.folder))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def has_launcher(record: Record) -> bool:
    """Return whether the launcher of a session is alive.

    If it was killed, the process that takes the lower snapshot may still hold the lock.
    """
    try:
        os.kill(record["launcher"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's process
    return True


def lock_session(session: Session) -> Session:
    """Lock a session and return it. Raises SessionBusy: its agent is running, or another agent-dev uses it."""
    try:
        return session.replace(lock=_lock(session.folder))
    except BlockingIOError:
        state, hint = "open in another agent-dev", "quit the screen or pager that shows it, or try again"
        name = session_name(session)
        if _is_running(session):
            state, hint = "still running", f"agent-dev stop {name}"
        raise SessionBusy(session=name, what=state, hint=hint) from None


def _is_running(session: Session) -> bool:
    try:
        return read_record(session).get("state") == RUNNING
    except UnreadableSession:
        return True  # it is just starting


def unlock_session(session: Session) -> None:
    """Release the lock."""
    if session.lock >= 0:
        os.close(session.lock)


def make_uppers_accessible(session: Session, count: int) -> None:
    """Make the uppers accessible again: the agent may have denied access to a root, and so to its upper."""
    for number in range(count):
        upper = session.root(number, "").upper
        mode = os.stat(upper).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            os.chmod(upper, mode | 0o700)


def recreate_work(session: Session, number: int) -> None:
    """Create a new work directory for a session that is resumed: the state of the old one is unknown."""
    work = f"{session.folder}/roots/{number}/work"
    remove_tree(work)
    os.mkdir(work, 0o700)
