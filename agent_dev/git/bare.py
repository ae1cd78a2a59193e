"""Git run in bare repositories of our own, of which nothing but objects comes from anybody else (decision 0017).

No configuration, hook, attribute, graft, replacement or promise of the agent's is there to be heeded.
"""

import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from agent_dev import trace as debug
from agent_dev.commits.agent_git import refs
from agent_dev.errors import CommandFailed
from agent_dev.git import repository as repo
from agent_dev.session import removal as ended
from agent_dev.session import store

SECONDS = 20
_LARGEST_OBJECT = 1 << 30
_LARGEST_ANSWER = 1 << 30
_PIPE = 1 << 20  # bytes that git can say before anybody listens
_HEX = frozenset("0123456789abcdef")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PACK_ENDS = (".pack", ".idx")


@dataclass(frozen=True, slots=True)
class Bare:
    """One such repository, and the git that works in it."""

    path: str
    program: str
    is_sha256: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def zero(self) -> str:
        """The id of nothing."""
        return "0" * (64 if self.is_sha256 else 40)

    def ask(self, *words: str, question: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Return what git says. Raises CommandFailed when it fails or takes too long."""
        code, said, why = self.run(*words, question=question, env=env)
        if code:
            raise CommandFailed(program=f"git {_verb(words)}", reason=why)
        return said

    def run(self, *words: str, question: bytes = b"", env: Mapping[str, str] | None = None) -> tuple[int, bytes, str]:
        """Return git's exit code, what it says, and the last line of why it failed. Raises CommandFailed for no answer."""
        with self.started(*words, question=question, env=env) as answer:
            return answer()

    @contextmanager
    def started(
        self,
        *words: str,
        question: bytes = b"",
        env: Mapping[str, str] | None = None,
        most: int = _LARGEST_ANSWER,
    ) -> Iterator[Callable[[], tuple[int, bytes, str]]]:
        """Have git at work, and what waits for its answer of at most so many bytes, as `run` returns it."""
        argv = ("git", "--git-dir", self.path, *repo.SAFE, *words)
        debug.show(argv)
        every = repo.environment(dict(self.environ)) | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
        }
        with _memory(question) as source, _memory(b"") as errors:
            git = subprocess.Popen(
                argv,
                executable=self.program,
                env=every | dict(env or {}),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
            )
            _widen(git)

            def answer() -> tuple[int, bytes, str]:
                try:
                    said = _all(git, time.monotonic() + SECONDS, most)
                except TimeoutError:
                    reason = f"no answer in {SECONDS} s; the session's objects are not as git makes them"
                    raise CommandFailed(program=f"git {_verb(words)}", reason=reason) from None
                return git.returncode, said, repo.last_line(os.pread(errors, 1 << 16, 0))

            try:
                yield answer
            finally:
                _end(git)


def _widen(git: "subprocess.Popen[bytes]") -> None:
    if git.stdout is not None:
        with suppress(OSError):  # more than this user may have of pipes
            fcntl.fcntl(git.stdout, fcntl.F_SETPIPE_SZ, _PIPE)


def _verb(words: tuple[str, ...]) -> str:
    """Return which of git's programs is meant: the word behind its options."""
    rest = list(words)
    while rest[0] == "-c":
        rest = rest[2:]
    return rest[0]


@contextmanager
def _memory(data: bytes) -> Iterator[int]:
    fd = os.memfd_create("git", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _all(git: "subprocess.Popen[bytes]", until: float, most: int) -> bytes:
    """Return all of its output, and wait for its end. Raises TimeoutError, also for more than anybody needs."""
    pieces, size = [], 0
    assert git.stdout is not None  # noqa: S101  (it is a pipe)
    fd, poll = git.stdout.fileno(), select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000) or size > most:
            raise TimeoutError
        piece = os.read(fd, 1 << 20)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    try:
        git.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return b"".join(pieces)


def _end(git: "subprocess.Popen[bytes]") -> None:
    if git.poll() is None:
        git.kill()
    if git.stdout is not None:
        git.stdout.close()
    git.wait()


def make(path: str, program: str, *, is_sha256: bool, stores: tuple[str, ...]) -> Bare:
    """Make an empty bare repository that borrows from object stores."""
    for name in ("objects/info", "objects/pack", "refs"):
        os.makedirs(f"{path}/{name}", 0o700)
    version = "1\n[extensions]\n\tobjectFormat = sha256\n" if is_sha256 else "0\n"
    write(f"{path}/HEAD", b"ref: refs/heads/none\n")
    write(f"{path}/config", f"[core]\n\tbare = true\n\trepositoryformatversion = {version}".encode())
    write(f"{path}/objects/info/alternates", os.fsencode("".join(f"{_quoted(store)}\n" for store in stores)))
    return Bare(path, program, is_sha256)


def _quoted(store: str) -> str:
    """Return a path as git reads it in `alternates` (git: link_alt_odb_entries): quoted where it would be taken apart."""
    if store[0] not in '"#' and "\n" not in store:
        return store
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(table.get(letter, letter) for letter in store) + '"'


@contextmanager
def temporary(folder: str) -> Iterator[str]:
    """Have the path of a new directory for as long as it is needed, in a session's or a merge's folder.

    It is gone at once, and taken apart a moment later: a thousand links cost more than all that git does with them.
    """
    place = f"{folder}/skeleton-{os.urandom(8).hex()}"
    os.mkdir(place, 0o700)
    try:
        yield place
    finally:
        gone = ended.set_aside(store.Store(os.path.dirname(os.path.dirname(folder))), os.path.basename(place))
        os.rmdir(gone)
        os.rename(place, gone)
        ended.remove_aside(gone)


def skeleton(place: str, program: str, folder: str, stores: tuple[str, ...]) -> Bare:
    """Make a repository whose objects are those of the agent's git dir `folder`, and the user's from the farm.

    Objects are hard links to regular files that have the names of objects and packs; nothing else is taken.
    """
    config = refs.regular(f"{folder}/config", 1 << 20) if os.path.isfile(f"{folder}/config") else b""
    made = make(f"{place}/agent", program, is_sha256=b"sha256" in config.lower(), stores=stores)
    borrow(made, folder)
    return made


def borrow(made: Bare, folder: str) -> None:
    """Link the objects of one more git dir of the agent's: by descriptors, for a thousand paths are long to walk."""
    if not refs.is_real(folder, "objects"):
        return
    with _theirs(f"{folder}/objects") as source, _opened(f"{made.path}/objects") as place:
        for name in os.listdir(source) if source is not None else ():
            if name == "pack" or _is_hex(name, 2):
                _link_all(name, source, place)


@contextmanager
def _theirs(name: str, above: int | None = None) -> Iterator[int | None]:
    """Have a directory of the agent's open: None for what is none, or one that we are shut out of."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _opened(name: str, above: int | None = None) -> Iterator[int]:
    fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_hex(name: str, length: int) -> bool:
    return len(name) == length and _HEX.issuperset(name)


def _link_all(name: str, source: int | None, place: int) -> None:
    with _theirs(name, source) as one:
        if one is None:
            return
        with suppress(FileExistsError):  # of two git dirs of the agent's
            os.mkdir(name, 0o700, dir_fd=place)
        with _opened(name, place) as other, os.scandir(one) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and _is_object(entry.name):
                    _link(entry.name, one, other)


def _is_object(name: str) -> bool:
    return _is_hex(name, 38) or _is_hex(name, 62) or name.endswith(_PACK_ENDS)


def _link(name: str, source: int, place: int) -> None:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=place, follow_symlinks=False)
    except FileExistsError:
        return  # of two git dirs of the agent's
    except OSError:  # an object of too many links, or of another file system
        write(f"/proc/self/fd/{place}/{name}", refs.regular(f"/proc/self/fd/{source}/{name}", _LARGEST_OBJECT))


def write(path: str, data: bytes) -> None:
    """Write a new file of ours."""
    with open(path, "xb") as file:
        file.write(data)
