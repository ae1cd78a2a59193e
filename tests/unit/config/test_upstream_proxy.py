"""URLs of proxies, and their exceptions."""

import pytest

from agent_dev.config.upstream_proxy import UpstreamProxy, is_excepted, parse_proxy, proxy_from_environment


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://proxy.example.org", UpstreamProxy("http", "proxy.example.org", 3128)),
        ("http://u:p%3Aw@10.0.0.1:8080/", UpstreamProxy("http", "10.0.0.1", 8080, "u", "p:w")),
        ("socks5h://[::1]", UpstreamProxy("socks5h", "::1", 1080)),
        ("socks5://u@h:1", UpstreamProxy("socks5h", "h", 1, "u")),
        ("none", None),
    ],
)
def test_a_url_names_a_proxy(text: str, proxy: UpstreamProxy | None) -> None:
    assert parse_proxy(text) == proxy


@pytest.mark.parametrize(
    "text",
    ["", "proxy:3128", "https://p", "ftp://p", "http://", "http://u:secret@", "http://u:secret@h:x", "http://u:secret%0a@h"],
)
def test_another_text_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match="proxy") as error:
        parse_proxy(text)
    assert "secret" not in str(error.value)


def test_a_proxy_shows_no_password() -> None:
    proxy = parse_proxy("http://ada:secret@h")
    assert f"{proxy}" == "http://ada:…@h:3128"
    assert "secret" not in f"{proxy!r}"


def test_the_environment_names_a_proxy_and_exceptions() -> None:
    environ = {"HTTPS_PROXY": "http://a", "all_proxy": "http://b", "no_proxy": "x, .y,"}
    assert proxy_from_environment(environ) == ("HTTPS_PROXY", "http://a", ("x", ".y"))
    assert proxy_from_environment({}) == ("", "", ())


@pytest.mark.parametrize(
    ("host", "word", "is_so"),
    [
        ("a.corp", ".corp", True),
        ("a.corp", "*.corp", True),
        ("corp", ".corp", True),
        ("xcorp", "corp", False),
        ("a.corp", "corp:80", False),
        ("a.corp", "corp:443", True),
        ("10.1.1.1", "10.0.0.0/8", True),
        ("10.1.1.1", "10.1.1.2", False),
        ("::1", "[::1]", True),
        ("x", "*", True),
        ("x", ".", False),
        ("a.b", "A.B", True),
    ],
)
def test_exceptions_are_names_addresses_and_networks(host: str, word: str, *, is_so: bool) -> None:
    assert is_excepted(host, 443, (word,)) == is_so
