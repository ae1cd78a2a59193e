"""Start `agent-dev` by a fork of a process that has imported it: most of a command's processor time is imports.

A command finds the descriptors, directory, environment, mask and arguments that it would be executed with. But it is not a child
of the test, and its command line is that of the process it was forked from. So tests that need the process (`AgentDev.start`) or
a terminal, and those of containment, execute the program as a user does, and all do with AGENT_DEV_TEST_FORK=0.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

_LOCALE = {"LANG": "C.UTF-8"}
_OF_THE_INTERPRETER = ("LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "AGENT_DEV_TEST_MUTATION")  # take effect at its start
_PACKAGES = (
    "agents",
    "cli",
    "diff",
    "git",
    "merge",
    "overlay",
    "review_page",
    "risk",
    "run",
    "sandbox",
    "session",
    "transaction",
)
_LARGEST_REQUEST = 1 << 20  # bytes
_LARGEST_INPUT = 1 << 12  # bytes: fits into a pipe


def can_run(env: Mapping[str, str], typed: str | None) -> bool:
    """Return whether a command with an environment and an input may be started by a fork."""
    if os.environ.get("AGENT_DEV_TEST_FORK") == "0" or "AGENT_DEV_TEST_PROGRAM" in os.environ:
        return False
    of_the_interpreter = {name: value for name, value in env.items() if name.startswith(_OF_THE_INTERPRETER)}
    return of_the_interpreter == _LOCALE and len(typed or "") <= _LARGEST_INPUT


def run(
    words: Sequence[str], cwd: str, env: Mapping[str, str], typed: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `agent-dev WORDS` to its end. Raises subprocess.TimeoutExpired."""
    request = json.dumps({"words": words, "cwd": cwd, "env": dict(env), "umask": _umask()}).encode()
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]  # its output, its messages, its process ID and exit status
    stdin = _input(typed)
    try:
        socket.send_fds(_server(_identity()), [request], [stdin, *(write for _, write in pipes)])
    finally:
        for fd in (stdin, *(write for _, write in pipes)):
            os.close(fd)
    output, messages, status = _read_to_ends([read for read, _ in pipes], words, timeout)
    texts = (data.decode("utf-8", "surrogateescape") for data in (output, messages))
    return subprocess.CompletedProcess(["agent-dev", *words], os.waitstatus_to_exitcode(int(status.split()[1])), *texts)


def _input(typed: str | None) -> int:
    if typed is None:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    read, write = os.pipe2(os.O_CLOEXEC)
    os.write(write, typed.encode("utf-8", "surrogateescape"))
    os.close(write)
    return read


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read_to_ends(fds: list[int], words: Sequence[str], timeout: float) -> list[bytes]:
    """Read pipes to their ends and close them; kill the command, whose process ID comes by the last pipe, at the timeout."""
    deadline = time.monotonic() + timeout
    data = dict.fromkeys(fds, b"")
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    unfinished = {*fds}
    try:
        while unfinished:
            ready = poll.poll(max(0, deadline - time.monotonic()) * 1000)
            if not ready:
                os.kill(int(data[fds[-1]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired([*words], timeout, data[fds[0]], data[fds[1]])
            for fd, _ in ready:
                chunk = os.read(fd, 1 << 16)
                data[fd] += chunk
                if not chunk:
                    poll.unregister(fd)
                    unfinished.remove(fd)
    finally:
        for fd in fds:
            os.close(fd)
    return [data[fd] for fd in fds]


def _identity() -> tuple[object, ...]:
    """Return what a command inherits from its parent and a request does not say."""
    return os.getpid(), os.geteuid(), *(os.stat(f"/proc/self/ns/{name}").st_ino for name in ("mnt", "net", "pid", "user"))


@cache
def _server(identity: tuple[object, ...]) -> socket.socket:
    """Start the process that imports the program; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_REQUEST)
    with theirs:
        process = subprocess.Popen([sys.executable, "-P", __file__], stdin=theirs.fileno(), env=_LOCALE, cwd="/")
    atexit.register(_end, ours, process)
    return ours


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.kill()  # a fork of a test may still hold the socket
    process.wait()


# The process that has imported the program


def _serve() -> None:
    requests = socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    _import_program()
    ended, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    reports: dict[int, int] = {}  # process → where its status goes
    while True:
        for ready in select.select([requests.fileno(), ended], [], [])[0]:
            if ready == ended:
                os.read(ended, 4096)
                continue
            request, fds, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 4)
            if not request:
                return
            *streams, report = fds
            pid = _start(json.loads(request), streams)
            os.write(report, b"%d " % pid)
            reports[pid] = report
            for fd in streams:
                os.close(fd)
        _report_ended(reports)


def _import_program() -> None:
    for package in _PACKAGES:
        folder = importlib.import_module(f"agent_dev.{package}")
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # as the program's script does


def _report_ended(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        with suppress(BrokenPipeError):  # the test has timed out
            os.write(report, b"%d" % status)
        os.close(report)


def _start(request: dict[str, Any], streams: list[int]) -> int:
    """Fork a command; return its process ID."""
    pid = os.fork()
    if pid == 0:
        try:
            _become(request, streams)
        except Exception:  # noqa: BLE001  (as an interpreter does)
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def _become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 4096)
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["agent-dev", *request["words"]]
    main = importlib.import_module("agent_dev.cli.main").main
    main()
    raise AssertionError  # it exits


if __name__ == "__main__":
    _serve()
