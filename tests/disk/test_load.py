"""Profiles and configuration from real files: layers, strictness, provenance, the cache."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_dev.core.profile import Layer, Settings
from agent_dev.errors import USAGE, BadConfiguration
from agent_dev.host import cache, load, quick_json, yaml_file
from agent_dev.host.load import Request

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "profiles"
SLOW = {"yaml", "re", "json", "dataclasses", "enum", "typing", "difflib", "agent_dev.core.schema", "agent_dev.host.yaml_file"}


class User:
    """A home with configuration files, and what is loaded from it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / ".config/agent-dev"
        self.cache = home / ".cache/agent-dev/profiles.json"
        self.environ = {"HOME": str(home)}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, agent: str = "mine", **more: object) -> Settings:
        return load.settings(Request(agent=agent, home=str(self.home), environ=self.environ, **more))  # type: ignore[arg-type]

    def problems(self, agent: str = "mine", **more: object) -> list[str]:
        """Return the lines of what is refused, with the configuration's folder as …"""
        with pytest.raises(BadConfiguration) as raised:
            self.settings(agent, **more)
        assert raised.value.code == USAGE
        return raised.value.message.replace(str(self.config), "…").splitlines()


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(load, "_COARSEST_CLOCK", -(10**12))  # what a test has just written counts as old
    return User(tmp_path)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents that are parsed as YAML from now on."""
    seen: list[bytes] = []
    read = yaml_file.read

    def reading(data: bytes) -> object:
        seen.append(data)
        return read(data)

    monkeypatch.setattr(yaml_file, "read", reading)
    return seen


# Layers


def test_each_layer_beats_the_ones_below(user: User) -> None:
    user.write("config.yaml", "home: ~/from-config\nnet: none\nstate: /from/config\nmerge: false\n")
    user.write("profiles/mine.yaml", "home: ~/from-profile\nnet: host\n")
    assert (user.settings("other").profile.home, user.settings().profile.home) == ("~/from-config", "~/from-profile")

    user.environ["AGENT_DEV_HOME"] = "/from/environment"
    assert user.settings().profile.home == "/from/environment"

    made = user.settings(flags=Layer({"home": "/from/flag"}, {"home": "--home"}))
    assert (made.profile.home, made.profile.net, made.profile.state) == ("/from/flag", "host", "/from/config")
    assert made.profile.merge is False


def test_each_value_knows_where_it_came_from(user: User) -> None:
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


def test_the_users_own_profile_wins_over_the_shipped_one(user: User) -> None:
    user.write("profiles/claude.yaml", "command: other-claude\n")

    assert user.settings("claude").profile.command == ("other-claude",)
    assert user.settings("claude").profile.set == ()


def test_the_users_own_profile_may_extend_the_shipped_one_of_its_name(user: User) -> None:
    user.write("profiles/claude.yaml", "extends: claude\nset: {DISABLE_AUTOUPDATER: '0', MORE: x}\n")
    profile = user.settings("claude").profile

    assert profile.command == ("claude", "--dangerously-skip-permissions")
    assert dict(profile.set) == {"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "0", "MORE": "x"}


def test_a_chain_of_profiles_adds_up_from_its_far_end(user: User) -> None:
    user.write("profiles/a.yaml", "extends: b\nro: [/a]\nnet: none\n")
    user.write("profiles/b.yaml", "extends: c\nro: [/b]\nnet: host\nabout: From b.\n")
    user.write("profiles/c.yaml", "extends: default\nro: [/c]\ncommand: [c, -x]\n")
    made = user.settings("a")

    assert (made.profile.name, made.profile.ro, made.profile.net) == ("a", ("/c", "/b", "/a"), "none")
    assert (made.profile.command, made.profile.about) == (("c", "-x"), "From b.")
    assert made.origins["ro:/c"] == f"{user.config}/profiles/c.yaml:2"


def test_what_is_built_in_stays_below_the_configuration(user: User) -> None:
    config = user.write("config.yaml", "tools: [~/bin]\n")
    user.write("profiles/mine.yaml", "extends: default\n")

    assert [user.settings(agent).origins["tools:~/bin"] for agent in ("mine", "true")] == [f"{config}:1"] * 2


def test_the_default_profiles_own_words_describe_no_other(user: User) -> None:
    user.write("profiles/mine.yaml", "command: x\n")

    assert user.settings().profile.about == ""
    assert user.settings("true").profile.about != ""


def test_config_is_found_by_flag_then_variable_then_place(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    user.environ["XDG_CONFIG_HOME"] = "xdg"  # relative: to be ignored, says the XDG specification
    assert user.settings().profile.command == ()


def test_a_profile_file_is_called_as_the_file_is(user: User, tmp_path: Path) -> None:
    (tmp_path / "odd one.yaml").write_text("extends: claude\nnet: none\n")
    profile = user.settings("x", profile_file=f"{tmp_path}/odd one.yaml").profile

    assert (profile.name, profile.command[0], profile.net) == ("odd one", "claude", "none")


def test_a_profile_file_may_be_a_pipe_and_is_not_kept(user: User) -> None:
    r, w = os.pipe()
    os.write(w, b"command: piped\n")
    os.close(w)

    assert user.settings("x", profile_file=f"/dev/fd/{r}").profile.command == ("piped",)
    os.close(r)
    assert "/dev/fd" not in user.cache.read_text()


# Strictness

REFUSED = [
    ("comand: x", "1: comand: unknown key (did you mean command?)"),
    ("net: hots", "1: net: hots is not one of host, none (did you mean host?)"),
    ("net: no", '1: net: no without quotes is false: write "no"'),
    ("about: on", '1: about: on without quotes is true: write "on"'),
    ("about: y", '1: about: y without quotes is true: write "y"'),
    ("about: 1:30", '1: about: 1:30 without quotes is the number 90: write "1:30"'),
    ("about: 022", '1: about: 022 without quotes is the number 18: write "022"'),
    ("about: 1e3", '1: about: 1e3 without quotes is a number: write "1e3"'),
    ("about: 1.5", '1: about: 1.5 without quotes is a number: write "1.5"'),
    ("about: 2024-01-02", '1: about: 2024-01-02 without quotes is a date: write "2024-01-02"'),
    ("about: null", '1: about: null without quotes is nothing: write "null"'),
    ("rw: [~]", '1: rw: ~ without quotes is nothing: write "~"'),
    (
        "command: [n, 20]",
        '1: command: n without quotes is false: write "n"',
        '1: command: 20 without quotes is a number: write "20"',
    ),
    ("set:\n  IS_SANDBOX: 1", '2: set.IS_SANDBOX: 1 without quotes is a number: write "1"'),
    ("set:\n  no: x", '2: set: no without quotes is false: write "no"'),
    ("set: {A-B: x}", "1: set: A-B is not a variable's name: letters, digits and _, no digit first"),
    ("merge: yes", "1: merge: must be true or false, without quotes, not yes"),
    ("home: ~/a\nnet: host\nhome: ~/b", "3: home: given twice, first on line 1"),
    ("home:", "1: home: has no value"),
    ("ro: /data", "1: ro: must be a list, not text"),
    ("ro: [data]", "1: ro: data is not absolute: begin it with / or ~/"),
    ("state: /x", "1: state: belongs into config.yaml, not into a profile"),
    ("- a\n- b", "1: the file: must be a mapping, not a list"),
    ("text", "1: the file: must be a mapping, not text"),
    ("home: &a ~/x", "1: &a: anchors are not allowed: write it out"),
    ("home: &a ~/x\nstate: *a", "1: &a: anchors are not allowed: write it out", "2: *a: aliases are not allowed: write it out"),
    ("<<: {net: host}", "1: <<: merge keys are not allowed: write it out"),
    ("about: !!str 1", "1: !!str: tags are not allowed"),
    ("about: !run x", "1: !run: tags are not allowed"),
    ("? [a]\n: b", "1: a key must be a word, not a list or a mapping"),
    ("net: host\n---\nnet: none", "2: not YAML: more than one document"),
    ("ro:\n\t- /x", "2: not YAML: found character '\\t' that cannot start any token (indent with spaces)"),
    ("net: host\nabout: 'x", "2: not YAML: found unexpected end of stream"),
    ("net: host\nabout: \x07", "2: not YAML: the character U+0007 is not allowed"),
    ("[" * 5000, "1: nested too deeply"),
    (b"net: host\nabout: caf\xe9\n", "2: not UTF-8: byte 0xe9"),
    ("extends: claud", "1: extends: there is no profile claud (did you mean claude?)"),
    ("extends: ../mine", "1: extends: ../mine is no name of a profile (letters, digits, ., _ and -)"),
    ("extends: risks", "1: extends: risks is no name of a profile (letters, digits, ., _ and -)"),
    ("extends: mine", "1: extends: there is no shipped profile mine"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case[0])[:24])
def test_what_is_wrong_is_refused_with_file_line_and_advice(case: tuple[str | bytes, ...], user: User) -> None:
    text, *problems = case
    user.write("profiles/mine.yaml", text)

    assert user.problems() == [f"…/profiles/mine.yaml:{problem!s}" for problem in problems]


def test_all_problems_of_all_files_are_said_at_once(user: User) -> None:
    user.write("config.yaml", "nett: host\ncommand: x\n")
    user.write("profiles/mine.yaml", "extends: base\nmerge: no\nro: x\n")
    user.write("profiles/base.yaml", "extends: gone\nenv: [A-B]\n")
    user.environ["AGENT_DEV_NET"] = "hots"
    flags = Layer({"net": "nine", "env": ("C D",), "set": (("1", "x"),)}, {})

    assert user.problems(flags=flags) == [
        "…/config.yaml:1: nett: unknown key (did you mean net?)",
        "…/config.yaml:2: command: belongs into a profile, not into config.yaml",
        "…/profiles/mine.yaml:2: merge: must be true or false, without quotes, not no",
        "…/profiles/mine.yaml:3: ro: must be a list, not text",
        "…/profiles/base.yaml:2: env: A-B is not a variable's name: letters, digits and _, no digit first",
        "…/profiles/base.yaml:1: extends: there is no profile gone",
        "AGENT_DEV_NET: hots is not one of host, none (did you mean host?)",
        "--net: nine is not one of host, none (did you mean none?)",
        "--env: C D is not a variable's name: letters, digits and _, no digit first",
        "--env: 1 is not a variable's name: letters, digits and _, no digit first",
    ]


def test_profiles_that_extend_each_other_are_refused(user: User) -> None:
    user.write("profiles/mine.yaml", "extends: other\n")
    user.write("profiles/other.yaml", "net: host\nextends: mine\n")

    assert user.problems() == ["…/profiles/other.yaml:2: extends: goes round in a circle (mine → other → mine)"]


def test_a_chosen_file_that_does_not_exist_is_refused(user: User) -> None:
    user.environ["AGENT_DEV_CONFIG"] = "/gone/a.yaml"
    assert user.problems() == ["AGENT_DEV_CONFIG: /gone/a.yaml does not exist"]
    assert user.problems(config="/gone/b.yaml") == ["--config: /gone/b.yaml does not exist"]

    del user.environ["AGENT_DEV_CONFIG"]
    assert user.problems(profile_file="/gone/c.yaml") == ["--profile: /gone/c.yaml does not exist"]


def test_a_file_that_is_too_large_or_none_is_refused(user: User) -> None:
    user.write("config.yaml", "# " + "x" * (256 << 10))
    (user.config / "profiles/mine.yaml").mkdir(parents=True)

    assert user.problems() == [
        "…/config.yaml: is larger than 256 KiB",
        "…/profiles/mine.yaml: cannot be read: Is a directory",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "\ufeff# byte order mark\n", "ro:\nset:\n"])
def test_a_file_that_says_nothing_is_right(text: str, user: User) -> None:
    user.write("config.yaml", text)
    user.write("profiles/mine.yaml", text)

    assert user.settings().profile.name == "mine"


def test_hostile_text_in_a_message_is_made_visible(user: User) -> None:
    user.write("profiles/mine.yaml", '"a\\e[2J\\nb": x\n')

    assert user.problems() == ["…/profiles/mine.yaml:1: a␛[2J␊b: unknown key"]


# The cache


def test_unchanged_files_are_not_parsed_again(user: User, parsed: list[bytes]) -> None:
    user.write("config.yaml", "home: /a\n")
    user.write("profiles/mine.yaml", "extends: claude\nro: [/a]\nset: {A: b}\n")
    first = user.settings()
    assert len(parsed) == 4  # default, config, mine, claude

    assert user.settings() == first
    assert len(parsed) == 4


def test_the_cache_is_for_its_owner_alone(user: User) -> None:
    user.settings("claude")

    assert stat.S_IMODE(user.cache.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(user.cache.stat().st_mode) == 0o600
    assert [path.name for path in user.cache.parent.iterdir()] == ["profiles.json"]


def test_a_changed_file_is_parsed_again(user: User, parsed: list[bytes]) -> None:
    path = user.write("profiles/mine.yaml", "home: /a\n")
    user.settings()
    parsed.clear()
    times = path.stat()
    path.write_text("home: /b\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # same size, inode and time: only the ctime tells

    assert user.settings().profile.home == "/b"
    assert parsed == [b"home: /b\n"]


def test_another_version_parses_again(user: User, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    user.settings("bash")
    parsed.clear()
    monkeypatch.setattr(load, "__version__", "99")
    user.settings("bash")

    assert len(parsed) == 2  # default, bash


def test_the_same_file_is_held_to_what_it_is_used_as(user: User) -> None:
    path = user.write("both.yaml", "command: x\n")
    assert user.settings("x", profile_file=str(path)).profile.command == ("x",)

    assert user.problems("x", config=str(path)) == ["…/both.yaml:1: command: belongs into a profile, not into config.yaml"]


def test_a_file_with_a_problem_is_not_kept(user: User) -> None:
    user.write("profiles/mine.yaml", "nett: x\n")

    assert user.problems() == user.problems()


def test_a_file_changed_a_moment_ago_is_not_kept(user: User, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_COARSEST_CLOCK", 10**12)
    user.write("profiles/mine.yaml", "home: /a\n")
    user.settings()
    parsed.clear()
    user.settings()

    assert b"home: /a\n" in parsed


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"\xff",
    b'{"profile:PATH": 1}',
    b'{"profile:PATH": {"key": 1}}',
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_cache_is_made_anew(data: bytes, user: User, parsed: list[bytes]) -> None:
    first = user.settings("bash")
    user.cache.write_bytes(data.replace(b"PATH", os.fsencode(SHIPPED / "bash.yaml")))
    parsed.clear()
    assert user.settings("bash") == first
    assert parsed

    parsed.clear()
    assert user.settings("bash") == first
    assert not parsed


@pytest.mark.parametrize("field", ["fields", "lines"])
def test_a_kept_file_of_another_shape_is_parsed(field: str, user: User) -> None:
    first = user.settings("bash")
    kept = quick_json.loads(user.cache.read_bytes())
    assert isinstance(kept, dict)
    kept[f"profile:{SHIPPED}/bash.yaml"][field] = []
    user.cache.write_bytes(quick_json.dumps(kept))

    assert user.settings("bash") == first


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_cache_that_others_can_write_is_not_believed(mode: int, user: User, parsed: list[bytes]) -> None:
    user.settings("bash")
    user.cache.chmod(mode)
    parsed.clear()
    user.settings("bash")

    assert parsed


def test_a_cache_that_cannot_be_written_is_no_error(user: User) -> None:
    (user.home / ".cache").write_text("a file in the way")
    assert user.settings("bash").profile.command == ("bash",)

    user.environ["XDG_CACHE_HOME"] = "/proc"
    assert user.settings("bash").profile.command == ("bash",)


def test_without_a_home_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(cache, "write", lambda place, _: kept.append(place))

    assert load.settings(Request(agent="bash", home=str(tmp_path), environ={})).profile.command == ("bash",)
    assert kept == []


def test_the_cache_does_not_grow_without_end(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 3)
    for number in range(5):
        user.write(f"profiles/p{number}.yaml", "command: x\n")
        user.settings(f"p{number}")
    kept = quick_json.loads(user.cache.read_bytes())

    assert isinstance(kept, dict)
    assert len(kept) == 3
    assert f"profile:{user.config}/profiles/p4.yaml" in kept


def _fresh(code: str, *words: str) -> set[str]:
    """Run code in an interpreter without site-packages; return the modules that it has then."""
    program = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); before = set(sys.modules); {code}"
    program += "; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_with_everything_in_the_cache_nothing_slow_is_imported(user: User) -> None:
    user.write("config.yaml", "home: ~/elsewhere\n")
    user.write("profiles/mine.yaml", "extends: claude\n")
    user.settings()
    code = "from agent_dev.host.load import Request, settings; "
    code += "made = settings(Request(agent='mine', home=sys.argv[1], environ={'HOME': sys.argv[1]})); "
    code += "assert made.profile.home == '~/elsewhere', made"
    imported = _fresh(code, str(user.home))

    assert "agent_dev.host.load" in imported
    assert not imported & SLOW


# What there is


def test_profiles_are_named_with_what_they_say_of_themselves(user: User) -> None:
    own = user.write("profiles/claude.yaml", "about: Mine.\n")
    user.write("profiles/broken.yaml", "net: x\nabout: Never seen.\n")
    user.write("profiles/a b.yaml", "about: x\n")
    user.write("profiles/risks.yaml", "about: x\n")
    user.write("profiles/notes.txt", "x")
    found = {name: (path, about) for name, path, about in load.names(str(user.home), user.environ)}

    assert list(found) == ["a b", "bash", "broken", "claude", "codex", "default", "demo", "risks"]
    assert found["claude"] == (str(own), "Mine.")
    assert found["codex"][0] == str(SHIPPED / "codex.yaml")
    assert found["broken"][1] == f"{user.config}/profiles/broken.yaml:1: net: x is not one of host, none"
    assert found["a b"][1] == found["risks"][1] == "is not used: no name of a profile (letters, digits, ., _ and -)"


def test_a_profile_without_words_of_its_own_says_those_of_the_one_it_extends(user: User) -> None:
    user.write("profiles/mine.yaml", "extends: bash\n")
    user.write("profiles/claude.yaml", "extends: claude\n")
    user.write("profiles/far.yaml", "extends: mine\nabout: Far.\n")
    user.write("profiles/farther.yaml", "extends: far\n")
    user.write("profiles/plain.yaml", "extends: default\n")
    user.write("profiles/lost.yaml", "extends: nobody\n")
    found = {name: about for name, _, about in load.names(str(user.home), user.environ)}

    assert found["mine"] == found["bash"] == "A shell in the sandbox."
    assert found["claude"].startswith("Claude Code")
    assert found["far"] == found["farther"] == "Far."
    assert found["plain"] == ""
    assert "there is no profile nobody" in found["lost"]


def test_without_own_profiles_the_shipped_ones_are_named(user: User) -> None:
    found = load.names(str(user.home), user.environ)

    assert [name for name, _, _ in found] == ["bash", "claude", "codex", "default", "demo"]
    assert all(about.endswith(".") for _, _, about in found)


def test_shipped_profiles_lie_in_the_package_or_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load.profiles_folder() == str(SHIPPED)

    (tmp_path / "agent_dev/host").mkdir(parents=True)
    monkeypatch.setattr(load, "__file__", str(tmp_path / "agent_dev/host/load.py"))
    assert load.profiles_folder() == str(tmp_path / "profiles")

    (tmp_path / "agent_dev/profiles").mkdir()
    assert load.profiles_folder() == str(tmp_path / "agent_dev/profiles")


def test_risk_rules_are_read_once_and_kept(user: User, parsed: list[bytes]) -> None:
    first = load.risk_rules({"HOME": str(user.home)})
    assert {"ci", "deletion", "executable", "git-internals"} <= {rule.name for rule in first}
    assert len(parsed) == 1

    assert load.risk_rules({"HOME": str(user.home)}) == first
    assert len(parsed) == 1


# The shipped profiles


@pytest.mark.parametrize("name", ["bash", "claude", "codex", "default", "demo"])
def test_each_shipped_profile_is_right(name: str, user: User) -> None:
    assert user.settings(name).profile.name == name


def test_agents_get_no_key_of_the_users_by_themselves(user: User) -> None:
    assert [user.settings(name).profile.env for name, _, _ in load.names(str(user.home), user.environ)] == [()] * 5


CREDENTIALS_WITHIN = """
    ~/.aws ~/.cargo ~/.claude ~/.codex ~/.config ~/.config/gh ~/.docker ~/.dotnet ~/.gnupg ~/.gradle ~/.hex ~/.kube ~/.local
    ~/.local/share ~/.local/share/keyrings ~/.local/share/uv ~/.m2 ~/.netrc ~/.npm ~/.npm-global ~/.npmrc ~/.nuget ~/.pub-cache
    ~/.ssh
"""


def test_no_place_that_holds_credentials_is_shown(user: User) -> None:
    profile = user.settings("claude").profile
    shown = (*profile.tools, *profile.caches, *profile.ro, *profile.rw)

    assert not [
        (path, secret)
        for path in shown
        for secret in CREDENTIALS_WITHIN.split()
        if secret == path or secret.startswith(path + "/")
    ]


def test_the_agents_own_programs_come_first_and_no_tool_directory_covers_them(user: User) -> None:
    profile = user.settings("claude").profile

    assert profile.path[0] == "~/.local/agent/bin"
    assert not [tool for tool in profile.tools if (profile.path[0] + "/").startswith(tool + "/")]
    assert "--prefix ~/.local/agent " in profile.install
