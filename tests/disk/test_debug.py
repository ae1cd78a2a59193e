"""--debug shows each command, and no secret in it."""

import pytest

from agent_dev import trace as debug
from agent_dev.trace import masked

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
    assert masked(("bwrap", "--setenv", name, "hush", "--", "true")) == ("bwrap", "--setenv", name, "***", "--", "true")


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "TERM", "EDITOR"])
def test_any_other_value_is_shown(name: str) -> None:
    words = ("bwrap", "--setenv", name, "shown", "--", "true")

    assert masked(words) == words


def test_a_secret_at_the_very_end_is_masked() -> None:
    assert masked(("--setenv", "TOKEN", "hush")) == ("--setenv", "TOKEN", "***")


@pytest.mark.parametrize("words", [(), ("--setenv",), ("--setenv", "TOKEN"), ("true",)])
def test_a_short_command_is_shown_as_it_is(words: tuple[str, ...]) -> None:
    assert masked(words) == words


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_a_password_in_an_address_is_masked(name: str) -> None:
    shown = masked(("bwrap", "--setenv", name, "http://ada:hush@proxy.example:3128/x", "--", "true"))

    assert not any("hush" in word for word in shown)
    assert "proxy.example" in shown[3]


def test_a_password_in_an_address_among_the_arguments_is_masked() -> None:
    assert masked(("git", "fetch", "https://ada:hush@example.org/x")) == ("git", "fetch", "https://***@example.org/x")


def test_an_address_without_a_password_is_shown() -> None:
    words = ("bwrap", "--setenv", "http_proxy", "http://proxy.example:3128", "--", "true")

    assert masked(words) == words


def test_nothing_is_shown_unless_asked(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_on", False)

    debug.show(("git", "status"))

    assert capfd.readouterr().err == ""


def test_a_command_is_shown_on_stderr_ready_to_paste(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_on", False)
    debug.switch_on()

    debug.show(("git", "a b", "--setenv", "TOKEN", "hush"))

    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "agent-dev: runs git 'a b' --setenv TOKEN '***'\n")
