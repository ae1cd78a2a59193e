"""Test thousands of kinds of damage to agent-dev's state, on a file system that is reset after each; commands run as an ordinary
user.

Run as root, in a checkout that the user can read: `python -m tests.harness.faults.flips --user NAME --flips 5000 --seed 1`.
Unlike in an overlay view, every rename works, and each action really happens.
"""

import argparse
import ctypes
import importlib
import json
import os
import pkgutil
import pwd
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import agent_dev
from tests.harness.faults import damage, image
from tests.harness.faults.damage import CommandOutput, DamagedWorld
from tests.harness.program import AgentDev

READ_COMMANDS = (
    ("sessions", "--json"),
    ("sessions", "--all"),
    ("status",),
    ("status", "{part}", "--json"),
    ("diff",),
    ("diff", "{part}"),
    ("commits",),
    ("commits", "{part}"),
    ("log",),
    ("log", "{part}", "--changes"),
    ("checkpoints",),
    ("checkpoints", "{part}"),
    ("diff", "{part}", "1.."),
    ("deleted", "{part}"),
    ("merges",),
    ("merges", "--all"),
    ("clean", "--dry-run", "--all"),
    ("profiles",),
)
ACTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "merge": (("merge", "{part}", "--all", "--include-risky"), ("undo",), ("redo",)),
    "merge last": (("merge", "{last}", "--all", "--include-risky"), ("undo",)),
    "commits": (("merge", "{part}", "--commits", "--include-risky"), ("undo",)),
    "undo": (("undo",), ("redo",)),
    "two undos": (("undo",), ("undo",)),
    "rollback": (("rollback", "1", "--session", "{part}"), ("merge", "{part}", "--all", "--include-risky")),
    "discard": (("discard", "{part}"), ("discard", "{last}"), ("undiscard", "{part}")),
    "undiscard": (("undiscard", "{gone}"), ("merge", "{gone}", "--all")),
    "clean": (("clean", "--all"), ("sessions", "--all")),
    "checkpoint": (("checkpoint", "{part}"), ("checkpoints", "{part}", "--thin")),
    "restore": (("restore", "--dry-run"), ("restore",), ("undo",)),
    "export": (("merge", "{part}", "--export", "{out}", "--all"),),
    "run": (("--no-merge", "--", "sh", "-c", "echo again >>b"), ("merge", "--all"), ("undo",)),
    "resume": (("resume", "{last}", "--", "sh", "-c", "echo again >>d/x"), ("merge", "{last}", "--all")),
}
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PATIENCE = 60  # seconds for processes that a command leaves behind


@dataclass(frozen=True, slots=True)
class Damage:
    """A file, its damaged bytes, a description of the damage, and the original size."""

    path: Path
    data: bytes
    description: str
    size: int


def load_everything() -> None:
    """Import all of agent-dev, so that forks for commands need not import it."""
    for module in pkgutil.walk_packages(agent_dev.__path__, "agent_dev."):
        if not module.name.endswith("__main__") and not module.name.startswith("agent_dev.inside."):
            importlib.import_module(module.name)


class FlipTest:
    """The world in its image, the names of its sessions, and the result of each action without damage."""

    def __init__(self, world: DamagedWorld, held: image.Image, found: dict[str, list[str]]) -> None:
        self.world, self._held = world, held
        self.files = [Path(path) for path in found["files"]]
        part, last = found["sessions"][-2:]
        self.names = {"part": part, "last": last, "gone": found["gone"][0], "out": f"{world.folder}/out"}
        self.allowed: dict[str, dict[str, set[str]]] = {}
        self.other = CommandOutput((), 0, "", "")

    def run(self, words: tuple[str, ...]) -> CommandOutput:
        """Run one command of the user."""
        return damage.run_command(self.world.user, *(word.format_map(self.names) for word in words))

    def in_copy(self, act: Callable[[], object]) -> str:
        """Call `act` in the mounted world, then reset the world; return the failure, or ""."""
        self._held.mount()
        try:
            act()
            why = ""
        except AssertionError as error:
            why = str(error) or traceback.format_exc()
        wait_for_all()
        self._held.unmount()
        self._held.restore()
        return why

    def record_expected(self) -> None:
        """Run each action in the undamaged world."""
        for action in ACTIONS:
            assert not (why := self.in_copy(lambda action=action: self._learn(action))), why  # type: ignore[misc]
        for found in self.allowed.values():  # if a merge is refused, a later undo undoes earlier merges
            for path, contents in self.allowed["two undos"].items():
                found.setdefault(path, {""}).update(contents)

    def _learn(self, action: str) -> None:
        found = self.allowed.setdefault(action, {})
        self.other = damage.run_command(self.world.other, "status", "--json")
        for argv in ((), *ACTIONS[action]):
            if argv:
                output = self.run(argv)
                expect_proper_end(output)
                assert output.code == 0, output
            for path, content in damage.trees(self.world).items():
                found.setdefault(path, {""}).add(content)

    def check(self, damages: list[Damage], looks: list[tuple[str, ...]], action: str, *, with_other: bool) -> None:
        """Damage some files, run commands and an action, use another repository. Raises AssertionError for a violation."""
        for one in damages:
            one.path.chmod(0o600)
            with one.path.open("r+b") as file:
                file.write(one.data)
                file.truncate()
        for argv in looks:
            expect_proper_end(self.run(argv))
        allowed = self.allowed.get(action, {})
        for argv in ACTIONS.get(action, ()):
            output = self.run(argv)
            expect_proper_end(output)
            now = damage.trees(self.world)
            wrong = {name: content for name, content in now.items() if content not in allowed.get(name, {""})}
            lost = sorted(name for name, contents in allowed.items() if "" not in contents and name not in now)
            assert not wrong and not lost, (output, wrong, lost)  # noqa: PT018  (one report)
        if with_other:
            other = damage.run_command(self.world.other, "status", "--json")
            assert other == self.other, (other, self.other)


def expect_proper_end(output: CommandOutput) -> None:
    """Assert that a command ended properly: no traceback, no exception's name, a documented exit code."""
    assert "Traceback" not in output.err, output
    assert "Error:" not in output.err, output
    assert output.code in damage.CODES, output


def wait_for_all() -> None:
    """Wait for processes that commands left behind; this process inherits them."""
    signal.alarm(_PATIENCE)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    signal.alarm(0)


def main() -> int:
    """Test the flips and print the results; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.faults.flips")
    parser.add_argument("--user", default="nobody")
    parser.add_argument("--flips", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=1, help="files damaged at the same time")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cuts", action="store_true", help="cut each file at every tenth instead")
    args = parser.parse_args()
    seed = args.seed or random.SystemRandom().randrange(1 << 32)
    _say(f"seed {seed}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # exit cleanly, so that the device is detached
    load_everything()
    user = pwd.getpwnam(args.user)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="flips-") as name, image.new_image(Path(name), 16) as held:
        os.chmod(name, 0o711)  # noqa: S103  (contains the user's home)
        game = _begin(Path(name), held, (user.pw_uid, user.pw_gid))
        return _play_all(game, random.Random(seed), args)  # noqa: S311  (no secret)


def _begin(place: Path, held: image.Image, owner: tuple[int, int]) -> FlipTest:
    held.mount()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    folder = place / "mounted" / "world"
    os.chown(folder.parent, *owner)
    child = os.fork()
    if child == 0:
        try:
            damage.become_user(owner)
            world = damage.make_world(folder)
            found = {
                "sessions": [row["session"] for row in world.user.sessions()],
                "gone": os.listdir(world.state / "trash"),
                "files": [str(path) for path in world.files()],
            }
            (folder / "found").write_text(json.dumps(found))
        except BaseException:  # noqa: BLE001  (shown)
            traceback.print_exc()
        finally:
            os._exit(0)
    wait_for_all()
    found = json.loads((folder / "found").read_text())
    held.unmount()
    held.save()
    user, other = (AgentDev(folder / "home", folder / "home" / name) for name in ("shop", "other"))
    game = FlipTest(DamagedWorld(folder, user, other), held, found)
    game.record_expected()
    return game


def _play_all(game: FlipTest, chance: random.Random, args: argparse.Namespace) -> int:
    files: list[tuple[Path, bytes]] = []
    game.in_copy(lambda: files.extend((path, path.read_bytes()) for path in game.files))
    until, count, plays, found = time.monotonic() + args.seconds, Counter[str](), 0, 0
    for damages in _cuts(files) if args.cuts else _flips(files, chance, args.flips, args.at_once):
        if time.monotonic() > until:
            break
        plays += 1
        count.update(_kind(one.path.relative_to(game.world.folder)) for one in damages)
        action, looks = chance.choice(("", *ACTIONS)), chance.sample(READ_COMMANDS, 1)
        why = game.in_copy(lambda d=damages, ls=looks, de=action: game.check(d, ls, de, with_other=chance.random() < 0.4))  # type: ignore[misc]
        if why:
            found += 1
            names = ", ".join(f"{one.path.relative_to(game.world.folder)} {one.description} of {one.size}" for one in damages)
            _say(f"FOUND {names}, {looks} {action}: {why}\n")
        if plays % 50 == 0:
            _say(f"{time.strftime('%H:%M:%S')} {count.total()} done in {plays} rounds, {found} found")
    _say(f"{count.total()} damages in {plays} rounds, {found} found")
    for kind, number in count.most_common():
        _say(f"  {number:5}  {kind}")
    return 1 if found else 0


def _cuts(files: list[tuple[Path, bytes]]) -> Iterator[list[Damage]]:
    for path, data in files:
        for how, damaged in damage.damages(data, 0, random.Random(0)):  # noqa: S311  (no secret)
            if damaged != data:
                yield [Damage(path, damaged, how, len(data))]


def _flips(files: list[tuple[Path, bytes]], chance: random.Random, number: int, at_once: int) -> Iterator[list[Damage]]:
    """Yield flips, each in another of the files damaged at once. The copies of `/etc` are seldom used."""
    chances = [0.1 if "/etc-" in str(path) else 1.0 for path, _ in files]
    for _ in range(0, number, at_once):
        some = dict(chance.choices(files, chances, k=at_once))
        flipped = ((path, data, list(damage.damages(data, 1, chance))[-1]) for path, data in some.items())
        yield [Damage(path, damaged, how, len(data)) for path, data, (how, damaged) in flipped]


def _kind(path: Path) -> str:
    """Return a file's path without components that contain digits: ids, numbers, checksums."""
    return "/".join("*" if any(map(str.isdigit, part)) else part for part in path.parts[1:])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
