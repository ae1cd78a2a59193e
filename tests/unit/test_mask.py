"""Secrets in the words of a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.core.mask import MASK, masked

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
        f"sh -c |export|MY_SECRET={SECRET};|make",
    ],
)
def test_a_secret_is_masked_by_its_name(line: str) -> None:
    words = tuple(word.replace("|", " ") for word in line.split(" "))
    assert SECRET not in " ".join(masked(words))
    assert MASK in " ".join(masked(words))


@pytest.mark.parametrize("start", ["ghp_", "github_pat_", "glpat-", "sk-", "xoxb-", "npm_", "AKIA", "AIza", "hf_", "eyJ"])
def test_a_key_is_masked_by_its_form(start: str) -> None:
    assert masked(("tool", f"x={start}{'a1' * 10}")) == ("tool", f"x={MASK}")


@pytest.mark.parametrize(
    "line",
    [
        "git commit -m explain-the-token-bucket",
        "grep -rn password src",
        "pytest tests/test_tokens.py -k secret",
        "gcc -DTOKEN_MAX -c tokenizer.c",
        "curl -u ada https://example.org/path@2",
        "npm run sk-x",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert masked(tuple(line.split())) == tuple(line.split())


@given(st.lists(st.text(max_size=20)))
def test_words_stay_as_many_as_they_are(words: list[str]) -> None:
    assert len(masked(tuple(words))) == len(words)
