"""What is imported when, asked of fresh interpreters: the way to the agent is short, and the core has no hands."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[2]
CORE = sorted(f"agent_dev.core.{path.stem}" for path in (REPOSITORY / "agent_dev/core").glob("[a-z]*.py"))
WORDS = ["agent_dev.errors", "agent_dev.sanitize", "agent_dev.value"]

# Each costs more than bubblewrap's own start, or half of it (docs/decisions/0002-start-up.md).
SLOW = [
    "argparse",
    "contextlib",
    "ctypes",
    "dataclasses",
    "enum",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "pygit2",
    "random",
    "re",
    "rich",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "textual",
    "threading",
    "typing",
    "yaml",
]

WATCH = """
import sys
{prepare}
told = []
SEEN = ("open", "os.", "shutil.", "socket.", "subprocess.", "ctypes.", "fcntl.", "mmap.", "signal.", "sys.set", "tempfile.")
def hook(event, args):
    if not event.startswith(SEEN) or event in ("os.listdir", "os.scandir"):
        return  # listing directories is how modules are found
    if event == "open" and str(args[0]).endswith((".py", ".pyc", ".so")) and not args[2] & 3:
        return  # so is reading them
    told.append((event, args))
sys.addaudithook(hook)
import {module}
print("\\n".join(map(repr, told)))
"""


def fresh(code: str) -> list[str]:
    """Run code in an interpreter that has loaded nothing, not even `site`; return the lines it prints."""
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{code}"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def loaded_by(*modules: str) -> set[str]:
    """Return the modules that importing these brings in."""
    return set(fresh(f"before = set(sys.modules)\nimport {', '.join(modules)}\nprint(*set(sys.modules) - before, sep='\\n')"))


@pytest.fixture(scope="module")
def on_the_way() -> set[str]:
    """Everything that is loaded when an agent starts."""
    return loaded_by("agent_dev.cli.main", "agent_dev.run.run")


@pytest.mark.parametrize("module", SLOW)
def test_the_way_to_an_agent_does_not_import_what_is_slow(on_the_way: set[str], module: str) -> None:
    assert module not in on_the_way


def test_the_way_to_an_agent_really_was_loaded(on_the_way: set[str]) -> None:
    assert {"agent_dev.cli.main", "agent_dev.run.run", "agent_dev.sandbox.plan", "agent_dev.sandbox.launch"} <= on_the_way


def test_words_that_only_tell_load_nothing_of_merging() -> None:
    assert loaded_by("agent_dev.cli.commands.status").isdisjoint(
        {"agent_dev.merge_engine.merge_execution", "agent_dev.merge.conclude"}
    )


def test_telling_of_commits_loads_nothing_that_compares_texts() -> None:
    compare = {f"agent_dev.core.{name}" for name in ("blocks", "threeway", "merge", "selection")}
    loaded = loaded_by("agent_dev.cli.commands.commits", "agent_dev.commits.report", "agent_dev.cli.render.commits")
    assert loaded.isdisjoint({"agent_dev.merge.reconcile", "shutil", *compare})


def test_git_is_asked_of_commits_before_what_reads_a_session_is_loaded() -> None:
    later = {f"agent_dev.{name}" for name in ("commands.found", "commands.review", "output.commits", "core.overlay", "core.risk")}
    assert loaded_by("agent_dev.cli.commands.commits").isdisjoint(later)


def test_merging_files_loads_nothing_of_commits_undo_and_patches() -> None:
    found = loaded_by("agent_dev.cli.main", "agent_dev.cli.commands.merge")
    known = {"agent_dev.merge.merge", "agent_dev.merge.select_by_flags"}
    assert known <= found
    others = {"commands.bring", "commands.undo", "commands.pointers", "core.patch", "core.commits", "host.bare", "host.base_git"}
    assert not found & {f"agent_dev.{one}" for one in others}


def test_the_way_to_an_agent_loads_no_screen(on_the_way: set[str]) -> None:
    assert not {name for name in on_the_way if name == "tui" or name.startswith("tui.")}


@pytest.mark.parametrize("module", [*CORE, *WORDS])
def test_a_module_of_the_core_does_nothing_while_it_is_imported(module: str) -> None:
    prepare = "import dataclasses, enum, typing, collections.abc, bisect, struct, re, difflib"

    assert fresh(WATCH.format(prepare=prepare, module=module)) in ([], [""])


@pytest.mark.parametrize("module", [*CORE, *WORDS])
def test_a_module_of_the_core_loads_nothing_of_the_floors_above(module: str) -> None:
    above = [
        name
        for name in loaded_by(module)
        if name.startswith(("agent_dev.host", "agent_dev.commands", "agent_dev.cli.main", "tui"))
    ]

    assert above == []


HANDS = [
    "yaml",
    "textual",
    "rich",
    "subprocess",
    "socket",
    "ctypes",
    "_ctypes",
    "threading",
    "tempfile",
    "shutil",
    "fcntl",
    "random",
]


@pytest.mark.parametrize("module", [*CORE, *WORDS])
def test_a_module_of_the_core_has_no_hands(module: str) -> None:
    assert sorted(loaded_by(module).intersection(HANDS)) == []


def test_the_hook_sees_what_a_module_does(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'made')!r})\n")
    told = fresh(WATCH.format(prepare=f"sys.path.insert(0, {str(tmp_path)!r})", module="busy"))

    assert any("os.mkdir" in line for line in told)


def test_no_example_of_hypothesis_has_a_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
