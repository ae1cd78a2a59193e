"""Directories of the repository can be renamed inside by any tool, and the review shows the changes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev, tree

STATIC = """
#include <errno.h>
#include <stdio.h>
int main(int count, char **words) { return rename(words[1], words[2]) ? errno : 0; }
"""
RENAMEAT2 = (
    "import ctypes, errno, os, sys\n"
    "c = ctypes.CDLL(None, use_errno=True)\n"
    "def rename(old, new, flags=0, old_fd=-100, new_fd=-100):\n"
    "    if c.renameat2(old_fd, os.fsencode(old), new_fd, os.fsencode(new), flags):\n"
    "        return errno.errorcode[ctypes.get_errno()]\n"
    "    return 'done'\n"
)


def sh(agent_dev: AgentDev, script: str, *options: str) -> str:
    """Run a script inside, check that it exits with status 0, and return its output."""
    done = agent_dev("--no-merge", *options, "--", "bash", "-euc", script, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(agent_dev: AgentDev, script: str, *options: str) -> str:
    done = agent_dev("--no-merge", *options, "--", PYTHON, "-I", "-c", RENAMEAT2 + script, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def upper(agent_dev: AgentDev) -> Path:
    """Return the upper of the only session."""
    (found,) = agent_dev.state.glob("sessions/*/roots/0/upper")
    return found


def configure(agent_dev: AgentDev, text: str) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(text)


MOVED = {"lib/app.py": "renamed", "lib/deep/note.txt": "renamed"}
FILES = "app.py\ndeep\n"


@pytest.mark.parametrize(
    "command",
    [
        "git mv sub lib",
        "mv -T sub lib",
        f'{PYTHON} -c \'import os; os.rename("sub", "lib")\'',
        f'{PYTHON} -c \'import shutil; shutil.move("sub", "lib")\'',
        "mkdir lib; mv -T sub lib",
        "mv sub/ lib/",
        "ln -s . here; mv here/sub here/lib; rm here",
        "cd sub/deep; touch x; rm x; cd ../..; mv -T sub lib",
        'mv -T "$PWD/sub" "$PWD/lib"',
    ],
)
def test_a_renamed_directory_is_merged(agent_dev: AgentDev, command: str) -> None:
    assert sh(agent_dev, f"{command}; ls lib") == FILES
    assert agent_dev.changes() == MOVED
    assert agent_dev("merge", "--all", "--include-risky").returncode == 0
    assert sorted(os.listdir(agent_dev.repo)) == [".git", "README.md", "lib"]
    assert (agent_dev.repo / "lib/deep/note.txt").read_text() == "deep\n"


@pytest.mark.parametrize("policy", ["guard", '"off"'])
def test_a_rename_does_not_copy_with_or_without_a_command_policy(agent_dev: AgentDev, policy: str) -> None:
    configure(agent_dev, f"policy: {policy}\n")
    assert python(agent_dev, "print(rename('sub', 'lib'), *sorted(os.listdir('lib')))") == "done app.py deep\n"


def test_without_the_supervisor_the_kernel_refuses_the_rename(agent_dev: AgentDev) -> None:
    configure(agent_dev, "directory_renames: false\n")
    assert python(agent_dev, "print(rename('sub', 'lib'))") == "EXDEV\n"


def test_a_directory_renamed_away_and_back_is_no_change(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.repo / "sub")
    sh(agent_dev, "mv -T sub lib; mv -T lib sub; echo new >new")
    assert agent_dev.changes() == {"new": "added"}
    assert tree(agent_dev.repo / "sub") == before


def test_a_failed_rename_changes_nothing(agent_dev: AgentDev) -> None:
    script = "os.mkdir('full'); open('full/x', 'w').close(); print(rename('sub', 'full'), *sorted(os.listdir('sub')))"
    assert python(agent_dev, script) == "ENOTEMPTY app.py deep\n"
    assert agent_dev.changes() == {"full/x": "added"}


def test_earlier_deletions_and_additions_move_with_the_directory(agent_dev: AgentDev) -> None:
    script = "rm sub/app.py; echo 1 >sub/new; rm -r sub/deep; mkdir sub/deep; mv -T sub lib; find lib | sort; ls -A lib/deep"
    assert sh(agent_dev, script) == "lib\nlib/deep\nlib/new\n"
    expected = {"sub/app.py": "deleted", "sub/deep/note.txt": "deleted", "lib/new": "added", "lib/deep": "added"}
    assert agent_dev.changes() == expected
    assert not [path for path in (upper(agent_dev) / "lib").rglob("*") if path.is_char_device()]  # whiteouts


def test_a_directory_is_exchanged_with_another_or_a_file(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "other").mkdir()
    (agent_dev.repo / "other/x").write_text("x")
    script = (
        "print(rename('sub', 'other', 2), os.listdir('sub'), sorted(os.listdir('other')))\n"
        "print(rename('README.md', 'other', 2), open('other').readline(), sorted(os.listdir('README.md')))"
    )
    assert python(agent_dev, script) == "done ['x'] ['app.py', 'deep']\ndone # Shop\n ['app.py', 'deep']\n"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("rename('sub', 'README.md')", "ENOTDIR"),
        ("rename('README.md', 'sub')", "EISDIR"),
        ("rename('sub', 'sub/deep/x')", "EINVAL"),
        ("rename('sub', 'sub/x')", "EINVAL"),
        ("rename('sub/deep', 'sub')", "ENOTEMPTY"),
        ("rename('sub', 'README.md', 1)", "EEXIST"),
        ("rename('sub', 'none', 2)", "ENOENT"),
        ("rename('none', 'x')", "ENOENT"),
        ("rename('sub', 'none/x')", "ENOENT"),
        ("rename('sub', '/tmp/x')", "EXDEV"),
        ("rename('sub', 'x', 3)", "EINVAL"),
        ("rename('sub', 'x' * 300)", "ENAMETOOLONG"),
        ("rename('sub', 'x' * 5000)", "ENAMETOOLONG"),
        ("rename('sub', '')", "ENOENT"),
        ("rename('sub/.', 'x')", "EBUSY"),
        ("rename('sub', '..')", "EBUSY"),
        ("rename('sub', 'x', 0, 77)", "EBADF"),
        ("c.rename(1, 2) and errno.errorcode[ctypes.get_errno()]", "EFAULT"),
        ("(os.chmod('.', 0o555), rename('sub', 'x'), os.chmod('.', 0o755))[1]", "EACCES"),
    ],
)
def test_errors_match_those_of_the_kernel(agent_dev: AgentDev, call: str, error: str) -> None:
    assert python(agent_dev, f"print({call})\nprint(*sorted(os.listdir('sub')))") == f"{error}\napp.py deep\n"
    assert agent_dev.sessions() == [] or agent_dev.changes() == {}


def test_a_renamed_directory_keeps_all_metadata(agent_dev: AgentDev) -> None:
    sub = agent_dev.repo / "sub"
    (sub / "link").symlink_to("/etc/passwd")
    (sub / "run").write_text("x")
    (sub / "run").chmod(0o4755)
    os.mkfifo(sub / "fifo")
    with open(sub / "holes", "wb") as file:
        file.truncate(1 << 24)
    os.setxattr(sub / "app.py", "user.note", b"1")
    os.setxattr(sub / "deep", "user.note", b"2")
    for number, name in enumerate(("app.py", "run", "holes", "deep/note.txt", "deep", ".")):
        os.utime(sub / name, ns=(10**18 + number, 10**18 + 1000 * number + 7))
    (sub / "deep").chmod(0o2750)
    look = (
        "import json\n"
        "def look(top):\n"
        "    found = {}\n"
        "    for place, folders, files in os.walk(top):\n"
        "        for path in [place, *(place + '/' + name for name in files)]:\n"
        "            s = os.lstat(path)\n"
        "            marks = [] if os.path.islink(path) else [(n, os.getxattr(path, n).hex()) for n in os.listxattr(path)]\n"
        "            name = path[len(top):]\n"
        "            found[name] = [oct(s.st_mode), s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns, marks]\n"
        "            if name == '/holes': found[name].append(s.st_blocks < 100)\n"
        "    return found\n"
        "before = look('sub'); said = rename('sub', 'lib'); after = look('lib')\n"
        "print(json.dumps([said, before, after]))"
    )
    printed, before, after = json.loads(python(agent_dev, look))
    assert printed == "done"
    assert after == before
    assert before["/run"][0] == "0o104755"


def test_open_files_and_swapped_directories_keep_working(agent_dev: AgentDev) -> None:
    script = """
    mkdir -p staging/bin; echo 2 >staging/bin/tool
    mv -T sub .sub-old; mv -T staging sub; rm -r .sub-old; cat sub/bin/tool
    """
    assert sh(agent_dev, script) == "2\n"
    held = (
        "f = open('README.md', 'r+'); os.mkdir('d'); os.rename('README.md', 'd/r')\n"
        "g = open('d/r'); print(rename('d', 'e')); f.write('!'); f.flush(); print(g.read(3), open('e/r').read(3))"
    )
    assert python(agent_dev, held) == "done\n! S ! S\n"


OPEN = (
    "import subprocess\n"
    "def held(path):\n"
    "    f = open(path, 'r+'); s = os.fstat(f.fileno())\n"
    "    print(rename('sub', 'lib')); f.write('changed'); f.flush(); g = open('lib/app.py', 'r+')\n"
    "    print(g.read(7)); g.seek(0); g.write('again'); g.flush(); f.seek(0); print(f.read(5), os.path.exists('sub'))\n"
)


def test_an_open_file_in_a_renamed_directory_keeps_working(agent_dev: AgentDev) -> None:
    assert python(agent_dev, f"{OPEN}held('sub/app.py'); print(sorted(os.listdir()))").splitlines() == [
        "done",
        "changed",
        "again False",
        "['.git', 'README.md', 'lib']",
    ]
    assert agent_dev("merge", "--all", "--include-risky").returncode == 0
    assert (agent_dev.repo / "lib/app.py").read_text().startswith("agained")


def test_a_program_running_from_a_renamed_directory_continues(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "sub/deep/cat").write_bytes(Path("/bin/cat").read_bytes())
    (agent_dev.repo / "sub/deep/cat").chmod(0o755)
    script = (
        "import subprocess\n"
        "p = subprocess.Popen(['sub/deep/cat'], stdin=-1, stdout=-1); p.stdin.write(b'1'); p.stdin.flush(); p.stdout.read(1)\n"
        "print(rename('sub', 'lib'), p.communicate(b'goes on')[0].decode(), sorted(os.listdir()))"
    )
    assert python(agent_dev, script) == "done goes on ['.git', 'README.md', 'lib']\n"


def test_a_watched_directory_is_renamed(agent_dev: AgentDev) -> None:
    script = "fd = c.inotify_init(); print(*(c.inotify_add_watch(fd, name, 0xFFF) for name in (b'sub', b'sub/app.py')))\n"
    assert python(agent_dev, script + "print(rename('sub', 'lib'), os.path.exists('sub'))") == "1 2\ndone False\n"


@pytest.mark.parametrize("way", ["os.chdir('sub/deep'); up = '../../'", "fd = os.open('sub', os.O_RDONLY); up = ''"])
def test_a_busy_directory_is_unchanged(agent_dev: AgentDev, way: str) -> None:
    script = f"os.unlink('sub/app.py'); {way}; print(rename(up + 'sub', up + 'lib'), os.listdir(up + 'sub'))"
    assert python(agent_dev, script) == "EXDEV ['deep']\n"
    assert agent_dev.changes() == {"sub/app.py": "deleted"}
    assert "user.overlay.opaque" not in os.listxattr(upper(agent_dev) / "sub")


def test_git_stash_and_checkout_work_across_directories(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "new/deep").mkdir(parents=True)
    (agent_dev.repo / "new/deep/x").write_text("x")
    script = """
    git mv sub lib; git commit -qm move; git stash -qu; test ! -e new; git stash pop -q >&2; cat new/deep/x
    git checkout -q HEAD~1; ls sub; git checkout -q main; ls lib; git status --short
    """
    assert sh(agent_dev, script) == "x" + FILES * 2 + "?? new/\n"


def test_a_static_program_can_rename_too(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "r.c").write_text(STATIC)
    built = subprocess.run(["cc", "-static", "-o", agent_dev.repo / "r", tmp_path / "r.c"], check=False, capture_output=True)
    if built.returncode:
        pytest.skip(f"no static program can be built: {built.stderr!r}")
    assert sh(agent_dev, "./r sub lib; ls lib") == FILES


def test_renames_work_relative_to_descriptors_and_in_a_chroot(agent_dev: AgentDev) -> None:
    script = (
        "fd = os.open('sub', os.O_RDONLY); os.mkdir('into'); to = os.open('into', os.O_RDONLY)\n"
        "print(rename('deep', 'moved', 0, fd, to), os.listdir('into/moved'))\n"
    )
    assert python(agent_dev, script) == "done ['note.txt']\n"
    chroot = (
        "import os; os.chroot('.'); os.chdir('/sub'); os.mkdir('x'); os.symlink('/sub', '/s')\n"
        "os.rename('/s/x', '/out'); os.rename('../into', 'back'); os.rename('back/moved', '../out/deep')"
    )
    script = f"import subprocess; subprocess.run(['unshare', '-r', {PYTHON!r}, '-c', {chroot!r}], check=True)\n"
    assert python(agent_dev, f"os.mkdir('into'); os.rename('sub/deep', 'into/moved'); {script}print(os.listdir('out/deep'))") == (
        "['note.txt']\n"
    )


def test_a_lower_directory_is_renamed_in_a_chroot(agent_dev: AgentDev) -> None:
    chroot = "import os; os.chroot('.'); os.chdir('/sub'); os.symlink('/sub', '/s'); os.rename('/s/deep', '../out')"
    script = f"import subprocess; subprocess.run(['unshare', '-r', {PYTHON!r}, '-c', {chroot!r}], check=True)\n"
    assert python(agent_dev, f"{script}print(os.listdir('out'))") == "['note.txt']\n"


def test_renames_work_in_a_nested_sandbox(agent_dev: AgentDev) -> None:
    script = "bwrap --dev-bind / / --unshare-all mv -T sub lib; ls lib"
    assert sh(agent_dev, script) == FILES


def test_a_second_and_a_resumed_session_see_the_rename(agent_dev: AgentDev) -> None:
    sh(agent_dev, "mv -T sub lib")
    session = agent_dev.sessions()[0]["session"]
    done = agent_dev("resume", session, "--", "bash", "-euc", "mv -T lib again; rm again/app.py; ls again")
    assert (done.returncode, done.stdout) == (0, "deep\n"), done.stderr
    assert agent_dev.changes() == {"again/deep/note.txt": "renamed", "sub/app.py": "deleted"}
