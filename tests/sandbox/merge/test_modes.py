"""Changes of every mode, type and name by an agent are merged, undone and redone, as the user who runs the tests."""

import itertools
import subprocess
from pathlib import Path

import pytest

from tests.harness.owner_view import TreeEntries, entries_below
from tests.harness.program import AgentDev

MODES = sorted({owner << 6 | 0o44 for owner in range(8)} | {0, 0o77, 0o477, 0o777, 0o7777, 0o4755, 0o1600, 0o2400})
# Each move has a file F with the content `one`, another file F.other, and a directory F.d with a file `in`; M is the mode.
MOVES = {
    "chmod": "chmod M F",
    "edit and chmod": "echo two >F; chmod M F",
    "replace": "rm F; echo two >F; chmod M F",
    "replace by a link": "ln -sf somewhere F",
    "replace by a fifo": "rm F; mkfifo F; chmod M F",
    "replace by a directory": "rm F; mkdir F; echo in >F/in; chmod M F",
    "rename": "chmod M F; mv F F.moved",
    "rename over another": "chmod M F; mv -f F F.other",
    "rename into a new directory": "chmod M F; mkdir F.new; mv F F.new/",
    "new": "echo new >F.new; chmod M F.new",
    "new in a new directory": "mkdir F.new; echo new >F.new/in; chmod M F.new/in",
    "new directory": "mkdir F.new; echo new >F.new/in; chmod M F.new",
    "chmod of a directory": "chmod M F.d",
    "edit in a directory and chmod": "echo two >F.d/in; echo new >F.d/new; chmod M F.d",
    "remove": "chmod M F; rm -f F",
}
# The entry has the mode before the session, and the agent changes it temporarily where necessary.
MOVES_BEFORE = {
    "edit": "chmod 600 F; echo two >F; chmod M F",
    "replace": "rm -f F; echo two >F",
    "remove": "rm -f F",
    "rename": "mv F F.moved",
    "rename over it": "mv -f F.other F",
    "replace by a link": "ln -sf somewhere F",
    "edit within a directory": "chmod 700 F.d; echo two >F.d/in; echo new >F.d/new; chmod M F.d",
    "rename within a directory": "chmod 700 F.d; mv F.d/in F.d/moved; chmod M F.d",
    "remove within a directory": "chmod 700 F.d; rm -f F.d/in; chmod M F.d",
    "remove a directory": "chmod 700 F.d; rm -rf F.d",
    "replace a directory": "chmod 700 F.d; rm -rf F.d; echo file >F.d",
    "make a directory anew": "chmod 700 F.d; rm -rf F.d; mkdir F.d; echo new >F.d/in",
    "open a directory": "chmod 755 F.d; echo two >F.d/in",
    "new directory in a directory": "chmod 700 F.d; mkdir F.d/new; echo new >F.d/new/in; chmod M F.d",
}


def plain(found: TreeEntries) -> TreeEntries:
    """Return the entries without setuid, setgid and sticky bits, which are never merged."""
    return {path: one._replace(mode=one.mode & 0o777) for path, one in found.items()}


def lay_out(folder: Path, count: int, *, is_before: bool) -> None:
    for number, mode in itertools.product(range(count), MODES):
        one = folder / f"{number}-{mode:o}"
        one.write_text("one\n")
        Path(f"{one}.other").write_text("other\n")
        Path(f"{one}.d").mkdir()
        Path(f"{one}.d/in").write_text("in\n")
        if is_before:
            one.chmod(mode & 0o777)
            Path(f"{one}.d").chmod(mode & 0o777 | 0o500)  # a session cannot contain what its owner cannot read


def script(moves: dict[str, str]) -> str:
    lines = [
        move.replace("F", f"./{number}-{mode:o}").replace("M", f"{mode:o}")
        for (number, move), mode in itertools.product(enumerate(moves.values()), MODES)
    ]
    return "set -e\n" + "\n".join(lines) + "\n"


def reported(before: TreeEntries, expected: TreeEntries, found: TreeEntries, moves: dict[str, str]) -> list[str]:
    """Return the paths that differ from the expected tree, with the move that was made there."""
    names = list(moves)
    wrong = sorted(path for path in {*expected, *found} if expected.get(path) != found.get(path))
    return [
        f"{names[int(path.split(b'-')[0])] if b'-' in path else ''}: {path!r}: {before.get(path)}, "
        f"{expected.get(path)} expected, {found.get(path)} found"
        for path in wrong
    ]


@pytest.mark.parametrize("moves", [MOVES, MOVES_BEFORE], ids=["after", "before"])
def test_every_mode_type_and_rename_is_merged_undone_and_redone(
    agent_dev: AgentDev, moves: dict[str, str], tmp_path: Path
) -> None:
    repo, copy = agent_dev.repo, tmp_path / "copy"
    copy.mkdir()
    (tmp_path / "script").write_text(script(moves))
    for folder in (repo, copy):
        lay_out(folder, len(moves), is_before=moves is MOVES_BEFORE)
    subprocess.run(["sh", tmp_path / "script"], cwd=copy, check=True)
    before, after = plain(entries_below(repo)), plain(entries_below(copy))
    after |= {path: one for path, one in before.items() if not path[:1].isdigit()}
    done = agent_dev("--no-merge", "--", "sh", "-c", script(moves))
    assert done.returncode == 0, done.stderr
    merged = agent_dev("merge", "--all", "--include-risky", "--yes-delete-many", "--json")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert reported(before, after, plain(entries_below(repo)), moves) == []
    for word, expected in (("undo", before), ("redo", after), ("undo", before)):
        again = agent_dev(word, "--json")
        assert (again.returncode, again.stderr) == (0, ""), (word, again.stdout[-2000:])
        assert reported(before, expected, plain(entries_below(repo)), moves) == [], word
    assert agent_dev("discard").returncode == 0


def test_a_repository_without_write_permission_can_be_used(agent_dev: AgentDev) -> None:
    agent_dev.repo.chmod(0o555)
    try:
        done = agent_dev("--no-merge", "-q", "--", "sh", "-c", "stat -c %a .; echo more >>README.md; git commit -qam more")
        assert (done.returncode, done.stdout) == (0, "555\n"), done.stderr
        merged = agent_dev("merge", "--all")
        assert (merged.returncode, agent_dev.repo.stat().st_mode & 0o7777) == (0, 0o555), merged.stderr
        assert (agent_dev.repo / "README.md").read_text().endswith("more\n")
    finally:
        agent_dev.repo.chmod(0o755)
