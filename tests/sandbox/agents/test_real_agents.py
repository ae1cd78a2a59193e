"""The real agents, installed by `agent-dev install`, against a scripted model on this machine, until the change is applied.

AGENT_DEV_TEST_AGENTS selects them: `all`, `first` (the five of FIRST), or names (`codex,gemini`). Without it, none is run.
AGENT_DEV_TEST_INSTALL=1 installs them again instead of using the installation of an earlier run.
"""

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.agents import installed_agents, interactive
from tests.harness.agents.any_model import AnyModel
from tests.harness.agents.scripted import COMMAND, MADE, SETUPS, Setup
from tests.harness.program import PROGRAM, AgentDev, tree
from tests.harness.reference.agents_table import entry_of
from tests.harness.servers.clipboard import scripted_clipboard
from tests.harness.terminal import Terminal

FIRST = ("aider", "claude", "codex", "gemini", "opencode")
SECOND = "printf more >second.txt"
SHOWN = "printf seen >shown.txt"
CHANGED = {"aider": "made.txt"}  # it has no tools: it edits the file of its answer
LOGIN_FIRST = ("droid",)  # its screen wants its own login, before any prompt
TYPED = ("aider", "cline", "kimi")  # with a prompt as an argument, they do this task and exit
PAIRED = ("claude", "codex", "opencode")  # run twice at the same time
# The task of Codex, Kilo and OpenCode begins with a subcommand, after which the conversation continues. Codex, pi and Qwen ask
# the scripted model only with the options of their first run.
COPIED = ("codex", "kilo", "opencode", "pi", "qwen")
CONTINUED = ("claude", "cline", "codex", "continue", "copilot", "gemini", "grok", "kilo", "kimi", "opencode", "pi", "qwen")
FORKING = ("claude", "grok")  # the first `resume` of a copied session continues a copy of the conversation
PASTING = {  # the text by which an agent shows an image that was pasted
    "claude": "[Image #1]",
    "gemini": ".png",
    "opencode": "[Image",
    "pi": ".png",
    "qwen": ".png",
}
REPORTING = ("cline", "droid", "gemini")  # no option or variable switches all of their telemetry off
NOT_NEEDED = {  # names that an agent contacts, but works without: prices of models, plugins, news
    "aider": ("raw.githubusercontent.com",),
    "claude": ("raw.githubusercontent.com", "github.com"),
    "codex": ("raw.githubusercontent.com", "github.com", "api.github.com"),
}
ASKED = os.environ.get("AGENT_DEV_TEST_AGENTS", "")
AGENTS = {"all": tuple(SETUPS), "first": FIRST}.get(ASKED) or tuple(filter(None, ASKED.split(","))) or FIRST

pytestmark = pytest.mark.real_agents

Record = Callable[[str, object], None]


@pytest.fixture(scope="module", params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def user(agent: str) -> Iterator[AgentDev]:
    with installed_agents.user_of(agent) as program:
        yield program


@pytest.fixture
def installed(user: AgentDev, agent: str) -> AgentDev:
    if not installed_agents.is_installed(user):
        installed_agents.install(user, agent)
    return user


def setup_for(agent: str, model: AnyModel, user: AgentDev) -> tuple[Setup, tuple[str, ...]]:
    """Point the agent to a model; return its setup, and the words that run it with a prompt."""
    setup = SETUPS[agent](model.url)
    setup.write_files(user.agent_home)
    return setup, ("-p", "make a file", *setup.options(), agent, *setup.arguments)


def has_worked(agent: str, model: AnyModel, terminal: Terminal) -> bool:
    """Return whether the agent has done its prompt at a terminal, or shows all that it can without a login."""
    if agent in LOGIN_FIRST:
        return "Please login" in terminal.text()
    return model.has_called or "Applied edit" in terminal.text()


def test_it_is_installed_without_a_change_of_the_repository(user: AgentDev, agent: str) -> None:
    if not installed_agents.is_installed(user):
        before = tree(user.repo)
        installed_agents.install(user, agent)
        assert tree(user.repo) == before
        assert user("sessions", "--all").stdout == "no running or waiting sessions\n"
    assert user("install", "--list").stdout.count(" not installed") < len(SETUPS)


def test_it_makes_a_change_that_is_applied(installed: AgentDev, agent: str) -> None:
    before = tree(installed.repo)
    with AnyModel(COMMAND, SETUPS[agent]("").text) as model:
        _, words = setup_for(agent, model, installed)
        done = installed("--no-merge", *words, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.paths, "the agent asked the scripted model"
    assert model.has_instructions, "the agent learned how its sandbox works"
    assert tree(installed.repo) == before
    assert installed("merge", "--all").returncode == 0
    assert (installed.repo / "made.txt").read_text() == MADE


def test_it_contacts_only_the_hosts_of_its_profile(installed: AgentDev, agent: str) -> None:
    (installed.repo / "made.txt").unlink(missing_ok=True)  # of an earlier test: without a change, no session is kept
    with AnyModel(COMMAND, SETUPS[agent]("").text) as model:
        _, words = setup_for(agent, model, installed)
        learn = ("--net", "learn", "--allow", f"localhost:{model.url.rpartition(':')[2]}", "--no-merge", "--name", "learned")
        done = installed(*learn, *words, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(installed.do("log", "--network", "--json", "learned"))["connections"]
    entry = entry_of(agent)
    names = {row["name"] for row in rows if not row["name"].startswith(("registry.", "pypi."))}  # for news about itself
    assert names <= {"localhost", *entry.hosts, *NOT_NEEDED.get(agent, ()), *(entry.telemetry if agent in REPORTING else ())}
    assert installed("discard", "learned").returncode == 0


def test_it_works_at_a_terminal(installed: AgentDev, agent: str, record_property: Record) -> None:
    """It starts, does its prompt, draws again at another size, and ends by Ctrl-C."""
    with AnyModel(SHOWN, SETUPS[agent]("").text) as model:
        setup, words = setup_for(agent, model, installed)
        if agent in (*TYPED, *LOGIN_FIRST):
            words = (*(() if agent in LOGIN_FIRST else setup.options()), agent, *setup.arguments)
        argv: list[str | Path] = [PROGRAM, "--no-merge", "--name", "seen", *words]
        environment = installed.terminal_environment()
        with Terminal(argv, rows=30, cols=100, env=environment, cwd=installed.repo) as terminal:
            if agent in TYPED:
                interactive.send_prompt(terminal, "make a file")
            interactive.wait_until(terminal, lambda: has_worked(agent, model, terminal), 120)
            interactive.wait_for_clock(terminal)
            assert "Do you trust" not in terminal.text(), "the profile answers such questions"
            before = len(terminal.raw)
            terminal.resize(40, 120)
            terminal.wait_for(lambda _: len(terminal.raw) > before)
            record_property("keys", interactive.leave(terminal))
    if agent not in LOGIN_FIRST:
        assert CHANGED.get(agent, "shown.txt") in installed.changes("seen")
        assert installed("discard", "seen").returncode == 0


def test_ctrl_v_pastes_an_image(installed: AgentDev, agent: str, tmp_path: Path) -> None:
    """The agent reads the image by `xclip` or `wl-paste` of the sandbox. Tried for the agents in PASTING."""
    if agent not in PASTING:
        return
    clipboard = scripted_clipboard(tmp_path / "desktop")
    with AnyModel(SHOWN, SETUPS[agent]("").text) as model:
        _, words = setup_for(agent, model, installed)
        argv: list[str | Path] = [PROGRAM, "--share", "clipboard-images", "--no-merge", "--name", "pasted", *words]
        environment = installed.terminal_environment(clipboard.environ)
        with Terminal(argv, rows=30, cols=100, env=environment, cwd=installed.repo) as terminal:
            interactive.wait_until(terminal, lambda: has_worked(agent, model, terminal), 120)
            interactive.wait_for_clock(terminal)
            before = terminal.text().count(PASTING[agent])
            terminal.keys("ctrl+v")
            terminal.wait_for(lambda shown: bool(clipboard.calls()) and shown.count(PASTING[agent]) > before, 60)
            terminal.kill(signal.SIGTERM)  # keys would send the image to the model
            terminal.wait_exit()
    assert installed("discard", "pasted").returncode == 0
    assert any("image/png" in call for call in clipboard.calls())


def test_it_continues_its_conversation_at_a_terminal(installed: AgentDev, agent: str) -> None:
    """After a task without one, `resume` sends the model its prompt, too. Tried for the agents in CONTINUED."""
    if agent not in CONTINUED:
        return
    with AnyModel(SHOWN, SETUPS[agent]("").text) as model:
        setup, words = setup_for(agent, model, installed)
        assert installed("--no-merge", "--name", "asked", *words, timeout=240).returncode == 0
        argv: list[str | Path] = [PROGRAM, "--no-merge", *setup.options(), "resume", "asked"]
        with Terminal(argv, rows=30, cols=100, env=installed.terminal_environment(), cwd=installed.repo) as terminal:
            interactive.send_prompt(terminal, "and another")
            interactive.wait_until(terminal, lambda: b"and another" in model.last, 120)
            assert b"make a file" in model.last, "the conversation goes on"
            interactive.leave(terminal)
    assert installed("discard", "asked").returncode == 0


def test_a_copy_continues_a_copy_of_the_conversation(installed: AgentDev, agent: str) -> None:
    """At a terminal and then without one, `resume` of a copied session leaves the conversation as it was. For FORKING."""
    if agent not in FORKING:
        return
    with AnyModel(SHOWN, SETUPS[agent]("").text) as model:
        setup, words = setup_for(agent, model, installed)
        assert installed("--no-merge", "--name", "asked", *words, timeout=240).returncode == 0
        kept = _conversations(installed, agent)
        assert installed("fork", "asked", "--name", "copy").returncode == 0
        argv: list[str | Path] = [PROGRAM, "--no-merge", *setup.options(), "resume", "copy"]
        with Terminal(argv, rows=30, cols=100, env=installed.terminal_environment(), cwd=installed.repo) as terminal:
            interactive.send_prompt(terminal, "and another")
            interactive.wait_until(terminal, lambda: b"and another" in model.last, 120)
            assert b"make a file" in model.last, "the copy of the conversation goes on"
            interactive.leave(terminal)
        done = installed("--no-merge", "-p", "a third", *setup.options(), "resume", "copy", timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert all(prompt in model.last for prompt in (b"make a file", b"and another", b"a third"))
        now = _conversations(installed, agent)
        assert now.items() > kept.items(), "the first one is unchanged"
        assert len(now) == len(kept) + 1
    assert installed("discard", "asked", "copy").returncode == 0


def _conversations(installed: AgentDev, agent: str) -> dict[str, bytes]:
    """Return the files of an agent's conversations in the repository, and their content."""
    path, _, _ = entry_of(agent).conversations.partition("#")
    files = installed.agent_home.glob(path.replace("{conversation}", "*"))
    return {str(file): file.read_bytes() for file in files if ".grok/worktrees" not in file.read_text()}


def test_a_copy_goes_on_without_a_terminal(installed: AgentDev, agent: str) -> None:
    """A copied session takes a prompt twice, and exits. Tried for the agents in COPIED."""
    if agent not in COPIED:
        return
    with AnyModel(SECOND, SETUPS[agent]("").text) as model:
        setup, words = setup_for(agent, model, installed)
        assert installed("--no-merge", "--name", "first", *words, timeout=240).returncode == 0
        assert installed("fork", "first", "--name", "copy").returncode == 0
        for prompt in ("more", "yet more"):
            before = len(model.paths)
            done = installed("--no-merge", "-p", prompt, *setup.options(), "resume", "copy", timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            assert len(model.paths) > before
    assert installed("discard", "first", "copy").returncode == 0


def test_two_at_once_leave_its_state_files_intact(installed: AgentDev, agent: str) -> None:
    """Run two sessions at the same time in the same agent home, and one more. Tried for the agents in PAIRED."""

    def run(name: str) -> int:
        return installed("--no-merge", "--name", name, *words, timeout=240).returncode

    if agent not in PAIRED:
        return
    with AnyModel(SECOND, SETUPS[agent]("").text, agents=2) as model, ThreadPoolExecutor(2) as pool:
        _, words = setup_for(agent, model, installed)
        assert list(pool.map(run, ("one", "two"))) == [0, 0]
    assert set(_damaged_files(installed.agent_home)) == set()
    with AnyModel(SECOND, SETUPS[agent]("").text) as model:
        _, words = setup_for(agent, model, installed)
        assert run("three") == 0
    assert {one["name"] for one in installed.sessions()} == {"one", "two", "three"}


def _damaged_files(home: Path) -> Iterator[str]:
    """Yield the state files of agents that are not whole: JSON, lines of JSON, SQLite."""
    for folder, folders, names in os.walk(home):
        folders[:] = [name for name in folders if name not in ("node_modules", "agent")]  # installed, no state
        for path in (Path(folder, name) for name in names):
            try:
                if path.suffix == ".json":
                    json.loads(path.read_bytes() or b"{}")
                elif path.suffix == ".jsonl":
                    [json.loads(line) for line in path.read_bytes().splitlines()]
                elif path.suffix in (".db", ".sqlite"):
                    with closing(sqlite3.connect(path)) as database:
                        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
            except (ValueError, AssertionError, sqlite3.Error) as error:
                yield f"{path}: {error}"
