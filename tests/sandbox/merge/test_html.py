"""`merge --html` of real sessions: the page has each change and commit, is written atomically, and merges nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_dev.review_page import output_file
from tests.harness.html_audit import Audit
from tests.harness.program import PROGRAM, AgentDev, tree

WORK = r"""
sed -i 's/^7$/seven/' a.txt; printf '\0\0\1' >b.png; git mv old.txt 'new <name>.txt'; echo more >>'new <name>.txt'
rm gone; chmod 600 secret; ln -s /etc/passwd out; mkdir -p .github/workflows; echo 'on: push' >.github/workflows/ci.yml
mkfifo pipe; printf 'no end' >last; printf x >"$(printf 'q"\377\n')"; python3 -c 'print("y" * 99999)' >long
head -c 3000000 /dev/zero | tr '\0' '\n' >many; ln -s a.txt run.sh.new; mv run.sh.new run.sh
git add a.txt b.png 'new <name>.txt'
git -c user.name='A <i>' -c user.email=a@a commit -q --date '1700000000 -0930' -m 'One & <two>' -m 'the body'
echo later >>a.txt
"""


@pytest.fixture
def worked(agent_dev: AgentDev) -> AgentDev:
    """Return a repository with a waiting session."""
    for name, text in {
        "a.txt": "".join(f"{number}\n" for number in range(40)), "old.txt": "".join(f"line {number}\n" for number in range(40)),
        "b.png": "\0", "gone": "g\n", "secret": "s\n", "run.sh": "#!\n",
    }.items():  # fmt: skip
        (agent_dev.repo / name).write_text(text)
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "base")
    agent_dev.do("--no-merge", "--name", "work", "--", "bash", "-ec", WORK)
    return agent_dev


def sections(page: str) -> dict[str, str]:
    """Return the HTML of each change by its path, as escaped on the page."""
    found = {}
    for part in page.partition('<section id="changes">')[2].partition("</section>")[0].split('<details id="change-')[1:]:
        found[part.partition("</summary>")[0].rpartition("<code><bdi>")[2].partition("</bdi>")[0]] = part
    return found


def test_the_page_has_every_change_and_commit(worked: AgentDev, tmp_path: Path) -> None:
    before = tree(worked.repo)
    printed = worked.do("merge", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    status, shown = worked.status(), sections(page)

    assert Audit(page).wrong == []
    assert len(shown) == len(status["changes"]) == 13
    assert printed == f"page with 13 changes and 1 commit written to {tmp_path}/page.html; nothing was merged\n"
    assert tree(worked.repo) == before
    assert '<span class="kind">renamed</span> <code><bdi>old.txt</bdi></code> → ' in shown["new &lt;name&gt;.txt"]
    assert '<td class="deleted">7</td><td class="number">8</td><td class="added">seven</td>' in shown["a.txt"]
    assert "<dt>before</dt><dd><bdi>file, 1 B, mode 0644</bdi></dd>" in shown["b.png"]
    assert "SHA-256 after</dt><dd><bdi>" in shown["b.png"]
    assert "mode 0644 → 0600" in shown["secret"]
    assert "symlink to /etc/passwd" in shown["out"]
    assert "was a file" in shown["run.sh"]
    assert "no newline at the end" in shown["last"]
    assert "98,999 more characters" in shown["long"]
    assert "the file is too large" in shown["many"]
    assert "q&quot;\\xff" in shown
    for text in ("One &amp; &lt;two&gt;", "the body", "2023-11-14 12:43:20 -0930", "A i &lt;a@a&gt;", "uncommitted: "):
        assert text in page.partition('<section id="commits">')[2]


def test_risky_changes_come_first(worked: AgentDev) -> None:
    page = worked.do("merge", "--html", "-", "work")
    risky = [bool(change["risks"]) for change in worked.status()["changes"]]
    parts = ['<b class="risk">' in part for part in sections(page).values()]

    assert parts == sorted(parts, reverse=True)
    assert sum(parts) == sum(risky) > 0


def test_the_page_is_the_same_each_time(worked: AgentDev, tmp_path: Path) -> None:
    worked.do("merge", "--html", tmp_path / "one.html")
    again = worked("merge", "--html", "-", env={"TZ": "Asia/Tokyo", "LANG": "C"})

    assert again.stdout == (tmp_path / "one.html").read_text()


def test_a_conflict_is_named(worked: AgentDev) -> None:
    (worked.repo / "a.txt").write_text("mine\n")

    assert "✗ conflict" in sections(worked.do("merge", "--html", "-"))["a.txt"]


def test_a_conflict_shows_base_yours_and_the_agents_lines(worked: AgentDev) -> None:
    text = (worked.repo / "a.txt").read_text()
    (worked.repo / "a.txt").write_text(text.replace("\n7\n", "\nsieben\n").replace("\n20\n", "\n"))
    page = worked.do("merge", "--html", "-")
    shown = sections(page)["a.txt"]

    assert Audit(page).wrong == []
    assert '<td colspan="2">base</td><td colspan="2">yours</td><td colspan="2">agent</td>' in shown
    row = '<td class="number">8</td><td class="{}">{}</td>'
    assert "".join([row.format("deleted", "7"), row.format("added", "sieben"), row.format("added", "seven")]) in shown
    assert "conflict 1 of 1" in shown
    assert "1 line deleted by you" in shown
    assert "1 line added by the agent" in shown
    assert "<dt>yours</dt>" in shown


@pytest.mark.parametrize(
    "flags",
    [
        ["--all"], ["--take", "a.txt"], ["--patch", "x"], ["--export", "x"], ["--dry-run"], ["--json"], ["--plain"], ["--atomic"],
        ["--every-session"], ["--commits"], ["--squash"], ["--as", "x"], ["--resolve", "a.txt=yours"], ["--allow", "ci"],
        ["--yes-delete-many"],
    ],
)  # fmt: skip
def test_flags_that_merge_are_refused(agent_dev: AgentDev, tmp_path: Path, flags: list[str]) -> None:
    done = agent_dev("merge", "--html", tmp_path / "page.html", *flags)

    assert done.returncode == 2
    assert done.stderr.startswith(f"agent-dev: --html merges nothing and cannot be combined with {flags[0]}\n")
    assert not (tmp_path / "page.html").exists()


def test_a_symlink_of_the_agent_is_not_followed(worked: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("old")
    (worked.repo / "folder").symlink_to(tmp_path / "outside")
    (worked.repo / "file").symlink_to(tmp_path / "outside/victim")
    for target in ("folder/victim", "folder/new", "file"):
        assert worked("merge", "--html", target).returncode == 2
    assert [path.read_text() for path in (tmp_path / "outside").iterdir()] == ["old"]


def test_a_symlink_of_the_user_is_followed(worked: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    worked.do("merge", "--html", tmp_path / "link/page.html")

    assert [path.name for path in (tmp_path / "real").iterdir()] == ["page.html"]


@pytest.mark.parametrize("target", ["", ".", "missing/page.html", "README.md/page.html"])
def test_a_path_that_is_not_a_file_is_a_usage_error(worked: AgentDev, target: str) -> None:
    done = worked("merge", "--html", target)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 2


def test_a_page_of_a_running_session_is_a_snapshot(agent_dev: AgentDev) -> None:
    with agent_dev.start("--no-merge", "--", "sh", "-c", "echo new >made; echo ready; read end") as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "ready\n"
        done = agent_dev("merge", "--html", "-")

        assert done.returncode == 0, done.stderr
        assert "still running" in done.stderr
        assert "<dt>state</dt><dd><bdi>running</bdi></dd>" in done.stdout
        assert "made" in sections(done.stdout)


def test_a_failed_write_leaves_the_old_page(tmp_path: Path) -> None:
    def pieces() -> object:
        yield "new"
        raise OSError(28, os.strerror(28))

    (tmp_path / "page.html").write_text("old")
    with pytest.raises(OSError, match="No space"):
        output_file.write_file(str(tmp_path / "page.html"), pieces(), ())  # type: ignore[arg-type]

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"page.html": "old"}


@pytest.mark.slow
def test_a_page_of_many_changes_is_bounded(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.do(
        "--no-merge", "--", "bash", "-c", "seq 2100 | split -l 1 -a 4 - f; seq 4 | while read n; do seq 99999 >b$n; done"
    )
    done = subprocess.run(
        [PROGRAM, "merge", "--html", "-"], cwd=agent_dev.repo, env=agent_dev.environment(), capture_output=True, check=True
    )

    assert len(done.stdout) < 24 << 20
    assert b"104 more changes not on this page" in done.stdout
    assert b"96,999 more rows not on this page" in done.stdout


def test_a_session_without_git_has_a_page(agent_dev: AgentDev, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert agent_dev("--no-merge", "--", "sh", "-c", "echo x >made", cwd=plain).returncode == 0
    done = agent_dev("merge", "--html", "-", cwd=plain)

    assert done.returncode == 0, done.stderr
    assert Audit(done.stdout).wrong == []
    assert "<p>No commits.</p>" in done.stdout
