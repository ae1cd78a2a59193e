"""Our conversion of a blob equals git's checkout, for every conversion that we implement."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.git import conversion as module
from agent_dev.git.conversion import find_conversion, smudge
from tests.harness.repository import git

ENDS = ["", "text", "text=auto", "-text", "text eol=crlf", "text=auto eol=crlf", "eol=lf"]
PIECES = [
    b"$Id$", b"$Id: old $", b"$Id: a b $", b"$Id:$", b"$Id: $", b"$Id:x", b"$Id:\n$", b"$", b"Id", b"$Identity$", b"a", b"\r\n",
    b"\n", b"\r", b" ", "\u00e9".encode(), b"$Id:  $",
]  # fmt: skip
BLOBS = st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join)


def checked_out(folder: Path, blob: bytes, lines: list[str], config: dict[str, str]) -> dict[str, bytes]:
    """Return git's conversion of a blob for each of several lines of attributes."""
    git(folder, "init", "-q")
    for key, value in config.items():
        git(folder, "config", key, value)
    (folder / ".git/info/attributes").write_text("".join(f"{number} {line}\n" for number, line in enumerate(lines)))
    (folder / ".git/blob").write_bytes(blob)
    oid = git(folder, "hash-object", "-w", "--no-filters", str(folder / ".git/blob")).strip()
    # Not `git checkout`: it converts malformed ids ($$Id$) in a different way than git's other commands.
    printed = {line: git(folder, "cat-file", "--filters", f"--path={number}", oid) for number, line in enumerate(lines)}
    return {line: text.encode("utf-8", "surrogateescape") for line, text in printed.items()}


def test_checkouts_match_those_of_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/info/attributes").write_text("a ident eol=crlf\nb ident working-tree-encoding=UTF-16\n")
    blob = b"$Id$ and\n$Id: a b$\n$Id: old $"
    for name, line in {"a": "ident eol=crlf", "b": "ident working-tree-encoding=UTF-16"}.items():
        (tmp_path / ".git/blob").write_bytes(blob)
        oid = git(tmp_path, "hash-object", "-w", "--no-filters", ".git/blob").strip()
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"100644,{oid},{name}")
        git(tmp_path, "checkout-index", name)
        assert (tmp_path / name).read_bytes() == smudge(blob, reported(line, {}))


def reported(line: str, config: dict[str, str]) -> module.Conversion:
    """Return the conversion that a line of attributes selects."""
    attributes = {}
    for word in line.split():
        name, has_value, value = word.partition("=")
        attributes[name.removeprefix("-")] = value if has_value else "unset" if name.startswith("-") else "set"
    return find_conversion(attributes, {key.lower(): value for key, value in config.items()})


@settings(max_examples=20)
@given(
    BLOBS,
    st.lists(st.sampled_from(ENDS), min_size=1, max_size=2, unique=True),
    st.sampled_from([{}, {"core.autocrlf": "true"}, {"core.autocrlf": "input"}, {"core.eol": "crlf"}]),
)
def test_blobs_match_those_of_git(blob: bytes, ends: list[str], config: dict[str, str]) -> None:
    others = ["", "ident", "working-tree-encoding=UTF-16", "ident working-tree-encoding=utf-16le-bom"]
    lines = [f"{one} {other}" for one in ends for other in others]
    with tempfile.TemporaryDirectory() as name:
        for line, data in checked_out(Path(name), blob, lines, config).items():
            assert smudge(blob, reported(line, config)) == data, (line, config)


@pytest.mark.parametrize("encoding", sorted(module._ENCODINGS))
def test_blobs_match_those_of_git_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    line = f"working-tree-encoding={encoding}"
    for number, text in enumerate(("a\n", "\ufeffa\u00e9\n", "\u00e9\u00a4\n", "\u20ac\u0416\n", "\U0001f600\n")):
        made = smudge(text.encode(), reported(line, {}))
        folder = tmp_path / str(number)
        folder.mkdir()
        if made is not None:
            assert checked_out(folder, text.encode(), [line], {})[line] == made
