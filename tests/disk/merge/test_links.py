"""The kernel confirms which links lead out of a tree, and such links are risky."""

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, SYMLINK, Node, UpperEntry
from tests.unit.overlay.test_links import alone

NAMES = st.sampled_from([b"a", b"b", b"c"])
PARTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"..", b"..", b"."]), min_size=1, max_size=5)
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map(tuple), PARTS, max_size=6)


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_link_resolution_matches_the_kernel(tree: dict[tuple[bytes, ...], list[bytes]]) -> None:
    with_room = {path: parts for path, parts in tree.items() if not any(path[:n] in tree for n in range(1, len(path)))}
    links = {b"/".join(path): b"/".join(parts) for path, parts in with_room.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "1/2/3/4/5/6/7/8/root")
        root.mkdir(parents=True)
        for path, target in links.items():
            place = os.path.join(os.fsencode(root), path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)
        for path in links:
            try:
                fd = os.open(os.path.join(os.fsencode(root), path), os.O_PATH)
            except OSError:
                continue  # the link is dangling or part of a loop
            real = os.readlink(f"/proc/self/fd/{fd}")
            os.close(fd)
            if not f"{real}/".startswith(f"{root}/"):
                assert alone(links, path)
            else:
                assert not alone(links, path)


BASE = {b"a": Node(DIRECTORY, mode=0o755), b"a/b": Node(SYMLINK, b"c/d"), b"key": Node(SYMLINK, b"a/b/../../secret")}


def leaving(tmp_path: Path, *marks: UpperEntry) -> set[bytes]:
    with EndedSession(tmp_path, BASE, list(marks)) as session:
        changes = session.changes().changes
    return {change.key.path for change in changes if "link-leaves" in {risk.rule for risk in change.risks}}


def test_a_link_through_a_link_of_the_user_out_of_the_root_is_risky(tmp_path: Path) -> None:
    marks = (UpperEntry(b"out", Node(SYMLINK, b"key/../../../x")), UpperEntry(b"in", Node(SYMLINK, b"key/x")))

    assert leaving(tmp_path, *marks) == {b"out"}


def test_a_link_that_redirects_a_link_of_the_user_outwards_is_risky(tmp_path: Path) -> None:
    folder = UpperEntry(b"a", Node(DIRECTORY, mode=0o755))

    assert leaving(tmp_path, folder, UpperEntry(b"a/b", Node(SYMLINK, b".."))) == {b"a/b"}
