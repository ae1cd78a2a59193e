"""A merge plan carried out on real files: what arrives, what is kept, and what nothing can make it do."""

import errno
import os
import select
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from agent_dev.core.changes import Entry, FileType, Key
from agent_dev.core.journal import Act
from agent_dev.core.merge import MakeFolder, MergePlan, Prune, Put, Remove, SetMode, Step
from agent_dev.errors import CannotMerge
from agent_dev.host import apply, files, journals, kernel, secure, staging
from agent_dev.host.apply import Grounds
from agent_dev.host.stage import choose
from agent_dev.host.store import Store
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node, Tree
from tests.harness.users import as_ordinary, open_place, with_own_mounts

MIB = 1 << 20


@dataclass
class Applied:
    """What a merge did: taken keys, those that were stopped, the slots of what was replaced."""

    taken: list[Key]
    stopped: dict[Key, str]
    kept: dict[Key, str]


class World:
    """A real tree, an upper beside it, and a merge's own folder in a state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.real, self.upper, self.merge = folder / "real", folder / "upper", self.state / "merges/1"
        for path in (self.real, self.upper, self.merge.parent):
            path.mkdir(parents=True, exist_ok=True)
        self.places: tuple[str, ...] = (f"{self.merge}/stage-0",)
        self._real, self._upper = files.Tree(str(self.real)), files.Tree(str(self.upper))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._real.close()
        self._upper.close()

    def now(self, path: str) -> Entry:
        """Return what stands in the real tree."""
        entry = self._real.look(os.fsencode(path))
        assert entry is not None, path
        return entry

    def new(self, path: str) -> Entry:
        """Return what the agent left."""
        entry = self._upper.look(os.fsencode(path))
        assert entry is not None, path
        return entry

    def add(self, path: str) -> Put:
        return Put(key(path), self.new(path), None)

    def put(self, path: str) -> Put:
        return Put(key(path), self.new(path), self.now(path))

    def remove(self, path: str) -> Remove:
        return Remove(key(path), self.now(path))

    def apply(self, *steps: Step) -> Applied:
        plan = MergePlan(steps, tuple(step.key for step in steps), (), ())
        place, grounds = Store(str(self.state)), Grounds((self._upper,), (self._real,), (self.places,))
        merging = apply.begin(place, "1", "session", grounds, {0})
        try:
            reached = apply.carry_out(merging, staging.stage(merging, plan, grounds.uppers)[0], (), is_atomic=False)
            ops = merging.journal.ops
            if merging.journal.phases:
                secure.secure(merging)
            assert merging.journal == journals.read(merging.folder)  # what we think is what a later command reads
        except BaseException:
            apply.forget(place, "1", merging.journal.places)
            raise
        finally:
            merging.close()
        stopped = {ops[number].key: why for number, why in reached.stopped.items() if why}
        done = [op for number, op in enumerate(ops) if number not in reached.stopped]
        kept = {op.key: op.slot for op in done if op.old and op.slot and op.act is not Act.PRUNE}
        return Applied([key for key in plan.taken if key not in stopped], stopped, kept)

    def kept(self, done: Applied, path: str) -> Path:
        return self.merge / "stage-0" / done.kept[key(path)]


def key(path: str) -> Key:
    return Key(0, os.fsencode(path))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


@pytest.fixture(autouse=True)
def nothing_of_ours_stays(world: World) -> Iterator[None]:
    """No test leaves a stage, a probe or an overlay attribute in the real tree."""
    yield
    left = [path for path in world.real.rglob("*") if path.name.startswith((".agent-dev", "probe"))]
    marked = [
        path for path in world.real.rglob("*") if not path.is_symlink() and any("overlay" in name for name in os.listxattr(path))
    ]
    assert (left, marked) == ([], [])
    assert not world.merge.exists() or {path.name for path in world.merge.iterdir()} <= {"journal", "results", "stage-0"}


SORTS = {
    FILE: Node(FILE, b"content", 0o640),
    SYMLINK: Node(SYMLINK, b"../elsewhere", 0o777),
    FIFO: Node(FIFO, b"", 0o600),
    DIRECTORY: Node(DIRECTORY, b"", 0o750),
}
OTHERS = {FILE: Node(FILE, b"old", 0o600), SYMLINK: Node(SYMLINK, b"/etc/passwd", 0o777), FIFO: Node(FIFO, b"", 0o644)} | {
    DIRECTORY: Node(DIRECTORY, b"", 0o700)
}


def place(folder: Path, tree: dict[str, Node]) -> None:
    trees.write(folder, {os.fsencode(path): node for path, node in tree.items()})


def tree_of(folder: Path) -> Tree:
    return trees.read(folder)


# --- each step ---


@pytest.mark.parametrize("kind", SORTS)
def test_an_addition_arrives_as_the_agent_left_it(world: World, kind: FileType) -> None:
    place(world.upper, {"x": SORTS[kind]})
    done = world.apply(world.add("x"))

    assert tree_of(world.real) == {b"x": SORTS[kind]}
    assert (done.taken, done.stopped, done.kept) == ([key("x")], {}, {})


@pytest.mark.parametrize("before", SORTS)
@pytest.mark.parametrize("after", SORTS)
def test_anything_can_take_the_place_of_anything(world: World, before: FileType, after: FileType) -> None:
    place(world.real, {"x": OTHERS[before]})
    place(world.upper, {"x": SORTS[after]})
    done = world.apply(world.put("x"))

    assert tree_of(world.real) == {b"x": SORTS[after]}
    assert done.stopped == {}


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_what_was_replaced_is_kept(world: World, kind: FileType) -> None:
    place(world.real, {"x": OTHERS[kind]})
    place(world.upper, {"x": SORTS[FILE]})
    done = world.apply(world.put("x"))

    assert tree_of(world.merge / "stage-0") == {done.kept[key("x")].encode(): OTHERS[kind]}


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_what_was_removed_is_gone_and_kept(world: World, kind: FileType) -> None:
    place(world.real, {"x": OTHERS[kind], "y": SORTS[FILE]})
    done = world.apply(world.remove("x"))

    assert tree_of(world.real) == {b"y": SORTS[FILE]}
    assert tree_of(world.merge / "stage-0") == {done.kept[key("x")].encode(): OTHERS[kind]}


def test_an_empty_directory_is_removed(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY]})
    world.apply(world.remove("x"))

    assert tree_of(world.real) == {}


def test_a_directory_that_is_not_empty_is_not_removed(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/mine": SORTS[FILE]})
    done = world.apply(world.remove("x"))

    assert key("x") in done.stopped
    assert set(tree_of(world.real)) == {b"x", b"x/mine"}


def test_new_directories_are_made_with_their_modes(world: World) -> None:
    place(world.upper, {"a": SORTS[DIRECTORY], "a/b": OTHERS[DIRECTORY], "a/b/x": SORTS[FILE]})
    agents = tree_of(world.upper)
    world.apply(MakeFolder(key("a"), 0o750), MakeFolder(key("a/b"), 0o700), world.add("a/b/x"))

    assert tree_of(world.real) == agents


def test_a_directory_that_is_there_already_is_left_as_it_is(world: World) -> None:
    place(world.real, {"a": SORTS[DIRECTORY]})
    done = world.apply(MakeFolder(key("a"), 0o700))

    assert (tree_of(world.real), done.stopped) == ({b"a": SORTS[DIRECTORY]}, {})


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO])
def test_what_stands_where_a_directory_belongs_stays(world: World, kind: FileType) -> None:
    place(world.real, {"a": SORTS[kind]})
    place(world.upper, {"a": SORTS[DIRECTORY], "a/x": SORTS[FILE]})
    done = world.apply(MakeFolder(key("a"), 0o700), world.add("a/x"))

    assert tree_of(world.real) == {b"a": SORTS[kind]}
    assert set(done.stopped) == {key("a"), key("a/x")}


def test_a_directory_that_is_empty_now_is_pruned(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY], "d/e/x": SORTS[FILE]})
    world.apply(world.remove("d/e/x"), Prune(key("d/e")), Prune(key("d")))

    assert tree_of(world.real) == {}


def test_a_directory_with_something_of_the_users_is_not_pruned(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/mine": SORTS[FILE], "d/x": SORTS[FILE]})
    done = world.apply(world.remove("d/x"), Prune(key("d")))

    assert set(tree_of(world.real)) == {b"d", b"d/mine"}
    assert done.stopped == {}


def test_a_mode_is_set_on_the_directory_alone(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY], "d/x": SORTS[FILE]})
    place(world.upper, {"d": OTHERS[DIRECTORY]})
    world.apply(SetMode(key("d"), world.new("d"), world.now("d")))

    assert tree_of(world.real) == {b"d": OTHERS[DIRECTORY], b"d/x": SORTS[FILE]}


def test_a_mode_that_the_user_changed_meanwhile_stays(world: World) -> None:
    place(world.real, {"d": SORTS[DIRECTORY]})
    place(world.upper, {"d": OTHERS[DIRECTORY]})
    step = SetMode(key("d"), world.new("d"), world.now("d"))
    (world.real / "d").chmod(0o711)
    done = world.apply(step)

    assert (world.real / "d").stat().st_mode & 0o7777 == 0o711
    assert key("d") in done.stopped


def test_a_file_becomes_a_directory_with_contents(world: World) -> None:
    place(world.real, {"x": SORTS[FILE]})
    place(world.upper, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    world.apply(world.put("x"), world.add("x/y"))

    assert tree_of(world.real) == {b"x": SORTS[DIRECTORY], b"x/y": SORTS[FILE]}


def test_a_directory_with_contents_becomes_a_file(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.remove("x/y"), world.put("x"))

    assert tree_of(world.real) == {b"x": SORTS[FILE]}


def test_a_directory_that_the_user_put_something_into_does_not_become_a_file(world: World) -> None:
    place(world.real, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    steps = (world.remove("x/y"), world.put("x"))
    place(world.real, {"x/mine": OTHERS[FILE]})
    done = world.apply(*steps)

    assert tree_of(world.real) == {b"x": SORTS[DIRECTORY], b"x/mine": OTHERS[FILE]}
    assert key("x") in done.stopped


@pytest.mark.parametrize("name", [b"\n", b"\xff\xfe", b" ", b"-rf", b".wh.x", b"0", b"gone", b"probe", b"a" * 255])
def test_any_name_arrives(world: World, name: bytes) -> None:
    trees.write(world.upper, {name: SORTS[FILE]})
    world.apply(world.add(os.fsdecode(name)))
    arrived = tree_of(world.real)
    os.unlink(os.path.join(os.fsencode(world.real), name))

    assert arrived == {name: SORTS[FILE]}


# --- what a copy keeps and what it loses ---


@pytest.mark.parametrize("kind", [FILE, DIRECTORY, FIFO])
@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o1000, 0o7000])
def test_special_bits_never_arrive(world: World, kind: FileType, bits: int) -> None:
    place(world.upper, {"x": SORTS[kind]})
    (world.upper / "x").chmod(bits | 0o755)
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o444, 0o777])
def test_a_mode_arrives_whatever_the_umask(world: World, mode: int) -> None:
    place(world.upper, {"x": Node(FILE, b"x", mode)})
    before = os.umask(0o077)
    try:
        world.apply(world.add("x"))
    finally:
        os.umask(before)

    assert (world.real / "x").stat().st_mode & 0o7777 == mode


def test_a_files_mtime_arrives_to_the_nanosecond(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.utime(world.upper / "x", ns=(1, 1_234_567_890_123_456_789))
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mtime_ns == 1_234_567_890_123_456_789


def test_own_attributes_arrive_and_the_overlays_do_not(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    for name in ("user.note", "user.overlay.origin", "user.overlay.overlay.opaque"):
        os.setxattr(world.upper / "x", name, b"1")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == ["user.note"]


ACCESS = [(0x01, 6, -1), (0x02, 6, 1), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]  # acl(5): tag, permissions, id


@pytest.mark.parametrize("links", [1, 2], ids=["moved", "copied"])
def test_an_access_list_of_the_agents_does_not_arrive(world: World, links: int) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    entries = b"".join(struct.pack("<HHi", *entry) for entry in ACCESS)
    os.setxattr(world.upper / "x", "system.posix_acl_access", struct.pack("<I", 2) + entries)
    if links == 2:
        os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == []
    assert (world.real / "x").read_bytes() == b"content"


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_bytes_arrive_whatever_their_number(world: World, size: int) -> None:
    data = os.urandom(size)
    place(world.upper, {"x": Node(FILE, data)})
    world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == data


@pytest.mark.parametrize("islands", [(), (0,), (64 * MIB,), (0, 7 * MIB, 64 * MIB)])
def test_holes_stay_holes(world: World, islands: tuple[int, ...]) -> None:
    size = 65 * MIB
    with open(world.upper / "x", "xb") as file:
        for place_of_data in islands:
            file.seek(place_of_data)
            file.write(b"data")
        file.truncate(size)
    world.apply(world.add("x"))
    arrived = (world.real / "x").stat()

    assert arrived.st_size == size
    assert arrived.st_blocks * 512 <= MIB
    with open(world.real / "x", "rb") as file:
        for place_of_data in islands:
            file.seek(place_of_data)
            assert file.read(5) == b"data\0"


def test_what_arrives_shares_no_inode_with_the_session(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"), world.add("twin"))
    (world.upper / "x").write_bytes(b"later")

    assert (world.real / "x").read_bytes() == (world.real / "twin").read_bytes() == b"content"


# --- links, hard and soft, of the real tree ---


def test_the_twin_of_a_replaced_hard_link_is_not_written_to(world: World, tmp_path: Path) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    os.link(world.real / "x", tmp_path / "twin")
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.put("x"))

    assert (tmp_path / "twin").read_bytes() == b"old"
    assert (world.real / "x").read_bytes() == b"content"


def test_what_is_kept_of_a_hard_link_does_not_change_with_its_twin(world: World, tmp_path: Path) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    os.link(world.real / "x", tmp_path / "twin")
    place(world.upper, {"x": SORTS[FILE]})
    done = world.apply(world.put("x"))
    (tmp_path / "twin").write_bytes(b"later")

    assert world.kept(done, "x").read_bytes() == b"old"


def test_replacing_a_link_writes_nothing_where_it_points(world: World, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    (world.real / "x").symlink_to("../outside")
    place(world.upper, {"x": SORTS[FILE]})
    world.apply(world.put("x"))

    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert not (world.real / "x").is_symlink()


STEPS_BELOW_D: dict[str, Callable[[World], Step]] = {
    "add": lambda world: world.add("top/d/new"),
    "replace": lambda world: world.put("top/d/x"),
    "remove": lambda world: world.remove("top/d/x"),
    "remove a directory": lambda world: world.remove("top/d/e"),
    "make a directory": lambda _: MakeFolder(key("top/d/made"), 0o755),
    "prune": lambda _: Prune(key("top/d/e")),
    "set a mode": lambda world: SetMode(key("top/d/e"), world.new("top/d/e"), world.now("top/d/e")),
}


def step_below_d(world: World, step: str) -> Step:
    real = {"top": SORTS[DIRECTORY], "top/d": SORTS[DIRECTORY], "top/d/x": OTHERS[FILE], "top/d/e": SORTS[DIRECTORY]}
    place(world.real, real)
    place(world.upper, {**real, "top/d/x": SORTS[FILE], "top/d/new": SORTS[FILE], "top/d/e": OTHERS[DIRECTORY]})
    return STEPS_BELOW_D[step](world)


@pytest.mark.parametrize("step", STEPS_BELOW_D)
@pytest.mark.parametrize("moved", ["top", "top/d"])
@pytest.mark.parametrize("absolute", [False, True])
def test_nothing_happens_through_a_directory_that_became_a_link(
    *, world: World, tmp_path: Path, step: str, moved: str, absolute: bool
) -> None:
    made = step_below_d(world, step)
    outside = tmp_path / "outside"
    (world.real / moved).rename(outside)
    (world.real / moved).symlink_to(outside if absolute else os.path.relpath(outside, (world.real / moved).parent))
    before = tree_of(outside)
    with World(tmp_path) as again:  # a merge opens the tree anew
        done = again.apply(made)

    assert tree_of(outside) == before
    assert (world.real / moved).is_symlink()
    assert list(done.stopped) == ([] if isinstance(made, Prune) else [made.key])  # nothing is there to be pruned


@pytest.mark.parametrize("step", STEPS_BELOW_D)
@pytest.mark.parametrize("moved", ["top", "top/d"])
def test_nothing_happens_on_a_mount_that_came_meanwhile(world: World, tmp_path: Path, step: str, moved: str) -> None:
    made = step_below_d(world, step)

    def act() -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        place(
            outside,
            {"d": SORTS[DIRECTORY], "d/x": OTHERS[FILE], "x": OTHERS[FILE], "e": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY]},
        )
        before = tree_of(outside)
        kernel.mount(str(outside), str(world.real / moved), None, 0x1000)
        with World(tmp_path) as again:
            done = again.apply(made)

        assert tree_of(outside) == before
        assert list(done.stopped) == ([] if isinstance(made, Prune) else [made.key])  # nothing is there to be pruned

    with_own_mounts(act)


def test_a_link_that_points_inside_is_not_followed_either(world: World) -> None:
    place(world.real, {"target": SORTS[DIRECTORY], "d": Node(SYMLINK, b"target")})
    place(world.upper, {"d": SORTS[DIRECTORY], "d/x": SORTS[FILE]})
    done = world.apply(world.add("d/x"))

    assert set(tree_of(world.real)) == {b"target", b"d"}
    assert list(done.stopped) == [key("d/x")]


# --- the user goes on working ---


def test_something_that_came_where_an_addition_goes_stays(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    place(world.real, {"x": OTHERS[FILE]})
    done = world.apply(world.add("x"), world.add("y"))

    assert tree_of(world.real) == {b"x": OTHERS[FILE], b"y": SORTS[FILE]}
    assert done.stopped == {key("x"): "something was put there meanwhile"}
    assert done.taken == [key("y")]


def edit_in_place(path: Path) -> None:
    path.write_bytes(b"the user's")


def replace_by_rename(path: Path) -> None:
    other = path.with_name("saving")
    other.write_bytes(b"the user's")
    other.rename(path)


def turn_into_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def turn_into_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("the user's")


DEEDS = [edit_in_place, replace_by_rename, turn_into_a_directory, turn_into_a_link]


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_did_between_plan_and_merge_stays(world: World, deed: Callable[[Path], None], step: str) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (getattr(world, step)("x"), world.put("y"))
    deed(world.real / "x")
    mine = tree_of(world.real)[b"x"]
    done = world.apply(*steps)

    assert tree_of(world.real) == {b"x": mine, b"y": SORTS[FILE]}
    assert list(done.stopped) == [key("x")]
    assert done.taken == [key("y")]


@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_removed_meanwhile_stays_removed(world: World, step: str) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    (world.real / "x").unlink()
    done = world.apply(made)

    assert tree_of(world.real) == {}
    assert list(done.stopped) == [key("x")]


class LastInstant:
    """Do something just before or after a merge's own renames of one name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self._name, self._real = name, kernel.rename
        monkeypatch.setattr(kernel, "rename", self)

    def __call__(self, old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int = 0) -> None:
        is_sessions = os.readlink(f"/proc/self/fd/{old_folder}").endswith("/upper")
        if self._name not in (old, new) or is_sessions:
            self._real(old_folder, old, new_folder, new, flags)
            return
        if self.before:
            self.before.pop(0)()
        self._real(old_folder, old, new_folder, new, flags)
        if self.after:
            self.after.pop(0)()


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("step", ["put", "remove"])
def test_what_the_user_did_in_the_last_instant_stays(
    world: World, monkeypatch: pytest.MonkeyPatch, deed: Callable[[Path], None], step: str
) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = getattr(world, step)("x")
    LastInstant(monkeypatch, b"x").before.append(lambda: deed(world.real / "x"))
    done = world.apply(made)
    after = tree_of(world.real)[b"x"]

    assert after.type is DIRECTORY or after.content == b"the user's"
    assert list(done.stopped) == [key("x")]
    assert done.kept == {}


def test_a_new_file_that_came_in_the_last_instant_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    LastInstant(monkeypatch, b"x").before.append(lambda: (world.real / "x").write_bytes(b"the user's"))
    done = world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == b"the user's"
    assert list(done.stopped) == [key("x")]


def all_bytes(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_of_two_saves_around_an_exchange_the_later_stays_and_the_earlier_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    made = world.put("x")
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: (world.real / "x").write_bytes(b"first save"))
    instant.after.append(
        lambda: ((world.real / "saving").write_bytes(b"second save"), (world.real / "saving").rename(world.real / "x"))
    )
    done = world.apply(made)

    assert (world.real / "x").read_bytes() == b"second save"
    assert b"first save" in all_bytes(world.merge)
    assert list(done.stopped) == [key("x")]


def test_of_two_saves_around_a_removal_both_are_kept_and_the_next_removal_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    steps = (world.remove("x"), world.remove("y"))
    instant = LastInstant(monkeypatch, b"x")
    instant.before.append(lambda: (world.real / "x").write_bytes(b"first save"))
    instant.after.append(lambda: (world.real / "x").write_bytes(b"second save"))
    done = world.apply(*steps)

    assert (world.real / "x").read_bytes() == b"second save"
    assert b"first save" in all_bytes(world.merge)
    assert (list(done.stopped), done.taken) == ([key("x")], [key("y")])


# --- what a reader sees meanwhile ---


class Watcher:
    """A process that looks over and over until the merge is over, and tells what it saw: a thread would wait its turn."""

    def __init__(self, look: Callable[[], set[str]]) -> None:
        self._look = look
        self.seen: set[str] = set()

    def __enter__(self) -> Self:
        self._told, told = os.pipe()
        over, self._over = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._over)
            self._run(told, over)
        os.close(told)
        os.close(over)
        os.read(self._told, 1)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._over)
        with os.fdopen(self._told, "rb") as file:
            self.seen = {os.fsdecode(name) for name in file.read().split(b"\0")} - {""}
        os.waitpid(self._pid, 0)

    def _run(self, told: int, over: int) -> None:
        seen: set[str] = set()
        try:
            os.write(told, b"\0")
            while not select.select([over], [], [], 0)[0]:
                for _ in range(50):
                    seen |= self._look()
            os.write(told, b"\0".join(map(os.fsencode, seen)))
        finally:
            os._exit(0)


@pytest.mark.parametrize("before", [FILE, SYMLINK, DIRECTORY])
@pytest.mark.parametrize("after", [FILE, SYMLINK, DIRECTORY])
def test_a_replaced_path_is_never_absent(world: World, before: FileType, after: FileType) -> None:
    names = [f"x{number}" for number in range(40)]
    place(world.real, dict.fromkeys(names, OTHERS[before]))
    place(world.upper, dict.fromkeys(names, SORTS[after]))
    steps = [world.put(name) for name in names]
    watched = names[20:24]
    watcher = Watcher(lambda: {name for name in watched if not os.path.lexists(world.real / name)})
    with watcher:
        done = world.apply(*steps)

    assert (watcher.seen, done.stopped) == (set(), {})


def test_a_replaced_file_is_always_whole(world: World) -> None:
    names = [f"x{number}" for number in range(20)]
    place(world.real, dict.fromkeys(names, Node(FILE, b"a" * 4096)))
    place(world.upper, dict.fromkeys(names, Node(FILE, b"b" * 4096)))
    steps = [world.put(name) for name in names]

    def look() -> set[str]:
        data = (world.real / "x10").read_bytes()
        return {f"{len(data)} {sorted(set(data))}"}

    watcher = Watcher(look)
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {f"4096 {[ord('a')]}", f"4096 {[ord('b')]}"}


def test_no_name_is_ever_seen_but_what_was_and_what_comes(world: World) -> None:
    names = [f"x{number}" for number in range(60)]
    place(world.real, dict.fromkeys(names, OTHERS[FILE]))
    place(world.upper, dict.fromkeys([*names, "new"], SORTS[FILE]))
    steps: list[Step] = [
        *(world.put(name) for name in names[:40]),
        *(world.remove(name) for name in names[40:]),
        world.add("new"),
    ]
    watcher = Watcher(lambda: set(os.listdir(world.real)))
    with watcher:
        world.apply(*steps)

    assert watcher.seen <= {*names, "new"}


# --- where content is staged ---


def staged_in(world: World, *candidates: Path) -> Path | None:
    with World(world.folder) as again:
        found = choose(tuple(map(str, candidates)), again._real)
    return Path(found) if found else None


def test_the_first_place_that_a_rename_reaches_is_taken(world: World) -> None:
    place(world.real, {"x": SORTS[FILE]})

    assert staged_in(world, world.folder / "one", world.folder / "two") == world.folder / "one"
    assert not (world.folder / "two").exists()
    assert not (world.folder / "one").exists()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_place_on_another_file_system_is_passed_over(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        far = world.folder / "far"
        far.mkdir()
        kernel.mount("tmpfs", str(far), "tmpfs", 0)

        assert staged_in(world, far / "stage", world.folder / "near") == world.folder / "near"
        assert list(far.iterdir()) == []

    with_own_mounts(act)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_place_on_another_mount_of_the_same_file_system_is_passed_over(*, world: World, is_empty: bool) -> None:
    if not is_empty:
        place(world.real, {"x": SORTS[FILE]})

    def act() -> None:
        (world.folder / "far").mkdir()
        (world.folder / "bound").mkdir()
        kernel.mount(str(world.folder / "far"), str(world.folder / "bound"), None, 0x1000)
        assert (world.folder / "bound").stat().st_dev == world.real.stat().st_dev

        assert staged_in(world, world.folder / "bound/stage", world.folder / "near") == world.folder / "near"

    with_own_mounts(act)


def test_a_merge_whose_own_folder_is_on_another_file_system_is_the_same(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE], "l": OTHERS[SYMLINK], "p": OTHERS[FIFO], "gone": Node(FILE, b"away", 0o4640)})
    place(world.upper, {"x": SORTS[FILE], "l": SORTS[FILE], "p": SORTS[FILE], "new": SORTS[FILE]})

    def act() -> None:
        kernel.mount("tmpfs", str(world.state), "tmpfs", 0)
        with World(world.folder) as again:
            again.places = (f"{again.merge}/stage-0", f"{again.folder}/near")
            steps: list[Step] = [again.put("x"), again.put("l"), again.put("p"), again.remove("gone"), again.add("new")]
            done = again.apply(*steps)

            assert done.stopped == {}
            assert set(tree_of(again.real)) == {b"x", b"l", b"p", b"new"}
            kept = tree_of(again.merge / "stage-0")
            assert {path: kept[done.kept[key(path)].encode()] for path in ("x", "l", "p")} == {
                "x": OTHERS[FILE],
                "l": OTHERS[SYMLINK],
                "p": OTHERS[FIFO],
            }
            assert again.kept(done, "gone").read_bytes() == b"away"
            assert not (again.folder / "near").exists()

    with_own_mounts(act)


def test_without_a_place_nothing_is_touched_and_the_reason_is_told(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE]})
    world.places = (str(world.folder / "x/y"),)
    (world.folder / "x").touch()

    with pytest.raises(CannotMerge, match="no place"):
        world.apply(world.put("x"))
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}


# --- when something fails ---


def test_a_file_of_the_agents_that_cannot_be_copied_stops_everything_before_anything_is_touched(world: World) -> None:
    place(world.real, {"x": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = (world.put("x"), world.add("y"))
    (world.upper / "y").unlink()

    with pytest.raises(CannotMerge, match="nothing was changed"):
        world.apply(*steps)
    assert tree_of(world.real) == {b"x": OTHERS[FILE]}


def test_a_link_that_took_the_place_of_the_agents_file_is_not_copied_through(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    (world.upper / "x").symlink_to("/etc/passwd")

    with pytest.raises(CannotMerge):
        world.apply(step)
    assert tree_of(world.real) == {}


def test_a_fifo_that_took_the_place_of_the_agents_file_hangs_nothing(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    step = world.add("x")
    (world.upper / "x").unlink()
    os.mkfifo(world.upper / "x")
    try:
        world.apply(step)
    except CannotMerge:
        assert tree_of(world.real) == {}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_failing_disk_ends_the_merge_and_all_is_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    names = ("x", "y", "z")
    place(world.real, dict.fromkeys(names, OTHERS[FILE]))
    place(world.upper, dict.fromkeys(names, SORTS[FILE]))
    steps = [world.put(name) for name in names]

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    LastInstant(monkeypatch, b"y").before.append(fail)
    with pytest.raises(CannotMerge, match="nothing was changed"):
        world.apply(*steps)

    assert tree_of(world.real) == dict.fromkeys((b"x", b"y", b"z"), OTHERS[FILE])


def test_one_path_that_fails_by_itself_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place(world.real, {"x": OTHERS[FILE], "y": OTHERS[FILE]})
    place(world.upper, {"x": SORTS[FILE], "y": SORTS[FILE]})
    steps = [world.put("x"), world.put("y")]

    def fail() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    LastInstant(monkeypatch, b"x").before.append(fail)
    done = world.apply(*steps)

    assert (done.taken, set(done.stopped)) == ([key("y")], {key("x")})


def test_a_real_directory_that_cannot_be_written_stops_what_is_in_it() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"closed": SORTS[DIRECTORY], "closed/x": OTHERS[FILE], "y": OTHERS[FILE]})
            place(world.upper, {"closed": SORTS[DIRECTORY], "closed/x": SORTS[FILE], "y": SORTS[FILE]})
            (world.real / "closed").chmod(0o555)
            done = world.apply(world.put("closed/x"), world.put("y"))

            assert {one: why.endswith("Permission denied") for one, why in done.stopped.items()} == {key("closed/x"): True}
            assert (world.real / "closed/x").read_bytes() == b"old"
            assert (world.real / "y").read_bytes() == b"content"

    with open_place() as folder:
        as_ordinary(act)


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o000, 0o111])
def test_an_empty_directory_that_nobody_may_write_to_arrives(mode: int) -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": Node(DIRECTORY, b"", mode)})
            done = world.apply(world.add("d"))

            assert done.stopped == {}
            assert (world.real / "d").stat().st_mode & 0o7777 == mode

    with open_place() as folder:
        as_ordinary(act)


def test_a_directory_that_nobody_may_write_to_arrives_with_its_contents() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.upper, {"d": SORTS[DIRECTORY], "d/e": SORTS[DIRECTORY], "d/e/x": SORTS[FILE], "d/y": SORTS[FILE]})
            done = world.apply(MakeFolder(key("d"), 0o555), MakeFolder(key("d/e"), 0o555), world.add("d/e/x"), world.add("d/y"))

            assert done.stopped == {}
            assert stat.S_IMODE((world.real / "d").stat().st_mode) == stat.S_IMODE((world.real / "d/e").stat().st_mode) == 0o555
            assert set(tree_of(world.real)) == {b"d", b"d/e", b"d/e/x", b"d/y"}

    with open_place() as folder:
        as_ordinary(act)


def test_a_directory_that_nobody_may_write_to_takes_the_place_of_a_file() -> None:
    def act() -> None:
        with World(folder) as world:
            place(world.real, {"x": SORTS[FILE]})
            place(world.upper, {"x": SORTS[DIRECTORY], "x/y": SORTS[FILE]})
            (world.upper / "x").chmod(0o555)
            done = world.apply(world.put("x"), world.add("x/y"))

            assert done.stopped == {}
            assert tree_of(world.real) == {b"x": Node(DIRECTORY, b"", 0o555), b"x/y": SORTS[FILE]}

    with open_place() as folder:
        as_ordinary(act)


def test_many_files_arrive_and_few_descriptors_are_used(world: World) -> None:
    folders = [f"d{number}" for number in range(150)]
    place(world.upper, {**dict.fromkeys(folders, SORTS[DIRECTORY]), **{f"{name}/x": SORTS[FILE] for name in folders}})
    steps: list[Step] = []
    for name in folders:
        steps += (MakeFolder(key(name), 0o750), world.add(f"{name}/x"))
    before, agents = len(os.listdir("/proc/self/fd")), tree_of(world.upper)
    world.apply(*steps)

    assert tree_of(world.real) == agents
    assert len(os.listdir("/proc/self/fd")) - before < 100
