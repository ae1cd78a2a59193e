"""`agent-dev diff` of a real session: `git apply` accepts the patch, which contains each change once."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev, tree

WORK = r"""
printf 'more\n' >>a.txt; printf '\0\1\2' >b.png; printf '\033[2Jx\n' >esc; git mv d/long.txt 'moved to.txt'
echo end >>'moved to.txt'; chmod +x run.sh; ln -s a.txt link; rm gone; printf 'no newline' >"sp ace"; : >empty
mkdir void; chmod 600 secret; mkfifo pipe
ln -sf ../x d/x; printf 'a\r\nB\r\n' >crlf; printf x >"$(printf 'q"\377\n')"
"""


@pytest.fixture
def worked(agent_dev: AgentDev, tmp_path: Path) -> AgentDev:
    """Return a repository after an agent's work; next to it is a copy from before, whose index git considers up to date."""
    repo = agent_dev.repo
    (repo / "d").mkdir()
    (repo / "d/long.txt").write_text("".join(f"line {number}\n" for number in range(40)))
    texts = {"a.txt": "a\n", "b.png": "\0", "gone": "g\n", "run.sh": "#!\n", "secret": "s\n", "crlf": "a\r\nb\r\n", "d/x": "x"}
    for name, text in texts.items():
        (repo / name).write_bytes(text.encode())
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "base")
    shutil.copytree(repo, tmp_path / "copy", symlinks=True)
    agent_dev.git("update-index", "-q", "--refresh", cwd=tmp_path / "copy")
    done = agent_dev("--no-merge", "--", "bash", "-ec", WORK)
    assert done.returncode == 0, done.stderr
    return agent_dev


def patch(agent_dev: AgentDev, *words: str) -> tuple[bytes, str]:
    """Return the patch written to a pipe, and stderr."""
    done = subprocess.run(
        [PROGRAM, "diff", *words], cwd=agent_dev.repo, env=agent_dev.environment(), capture_output=True, check=True
    )
    return done.stdout, done.stderr.decode()


@pytest.mark.parametrize("how", ["", "--index", "--3way"])
def test_git_apply_of_the_patch_yields_the_sessions_tree(worked: AgentDev, tmp_path: Path, how: str) -> None:
    text, printed = patch(worked)
    copy = tmp_path / "copy"
    words = ["git", "apply", "--whitespace=nowarn", *([how] if how else [])]
    done = subprocess.run(words, cwd=copy, env=worked.environment(), input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert worked("merge", "--all", "--include-risky").returncode == 0
    for root in (copy, worked.repo):
        shutil.rmtree(root / ".git")
    (worked.repo / "void").rmdir()
    (worked.repo / "pipe").unlink()
    (worked.repo / "secret").chmod((copy / "secret").stat().st_mode)

    assert printed.startswith("agent-dev: not in the patch: ")
    assert printed.count("\n") == 1
    assert tree(copy) == tree(worked.repo)


def test_the_patch_has_no_terminal_escapes(worked: AgentDev) -> None:
    text, _ = patch(worked)
    assert b"\x1b" not in text
    assert b"diff --git a/esc b/esc\nnew file mode 100644\n" in text


def test_a_change_matched_by_two_arguments_appears_once(worked: AgentDev) -> None:
    once, _ = patch(worked, "d")
    assert once.count(b"diff --git") == 3  # a deletion, and a file that became a symlink, which takes two
    for words in (("d", "d/x"), ("d/x", "d"), ("d", "d")):
        assert sorted(patch(worked, *words)[0].split(b"\n")) == sorted(once.split(b"\n"))


def test_an_export_is_the_same_patch(worked: AgentDev, tmp_path: Path) -> None:
    done = worked("merge", "--all", "--include-risky", "--export", str(tmp_path / "x.patch"))
    assert done.returncode == 0, done.stderr
    assert "not in the patch: void" in done.stdout
    words = ["git", "apply", "--whitespace=nowarn", "--index", str(tmp_path / "x.patch")]
    assert subprocess.run(words, cwd=tmp_path / "copy", env=worked.environment(), check=False).returncode == 0
    assert (tmp_path / "copy/b.png").read_bytes() == b"\0\1\2"
