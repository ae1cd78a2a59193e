"""`diff` on a terminal, in a pager and through a pipe: no byte of the agent controls the terminal, and git applies the patch."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.terminal import Terminal

HOSTILE = {
    "colours": b"\x1b[31;97;5mred",
    "a link": b"\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "the clipboard": b"\x1b]52;c;aGVsbG8=\x07",
    "the title": b"\x1b]0;owned\x07",
    "eight bits": b"\x9b31mred",
    "eight bits in UTF-8": "\u009b31mred".encode(),
    "shifted out": b"\x0eabc",
    "backspaces": b"rm x\x08\x08\x08\x08ls",
    "a carriage return": b"rm x\rls",
    "a NUL": b"a\0b",
    "turned round": "a\u202eb".encode(),
}
OURS = re.compile(rb"\x1b\[(?:1|3[126])?m")
STEERS = re.compile(rb"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\r(?!\n)")


def steers(data: bytes) -> bool:
    """Return whether bytes could control a terminal: C0 controls, or C1 controls as one byte or as UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    return STEERS.search(data) is not None or re.search("[\udc80-\udc9f]", text) is not None


def work(agent_dev: AgentDev) -> dict[str, bytes]:
    """Let an agent write a file for each hostile text; return the contents by name."""
    files = {name.replace(" ", "-"): b"first\n" + text + b"\nlast\n" for name, text in HOSTILE.items()}
    script = "".join(f"open({name!r}, 'wb').write({data!r})\n" for name, data in files.items())
    assert agent_dev("--no-merge", "--", "python3", "-c", script).returncode == 0
    return files


def shown(agent_dev: AgentDev, *words: str, **env: str) -> bytes:
    environment = {**agent_dev.terminal_environment(), **env}
    with Terminal([str(PROGRAM), "diff", *words], rows=30, cols=80, env=environment, cwd=agent_dev.repo) as terminal:
        assert terminal.wait_exit() == 0
        return terminal.raw


@pytest.mark.parametrize("words", [(), ("--no-pager",), ("--color", "always")])
def test_on_a_terminal_only_our_own_colours_remain(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    work(agent_dev)
    raw = shown(agent_dev, *words, PAGER="less" if words == ("--no-pager",) else "cat")

    assert b"\x1b[32m+first\x1b[m" in raw
    assert "␛[31;97;5mred".encode() in raw
    assert not steers(OURS.sub(b"", raw).replace(b"\r\n", b"\n"))


def test_colours_are_omitted_when_disabled(agent_dev: AgentDev) -> None:
    work(agent_dev)
    for raw in (shown(agent_dev, "--color", "never"), shown(agent_dev, NO_COLOR="1")):
        assert not steers(raw.replace(b"\r\n", b"\n"))


def test_the_users_pager_gets_the_escaped_output(agent_dev: AgentDev, tmp_path: Path) -> None:
    work(agent_dev)
    shown(agent_dev, PAGER=f"cat >'{tmp_path}/read'")
    read = (tmp_path / "read").read_bytes()

    assert b"\x1b[32m+first\x1b[m" in read
    assert not steers(OURS.sub(b"", read))


@pytest.mark.parametrize("pager", ["nosuchpager", "/etc/passwd -R"])
def test_without_the_users_pager_the_terminal_gets_the_output(agent_dev: AgentDev, pager: str) -> None:
    work(agent_dev)
    raw = shown(agent_dev, PAGER=pager)

    assert pager.partition(" ")[0].encode() in raw  # the shell's report
    assert b"\x1b[32m+first\x1b[m" in raw


def test_quitting_the_pager_early_ends_the_command(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "sh", "-c", "seq 300000 >many")

    assert b"+1" in shown(agent_dev, PAGER="head -n 9")


def test_less_shows_the_first_page_and_q_quits(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "sh", "-c", "seq 300 >many")
    environment = {**agent_dev.terminal_environment(), "PAGER": "less"}
    with Terminal([str(PROGRAM), "diff"], rows=24, cols=80, env=environment, cwd=agent_dev.repo) as terminal:
        terminal.wait_for("+12")
        terminal.send("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize("words", [(), ("--color", "never")])
def test_a_pipe_gets_the_exact_bytes_and_a_terminal_no_escape_sequences(
    agent_dev: AgentDev, tmp_path: Path, words: tuple[str, ...]
) -> None:
    files = work(agent_dev)
    patch = subprocess.run(
        [str(PROGRAM), "diff", *words],
        cwd=agent_dev.repo,
        env=agent_dev.environment(),
        capture_output=True,
        check=True,
    ).stdout
    copy = tmp_path / "copy"
    agent_dev.git("clone", "-q", str(agent_dev.repo), str(copy))
    done = subprocess.run(["git", "apply"], cwd=copy, input=patch, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    assert {name: (copy / name).read_bytes() for name in files} == files
    assert not steers(patch)


def test_a_pipe_with_forced_colours_gets_the_escaped_output(agent_dev: AgentDev) -> None:
    work(agent_dev)
    printed = agent_dev("diff", "--color", "always").stdout.encode()

    assert b"\x1b[32m+first\x1b[m" in printed
    assert not steers(OURS.sub(b"", printed))
