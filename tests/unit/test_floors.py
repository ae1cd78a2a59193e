"""Imports in fresh interpreters: the launch path loads few modules, and core modules have no side effects."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PURE = next(one["source_modules"] for one in CONTRACTS if one["name"] == "Pure modules have no side effects")

# Each takes at least half as long to import as bubblewrap to start (docs/decisions/0002-launch-path-imports.md).
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
    """Return the modules that importing these loads."""
    return set(fresh(f"before = set(sys.modules)\nimport {', '.join(modules)}\nprint(*set(sys.modules) - before, sep='\\n')"))


@pytest.fixture(scope="module")
def on_the_way() -> set[str]:
    """Return all modules that are loaded when an agent starts."""
    return loaded_by("agent_dev.cli.main", "agent_dev.run.run", "agent_dev.run.new_session")


@pytest.mark.parametrize("module", SLOW)
def test_the_launch_path_does_not_import_slow_modules(on_the_way: set[str], module: str) -> None:
    assert module not in on_the_way


def test_the_launch_path_was_really_loaded(on_the_way: set[str]) -> None:
    assert {"agent_dev.cli.main", "agent_dev.run.run", "agent_dev.sandbox.plan", "agent_dev.sandbox.launch"} <= on_the_way


def test_listing_verbs_do_not_load_merge_modules() -> None:
    assert loaded_by("agent_dev.cli.commands.review.status").isdisjoint(
        {"agent_dev.merge_engine.merge_execution", "agent_dev.merge.conclude"}
    )


def test_listing_commits_does_not_load_diff_modules() -> None:
    compare = {f"agent_dev.{name}" for name in ("diff.hunks", "diff.merge3", "merge_engine.operations", "overlay.selection")}
    loaded = loaded_by("agent_dev.cli.commands.review.commits", "agent_dev.commits.report", "agent_dev.cli.render.commits")
    assert loaded.isdisjoint({"agent_dev.merge.reconcile", "shutil", *compare})


def test_the_gateway_loads_nothing_slow_before_it_is_needed() -> None:
    loaded = loaded_by("agent_dev.network.handle", "agent_dev.network.standby", "agent_dev.network.namespace")
    assert "agent_dev.network.service" not in loaded
    assert loaded.isdisjoint({*SLOW, "asyncio", "h11", "ipaddress", "ssl"})


def test_git_queries_start_before_session_modules_are_loaded() -> None:
    later = {
        f"agent_dev.{name}"
        for name in ("commits.report", "merge.review", "cli.render.commits", "overlay.interpret", "risk.risk_rules")
    }
    assert loaded_by("agent_dev.cli.commands.review.commits").isdisjoint(later)


def test_merging_files_does_not_load_commit_undo_or_patch_modules() -> None:
    found = loaded_by("agent_dev.cli.main", "agent_dev.cli.commands.review.merge")
    known = {"agent_dev.merge.merge", "agent_dev.merge.select_by_options"}
    assert known <= found
    others = {
        "commits.bring",
        "merge.undo",
        "commits.gitlinks",
        "diff.patch_read",
        "git.formats.commit_format",
        "git.bare",
        "overlay.lower_snapshot_git",
    }
    assert not found & {f"agent_dev.{one}" for one in others}


def test_the_launch_path_does_not_load_the_screen(on_the_way: set[str]) -> None:
    assert not {name for name in on_the_way if name == "tui" or name.startswith("tui.")}


def test_the_launch_path_does_not_load_the_sandboxes_network(on_the_way: set[str]) -> None:
    assert not {
        name for name in on_the_way if name.startswith("agent_dev.network") or name.endswith((".network_rules", "ipaddress"))
    }


def test_the_launch_path_does_not_load_completion(on_the_way: set[str]) -> None:
    assert not {name for name in on_the_way if name.startswith("agent_dev.cli.completion")}


def test_the_menu_loads_neither_the_screen_nor_merging() -> None:
    loaded = loaded_by("agent_dev.cli.commands.overview", "agent_dev.cli.menu.screen", "agent_dev.cli.menu.entries")
    slow = ("textual", "rich", "tui", "yaml", "pygit2", "subprocess", "agent_dev.merge.")
    assert {name for name in loaded if name.startswith(slow)} == set()


def test_completion_loads_neither_parsers_nor_subcommands() -> None:
    run = "from agent_dev.cli.completion import command, sources; command.complete(['merge', '--'], {})"
    loaded = fresh(f"{run}\nprint(*sys.modules, sep='\\n')")
    assert {"--take\tselect PATH and everything below it, or some of its hunks", "agent_dev.session.store"} <= {*loaded}
    assert {name for name in loaded if name in SLOW or name.startswith(("agent_dev.merge", "agent_dev.cli.commands"))} == set()


@pytest.mark.parametrize("module", PURE)
def test_importing_a_core_module_has_no_effects(module: str) -> None:
    prepare = "import dataclasses, enum, typing, collections.abc, bisect, struct, re, difflib"

    assert fresh(WATCH.format(prepare=prepare, module=module)) in ([], [""])


@pytest.mark.parametrize("module", PURE)
def test_a_core_module_does_not_load_higher_layers(module: str) -> None:
    above = [name for name in loaded_by(module) if name.startswith(ABOVE)]

    assert above == []


ABOVE = ("agent_dev.cli.", "agent_dev.run", "agent_dev.linux.syscalls", "agent_dev.merge.merge", "agent_dev.session.store", "tui")
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


@pytest.mark.parametrize("module", PURE)
def test_a_core_module_does_not_import_io_modules(module: str) -> None:
    assert sorted(loaded_by(module).intersection(HANDS)) == []


def test_the_audit_hook_sees_the_effects_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'made')!r})\n")
    reported = fresh(WATCH.format(prepare=f"sys.path.insert(0, {str(tmp_path)!r})", module="busy"))

    assert any("os.mkdir" in line for line in reported)


def test_no_hypothesis_example_has_a_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
