"""Secrets in the arguments of a command are masked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev import redact
from agent_dev.redact import MASK, mask_secrets

STARTS = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_", "xoxb-", "npm_", "pypi-"),
    *("AKIA", "ASIA", "AIza", "hf_", "dop_v1_", "ya29.", "eyJ"),
)
SECRET = "hunter2hunter2"  # noqa: S105  (nobody's)


@pytest.mark.parametrize(
    "line",
    [
        f"curl -H Authorization:|Bearer|{SECRET}",
        f"curl -u ada:{SECRET} https://example.org",
        f"curl https://ada:{SECRET}@example.org/x",
        f"env GITHUB_TOKEN={SECRET} make",
        f"tool --password {SECRET}",
        f"tool --password={SECRET}",
        f"tool --api-key={SECRET}",
        f"tool --aws-secret-access-key {SECRET}",
        f'tool -d {{"password":"{SECRET}"}}',
        f"tool X_API_KEY:{SECRET}",
        f"docker login -p x --password {SECRET}",
        f"git clone https://x-access-token:{SECRET}@example.org/r.git",
        f"curl -H Authorization:|Basic|{SECRET}",
        f"tool --passphrase {SECRET}",
        f"tool --pa\u017fsword={SECRET}",
        f"tool --api-\u212aey={SECRET}",
        f"tool --credential {SECRET}",
        f"sh -c |export|MY_SECRET={SECRET};|make",
        f"bash -c cd|x;|tool|--password|{SECRET}",
        f"bash -c tool|--api-key|'{SECRET}'|&&|make",
        f"bash -c curl|-u|ada:{SECRET}|https://example.org",
        f"bash -c (curl|--user|'ada:{SECRET}'|x)",
        f"npm config set //registry.example.org/:_authToken={SECRET}",
    ],
)
def test_a_secret_is_masked_by_its_name(line: str) -> None:
    words = tuple(word.replace("|", " ") for word in line.split(" "))
    assert SECRET not in " ".join(mask_secrets(words))
    assert MASK in " ".join(mask_secrets(words))


@pytest.mark.parametrize("start", STARTS)
def test_a_key_is_masked_by_its_form(start: str) -> None:
    assert mask_secrets(("tool", f"x={start}{'a1' * 10}")) == ("tool", f"x={MASK}")


@pytest.mark.parametrize(
    "line",
    [
        "git commit -m explain-the-token-bucket",
        "grep -rn password src",
        "pytest tests/test_tokens.py -k secret",
        "gcc -DTOKEN_MAX -c tokenizer.c",
        "curl -u ada https://example.org/path@2",
        "npm run sk-x",
        "bash -c tool|--token|--verbose",
        "bash -c id|-u|ada;|make",
    ],
)
def test_text_without_a_secret_is_unchanged(line: str) -> None:
    assert mask_secrets(tuple(line.split())) == tuple(line.split())


@given(st.lists(st.text(max_size=20)))
def test_masking_keeps_the_number_of_arguments(words: list[str]) -> None:
    assert len(mask_secrets(tuple(words))) == len(words)


PIECES = (
    *(
        "--",
        "-u",
        "API",
        "_key",
        "ToKen",
        "pa\u017fsword",
        "=",
        ":",
        " ",
        "basic ",
        "BEARER ",
        "https://",
        "ada:",
        "@",
        "\n",
        "x",
    ),
    *("xoxs-", "eyJ", "AKIA", "passphrase", "Acce\u017fs-\u212aey", "a1" * 8),
)


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), max_size=4))
def test_the_fast_path_of_masking_misses_no_secret(words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = mask_secrets(tuple(words))
        patch.setattr(redact, "_is_plain", lambda _text: False)
        assert found == mask_secrets(tuple(words))
