"""Our modules are imported from one file, and only while it is whole and their sources have not changed."""

import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.harness.scale import seeded_random

SOURCE = Path(__file__).parents[3] / "agent_dev"
USE = "from agent_dev import import_cache\nimport_cache.use()\n"
COMMON = "import_cache.import_common()\nimport agent_dev.cli.main\n"
START = f"{COMMON}import_cache.import_start()\nfor name in import_cache._GROUPS[1]:\n    __import__(name)\n"
COUNT = START + textwrap.dedent(
    """
    import sys
    own = [module for name, module in sys.modules.items() if name.startswith("agent_dev.")]
    print(sum(type(module.__spec__.loader).__name__ == "_CachedLoader" for module in own), len(own))
    print(import_cache.can_be_renewed())
    """
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a directory with a copy of the program, whose file was written."""
    shutil.copytree(SOURCE, tmp_path / "agent_dev", ignore=shutil.ignore_patterns("modules.*"))
    renew(tmp_path)
    return tmp_path


def cache(program: Path) -> Path:
    (found,) = (program / "agent_dev/__pycache__").glob("modules.*")
    return found


def renew(program: Path) -> None:
    python(program, "-P", "-c", f"{USE}{START}import_cache.renew()")


def python(program: Path, *arguments: str) -> str:
    unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONOPTIMIZE")
    env = {name: value for name, value in os.environ.items() if name not in unwanted} | {"PYTHONPATH": str(program)}
    done = subprocess.run([sys.executable, *arguments], env=env, cwd=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def counts(program: Path) -> tuple[int, int, bool]:
    """Return how many modules came from the file, how many were imported, and whether the file is to be renewed."""
    numbers, is_outdated = python(program, "-P", "-c", USE + COUNT).splitlines()
    cached, total = map(int, numbers.split())
    return cached, total, is_outdated == "True"


def test_all_modules_of_a_start_are_imported_from_the_file(program: Path) -> None:
    cached, total, is_outdated = counts(program)

    assert total > 50
    assert cached == total - 1  # without import_cache itself
    assert not is_outdated


def test_what_starts_no_agent_imports_only_what_it_needs(program: Path) -> None:
    few = "import agent_dev.value, sys\n"
    shown = "print([name for name in sys.modules if name.startswith('agent_dev.')], import_cache.can_be_renewed())"

    assert python(program, "-P", "-c", USE + few + shown) == "['agent_dev.import_cache', 'agent_dev.value'] False\n"


def test_the_modules_of_every_command_are_imported_at_once(program: Path) -> None:
    """Without Python's import system, so before the import that needs them; those of a start only with a start."""
    shown = "import sys\nprint('agent_dev.cli.main' in sys.modules, 'agent_dev.run.prepare' in sys.modules)\n"
    by_hand = f"import_cache.import_common()\n{shown}import_cache.import_start()\n{shown}print(import_cache.can_be_renewed())"

    assert python(program, "-P", "-c", f"{USE}{by_hand}") == "True False\nTrue True\nFalse\n"


def test_a_changed_module_is_imported_from_its_source(program: Path) -> None:
    cached, total, _ = counts(program)
    with (program / "agent_dev/sandbox/plan.py").open("a") as file:
        file.write("CHANGED = True\n")

    assert counts(program) == (cached - 1, total, True)  # the others are found in the file one by one
    assert python(program, "-P", "-c", f"{USE}import agent_dev.sandbox.plan as plan; print(plan.CHANGED)") == "True\n"
    renew(program)
    assert counts(program) == (cached, total, False)


def test_a_missing_file_is_to_be_renewed(program: Path) -> None:
    cache(program).unlink()

    assert counts(program)[::2] == (0, True)


def test_a_file_that_a_killed_process_began_is_replaced(program: Path) -> None:
    begun = Path(f"{cache(program)}.new")
    cache(program).unlink()
    begun.touch()
    assert counts(program)[::2] == (0, False)  # another process writes it
    os.utime(begun, (0, 0))
    assert counts(program)[::2] == (0, True)
    renew(program)
    cached, _, is_outdated = counts(program)
    assert (cached > 50, is_outdated, begun.exists()) == (True, False, False)


def test_outside_a_virtual_environment_no_file_is_written(program: Path) -> None:
    cache(program).unlink()
    outside = "import sys\nsys.prefix = sys.base_prefix\n"
    assert python(program, "-P", "-c", USE + COUNT.replace("import sys\n", outside, 1)).splitlines()[1] == "False"


def test_the_file_of_a_moved_program_is_not_used(program: Path) -> None:
    moved = program.parent / f"{program.name}-moved"
    program.rename(moved)

    assert counts(moved)[::2] == (0, True)


def test_an_index_that_is_damaged_or_of_another_format_is_not_used(program: Path) -> None:
    content, chance = cache(program).read_bytes(), seeded_random()
    for damaged in (
        b"",
        b"\1" + content[1:],
        content[:5],
        content[: end_of_index(content) - 1],
        flipped(content, chance, 0, end_of_index(content)),
    ):
        cache(program).write_bytes(damaged)
        assert counts(program)[::2] == (0, True)


def test_damaged_modules_are_imported_from_their_sources(program: Path) -> None:
    content, chance = cache(program).read_bytes(), seeded_random()
    end = end_of_index(content)
    _, total, _ = counts(program)
    for damaged in (content[:end], content[:end] + bytes(len(content) - end)):
        cache(program).write_bytes(damaged)
        assert counts(program)[1:] == (total, True)
    cache(program).write_bytes(flipped(content, chance, end, len(content)))
    assert counts(program)[1] == total


def end_of_index(content: bytes) -> int:
    return 13 + int.from_bytes(content[9:13], "little")


def flipped(content: bytes, chance: random.Random, start: int, end: int) -> bytes:
    where = chance.randrange(start, end)
    return content[:where] + bytes([content[where] ^ 1 << chance.randrange(8)]) + content[where + 1 :]


def test_a_program_that_its_user_cannot_write_needs_no_renewal(program: Path) -> None:
    cache(program).unlink()
    folder = program / "agent_dev/__pycache__"
    folder.chmod(0o555)
    try:
        assert counts(program)[::2] == (0, os.getuid() == 0)  # root can write everywhere
    finally:
        folder.chmod(0o755)


def test_what_only_one_command_needs_is_not_imported_by_each_start(program: Path) -> None:
    """Such as the modules for `--name`, which import dataclasses."""
    rare = "agent_dev.session.session_names"
    python(program, "-P", "-c", f"{USE}import {rare}\n{START}import_cache.renew()")
    shown = f"{START}import sys\nprint({rare!r} in sys.modules, 'dataclasses' in sys.modules, import_cache.can_be_renewed())"
    assert python(program, "-P", "-c", USE + shown) == "False False False\n"


def test_a_start_imports_nothing_that_is_not_listed(program: Path) -> None:
    """Let the program start an agent in this copy, and list what its own process imported beyond the two groups."""
    listed = python(
        program, "-P", "-c", f"{USE}print(*(name for group in import_cache._CachedLoader.head[0][:2] for name in group[0]))"
    )
    (program / "profiles").symlink_to(SOURCE.parent / "profiles")
    script = program / "start.py"
    script.write_text(
        f"import os, sys\nsys.argv[1:] = ['--', 'true']\n{USE}import_cache.import_common()\nfrom agent_dev.cli.main import main\n"
        "own, exit_now = os.getpid(), os._exit\n"
        "def show(code):\n"
        "    if os.getpid() == own:\n"
        f"        with open('{program}/imported', 'w') as file:\n"
        "            file.write(' '.join(name for name in sys.modules if name.startswith('agent_dev.')))\n"
        "    exit_now(code)\n"
        "os._exit = show\n"
        "main()\n"
    )
    (program / "home/work").mkdir(parents=True)
    environment = {"HOME": str(program / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(program)}
    for _ in range(2):  # the first one fills caches, and parses YAML
        null = subprocess.DEVNULL  # a pipe would need another module
        subprocess.run(
            [sys.executable, "-P", script],
            env=environment,
            cwd=program / "home/work",
            stdin=null,
            stdout=null,
            stderr=null,
            check=True,
        )
    imported = (program / "imported").read_text().split()
    assert len(imported) > 50
    assert set(imported) - set(listed.split()) == {"agent_dev.import_cache"}


def test_a_start_without_the_package_of_a_module_is_imported_as_usual(program: Path) -> None:
    wrong = "(['agent_dev.value', 'agent_dev.network.published.listeners'], [], [])"
    python(program, "-P", "-c", f"{USE}import_cache._list_groups = lambda: {wrong}\nimport_cache.renew()")
    assert counts(program)[2]
    renew(program)
    assert not counts(program)[2]
