"""Merging by flags, with the real program: hunks, patches, conflicts, export, the deletion guard, undo and redo."""

import json
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from agent_dev.fs.acl import XATTR
from tests.harness.program import AgentDev

BEFORE = "".join(f"line {number}\n" for number in range(30))
AGENT = BEFORE.replace("line 3\n", "agent 3\n").replace("line 20\n", "agent 20\n")


@pytest.fixture
def changed(agent_dev: AgentDev) -> AgentDev:
    """Return a repository with a session that changes two regions of one file."""
    text = agent_dev.repo / "text"
    text.write_text(BEFORE)
    done = agent_dev("--", "sed", "-i", "s/line 3$/agent 3/; s/line 20$/agent 20/", "text")
    assert done.returncode == 0, done.stderr
    assert text.read_text() == BEFORE
    return agent_dev


def text(agent_dev: AgentDev) -> str:
    return (agent_dev.repo / "text").read_text()


def test_the_hunk_numbers_of_diff_are_accepted_by_take(changed: AgentDev) -> None:
    shown = changed("diff", "--hunks", "text").stdout
    assert re.findall(r"^@@ .* @@ (.*)$", shown, re.MULTILINE) == ["hunk 1", "hunk 2"]
    done = changed("merge", "--take", "text:2")
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 20\n", "agent 20\n")), done.stderr
    assert changed("merge", "--all").returncode == 0
    assert text(changed) == AGENT


def test_hunks_of_a_patch_are_read_from_stdin(changed: AgentDev) -> None:
    patch = changed("diff").stdout
    second = patch[: patch.index("@@")] + patch[patch.index("@@ -18") :]
    done = changed("merge", "--patch", "-", input=second)
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 20\n", "agent 20\n")), done.stderr


@pytest.mark.parametrize(("how", "wanted"), [("yours", "mine 3\n"), ("agent", "agent 3\n"), ("both", "mine 3\nagent 3\n")])
def test_a_conflict_is_reported_and_resolved(changed: AgentDev, how: str, wanted: str) -> None:
    (changed.repo / "text").write_text(BEFORE.replace("line 3\n", "mine 3\n"))
    done = changed("merge", "--all")
    assert done.returncode == 1
    assert "--resolve" in done.stdout
    done = changed("merge", "--resolve", f"text={how}")
    assert (done.returncode, text(changed)) == (0, AGENT.replace("agent 3\n", wanted)), done.stderr


def test_an_editor_resolves_a_conflict(changed: AgentDev, tmp_path: Path) -> None:
    (changed.repo / "text").write_text(BEFORE.replace("line 3\n", "mine 3\n"))
    seen = tmp_path / "seen"
    script = f'cp "$1" {seen}; sed -i \'/^<<<<<<</,/^>>>>>>>/c settled\' "$1"'
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    done = changed("merge", "--resolve", "text=edit", env={"EDITOR": str(editor)})
    assert (done.returncode, text(changed)) == (0, AGENT.replace("agent 3\n", "settled\n")), done.stderr
    assert "<<<<<<< yours\nmine 3\n||||||| before\nline 3\n=======\nagent 3\n>>>>>>> the agent's\n" in seen.read_text()


def test_an_editor_that_leaves_a_marker_resolves_nothing(changed: AgentDev) -> None:
    yours = BEFORE.replace("line 3\n", "mine 3\n")
    (changed.repo / "text").write_text(yours)
    done = changed("merge", "--resolve", "text=edit", env={"EDITOR": "true"})
    assert (done.returncode, text(changed)) == (1, yours)
    assert "marker" in done.stderr


def test_an_input_that_is_no_patch_is_refused(changed: AgentDev) -> None:
    done = changed("merge", "--patch", "-", input="garbage\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "agent-dev: --patch: the file contains no patch"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--take", "text:7"), "no hunk 7"),
        (("--take", "nothing:1"), "no changes at nothing"),
        (("--patch", "missing"), "No such file"),
        (("--resolve", "text=yours"), "has no conflict"),
        (("--resolve", "text=theirs"), "expected PATH=yours"),
        (("--export", "out"), "--export needs a selection"),
    ],
)
def test_bad_flags_are_refused_in_one_line_and_change_nothing(changed: AgentDev, words: tuple[str, ...], what: str) -> None:
    done = changed("merge", *words)
    assert (done.returncode, text(changed)) == (2, BEFORE)
    assert what in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_an_exported_patch_applies(changed: AgentDev, tmp_path: Path) -> None:
    target = tmp_path / "out.patch"
    assert changed("merge", "--all", "--export", str(target)).returncode == 0
    assert text(changed) == BEFORE
    subprocess.run(["git", "apply", str(target)], cwd=changed.repo, check=True)
    assert text(changed) == AGENT
    assert changed("status", "--json").stdout.count('"path"') == 0  # the real tree already contains the changes


def test_an_export_counts_a_rename_once_as_its_dry_run_does(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev("--", "sh", "-c", "mv sub/app.py sub/main.py; echo x > new")
    assert agent_dev.do("merge", "--all", "--dry-run").count("would merge") == 2
    for target in (tmp_path / "out.patch", tmp_path / "out"):
        assert agent_dev("merge", "--all", "--export", target).stdout.startswith(f"2 changes exported to {target};")


def test_many_deletions_require_confirmation(agent_dev: AgentDev) -> None:
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


def test_undo_keeps_later_changes_of_the_user(changed: AgentDev) -> None:
    (changed.repo / "other").write_text("other\n")
    changed("--", "sh", "-c", "echo agent >>other; echo new >new")
    assert changed("merge", "--all").returncode == 0
    (changed.repo / "other").write_text("mine since\n")
    done = changed("undo", "--json")
    reported = json.loads(done.stdout)
    assert (done.returncode, reported["paths"]) == (1, ["new"])
    assert reported["skipped"] == [{"path": "other", "reason": "you changed it since the merge, in the same lines"}]
    assert (reported["mergeable"], reported["kept"]) == ([], [])
    assert (changed.repo / "other").read_text() == "mine since\n"
    assert not (changed.repo / "new").exists()


def test_an_undo_offers_to_revert_the_merge_and_keep_later_user_changes(changed: AgentDev) -> None:
    changed("merge", "--all")
    yours = AGENT.replace("line 27\n", "mine 27\n")
    (changed.repo / "text").write_text(yours)
    done = changed("undo")
    assert (done.returncode, text(changed)) == (1, yours)
    assert done.stdout.startswith("skipped text: you changed it since")
    assert "to revert 1 skipped and keep your edits in it: agent-dev undo --three-way\n" in done.stdout
    assert json.loads(changed("undo", "--json").stdout)["mergeable"] == ["text"]
    done = changed("undo", "--three-way")
    assert (done.returncode, text(changed)) == (0, BEFORE.replace("line 27\n", "mine 27\n")), done.stderr
    assert "undone text (your later changes kept)\n" in done.stdout
    assert "edited   text +2 -2 (merges both)\n" in changed("status").stdout
    assert (changed("redo").returncode, text(changed)) == (0, yours)
    assert json.loads(changed("undo", "--three-way", "--json").stdout)["kept"] == ["text"]


def test_acls_of_the_user_survive_merge_undo_and_redo(changed: AgentDev) -> None:
    place = changed.repo / "text"
    probe = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, bits, 0xFFFFFFFF) for tag, bits in ((1, 6), (4, 0), (16, 6), (32, 0))
    )
    try:
        os.setxattr(place, XATTR, probe)
    except OSError:
        pytest.skip("no access lists on this file system")
    changed("discard", "--all")
    assert changed("--", "sh", "-c", "echo more >>text; echo new >new").returncode == 0
    for verb in (("merge", "--all"), ("undo",), ("redo",)):
        assert changed(*verb).returncode == 0
        assert (os.getxattr(place, XATTR), place.stat().st_mode & 0o777) == (probe, 0o660)
    assert text(changed) == BEFORE + "more\n"
    assert XATTR not in os.listxattr(changed.repo / "new")


def test_merges_lists_those_still_applied(changed: AgentDev) -> None:
    assert changed("merges").stdout == "no merges in this repository\n"
    changed("merge", "--all")
    (one,) = json.loads(changed("merges", "--json").stdout)["merges"]
    assert (one["state"], one["changes"]) == ("merged", [{"path": "text", "kind": "edited", "from": None}])
    changed("undo")
    assert json.loads(changed("merges", "--json").stdout)["merges"][0]["state"] == "undone"
    assert changed("redo").returncode == 0
    assert text(changed) == AGENT
    assert changed("redo").returncode == 1
    assert changed("undo", "no-such-merge").returncode == 2


def test_undo_does_not_skip_an_unreadable_merge(changed: AgentDev) -> None:
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
