"""New commits out of the agent's, made in the quarantine: rebased, merged, squashed, with trailers, signed by the user."""

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_dev.commits.agent_git import commits
from agent_dev.diff.merge3 import Side
from agent_dev.errors import CannotBring
from agent_dev.git import commit_message as message
from agent_dev.git import merge_tree_conflict as clash
from agent_dev.git import user_index as users_index
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Person, Told
from agent_dev.git.merge_tree_conflict import DIRECTORY, NOTHING, Answers, Blob, Clash, Tangle, has_marks
from agent_dev.merge_engine.journal import IndexMove
from agent_dev.sandbox import machine

_SIGNERS = {"openpgp": ("gpg.program", "gpg"), "ssh": ("gpg.ssh.program", "ssh-keygen"), "x509": ("gpg.x509.program", "gpgsm")}


class ConflictError(Exception):
    """Changes that are in each other's way: where, and the subject of the commit that brings them."""

    def __init__(self, tangle: Tangle, subject: str) -> None:
        super().__init__(subject)
        self.paths, self.clashes, self.subject = tangle.paths, tangle.clashes, subject


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes commits: where, as whom (`Name <email> seconds zone`), with which trailers, and how they are signed.

    `signing`: what git needs for that as configuration, empty when the user does not sign; `environ` the user's. `answers`:
    how conflicts are settled that were met before.
    """

    place: Bare
    author: bytes
    committer: bytes
    trailers: tuple[tuple[str, str], ...] = ()
    signing: tuple[tuple[str, str], ...] = ()
    environ: Mapping[str, str] | None = None
    answers: Answers = field(default_factory=dict)

    @property
    def changes_all(self) -> bool:
        """Whether every commit becomes another, even where it stands."""
        return bool(self.trailers or self.signing)


def signing(config: Mapping[str, str], environ: dict[str, str], untrusted: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the configuration with which git signs as the user does; nothing when the user does not.

    The program is the user's own, never one that lies where an agent could write. Raises CannotBring when there is none.
    """
    if config.get("commit.gpgsign", "false").lower() not in ("true", "yes", "on", "1"):
        return ()
    form = config.get("gpg.format", "openpgp")
    key, usual = _SIGNERS.get(form, _SIGNERS["openpgp"])
    name = config.get(key) or config.get(f"gpg.{form}.program") or usual
    program = machine.program(os.path.expanduser(name), environ, untrusted)
    if program is None:
        message = f"commit.gpgSign is set, and {name} is not there to sign"
        raise CannotBring(message=message, hint="git config commit.gpgSign false")
    kept = [(name, value) for name, value in config.items() if name.startswith("gpg.") or name == "user.signingkey"]
    return (*kept, (key, program))


def rebase(maker: Maker, picks: Sequence[Told], onto: str) -> str:
    """Make commits anew on another one, the oldest first; return the last. Raises ConflictError.

    What is in `onto` already is left out.
    """
    tip, tree = onto, _tree(maker.place, onto)
    for one in picks:
        parent = one.parents[0] if one.parents else ""
        parent_tree = _tree(maker.place, parent) if parent else ""
        new = one.tree if parent_tree == tree else _picked(maker, one, parent_tree, tree)
        if new == tree and one.tree != parent_tree:
            continue
        tip = _made(maker, new, (tip,), one)
        tree = new
    return tip


def rewrite(maker: Maker, told: Sequence[Told]) -> str:
    """Make commits anew where they stand, parents and all; return the last."""
    done: dict[str, str] = {}
    for one in told:
        done[one.id] = _made(maker, one.tree, tuple(done.get(parent, parent) for parent in one.parents), one)
    return done[told[-1].id]


def merge(maker: Maker, current: str, tip: str, words: bytes) -> str:
    """Make a merge of two commits, by the user. Raises ConflictError."""
    tree = _merged(maker, current, tip, "the merge")
    return write(maker, tree, (current, tip), maker.author, message.with_trailers(words, maker.trailers))


def squash(maker: Maker, tree: str, parent: str, words: bytes) -> str:
    """Make one commit of a tree, by the user."""
    return write(maker, tree, (parent,) if parent else (), maker.author, message.with_trailers(words, maker.trailers))


def _tree(place: Bare, commit: str) -> str:
    return commits.read(place, [commit])[0].tree


def _picked(maker: Maker, one: Told, parent_tree: str, tree: str) -> str:
    """Return the tree that a commit's change makes of another: by commits that only say what came from what."""
    nobody = b"agent-dev <agent-dev> 0 +0000"
    plain = Maker(maker.place, nobody, nobody)
    base = write(plain, parent_tree or _empty(maker.place), (), nobody, b"")
    mine = write(plain, tree, (base,), nobody, b"mine")
    theirs = write(plain, one.tree, (base,), nobody, b"theirs")
    return _merged(maker, mine, theirs, one.subject)


def _empty(place: Bare) -> str:
    return place.ask("hash-object", "-t", "tree", "-w", "--stdin").decode().strip()


def _merged(maker: Maker, mine: str, theirs: str, subject: str) -> str:
    words = ("merge-tree", "--write-tree", "-z", "--messages", "--allow-unrelated-histories", mine, theirs)
    code, said, why = maker.place.run(*words)
    if code not in (0, 1):
        raise CannotBring(message=f"git cannot merge in memory: {why}", hint="it takes git 2.38 or newer")
    if not code:
        return said.partition(b"\0")[0].decode("ascii").strip()
    tangle = _whole(maker.place, clash.parse(said), mine, theirs)
    if not tangle.clashes or not maker.answers.keys() >= set(tangle.clashes):
        raise ConflictError(tangle, subject)
    return _settled(maker, tangle)


def _whole(place: Bare, tangle: Tangle, mine: str, theirs: str) -> Tangle:
    """Return a tangle with the trees of directories that are in the way, and with a side's own file where git left marks.

    Nothing of it can be settled where that is not known: a directory that was renamed has the file elsewhere.
    """
    marked = {oid for oid in tangle.maybe_marked if has_marks(place.ask("cat-file", "blob", oid))}
    found = []
    for one in tangle.clashes:
        sides = [_of_side(place, commit, one.path, side, marked) for commit, side in ((mine, one.mine), (theirs, one.agent))]
        if any(side is None for side in sides):
            return replace(tangle, clashes=())
        is_own = not marked.isdisjoint((one.mine[1], one.agent[1]))
        found.append(replace(one, mine=sides[0] or NOTHING, agent=sides[1] or NOTHING, is_own=is_own))
    return replace(tangle, clashes=tuple(found))


def _of_side(place: Bare, commit: str, path: bytes, side: Blob, marked: set[str]) -> Blob | None:
    """Return what a side itself has where git only says: a directory, or made one file of two. None where it has none."""
    if side[0] != DIRECTORY and side[1] not in marked:
        return side
    head = place.ask("ls-tree", "-z", commit, "--", os.fsdecode(path)).split(b"\t")[0].split(b" ")
    mode, oid = (int(head[0], 8), head[2].decode("ascii")) if len(head) == 3 else (side[0], "")
    return (mode, oid) if oid or mode == DIRECTORY else None


def _settled(maker: Maker, tangle: Tangle) -> str:
    """Return the tree with what was answered in place of git's marks."""
    copy = users_index.Copy(maker.place, f"{maker.place.path}/settled", {})
    env = {"GIT_INDEX_FILE": copy.path}
    maker.place.ask("read-tree", tangle.tree, env=env)
    taken = frozenset(maker.place.ask("ls-files", "-z", env=env).split(b"\0"))
    moved: dict[bytes, Blob] = {}
    for one in tangle.clashes:
        moved |= clash.outcome(one, _answer(maker, one), taken)
    users_index.change(copy, tuple(IndexMove(path, NOTHING, blob) for path, blob in moved.items()))
    return maker.place.ask("write-tree", env=env).decode("ascii").strip()


def _answer(maker: Maker, one: Clash) -> Side | Blob:
    how = maker.answers[one]
    if isinstance(how, bytes):
        return one.mode, maker.place.ask("hash-object", "-w", "--stdin", question=how).decode("ascii").strip()
    return how


def _made(maker: Maker, tree: str, parents: tuple[str, ...], one: Told) -> str:
    encoding = next((value for name, value in one.headers if name == b"encoding"), b"")
    author = next((value for name, value in one.headers if name == b"author"), person(one.author))
    words = message.with_trailers(one.message, maker.trailers)
    return write(maker, tree, parents, author, words, encoding)


def person(one: Person) -> bytes:
    """Return a person as a commit names one."""
    return f"{one.name} <{one.email}> {one.time} {one.zone}".encode("utf-8", "surrogateescape")


def write(maker: Maker, tree: str, parents: tuple[str, ...], author: bytes, words: bytes, encoding: bytes = b"") -> str:
    """Write a commit into the quarantine; return its id."""
    if maker.signing:
        return _signed(maker, tree, parents, author, words)
    data = message.body(tree, parents, author, maker.committer, words, encoding)
    oid = commits.id_of(data, is_sha256=maker.place.is_sha256)
    folder = f"{maker.place.path}/objects/{oid[:2]}"
    os.makedirs(folder, 0o700, exist_ok=True)
    if not os.path.exists(f"{folder}/{oid[2:]}"):
        with open(f"{folder}/{oid[2:]}", "wb") as file:
            file.write(zlib.compress(b"commit %d\0" % len(data) + data, 1))
    return oid


def _signed(maker: Maker, tree: str, parents: tuple[str, ...], author: bytes, words: bytes) -> str:
    config = [word for key, value in maker.signing for word in ("-c", f"{key}={value}")]
    env = {name: value for name, value in (maker.environ or {}).items() if not name.startswith("GIT_")}
    for role, line in (("AUTHOR", author), ("COMMITTER", maker.committer)):
        who, _, when = line.rpartition(b"> ")
        name, _, email = who.partition(b" <")
        seconds, _, zone = when.partition(b" ")
        env |= {
            f"GIT_{role}_NAME": os.fsdecode(name),
            f"GIT_{role}_EMAIL": os.fsdecode(email),
            f"GIT_{role}_DATE": f"@{os.fsdecode(seconds)} {os.fsdecode(zone)}",
        }
    row = [word for parent in parents for word in ("-p", parent)]
    code, said, why = maker.place.run(*config, "commit-tree", "-S", *row, "-F", "-", tree, question=words, env=env)
    if code:
        hint = "git config commit.gpgSign false takes them unsigned"
        raise CannotBring(message=f"the commit could not be signed: {why}", hint=hint)
    return said.decode("ascii").strip()
