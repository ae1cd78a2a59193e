"""Read and write whole streams: one system call may transfer only a part."""

import os


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_to_end(fd: int) -> bytes:
    """Return all that is left to read, and close the descriptor."""
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    os.close(fd)
    return data


def memory_file(data: bytes | memoryview = b"") -> int:
    """Return a file in memory with this content, at its start: input for a child, without a writer at a pipe. Raises OSError."""
    fd = os.memfd_create("agent-dev", os.MFD_CLOEXEC)
    try:
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
