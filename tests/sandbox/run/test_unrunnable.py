"""Commands that cannot run, deleted directories and invalid arguments: the reason is printed, and nothing runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.policy.refusals import NOTHING_RAN, nothing_was_made, refused


def test_a_missing_path_and_one_not_mounted_are_distinguished(agent_dev: AgentDev, tmp_path: Path) -> None:
    assert f"{agent_dev.repo}/nosuch does not exist\n" in agent_dev("--", "./nosuch").stderr
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    assert f"{tmp_path}/tool is not visible in the sandbox: add --ro {tmp_path}\n" in agent_dev("--", tmp_path / "tool").stderr


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/ssl", "/dev/null", "/proc/self/status"])
def test_a_visible_file_that_is_no_program_is_not_executable(agent_dev: AgentDev, path: str) -> None:
    done = agent_dev("--", path)
    assert done.returncode == 126
    assert f"agent-dev: {path}: not executable" in done.stderr
    assert "add --ro" not in done.stderr
    assert "chmod" not in done.stderr
    assert nothing_was_made(agent_dev)


def test_a_missing_command_with_a_similar_profile_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "claud")
    assert (done.returncode, "(did you mean claude?)" in done.stderr) == (127, True)


def test_a_profile_without_a_command_is_named_as_the_cause(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    folder.mkdir(parents=True)
    for name in ("nothing", "a b", ".hidden"):
        (folder / f"{name}.yaml").write_text("about: x\n")
    done = agent_dev("nothing")
    assert (done.returncode, "hint: the profile nothing has no `command`" in done.stderr) == (127, True)
    assert "did you mean nothing?" in agent_dev("--", "nothin").stderr
    assert "did you mean" not in agent_dev("--", "hidden").stderr


def test_a_missing_command_has_a_hint_how_to_install_it(agent_dev: AgentDev) -> None:
    hint = "install it on this machine, or inside into ~/.local/agent/bin"
    done = agent_dev("--", "nosuch-program")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (127, f"agent-dev: hint: {hint}")
    assert json.loads(agent_dev.do("why", "--json", "nosuch-program"))["changes"] == [hint]


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help --anything", "--help"),
        ("help merge", "merge --help"),
        ("help tx", "tx --help"),
        ("help run", "run -h"),
    ],
)
def test_help_is_a_verb_too(agent_dev: AgentDev, words: str, same: str) -> None:
    done = agent_dev(*words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == agent_dev(*same.split()).stdout
    assert "agent-dev" in done.stdout


def test_help_of_an_unknown_verb_is_a_usage_error(agent_dev: AgentDev) -> None:
    done = agent_dev("help", "merg")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "agent-dev: help: no subcommand merg (did you mean merge?)")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_profile_whose_command_is_missing_prints_how_to_install_it(agent_dev: AgentDev, agent: str) -> None:
    done = agent_dev(agent)
    assert done.returncode == 127
    assert f"agent-dev install {agent}\n" in done.stderr
    assert nothing_was_made(agent_dev)


def test_an_agent_without_a_terminal_needs_a_prompt_or_an_input(agent_dev: AgentDev) -> None:
    """The login of Droid, and the screens of Kilo and OpenCode, wait forever for keys."""
    program = agent_dev.agent_home / ".local/agent/bin/droid"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@" | tee -a made\n')
    program.chmod(0o755)
    done = agent_dev("droid")
    needs = "agent-dev: without a terminal, droid needs a prompt\nagent-dev: hint: agent-dev -p PROMPT "
    assert (done.returncode, done.stdout, done.stderr) == (125, "", f"{needs}droid\n")
    assert agent_dev.sessions(everywhere=True) == []
    assert agent_dev("-p", "do it", "droid").stdout == "exec --skip-permissions-unsafe do it\n"
    assert agent_dev("droid", "mcp").stdout == "mcp\n"
    assert agent_dev("droid", input="do it").returncode == 0
    done = agent_dev("resume")
    assert (done.returncode, done.stdout, done.stderr) == (125, "", f"{needs}resume\n")
    assert agent_dev("resume", "--", "--auto", "low").stdout == "--resume --last --auto low\n"


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("#!/bin/sh\n"), lambda path: path.mkdir()], ids=["file", "directory"]
)
def test_a_file_that_is_not_executable_is_reported(agent_dev: AgentDev, make: Callable[[Path], object]) -> None:
    make(agent_dev.repo / "thing")
    done = agent_dev("--", "./thing")
    assert (done.returncode, done.stdout) == (126, "")
    assert "./thing: not executable" in done.stderr
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("line", ["#!{home}/python", "#! {home}/python  -I", "#!/no/such/interpreter"])
def test_a_script_whose_interpreter_is_missing_inside_is_not_found(agent_dev: AgentDev, line: str) -> None:
    interpreter = line.format(home=agent_dev.home)
    (agent_dev.home / "python").symlink_to("/bin/sh")  # exists outside only
    (agent_dev.repo / "script").write_text(f"{interpreter}\n")
    (agent_dev.repo / "script").chmod(0o755)
    done = agent_dev("--", "./script")
    assert (done.returncode, done.stdout) == (127, "")
    missing = interpreter.removeprefix("#!").split()[0]
    assert done.stderr.splitlines()[0] == f"agent-dev: ./script: its interpreter {missing} does not exist in the sandbox"
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("line", ["#!/bin/sh", "#! /usr/bin/env sh", "#!./bin/mine", "# none"])
def test_a_script_whose_interpreter_is_there_runs(agent_dev: AgentDev, line: str) -> None:
    (agent_dev.repo / "bin").mkdir()
    (agent_dev.repo / "bin/mine").symlink_to("/bin/sh")
    (agent_dev.repo / "script").write_text(f"{line}\necho ran\n")
    (agent_dev.repo / "script").chmod(0o755)
    assert agent_dev("--", "./script").stdout == "ran\n"


def test_a_symlink_broken_inside_is_found_and_does_not_start(agent_dev: AgentDev) -> None:
    (agent_dev.home / "tool").write_text("#!/bin/sh\n")
    (agent_dev.home / "tool").chmod(0o755)
    (agent_dev.repo / "tool").symlink_to(agent_dev.home / "tool")
    done = agent_dev("--", "./tool")
    assert (done.returncode, done.stdout) == (127, "")
    assert "agent-dev: ./tool: found, but it does not start in the sandbox\n" in done.stderr
    wait_until(lambda: agent_dev.session_directories() == [], "nothing is left of the session")


def test_an_agent_whose_interpreter_is_missing_can_be_installed_again(agent_dev: AgentDev) -> None:
    program = agent_dev.agent_home / ".local/agent/bin/openhands"
    program.parent.mkdir(parents=True)
    program.symlink_to("../venvs/openhands/bin/openhands")  # of a Python that is gone
    done = agent_dev("openhands", "--version")
    assert done.returncode == 127
    assert "agent-dev: openhands: found, but it does not start in the sandbox\n" in done.stderr
    assert done.stderr.endswith("its interpreter is missing; to install it again: agent-dev install --upgrade openhands\n")


def test_a_command_denied_by_the_policy_is_reported_as_denied(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "rm", "-rf", "/")
    assert done.returncode == 126
    *_, reason, hint = done.stderr.splitlines()
    assert reason == "agent-dev: rm: denied by the command policy"
    assert hint == "agent-dev: hint: agent-dev policy check -- rm -rf / shows the rule"
    assert agent_dev.do("policy", "check", "--", "rm", "-rf", "/").startswith("deny: rm -rf /: rule remove-everything")
    assert agent_dev.sessions(everywhere=True) == []


def test_a_command_outside_of_the_sandbox_is_not_found(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    done = agent_dev("--", tmp_path / "tool")
    assert (done.returncode, done.stdout) == (127, "")


@pytest.mark.parametrize("value", [None, "", "relative"], ids=["unset", "empty", "relative"])
def test_without_a_home_nothing_runs(agent_dev: AgentDev, value: str | None) -> None:
    done = agent_dev(*NOTHING_RAN, env={"HOME": value})
    refused(agent_dev, done, "HOME")


def test_a_home_that_does_not_exist_is_refused_and_not_created(agent_dev: AgentDev, tmp_path: Path) -> None:
    nowhere = {name: None for name in agent_dev.env if name.startswith("XDG_")} | {"HOME": str(tmp_path / "nobody")}
    refused(agent_dev, agent_dev(*NOTHING_RAN, env=nowhere), f"HOME is {tmp_path}/nobody, which is not a directory")
    assert agent_dev("sessions", env=nowhere).returncode == 1
    assert not (tmp_path / "nobody").exists()


@pytest.fixture
def removed(tmp_path: Path) -> tuple[str, ...]:
    """Return the command prefix that runs agent-dev in a deleted directory."""
    (tmp_path / "removed").mkdir()
    return ("sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path / "removed"))


@pytest.mark.parametrize("words", [(), ("--ro", "x"), ("-C", "x")], ids=["plain", "--ro", "-C"])
def test_in_a_deleted_directory_nothing_runs(agent_dev: AgentDev, removed: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(agent_dev, agent_dev(*words, *NOTHING_RAN, before=removed), "the current directory no longer exists")


def test_a_verb_in_a_deleted_directory_prints_one_line(agent_dev: AgentDev, removed: tuple[str, ...]) -> None:
    done = agent_dev("status", before=removed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "agent-dev: refused: the current directory no longer exists"


@pytest.mark.parametrize(("words", "code"), [(("status",), 2), (("resume",), 125), (("--", "true"), 125)])
def test_an_unknown_directory_is_a_usage_error(agent_dev: AgentDev, words: tuple[str, ...], code: int) -> None:
    done = agent_dev("-C", "nowhere", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[0] == f"agent-dev: refused: {agent_dev.repo}/nowhere is not a directory"


def test_from_a_deleted_directory_another_can_be_selected(agent_dev: AgentDev, removed: tuple[str, ...]) -> None:
    done = agent_dev("-C", agent_dev.repo, "--", "pwd", before=removed)
    assert done.stdout == f"{agent_dev.repo}\n"


def test_a_prompt_for_a_command_is_refused_with_a_command_that_runs(agent_dev: AgentDev) -> None:
    done = agent_dev("-p", "hi", "--", "echo")
    assert (done.returncode, done.stdout) == (125, "")
    hint = done.stderr.splitlines()[-1].removeprefix("agent-dev: hint: agent-dev ").replace("ARGUMENTS", "hi")
    assert agent_dev(*hint.split()).stdout == "hi\n"


@pytest.mark.parametrize("words", [("",), ("--", ""), ("run", ""), ("run", "--", "")], ids=" ".join)
def test_an_empty_name_is_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    refused(agent_dev, agent_dev(*words), "the agent's name is empty")
    assert nothing_was_made(agent_dev)


def test_run_takes_a_command_after_two_dashes(agent_dev: AgentDev) -> None:
    assert agent_dev("run", "--", "echo", "--", "ran").stdout == "-- ran\n"


@pytest.mark.parametrize("words", [("run",), ("run", "--"), ("run", "-x"), ("run", "--net", "none", "true")], ids=" ".join)
def test_run_without_a_name_is_a_usage_error(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 2  # the error and a hint


@pytest.mark.parametrize("option", ["--home", "--ro", "--rw", "--overlay", "--env", "--name", "--net", "--profile", "--config"])
@pytest.mark.parametrize("is_joined", [False, True], ids=["apart", "joined"])
def test_an_empty_value_of_an_option_is_a_usage_error(agent_dev: AgentDev, option: str, *, is_joined: bool) -> None:
    done = agent_dev(*([f"{option}="] if is_joined else [option, ""]), *NOTHING_RAN)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"agent-dev: the value of {option} is empty"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--env", "A B=c", "bash"), "--env: A B is not a variable name: letters, digits and _, not beginning with a digit"),
        (("--env", "=c", "--", "true"), "--env: is empty"),
        (("--env=1", "--", "true"), "--env: 1 is not a variable name: letters, digits and _, not beginning with a digit"),
        (
            ("--share", "foo", "--", "true"),
            "--share: foo is not one of ssh-agent, gpg-agent, dbus, display, clipboard-images, docker",
        ),
        (("rollback", "abc"), "rollback: 'abc' is not a checkpoint number"),
        (("clean", "--older-than", "x"), "clean: argument --older-than: 'x' is not a number from 0 to 1048576"),
        (("clean", "--keep-mib", "99999999999"), "clean: argument --keep-mib: '99999999999' is not a number from 0 to 1048576"),
        (("undo", "nosuch"), "no merge nosuch here"),
        (("redo", "../x"), "no merge ../x here"),
    ],
    ids=str,
)
def test_a_wrong_value_is_a_usage_error(agent_dev: AgentDev, words: tuple[str, ...], what: str) -> None:
    done = agent_dev(*words)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"agent-dev: {what}")
    assert len(done.stderr.splitlines()) == 2
    assert nothing_was_made(agent_dev)


def test_an_unknown_rule_is_refused_without_a_list_of_all(agent_dev: AgentDev) -> None:
    done = agent_dev("tx", "--allow", "git_hok", "--", "true")
    assert done.returncode == 125
    assert max(map(len, done.stderr.splitlines())) < 100
