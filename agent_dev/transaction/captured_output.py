"""Keep the end of what commands write to stdout, and pass it on."""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.linux import process, signals, streams

_PIECE = 1 << 16  # bytes, as many as a pipe holds
_LAST_PIECES = 16  # read at the end; a process in the background may write forever


@contextmanager
def capture_stdout(limit: int) -> Iterator[Callable[[], bytes]]:
    """Pass stdout on through a process that keeps its last `limit` bytes.

    Yields a function that ends the capture and returns these bytes. Processes that hold stdout open are not waited for.
    """
    source, target = os.pipe()
    wake, end = os.pipe()
    result, own = os.memfd_create("output"), os.dup(1)
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            process.leave_launcher(launcher)
            signals.ignore(signals.PIPE)
            process.close_all_but({source, wake, result, own})
            streams.write_all(result, _pass_on(source, wake, own, limit))
        finally:
            os._exit(0)
    os.dup2(target, 1)
    for fd in (source, target, wake):
        os.close(fd)
    open_ends = [end]

    def finish() -> bytes:
        os.dup2(own, 1)
        while open_ends:
            os.write(open_ends[0], b"!")  # other processes may have it open, so closing it would not wake the reader
            os.close(open_ends.pop())
            os.waitpid(pid, 0)
        return os.pread(result, limit, 0)

    try:
        yield finish
    finally:
        finish()
        os.close(own)
        os.close(result)


def _pass_on(source: int, wake: int, target: int, limit: int) -> bytes:
    """Copy until `wake` is readable and what was written before was read; return the last bytes."""
    os.set_blocking(source, False)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(wake, select.POLLIN)
    kept = b""
    left = _LAST_PIECES
    while left:
        ready = {fd for fd, _ in poll.poll()}
        piece = _read(source)
        kept = (kept + piece)[-limit:]
        _write(target, piece)
        left -= wake in ready
        if not piece and wake in ready:
            break
        if not piece:
            poll.unregister(source)  # no process has it open any more
    return kept


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:
        return b""


def _write(fd: int, data: bytes) -> None:
    try:
        streams.write_all(fd, data)
    except OSError:
        return  # nobody reads it
