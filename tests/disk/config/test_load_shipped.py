"""The list of profiles, the location of the shipped ones, and the validity of each of them."""

from pathlib import Path

import pytest

from agent_dev.agents import install_script
from agent_dev.config import load
from agent_dev.config.agent_entry import agent_entry
from tests.disk.config.load_world import SHIPPED, User

AGENTS = """
    aider claude cline codex continue copilot droid gemini grok kilo kimi opencode openhands pi qwen vibe
"""
SHIPPED_NAMES = sorted([*AGENTS.split(), "bash", "default", "demo"])

# The list of profiles


def test_profiles_are_listed_with_their_descriptions(user: User) -> None:
    own = user.write("profiles/claude.yaml", "about: Mine.\n")
    user.write("profiles/broken.yaml", "net: x\nabout: Never seen.\n")
    user.write("profiles/a b.yaml", "about: x\n")
    user.write("profiles/risks.yaml", "about: x\n")
    user.write("profiles/notes.txt", "x")
    found = {name: (path, about) for name, path, about in load.list_profiles(str(user.home), user.environ)}

    assert list(found) == sorted([*SHIPPED_NAMES, "a b", "broken", "risks"])
    assert found["claude"] == (str(own), "Mine.")
    assert found["codex"][0] == str(SHIPPED / "codex.yaml")
    assert found["broken"][1] == f"{user.config}/profiles/broken.yaml:1: net: x is not one of host, none, allow, ask, learn"
    assert found["a b"][1] == found["risks"][1] == "is ignored: not a valid profile name (letters, digits, ., _ and -)"


def test_a_profile_without_a_description_inherits_one(user: User) -> None:
    user.write("profiles/mine.yaml", "extends: bash\n")
    user.write("profiles/claude.yaml", "extends: claude\n")
    user.write("profiles/far.yaml", "extends: mine\nabout: Far.\n")
    user.write("profiles/farther.yaml", "extends: far\n")
    user.write("profiles/plain.yaml", "extends: default\n")
    user.write("profiles/lost.yaml", "extends: nobody\n")
    found = {name: about for name, _, about in load.list_profiles(str(user.home), user.environ)}

    assert found["mine"] == found["bash"] == "A shell in the sandbox."
    assert found["claude"].startswith("Claude Code")
    assert found["far"] == found["farther"] == "Far."
    assert found["plain"] == ""
    assert "there is no profile nobody" in found["lost"]


def test_without_own_profiles_the_shipped_ones_are_listed(user: User) -> None:
    found = load.list_profiles(str(user.home), user.environ)

    assert [name for name, _, _ in found] == SHIPPED_NAMES
    assert all(about.endswith(".") for _, _, about in found)


def test_shipped_profiles_are_in_the_package_or_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load.profiles_folder() == str(SHIPPED)

    (tmp_path / "agent_dev/config").mkdir(parents=True)
    monkeypatch.setattr(load, "__file__", str(tmp_path / "agent_dev/config/load.py"))
    assert load.profiles_folder() == str(tmp_path / "profiles")

    (tmp_path / "agent_dev/profiles").mkdir()
    assert load.profiles_folder() == str(tmp_path / "agent_dev/profiles")


# The shipped profiles


@pytest.mark.parametrize("name", SHIPPED_NAMES)
def test_each_shipped_profile_is_valid(name: str, user: User) -> None:
    assert user.settings(name).profile.name == name


@pytest.mark.parametrize("name", AGENTS.split())
def test_each_agent_can_be_installed_prompted_resumed_and_instructed(name: str, user: User) -> None:
    entry = agent_entry(user.settings(name).profile)
    assert all((entry.package, entry.prompt, entry.resume, entry.login, entry.hosts))
    assert ("{conversation}" in "".join((*entry.resume, *entry.fork, *entry.task_resume))) == bool(entry.conversations)
    assert entry.instructions or entry.instructions_set or "{instructions}" in "".join(text for _, text in entry.seed)


def test_agents_get_no_key_of_the_user_by_default(user: User) -> None:
    assert {user.settings(name).profile.env for name in SHIPPED_NAMES} == {()}


CREDENTIALS_WITHIN = """
    ~/.aws ~/.cargo ~/.claude ~/.codex ~/.config ~/.config/gh ~/.docker ~/.dotnet ~/.gnupg ~/.gradle ~/.hex ~/.kube ~/.local
    ~/.local/share ~/.local/share/keyrings ~/.local/share/uv ~/.m2 ~/.netrc ~/.npm ~/.npm-global ~/.npmrc ~/.nuget ~/.pub-cache
    ~/.ssh
"""


def test_no_directory_with_credentials_is_mounted(user: User) -> None:
    profile = user.settings("claude").profile
    shown = (*profile.tools, *profile.caches, *profile.ro, *profile.rw)

    assert not [
        (path, secret)
        for path in shown
        for secret in CREDENTIALS_WITHIN.split()
        if secret == path or secret.startswith(path + "/")
    ]


def test_the_agents_own_programs_come_first_and_stay_visible(user: User) -> None:
    profile = user.settings("claude").profile

    assert profile.path[0] == "~/.local/agent/bin?"
    assert not [tool for tool in profile.tools if "~/.local/agent/bin/".startswith(tool + "/")]
    assert install_script.PREFIX == ".local/agent"
