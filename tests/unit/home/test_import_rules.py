"""Rules of an import: which settings hold secrets or start programs, and which paths in them exist in the sandbox."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.home.importing import documents, settings_rules
from agent_dev.home.importing.items import RUNS, SECRET, Edit

HOME = "/home/ada"
INSIDE = {f"{HOME}/.claude/hooks/x.sh", "~/.claude/hooks/x.sh", "/usr/bin/node", f"{HOME}/.x"}


def locate(path: str) -> str | None:
    """Know the paths of INSIDE; the agent home's own path is another one inside; what is no path of the host stays."""
    path = path.replace("/home/ada/aihome/", f"{HOME}/")
    return path if path in INSIDE or path.startswith("/api/") else None


@pytest.mark.parametrize(
    ("key", "value", "flags"),
    [
        ("model", "opus", ()),
        ("permissions", {"allow": ["Bash(git push:*)"]}, ()),
        ("max_tokens", 5, ()),
        ("hooks", {"Stop": []}, (RUNS,)),
        ("statusLine", {"type": "command"}, (RUNS,)),
        ("mcp_servers", {"x": {"url": "https://x"}}, (RUNS,)),
        ("awsAuthRefresh", "aws sso login", (RUNS,)),
        ("proxy-auth-command", "x", (RUNS,)),
        ("provider", {"x": {"command": "y"}}, (RUNS,)),
        ("enabledPlugins", {"x": True}, (RUNS,)),
        ("env", {"A": "b"}, ()),
        ("env", {"GITHUB_TOKEN": "abcdefgh"}, (SECRET,)),
        ("env", {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}, ()),
        ("models", [{"apiKey": "sk-aaaaaaaaaaaa"}], (SECRET,)),
        ("provider", {"options": {"apiKey": "{env:KEY}"}}, ()),
        ("set-env", ["OPENAI_API_KEY=abcdefgh"], (SECRET,)),
        ("options", {"list": ["--token", "abcdefgh"]}, (SECRET,)),
        ("env", {"NODE_OPTIONS": "--require ./x"}, (RUNS,)),
        ("note", "ghp_aaaaaaaaaaaaaaaaaaaa", (SECRET,)),
        ("mcpServers", {"x": {"command": "npx", "env": {"ANY": "literal"}}}, (SECRET, RUNS)),
        ("mcpServers", {"x": {"command": "npx", "env": {"ANY": "$ANY"}}}, (RUNS,)),
        ("mcp", {"x": {"headers": {"Authorization": "Bearer abcdefgh"}}}, (SECRET, RUNS)),
    ],
)
def test_secrets_and_programs_are_found_by_key(key: str, value: object, flags: tuple[str, ...]) -> None:
    assert settings_rules.assess(key, value) == flags


HOOK = {"hooks": [{"type": "command", "command": "bash ~/.claude/hooks/x.sh -v"}]}
MISSING = {"hooks": [{"type": "command", "command": f"node {HOME}/gone.js"}]}


@pytest.mark.parametrize(
    ("before", "after", "dropped"),
    [
        ({"a": "b", "url": "/api/v1", "text": "see /gone/now"}, {"a": "b", "url": "/api/v1", "text": "see /gone/now"}, []),
        ({"log": f"{HOME}/logs", "a": 1}, {"a": 1}, ["log"]),
        ({"dirs": [f"{HOME}/.x", "/gone/x"]}, {"dirs": [f"{HOME}/.x"]}, ["dirs[1]"]),
        ({"dirs": ["/gone/x"], "empty": []}, {"empty": []}, ["dirs[0]"]),
        ({"hooks": {"Stop": [HOOK], "Start": [MISSING]}}, {"hooks": {"Stop": [HOOK]}}, ["hooks.Start[0].hooks[0].command"]),
        ({"hooks": {"Start": [MISSING]}}, {}, ["hooks.Start[0].hooks[0].command"]),
        ({"mcpServers": {"x": {"command": "/usr/bin/node", "args": ["--root=/gone/x", "y"]}}}, {}, ["mcpServers.x.args[0]"]),
        ({"mcp": {"x": {"command": ["node", "/gone/x.js"], "enabled": True}}}, {}, ["mcp.x.command[1]"]),
        ({"mcpServers": {"x": {"command": "npx", "cwd": "/gone/x"}, "y": {"command": "z"}}},
         {"mcpServers": {"y": {"command": "z"}}}, ["mcpServers.x.cwd"]),
    ],
)  # fmt: skip
def test_a_setting_with_a_path_missing_inside_is_dropped(
    before: dict[str, Any], after: dict[str, Any], dropped: list[str]
) -> None:
    fitted, edits = settings_rules.translate_paths(before, locate)
    assert fitted == after
    assert [edit.where for edit in edits] == dropped
    assert {edit.action for edit in edits} <= {"dropped"}


def test_paths_of_the_agent_home_are_rewritten() -> None:
    document = {"dir": "/home/ada/aihome/.x", "hooks": {"Stop": ["sh '/home/ada/aihome/.claude/hooks/x.sh'; true"]}}
    fitted, edits = settings_rules.translate_paths(document, locate)
    assert fitted == {"dir": "/home/ada/.x", "hooks": {"Stop": ["sh '/home/ada/.claude/hooks/x.sh'; true"]}}
    assert edits[0] == Edit("rewritten", "dir", "/home/ada/aihome/.x -> /home/ada/.x")
    assert [edit.action for edit in edits] == ["rewritten", "rewritten"]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("---\nname: a\nhooks:\n  Stop: x\n---\ntext", True),
        ("---\nname: a\nmcpServers: [x]\n---\n", True),
        ("---\nname: a\n---\nhooks: are nice\n", False),
        ("hooks:\n", False),
    ],
)
def test_front_matter_with_hooks_runs_automatically(text: str, runs: bool) -> None:  # noqa: FBT001
    assert settings_rules.starts_programs(text) is runs


def test_a_text_with_a_providers_key_holds_a_secret() -> None:
    assert settings_rules.holds_secret("use\nsk-aaaaaaaaaaaaaaaa here")
    assert not settings_rules.holds_secret("The token is in the keyring. Use API keys from the environment.")


BAD = (b"[]", b"{", b"\xff\xfe{}", b"[" * 100_000, b'{"a":' * 60 + b"1" + b"}" * 60)


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(documents.NotADocument):
        documents.parse("x.json", data)


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a\n b: *a", "- x", "1: 2", "a: b: c", "!!python/object:x {}", "a: '\ufffe"])
def test_yaml_that_is_no_plain_mapping_is_refused(text: str) -> None:
    with pytest.raises(documents.NotADocument):
        documents.parse("x.yaml", text.encode())


def test_yaml_that_multiplies_itself_is_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 9)]
    with pytest.raises(documents.NotADocument):
        documents.parse("x.yaml", "\n".join(rows).encode())


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS | st.datetimes() | st.dates(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXTS, parts, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_written_toml_reads_the_same(document: dict[str, Any]) -> None:
    assert tomllib.loads(documents.write("x.toml", document).decode()) == document


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.toml"])
def test_written_documents_read_the_same(name: str) -> None:
    document = {"a": {"b": [1, "zwölf", {"c": True}]}, "no": "yes", "d.e": ""}
    assert documents.parse(name, documents.write(name, document)) == document


def test_the_digest_ignores_layout_and_order() -> None:
    one, other = json.loads('{"a": 1, "b": {"c": 2, "d": 3}}'), json.loads('{"b":{"d":3,"c":2},"a":1}')
    assert documents.digest(one) == documents.digest(other) != documents.digest({"a": 1})
