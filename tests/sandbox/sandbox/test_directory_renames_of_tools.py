"""Tools rename directories of the repository inside as they do outside: npm, rustup, dpkg, IDEs and git.

None of the scripts copies if a rename fails, as `mv` and some of the tools would: EXDEV ends them.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev, tree

PRELUDE = """
import os, shutil
from os import rename

def write(path, text):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'w') as file: file.write(text)

def save(path, change):  # as editors do: a new file, renamed over the old one
    with open(path) as file: text = change(file.read())
    write(path + '~', text)
    shutil.copymode(path, path + '~')
    os.replace(path + '~', path)
"""
# npm keeps the old version under a hidden name until all new ones are in place, and renames it back if one fails.
NPM_UPDATE = """
for name in ('pkg', '@scope/lib'):
    folder, _, last = ('node_modules/' + name).rpartition('/')
    old, new = f'{folder}/{last}', f'{folder}/.{last}-Xb3kQz9w'
    rename(old, new)
    write(f'{old}/package.json', '{"version": "2"}')
    write(f'{old}/dist/new.js', 'new')
for name in ('.pkg-Xb3kQz9w', '@scope/.lib-Xb3kQz9w'):
    shutil.rmtree('node_modules/' + name)
"""
NPM_FAILURE = """
for name in ('pkg', '@scope/lib'):
    folder, _, last = ('node_modules/' + name).rpartition('/')
    rename(f'{folder}/{last}', f'{folder}/.{last}-Xb3kQz9w')
write('node_modules/pkg/package.json', '{"version": "2"}')
shutil.rmtree('node_modules/pkg')
for name in ('pkg', '@scope/lib'):
    folder, _, last = ('node_modules/' + name).rpartition('/')
    rename(f'{folder}/.{last}-Xb3kQz9w', f'{folder}/{last}')
"""
NPM_SWAP = """
rename('node_modules/pkg', 'node_modules/.pkg-1'); rename('node_modules/@scope/lib', 'node_modules/pkg')
rename('node_modules/.pkg-1', 'node_modules/@scope/lib')
"""
# rustup unpacks below tmp, moves the old toolchain there, and the new one in its place.
RUSTUP = """
write('rustup/tmp/new_dir/bin/rustc', 'new'); write('rustup/tmp/new_dir/lib/std.so', 'new')
os.chmod('rustup/tmp/new_dir/bin/rustc', 0o755)
rename('rustup/toolchains/stable', 'rustup/tmp/old_dir'); rename('rustup/tmp/new_dir', 'rustup/toolchains/stable')
shutil.rmtree('rustup/tmp/old_dir'); os.rmdir('rustup/tmp')
"""
# A package manager renames an unpacked directory over an existing empty one, of which the lower layer has one and hides another.
DPKG = """
write('usr/share/doc.dpkg-new/copyright', 'new'); rename('usr/share/doc.dpkg-new', 'usr/share/doc')
os.unlink('usr/share/man/page.1'); rename('usr/share/info', 'usr/share/man')
try: rename('usr/share/man', 'usr/lib')
except OSError as error: print(error.strerror)
"""
# An IDE moves a package, rewrites the moved files and those that use it, and undoes all of it if asked.
IDE = """
rename('src/com/acme/billing', 'src/com/acme/invoice')
for path in ('src/com/acme/invoice/Bill.java', 'src/com/acme/invoice/pdf/Page.java', 'src/com/acme/Main.java'):
    save(path, lambda text: text.replace('billing', 'invoice'))
"""
IDE_UNDO = """
for path in ('src/com/acme/invoice/Bill.java', 'src/com/acme/invoice/pdf/Page.java', 'src/com/acme/Main.java'):
    save(path, lambda text: text.replace('invoice', 'billing'))
rename('src/com/acme/invoice', 'src/com/acme/billing')
"""
IDE_CASE = "rename('src/com/acme/billing', 'src/com/acme/billing1'); rename('src/com/acme/billing1', 'src/com/acme/Billing')"
FILES = {
    "node_modules/pkg/package.json": '{"version": "1"}',
    "node_modules/pkg/dist/old.js": "old",
    "node_modules/pkg/node_modules/inner/index.js": "inner",
    "node_modules/@scope/lib/package.json": '{"version": "1"}',
    "rustup/toolchains/stable/bin/rustc": "old",
    "rustup/toolchains/stable/share/doc": "old",
    "usr/share/man/page.1": "man",
    "usr/share/info/dir": "info",
    "usr/lib/kept": "kept",
    "src/com/acme/Main.java": "import com.acme.billing.Bill;\n",
    "src/com/acme/billing/Bill.java": "package com.acme.billing;\n" + "class Bill {}\n" * 20,
    "src/com/acme/billing/pdf/Page.java": "package com.acme.billing.pdf;\n" + "class Page {}\n" * 20,
}


def fill(repo: Path) -> None:
    """Add the files that the tools rename, and an empty directory."""
    for name, text in FILES.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    (repo / "usr/share/doc").mkdir()
    (repo / "rustup/toolchains/stable/bin/rustc").chmod(0o755)


def files(repo: Path) -> dict[str, str]:
    """Return all entries except the git directory's."""
    return {path: entry for path, entry in tree(repo).items() if path.partition("/")[0] not in (".git", ".")}


CASES = {
    "npm updates packages": (NPM_UPDATE, ""),
    "npm fails and moves packages back": (NPM_FAILURE, ""),
    "npm swaps packages": (NPM_SWAP, ""),
    "rustup replaces a toolchain": (RUSTUP, ""),
    "dpkg renames over empty directories": (DPKG, "Directory not empty\n"),
    "an IDE renames a package": (IDE, ""),
    "an IDE undoes the renaming of a package": (IDE + IDE_UNDO, ""),
    "an IDE changes the case of a package": (IDE_CASE, ""),
}
UNCHANGED = ("npm fails and moves packages back", "an IDE undoes the renaming of a package")


@pytest.mark.parametrize("name", CASES)
def test_directories_are_renamed_as_outside(agent_dev: AgentDev, tmp_path: Path, name: str) -> None:
    script, output = CASES[name]
    fill(agent_dev.repo)
    before = files(agent_dev.repo)
    outside = tmp_path / "outside"
    shutil.copytree(agent_dev.repo, outside, symlinks=True)
    subprocess.run([PYTHON, "-I", "-c", PRELUDE + script], cwd=outside, check=True)

    done = agent_dev("--no-merge", "--", PYTHON, "-I", "-c", PRELUDE + script, timeout=120)
    assert (done.returncode, done.stdout) == (0, output), done.stderr
    if name in UNCHANGED:
        assert agent_dev.sessions() == [] or agent_dev.changes() == {}
        assert files(agent_dev.repo) == before
        return
    merged = agent_dev("merge", "--all", "--include-risky")
    assert merged.returncode == 0, merged.stdout + merged.stderr
    assert files(agent_dev.repo) == files(outside)
    assert agent_dev("undo").returncode == 0
    assert files(agent_dev.repo) == before


def test_git_moves_and_stashes_directories(agent_dev: AgentDev) -> None:
    fill(agent_dev.repo)
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "all")
    script = """
    mkdir packages; git mv node_modules/pkg packages; git mv src/com/acme/billing src/com/acme/invoice; git mv sub usr/lib/
    echo more >>usr/lib/sub/app.py; git status --short | wc -l
    git stash -q; test ! -e packages/pkg; test -e sub/deep/note.txt; git status --short
    git stash pop -q --index; cat usr/lib/sub/deep/note.txt; git commit -qam moved
    git status --short; git log -1 --format=%s
    """
    done = agent_dev("--no-merge", "--", "bash", "-euc", script, timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, ["7", "deep", "moved"]), done.stdout + done.stderr
    merged = agent_dev("merge", "--include-risky", "--commits")
    assert merged.returncode == 0, merged.stdout + merged.stderr
    assert agent_dev.git("status", "--porcelain") == ""
    moved = ("packages/pkg/dist/old.js", "src/com/acme/invoice/pdf/Page.java", "usr/lib/sub/deep/note.txt")
    assert [(agent_dev.repo / path).exists() for path in moved] == [True] * 3
    assert (agent_dev.repo / "usr/lib/sub/app.py").read_text().endswith("more\n")
