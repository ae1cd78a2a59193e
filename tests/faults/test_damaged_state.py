"""Damage agent-dev's state: truncate, empty or bit-flip any of its files.

No command fails with a traceback, merges anything wrong, or affects another repository.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.harness.faults import damage, flips, state_files
from tests.harness.faults.damage import CommandOutput, DamagedWorld
from tests.harness.scale import repeat, some

Damage = tuple[Path, bytes, str, list[tuple[str, ...]]]  # file, damaged bytes, command, read-only commands before it
CUTS = repeat(2)  # of each file: AGENT_DEV_TEST_SCALE=550 cuts each at every tenth, and fills it with zeros
LOOKS = (
    ("sessions", "--json"),
    ("sessions", "--all"),
    ("status",),
    ("diff",),
    ("commits",),
    ("log",),
    ("checkpoints",),
    ("merges",),
    ("clean", "--dry-run"),
    ("log", "--network"),
    ("restore", "--list"),
    ("home", "--diff"),
)
ACTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "merge": (("merge", "{part}", "--all", "--include-risky"), ("undo",), ("redo",)),
    "commits": (("merge", "{part}", "--commits", "--include-risky"), ("undo",)),
    "undo": (("undo",), ("redo",)),
    "rollback": (("rollback", "1", "--session", "{part}"), ("merge", "{part}", "--all", "--include-risky")),
    "archived": (("commits", "{archived}"), ("status", "{archived}"), ("discard", "{archived}")),
    "discard": (("discard", "{part}"), ("discard", "{last}"), ("sessions", "--all")),
    "clean": (("clean", "--all"), ("sessions", "--all")),
    "restore": (("restore", "--dry-run"), ("restore",), ("undo",)),
}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Import all modules that commands need once: each command is a fork of this process."""
    flips.load_everything()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> DamagedWorld:
    return damage.make_world(tmp_path_factory.mktemp("damage") / "world")


@pytest.fixture(scope="module")
def names(world: DamagedWorld) -> dict[str, str]:
    part, last = (row["session"] for row in world.user.sessions()[-2:])
    [archive] = (world.state / "sessions").glob("*/archive")
    return {"part": part, "last": last, "archived": archive.parent.name}


def do(world: DamagedWorld, names: dict[str, str], action: str) -> list[CommandOutput]:
    return [damage.run_command(world.user, *(word.format_map(names) for word in words)) for words in ACTIONS[action]]


@pytest.fixture(scope="module")
def allowed(world: DamagedWorld, names: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the allowed contents of each path of the real trees: those around each step of a command on undamaged state."""
    place = tmp_path_factory.mktemp("allowed") / "seen"
    found: dict[str, set[str]] = {}

    def note() -> None:
        for action in ACTIONS:
            why = damage.run_in_view(world, lambda action=action: steps(action))  # type: ignore[misc]
            assert not why, why

    def steps(action: str) -> None:
        with place.open("a") as file:
            file.write(repr(damage.trees(world)) + "\n")
            for words in ACTIONS[action]:
                printed = damage.run_command(world.user, *(word.format_map(names) for word in words))
                assert "Traceback" not in printed.err, printed
                file.write(repr(damage.trees(world)) + "\n")

    note()
    for line in place.read_text().splitlines():
        for path, what in eval(line).items():  # noqa: S307  (our own repr)
            found.setdefault(path, set()).add(what)
    return found


def fine(printed: CommandOutput) -> None:
    assert "Traceback" not in printed.err, printed
    assert "Error:" not in printed.err, printed
    assert printed.code in damage.CODES, printed


def look(world: DamagedWorld, expected: CommandOutput, looks: list[tuple[str, ...]]) -> None:
    for words in looks:
        fine(damage.run_command(world.user, *words))
    assert damage.run_command(world.other, "status", "--json") == expected


def test_undamaged_state_is_read(world: DamagedWorld, names: dict[str, str]) -> None:
    def steps() -> None:
        for words in (*LOOKS, ("status", names["part"])):
            shown = damage.run_command(world.user, *words)
            assert shown.code == 0, shown

    assert damage.run_in_view(world, steps) == ""


def test_every_file_of_the_world_is_of_a_known_kind_and_every_kind_is_there(world: DamagedWorld) -> None:
    paths = [path.relative_to(world.folder) for path in world.files()]
    unknown = [path for path in paths if not any(kind.matches(path) for kind in state_files.KINDS)]
    missing = [kind for kind in state_files.KINDS if not kind.is_read_alone and not any(map(kind.matches, paths))]
    assert (unknown, missing) == ([], [])


def test_no_damage_causes_a_traceback_or_a_wrong_merge(
    world: DamagedWorld, names: dict[str, str], allowed: dict[str, set[str]], record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}")  # noqa: T201  (shown when it fails)
    chance = random.Random(seed)  # noqa: S311  (no secret)
    expected = damage.run_command(world.other, "status", "--json")
    count, failures = 0, []
    for path in some(world.files(), chance):
        data = path.read_bytes()
        *cuts, flip = damage.damages(data, 1, chance)
        ways = {damaged: how for how, damaged in (*chance.sample(cuts, min(CUTS, len(cuts))), flip) if damaged != data}
        for damaged, how in ways.items():
            count += 1
            action, looks = chance.choice(list(ACTIONS)), chance.sample(LOOKS, 3)
            act = partial(try_one, world, names, (path, damaged, action, looks), (expected, allowed))
            if why := damage.run_in_view(world, act):
                failures.append(f"{path.relative_to(world.folder)} {how}, {action}: {why}")
    record_property("damages", count)
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures[:60])


def try_one(world: DamagedWorld, names: dict[str, str], what: Damage, right: tuple[CommandOutput, dict[str, set[str]]]) -> None:
    path, data, action, looks = what
    expected, allowed = right
    path.chmod(0o600)
    path.write_bytes(data)
    look(world, expected, looks)
    for printed in do(world, names, action):
        fine(printed)
    wrong = {name: found for name, found in damage.trees(world).items() if found not in allowed.get(name, {""})}
    assert not wrong, wrong
    assert damage.run_command(world.other, "status", "--json") == expected


@pytest.mark.only_root
def test_bit_flips_in_many_files_at_once_are_survived(tmp_path: Path) -> None:
    """Use an image that is reset: in an overlay view, device numbers and directories differ, so that an undo is refused."""
    number = str(repeat(60))
    words = (sys.executable, "-m", "tests.harness.faults.flips", "--user", "root", "--flips", number, "--at-once", "4")
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_damaged_cache_is_rebuilt_silently(world: DamagedWorld) -> None:
    chance = random.Random(seed := random.SystemRandom().randrange(1 << 32))  # noqa: S311  (no secret)
    print(f"seed {seed}")  # noqa: T201  (shown when it fails)
    script = "cat /etc/passwd /etc/nsswitch.conf /etc/os-release"
    right = world.user("--no-merge", "--", "sh", "-c", script)
    assert right.returncode == 0
    for path in some((path for path in world.files() if path.is_relative_to(world.cache)), chance):
        data = path.read_bytes()
        for cut in (0, len(data) // 2, chance.randrange(len(data))):
            path.chmod(0o600)
            path.write_bytes(data[:cut])
            done = world.user("--no-merge", "--", "sh", "-c", script)
            assert (done.returncode, done.stdout, done.stderr) == (0, right.stdout, right.stderr), (path, cut)


def test_a_damaged_session_is_listed_exported_and_discarded(world: DamagedWorld, names: dict[str, str]) -> None:
    def steps() -> None:
        session, out = names["last"], f"{world.folder}/out"
        path = world.state / "sessions" / session / "session.json"
        path.write_bytes(path.read_bytes()[:100])
        assert f"{session}  damaged" in damage.run_command(world.user, "sessions").out
        refused = damage.run_command(world.user, "merge", session, "--all")
        assert refused.code == 1
        assert f"agent-dev merge {session} --export DIR" in refused.err
        assert damage.run_command(world.user, "merge", session, "--export", out).code == 0
        assert Path(out, "b").read_text() == damage.SEQ.removeprefix("1\n")
        if os.getuid() == 0:  # an ordinary user cannot rename a directory in a view
            assert damage.run_command(world.user, "discard", session).code == 0
            assert session not in damage.run_command(world.user, "sessions").out

    assert damage.run_in_view(world, steps) == ""
