"""Sessions on disk: `$XDG_STATE_HOME/agent-dev/sessions/<id>/`, their locks and their ends."""

import fcntl
import os
import time

from agent_dev.errors import SessionBusy, StateUnusable, UnreadableSession
from agent_dev.fs import fast_json as quick_json
from agent_dev.fs.rmtree import remove_tree
from agent_dev.sandbox.plan import Root
from agent_dev.value import Value

VERSION = 1
RUNNING, WAITING, MERGED, DISCARDED, KILLED = "running", "waiting", "merged", "discarded", "killed"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class GitRecord(TypedDict):
        """Where the user's git dir is: the work tree's own, the one it shares, and whether that lies in the root."""

        folder: str
        common: str
        inside: bool

    class PolicyRecord(TypedDict):
        """Which commands could run: the set of rules, and the digest of what they said."""

        set: str
        digest: str

    class LogRecord(TypedDict):
        """Where commands.jsonl ended: its lines, the last one's chain, and what was left out when it was full."""

        count: int
        chain: str
        dropped: int

    class Later(TypedDict, total=False):
        """What a record has only from some moment on."""

        version: int
        init: int
        life: tuple[int, int, str, str]  # of the pid namespace: leftovers.Life
        launched: int
        resumed: int
        ended: int
        exit: int
        homes: str
        large: list[list[str]]  # as `stores`: LFS objects
        copies: list[int]  # roots with a private git dir in the upper
        undone: str  # what became of a transaction that the agent left open
        bound: list[list[str]]  # other roots' private git dirs, and where they are shown
        policy: PolicyRecord
        commands: LogRecord
        events: LogRecord

    class Record(Later):
        """session.json. Times in ns since 1970; `stores` are pairs of (host directory, where it is shown inside)."""

        state: str
        name: str
        root: str
        roots: list[str]
        cwd: str
        git: GitRecord | None
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
    Record = LogRecord = dict

# Stands for a record that cannot be read.
BLANK: "Record" = {
    "state": "unreadable",
    "name": "",
    "root": "",
    "roots": [],
    "cwd": "",
    "git": None,
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
    """The state directory. `empty` is an empty file for masks."""

    path: str

    @property
    def sessions(self) -> str:
        """Where sessions lie."""
        return f"{self.path}/sessions"

    @property
    def merges(self) -> str:
        """Where journals, staged content and what was replaced lie."""
        return f"{self.path}/merges"

    @property
    def pending(self) -> str:
        """Where merges that have begun and are not at rest leave a mark."""
        return f"{self.path}/pending"

    @property
    def trash(self) -> str:
        """Where discarded sessions lie until their retention ends."""
        return f"{self.path}/trash"

    @property
    def gone(self) -> str:
        """Where sessions that changed nothing are taken apart."""
        return f"{self.path}/gone"

    @property
    def empty(self) -> str:
        """Return the path of an empty file."""
        return f"{self.path}/empty"


class Session(Value):
    """An open session: its folder and the descriptor that holds its lock (-1: looked at, not held)."""

    id: str
    folder: str
    lock: int = -1

    def root(self, number: int, path: str) -> Root:
        """Return the paths of the overlay of one root."""
        return Root(path, f"{self.folder}/roots/{number}/upper", f"{self.folder}/roots/{number}/work")

    @property
    def base(self) -> str:
        """Where the base snapshot lies."""
        return f"{self.folder}/base"


def place(state: str, environ: dict[str, str]) -> Store:
    """Return the state directory: configured, else `$XDG_STATE_HOME/agent-dev`. Nothing is created."""
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        base = environ.get("HOME", "") + "/.local/state"
    return Store(os.path.realpath(state or f"{base}/agent-dev"))


def create(store: Store) -> Session:
    """Make a new, locked, empty session. Raises StateUnusable."""
    try:
        session = _create(store)
    except OSError as error:
        raise StateUnusable(path=store.path, reason=error.strerror, hint="set `state:` in config.yaml to another place") from None
    return session


def _create(store: Store) -> Session:
    if not os.path.isdir(store.sessions):
        _prepare(store)
    births = lock_births(store, fcntl.LOCK_SH)
    try:
        return _created(store)
    finally:
        os.close(births)


def lock_births(store: Store, how: int) -> int:
    """Lock the making of sessions (shared) or keep all from being made (exclusive); closing the descriptor ends it.

    A session has no lock of its own for an instant: whoever holds this alone knows that one without a holder has none for good.
    """
    fd = os.open(store.sessions, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, how)
    return fd


def _created(store: Store) -> Session:
    while True:
        now = time.time_ns()
        stamp = time.strftime("%y%m%d-%H%M%S", time.gmtime(now // 10**9))
        name = f"{stamp}-{now // 10**6 % 1000:03d}{os.urandom(1).hex()[0]}"
        folder = f"{store.sessions}/{name}"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        else:
            session = Session(name, folder, _locked(folder, fcntl.LOCK_EX))  # at once: others only look whether it is held
            os.mkdir(f"{folder}/roots", 0o700)
            return session


def _prepare(store: Store) -> None:
    os.makedirs(store.path, 0o700, exist_ok=True)
    os.chmod(store.path, 0o700)
    for path in (store.sessions, store.merges, store.trash):
        os.makedirs(path, 0o700, exist_ok=True)
    try:
        os.close(os.open(store.empty, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    except FileExistsError:
        pass


def _locked(folder: str, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Lock a session by its directory: no file to make, and the lock ends with its holder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, how)
    return fd


def add_root(session: Session, number: int, path: str) -> Root:
    """Make upper and work for a root; the upper's own mode, attributes and access list are the root's."""
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
    """Make a throw-away upper and work for a package cache."""
    folder = f"{session.folder}/caches/{number}"
    os.makedirs(f"{folder}/upper", 0o700)
    os.mkdir(f"{folder}/work", 0o700)
    return Root(path, f"{folder}/upper", f"{folder}/work")


def write(session: Session, record: Record, *, is_durable: bool = False) -> None:
    """Replace session.json by temp and rename; `settle` makes it durable.

    `is_durable`: its bytes are, before they take the place of the older ones, which a power cut would lose else.
    """
    temp = f"{session.folder}/session.json.new"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, quick_json.dumps({**record, "version": VERSION}))
    if is_durable:
        os.fsync(fd)
    os.close(fd)
    os.rename(temp, f"{session.folder}/session.json")


def settle(session: Session) -> None:
    """Make session.json durable."""
    for path in (f"{session.folder}/session.json", session.folder):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)


def read(session: Session) -> Record:
    """Return session.json. Raises UnreadableSession for one that is missing, torn or of another version."""
    try:
        with open(f"{session.folder}/session.json", "rb", 0) as file:
            record = quick_json.loads(file.read())
    except (OSError, ValueError) as error:
        raise UnreadableSession(session=session.id, reason=f"its record cannot be read ({error})") from None
    if not isinstance(record, dict) or record.get("version") != VERSION:
        found = record.get("version") if isinstance(record, dict) else None
        hint = "another version of agent-dev made it; use that one"
        raise UnreadableSession(session=session.id, reason=f"its record has version {found}", hint=hint)
    return record  # type: ignore[return-value]  # ours, by its version


def untrusted(record: Record) -> tuple[str, ...]:
    """Return the places that a session's agent may have written, from which the host takes no program."""
    return (*record["roots"], record["agent_home"], record.get("homes", record["agent_home"]), *record.get("rw", ()))


def is_unborn(session: Session) -> bool:
    """Whether it has no record: it is just being made, or whoever made it was killed."""
    return os.path.isdir(session.folder) and not os.path.lexists(f"{session.folder}/session.json")


def all_sessions(store: Store) -> tuple[Session, ...]:
    """Return every session, oldest first."""
    try:
        names = sorted(os.listdir(store.sessions))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(Session(name, f"{store.sessions}/{name}") for name in names)


def is_held(session: Session) -> bool:
    """Whether a living process holds the session's lock."""
    try:
        os.close(_locked(session.folder))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def is_led(record: Record) -> bool:
    """Whether the launcher of a session is there. When it was killed, what took its base may hold the lock a while longer."""
    try:
        os.kill(record["launcher"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def hold(session: Session) -> Session:
    """Return the session with its lock held. Raises SessionBusy: its agent is running, or another agent-dev is at it."""
    try:
        return session.but(lock=_locked(session.folder))
    except BlockingIOError:
        what, hint = "open in another agent-dev", "leave the screen or the pager that shows it, or try again"
        if _is_running(session):
            what, hint = "still running", f"agent-dev stop {session.id}"
        raise SessionBusy(session=session.id, what=what, hint=hint) from None


def _is_running(session: Session) -> bool:
    try:
        return read(session).get("state") == RUNNING
    except UnreadableSession:
        return True  # it is just beginning


def let_go(session: Session) -> None:
    """Give the lock up."""
    if session.lock >= 0:
        os.close(session.lock)


def reopen(session: Session, count: int) -> None:
    """Let us into the uppers again: the mode of an upper's root is the agent's `chmod` on the root itself."""
    for number in range(count):
        upper = session.root(number, "").upper
        mode = os.stat(upper).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            os.chmod(upper, mode | 0o700)


def renew_work(session: Session, number: int) -> None:
    """Make a fresh work directory for a session that is resumed: an old one's state is unknown."""
    work = f"{session.folder}/roots/{number}/work"
    remove_tree(work)
    os.mkdir(work, 0o700)
