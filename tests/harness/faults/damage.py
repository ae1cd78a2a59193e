"""Damaged state of agent-dev: a world with sessions of every kind, and commands run in throw-away views of it.

Each damage is tried in an overlay over the whole world, mounted in a child's own namespaces: the world stays unchanged, with
inodes and times, and the commands may merge, undo and discard.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store, rollback
from agent_dev.cli import main
from agent_dev.linux import syscalls
from agent_dev.merge import pack
from agent_dev.session import sessions, store
from tests.harness.faults import planted_files
from tests.harness.program import AgentDev, tree, wait_until
from tests.harness.users import make_dumpable

PATIENCE = 60  # seconds for one command on damaged state, then SIGALRM
CODES = frozenset((0, 1, 2, 125))
SEQ = "".join(f"{number}\n" for number in range(1, 41))


@dataclass(frozen=True)
class DamagedWorld:
    """Two repositories of a user: `shop` with waiting, partly merged, merged and discarded sessions; `other` with one waiting."""

    folder: Path
    user: AgentDev
    other: AgentDev

    @property
    def state(self) -> Path:
        return self.folder / "state" / "agent-dev"

    @property
    def cache(self) -> Path:
        return self.folder / "cache" / "agent-dev"

    def files(self) -> list[Path]:
        """Return agent-dev's own files, except the agents' upper layers and everything of `other`.

        The user's files that a merge replaced are left out, too: a program may still write to one in its slot, and an undo
        restores that. Of content-addressed files one per directory is enough.
        """
        theirs = {row["session"] for row in self.other.sessions()}
        places = (self.state, self.cache, self.folder / "config" / "agent-dev")
        found = [path for place in places for path in sorted(place.rglob("*")) if _is_plain(path)]
        others = {"upper", "work", "stage-0", "stage-1", "aside-0", "tree", *theirs}
        own = [path for path in found if not others & set(path.parts) and ("rounds" not in path.parts or path.suffix == ".json")]
        return list({path.parent if _is_named_for_content(path) else path: path for path in own}.values())


def _is_named_for_content(path: Path) -> bool:
    folder = path.parent.parent if len(path.parent.name) == 2 else path.parent
    return folder.name in ("objects", "content") or folder.parent.name == "objects"


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size > 0


def make_world(folder: Path) -> DamagedWorld:
    """Create the world by real runs."""
    home = folder / "home"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.invalid\n[gc]\n\tauto = 0\n")
    user, other = (_repository(home, name) for name in ("shop", "other"))
    _run(other, "echo theirs >>a")
    _run(user, "echo merged >>a")
    _succeed(user("merge", "--all"))
    _succeed(user("run", "--direct", "--", "sh", "-c", "echo direct >z"))
    _run(user, "echo discarded >>b")
    _succeed(user("discard"))
    _run(user, "echo archived >e; git add e; git commit -qm archived")
    _succeed(user("merge", "--commits", "--include-risky"))
    _archive(user)
    (user.repo / "mine").write_text("untracked\n")
    (user.repo / "c").write_text(SEQ + "uncommitted\n")
    _run(
        user,
        "sed -i 2d a; sed -i '30s/$/ x/' a; echo new >new; git add -A; git commit -qm one; echo more >>c; rm d/x; echo y >d/y",
    )
    session = user.sessions()[-1]["session"]
    _succeed(user("checkpoint", session))
    _succeed(user("merge", session, "--take", "a", "--take", "d/y"))
    _run(user, "sed -i 1d b; chmod 755 b; sleep 0.1")  # a run that ends within 20 ms writes no index of the home
    user("doctor")
    _succeed(user("merges", "--all"))
    world = DamagedWorld(folder, user, other)
    _plant(world, session)
    return world


def _archive(user: AgentDev) -> None:
    """Archive the newest session, which is merged."""
    folder = max((user.state / "sessions").iterdir())
    session = store.lock_session(store.Session(folder.name, str(folder)))
    assert pack._thin(session)
    store.unlock_session(session)


def _plant(world: DamagedWorld, name: str) -> None:
    """Plant files that only killed programs and rarer commands leave behind, in the session and next to it."""
    state, environ = store.Store(str(world.state)), world.user.environment()
    held = store.Session(name, f"{state.sessions}/{name}")
    for write in planted_files.IN_A_SESSION:
        write(held.folder)
    context = sessions.CommandContext(state, str(world.user.repo), str(world.user.repo), environ)
    planted_files.write_draft(environ, sessions.find_session(context, name))
    planted_files.write_connections(held)
    [snapshot] = world.state.glob("snapshots/*")
    planted_files.write_unlocked(held, f"{state.merges}/{max(os.listdir(state.merges))}", str(snapshot))
    planted_files.write_import_record(str(world.state), f"{world.user.home}/aihome")
    planted_files.write_remembered(str(world.folder / "config" / "agent-dev"))
    planted_files.write_certificates(str(world.cache))
    # A background process writes the first one after a run, and a second one only if it has time.
    for index in wait_until(lambda: [*world.state.glob("homes/*.last")], "an index of the home"):
        shutil.copy(index, index.with_suffix(".before"))
    last = store.Session(now := world.user.sessions()[-1]["session"], f"{state.sessions}/{now}")
    rollback._mark_pending(last, checkpoint_store.list_checkpoints(last)[-1].number, ())


def _repository(home: Path, name: str) -> AgentDev:
    repo = home / name
    (repo / "d").mkdir(parents=True)
    user = AgentDev(home, repo)
    user.git("init", "-q")
    for path in ("a", "b", "c", "d/x"):
        (repo / path).write_text(SEQ)
    user.git("add", ".")
    user.git("commit", "-qm", "first")
    return user


def _run(user: AgentDev, script: str) -> None:
    _succeed(user("--no-merge", "--", "sh", "-c", script))


def _succeed(done: object) -> None:
    assert getattr(done, "returncode", 1) == 0, done


def damages(data: bytes, flips: int, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies with descriptions: truncated at each tenth (or empty), zeroed, and with some bits flipped."""
    for tenth in range(10):
        yield f"cut at {tenth * 10} %", data[: len(data) * tenth // 10]
    yield "of zeros", bytes(len(data))
    for _ in range(flips):
        at, mask = chance.randrange(len(data)), chance.choice((1, 2, 4, 0x20, 0x80, 0xFF))
        yield f"byte {at} ^ {mask:#x}", data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]


@dataclass(frozen=True)
class CommandOutput:
    """The arguments, exit status and output of one command."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str


def run_in_view(world: DamagedWorld, act: Callable[[], object]) -> str:
    """Run something in a child that sees the world through its own overlay; return the failure, or ""."""
    with tempfile.TemporaryDirectory(dir=world.folder.parent, prefix="view-") as place:
        report = Path(place, "report")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _enter(world.folder, place)
                act()
                code = 0
            except BaseException:  # noqa: BLE001  (reported to the parent, which raises)
                report.write_text(traceback.format_exc())
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        why = report.read_text() if report.exists() else ""
        for name in os.listdir(f"{place}/work"):
            os.chmod(f"{place}/work/{name}", 0o700)
        return why or ("" if status == 0 else f"wait status {status:#x}")


def _enter(folder: Path, place: str) -> None:
    """Mount the view. Only root's view supports renames of directories, which `discard` needs."""
    uid, gid = os.getuid(), os.getgid()
    os.mkdir(f"{place}/upper")
    os.mkdir(f"{place}/work")
    layers = f"lowerdir={folder},upperdir={place}/upper,workdir={place}/work"
    if uid == 0:
        syscalls.unshare(syscalls.NEWNS)
        syscalls.mount(None, "/", None, syscalls.SLAVE | syscalls.REC)
        syscalls.mount("overlay", str(folder), "overlay", 0, f"{layers},redirect_dir=on")
        return
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    syscalls.mount("overlay", str(folder), "overlay", 0, f"{layers},userxattr")


def run_command(user: AgentDev, *words: str) -> CommandOutput:
    """Run `agent-dev WORDS` in a fork of this process, which has imported it: twenty times as fast as a start."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _be(user, words, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
        code = os.waitstatus_to_exitcode(status)
        return CommandOutput(words, code, *texts)


def become_user(owner: tuple[int, int]) -> None:
    """Become a user permanently, as root."""
    uid, gid = owner
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    make_dumpable()


def _be(user: AgentDev, words: Sequence[str], out: int, err: int) -> None:
    try:
        owner = user.repo.stat()
        if owner.st_uid != os.getuid():
            become_user((owner.st_uid, owner.st_gid))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(user.environment())
        os.chdir(user.repo)
        sys.argv = ["agent-dev", *words]
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        main.main()
    except BaseException:  # noqa: BLE001  (as the interpreter would)
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)


def trees(world: DamagedWorld) -> dict[str, str]:
    """Return the content of the user's repositories, without git's own files."""
    found: dict[str, str] = {}
    for user in (world.user, world.other):
        found |= {f"{user.repo.name}/{path}": what for path, what in tree(user.repo).items() if not path.startswith(".git")}
    return found
