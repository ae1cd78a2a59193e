"""Bundles that no export writes are refused in one line, and nothing of them is left."""

import copy
import hashlib
import io
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_dev.bundle import importing, signature
from agent_dev.bundle.archive import SIGNATURE
from agent_dev.errors import AgentDevError, BadBundle
from agent_dev.fs import checksummed_json
from agent_dev.session.sessions import CommandContext
from tests.disk.bundle import bundles
from tests.disk.bundle.bundles import joined, with_manifest
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.program import tree
from tests.harness.scale import repeat, seeded_random
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

BEFORE: Tree = {b"d": Node(DIRECTORY, b"", 0o750), b"d/x": Node(FILE, b"x"), b"gone": Node(FILE, b"z")}
AFTER: Tree = {b"d": Node(DIRECTORY, b"", 0o750), b"d/x": Node(FILE, b"y"), b"new": Node(FILE, b"new")}
GIT: dict[str, Any] = {"root": 0, "format": "sha1", "before": {}, "after": {}, "size": 0, "digest": "0" * 64}
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def good(tmp_path: Path) -> bytes:
    """Return the bundle of a small session."""
    (tmp_path / "a").mkdir()
    with EndedSession(tmp_path / "a", BEFORE, trees.upper_of(BEFORE, AFTER)) as session:
        return bundles.exported(session)


@pytest.fixture
def context(tmp_path: Path) -> CommandContext:
    """Return the context of an importer."""
    (tmp_path / "root").mkdir()
    return bundles.context_at(tmp_path / "root", tmp_path / "state")


def entry(**values: object) -> Change:
    """Return a change that adds an entry to the upper layer."""

    def change(value: dict[str, Any]) -> None:
        digest = next(iter(value["blobs"]))
        row = {"path": "q", "type": "file", "mode": 420, "mtime": 0, "size": value["blobs"][digest], "digest": digest} | values
        value["roots"][0]["entries"].append({name: one for name, one in row.items() if one is not None})

    return change


def base(**values: object) -> Change:
    """Return a change that adds a base version."""
    return lambda value: value["roots"][0]["base"].append({"path": "q", "type": "file", "mode": 420, "size": 1, **values})


def ref(name: str, value: object = "a" * 40) -> Change:
    """Return a change that adds a ref of the agent."""
    return lambda manifest: manifest.update(git=[{**GIT, "after": {name: value}}])


def top(**values: object) -> Change:
    """Return a change of fields of the manifest."""
    return lambda value: value.update(values)


def session(name: str, field: object) -> Change:
    """Return a change of a field of the session's record."""
    return lambda value: value["session"].update({name: field})


PATHS = (
    "../x",
    "/etc/x",
    "a/../../x",
    "./x",
    "a//b",
    "",
    "x\0y",
    ".git/hooks/x",
    ".GIT/config",
    "d/.git/config",
    "y" * 300,
    "no/such/x",
    "\udc2e\udc2e/x",
    "d/",
    "/",
    ".",
    "..",
    "d/..",
    "new",
    "new/x",
    "gone/x",
    "a/" * 2100 + "x",
    "\ud800",
)
ENTRIES: tuple[dict[str, object], ...] = (
    {"type": "device"},
    {"type": "hardlink"},
    {"type": 7},
    {"type": None},
    {"mode": 0o170644},
    {"mode": -1},
    {"mode": True},
    {"mode": "644"},
    {"mode": 1.0},
    {"size": -1},
    {"size": 1 << 39},
    {"size": None},
    {"mtime": -1},
    {"mtime": 1 << 64},
    {"digest": "0" * 64},
    {"digest": "../x"},
    {"digest": None},
    {"digest": 3},
    {"target": "/etc"},
    {"opaque": True},
    {"opaque": 1},
    {"attributes": {"user.overlay.redirect": "2f"}},
    {"attributes": {"security.capability": "00"}},
    {"attributes": {"user.a": "0"}},
    {"attributes": {"user.a": "zz"}},
    {"attributes": {"trusted.overlay.opaque": "79"}},
    {"attributes": {"user.": ""}},
    {"attributes": []},
    {"attributes": {"user.a": 1}},
    {"attributes": {"system.posix_acl_access": "00"}},
    {"uid": 0},
    {"type": "symlink", "digest": None, "size": None},
    {"type": "symlink", "target": "", "digest": None, "size": None},
    {"type": "symlink", "target": "x\0y", "digest": None, "size": None},
    {"type": "whiteout"},
    {"type": "dir"},
    {"type": "symlink", "target": "x" * 5000, "digest": None, "size": None},
)
REFS = (
    "refs/heads/../x",
    "refs/heads/a..b",
    "refs/heads/x.lock",
    "HEAD/x",
    "refs/heads/-\n",
    "../x",
    "refs",
    "refs/",
    "ORIG_HEAD",
    "refs/heads/.x",
    "refs/heads/a//b",
    "refs/heads/-x",
    "refs/heads/" + "x" * 300,
    "refs/heads/a@{1}",
    "config",
)
SESSION: tuple[tuple[str, object], ...] = (
    ("exit", "0"),
    ("exit", 256),
    ("name", "../../x"),
    ("name", "a\nb"),
    ("name", "261121-030926-869c"),
    ("command", "sh"),
    ("command", [1]),
    ("started", []),
    ("root", "/"),
    ("policy", {"set": 1}),
    ("state", "merged"),
    ("agent_home", "/"),
    ("options", {}),
    ("git", {}),
    ("profile", "a/b"),
    ("is_command", 1),
    ("commands", {"count": -1, "chain": "", "dropped": 0}),
    ("rw", ["/"]),
    ("launcher", 1),
    ("stores", []),
)
TOP: tuple[dict[str, object], ...] = (
    {"version": 2},
    {"version": "1"},
    {"version": None},
    {"format": "x"},
    {"roots": []},
    {"roots": 7},
    {"roots": [{}]},
    {"blobs": []},
    {"git": 1},
    {"git": {}},
    {"logs": {"x": {}}},
    {"logs": []},
    {"made": {}},
    {"session": {}},
    {"more": 1},
    {"left_out": "x"},
    {"left_out": ["x" * 400]},
    {"task": {}},
    {"task": {"id": 1, "result": {}}},
    {"made": {"host": 1, "program": ""}},
    {"git": [{**GIT, "after": {"HEAD": "ref: ../../x"}}]},
    {"git": [{**GIT, "after": {"refs/heads/x": "a" * 39}}]},
    {"git": [{**GIT, "size": -1}]},
    {"git": [{**GIT, "format": "md5"}]},
    {"git": [{**GIT, "after": []}]},
)
BASES: tuple[dict[str, object], ...] = (
    {"path": "../x"},
    {"type": "whiteout"},
    {"size": -1},
    {"blob": "../x"},
    {"blob": "a" * 41},
    {"digest": "x"},
    {"path": ".git/x"},
    {"type": "dir", "blob": "a" * 40},
    {"opaque": True},
    {"path": "d"},
    {"attributes": {"user.overlay.x": ""}},
    {"stored": "x"},
)


def _blob(digest: str, size: object) -> Change:
    return lambda value: value["blobs"].update({digest: size})


def changes() -> Iterator[tuple[str, Change]]:
    """Yield changes of a good manifest that make it one that no export writes."""
    yield from ((f"path {path[:20]!a}", entry(path=path)) for path in PATHS)
    yield from ((f"entry {values!a:.60}", entry(**values)) for values in ENTRIES)
    yield from ((f"base {values!a:.60}", base(**values)) for values in BASES)
    yield from ((f"ref {name[:30]!a}", ref(name)) for name in REFS)
    yield from ((f"session {name} {value!a:.30}", session(name, value)) for name, value in SESSION)
    yield from ((f"top {values!a:.60}", top(**values)) for values in TOP)
    yield "a file of no path", _blob("1" * 64, 5)
    yield "a file name", _blob("../../x", 5)
    yield "a negative file", _blob("1" * 64, -5)
    yield "twice", lambda value: (entry()(value), entry()(value))
    yield (
        "through a link",
        lambda value: (entry(type="symlink", target="/tmp", digest=None, size=None)(value), entry(path="q/x")(value)),
    )


FORGED = tuple(changes())


def refuse(data: bytes, context: CommandContext, find_signer: importing.FindSigner = lambda *_: "somebody") -> str:
    """Import a bundle, which must be refused; return the message."""
    before = tree(Path(context.store.path)) if os.path.isdir(context.store.path) else {}
    with pytest.raises(AgentDevError) as error:
        bundles.imported(data, context, find_signer)
    after = tree(Path(context.store.path)) if os.path.isdir(context.store.path) else {}
    assert {path for path in after if path.count("/")} == {path for path in before if path.count("/")}
    assert "\n" not in error.value.message
    return error.value.message


def test_there_are_more_than_a_hundred_forged_ones() -> None:
    assert len(FORGED) > 100


def test_a_forged_manifest_is_refused(good: bytes, context: CommandContext) -> None:
    value = checksummed_json.loads(bundles.members(good)[0][1])
    for name, change in FORGED:
        changed = copy.deepcopy(value)
        change(changed)
        assert changed != value
        message = refuse(with_manifest(good, changed), context)
        assert ("the ref " if name.startswith("ref ") else "refused") in message, name


@pytest.mark.parametrize(("version", "side"), [(99, "here"), (0, "where it was made")])
def test_a_bundle_of_another_version_says_which_side_to_upgrade(
    good: bytes, context: CommandContext, version: int, side: str
) -> None:
    value = checksummed_json.loads(bundles.members(good)[0][1]) | {"version": version, "in_its_version": 1}
    assert refuse(with_manifest(good, value), context).endswith(
        f"version {version}, and this agent-dev reads 1: upgrade agent-dev {side}"
    )


def test_the_unchanged_one_is_accepted(good: bytes, context: CommandContext) -> None:
    bundles.imported(with_manifest(good, checksummed_json.loads(bundles.members(good)[0][1])), context)


def archives(good: bytes) -> Iterator[bytes]:
    """Yield archives that are not written as an export writes them."""
    parts = bundles.members(good)
    yield b""
    yield b"hello world" * 1000
    yield good + b"x"
    yield joined(parts[1:] + parts[:1])
    yield joined([*parts, parts[-1]])
    yield joined(parts[:-1])
    yield joined([parts[0], *reversed(parts[1:])])
    yield joined([*parts, ("blobs/" + "2" * 64, b"x")])
    yield joined([("manifest.json", b"[" * 100_000 + b"]" * 100_000), *parts[1:]])
    yield joined([("manifest.json", b"{"), *parts[1:]])
    yield joined([("manifest.json", b'{"check":"00000000",}'), *parts[1:]])
    for at, byte in ((0, b"."), (156, b"2"), (156, b"5"), (108, b"1"), (136, b"7"), (257, b"x"), (345, b"/")):
        yield good[:at] + byte + good[at + 1 :]


def test_a_forged_archive_is_refused(good: bytes, context: CommandContext) -> None:
    for data in archives(good):
        refuse(data, context)


def test_a_flipped_or_cut_bundle_is_refused(good: bytes, context: CommandContext) -> None:
    chance = seeded_random()
    for _ in range(repeat(1000)):
        changed = bytearray(good)
        if chance.random() < 0.8:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        else:
            del changed[chance.randrange(len(changed)) :]
        refuse(bytes(changed), context)


def test_a_signed_bundle_that_was_flipped_is_refused(good: bytes, context: CommandContext, tmp_path: Path) -> None:
    find_signer, data = signed(good, tmp_path)
    chance = seeded_random()
    assert importing.open_bundle(io.BytesIO(data), find_signer).signer == "ada@here"
    for _ in range(repeat(250)):
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        refuse(bytes(changed), context, find_signer)


def signed(good: bytes, folder: Path) -> tuple[importing.FindSigner, bytes]:
    """Return a bundle with a signature of an allowed signer, and the function that finds the signer."""
    key, environ = folder / "key", {"PATH": os.environ["PATH"]}
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "signers").write_text(f"ada@here {(folder / 'key.pub').read_text()}")
    config = {"user.signingkey": str(key), "gpg.ssh.allowedsignersfile": str(folder / "signers")}
    program = signature.find_ssh_keygen(environ, ())
    parts = bundles.members(good)
    made = signature.sign(parts[0][1], config, program, environ)
    data = joined([parts[0], (SIGNATURE, made), *parts[1:]])
    return cache(lambda data, found: signature.find_signer(data, found, config, program, environ)), data


def test_a_bundle_larger_than_the_free_space_writes_nothing(good: bytes, context: CommandContext) -> None:
    value = checksummed_json.loads(bundles.members(good)[0][1])
    digest = next(iter(value["blobs"]))
    for row in (one for one in value["roots"][0]["entries"] if one.get("digest") == digest):
        row["size"] = 1 << 39
    value["blobs"][digest] = 1 << 39
    assert "free" in refuse(with_manifest(good, value), context)
    assert not os.path.exists(context.store.path)


def test_many_files_with_one_large_content_count_each(good: bytes, context: CommandContext) -> None:
    value = checksummed_json.loads(bundles.members(good)[0][1])
    value["blobs"][digest := next(iter(value["blobs"]))] = size = 1 << 33
    rows = value["roots"][0]["entries"]
    for row in (one for root in value["roots"] for one in (*root["entries"], *root["base"]) if one.get("digest") == digest):
        row["size"] = size
    rows += [{"path": f"q{n}", "type": "file", "mode": 420, "mtime": 0, "size": size, "digest": digest} for n in range(2000)]
    assert "free" in refuse(with_manifest(good, value), context)
    assert not os.path.exists(context.store.path)


def test_a_content_of_no_path_is_refused(good: bytes, context: CommandContext) -> None:
    parts = bundles.members(good)
    value = checksummed_json.loads(parts[0][1])
    digest = hashlib.sha256(b"of no path").hexdigest()
    value["blobs"] = dict(sorted({**value["blobs"], digest: 10}.items()))
    contents = sorted([*parts[1:], (f"blobs/{digest}", b"of no path")], key=lambda part: (part[0].startswith("blobs/"), part[0]))
    assert "belong to no path" in refuse(with_manifest(joined([parts[0], *contents]), value), context)


def test_a_wrong_content_is_refused(good: bytes, context: CommandContext) -> None:
    parts = bundles.members(good)
    wrong = [(name, data[::-1] + b"" if name.startswith("blobs/") else data) for name, data in parts]
    with pytest.raises(BadBundle):
        bundles.imported(joined(wrong), context)
