"""CONTAINMENT D: files with tokens in tool directories and caches, found by name."""

import os
from pathlib import Path

import pytest

from agent_dev.sandbox.credentials import REPLACEMENTS
from tests.containment.files.test_credentials import CANARY, configure, put, seen
from tests.containment.rows import row
from tests.harness.program import AgentDev

PLACES = (
    ".nvm/versions/node/v20/etc",
    ".sdkman/candidates/maven/current/conf",
    ".local/share/pipx/venvs/tool",
    ".asdf/installs/nodejs/20/.npm/etc",
    ".cache/pip",
    ".cache/pypoetry/virtualenvs/shop",
    ".m2/repository",
    ".cargo/git/checkouts/lib/abc",
)
NAMES = ("npmrc", ".npmrc", "pip.conf", "settings.xml", "gradle.properties", "auth.json", "bunfig.toml", "gemrc")  # at least
CONFIGS = (
    ".nvm/.git/config",
    ".cache/pre-commit/repo1/.git/config",
    ".cargo/git/db/lib-1/config",
    "go/pkg/mod/cache/vcs/abc/config",
    ".asdf/plugins/nodejs/.git/config",
)
CONFIG = f'[core]\n\tbare = true\n[remote "origin"]\n\turl = https://ada:{CANARY}@example.invalid/x\n'


@row(
    "read tokens anywhere below tool directories and caches: npmrc, pip.conf, settings.xml, auth.json and 30 more names",
    "files of these names are found to a limited depth and masked",
)
@pytest.mark.parametrize("place", PLACES)
def test_d33_files_with_well_known_token_names_are_masked(agent_dev: AgentDev, place: str) -> None:
    assert {*REPLACEMENTS} > {*NAMES}
    for name in REPLACEMENTS:
        put(agent_dev.home / place / name)
    put(agent_dev.home / place / "NuGet.Config")
    put(agent_dev.home / place / "kept", "kept")
    names = [str(agent_dev.home / place / name) for name in (*REPLACEMENTS, "NuGet.Config", "kept")]
    for _ in range(2):  # the second run uses the index
        found = seen(agent_dev, names)
        assert found.pop(names[-1]) == "kept"
        assert found == {path: REPLACEMENTS[os.path.basename(path).lower()].decode() for path in found}
        found[names[-1]] = ""
    assert (agent_dev.home / place / "npmrc").read_text() == CANARY


@row(
    "read tokens in the `.git/config` of a repository in a tool's cache",
    "a copy without passwords and tokens is mounted, so that the tool's git still works",
)
def test_d34_git_settings_in_caches_contain_no_tokens(agent_dev: AgentDev) -> None:
    for name in CONFIGS:
        put(agent_dev.home / name, CONFIG)
        if "/.git" not in name:
            put(agent_dev.home / Path(name).parent / "HEAD", "ref: refs/heads/main\n")
            (agent_dev.home / Path(name).parent / "objects").mkdir()
    found = seen(agent_dev, [str(agent_dev.home / name) for name in CONFIGS])
    assert set(found.values()) == {CONFIG.replace(f"ada:{CANARY}@", "")}
    new = CONFIG.replace("ada", "ben")  # edited in place, so no directory's mtime changes
    (agent_dev.home / CONFIGS[0]).write_text(new)
    assert CANARY not in seen(agent_dev, [str(agent_dev.home / CONFIGS[0])]).popitem()[1]


def test_d33_files_created_between_two_starts_are_found(agent_dev: AgentDev) -> None:
    path = agent_dev.home / ".nvm/versions/node/v20/etc/npmrc"
    put(path.with_name("kept"), "kept")
    assert agent_dev("--", "true").returncode == 0
    put(path)
    assert list(seen(agent_dev, [str(path)]).values()) == [""]


def test_d33_a_damaged_index_is_rebuilt(agent_dev: AgentDev) -> None:
    path = agent_dev.home / ".nvm/versions/node/v20/etc/npmrc"
    put(path)
    assert agent_dev("--", "true").returncode == 0
    [index] = agent_dev.home.parent.glob("cache/agent-dev/credentials.json")
    rows = [b"[1, 2, 3]", b"[[], [], []]", b"[[1], [2], []]", b'{"a": 1}']
    for damaged in (b"[]", b"{}", *(b'{"%s": %s}' % (os.fsencode(path.parents[4]), one) for one in rows)):
        index.write_bytes(damaged)
        assert list(seen(agent_dev, [str(path)]).values()) == [""]


def test_d33_a_directory_that_the_user_names_is_mounted_unmasked(agent_dev: AgentDev) -> None:
    put(agent_dev.home / "src/library/.npmrc")
    found = seen(agent_dev, [str(agent_dev.home / "src/library/.npmrc")], "--ro", agent_dev.home / "src/library")
    assert list(found.values()) == [CANARY]
    configure(agent_dev, "tools: [~/src/library]\n")
    assert list(seen(agent_dev, [str(agent_dev.home / "src/library/.npmrc")]).values()) == [""]
