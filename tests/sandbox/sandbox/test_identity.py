"""The agent commits with the user's identity, and sees nothing else of the user's git configuration."""

from tests.harness.program import AgentDev

OWN = "[user]\n\tname = Agent Smith\n\temail = smith@example.invalid\n"


def author(agent_dev: AgentDev) -> str:
    done = agent_dev("--", "sh", "-c", "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>, %cn <%ce>'")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_agent_commits_with_the_users_identity(agent_dev: AgentDev) -> None:
    assert author(agent_dev) == "Ada Lovelace <ada@example.invalid>, Ada Lovelace <ada@example.invalid>"


def test_the_repositorys_identity_overrides_the_users(agent_dev: AgentDev) -> None:
    agent_dev.git("config", "user.name", "Ada at Work")
    agent_dev.git("config", "user.email", "ada@work.invalid")
    assert author(agent_dev).startswith("Ada at Work <ada@work.invalid>")


def test_an_identity_from_includeif_is_found(agent_dev: AgentDev) -> None:
    (agent_dev.home / "work.gitconfig").write_text("[user]\n\temail = ada@included.invalid\n")
    with (agent_dev.home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{agent_dev.home}/src/"]\n\tpath = work.gitconfig\n')
    assert author(agent_dev).startswith("Ada Lovelace <ada@included.invalid>")


def test_the_agents_own_identity_overrides_all(agent_dev: AgentDev) -> None:
    agent_dev.agent_home.mkdir()
    (agent_dev.agent_home / ".gitconfig").write_text(OWN)
    assert author(agent_dev).startswith("Agent Smith <smith@example.invalid>")


def test_without_any_identity_of_the_user_the_agent_can_commit(agent_dev: AgentDev) -> None:
    (agent_dev.home / ".gitconfig").unlink()
    assert "@" in author(agent_dev)


def test_a_name_with_special_characters_is_passed_through_whole(agent_dev: AgentDev) -> None:
    agent_dev.git("config", "--global", "user.name", 'Ada "the \\ #1; Count" Löv')
    outside = agent_dev.git("var", "GIT_AUTHOR_IDENT").split(" <")[0]
    assert author(agent_dev).split(" <")[0] == outside


def test_nothing_else_of_the_users_git_configuration_is_visible(agent_dev: AgentDev) -> None:
    with (agent_dev.home / ".gitconfig").open("a") as file:
        file.write('[credential]\n\thelper = store --file=/canary\n[url "https://canary@host/"]\n\tinsteadOf = canary\n')
    done = agent_dev("--", "git", "config", "--list", "--show-scope")
    outer = [line.split("\t", 1)[1] for line in done.stdout.splitlines() if not line.startswith("local")]
    keys = {line.split("=")[0] for line in outer}
    assert {key for key in keys if not key.startswith("filter.lfs.")} == {"user.name", "user.email"}  # some systems set it
