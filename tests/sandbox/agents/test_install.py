"""`agent-dev install`: real npm and pip, in the sandbox, from a registry on 127.0.0.1 into the agent home."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.agents.registry import Registry
from tests.harness.program import PROGRAM, AgentDev, tree
from tests.harness.terminal import Terminal

PROFILES = {
    "noder": """
command: [noder, --standing]
agent:
  npm: noder
  prompt: [--say, "{prompt}"]
  resume: [--again]
  fork: [--again, --copy]
  bare: [mcp]
""",
    "snake": "command: snake\nset: {PLACE: '~/x in {root}'}\nagent:\n  pypi: snake\n  python: '3.9'\n",
    "broken": "command: other\nagent: {npm: noder}\n",
    "future": "command: snake\nagent:\n  pypi: snake\n  python: '9.1'\n",
}


def write_profile(agent_dev: AgentDev, name: str, text: str) -> None:
    """Write a profile of the user's."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


@pytest.fixture
def registry(agent_dev: AgentDev) -> Iterator[Registry]:
    for name, text in PROFILES.items():
        write_profile(agent_dev, name, text)
    with Registry({"noder": ["1.0.0", "1.2.0"]}, {"snake": ["2.0", "2.1"]}) as made:
        yield made


def test_an_npm_agent_is_installed_and_runs(agent_dev: AgentDev, registry: Registry, repo: Path) -> None:
    before = tree(repo)
    done = agent_dev("install", "noder", env=registry.environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1.2.0"
    assert "noder 1.2.0 is installed" in done.stderr
    assert tree(repo) == before
    assert agent_dev("sessions", "--all").stdout == "no running or waiting sessions\n"
    assert agent_dev("noder", "a").stdout == "--standing|a\n"
    assert agent_dev("noder", "mcp", "list").stdout == "mcp|list\n"
    assert agent_dev("-p", "fix it", "noder").stdout == "--standing|--say|fix it\n"
    write_profile(agent_dev, "noder", PROFILES["noder"].replace("[mcp]", "[mcp, --say]"))
    assert agent_dev("-p", "fix it", "noder").stdout == "--say|fix it\n"


def test_the_installers_that_agents_recommend_work_inside(agent_dev: AgentDev, registry: Registry) -> None:
    installer = "mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho piped\\n' >~/.local/bin/piped && chmod +x ~/.local/bin/piped\n"
    (agent_dev.repo / "install.sh").write_text(installer)
    script = """
        npm install -g noder@1.2.0 >&2 && noder a
        pip install --user --quiet snake==2.1 >&2 && snake b
        cat install.sh | sh && ~/.local/bin/piped
    """
    names = [word for name in registry.environment for word in ("--env", name)]
    done = agent_dev("--no-merge", *names, "--", "sh", "-ec", script, env=registry.environment)
    assert done.stdout.splitlines() == ["a", "b", "piped"], done.stdout + done.stderr
    assert not (agent_dev.home / ".local").exists()


def test_an_installer_finds_another_directory_than_the_users_own(agent_dev: AgentDev) -> None:
    own = agent_dev.home / ".local/bin"
    own.mkdir(parents=True)
    installer = "d=${XDG_BIN_HOME:-~/.local/bin}; mkdir -p $d; echo 'echo piped' >$d/piped; chmod +x $d/piped\n"
    (agent_dev.repo / "install.sh").write_text(installer)
    assert agent_dev("--no-merge", "--", "sh", "-ec", "cat install.sh | sh; piped").stdout == "piped\n"
    assert agent_dev("--no-merge", "--", "piped").stdout == "piped\n"
    assert list(own.iterdir()) == []


def test_a_directory_of_the_agent_home_can_replace_the_users_own(agent_dev: AgentDev) -> None:
    """Installers that obey no variable write to ~/.local/bin; `why` names the command that makes them work."""
    own = agent_dev.home / ".local/bin"
    own.mkdir(parents=True)
    script = "mkdir -p ~/.local/bin; cp /bin/true ~/.local/bin/one && install -D /bin/true ~/.local/bin/two && one && two"
    assert agent_dev("--no-merge", "--", "sh", "-c", script).returncode == 1
    ways = json.loads(agent_dev.do("why", "--json", "~/.local/bin"))["changes"]
    assert not any("--rw" in way for way in ways), "what an agent writes there would run outside, without review"
    subprocess.run(["sh", "-euc", ways[1].partition(" (")[0]], check=True)
    assert agent_dev("--no-merge", "--", "sh", "-c", script).returncode == 0
    assert agent_dev("--no-merge", "--", "two").returncode == 0
    assert list(own.iterdir()) == []


def test_a_pypi_agent_is_installed_in_an_environment_of_its_own(agent_dev: AgentDev, registry: Registry) -> None:
    done = agent_dev("install", "snake", env=registry.environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2.1"
    assert agent_dev("snake", "x").stdout == "x\n"
    assert (agent_dev.agent_home / ".local/agent/venvs/snake/bin/python").exists()


def test_an_agent_that_needs_a_newer_node_gets_one_of_its_own(agent_dev: AgentDev, registry: Registry) -> None:
    registry.npm["node"] = ["99.1.0"]
    old = PROFILES["noder"].replace("npm: noder", "npm: noder\n  node: '99.1'")
    write_profile(agent_dev, "noder", old)
    system = agent_dev("--", "node", "--version").stdout
    done = agent_dev("install", "noder", "--version", "1.0.0", env=registry.environment)
    assert done.returncode == 0, done.stderr
    program = agent_dev.agent_home / ".local/agent/node/99/lib/node_modules/noder/program.js"
    program.write_text(program.read_text() + "console.log(process.env.NODE_OF);\n")
    assert agent_dev("noder", "a b").stdout == "--standing|a b\nnpm\n"
    assert agent_dev("--", "node", "--version").stdout == system
    assert agent_dev("--", "sh", "-c", "command -v node").stdout == "/usr/bin/node\n"
    assert "noder      1.0.0" in agent_dev("install", "--list").stdout

    assert agent_dev("install", "--upgrade", "noder", env=registry.environment).returncode == 0
    assert "installing node" in done.stdout
    assert "noder      1.2.0" in agent_dev("install", "--list").stdout
    write_profile(agent_dev, "noder", PROFILES["noder"])
    assert agent_dev("install", "noder", "--version", "1.0.0", env=registry.environment).returncode == 0
    assert agent_dev("noder", "a").stdout == "--standing|a\n"
    assert "noder      1.0.0" in agent_dev("install", "--list").stdout


def test_a_python_of_a_version_manager_is_found(agent_dev: AgentDev, registry: Registry) -> None:
    python = agent_dev.home / ".pyenv/versions/9.1.0/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\n[ "$1" != -c ] || { echo 9.1; exit; }\nexec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    done = agent_dev("install", "future", env=registry.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert agent_dev("future", "x").stdout == "x\n"


def test_versions_are_listed_selected_and_upgraded(agent_dev: AgentDev, registry: Registry) -> None:
    def installed() -> str:
        rows = agent_dev("install", "--list").stdout.splitlines()
        return next(row.split()[1] for row in rows if row.startswith("noder"))

    assert installed() == "-"
    assert agent_dev("install", "noder", "--version", "1.0.0", env=registry.environment).returncode == 0
    assert installed() == "1.0.0"
    outdated = agent_dev("outdated", env=registry.environment)
    rows = [row.split() for row in outdated.stdout.splitlines()]
    assert rows[0] == ["agent", "installed", "newest"]
    assert ["noder", "1.0.0", "1.2.0"] in rows
    again = agent_dev("install", "noder", env=registry.environment)
    assert "already installed" in again.stderr
    assert installed() == "1.0.0"
    assert agent_dev("install", "--upgrade", "noder", env=registry.environment).returncode == 0
    assert installed() == "1.2.0"
    assert "up to date" in agent_dev("outdated", env=registry.environment).stderr


@pytest.mark.parametrize("node", ["", "\n  node: '99.1'"])
def test_a_version_that_does_not_exist_leaves_the_installed_one(agent_dev: AgentDev, registry: Registry, node: str) -> None:
    registry.npm["node"] = ["99.1.0"]
    write_profile(agent_dev, "noder", PROFILES["noder"].replace("npm: noder", f"npm: noder{node}"))
    agent_dev("install", "noder", "--version", "1.0.0", env=registry.environment)
    done = agent_dev("install", "noder", "--version", "9", env=registry.environment)
    assert done.returncode == 1
    assert "noder 9 is not installed: the installation ended with status 1; 1.0.0 remains" in " ".join(done.stderr.split())
    assert agent_dev("noder", "a").stdout == "--standing|a\n"
    (agent_dev.agent_home / ".local/agent/bin/noder").unlink()
    assert "noder      -" in agent_dev("install", "--list").stdout


def test_what_an_agent_leaves_in_each_repository_is_not_applied(agent_dev: AgentDev) -> None:
    write_profile(agent_dev, "untidy", "command: sh\nagent: {leaves: [.cache*/, history]}\n")
    for _ in range(2):
        agent_dev.do("--no-merge", "untidy", "-c", "mkdir .cache1; touch .cache1/x history; echo $$ >work")
    shared = agent_dev("sessions").stdout.partition("changed by several sessions:\n")[2]
    assert [line.split()[0] for line in shared.splitlines()] == ["work"]
    agent_dev.do("merge", "--all")
    assert (agent_dev.repo / "work").exists()
    assert not (agent_dev.repo / "history").exists()
    assert not (agent_dev.repo / ".cache1").exists()


def test_upgrade_without_a_name_upgrades_what_is_outdated(agent_dev: AgentDev, registry: Registry) -> None:
    assert "all installed agents are up to date" in agent_dev("install", "--upgrade", env=registry.environment).stderr
    assert agent_dev("install", "noder", "--version", "1.0.0", env=registry.environment).returncode == 0
    assert agent_dev("install", "snake", env=registry.environment).returncode == 0
    done = agent_dev("install", "--upgrade", env=registry.environment)
    assert done.returncode == 0, done.stderr
    assert "noder 1.2.0 is installed" in done.stderr
    assert "installing snake" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("install",), 2, "install needs an agent"),
        (("install", "nodr"), 2, "agent-dev install noder"),
        (("install", "bash"), 2, "bash is not an agent"),
        (("install", "noder", "snake", "--version", "1"), 2, "--version takes one agent"),
        (("install", "noder", "--version", "9"), 1, "noder 9 is not installed"),
        (("install", "future"), 1, "needs Python 9.1"),
        (("install", "broken"), 1, "broken is not installed: this version does not start"),
        (("noder",), 127, "agent-dev install noder"),
        (("-p", "x", "snake"), 125, "snake has no known way to take a prompt"),
    ],
)
def test_an_agent_that_cannot_be_installed_is_reported(
    agent_dev: AgentDev, registry: Registry, words: tuple[str, ...], code: int, text: str
) -> None:
    if words[0] == "-p":
        agent_dev("install", "snake", env=registry.environment)
    done = agent_dev(*words, env=registry.environment)
    assert done.returncode == code
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_password_of_a_registry_is_not_passed(agent_dev: AgentDev, registry: Registry) -> None:
    secret = registry.url.replace("http://", "http://me:canary@")
    (agent_dev.home / ".npmrc").write_text(f"registry={secret}\n//x/:_authToken=canary\n")
    script = "env; cat ~/.npmrc"
    write_profile(agent_dev, "spy", "command: spy\nagent: {npm: noder}\n")
    done = agent_dev("install", "spy")
    assert "because they contain passwords or variables: registry in npmrc" in done.stderr
    assert "canary" not in done.stdout + done.stderr + agent_dev("--", "sh", "-c", script).stdout


def install_logger(agent_dev: AgentDev, registry: Registry) -> None:
    """Install an agent that appends its arguments to a file of the repository."""
    assert agent_dev("install", "noder", env=registry.environment).returncode == 0
    program = agent_dev.agent_home / ".local/agent/lib/node_modules/noder/program.js"
    program.write_text(program.read_text() + 'require("fs").appendFileSync("log", process.argv.slice(2).join("|") + "\\n");\n')


def test_a_resumed_agent_continues_its_conversation(agent_dev: AgentDev, registry: Registry) -> None:
    install_logger(agent_dev, registry)
    agent_dev("--no-merge", "--prompt", "first", "noder", "a")
    agent_dev("resume")
    agent_dev("resume", "--fresh")
    agent_dev("merge", "--take", "log")
    rows = (agent_dev.repo / "log").read_text().splitlines()
    assert rows == ["--standing|a|--say|first", "--standing|--again", "--standing|a"]


def test_a_resumed_agent_gets_its_options_again_but_no_prompt(agent_dev: AgentDev, registry: Registry) -> None:
    write_profile(agent_dev, "noder", PROFILES["noder"] + "  repeat: [--model=, --quiet]\n")
    install_logger(agent_dev, registry)
    agent_dev.do("--no-merge", "--name", "one", "noder", "--model", "x", "--deep", "--quiet", "fix it")
    omitted = "not given again: --deep; to give arguments: agent-dev resume one -- --model x --deep --quiet 'fix it'"
    given = ((), ("--", "--model=y", "--deep"), ("--fresh", "--", "-z"))
    assert [omitted in agent_dev("--no-merge", "resume", "one", *words).stderr for words in given] == [True, False, False]
    agent_dev.do("--no-merge", "resume", "one", "--fresh")
    agent_dev.do("merge", "one", "--take", "log")
    assert (agent_dev.repo / "log").read_text().splitlines() == [
        "--standing|--model|x|--deep|--quiet|fix it",
        "--standing|--again|--model|x|--quiet",
        "--standing|--again|--model=y|--deep",
        "--standing|-z",
        "--standing|--model|x|--deep|--quiet|fix it",
    ]


def test_the_agent_of_a_copied_session_gets_a_copy_of_the_conversation(agent_dev: AgentDev, registry: Registry) -> None:
    install_logger(agent_dev, registry)
    agent_dev("--no-merge", "noder", "a")
    agent_dev.do("fork", "--name", "two")
    agent_dev.do("resume", "two", "--", "true")
    agent_dev.do("resume", "two")
    agent_dev.do("resume", "two")
    agent_dev.do("merge", "two", "--take", "log")
    rows = (agent_dev.repo / "log").read_text().splitlines()
    assert rows == ["--standing|a", "--standing|--again|--copy", "--standing|--again"]


def test_a_prompt_without_a_terminal_is_a_task(agent_dev: AgentDev, registry: Registry) -> None:
    profile = PROFILES["noder"] + '  task: [do, "{prompt}"]\n'
    write_profile(agent_dev, "noder", profile)
    assert agent_dev("install", "noder", env=registry.environment).returncode == 0
    assert agent_dev("-p", "fix it", "noder", "a").stdout == "--standing|a|do|fix it\n"
    with Terminal([PROGRAM, "-p", "fix it", "noder"], cwd=agent_dev.repo, env=agent_dev.terminal_environment()) as terminal:
        assert terminal.wait_exit() == 0
        assert "--standing|--say|fix it" in terminal.text()


@pytest.mark.parametrize(
    ("task", "printed"),
    [
        ("task: [--do, '{prompt}']", "--again|--do|more"),
        ("task: [do, '{prompt}']\n  task_resume: [--on]", "do|--on|more"),
        ("task: [--do, '{prompt}']\n  task_resume: [--on]", "--again|--do|more"),
        ("task: [do, '{prompt}']\n  task_resume: [--on]\n  repeat: [--with=]", "do|--on|--with|a|more"),
        ("task: [--do, '{prompt}']\n  repeat: [--with=]", "--again|--with|a|--do|more"),
    ],
)
def test_a_task_continues_in_the_form_that_its_subcommand_needs(
    agent_dev: AgentDev, registry: Registry, task: str, printed: str
) -> None:
    write_profile(agent_dev, "noder", PROFILES["noder"] + f"  {task}\n")
    assert agent_dev("install", "noder", env=registry.environment).returncode == 0
    program = agent_dev.agent_home / ".local/agent/lib/node_modules/noder/program.js"
    program.write_text(program.read_text() + 'require("fs").writeFileSync("log", "x");\n')
    agent_dev("--no-merge", "noder", "--with", "a")
    assert agent_dev("-p", "more", "resume").stdout == f"--standing|{printed}\n"


def test_a_task_that_cannot_continue_is_refused(agent_dev: AgentDev, registry: Registry) -> None:
    """Its prompt for a terminal would start a screen without one, and wait forever."""
    write_profile(agent_dev, "noder", PROFILES["noder"] + '  task: [do, "{prompt}"]\n')
    install_logger(agent_dev, registry)
    agent_dev("--no-merge", "noder")
    done = agent_dev("-p", "more", "resume")
    assert (done.returncode, done.stdout) == (125, "")
    assert "without a terminal, noder cannot continue its conversation" in done.stderr
    agent_dev.do("--no-merge", "-p", "more", "resume", "--fresh")
    assert "do|more" in agent_dev.do("diff")
    argv: list[str | Path] = [PROGRAM, "--no-merge", "-p", "more", "resume"]
    with Terminal(argv, cwd=agent_dev.repo, env=agent_dev.terminal_environment()) as terminal:
        assert terminal.wait_exit() == 0
        assert "--standing|--again|--say|more" in terminal.text()


def write_conversation(agent_dev: AgentDev, name: str) -> None:
    """Write a conversation in the repository into the agent home."""
    folder = agent_dev.agent_home / ".noder"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"cwd": str(agent_dev.repo)}))


NAMED = 'conversations: ".noder/{conversation}.json#cwd"\n  resume: [--go, "{conversation}"]'


def test_a_resumed_agent_continues_a_conversation_by_its_id(agent_dev: AgentDev, registry: Registry) -> None:
    write_profile(agent_dev, "noder", PROFILES["noder"].replace("resume: [--again]", NAMED) + "  repeat: [--model=]\n")
    install_logger(agent_dev, registry)
    agent_dev("--no-merge", "noder", "--model", "x", "fix it")
    anew = f"agent-dev: no conversation of noder in {agent_dev.repo} was found: this is a new one\n"
    assert anew in agent_dev("--no-merge", "resume").stderr
    write_conversation(agent_dev, "abc1")
    done = agent_dev("--no-merge", "resume")
    assert (done.stdout, "new one" in done.stderr) == ("--standing|--go|abc1|--model|x\n", False)
    assert agent_dev("--no-merge", "resume", "--", "--model", "y").stdout == "--standing|--go|abc1|--model|y\n"
    fresh = agent_dev("--no-merge", "resume", "--fresh")
    assert (fresh.stdout, "new one" in fresh.stderr) == ("--standing|--model|x|fix it\n", False)


def test_a_conversation_that_needs_a_terminal_and_no_prompt(agent_dev: AgentDev, registry: Registry) -> None:
    """The agent begins a new one if it gets a prompt, or has no terminal, and a line says so."""
    profile = PROFILES["noder"].replace("resume: [--again]", f"{NAMED}\n  resume_interactive: true")
    write_profile(agent_dev, "noder", profile)
    install_logger(agent_dev, registry)
    agent_dev("--no-merge", "noder")
    write_conversation(agent_dev, "abc1")
    anew = "noder continues its conversation only at a terminal and without a prompt: this is a new one"
    for options, given, is_new in (((), "--go|abc1", False), (("-p", "more"), "--say|more", True)):
        argv: list[str | Path] = [PROGRAM, "--no-merge", *options, "resume"]
        with Terminal(argv, rows=30, cols=160, cwd=agent_dev.repo, env=agent_dev.terminal_environment()) as terminal:
            assert terminal.wait_exit() == 0
            shown = terminal.text()
        assert (f"--standing|{given}\n" in shown, anew in shown) == (True, is_new), shown
    done = agent_dev("--no-merge", "resume")
    assert (done.stdout, anew in done.stderr) == ("--standing\n", True)


def test_the_value_of_an_env_option_stays_as_typed(agent_dev: AgentDev) -> None:
    done = agent_dev("--env", "TEXT=~/x {root} {home}", "--", "printenv", "TEXT")
    assert done.stdout == "~/x {root} {home}\n"


def test_pip_shows_its_progress_on_a_terminal_only(agent_dev: AgentDev, registry: Registry) -> None:
    environment = agent_dev.terminal_environment(registry.environment)
    with Terminal([PROGRAM, "install", "snake"], cwd=agent_dev.repo, env=environment) as terminal:
        assert terminal.wait_exit() == 0
        assert "Installing collected packages: snake" in terminal.text()
    assert "Installing" not in agent_dev("install", "snake", "--version", "2.0", env=registry.environment).stdout


def test_a_missing_agent_is_offered_on_a_terminal(agent_dev: AgentDev, registry: Registry) -> None:
    environment = agent_dev.terminal_environment(registry.environment)
    with Terminal([PROGRAM, "noder", "--version"], cwd=agent_dev.repo, env=environment) as terminal:
        terminal.wait_for(lambda shown: "Install noder now? [Y/n]" in shown.replace("\n", ""))
        terminal.send("\n")
        assert terminal.wait_exit() == 0
        assert "--standing|--version" in terminal.text()


def test_variables_and_commands_name_the_home_and_the_repository(agent_dev: AgentDev, registry: Registry) -> None:
    text = "command: [sh, -c, 'echo \"$PLACE\" {root} {home}']\nset: {PLACE: '~/x in {root}', JSON: '{\"a\": 1}'}\n"
    write_profile(agent_dev, "place", text)
    home, root = agent_dev.home, agent_dev.repo
    assert agent_dev("place").stdout == f"{home}/x in {root} {root} {home}\n"


def test_an_agent_gets_instructions_unless_they_are_off(agent_dev: AgentDev) -> None:
    agent = "  instructions: [\"{instructions}\"]\n  instructions_set: {GUIDE: '{instructions_file}'}\n"
    script = 'echo "$1" | head -n 1; test -z "$GUIDE" || head -n 1 "$GUIDE"; test -z "$GUIDE" || echo more >>"$GUIDE"'
    write_profile(agent_dev, "reader", f"command: [sh, -c, '{script}', sh]\nagent:\n{agent}")
    done = agent_dev("--no-merge", "reader")
    assert done.stdout == "# You work in a sandbox (agent-dev)\n" * 2, done.stderr
    assert done.returncode != 0, "the file can be written"
    write_profile(agent_dev, "silent", "extends: reader\ninstructions: false\n")
    assert agent_dev("silent").stdout == "\n"
    assert agent_dev("status").returncode == 1, "the session has changes"
