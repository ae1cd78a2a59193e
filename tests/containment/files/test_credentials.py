"""CONTAINMENT D, B: tokens in tool directories, secrets in the environment and the repository, sockets of the host."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.environment import BASE_ENV, PROXY_ENV
from agent_dev.sandbox.credentials import CREDENTIALS
from agent_dev.sandbox.shared_sockets import WARNINGS
from tests.conftest import GITCONFIG
from tests.containment.rows import RESIDUAL, row
from tests.containment.support import containers
from tests.harness.program import AgentDev, tree, wait_until

CANARY = "canary-of-a-credential"
READ = """if True:
    import json, os, sys
    def read(path):
        try:
            return open(path).read()
        except OSError as error:
            return error.strerror
    print(json.dumps({path: read(path) for path in json.load(sys.stdin)}))
"""


def put(path: Path, text: str = CANARY) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def seen(agent_dev: AgentDev, paths: list[str], *options: str | Path) -> dict[str, str]:
    """Return what an agent reads at these paths: the content or an error."""
    found: dict[str, str] = agent_dev.run_python_inside(READ, *options, input=json.dumps(paths))
    return found


def configure(agent_dev: AgentDev, text: str) -> None:
    put(agent_dev.home.parent / "config/agent-dev/config.yaml", text)


# D12: tool directories


def file_of(name: str) -> str:
    """Return the path of a file for a row of the table: itself, or a file in it if it is a directory."""
    return f"{name}token" if name.endswith("/") else name


ROWS = [(tool, name) for tool, names in CREDENTIALS.items() for name in names]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """Return what one agent reads from every credential file in tool directories, and the home."""
    base = tmp_path_factory.mktemp("credentials")
    home, repo = base / "home", base / "home/src/shop"
    repo.mkdir(parents=True)
    put(home / ".gitconfig", GITCONFIG)
    agent_dev = AgentDev(home, repo)
    for _, name in ROWS:
        put(home / file_of(name))
        put(home / Path(name).parent / "other", "other")
    # A directory that contains only credentials cannot be a tool directory; files at the top of the home are in no directory.
    folders = sorted({name.split("/")[0] for _, name in ROWS if "/" in name.rstrip("/")})
    configure(agent_dev, "tools:\n" + "".join(f"  - ~/{folder}\n" for folder in folders))
    paths = [str(home / file_of(name)) for _, name in ROWS] + [str(home / Path(name).parent / "other") for _, name in ROWS]
    return seen(agent_dev, paths), home


@row(
    "read tokens in tool directories: npm, cargo, gem, pip, maven, gradle, docker, gh, netrc, aws, kube, git and 60 more",
    "an empty file or directory is mounted over each, also where one could appear later",
)
@pytest.mark.parametrize(("tool", "name"), ROWS, ids=[f"{tool}:{name}" for tool, name in ROWS])
def test_d12_credentials_in_a_tool_directory_are_masked(shown: tuple[dict[str, str], Path], tool: str, name: str) -> None:
    found, home = shown
    assert found[str(home / file_of(name))] in ("", "No such file or directory")


def test_d12_the_rest_of_a_tool_directory_is_mounted(shown: tuple[dict[str, str], Path]) -> None:
    found, home = shown
    for place in (".cargo/other", ".config/other", ".gradle/other", ".m2/other", ".nvm/other"):
        assert found[str(home / place)] == "other"


def test_d12_the_users_credentials_are_unchanged(shown: tuple[dict[str, str], Path]) -> None:
    _, home = shown
    assert {(home / file_of(name)).read_text() for _, name in ROWS} == {CANARY}


@pytest.mark.parametrize("name", [".cargo/credentials.toml", ".config/gh/hosts.yml", ".config/gcloud/token"])
def test_d12_a_credential_created_while_the_agent_runs_is_not_visible(agent_dev: AgentDev, name: str) -> None:
    folder = name.split("/", maxsplit=1)[0]
    put(agent_dev.home / folder / "tool", "tool")
    configure(agent_dev, f"tools: [~/{folder}]\n")
    script = f"echo ready; read line; cat ~/{folder}/new ~/{name}"
    with agent_dev.start("--", "sh", "-c", script) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        put(agent_dev.home / name)
        put(agent_dev.home / folder / "new", "new")
        output, _ = process.communicate("\n", timeout=60)
    assert output == "new"


@pytest.mark.parametrize("key", ["ro", "overlay", "caches"])
def test_d12_other_mounts_of_a_directory_mask_credentials_too(agent_dev: AgentDev, key: str) -> None:
    put(agent_dev.home / ".cargo/credentials.toml")
    put(agent_dev.home / ".cargo/config.toml", "kept")
    configure(agent_dev, f"{key}: [~/.cargo]\n")
    cargo = agent_dev.home / ".cargo"
    found = seen(agent_dev, [str(cargo / "credentials.toml"), str(cargo / "config.toml")])
    assert list(found.values()) == ["", "kept"]
    assert agent_dev.sessions(everywhere=True) == []


def test_d12_an_explicitly_named_credential_is_mounted(agent_dev: AgentDev) -> None:
    put(agent_dev.home / ".netrc")
    assert list(seen(agent_dev, [str(agent_dev.home / ".netrc")], "--ro", agent_dev.home / ".netrc").values()) == [CANARY]


def test_d12_a_tool_directory_with_only_credentials_is_not_mounted(agent_dev: AgentDev) -> None:
    put(agent_dev.home / ".kube/config")
    configure(agent_dev, "tools: [~/.kube]\n")
    assert list(seen(agent_dev, [str(agent_dev.home / ".kube/config")]).values()) == ["No such file or directory"]
    assert "contains only credentials" in agent_dev("show", "--all", "bash").stdout


# D13: the environment


@row(
    "read secrets and addresses from the user's environment",
    "it is built from a base set and the variables named by `env:`, `set:` and `--env`",
)
def test_d13_only_the_base_set_and_named_variables_are_passed(agent_dev: AgentDev) -> None:
    named = "AWS_SECRET_ACCESS_KEY GITHUB_TOKEN NPM_TOKEN SSH_AUTH_SOCK KUBECONFIG DBUS_SESSION_BUS_ADDRESS DISPLAY XAUTHORITY"
    named += " TMUX LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH PYTHONSTARTUP NODE_OPTIONS GIT_DIR GIT_SSH_COMMAND GIT_CONFIG_COUNT"
    named += " BASH_ENV ENV PROMPT_COMMAND PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS XDG_RUNTIME_DIR GPG_AGENT_INFO DOCKER_HOST IFS"
    hostile = dict.fromkeys(named.split(), CANARY) | {"LD_PRELOAD": "/nonexistent.so", "GIT_CONFIG_COUNT": "0"}
    configure(agent_dev, "env: [FROM_CONFIG]\nset: {SET: set}\n")
    put(agent_dev.home.parent / "config/agent-dev/profiles/mine.yaml", "command: /usr/bin/env\nenv: [FROM_PROFILE]\n")
    base = {name: f"base of {name}" for name in (*BASE_ENV, *PROXY_ENV)} | {
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "LANG": "C.UTF-8",
    }
    let_in = {name: name.lower() for name in ("FROM_CONFIG", "FROM_PROFILE", "FROM_FLAG")}
    done = agent_dev("--env", "FROM_FLAG", "--env", "NEW=new", "mine", "-0", env={**hostile, **base, **let_in})
    found = dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)
    created = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "AGENT_DEV_SESSION", "PWD"}
    created |= {"NPM_CONFIG_GLOBALCONFIG", "PIP_BREAK_SYSTEM_PACKAGES"}
    expected = base | let_in | {"NEW": "new", "SET": "set"} | containers.VARIABLES
    assert {name: value for name, value in found.items() if name not in created} == expected
    assert CANARY not in done.stdout


def test_d13_no_process_inside_has_a_different_environment(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat /proc/*/environ /proc/*/cmdline", env={"SOME_TOKEN": CANARY})
    assert "AGENT_DEV_SESSION" in done.stdout
    assert CANARY not in done.stdout


# D14: secrets in the repository


def test_d14_likely_secrets_are_reported_at_the_start_in_one_line(agent_dev: AgentDev) -> None:
    for name in (".env", "config/master.key", "sub/id_rsa", ".env.example", "docs/key.md"):
        put(agent_dev.repo / name)
    done = agent_dev("--", "true")
    lines = [line for line in done.stderr.splitlines() if "likely secrets" in line]
    assert len(lines) == 1
    assert ".env, config/master.key and 1 more" in lines[0]


def test_d14_without_secrets_nothing_is_reported(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / ".env.example")
    assert agent_dev("--", "true").stderr == ""


@row(
    "read masked secrets in the repository",
    "reported at the start; `mask:` hides them by name; the agent can read what is not masked",
    RESIDUAL,
)
def test_d14_masked_paths_are_empty_inside_and_no_change(agent_dev: AgentDev) -> None:
    for name in (".env", "sub/.env", "sub/server.pem", "keys/a", "keys/deep/b", "kept.txt"):
        put(agent_dev.repo / name)
    configure(agent_dev, "mask:\n  - .env\n  - '*.pem'\n  - keys/\n")
    before = tree(agent_dev.repo)
    script = "cat .env sub/.env sub/server.pem; ls -A keys; cat kept.txt; echo x >.env; rm -f sub/.env; touch keys/new"
    done = agent_dev("--", "sh", "-c", script)
    assert done.stdout == CANARY, done.stderr
    assert "likely secrets" not in done.stderr
    assert agent_dev.sessions(everywhere=True) == []  # no file was changed
    assert tree(agent_dev.repo) == before


def test_d14_a_link_to_a_masked_file_and_a_masked_link_read_as_empty(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / "config/real.txt")
    put(agent_dev.repo / ".env")
    (agent_dev.repo / "link").symlink_to(".env")
    (agent_dev.repo / "prod.pem").symlink_to("config/real.txt")
    configure(agent_dev, "mask: [.env, '*.pem']\n")
    paths = [str(agent_dev.repo / name) for name in ("link", "prod.pem", "config/real.txt")]
    assert list(seen(agent_dev, paths).values()) == ["", "", ""]


def test_d14_a_mask_applies_to_a_resumed_session(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / ".env")
    put(agent_dev.repo / "sub/.env")
    agent_dev("--", "sh", "-c", "rm sub/.env; rm -r sub/deep; ln -s / sub/deep; echo x >new")
    configure(agent_dev, "mask: [.env]\n")
    done = agent_dev("resume", "--", "sh", "-c", "cat .env; ls -A sub", input="")
    assert (done.returncode, CANARY in done.stdout) == (0, False), done.stderr
    assert ".env" not in agent_dev.changes()
    assert agent_dev.changes()["sub/.env"] == "deleted"


def test_d14_a_symlink_left_by_an_agent_at_a_masked_path_is_not_followed(agent_dev: AgentDev, tmp_path: Path) -> None:
    put(agent_dev.repo / "keys/a")
    put(tmp_path / "outside/a", "outside")
    agent_dev("--", "sh", "-c", f"rm -r keys; ln -s {tmp_path}/outside keys; echo x >new")
    configure(agent_dev, "mask: [keys/]\n")
    before = tree(tmp_path / "outside")
    assert agent_dev("resume", "--", "ls", "keys/").returncode != 0
    assert tree(tmp_path / "outside") == before


# B3 to B9: sockets of the host, which are shared only by name


@contextmanager
def serving(path: Path) -> Iterator[None]:
    """Listen on a socket file and greet each client."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def greet() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.sendall(b"greetings")
                client.close()

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(30)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a short path: the path of a socket is limited to 108 bytes."""
    place = Path(f"/tmp/ad-{os.getpid()}-{abs(hash(tmp_path)) % 10**6}")
    place.mkdir()
    return place


CONNECT = """if True:
    import json, os, socket, sys
    def ask(path):
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
                return client.recv(99).decode()
            except OSError as error:
                return error.strerror
    value = os.environ.get(sys.argv[1], "") or sys.argv[2]
    path = value.removeprefix("unix:path=").removeprefix("unix://")
    print(json.dumps(ask(path)))
"""
SHARES = {
    "ssh-agent": ("agent", "SSH_AUTH_SOCK", "{place}/agent", "/none"),
    "gpg-agent": ("gnupg/S.gpg-agent", "NONE", "", f"/run/user/{os.getuid()}/gnupg/S.gpg-agent"),
    "dbus": ("bus", "DBUS_SESSION_BUS_ADDRESS", "unix:path={place}/bus,guid=1", "/none"),
    "display": ("wayland-0", "WAYLAND_DISPLAY", "wayland-0", "/none"),
    "docker": ("docker.sock", "DOCKER_HOST", "unix://{place}/docker.sock", "/none"),
}


@pytest.mark.parametrize("name", SHARES)
def test_b_a_socket_is_shared_by_name_with_a_warning(agent_dev: AgentDev, place: Path, name: str) -> None:
    file, variable, value, path = SHARES[name]
    env = {variable: value.format(place=place), "XDG_RUNTIME_DIR": str(place)}
    argv = ("--", "/usr/bin/python3", "-I", "-c", CONNECT, variable, path)
    with serving(place / file):
        own = containers.VARIABLES.get(variable, "")  # of a service in the sandbox, which waits for a request
        closed = agent_dev(*(("--", "printenv", variable) if own else argv), env=env)
        opened = agent_dev("--share", name, *argv, env=env)
    assert (closed.stdout.strip() if own else json.loads(closed.stdout)) == (own or "No such file or directory")
    assert "share" not in closed.stderr
    assert json.loads(opened.stdout) == "greetings", opened.stderr
    assert f"agent-dev: --share {name}: {WARNINGS[name]}\n" in opened.stderr


@pytest.mark.parametrize("name", SHARES)
def test_b_a_missing_socket_is_refused_and_nothing_starts(agent_dev: AgentDev, place: Path, name: str) -> None:
    _, variable, value, _ = SHARES[name]
    env = {variable: value.format(place=place), "XDG_RUNTIME_DIR": str(place)}
    done = agent_dev("--share", name, "--", "touch", "new", env=env)
    assert done.returncode == 125
    assert f"--share {name}: " in done.stderr
    assert agent_dev.session_directories() == []


def test_b_a_socket_created_by_an_agent_is_refused(agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_dev.agent_home.mkdir()
    monkeypatch.chdir(agent_dev.agent_home)
    with serving(Path("agent")):
        done = agent_dev("--share", "ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": str(agent_dev.agent_home / "agent")})
    assert done.returncode == 125
    assert "in a directory that an agent can write" in done.stderr


def test_b_a_resumed_session_with_a_socket_warns_again(agent_dev: AgentDev, place: Path) -> None:
    env = {"SSH_AUTH_SOCK": f"{place}/agent"}
    with serving(place / "agent"):
        agent_dev("--share", "ssh-agent", "--", "touch", "new", env=env)
        done = agent_dev("resume", "--", "true", env=env)
    assert f"--share ssh-agent: {WARNINGS['ssh-agent']}" in done.stderr


def test_b_sockets_shared_by_profile_and_command_line_add_up(agent_dev: AgentDev, place: Path) -> None:
    configure(agent_dev, "share: [docker]\n")
    env = {"DOCKER_HOST": f"unix://{place}/docker.sock", "SSH_AUTH_SOCK": f"{place}/agent"}
    with serving(place / "docker.sock"), serving(place / "agent"):
        shown = agent_dev("--share", "ssh-agent", "show", "--all", "bash", env=env).stdout
    assert "DOCKER_HOST=unix:///run/agent-dev/docker.sock" in shown
    assert "SSH_AUTH_SOCK=/run/agent-dev/ssh-agent" in shown


def test_b_an_unknown_share_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("--share", "ssh-agnt", "--", "true")
    assert done.returncode == 2
    assert "did you mean ssh-agent?" in done.stderr


def test_masks_and_sockets_leave_nothing_behind(agent_dev: AgentDev, place: Path) -> None:
    put(agent_dev.home / ".cargo/credentials.toml")
    configure(agent_dev, "tools: [~/.cargo]\n")
    before = tree(agent_dev.home)
    with serving(place / "agent"):
        agent_dev("--share", "ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": f"{place}/agent"})
    assert sorted(os.listdir(place)) == ["agent"]
    wait_until(lambda: os.listdir(agent_dev.agent_home) == [], "the agent home empty again")
    after = {path: entry for path, entry in tree(agent_dev.home).items() if not path.startswith("aihome")}
    assert after == before
