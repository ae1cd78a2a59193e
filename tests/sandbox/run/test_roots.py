"""The root of a session: which directory it is, any name, the same mode and attributes inside."""

import os
import struct
from pathlib import Path

import pytest

from agent_dev.sandbox.plan import INSIDE_UID
from tests.harness.program import AgentDev, tree


def test_from_a_sub_directory_the_cwd_is_kept(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "pwd", cwd=agent_dev.repo / "sub/deep")
    assert done.stdout == f"{agent_dev.repo}/sub/deep\n"


def test_from_a_sub_directory_the_root_is_the_top_of_the_worktree(agent_dev: AgentDev) -> None:
    below = agent_dev.repo / "sub/deep"
    agent_dev("--", "sh", "-c", "echo x >../../top; echo y >here", cwd=below)
    status = agent_dev.status(cwd=below)
    assert status["root"] == str(agent_dev.repo)
    assert {change["path"] for change in status["changes"]} == {"top", "sub/deep/here"}
    assert not (agent_dev.repo / "top").exists()


def test_another_directory_is_selected_by_an_option(agent_dev: AgentDev, tmp_path: Path) -> None:
    assert agent_dev("-C", agent_dev.repo / "sub", "--", "pwd", cwd=tmp_path).stdout == f"{agent_dev.repo}/sub\n"


def test_a_symlink_to_a_repository_is_resolved(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(agent_dev.repo)
    assert agent_dev("--", "pwd", "-P", cwd=tmp_path / "link").stdout == f"{agent_dev.repo}\n"


def test_a_directory_without_git_works(agent_dev: AgentDev, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "old").write_text("old\n")
    (plain / "gone").write_text("gone\n")
    agent_dev("--", "sh", "-c", "echo new >new; echo more >>old; rm gone", cwd=plain)
    assert tree(plain).keys() == {".", "old", "gone"}
    assert agent_dev.changes(cwd=plain) == {"new": "added", "old": "edited", "gone": "deleted"}
    assert agent_dev("merge", "--all", "--include-risky", cwd=plain).returncode == 0
    assert tree(plain).keys() == {".", "old", "new"}
    assert (plain / "old").read_text() == "old\nmore\n"


NAMES = {
    "space": "my shop",
    "colon": "co:lon",
    "comma": "a,b=c",
    "backslash": "back\\slash",
    "newline": "new\nline",
    "0xff": os.fsdecode(b"b\xffyte"),
    "quotes": 'it\'s "so"',
    "percent": "100%s",
    "dash": "-n",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_root_may_have_any_name(agent_dev: AgentDev, name: str) -> None:
    root = agent_dev.home / name
    (root / "sub").mkdir(parents=True)
    agent_dev.git("init", "-q", cwd=root)
    (root / "sub/old").write_text("old\n")
    agent_dev.git("add", "-A", cwd=root)
    agent_dev.git("commit", "-q", "-m", "Begin", cwd=root)
    done = agent_dev("--", "sh", "-c", "pwd; cat old; echo new >new; git commit -qam x --allow-empty", cwd=root / "sub")
    assert done.stdout == f"{root}/sub\nold\n", done.stderr
    assert done.returncode == 0
    assert agent_dev.changes(cwd=root) == {"sub/new": "added"}
    assert agent_dev("merge", "--all", cwd=root).returncode == 0
    assert (root / "sub/new").read_text() == "new\n"


def test_the_state_directory_may_have_any_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "st:a,te \\x\n")}
    agent_dev("--", "touch", "new", env=env)
    done = agent_dev("merge", "--all", env=env)
    assert (done.returncode, (agent_dev.repo / "new").exists()) == (0, True), done.stderr


def test_the_roots_mode_is_the_same_inside(agent_dev: AgentDev) -> None:
    agent_dev.repo.chmod(0o2751)
    assert agent_dev("--", "stat", "-c", "%a", ".").stdout == "2751\n"


def test_the_roots_attributes_are_the_same_inside(agent_dev: AgentDev) -> None:
    os.setxattr(agent_dev.repo, "user.colour", b"blue")
    code = "import json, os; print(json.dumps(os.getxattr('.', 'user.colour').decode()))"
    assert agent_dev.run_python_inside(code) == "blue"


def test_the_roots_acl_is_the_same_inside(agent_dev: AgentDev) -> None:
    def acl(user: int) -> bytes:
        entries = [(1, 7, -1), (2, 5, user), (4, 5, -1), (16, 5, -1), (32, 0, -1)]  # acl(5): tag, permissions, id
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in entries)

    os.setxattr(agent_dev.repo, "system.posix_acl_access", acl(os.getuid()))
    code = "import json, os; print(json.dumps(os.getxattr('.', 'system.posix_acl_access').hex()))"
    assert agent_dev.run_python_inside(code) == acl(os.getuid() or INSIDE_UID).hex()  # the kernel maps the user's own id


def test_a_root_of_a_profile_is_reviewed_and_merged_with_the_others(agent_dev: AgentDev, tmp_path: Path) -> None:
    library = tmp_path / "library"
    agent_dev.git("init", "-q", library)
    (library / "file").write_text("before\n")
    agent_dev.git("add", "-A", cwd=library)
    agent_dev.git("commit", "-qm", "before", cwd=library)
    profile = tmp_path / "both.yaml"
    profile.write_text(f"overlay: ['{library}']\n")
    script = (
        f"echo new >new; cd {library}; echo after >file; git -c user.name=a -c user.email=a@b commit -qam agent; echo more >more"
    )
    done = agent_dev("--no-merge", "--profile", profile, "--", "sh", "-c", script)

    assert done.returncode == 0, done.stderr
    assert (library / "file").read_text() == "before\n"
    assert agent_dev.status(cwd=library)["root"] == str(agent_dev.repo)
    agent_dev.do("merge", "--commits")
    assert agent_dev.git("log", "-1", "--format=%s", cwd=library) == "agent\n"
    agent_dev.do("merge", "--all")
    assert [(folder / name).exists() for folder, name in ((agent_dev.repo, "new"), (library, "more"))] == [True, True]
