"""What was parsed is kept: unchanged files are not parsed again, and nothing damaged or foreign is believed."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_dev.config import load
from agent_dev.config import strict_yaml as yaml_file
from agent_dev.config.load import Request
from agent_dev.fs import cache
from agent_dev.fs import fast_json as quick_json
from tests.disk.load_world import REPOSITORY, SHIPPED, User

SLOW = {
    "yaml",
    "re",
    "json",
    "dataclasses",
    "enum",
    "typing",
    "difflib",
    "agent_dev.config.schema",
    "agent_dev.config.strict_yaml",
}


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
    code = "from agent_dev.config.load import Request, settings; "
    code += "made = settings(Request(agent='mine', home=sys.argv[1], environ={'HOME': sys.argv[1]})); "
    code += "assert made.profile.home == '~/elsewhere', made"
    imported = _fresh(code, str(user.home))

    assert "agent_dev.config.load" in imported
    assert not imported & SLOW


# What there is


def test_risk_rules_are_read_once_and_kept(user: User, parsed: list[bytes]) -> None:
    first = load.risk_rules({"HOME": str(user.home)})
    assert {"ci", "deletion", "executable", "git-internals"} <= {rule.name for rule in first}
    assert len(parsed) == 1

    assert load.risk_rules({"HOME": str(user.home)}) == first
    assert len(parsed) == 1
