"""`agent-dev learn`: the draft names what the run missed, and nothing that was there."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev

LOOK = "cat ~/notes/a ~/.ssh/config missing-here; cat README.md; listed-tool; rm -rf / --no-preserve-root; touch made"


@pytest.fixture
def with_files(agent_dev: AgentDev) -> AgentDev:
    """Write files of the user that no agent sees, and a program on the user's PATH."""
    for name in ("notes/a", ".ssh/config", "opt/bin/listed-tool"):
        path = agent_dev.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    agent_dev.env["PATH"] = f"{agent_dev.home}/opt/bin:/usr/bin:/bin"
    return agent_dev


def draft(agent_dev: AgentDev) -> Path:
    """Return the default path of a draft for bash."""
    return Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles/bash-learned.yaml"


@pytest.mark.parametrize("policy", ["guard", "off"])
def test_a_draft_names_what_was_missing(with_files: AgentDev, policy: str) -> None:
    config = Path(with_files.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'policy: "{policy}"\n')
    looked = LOOK if policy == "guard" else LOOK.replace("rm -rf / --no-preserve-root; ", "")
    done = with_files("--no-merge", "learn", "bash", "-c", looked)
    assert done.returncode == 0, done.stderr
    text = draft(with_files).read_text()
    assert "'~/notes/a?'" in text.partition("hold credentials")[0]
    assert "'~/.ssh/config?'" in text.partition("hold credentials")[2]
    assert "'~/opt/bin/listed-tool?' # listed-tool" in text
    assert ("rm -rf / --no-preserve-root" in text) == (policy == "guard")
    assert "README" not in text
    assert "missing-here" not in text
    assert with_files.changes() == {"made": "added"}


def test_a_draft_can_be_started_and_grants_nothing(with_files: AgentDev) -> None:
    assert with_files("learn", "bash", "-c", "cat ~/notes/a").returncode == 1
    done = with_files("bash-learned", "-c", "cat ~/notes/a")
    assert "No such file" in done.stderr


def test_an_existing_file_is_never_overwritten(with_files: AgentDev) -> None:
    path = draft(with_files)
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    done = with_files("learn", "bash", "-c", "touch made")
    assert done.returncode != 0
    assert path.read_text() == "mine\n"
    assert with_files("sessions").stdout == "no running or waiting sessions\n"


def test_an_agent_that_misses_nothing_gets_no_draft(with_files: AgentDev) -> None:
    done = with_files("learn", "bash", "-c", "cat README.md")
    assert "missed nothing" in done.stderr
    assert not draft(with_files).exists()


def test_a_command_gets_a_draft_that_starts_it(with_files: AgentDev) -> None:
    done = with_files("learn", "--", "/bin/cat", f"{with_files.home}/notes/a")
    assert done.returncode == 1, done.stderr
    path = draft(with_files).with_name("cat-learned.yaml")
    path.write_text(path.read_text().replace("# ro:\n#   - '~/notes", "ro:\n  - '~/notes"))
    assert with_files("cat-learned", f"{with_files.home}/notes/a").stdout == "#!/bin/sh\n"


def test_a_program_without_a_profile_is_suggested_as_a_command(with_files: AgentDev) -> None:
    done = with_files("learn", "cat", "README.md")
    assert "hint: to learn from a program: agent-dev learn -- cat" in done.stderr
    assert not draft(with_files).parent.exists()
