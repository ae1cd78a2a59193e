"""The user's git settings that are passed through to an agent."""

import subprocess
from pathlib import Path

import pytest

from agent_dev.git.passed_config import find_identity, format_config, parse_listing, select_content_settings


def listing(*rows: tuple[str, str, str | None]) -> bytes:
    """Format settings as `git config` lists them: scope, key, value (None: a key without a value)."""
    return b"".join(f"{scope}\0{key}{'' if value is None else chr(10) + value}\0".encode() for scope, key, value in rows)


def test_the_last_value_counts_with_its_scope() -> None:
    listed = parse_listing(listing(("global", "core.eol", "lf"), ("local", "core.eol", "crlf"), ("global", "user.name", "Ada")))

    assert listed.values == {"core.eol": "crlf", "user.name": "Ada"}
    assert listed.local_keys == {"core.eol"}


def test_values_of_our_own_command_line_are_ignored() -> None:
    assert parse_listing(listing(("command", "core.fsmonitor", "false"))).values == {}


def test_a_key_without_a_value_is_true() -> None:
    assert parse_listing(listing(("global", "core.autocrlf", None))).values == {"core.autocrlf": "true"}


def test_values_may_contain_newlines() -> None:
    assert parse_listing(listing(("global", "filter.x.clean", "a\nb"))).values == {"filter.x.clean": "a\nb"}


@pytest.mark.parametrize("data", [b"", b"\0", b"global", b"global\0", b"\0\0\0"])
def test_empty_output_is_no_settings(data: bytes) -> None:
    assert select_content_settings(parse_listing(data)) == {}


@pytest.mark.parametrize(
    "key",
    ["alias.x", "core.editor", "core.sshcommand", "credential.helper", "url.a.insteadof", "diff.x.textconv", "user.signingkey"],
)
def test_settings_that_change_no_content_are_not_passed_through(key: str) -> None:
    assert select_content_settings(parse_listing(listing(("global", key, "value")))) == {}


def test_a_filter_is_always_required_and_has_both_directions() -> None:
    assert select_content_settings(
        parse_listing(listing(("global", "filter.a.b.clean", "x"), ("global", "filter.a.b.required", "false")))
    ) == {
        "filter.a.b.clean": "x",
        "filter.a.b.smudge": "cat",
        "filter.a.b.required": "true",
    }


def test_a_process_filter_has_both_directions() -> None:
    assert set(select_content_settings(parse_listing(listing(("global", "filter.a.process", "x"))))) == {
        "filter.a.process",
        "filter.a.required",
    }


IDENTITIES = [
    ({}, {}, ("ada", "ada@host")),
    ({"user.name": "Ada", "user.email": "a@x"}, {}, ("Ada", "a@x")),
    ({"user.name": "Ada", "author.name": "Countess"}, {}, ("Countess", "ada@host")),
    ({"user.name": "Ada", "user.email": "a@x"}, {"GIT_AUTHOR_NAME": "E", "GIT_AUTHOR_EMAIL": "e@x"}, ("E", "e@x")),
    ({}, {"EMAIL": "mail@x"}, ("ada", "mail@x")),
]


@pytest.mark.parametrize(("values", "environ", "expected"), IDENTITIES)
def test_the_identity_is_the_one_reported_by_git(
    values: dict[str, str], environ: dict[str, str], expected: tuple[str, str]
) -> None:
    listed = parse_listing(listing(*(("global", key, value) for key, value in values.items())))

    assert tuple(find_identity(listed, environ, "ada", "host").values()) == expected


HARD = {
    "user.name": 'A "quoted" \\ name\twith # and ; \n',
    "user.email": " spaces around ",
    'filter.odd "name" \\ and.dots.clean': "sed 's/\"/\\\\/' # not a comment",
    "core.eol": "",
}


def test_git_reads_the_written_settings(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(format_config(HARD))
    done = subprocess.run(
        ["git", "config", "-f", tmp_path / "config", "--list", "-z"], capture_output=True, text=True, check=True
    )

    assert dict(item.split("\n", 1) for item in done.stdout.split("\0") if item) == HARD
