"""The arguments of a call are read from the caller's memory at any addresses; calls with equal arguments are recognized."""

import ctypes
import mmap
import os
import struct

import pytest

from agent_dev.supervisor.exec_arguments import MAX_ARGUMENTS, USUAL_ARGUMENTS, ArgumentReader, ExecArguments
from tests.harness.scale import seeded_random

PAGE = 4096
PAGES = 24
HERE = os.getpid()


class Memory:
    """Pages of this process that contain the arguments of a call."""

    def __init__(self) -> None:
        self.data = mmap.mmap(-1, PAGES * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.data))

    def put(self, at: int, data: bytes) -> int:
        """Write bytes at an offset; return their address."""
        self.data[at : at + len(data)] = data
        return self.start + at

    def lay_out(self, words: list[bytes], places: list[int]) -> tuple[int, int]:
        """Write arguments at these offsets; return the addresses of the path and of the argument array."""
        pointers = [self.put(at, word + b"\0") for at, word in zip(places, words, strict=True)]
        return self.put(0, b"/bin/x\0"), self.put(1000, struct.pack(f"={len(pointers) + 1}Q", *pointers, 0))


def read(path: int, argv: int, most: int = USUAL_ARGUMENTS) -> tuple[bytes, tuple[str, ...], bool]:
    """Read a call of this process; return its path, its arguments, and whether they are truncated."""
    program, words = ArgumentReader().read(HERE, path, argv, most)
    assert words.first == os.fsencode(words.argv[0] if words.argv else "")
    return program, words.argv, words.is_truncated


def known(path: int, argv: int) -> ExecArguments:
    """Return the arguments of a call, with which a later equal call is recognized."""
    return ArgumentReader().read(HERE, path, argv, USUAL_ARGUMENTS)[1]


def again(words: ExecArguments, path: int, argv: int) -> bytes | None:
    return ArgumentReader().read_repeated(words, HERE, path, argv)


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_arguments_are_read_at_any_address(memory: Memory) -> None:
    chance = seeded_random()
    for _ in range(int(os.environ.get("AGENT_DEV_WORDS", "200"))):
        count = chance.randrange(USUAL_ARGUMENTS)
        words = [chance.randbytes(chance.choice((0, 1, 9, 300, 3000))).replace(b"\0", b"x") for _ in range(count)]
        places = []
        at = 2 * PAGE
        for word in words:
            at += chance.choice((0, 0, 0, 1, PAGE - 1, 3 * PAGE)) if at < 8 * PAGE else 0
            if at + len(word) + 1 > PAGES * PAGE:
                break
            places.append(at)
            at += len(word) + 1
        words = words[: len(places)]
        order = chance.sample(range(len(words)), len(words))
        path, argv = memory.lay_out([words[n] for n in order], [places[n] for n in order])
        wanted = tuple(os.fsdecode(words[n]) for n in order)
        assert read(path, argv) == (b"/bin/x", wanted, False)


def test_arguments_at_the_end_of_memory_are_read(memory: Memory) -> None:
    path, argv = memory.lay_out([b"one", b"last"], [5000, PAGES * PAGE - 5])
    assert read(path, argv)[1:] == (("one", "last"), False)


def test_a_call_without_arguments_has_none(memory: Memory) -> None:
    path, argv = memory.lay_out([], [])
    assert read(path, argv) == (b"/bin/x", (), False)
    assert read(path, 0) == (b"/bin/x", (), False)
    assert read(0, argv) == (b"", (), False)


def test_a_longer_argument_list_than_is_read_is_reported(memory: Memory) -> None:
    path, argv = memory.lay_out([b"w"] * 70, [9000 + 2 * n for n in range(70)])
    assert read(path, argv) == (b"/bin/x", ("w",) * USUAL_ARGUMENTS, True)
    assert read(path, argv, MAX_ARGUMENTS) == (b"/bin/x", ("w",) * 70, False)
    path, argv = memory.lay_out([b"x", b"y" * 5000], [9000, 10000])
    assert read(path, argv)[1:] == (("x", "y" * 4096), True)
    path, argv = memory.lay_out([b"y" * 4500, b"x"], [2 * PAGE, 3 * PAGE + 500])
    assert read(path, argv)[1:] == (("y" * 4096, "x"), True)


@pytest.mark.parametrize("bad", [1, 1 << 46, (1 << 64) - 1], ids=["low", "nowhere", "last"])
def test_unreadable_arguments_are_an_error(memory: Memory, bad: int) -> None:
    path, argv = memory.lay_out([b"one"], [5000])
    with pytest.raises(OSError, match="process_vm_readv"):
        ArgumentReader().read(HERE, bad, argv, USUAL_ARGUMENTS)
    with pytest.raises(OSError, match="process_vm_readv"):
        ArgumentReader().read(HERE, path, bad, USUAL_ARGUMENTS)
    argv = memory.put(1000, struct.pack("=3Q", memory.start + 5000, bad, 0))
    with pytest.raises(OSError, match="process_vm_readv"):
        ArgumentReader().read(HERE, path, argv, USUAL_ARGUMENTS)


def test_a_call_with_the_same_arguments_is_recognized_with_its_new_path(memory: Memory) -> None:
    path, argv = memory.lay_out([b"as", b"-o", b"x.o"], [5000, 8190, 60000])
    words = known(path, argv)
    assert again(words, path, argv) == b"/bin/x"
    assert again(words, memory.put(300, b"/usr/bin/as\0"), argv) == b"/usr/bin/as"
    assert again(words, path, argv + 8) is None
    assert again(words, 1, argv) is None
    assert words.argv == ("as", "-o", "x.o")


def test_a_call_with_arguments_around_an_unmapped_page_is_recognized(memory: Memory) -> None:
    path, argv = memory.lay_out([b"as", b"x.o"], [3 * PAGE + 9, 5 * PAGE + 9])
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.start + 4 * PAGE), PAGE, 0) == 0
    words = known(path, argv)
    assert words.argv == ("as", "x.o")
    assert again(words, path, argv) == b"/bin/x"


def test_a_call_with_truncated_arguments_is_never_recognized(memory: Memory) -> None:
    path, argv = memory.lay_out([b"w"] * 70, [9000 + 2 * n for n in range(70)])
    assert again(known(path, argv), path, argv) is None
    path, argv = memory.lay_out([b"x", b"y" * 5000], [9000, 10000])
    assert again(known(path, argv), path, argv) is None


@pytest.mark.parametrize("places", [[5000, 8190, 60000], [5010, 5005, 5000]], ids=["far", "near"])
def test_a_call_with_any_changed_argument_is_not_recognized(memory: Memory, places: list[int]) -> None:
    words = [b"rm", b"-r", b"made"]
    for at in [n for word, place in zip(words, places, strict=True) for n in range(place, place + len(word) + 1)]:
        path, argv = memory.lay_out(words, places)
        before = known(path, argv)
        assert again(before, path, argv) is not None
        memory.put(at, b"!")
        assert again(before, path, argv) is None
    for at in range(1000, 1000 + 8 * 4):
        path, argv = memory.lay_out(words, places)
        before = known(path, argv)
        memory.put(at, bytes((memory.data[at] ^ 1,)))
        assert again(before, path, argv) is None


@pytest.mark.parametrize("at", [1000, 1003, PAGE - 24, PAGE - 32, PAGE - 30], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33], ids=str)
def test_arguments_are_read_wherever_their_addresses_are(memory: Memory, at: int, count: int) -> None:
    words = [b"w%d" % number for number in range(count)]
    pointers = [memory.put(3 * PAGE + 256 * number, word + b"\0") for number, word in enumerate(words)]
    argv = memory.put(at, struct.pack(f"={count + 1}Q", *pointers, 0) + b"\1" * 16)
    assert read(memory.put(2 * PAGE, b"/bin/x\0"), argv) == (b"/bin/x", tuple(map(os.fsdecode, words)), False)


def test_a_partly_unmapped_address_is_an_error(memory: Memory) -> None:
    path, word = memory.put(0, b"/bin/x\0"), memory.put(PAGE, b"one\0")
    argv = memory.put((PAGES - 1) * PAGE - 12, struct.pack("=Q", word) + b"\1" * 4)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.start + (PAGES - 1) * PAGE), PAGE, 0) == 0
    with pytest.raises(OSError, match="Bad address"):
        ArgumentReader().read(HERE, path, argv, USUAL_ARGUMENTS)
