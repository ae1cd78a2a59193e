"""The scripts that run in the sandbox to install agents."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent_dev.agents.install_script import DOES_NOT_START, INTERRUPTED, install_command, newest_command
from agent_dev.config.agent_entry import AgentEntry
from tests.harness.agents.registry import wheel
from tests.harness.program import wait_until

# It ends with status 1 for version 5, and hangs for version 7. Version 6 does not start.
NPM = r"""#!/bin/sh
[ "$1" = install ] || exit 0
prefix=$4 name=${9%@*} version=${9##*@}
program=${name##*/} folder="$prefix/lib/node_modules/$name" script="echo $version"
mkdir -p "$folder" "$prefix/bin"
ln -sf "../lib/node_modules/$name/program.js" "$prefix/bin/$program"
case $version in
5) exit 1 ;;
6) script="exit 1" ;;
7) touch "$HOME/hangs"; sleep 60 ;;
*22) script='[ "$1" != -p ] || { echo 22; exit; }; exec sh "$@"' ;; # node
esac
printf '#!/bin/sh\n%s\n' "$script" >"$folder/program.js"
chmod 755 "$folder/program.js"
"""


def test_npm_prints_nothing_about_its_own_updates(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho "$NPM_CONFIG_UPDATE_NOTIFIER"\n')
    npm.chmod(0o755)
    command = newest_command(AgentEntry(npm="any"))
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "false\n"


@pytest.mark.parametrize(
    ("needed", "asked"), [("", "3.11"), ("3.9", "3.11"), ("3.12", "3.12"), ("3.9-3.10", "3.10"), ("3.10-3.12", "3.11")]
)
def test_the_newest_version_is_that_for_the_python_in_use(tmp_path: Path, needed: str, asked: str) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = -m ] || { echo 3.11; exit; }\necho "any ($*)"\n')
    python.chmod(0o755)
    command = newest_command(AgentEntry(pypi="any", python=needed))
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"-m pip index versions --python-version {asked} any\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return variables with a home, and with commands before those of the system."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "npm").write_text(NPM)
    (commands / "node").write_text("#!/bin/sh\necho 20\n")
    for path in commands.iterdir():
        path.chmod(0o755)
    return {"HOME": str(tmp_path / "home"), "PATH": f"{commands}:/usr/bin:/bin"}


def install(entry: AgentEntry, version: str, environ: dict[str, str]) -> int:
    """Install a version of `tool`; return the exit code."""
    return subprocess.run(install_command(entry, "tool", version), env=environ, capture_output=True, check=False).returncode


def printed(environ: dict[str, str], *words: str) -> str:
    """Return what the installed program prints."""
    tool = f"{environ['HOME']}/.local/agent/bin/tool"
    return subprocess.run([tool, *words], env=environ, capture_output=True, text=True, check=True).stdout.strip()


ENTRIES = [AgentEntry(npm=npm, node=node) for npm in ("tool", "@scope/tool") for node in ("", "22")]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("version", "code"), [("5", 1), ("6", DOES_NOT_START)])
def test_a_failed_upgrade_leaves_the_installed_version(
    entry: AgentEntry, version: str, code: int, environ: dict[str, str]
) -> None:
    assert install(entry, version, environ) == code
    assert not os.path.lexists(f"{environ['HOME']}/.local/agent/bin/tool")
    for number in ("1", "2"):
        assert install(entry, number, environ) == 0
        assert install(entry, version, environ) == code
        assert printed(environ) == number
    programs = [path for path in Path(environ["HOME"]).rglob("program.js") if "node_modules/node" not in str(path)]
    assert len(programs) == 1, "only the version in use is left"


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_interrupted_upgrade_leaves_the_installed_version(entry: AgentEntry, environ: dict[str, str]) -> None:
    assert install(entry, "1", environ) == 0
    command = install_command(entry, "tool", "7")
    with subprocess.Popen(command, env=environ, start_new_session=True) as running:
        wait_until(Path(environ["HOME"], "hangs").exists, "npm runs")
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait() == INTERRUPTED
    assert printed(environ) == "1"


def test_a_package_that_npm_installed_itself_is_replaced(environ: dict[str, str]) -> None:
    npm = "npm install -g --prefix ~/.local/agent --no-fund --no-audit --loglevel error tool@1"
    subprocess.run(["sh", "-c", npm], env=environ, check=True)
    assert printed(environ) == "1"
    assert install(AgentEntry(npm="tool"), "2", environ) == 0
    assert printed(environ) == "2"


def test_a_failed_upgrade_leaves_the_installed_venv(tmp_path: Path, environ: dict[str, str]) -> None:
    entry = AgentEntry(pypi="tool")
    environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    for version in ("1", "2"):
        (tmp_path / f"tool-{version}-py3-none-any.whl").write_bytes(wheel("tool", version))
        assert install(entry, version, environ) == 0
    assert install(entry, "9", environ) == 1
    assert printed(environ, "--version") == "2"
    assert len(list(Path(environ["HOME"]).rglob("pyvenv.cfg"))) == 1
