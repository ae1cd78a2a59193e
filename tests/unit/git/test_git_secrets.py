"""Passwords and tokens are removed from the files of a git directory; everything else stays byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.secret_removal import remove_secrets, remove_stash, remove_userinfo

CONFIG = b"""\
# a comment with https://nobody@nowhere, and a \\
[core]
\trepositoryformatversion = 0
\thooksPath = .husky
[remote "origin"]
\turl = https://ada:TOKEN@example.invalid/shop.git
\tpushurl = ssh://git:TOKEN@example.invalid:22/shop.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[url "https://TOKEN@example.invalid/"]
\tinsteadOf = https://example.invalid/
[http]
\tproxy = http://ada:TOKEN@proxy.invalid:3128
\textraheader = AUTHORIZATION: basic TOKEN
[http "https://example.invalid/"] extraHeader = "X: TOKEN \\
  TOKEN"
[sendemail]
\tsmtpPass = TOKEN
\tsmtpUser = ada
[imap]
\tpass = "TOKEN"
[github]
\toauthToken = TOKEN
[credential]
\thelper = "!f() { echo password=TOKEN; }; f"
\thelper = cache --timeout 60
[alias]
\tci = !curl -H 'Private-Token: TOKEN' https://example.invalid
\tst = status
[remote "mirror"]
\turl = https://example.invalid/shop.git?a=1&private_token=TOKEN
[bugzilla]
\tapi-key = TOKEN
[core]
\tsshCommand = sshpass -p TOKEN ssh
[diff "x"]
\ttextconv = show --token=TOKEN
\tcommand = show?monkey=1 --tokens
"""
GONE = {
    "a comment",
    "remote.origin.url",
    "remote.origin.pushurl",
    "url.https://example.invalid/",
    "http.proxy",
    "http.extraheader",
    "http.https://example.invalid/.extraheader",
    "sendemail.smtppass",
    "imap.pass",
    "github.oauthtoken",
    "credential.helper",
    "alias.ci",
    "remote.mirror.url",
    "bugzilla.api-key",
    "core.sshcommand",
    "diff.x.textconv",
}


def test_every_secret_of_a_config_is_removed_and_nothing_else() -> None:
    cleaned, gone = remove_secrets("config", CONFIG)
    assert cleaned is not None
    assert b"TOKEN" not in cleaned
    assert set(gone) == GONE
    for kept in (
        b"url = https://example.invalid/shop.git",
        b"pushurl = ssh://git@example.invalid:22/shop.git",
        b'[url "https://example.invalid/"]',
        b"proxy = http://proxy.invalid:3128",
        b'[http "https://example.invalid/"]',
        b"hooksPath = .husky",
        b"smtpUser = ada",
        b"helper = cache --timeout 60",
        b"st = status",
        b"command = show?monkey=1 --tokens",
    ):
        assert kept in cleaned


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0binary\xff",
        b'[remote "origin"]\n\turl = git@example.invalid:shop.git\n',
        b'[remote "origin"]\n\turl = ssh://git@example.invalid/shop.git\n',
        b"[core]\n\taskPass = /usr/bin/ask\n[credential]\n\thelper = store\n",
        b"ref: refs/heads/main\n",
        b"0" * 40 + b" " + b"1" * 40 + b" Ada <ada@example.invalid> 0 +0000\tclone: from https://example.invalid/shop.git\n",
    ],
)
def test_content_without_secrets_is_unchanged(data: bytes) -> None:
    assert remove_secrets("x", data) == (data, ())


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (b"https://ada:TOKEN@example.invalid\n", b"https://example.invalid\n"),
        (b"x\tclone: from https://TOKEN@example.invalid/a\n", b"x\tclone: from https://example.invalid/a\n"),
        (b"not-for-merge\tbranch 'main' of https://a:b@c@d/x", b"not-for-merge\tbranch 'main' of https://d/x"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nTOKEN\n", None),
    ],
)
def test_other_files_lose_the_users_of_urls_and_key_files_are_excluded(data: bytes, after: bytes | None) -> None:
    assert remove_secrets("git-credentials", data) == (after, ("git-credentials",))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("netrc", b"machine example.invalid login ada password TOKEN\n"),
        (".netrc", b"machine example.invalid login ada password TOKEN\n"),
        ("cookies", b"# Netscape HTTP Cookie File\n.example.invalid\tTRUE\t/\tTRUE\t0\ts\tTOKEN\n"),
        ("jar", b"example.invalid\tFALSE\t/\tTRUE\t0\ts\tTOKEN\n"),
        ("0a1b", b"K 8\npasstype\nV 6\nsimple\nK 8\npassword\nV 5\nTOKEN\nEND\n"),
    ],
)
def test_files_with_nothing_but_logins_are_excluded(name: str, data: bytes) -> None:
    assert remove_secrets(name, data) == (None, (name,))


@given(st.binary(max_size=300) | st.text('a:/@ []"\\\n=#x', max_size=120).map(str.encode))
def test_any_bytes_are_accepted_and_cleaning_is_idempotent(data: bytes) -> None:
    cleaned, _ = remove_secrets("config", data)
    assert remove_userinfo(remove_userinfo(data)) == remove_userinfo(data)
    assert cleaned is None or len(cleaned) <= len(data) + data.count(b"[")


def test_the_stash_is_removed_from_packed_refs() -> None:
    packed = (
        b"# pack-refs with: peeled fully-peeled sorted \n" + b"1" * 40 + b" refs/heads/stash\n" + b"2" * 40 + b" refs/stash\n"
    )
    assert remove_stash(packed) == packed[: packed.index(b"2" * 40)]
