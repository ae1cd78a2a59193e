"""An agent's commits have the same content as commits of the same work that the user's own git makes outside."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

WORK = r"""
set -e
printf 'one\r\ntwo\r\n' >dos; printf 'one\ntwo\n' >unix; printf 'one\r\ntwo\n' >mixed; printf 'a\0\r\n' >binary
printf 'hello\n' >secret.rot; printf '/* $Id: 0 $ */\n' >ident.c; printf '%02000d' 7 >large.png
printf 'g\0r\0' >text.u16; printf 'x\r\ny\n' >eol.crlf; echo log >debug.log; mkdir -p build; echo o >build/x.o
printf 'NOTE\n' >pre.dos; ln -s unix link; printf '#!/bin/sh\n' >run; chmod +x run; printf 'note\r\n' >>README.md
git add -A
git commit -qm work
git checkout -q -b other HEAD~1; echo other >other; git add -A; git commit -qm other; git checkout -q -
git merge -q --no-edit other
"""


def global_config(key: str, value: str) -> Callable[[AgentDev, Path], None]:
    return lambda agent_dev, _: _set(agent_dev, "--global", key, value)


def local_config(key: str, value: str) -> Callable[[AgentDev, Path], None]:
    return lambda agent_dev, _: _set(agent_dev, "--local", key, value)


def _set(agent_dev: AgentDev, *words: str | Path) -> None:
    agent_dev.git("config", *words)


def tracked_attributes(*lines: str) -> Callable[[AgentDev, Path], None]:
    def write(agent_dev: AgentDev, _: Path) -> None:
        (agent_dev.repo / ".gitattributes").write_text("".join(f"{line}\n" for line in lines))
        agent_dev.git("add", "-A")
        agent_dev.git("commit", "-q", "-m", "Attributes")

    return write


def ignored_by_default(agent_dev: AgentDev, _: Path) -> None:
    _write(Path(agent_dev.env["XDG_CONFIG_HOME"]) / "git/ignore", "*.log\nbuild/\n")


def ignored_by_setting(agent_dev: AgentDev, _: Path) -> None:
    _write(agent_dev.home / "my-ignores", "*.log\n")
    _set(agent_dev, "--global", "core.excludesFile", "~/my-ignores")


def ignored_behind_a_link(agent_dev: AgentDev, folder: Path) -> None:
    _write(folder / "dotfiles/ignores", "*.log\n")
    (agent_dev.home / ".gitignore_global").symlink_to(folder / "dotfiles/ignores")
    _set(agent_dev, "--global", "core.excludesFile", str(agent_dev.home / ".gitignore_global"))


def ignored_by_the_repositorys_own_setting(agent_dev: AgentDev, folder: Path) -> None:
    _write(folder / "ignores", "build\n")
    _set(agent_dev, "--local", "core.excludesFile", str(folder / "ignores"))


def ignored_within(agent_dev: AgentDev, _: Path) -> None:
    _write(agent_dev.repo / ".git/info/exclude", "*.log\n")


def attributes_by_default(agent_dev: AgentDev, _: Path) -> None:
    _write(Path(agent_dev.env["XDG_CONFIG_HOME"]) / "git/attributes", "*.c ident\ndos text\n")


def attributes_by_setting(agent_dev: AgentDev, folder: Path) -> None:
    _write(folder / "my-attributes", "mixed text\n*.crlf eol=crlf\n")
    _set(agent_dev, "--global", "core.attributesFile", str(folder / "my-attributes"))


def filtered(agent_dev: AgentDev, folder: Path) -> None:
    tracked_attributes("*.rot filter=rot")(agent_dev, folder)
    _set(agent_dev, "--global", "filter.rot.clean", "tr a-z n-za-m")
    _set(agent_dev, "--global", "filter.rot.smudge", "tr a-z n-za-m")


def filtered_one_way(agent_dev: AgentDev, folder: Path) -> None:
    tracked_attributes("*.rot filter=my.own")(agent_dev, folder)
    _set(agent_dev, "--global", "filter.my.own.clean", """sed "s/l\\+/L;'#/" """)


def included(agent_dev: AgentDev, _: Path) -> None:
    _write(agent_dev.home / "more", "[core]\n\tautocrlf = input\n")
    _set(agent_dev, "--global", f"includeIf.gitdir:{agent_dev.repo}/.path", "~/more")


def large_files(agent_dev: AgentDev, folder: Path) -> None:
    agent_dev.git("lfs", "install")
    tracked_attributes("*.png filter=lfs diff=lfs merge=lfs -text")(agent_dev, folder)


def merged_by_a_driver(agent_dev: AgentDev, folder: Path) -> None:
    tracked_attributes("* merge=mine")(agent_dev, folder)
    _set(agent_dev, "--global", "merge.mine.driver", "true")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


SETTINGS: dict[str, Callable[[AgentDev, Path], None]] = {
    "nothing": lambda *_: None,
    "autocrlf": global_config("core.autocrlf", "true"),
    "autocrlf, input": global_config("core.autocrlf", "input"),
    "autocrlf, the repository's own": local_config("core.autocrlf", "true"),
    "autocrlf, included": included,
    "eol and text": tracked_attributes("dos text", "*.crlf eol=crlf", "mixed text=auto", "binary -text"),
    "eol": global_config("core.eol", "crlf"),
    "file modes": global_config("core.fileMode", "false"),
    "ident": tracked_attributes("*.c ident"),
    "an encoding": tracked_attributes("*.u16 working-tree-encoding=UTF-16LE"),
    "a filter": filtered,
    "a filter of one side": filtered_one_way,
    "LFS": large_files,
    "ignored by the default file": ignored_by_default,
    "ignored by a setting": ignored_by_setting,
    "ignored behind a link": ignored_behind_a_link,
    "ignored by the repository's own setting": ignored_by_the_repositorys_own_setting,
    "ignored by info/exclude": ignored_within,
    "attributes by the default file": attributes_by_default,
    "attributes by a setting": attributes_by_setting,
    "a merge driver": merged_by_a_driver,
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_work_creates_the_same_trees(agent_dev: AgentDev, tmp_path: Path, setting: str) -> None:
    SETTINGS[setting](agent_dev, tmp_path)
    agent_dev.git("config", "core.hooksPath", "/dev/null")
    end = "git rev-list --all | while read c; do git rev-parse $c^{tree}; done; git status --porcelain --ignored"
    inside = agent_dev("--", "sh", "-c", f"{WORK}\n{end}")
    assert inside.returncode == 0, inside.stderr

    outside = subprocess.run(
        ["sh", "-c", f"{WORK}\n{end}"],
        cwd=agent_dev.repo,
        env=agent_dev.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert outside.returncode == 0, outside.stderr
    assert inside.stdout == outside.stdout


def test_a_filter_whose_program_is_missing_commits_nothing(agent_dev: AgentDev, tmp_path: Path) -> None:
    tracked_attributes("*.rot filter=rot")(agent_dev, tmp_path)
    program = tmp_path / "rot"
    shutil.copy("/usr/bin/tr", program)
    agent_dev.git("config", "--global", "filter.rot.clean", f"{program} a-z n-za-m")
    done = agent_dev("--", "sh", "-c", "echo secret >a.rot; git add -A")
    assert done.returncode == 128
    assert "clean filter 'rot' failed" in done.stderr


def test_lfs_files_of_other_branches_are_available_without_a_server(agent_dev: AgentDev, tmp_path: Path) -> None:
    large_files(agent_dev, tmp_path)
    agent_dev.git("checkout", "-q", "-b", "pictures")
    (agent_dev.repo / "a.png").write_text("picture")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-q", "-m", "Picture")
    agent_dev.git("checkout", "-q", "main")
    script = (
        "git checkout -q pictures && cat a.png && echo other >b.png && git add -A && git commit -qm b && git lfs fsck >/dev/null"
    )
    done = agent_dev("--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, "picture"), done.stderr
