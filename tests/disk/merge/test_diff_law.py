"""Git applies the patch of a session to the base versions and gets the session's tree byte for byte."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.errors import UsageError
from agent_dev.fs.entry import Key
from agent_dev.merge import patches
from agent_dev.merge.patches import PatchWriter
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay.changes import ChangeKind
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.repository import ENVIRON, git
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

LINES = b"".join(b"line %d of a text that is long enough\n" % number for number in range(12))

CONTENTS = [
    b"", b"one", b"one\n", b"one\r\ntwo\r\n", LINES, LINES[:-1], LINES.replace(b"line 3 ", b"LINE 3 "),
    LINES.replace(b"\n", b"\r\n"), LINES + b"\x1b[2J\n", LINES + b"\xc2\x9b31m\n", b"\0\1" * 300, b"\0\1" * 300 + b"x",
    b"\xff\xfe\n", b"a\rb\n", b"-- \n+++ x\n",
]  # fmt: skip
NAMES = [
    b"a", b"b", b"c", b"d", b"a b", b" lead", b"trail ", b'q"uote', b"back\\slash", b"new\nline", b"tab\t", b"\xff\xfe",
    "é".encode(),
    b"-p", b"b b", b"a b b", b"\x1b[31m", b".gitmodules", b"x y\tz",
]  # fmt: skip
LEAVES = st.one_of(
    st.builds(Node, st.just(FILE), st.sampled_from(CONTENTS), st.sampled_from([0o644, 0o644, 0o755])),
    st.builds(Node, st.just(SYMLINK), st.sampled_from([b"nowhere", b"../b", b"a\nb", b"\xff", b"\x1b[2J"]), st.just(0o777)),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Draw a base tree and the agent's tree after edits, renames, deletions, type changes and additions."""
    names = st.sampled_from(NAMES)
    paths = st.one_of(names, st.builds(b"%b/%b".__mod__, st.tuples(names, names)))
    base = _placed(draw(st.lists(st.tuples(paths, LEAVES), max_size=6)))
    agent = dict(base)
    for path in sorted(path for path, node in base.items() if node.type is not DIRECTORY):
        what = draw(st.sampled_from(["stay", "stay", "edit", "move", "delete"]))
        if path not in agent:
            continue  # an entry that was added before replaced it
        node = agent.pop(path)
        if what == "edit":
            agent = _placed([*_leaves(agent), (path, draw(LEAVES))])
        elif what == "move":
            agent = _placed([*_leaves(agent), (draw(paths), node)])
        elif what == "stay":
            agent = _placed([*_leaves(agent), (path, node)])
    return base, _placed([*_leaves(agent), *draw(st.lists(st.tuples(paths, LEAVES), max_size=3))])


def _leaves(tree: Tree) -> list[tuple[bytes, Node]]:
    return [(path, node) for path, node in tree.items() if node.type is not DIRECTORY]


def _placed(leaves: list[tuple[bytes, Node]]) -> Tree:
    """Return a tree of these entries; each replaces earlier ones at its path, above it and below it."""
    tree: Tree = {}
    for path, node in leaves:
        if node.type is SYMLINK and b".gitmodules" in path:
            continue  # git refuses such a link
        for one in list(tree):
            if one == path or one.startswith(path + b"/") or path.startswith(one + b"/"):
                del tree[one]
        tree[path] = node
    return tree | {path.rpartition(b"/")[0]: Node(DIRECTORY, b"", 0o755) for path in tree if b"/" in path}


@contextmanager
def ended(history: tuple[Tree, Tree]) -> Iterator[EndedSession]:
    """Yield a session that changed the first tree into the second."""
    base, agent = history
    with tempfile.TemporaryDirectory() as name, EndedSession(Path(name), base, trees.upper_of(base, agent)) as one:
        yield one


def written(one: EndedSession) -> tuple[bytes, list[tuple[bytes, str]]]:
    """Return the patch of all changes, and the changes that it omits."""
    review = one.review()
    try:
        some = PatchWriter(review, review.changes.changes, lambda key: key.path)
        return b"".join(some), some.omitted
    finally:
        review.close()


def applied(folder: Path, base: Tree, text: bytes, *how: str) -> Tree:
    """Apply a patch with git in a repository that contains the base tree; return the resulting files and links."""
    place = Path(tempfile.mkdtemp(dir=folder))
    trees.write(place, base)
    git(place, "init", "-q")
    git(place, "config", "core.symlinks", "true")
    git(place, "add", "-A", "-f", ".")
    git(place, "commit", "-q", "--allow-empty", "-m", "base")
    person = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.invalid", "GIT_CONFIG_GLOBAL": os.devnull}
    words = ["git", "-c", "safe.directory=*", *how]
    done = subprocess.run(words, cwd=place, env=ENVIRON | person, input=text, capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr, text)
    if how[0] == "am" or "--index" in how:
        rows = git(place, "status", "--porcelain").splitlines()
        assert [row for row in rows if how[0] == "am" or row[1] != " "] == []
    return seen({path: node for path, node in trees.read(place).items() if not path.startswith(b".git/")})


def seen(tree: Tree) -> Tree:
    """Return a tree as git stores it: files and links; of a mode only the owner's executable bit."""
    return {
        path: replace(node, mode=0o755 if node.mode & stat.S_IXUSR else 0o644) if node.type is FILE else node
        for path, node in tree.items()
        if node.type is not DIRECTORY
    }


@settings(max_examples=80)
@given(histories())
def test_git_applies_the_patch_of_any_session(history: tuple[Tree, Tree]) -> None:
    base, agent = history
    with ended(history) as one:
        text, left_out = written(one)
        assert left_out == []
        if text:
            assert applied(one.real.parent, base, text, "apply", "--whitespace=nowarn") == seen(agent)
            assert applied(one.real.parent, base, text, "apply", "--whitespace=nowarn", "--index") == seen(agent)
        else:
            assert seen(base) == seen(agent)


@settings(max_examples=40)
@given(histories())
def test_git_reverts_the_patch(history: tuple[Tree, Tree]) -> None:
    base, agent = history
    with ended(history) as one:
        text, _ = written(one)
        if text and b"\ncopy from " not in text:  # git reverts no copy, not even in its own patches: the origin exists
            assert applied(one.real.parent, agent, text, "apply", "-R", "--whitespace=nowarn") == seen(base)


@settings(max_examples=40)
@given(histories())
def test_git_am_applies_it_as_a_mail(history: tuple[Tree, Tree]) -> None:
    base, agent = history
    with ended(history) as one:
        text, _ = written(one)
        if text:
            head = b"From %b Mon Sep 17 00:00:00 2001\nFrom: A <a@example.invalid>\nSubject: x\n\n---\n" % (b"0" * 40)
            assert applied(one.real.parent, base, head + text + b"-- \n2.39\n", "am", "--keep-cr", "-q") == seen(agent)


@settings(max_examples=40)
@given(histories())
def test_merge_applies_all_of_its_own_patch(history: tuple[Tree, Tree]) -> None:
    _, agent = history
    with ended(history) as one:
        text, _ = written(one)
        if text:
            one.merge_selected(SelectionRequest(patch=text))
            assert seen(trees.read(one.real)) == seen(agent)


@settings(max_examples=60)
@given(histories())
def test_a_patch_has_no_terminal_escapes(history: tuple[Tree, Tree]) -> None:
    with ended(history) as one:
        text = written(one)[0].replace(b"\r\n", b"\n")
        assert not set(text) & (set(range(32)) - {9, 10} | {127})
        assert not set(text.decode("utf-8", "surrogateescape")) & {
            chr(code) for code in (*range(0x80, 0xA0), *range(0xDC80, 0xDCA0))
        }


def test_a_renamed_file_is_one_patch_and_git_applies_it(tmp_path: Path) -> None:
    base = {b"old name": Node(FILE, LINES), b"gone": Node(FILE, b"\0" * 90, 0o755)}
    agent = {b"new\xff": Node(FILE, LINES.replace(b"line 7", b"LINE 7"), 0o755), b"come": Node(FILE, b"\0" * 90, 0o755)}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as one:
        text, _ = written(one)
    assert text.count(b"diff --git") == 2
    assert b'\nold mode 100644\nnew mode 100755\nsimilarity index 91%\nrename from old name\nrename to "new\\377"\nindex ' in text
    assert b"\nsimilarity index 100%\nrename from gone\nrename to come\n" in text
    assert applied(tmp_path, base, text, "apply", "--index") == seen(agent)


def test_a_part_of_a_renamed_file_can_be_applied(tmp_path: Path) -> None:
    base, agent = (
        {b"a": Node(FILE, LINES)},
        {b"b": Node(FILE, LINES.replace(b"line 1 ", b"LINE 1 ").replace(b"line 9", b"LINE 9"))},
    )
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as one:
        text, _ = written(one)
        second = text.index(b"\n@@ -", text.index(b"@@ -")) + 1
        one.merge_selected(SelectionRequest(patch=text[:second]))
        assert seen(trees.read(one.real)) == seen({b"b": Node(FILE, LINES.replace(b"line 1 ", b"LINE 1 "))})

        rest, _ = written(one)
        assert (rest.count(b"rename from"), rest.count(b"\n+LINE")) == (0, 1)
        one.merge_selected(SelectionRequest(patch=rest))
        assert seen(trees.read(one.real)) == seen(agent)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_patch_without_the_rename_must_contain_the_whole_file(tmp_path: Path, *, is_whole: bool) -> None:
    text = b"diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1,%d @@\n"
    base, agent = {b"a": Node(FILE, b"1\n2\n3\n")}, {b"b": Node(FILE, b"1\n2\n3\n4\n")}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as one:
        lines = [b"1", b"2", b"3", b"4"][: 4 if is_whole else 2]
        request = SelectionRequest(patch=text % len(lines) + b"".join(b"+%b\n" % line for line in lines))
        with nullcontext() if is_whole else pytest.raises(UsageError, match="cannot be selected in part"):
            one.merge_selected(request)
        assert seen(trees.read(one.real)) == seen(agent if is_whole else base)


def test_changes_that_git_cannot_express_are_reported(tmp_path: Path) -> None:
    base = {b"x": Node(FILE, b"1\n"), b"d": Node(DIRECTORY, b"", 0o755)}
    agent = {b"x": Node(FILE, b"1\n", 0o600), b"e": Node(DIRECTORY, b"", 0o755), b"y": Node(FILE, b"2\n")}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as one:
        text, left_out = written(one)
        assert set(left_out) == {(b"x", "mode changed from 0644 to 0600"), (b"d", "deleted dir"), (b"e", "added dir")}
        assert [change.kind for change in one.changes().changes if change.key == Key(0, b"y")] == [ChangeKind.ADDED]
    assert applied(tmp_path, base, text, "apply") == seen({b"x": base[b"x"], b"y": agent[b"y"]})


@pytest.mark.parametrize("version", ["sha1", "sha256"])
def test_blob_ids_are_those_of_the_repository(tmp_path: Path, version: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={version}", "r")
    (tmp_path / "r/x").write_bytes(b"\0one")
    git(tmp_path / "r", "config", "--add", "remote.x.url", "https://example.invalid/objectformat = sha256")
    common = str(tmp_path / "r/.git")
    form = patches.patch_format_for({"git": [{"root": 0, "folder": common, "common": common, "inside": True}]}, is_exact=True)  # type: ignore[typeddict-item]
    assert form.is_sha256 is (version == "sha256")
