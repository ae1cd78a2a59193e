"""Merging by flags, with the real program: blocks, patches, conflicts, writing out, the guard, undo and redo."""

import json
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from agent_dev.fs.acl import LIST
from tests.harness.program import AgentDev

BEFORE = "".join(f"line {number}\n" for number in range(30))
AGENT = BEFORE.replace("line 3\n", "agent 3\n").replace("line 20\n", "agent 20\n")


@pytest.fixture
def changed(agent_dev: AgentDev) -> AgentDev:
    """A repository in which an agent changed two places of one file."""
    text = agent_dev.repo / "text"
    text.write_text(BEFORE)
    done = agent_dev("--", "sed", "-i", "s/line 3$/agent 3/; s/line 20$/agent 20/", "text")
    assert done.returncode == 0, done.stderr
    assert text.read_text() == BEFORE
    return agent_dev


def text(agent_dev: AgentDev) -> str:
    return (agent_dev.repo / "text").read_text()


def test_the_numbers_that_diff_shows_are_those_that_take_takes(changed: AgentDev) -> None:
    shown = changed("diff", "--blocks", "text").stdout
    assert re.findall(r"^@@ .* @@ (.*)$", shown, re.MULTILINE) == ["block 1", "block 2"]
    done = changed("merge", "--take", "text:2")
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 20\n", "agent 20\n")), done.stderr
    assert changed("merge", "--all").returncode == 0
    assert text(changed) == AGENT


def test_hunks_of_a_patch_come_from_stdin(changed: AgentDev) -> None:
    patch = changed("diff").stdout
    second = patch[: patch.index("@@")] + patch[patch.index("@@ -18") :]
    done = changed("merge", "--patch", "-", input=second)
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 20\n", "agent 20\n")), done.stderr


@pytest.mark.parametrize(("how", "wanted"), [("mine", "mine 3\n"), ("agent", "agent 3\n"), ("both", "mine 3\nagent 3\n")])
def test_a_conflict_is_told_and_settled(changed: AgentDev, how: str, wanted: str) -> None:
    (changed.repo / "text").write_text(BEFORE.replace("line 3\n", "mine 3\n"))
    done = changed("merge", "--all")
    assert done.returncode == 1
    assert "--resolve" in done.stdout
    done = changed("merge", "--resolve", f"text={how}")
    assert (done.returncode, text(changed)) == (0, AGENT.replace("agent 3\n", wanted)), done.stderr


def test_an_editor_settles_a_conflict(changed: AgentDev, tmp_path: Path) -> None:
    (changed.repo / "text").write_text(BEFORE.replace("line 3\n", "mine 3\n"))
    seen = tmp_path / "seen"
    script = f'cp "$1" {seen}; sed -i \'/^<<<<<<</,/^>>>>>>>/c settled\' "$1"'
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    done = changed("merge", "--resolve", "text=edit", env={"EDITOR": str(editor)})
    assert (done.returncode, text(changed)) == (0, AGENT.replace("agent 3\n", "settled\n")), done.stderr
    assert "<<<<<<< yours\nmine 3\n||||||| before\nline 3\n=======\nagent 3\n>>>>>>> the agent's\n" in seen.read_text()


def test_an_editor_that_leaves_a_marker_settles_nothing(changed: AgentDev) -> None:
    mine = BEFORE.replace("line 3\n", "mine 3\n")
    (changed.repo / "text").write_text(mine)
    done = changed("merge", "--resolve", "text=edit", env={"EDITOR": "true"})
    assert (done.returncode, text(changed)) == (2, mine)
    assert "marker" in done.stderr


def test_what_is_no_patch_is_said_to_be_none(changed: AgentDev) -> None:
    done = changed("merge", "--patch", "-", input="garbage\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "agent-dev: --patch: there is no patch of any file in it"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--take", "text:7"), "no block 7"),
        (("--take", "nothing:1"), "nothing changed at nothing"),
        (("--patch", "missing"), "No such file"),
        (("--resolve", "text=mine"), "in no conflict"),
        (("--resolve", "text=theirs"), "how?"),
        (("--export", "out"), "--export what?"),
    ],
)
def test_bad_flags_are_one_line_and_change_nothing(changed: AgentDev, words: tuple[str, ...], what: str) -> None:
    done = changed("merge", *words)
    assert (done.returncode, text(changed)) == (2, BEFORE)
    assert what in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_what_is_written_out_applies_as_a_patch(changed: AgentDev, tmp_path: Path) -> None:
    target = tmp_path / "out.patch"
    assert changed("merge", "--all", "--export", str(target)).returncode == 0
    assert text(changed) == BEFORE
    subprocess.run(["git", "apply", str(target)], cwd=changed.repo, check=True)
    assert text(changed) == AGENT
    assert changed("status", "--json").stdout.count('"path"') == 0  # the real tree holds it already


def test_many_deletions_want_to_be_told_twice(agent_dev: AgentDev) -> None:
    for number in range(20):
        (agent_dev.repo / f"f{number}").write_text("x")
    agent_dev("--", "sh", "-c", "rm f*")
    done = agent_dev("merge", "--all", "--include-risky")
    assert (done.returncode, (agent_dev.repo / "f0").exists()) == (1, True)
    assert "--yes-delete-many" in done.stderr
    assert agent_dev("merge", "--all", "--include-risky", "--yes-delete-many").returncode == 0
    assert not (agent_dev.repo / "f0").exists()
    assert agent_dev("undo").returncode == 0
    assert (agent_dev.repo / "f0").exists()


def test_undo_leaves_what_the_user_changed_since(changed: AgentDev) -> None:
    (changed.repo / "other").write_text("other\n")
    changed("--", "sh", "-c", "echo agent >>other; echo new >new")
    assert changed("merge", "--all").returncode == 0
    (changed.repo / "other").write_text("mine since\n")
    done = changed("undo", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["paths"]) == (1, ["new"])
    assert told["left"] == [{"path": "other", "why": "you changed it since, in the same lines as the merge"}]
    assert (told["offered"], told["kept"]) == ([], [])
    assert (changed.repo / "other").read_text() == "mine since\n"
    assert not (changed.repo / "new").exists()


def test_an_undo_offers_to_take_back_what_the_merge_did_and_to_keep_what_the_user_did_since(changed: AgentDev) -> None:
    changed("merge", "--all")
    mine = AGENT.replace("line 27\n", "mine 27\n")
    (changed.repo / "text").write_text(mine)
    done = changed("undo")
    assert (done.returncode, text(changed)) == (1, mine)
    (offer,) = (line for line in done.stdout.splitlines() if line.startswith("left text: you changed it since"))
    assert "--three-way" in offer
    assert json.loads(changed("undo", "--json").stdout)["offered"] == ["text"]
    done = changed("undo", "--three-way")
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 27\n", "mine 27\n")), done.stderr
    assert "undone text (what you changed since stays)\n" in done.stdout
    assert "edited   text +2 -2 (with what you changed)\n" in changed("status").stdout
    assert (changed("redo").returncode, text(changed)) == (0, mine)
    assert json.loads(changed("undo", "--three-way", "--json").stdout)["kept"] == ["text"]


def test_access_lists_of_the_user_stay_through_a_merge_an_undo_and_a_redo(changed: AgentDev) -> None:
    place = changed.repo / "text"
    probe = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, bits, 0xFFFFFFFF) for tag, bits in ((1, 6), (4, 0), (16, 6), (32, 0))
    )
    try:
        os.setxattr(place, LIST, probe)
    except OSError:
        pytest.skip("no access lists on this file system")
    changed("discard", "--all")
    assert changed("--", "sh", "-c", "echo more >>text; echo new >new").returncode == 0
    for verb in (("merge", "--all"), ("undo",), ("redo",)):
        assert changed(*verb).returncode == 0
        assert (os.getxattr(place, LIST), place.stat().st_mode & 0o777) == (probe, 0o660)
    assert text(changed) == BEFORE + "more\n"
    assert LIST not in os.listxattr(changed.repo / "new")


def test_merges_lists_what_stands(changed: AgentDev) -> None:
    assert changed("merges").stdout == "nothing was merged here\n"
    changed("merge", "--all")
    (one,) = json.loads(changed("merges", "--json").stdout)["merges"]
    assert (one["state"], one["changes"]) == ("merged", [{"path": "text", "kind": "edited"}])
    changed("undo")
    assert json.loads(changed("merges", "--json").stdout)["merges"][0]["state"] == "undone"
    assert changed("redo").returncode == 0
    assert text(changed) == AGENT
    assert changed("redo").returncode == 1
    assert changed("undo", "no-such-merge").returncode == 2


def test_an_undo_passes_over_no_merge_that_cannot_be_read(changed: AgentDev) -> None:
    assert changed("merge", "--take", "text:2").returncode == 0
    assert changed("merge", "--all").returncode == 0
    newest = json.loads(changed("merges", "--json").stdout)["merges"][-1]["merge"]
    journal = changed.state / "merges" / newest / "journal"
    whole = journal.read_bytes()
    journal.write_bytes(b"torn" + whole[4:])
    done = changed("undo")
    assert (done.returncode, text(changed)) == (1, AGENT), done.stderr
    assert newest in changed("merges").stdout
    journal.write_bytes(whole)
    assert (changed("undo").returncode, text(changed)) == (0, BEFORE.replace("line 20\n", "agent 20\n"))
