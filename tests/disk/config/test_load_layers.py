"""Profiles and configuration from real files: the precedence of layers, the origin of each value, the paths of the files."""

import os
from pathlib import Path

import pytest

from agent_dev.config.detachable import may_detach
from agent_dev.config.options import RunOptions
from agent_dev.config.profile import Layer
from tests.disk.config.load_world import SHIPPED, User


def test_each_layer_overrides_the_ones_below(user: User) -> None:
    user.write("config.yaml", "home: ~/from-config\nnet: none\nstate: /from/config\nmerge: false\n")
    user.write("profiles/mine.yaml", "home: ~/from-profile\nnet: host\n")
    assert (user.settings("other").profile.home, user.settings().profile.home) == ("~/from-config", "~/from-profile")

    user.environ["AGENT_DEV_HOME"] = "/from/environment"
    assert user.settings().profile.home == "/from/environment"

    made = user.settings(flags=Layer({"home": "/from/flag"}, {"home": "--home"}))
    assert (made.profile.home, made.profile.net, made.profile.state) == ("/from/flag", "host", "/from/config")
    assert made.profile.merge is False


@pytest.mark.parametrize("agent", ["claude", "codex", "bash"])
def test_layers_rank_shipped_profile_then_config_then_own_profile(user: User, agent: str) -> None:
    assert (user.settings(agent).profile.policy, user.settings(agent).profile.tx_inside) == ("guard", True)
    user.write("config.yaml", "policy: strict\ntx_inside: false\n")
    assert (user.settings(agent).profile.policy, user.settings(agent).profile.tx_inside) == ("strict", False)
    user.write(f"profiles/{agent}.yaml", f"extends: {agent}\npolicy: 'off'\n")
    assert (user.settings(agent).profile.policy, user.settings(agent).profile.tx_inside) == ("off", False)


def test_each_value_has_its_origin(user: User) -> None:
    config = user.write("config.yaml", "# mine\nro:\n  - /data\n  - /more\nset:\n  A: x\nnet: none\n")
    profile = user.write("profiles/mine.yaml", "command: x\nset: {A: b, B: z}\n")
    user.environ |= {"AGENT_DEV_NET": "host", "AGENT_DEV_STATE": "/s"}
    origins = user.settings(flags=Layer({"ro": ("/f",)}, {"ro": "--ro"})).origins

    assert (origins["ro:/data"], origins["ro:/more"], origins["ro:/f"]) == (f"{config}:3", f"{config}:4", "--ro")
    assert (origins["set:A"], origins["set:B"], origins["command"]) == (f"{profile}:2", f"{profile}:2", f"{profile}:1")
    assert (origins["net"], origins["state"]) == ("AGENT_DEV_NET", "AGENT_DEV_STATE")
    assert origins["tools:~/bin"].startswith(f"{SHIPPED}/default.yaml:")


@pytest.mark.parametrize("agent", ["make", "", "./script", "../profiles/mine", "risks", "policy", "a b", "mine.yaml"])
def test_an_agent_without_a_profile_gets_the_default_one(agent: str, user: User) -> None:
    user.write("mine.yaml", "command: x\n")
    user.write("profiles/default.yaml", "command: not-for-others\nnet: none\n")
    profile = user.settings(agent).profile

    assert (profile.name, profile.command, profile.net) == ("default", (), "none")
    assert "~/.local/bin" in profile.tools


def test_the_users_own_profile_overrides_the_shipped_one(user: User) -> None:
    user.write("profiles/claude.yaml", "command: other-claude\n")

    assert user.settings("claude").profile.command == ("other-claude",)
    assert user.settings("claude").profile.set == ()


def test_the_users_own_profile_may_extend_the_shipped_one_of_its_name(user: User) -> None:
    shipped = dict(user.settings("claude").profile.set)
    user.write("profiles/claude.yaml", "extends: claude\nset: {DISABLE_AUTOUPDATER: '0', MORE: x}\n")
    profile = user.settings("claude").profile

    assert profile.command[:2] == ("claude", "--dangerously-skip-permissions")
    assert dict(profile.set) == shipped | {"DISABLE_AUTOUPDATER": "0", "MORE": "x"}


def test_a_chain_of_profiles_merges_from_its_base(user: User) -> None:
    user.write("profiles/a.yaml", "extends: b\nro: [/a]\nnet: none\n")
    user.write("profiles/b.yaml", "extends: c\nro: [/b]\nnet: host\nabout: From b.\n")
    user.write("profiles/c.yaml", "extends: default\nro: [/c]\ncommand: [c, -x]\n")
    made = user.settings("a")

    assert (made.profile.name, made.profile.ro, made.profile.net) == ("a", ("/c", "/b", "/a"), "none")
    assert (made.profile.command, made.profile.about) == (("c", "-x"), "From b.")
    assert made.origins["ro:/c"] == f"{user.config}/profiles/c.yaml:2"


def test_built_in_values_rank_below_the_configuration(user: User) -> None:
    config = user.write("config.yaml", "tools: [~/bin]\n")
    user.write("profiles/mine.yaml", "extends: default\n")

    assert [user.settings(agent).origins["tools:~/bin"] for agent in ("mine", "true")] == [f"{config}:1"] * 2


def test_the_default_profiles_description_applies_to_no_other(user: User) -> None:
    user.write("profiles/mine.yaml", "command: x\n")

    assert user.settings().profile.about == ""
    assert user.settings("true").profile.about != ""


def test_config_is_found_by_flag_then_variable_then_default_path(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user.write("config.yaml", "home: /place\n")
    for name in ("variable", "flag"):
        (tmp_path / f"{name}.yaml").write_text(f"home: /{name}\n")
    assert user.settings().profile.home == "/place"

    user.environ["AGENT_DEV_CONFIG"] = "~/variable.yaml"
    assert user.settings().profile.home == "/variable"

    made = user.settings(config="flag.yaml")
    assert (made.profile.home, made.origins["home"]) == ("/flag", f"{tmp_path}/flag.yaml:1")


def test_the_configuration_follows_xdg_config_home(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xdg/agent-dev/profiles").mkdir(parents=True)
    (tmp_path / "xdg/agent-dev/profiles/mine.yaml").write_text("command: x\n")
    user.environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert user.settings().profile.command == ("x",)

    user.environ["XDG_CONFIG_HOME"] = "xdg"  # the XDG specification says to ignore relative paths
    assert user.settings().profile.command == ()


def test_a_profile_is_named_after_its_file(user: User, tmp_path: Path) -> None:
    (tmp_path / "odd one.yaml").write_text("extends: claude\nnet: none\n")
    profile = user.settings("x", profile_file=f"{tmp_path}/odd one.yaml").profile

    assert (profile.name, profile.command[0], profile.net) == ("odd one", "claude", "none")


def test_a_profile_file_may_be_a_pipe_and_is_not_cached(user: User) -> None:
    r, w = os.pipe()
    os.write(w, b"command: piped\n")
    os.close(w)

    assert user.settings("x", profile_file=f"/dev/fd/{r}").profile.command == ("piped",)
    os.close(r)
    assert "/dev/fd" not in user.cache.read_text()


def test_a_configuration_from_a_pipe_is_read_once(user: User) -> None:
    read, write = os.pipe()
    os.write(write, b"net: none\n")
    os.close(write)
    path = f"/dev/fd/{read}"
    assert not may_detach(RunOptions(config=path), user.environ)
    assert user.settings(config=path).profile.net == "none"
    os.close(read)
