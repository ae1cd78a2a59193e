"""`bundle` and `import`: a session that ran in one clone is reviewed, merged, undone and resumed in another."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree

ME = ("-c", "user.name=me", "-c", "user.email=me@here")
COMMIT = "git -c user.name=a -c user.email=a@b commit -qm"
WORK = f"""
sed -i s/^5$/five/ big; git rm -q gone/y; git add big; {COMMIT} 'by the agent'; git branch side; git tag t1
echo more >> dir/b; mkdir -p e; ln -s ../x e/l; chmod +x big; mkdir shut; echo s > shut/s; chmod 500 shut
"""


@pytest.fixture
def clones(agent_dev: AgentDev) -> Path:
    """Return another clone of the repository, in which a session `one` has run."""
    repo = agent_dev.repo
    for name, text in {"big": "\n".join(map(str, range(20))) + "\n", "gone/y": "y\n", "dir/b": "b\n"}.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    agent_dev.git("add", "-A")
    agent_dev.git(*ME, "commit", "-qm", "mine")
    other = repo.parent / "other"
    agent_dev.git("clone", "-q", repo, other)
    agent_dev.ended_session(WORK, "--name", "one")
    return other


def without_git(folder: Path) -> dict[str, str]:
    """Return the content of a work tree."""
    return {path: entry for path, entry in tree(folder).items() if not path.startswith(".git/") and path not in (".", ".git")}


def merge_everything(agent_dev: AgentDev, session: str, folder: Path) -> None:
    """Import the commits and apply all changes."""
    done = agent_dev("merge", session, "--commits", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done = agent_dev("merge", session, "--all", "--include-risky", "--yes-delete-many", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_bundle_is_merged_like_its_session(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    agent_dev.do("bundle", "one", tmp_path / "file")
    before = without_git(clones)
    done = agent_dev("import", tmp_path / "file", "--name", "two", cwd=clones)
    assert done.returncode == 0, done.stderr
    assert "unsigned" in done.stdout
    merge_everything(agent_dev, "two", clones)
    merge_everything(agent_dev, "one", agent_dev.repo)
    assert without_git(clones) == without_git(agent_dev.repo)
    refs = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
    assert agent_dev.git(*refs, cwd=clones) == agent_dev.git(*refs)
    for _ in range(2):
        assert agent_dev("undo", cwd=clones).returncode == 0
    assert without_git(clones) == before


def test_a_resumed_import_does_not_revert_its_own_commits(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    agent_dev.do("bundle", "one", tmp_path / "file")
    assert agent_dev("import", tmp_path / "file", "--name", "two", cwd=clones).returncode == 0
    script = f"echo z > z; git add z; {COMMIT} 'second'; git show --format=%s --name-status HEAD; git log --format=%s"
    done = agent_dev("--no-merge", "resume", "two", "--", "sh", "-ec", script, cwd=clones)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:8] == ["second", "A", "z", "second", "by", "the", "agent", "mine"]


def test_signer_and_host_are_shown_everywhere(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    agent_dev.git("config", "--global", "user.signingKey", key)
    agent_dev.do("bundle", "one", tmp_path / "file", "--sign")
    assert "an unknown key" in agent_dev.do("bundle", "--show", tmp_path / "file")
    assert f"{tmp_path}: Is a directory\n" in agent_dev("import", tmp_path).stderr
    (tmp_path / "signers").write_text(f"ada@here {(tmp_path / 'key.pub').read_text()}")
    agent_dev.git("config", "--global", "gpg.ssh.allowedSignersFile", tmp_path / "signers")
    refused = agent_dev("import", tmp_path / "file", "--signed-by", "eve@here", cwd=clones)
    assert (refused.returncode, agent_dev.sessions(cwd=clones)) == (1, [])
    done = agent_dev("import", tmp_path / "file", "--signed-by", "ada@here", "--name", "two", cwd=clones)
    assert done.returncode == 0, done.stderr
    assert agent_dev.status("two", cwd=clones)["imported"]["signer"] == "ada@here"
    assert agent_dev.sessions(cwd=clones)[0]["imported"]["signer"] == "ada@here"
    assert "signed by ada@here" in agent_dev("status", "two", cwd=clones).stdout
    assert "signed by ada@here" in agent_dev("sessions", cwd=clones).stdout
    agent_dev("merge", "two", "--html", tmp_path / "page.html", cwd=clones)
    assert "signed by ada@here" in (tmp_path / "page.html").read_text()
    data = bytearray((tmp_path / "file").read_bytes())
    at = data.index(b'"is_command"')
    for flipped in (at, data.index(b"BEGIN SSH") + 40):
        changed = bytearray(data)
        changed[flipped] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        assert agent_dev("import", tmp_path / "changed", cwd=clones).returncode == 1


def test_a_bundle_over_another_repository_is_refused(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    agent_dev.do("bundle", "one", tmp_path / "file")
    stranger = tmp_path / "stranger"
    agent_dev.git("init", "-q", stranger)
    done = agent_dev("import", tmp_path / "file", cwd=stranger)
    assert (done.returncode, "clone of the same" in done.stderr, agent_dev.sessions(cwd=stranger)) == (1, True, [])


def test_further_roots_are_named_and_mapped(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    library, copy = tmp_path / "library", tmp_path / "copy"
    for folder in (library, copy):
        folder.mkdir()
        (folder / "x").write_text("x\n")
    agent_dev.ended_session(f"echo y >> {library}/x; echo y > own", "--overlay", str(library), "--name", "both")
    agent_dev.do("bundle", "both", tmp_path / "file")
    done = agent_dev("import", tmp_path / "file", cwd=clones)
    hint = "agent-dev --overlay DIRECTORY import FILE, with your directory for library"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"agent-dev: hint: {hint}")
    assert agent_dev("--overlay", str(copy), "import", tmp_path / "file", cwd=clones).returncode == 0
    assert agent_dev("merge", "--all", cwd=clones).returncode == 0
    assert ((copy / "x").read_text(), (clones / "own").read_text(), (library / "x").read_text()) == ("x\ny\n", "y\n", "x\n")


def test_parts_missing_from_a_bundle_are_named(agent_dev: AgentDev, clones: Path, tmp_path: Path) -> None:
    agent_dev.ended_session("echo x >> big; git -c user.name=a -c user.email=a@b stash -q; echo y > y; ln y z", "--name", "rest")
    done = agent_dev("bundle", "rest", tmp_path / "file")
    assert done.returncode == 0, done.stderr
    assert "not in the bundle: the agent's stash" in done.stderr
    shown = json.loads(agent_dev.do("bundle", "--json", "--show", tmp_path / "file"))
    assert any("hard links" in text for text in shown["left_out"])
    done = agent_dev("import", tmp_path / "file", "--name", "again")
    assert "not in the bundle: the agent's stash" in done.stderr
    assert "not in the bundle: the agent's stash" in agent_dev.status("again")["notes"]
    found = {one["name"]: one["imported"] for one in agent_dev.sessions()}
    assert found["again"]["left_out"] == shown["left_out"]
    assert clones.is_dir()
