"""A repeated execve of a PATH search is allowed at once; one with changed arguments, or of another program, is checked."""

from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev
from tests.sandbox.policy.watched import log, sh

# Calls of one thread with the same arguments at the same addresses, as a shell makes them when it searches PATH.
PRELUDE = """\
import ctypes, os
libc = ctypes.CDLL(None)
def words(*texts):
    kept.extend(ctypes.create_string_buffer(text) for text in texts)
    return (ctypes.c_void_p * (len(texts) + 1))(*map(ctypes.addressof, kept), None)
kept = []
open("made", "w").close()
"""
RENAMED = """\
argv = words(b"harmless", b"forbidden")
os.symlink("/bin/touch", "harmless")
libc.execv(b"/nowhere/harmless", argv)
libc.execv(b"/neither/harmless", argv)
kept[0].value = b"touch"
libc.execv(os.path.abspath("harmless").encode(), argv)
"""
CHANGED = """\
argv = words(b"harmless", b"one")
libc.execv(b"/nowhere/harmless", argv)
libc.execv(b"/neither/harmless", argv)
kept[1].value = b"two"
libc.execv(b"/bin/true", argv)
"""
ANOTHER = """\
argv = words(b"harmless", b"forbidden")
libc.execv(b"/nowhere/harmless", argv)
libc.execv(b"/bin/touch", argv)
"""
DESCRIPTOR = """\
argv = words(b"harmless", b"forbidden")
touch = os.open("/bin/touch", os.O_RDONLY)
libc.execv(b"/nowhere/harmless", argv)
libc.fexecve(touch, argv, (ctypes.c_void_p * 1)(None))
"""
FOLDER = """\
argv = words(b"harmless", b"forbidden")
folder = os.open("/bin", os.O_RDONLY | os.O_DIRECTORY)
libc.execv(b"/nowhere/harmless", argv)
libc.execveat(folder, b"touch", argv, (ctypes.c_void_p * 1)(None), 0)
"""
NAMED = """\
argv = words(b"touch", b"somewhere")
os.symlink("/bin/touch", "harmless")
here = os.path.abspath("harmless").encode()
libc.execv(b"/nowhere/harmless", argv)
os.chdir("sub")
libc.execv(here, argv)
"""


def look(agent_dev: AgentDev, calls: str) -> str:
    """Run calls inside; return stderr."""
    return agent_dev("--no-merge", "--", PYTHON, "-I", "-S", "-c", PRELUDE + calls).stderr


def decided(agent_dev: AgentDev) -> list[tuple[str, str]]:
    """Return program and decision of the last two commands in the log."""
    return [(row["program"], row["decision"]) for row in log(agent_dev)][-2:]


def test_arguments_that_change_during_a_path_search_are_checked_again(guarded: AgentDev) -> None:
    assert "not that one." in look(guarded, RENAMED)
    assert guarded.changes() == {"made": "added", "harmless": "added"}
    assert decided(guarded) == [("/neither/harmless", "allow"), (f"{guarded.repo}/harmless", "deny")]


def test_arguments_that_change_during_a_path_search_get_their_own_log_line(guarded: AgentDev) -> None:
    look(guarded, CHANGED)
    found = [(row["program"], row["argv"][1]) for row in log(guarded)]
    assert found[-2:] == [("/neither/harmless", "one"), ("/bin/true", "two")]


@pytest.mark.parametrize("calls", [ANOTHER, DESCRIPTOR, FOLDER], ids=["by its path", "by a descriptor", "in a directory"])
def test_another_program_with_the_previous_arguments_is_checked(guarded: AgentDev, calls: str) -> None:
    assert "not that one." in look(guarded, calls)
    assert guarded.changes() == {"made": "added"}
    (before, allowed), (program, denied) = decided(guarded)
    assert (before, allowed, denied) == ("/nowhere/harmless", "allow", "deny")
    assert Path(program).samefile("/bin/touch")


def test_a_program_named_like_one_with_rules_is_checked_each_time(guarded: AgentDev) -> None:
    assert "not here." in look(guarded, NAMED)
    assert guarded.changes() == {"made": "added", "harmless": "added"}
    assert decided(guarded) == [("/nowhere/harmless", "allow"), (f"{guarded.repo}/harmless", "deny")]


def test_the_last_log_line_of_each_concurrent_path_search_is_what_ran(guarded: AgentDev) -> None:
    one = f'{PYTHON} -I -S -c \'import os; os.execvp("true", ["true", "%s"])\''
    sh(guarded, "touch x; for n in $(seq 8); do %s & done; wait" % (one % "'$n'"))
    last = {row["argv"][1]: row["program"] for row in log(guarded) if row["argv"][0] == "true"}
    assert sorted(last) == [*"12345678"]
    assert {Path(program).resolve() for program in last.values()} == {Path("/bin/true").resolve()}
