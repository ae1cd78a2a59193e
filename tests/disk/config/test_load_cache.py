"""Parsed configuration is cached: unchanged files are not parsed again, and a damaged or untrusted cache is ignored."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_dev.config import load, strict_yaml
from agent_dev.config.load import SettingsRequest
from agent_dev.fs import cache, checksummed_json
from agent_dev.risk import load as risk_load
from tests.disk.config.load_world import REPOSITORY, SHIPPED, User

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
    """Return a list that collects every file content that is parsed as YAML."""
    seen: list[bytes] = []
    read = strict_yaml.parse_tree

    def reading(data: bytes) -> object:
        seen.append(data)
        return read(data)

    monkeypatch.setattr(strict_yaml, "parse_tree", reading)
    return seen


# The cache


def test_unchanged_files_are_not_parsed_again(user: User, parsed: list[bytes]) -> None:
    user.write("config.yaml", "home: /a\n")
    user.write("profiles/mine.yaml", "extends: claude\nro: [/a]\nset: {A: b}\n")
    first = user.settings()
    assert len(parsed) == 4  # default, config, mine and claude

    assert user.settings() == first
    assert len(parsed) == 4


def test_the_cache_is_private_to_its_owner(user: User) -> None:
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
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # equal size, inode and mtime: only the ctime differs

    assert user.settings().profile.home == "/b"
    assert parsed == [b"home: /b\n"]


def test_another_version_invalidates_the_cache(user: User, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    user.settings("bash")
    parsed.clear()
    monkeypatch.setattr(load, "__version__", "99")
    user.settings("bash")

    assert len(parsed) == 2  # default and bash


def test_a_cached_file_is_validated_for_each_use(user: User) -> None:
    path = user.write("both.yaml", "command: x\n")
    assert user.settings("x", profile_file=str(path)).profile.command == ("x",)

    assert user.problems("x", config=str(path)) == ["…/both.yaml:1: command: belongs in a profile, not in config.yaml"]


def test_a_file_with_a_problem_is_not_cached(user: User) -> None:
    user.write("profiles/mine.yaml", "nett: x\n")

    assert user.problems() == user.problems()


def test_a_file_changed_a_moment_ago_is_not_cached(user: User, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_damaged_cache_is_rebuilt(data: bytes, user: User, parsed: list[bytes]) -> None:
    first = user.settings("bash")
    user.cache.write_bytes(data.replace(b"PATH", os.fsencode(SHIPPED / "bash.yaml")))
    parsed.clear()
    assert user.settings("bash") == first
    assert parsed

    parsed.clear()
    assert user.settings("bash") == first
    assert not parsed


@pytest.mark.parametrize("field", ["fields", "lines"])
def test_a_cached_file_of_another_shape_is_parsed(field: str, user: User) -> None:
    first = user.settings("bash")
    kept = checksummed_json.loads(user.cache.read_bytes())
    assert isinstance(kept, dict)
    kept[f"profile:{SHIPPED}/bash.yaml"][field] = []
    user.cache.write_bytes(checksummed_json.dumps(kept))

    assert user.settings("bash") == first


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_cache_writable_by_others_is_not_trusted(mode: int, user: User, parsed: list[bytes]) -> None:
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


def test_without_a_home_nothing_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(cache, "write", lambda place, _: kept.append(place))

    assert load.load_settings(SettingsRequest(agent="bash", home=str(tmp_path), environ={})).profile.command == ("bash",)
    assert kept == []


def test_the_cache_size_is_bounded(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRIES", 3)
    for number in range(5):
        user.write(f"profiles/p{number}.yaml", "command: x\n")
        user.settings(f"p{number}")
    kept = checksummed_json.loads(user.cache.read_bytes())

    assert len(kept) == 3
    assert f"profile:{user.config}/profiles/p4.yaml" in kept


def _fresh(code: str, *words: str) -> set[str]:
    """Run code in an interpreter without site-packages; return the modules that it loaded."""
    program = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); before = set(sys.modules); {code}"
    program += "; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_full_cache_avoids_slow_imports(user: User) -> None:
    user.write("config.yaml", "home: ~/elsewhere\n")
    user.write("profiles/mine.yaml", "extends: claude\n")
    user.settings()
    code = "from agent_dev.config.load import SettingsRequest, load_settings; "
    code += "made = load_settings(SettingsRequest(agent='mine', home=sys.argv[1], environ={'HOME': sys.argv[1]})); "
    code += "assert made.profile.home == '~/elsewhere', made"
    imported = _fresh(code, str(user.home))

    assert "agent_dev.config.load" in imported
    assert not imported & SLOW


# Risk rules


def test_risk_rules_are_read_once_and_cached(user: User, parsed: list[bytes]) -> None:
    first = risk_load.load_risk_rules({"HOME": str(user.home)})
    assert {"ci", "deletion", "executable", "git-internals"} <= {rule.name for rule in first}
    assert len(parsed) == 1

    assert risk_load.load_risk_rules({"HOME": str(user.home)}) == first
    assert len(parsed) == 1
