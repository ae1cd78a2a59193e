"""Bare repositories of our own in which git runs; only objects come from outside (decision 0017).

Configuration, hooks, attributes, grafts, replace refs and promisor settings of the agent have no effect there.
"""

import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agent_dev import debug
from agent_dev.errors import CommandFailed, DiskFull
from agent_dev.fs import background_removal, disk_space, read_regular
from agent_dev.git import config_file, repository
from agent_dev.linux import process, streams
from agent_dev.quick_dataclass import dataclass, field

TIMEOUT_SECONDS = 20.0  # without any output, and without using the processor
LONGEST_SECONDS = 60.0  # in all: the objects of an agent could take forever
IMPORT_SECONDS = 600.0  # to pack commits that the user wants: 100,000 objects take half a minute on a slow disk
_MAX_OBJECT_SIZE = 1 << 30
MAX_OUTPUT_SIZE = 1 << 30
_PIPE_SIZE = 1 << 20  # bytes that git can write before they are read
_HEX = frozenset("0123456789abcdef")
_DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PACK_SUFFIXES = (".pack", ".idx")


@dataclass(frozen=True, slots=True)
class BareRepository:
    """A bare repository of ours and the git program that works in it."""

    path: str
    program: str
    is_sha256: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def null_id(self) -> str:
        """The null object id."""
        return "0" * (64 if self.is_sha256 else 40)

    def check_output(
        self,
        *args: str,
        stdin: bytes | memoryview = b"",
        env: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> bytes:
        """Run git and return its output. Raises CommandFailed when it fails or times out."""
        code, output, reason = self.run(*args, stdin=stdin, env=env, seconds=seconds)
        if code:
            raise CommandFailed(program=f"git {_subcommand(args)}", reason=reason)
        return output

    def run(
        self,
        *args: str,
        stdin: bytes | memoryview = b"",
        env: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> tuple[int, bytes, str]:
        """Run git; return its exit code, its output and the last line of its error messages.

        `seconds`: how long it may take, if not `LONGEST_SECONDS`.
        Raises CommandFailed on a timeout, DiskFull when git ran out of disk space.
        """
        with self.start(*args, stdin=stdin, env=env, seconds=seconds) as finish:
            return finish()

    @contextmanager
    def start(
        self,
        *args: str,
        stdin: bytes | memoryview = b"",
        env: Mapping[str, str] | None = None,
        max_size: int = MAX_OUTPUT_SIZE,
        seconds: float | None = None,
    ) -> Iterator[Callable[[], tuple[int, bytes, str]]]:
        """Start git; yield a function that waits for at most `max_size` bytes of output and returns what `run` returns."""
        argv = ("git", "--git-dir", self.path, *repository.SAFE_OPTIONS, *args)
        debug.print_command(argv)
        full_env = repository.git_environment(dict(self.environ)) | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
        }
        with _memory_file(stdin) as source, _memory_file(b"") as errors:
            git = subprocess.Popen(
                argv,
                executable=self.program,
                env=full_env | dict(env or {}),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
            )
            _enlarge_pipe(git)

            def finish() -> tuple[int, bytes, str]:
                try:
                    output = _read_all(git, max_size, seconds or LONGEST_SECONDS)
                except TimeoutError as error:
                    reason = f"{error}; the session's objects may be damaged"
                    raise CommandFailed(program=f"git {_subcommand(args)}", reason=reason) from None
                error_output = os.pread(errors, 1 << 16, 0)
                if git.returncode and (number := repository.find_disk_error(error_output)):
                    raise DiskFull(path=disk_space.failed_path(OSError(number, ""), self.path), reason=os.strerror(number))
                return git.returncode, output, repository.last_error_line(error_output)

            try:
                yield finish
            finally:
                _stop(git)


def _enlarge_pipe(git: "subprocess.Popen[bytes]") -> None:
    if git.stdout is not None:
        with suppress(OSError):  # the user's pipe limit is reached
            fcntl.fcntl(git.stdout, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def _subcommand(args: tuple[str, ...]) -> str:
    """Return git's subcommand: the first argument after the options."""
    remaining = list(args)
    while remaining[0] == "-c":
        remaining = remaining[2:]
    return remaining[0]


@contextmanager
def _memory_file(data: bytes | memoryview) -> Iterator[int]:
    fd = streams.memory_file(data)
    try:
        yield fd
    finally:
        os.close(fd)


def _read_all(git: "subprocess.Popen[bytes]", max_size: int, seconds: float) -> bytes:
    """Return all output and wait for the process to exit, for at most so many seconds.

    Raises TimeoutError; also for output larger than `max_size`.
    """
    chunks, size = [], 0
    assert git.stdout is not None  # noqa: S101  (it is a pipe)
    fd, start = git.stdout.fileno(), time.monotonic()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        _wait_for_output(git, poll, start, seconds)
        chunk = os.read(fd, 1 << 20)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > max_size:
            raise TimeoutError(f"its output is larger than {max_size >> 20} MiB")
    try:
        git.wait(TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise TimeoutError("it does not exit") from None
    return b"".join(chunks)


def _wait_for_output(git: "subprocess.Popen[bytes]", poll: select.poll, start: float, seconds: float) -> None:
    """Wait until git writes something or exits. Raises TimeoutError if it does nothing, or takes too long since `start`."""
    if poll.poll(0):
        return
    used = process.used_time(git.pid)
    while not poll.poll(max(0.0, min(TIMEOUT_SECONDS, start + seconds - time.monotonic())) * 1000):
        last, used = used, process.used_time(git.pid)
        if time.monotonic() >= start + seconds:
            raise TimeoutError(f"timed out after {seconds:.0f} s")
        if used == last:
            raise TimeoutError(f"timed out, since it did nothing for {TIMEOUT_SECONDS:.0f} s")


def _stop(git: "subprocess.Popen[bytes]") -> None:
    if git.poll() is None:
        git.kill()
    if git.stdout is not None:
        git.stdout.close()
    git.wait()


def create(path: str, program: str, *, is_sha256: bool, stores: tuple[str, ...]) -> BareRepository:
    """Create an empty bare repository that borrows from object stores."""
    for name in ("objects/info", "objects/pack", "refs"):
        os.makedirs(f"{path}/{name}", 0o700)
    version = "1\n[extensions]\n\tobjectFormat = sha256\n" if is_sha256 else "0\n"
    write_new_file(f"{path}/HEAD", b"ref: refs/heads/none\n")
    write_new_file(f"{path}/config", f"[core]\n\tbare = true\n\trepositoryformatversion = {version}".encode())
    write_new_file(f"{path}/objects/info/alternates", os.fsencode("".join(f"{_quoted(store)}\n" for store in stores)))
    return BareRepository(path, program, is_sha256)


def _quoted(store: str) -> str:
    """Quote a path for `alternates` where git would misread it (git: link_alt_odb_entries)."""
    if store[0] not in '"#' and "\n" not in store:
        return store
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(table.get(letter, letter) for letter in store) + '"'


@contextmanager
def temporary_directory(folder: str) -> Iterator[str]:
    """Yield the path of a new directory in the folder of a session or a merge; remove it afterwards.

    It is renamed first, then its contents are removed in the background: unlinking a thousand links is slow.
    """
    path = f"{folder}/skeleton-{os.urandom(8).hex()}"
    os.mkdir(path, 0o700)
    try:
        yield path
    except OSError as error:
        if error.filename is None and error.errno in disk_space.FULL_ERRNOS:
            error.filename = disk_space.failed_path(error, folder)  # a failed write names no file
        raise
    finally:
        trash = background_removal.make_removal_directory(
            f"{os.path.dirname(os.path.dirname(folder))}/gone", os.path.basename(path)
        )
        os.rmdir(trash)
        os.rename(path, trash)
        background_removal.remove_in_background(trash)


def create_linked(parent: str, program: str, folder: str, stores: tuple[str, ...]) -> BareRepository:
    """Create a repository with the objects of the agent's git dir `folder`, and the user's from `stores`.

    Only regular files with names of objects or packs are hard-linked.
    """
    config = read_regular.read_regular_file(f"{folder}/config", 1 << 20) if os.path.isfile(f"{folder}/config") else b""
    repo = create(f"{parent}/agent", program, is_sha256=config_file.is_sha256(config), stores=stores)
    link_objects(repo, folder)
    return repo


def link_objects(repo: BareRepository, folder: str) -> None:
    """Link the objects of another git dir of the agent, by directory descriptors: a thousand path lookups are slow."""
    if not read_regular.are_real_directories(folder, "objects"):
        return
    with _open_agent_dir(f"{folder}/objects") as source, _open_dir(f"{repo.path}/objects") as target:
        for name in os.listdir(source) if source is not None else ():
            if name == "pack" or _is_hex(name, 2):
                _link_directory(name, source, target)


@contextmanager
def _open_agent_dir(name: str, above: int | None = None) -> Iterator[int | None]:
    """Open a directory of the agent; yield None if it is missing, unreadable or not a directory."""
    try:
        fd = os.open(name, _DIR_FLAGS, dir_fd=above)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _open_dir(name: str, above: int | None = None) -> Iterator[int]:
    fd = os.open(name, _DIR_FLAGS, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_hex(name: str, length: int) -> bool:
    return len(name) == length and _HEX.issuperset(name)


def _link_directory(name: str, source: int | None, target: int) -> None:
    with _open_agent_dir(name, source) as source_dir:
        if source_dir is None:
            return
        with suppress(FileExistsError):  # already linked from another git dir
            os.mkdir(name, 0o700, dir_fd=target)
        with _open_dir(name, target) as target_dir, os.scandir(source_dir) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and _is_object(entry.name):
                    _link(entry.name, source_dir, target_dir)


def _is_object(name: str) -> bool:
    return _is_hex(name, 38) or _is_hex(name, 62) or name.endswith(_PACK_SUFFIXES)


def _link(name: str, source: int, target: int) -> None:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileExistsError:
        return  # already linked from another git dir
    except OSError:  # too many links, or another file system
        write_new_file(
            f"/proc/self/fd/{target}/{name}", read_regular.read_regular_file(f"/proc/self/fd/{source}/{name}", _MAX_OBJECT_SIZE)
        )


def write_new_file(path: str, data: bytes) -> None:
    """Write a new file."""
    with open(path, "xb") as file:
        file.write(data)
