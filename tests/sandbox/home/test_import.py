"""`agent-dev home --import`: copies of the user's agents' files in the agent home, selected by options."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agent_dev.config import load
from agent_dev.config.agent_entry import agent_entry
from agent_dev.home.importing.source import wanted_paths
from tests.harness.agents import real_home
from tests.harness.program import AgentDev, tree


@pytest.fixture
def ada(agent_dev: AgentDev) -> AgentDev:
    """Return the program of a user with files of agents in the real home."""
    real_home.lay_out(agent_dev.home)
    return agent_dev


def listed(agent_dev: AgentDev, *words: str) -> dict[str, Any]:
    """Return the document of `home --import`."""
    document: dict[str, Any] = json.loads(agent_dev.do("home", "--import", "--json", *words))
    return document


def rows(agent_dev: AgentDev, *words: str) -> dict[str, dict[str, Any]]:
    """Return name → item."""
    return {row["name"]: row for row in listed(agent_dev, *words)["items"]}


def copied(agent_dev: AgentDev) -> dict[str, str]:
    """Return path → content of the files in the agent home."""
    home = agent_dev.agent_home
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


def test_everything_of_the_agents_is_listed_with_its_dangers(ada: AgentDev) -> None:
    found = {name: (row["kind"], row["flags"], row["safe"]) for name, row in rows(ada).items()}
    secret, runs = "secret", "runs automatically"
    assert found == {
        ".claude/CLAUDE.md": ("memory", [], True),
        ".claude/settings.json": ("settings", [], True),
        ".claude/settings.json#env": ("settings", [secret], False),
        ".claude/settings.json#hooks": ("hooks", [runs], False),
        ".claude/skills": ("skills", [], True),
        ".claude.json#mcpServers": ("servers", [secret, runs], False),
        ".claude/hooks": ("hooks", [runs], False),
        ".claude/.credentials.json": ("login", [secret], False),
        ".claude.json": ("login", [secret], False),
        ".codex/config.toml": ("settings", [], True),
        ".codex/auth.json": ("login", [secret], False),
    }
    dropped = [{"action": "dropped", "where": "log", "text": f"{ada.home}/logs/x"}]
    assert rows(ada)[".claude/settings.json"]["edits"] == dropped


def test_without_a_terminal_and_options_it_only_lists(ada: AgentDev) -> None:
    before = tree(ada.home)
    printed = ada.do("home", "--import")
    assert "skills    .claude/skills" in printed
    assert "! secret, runs automatically" in printed
    assert "dropped log: " in printed
    assert "canary" not in printed
    assert tree(ada.home) == before
    assert set(rows(ada, "codex")) == {".codex/config.toml", ".codex/auth.json"}


def test_only_safe_items_are_copied(ada: AgentDev) -> None:
    printed = ada.do("home", "--import", "--all-safe", "--yes")
    assert "copied 4 of 4 items" in printed
    found = copied(ada)
    assert found.keys() == {
        ".claude/CLAUDE.md",
        ".claude/settings.json",
        ".claude/skills/a/SKILL.md",
        ".claude/skills/a/run.sh",
        ".codex/config.toml",
    }
    assert json.loads(found[".claude/settings.json"]) == {"model": "opus"}
    assert found[".codex/config.toml"] == real_home.CODEX  # with its comment
    for path in (ada.agent_home, *ada.agent_home.rglob("*")):
        is_program = path.is_dir() or path.name == "run.sh"
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if is_program else 0o600), path


def test_an_agent_uses_the_copies(ada: AgentDev) -> None:
    ada.do("home", "--import", "--select", "memory", "hooks", "skills", "--yes")
    script = "cat ~/.claude/CLAUDE.md; ~/.claude/skills/a/run.sh; grep -c done.sh ~/.claude/settings.json"
    assert ada("--no-merge", "--", "sh", "-ec", script).stdout == "be kind\n1\n"


def test_logins_and_servers_are_copied_by_name_without_the_rest(ada: AgentDev) -> None:
    ada.do("home", "--import", "--select", ".claude/.credentials.json", ".claude.json#mcpServers", "--yes")
    found = copied(ada)
    assert found[".claude/.credentials.json"] == "canary-claude\n"
    assert json.loads(found[".claude.json"]) == {"mcpServers": {"db": {"command": "npx"}}}
    ada.do("home", "--import", "--select", ".claude.json", "--yes")
    document = json.loads(copied(ada)[".claude.json"])
    assert document == {"mcpServers": {"db": {"command": "npx"}}, "oauthAccount": {"x": "canary-account"}}
    assert {rows(ada)[name]["state"] for name in (".claude.json", ".claude.json#mcpServers")} == {"same"}


def test_a_hook_is_dropped_unless_its_script_is_copied_with_it(ada: AgentDev) -> None:
    printed = ada.do("home", "--import", "--select", ".claude/settings.json#hooks", ".claude/hooks", "--yes")
    assert "dropped" not in printed
    assert json.loads(copied(ada)[".claude/settings.json"]) == {"hooks": real_home.SETTINGS["hooks"]}

    ada.do("home", "--reset")
    done = ada("home", "--import", "--select", ".claude/settings.json#hooks", "--yes")
    assert (done.returncode, done.stdout.count("\n")) == (1, 2)
    assert "not copied: .claude/settings.json#hooks: ~/.claude/hooks/done.sh does not exist in the sandbox" in done.stdout
    assert not ada.agent_home.exists()


def test_a_dropped_hook_can_be_copied_when_its_script_is_there(ada: AgentDev) -> None:
    hooks = {"Start": [{"hooks": [{"type": "command", "command": "date"}]}], **real_home.SETTINGS["hooks"]}
    (ada.home / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
    name = ".claude/settings.json#hooks"
    ada.do("home", "--import", "--select", name, "--yes")
    assert json.loads(copied(ada)[".claude/settings.json"])["hooks"].keys() == {"Start"}
    ada.do("home", "--import", "--select", ".claude/hooks", "--yes")
    assert "differs inside" in ada.do("home", "--import")
    assert "nothing changed since its import" in ada.do("home", "--import", "--update")
    ada.do("home", "--import", "--select", name, "--yes")
    assert json.loads(copied(ada)[".claude/settings.json"]) == {"hooks": hooks}


def test_settings_of_the_agent_home_are_kept(ada: AgentDev) -> None:
    target = ada.agent_home / ".claude/settings.json"
    target.parent.mkdir(parents=True)
    target.write_text('{"model": "haiku", "theme": "dark"}')
    found = rows(ada)
    assert (found[".claude/settings.json"]["state"], found[".claude/settings.json"]["safe"]) == ("differs", False)
    ada.do("home", "--import", "--all-safe", "--select", ".claude/settings.json#env", "--yes")
    document = {"model": "haiku", "theme": "dark", "env": real_home.SETTINGS["env"]}
    assert json.loads(target.read_text()) == document
    printed = ada.do("home", "--import", "--select", ".claude/settings.json", "--yes")
    assert "replaces in the agent home: .claude/settings.json\n" in printed
    assert json.loads(target.read_text()) == {**document, "model": "opus"}


def test_each_strange_file_is_left_out_in_one_line(ada: AgentDev) -> None:
    reasons = real_home.add_strange_files(ada.home / ".claude/skills/a")
    found = {row["path"].rpartition("/")[2]: row["reason"] for row in listed(ada)["left_out"]}
    assert {name: found[name][: len(reason)] for name, reason in reasons.items()} == reasons
    printed = ada.do("home", "--import")
    assert printed.count("left out: ") == len(reasons)
    assert not [char for char in printed if char < " " and char != "\n"]
    ada.do("home", "--import", "--select", "skills", "--yes")
    assert {path.name for path in (ada.agent_home / ".claude/skills/a").iterdir()} == {"SKILL.md", "run.sh"}


def test_links_of_the_real_home_are_not_followed(ada: AgentDev) -> None:
    (ada.home / ".claude").rename(ada.home / "dotfiles")
    (ada.home / ".claude").symlink_to("dotfiles")
    (ada.home / ".codex/config.toml").unlink()
    (ada.home / ".codex/config.toml").symlink_to("../dotfiles/CLAUDE.md")
    document = listed(ada)
    assert {row["name"] for row in document["items"]} == {".claude.json#mcpServers", ".claude.json", ".codex/auth.json"}
    left_out = {row["path"]: row["reason"] for row in document["left_out"]}
    assert left_out[".claude/CLAUDE.md"] == "below a link or another file system, which is not followed"
    assert left_out[".codex/config.toml"] == "a link to ../dotfiles/CLAUDE.md, which is not followed"
    done = ada("home", "--import", "--select", ".claude/CLAUDE.md", "--yes")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert ".claude/CLAUDE.md is not offered: below a link" in done.stderr


@pytest.mark.parametrize("planted", [".claude", ".claude/skills", ".claude/skills/a/SKILL.md"])
def test_links_that_an_agent_left_are_not_followed(ada: AgentDev, tmp_path: Path, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    link = ada.agent_home / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    done = ada("home", "--import", "--select", "skills", "--yes")
    assert done.returncode == 1
    assert "not copied: .claude/skills/a/SKILL.md: in the agent home, it is " in done.stdout
    assert list(victim.iterdir()) == []
    assert list(ada.agent_home.rglob(".agent-dev-import*")) == []


def test_an_unreadable_file_is_left_out(ada: AgentDev) -> None:
    path = ada.home / ".claude/CLAUDE.md"
    path.chmod(0)
    reasons = {row["path"]: row["reason"] for row in listed(ada)["left_out"]}
    expected = {".claude/CLAUDE.md": "cannot be read: Permission denied"} if os.getuid() else {}
    assert reasons == expected


def test_settings_in_no_known_format_are_not_safe(ada: AgentDev) -> None:
    (ada.home / ".claude/settings.json").write_text('{"hooks": // {\n')
    assert rows(ada)[".claude/settings.json"]["flags"] == ["not checked"]
    ada.do("home", "--import", "--all-safe", "--yes")
    assert ".claude/settings.json" not in copied(ada)
    (ada.agent_home / ".codex/config.toml").write_text("not = = toml")
    done = ada("home", "--import", "--select", ".codex/config.toml", "--yes")
    assert (done.returncode, copied(ada)[".codex/config.toml"]) == (1, "not = = toml")
    assert "not copied: .codex/config.toml: the file, or that in the agent home, is not in the format" in done.stdout


def test_an_update_shows_and_copies_what_changed_since(ada: AgentDev) -> None:
    ada.do("home", "--import", "--select", "memory", "skills", "settings", "login", "--yes")
    assert "nothing changed since its import" in ada.do("home", "--import", "--update")
    (ada.home / ".claude/CLAUDE.md").write_text("be kinder\n")
    (ada.home / ".claude/skills/a/run.sh").unlink()
    (ada.home / ".claude/skills/a/new.md").write_text("x")
    (ada.home / ".codex/auth.json").write_text("canary-new\n")
    (ada.home / ".codex/config.toml").unlink()
    (ada.agent_home / ".claude/skills/a/SKILL.md").write_text("the agent's\n")
    found = rows(ada, "--update")
    assert {name: row["changed_inside"] for name, row in found.items()} == {
        ".claude/CLAUDE.md": False,
        ".claude/skills": True,
        ".codex/auth.json": False,
    }
    changes = [(row["sign"], row["path"]) for row in found[".claude/skills"]["changes"]]
    assert changes == [("+", ".claude/skills/a/new.md"), ("-", ".claude/skills/a/run.sh")]
    printed = ada.do("home", "--import", "--update")
    assert "left out: .codex/config.toml: no longer in your home; the copy stays\n" in printed
    assert ".claude/CLAUDE.md: from the agent home's to yours:\n    @@ -1 +1 @@\n    -be kind\n    +be kinder\n" in printed
    assert "canary" not in printed

    ada.do("home", "--import", "--update", "--all-safe", "--yes")
    after = copied(ada)
    assert (after[".claude/CLAUDE.md"], after[".claude/skills/a/SKILL.md"]) == ("be kinder\n", "the agent's\n")
    assert after[".codex/auth.json"] == "canary-codex\n"
    ada.do("home", "--import", "--update", "--select", "login", "--yes")
    assert copied(ada)[".codex/auth.json"] == "canary-new\n"
    assert rows(ada, "--update").keys() == {".claude/skills"}


def test_a_reset_forgets_the_imports(ada: AgentDev) -> None:
    ada.do("home", "--import", "--all-safe", "--yes")
    assert list((ada.state / "homes").glob("*.import"))
    ada.do("home", "--reset")
    assert not list((ada.state / "homes").glob("*.import"))


def test_each_agent_home_gets_the_files_of_its_agents(ada: AgentDev) -> None:
    folder = Path(ada.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("home: ~/homes/{project}-{profile}\n")
    ada.do("home", "--import", "--select", "memory", ".codex/config.toml", "--yes")
    homes = {path.name.rpartition("-")[2]: path for path in (ada.home / "homes").iterdir()}
    assert {name: sorted(os.listdir(path)) for name, path in homes.items()} == {"claude": [".claude"], "codex": [".codex"]}


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--select", "memori", "--yes"), "memori is not offered (did you mean memory?); nothing was copied"),
        (("--select", "memory"), "cannot ask for confirmation"),
        (("--all-safe", "--json"), "--json cannot ask"),
        (("--yes",), "--yes requires --select or --all-safe"),
        (("claud",), "no profile claud (did you mean claude?)"),
        (("bash",), "the profile bash names nothing to import"),
        (("--reset",), "not allowed with argument"),
    ],
)
def test_wrong_words_are_one_line_and_copy_nothing(ada: AgentDev, words: tuple[str, ...], printed: str) -> None:
    done = ada("home", "--import", *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert printed in done.stderr
    assert not ada.agent_home.exists()


def test_the_hint_of_an_update_keeps_its_option(ada: AgentDev) -> None:
    for words in (("--yes",), ("--all-safe", "--json")):
        *_, hint = ada("home", "--import", "--update", *words).stderr.splitlines()
        assert hint.startswith("agent-dev: hint: agent-dev home --import --update ")


def test_options_of_an_import_need_it(ada: AgentDev) -> None:
    for words in (("--update",), ("--select", "x"), ("--all-safe",), ("--reset", "--yes")):
        done = ada("home", *words)
        assert (done.returncode, "requires --import" in done.stderr) == (2, True)
    assert ada("home", "claude", "codex").returncode == 2


def test_your_own_home_cannot_be_the_target(ada: AgentDev) -> None:
    before = tree(ada.home)
    done = ada("--home", str(ada.home), "home", "--import", "--all-safe", "--yes")
    assert done.returncode == 1
    assert "contains more than an agent home" in done.stderr
    assert tree(ada.home) == before


def test_each_path_that_a_shipped_profile_names_is_offered(agent_dev: AgentDev) -> None:
    expected = set()
    for name in load.list_profile_names(str(agent_dev.home), agent_dev.env):
        request = load.SettingsRequest(agent=name, home=str(agent_dev.home), environ=agent_dev.env, is_read_only=True)
        for wanted in wanted_paths(name, agent_entry(load.load_settings(request).profile)):
            path = agent_dev.home / wanted.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1\n" if path.suffix == ".toml" else '{"x": 1}\n')
            key = f"#{wanted.keys[0]}" if wanted.keys and wanted.kind != "login" else ""
            expected.add((name, wanted.kind, f"{wanted.path}{key}"))
    found = {(row["agent"], row["kind"], row["name"]) for row in rows(agent_dev).values()}
    assert {name for name, _, _ in expected} >= {"aider", "claude", "codex", "gemini", "vibe"}
    assert len({name for name, _, _ in expected}) == 16
    assert found == expected
