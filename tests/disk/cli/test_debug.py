"""`--debug` prints each command with its secrets masked."""

import pytest

from agent_dev import debug
from agent_dev.debug import mask_command

SECRETS = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "PGPASSWORD",
    "NPM_CONFIG__AUTH",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "COOKIE",
    "my_password",
    "http_secret",
    "SLACK_WEBHOOK",
    "DATABASE_URL",
    "TOK",
]


@pytest.mark.parametrize("name", SECRETS)
def test_the_value_of_a_secret_is_masked(name: str) -> None:
    assert mask_command(("bwrap", "--setenv", name, "hush", "--", "true")) == ("bwrap", "--setenv", name, "***", "--", "true")


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "TERM", "EDITOR"])
def test_other_values_are_shown(name: str) -> None:
    words = ("bwrap", "--setenv", name, "shown", "--", "true")

    assert mask_command(words) == words


def test_a_secret_at_the_very_end_is_masked() -> None:
    assert mask_command(("--setenv", "TOKEN", "hush")) == ("--setenv", "TOKEN", "***")


@pytest.mark.parametrize("words", [(), ("--setenv",), ("--setenv", "TOKEN"), ("true",)])
def test_a_short_command_is_shown_unchanged(words: tuple[str, ...]) -> None:
    assert mask_command(words) == words


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_a_password_in_a_url_is_masked(name: str) -> None:
    shown = mask_command(("bwrap", "--setenv", name, "http://ada:hush@proxy.example:3128/x", "--", "true"))

    assert not any("hush" in word for word in shown)
    assert "proxy.example" in shown[3]


def test_a_password_in_a_url_among_the_arguments_is_masked() -> None:
    assert mask_command(("git", "fetch", "https://ada:hush@example.org/x")) == ("git", "fetch", "https://***@example.org/x")


def test_a_url_without_a_password_is_shown() -> None:
    words = ("bwrap", "--setenv", "http_proxy", "http://proxy.example:3128", "--", "true")

    assert mask_command(words) == words


def test_nothing_is_shown_without_the_option(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_on", False)

    debug.print_command(("git", "status"))

    assert capfd.readouterr().err == ""


def test_a_command_is_shown_on_stderr_ready_to_paste(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_on", False)
    debug.enable()

    debug.print_command(("git", "a b", "--setenv", "TOKEN", "hush"))

    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "agent-dev: running git 'a b' --setenv TOKEN '***'\n")
