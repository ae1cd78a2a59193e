"""What an agent finds inside, and what it does not: files, processes, variables, descriptors, rights."""

import io
import json
import os
import pwd
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agent_dev.core.plan import ORDINARY, ORDINARY_NAME
from tests.harness.program import PYTHON, AgentDev

# Directories of the system that are shown whole; what they hold is the distribution's.
WHOLE = {"/usr", "/opt", "/nix", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin"}
NAME = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else ORDINARY_NAME
LINKS = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

DEVICES = {"full", "null", "ptmx", "random", "tty", "urandom", "zero", "fd", "core", "stdin", "stdout", "stderr", "pts", "shm"}

# All that may ever be shown of /etc: nothing here holds a secret, or tells more of this machine than a program needs.
ETC = {
    "alternatives",
    "bash.bashrc",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
    "timezone",
}

# What bubblewrap and the launcher set, beside what is let in of the user's environment.
VARIABLES = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "AGENT_DEV_SESSION", "LANG", "TERM"}

SECRETS = {
    name: f"canary-in-{name}"
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "KUBECONFIG",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "TMUX",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
    )
}


def chain(path: Path) -> set[str]:
    return {str(path), *map(str, path.parents)} - {"/"}


# What is visible


def test_nothing_of_the_host_is_visible_but_what_is_listed(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        skipped = {"/proc", "/usr", "/opt", "/nix", "/gnu", *os.environ["SKIPPED"].split(":")}
        found = []
        for place, folders, files in os.walk("/"):
            found += [os.path.join(place, name) for name in folders + files]
            folders[:] = [name for name in folders if os.path.join(place, name) not in skipped]
        print(json.dumps(found))
    """
    repo, home = agent_dev.repo, agent_dev.home
    farm = "/run/agent-dev/git/0/objects"
    skipped = ":".join((str(repo), *(f"/etc/{name}" for name in ETC), farm))
    found = set(agent_dev.show_inside(code, "--env", f"SKIPPED={skipped}"))
    expected = {path for path in WHOLE if os.path.exists(path)}
    expected |= {"/dev", "/etc", "/proc", "/run", "/run/agent-dev/gitconfig", "/tmp", "/var", "/var/tmp"}
    expected |= (
        {f"/dev/{name}" for name in (*DEVICES, "pts/ptmx")}
        | {"/run/agent-dev/gitconfig"}
        | chain(Path(farm))
        | chain(repo)
        | chain(home)
    )
    in_etc = {path for path in found if path.startswith("/etc/")}
    assert found - in_etc == expected
    assert {path.removeprefix("/etc/") for path in in_etc if "/etc/java-" not in path} <= ETC


def test_only_system_directories_are_links_of_the_root(agent_dev: AgentDev) -> None:
    code = "import json, os; print(json.dumps([e.path for e in os.scandir('/') if e.is_symlink()]))"
    assert set(agent_dev.show_inside(code)) == {path for path in LINKS if os.path.islink(path)}


def test_only_the_sandboxs_own_processes_are_visible(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        print(json.dumps({pid: open(f"/proc/{pid}/cmdline").read().split("\\0")[0] for pid in pids}))
    """
    assert agent_dev.show_inside(code) == {"1": "bwrap", "2": PYTHON}


@pytest.mark.parametrize("place", ["home/.ssh/id_ed25519", "home/.aws/credentials", "home/src/other/secret", "srv/data/secret"])
def test_a_secret_elsewhere_on_the_machine_does_not_exist_inside(agent_dev: AgentDev, tmp_path: Path, place: str) -> None:
    secret = tmp_path / place
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("canary\n")
    code = """if True:
        import json, os, sys
        path = os.environ["SECRET"]
        try:
            open(path).close()
            print(json.dumps("readable"))
        except OSError as error:
            print(json.dumps([error.strerror, os.path.exists(os.path.dirname(path))]))
    """
    assert agent_dev.show_inside(code, "--env", f"SECRET={secret}") == ["No such file or directory", False]


@pytest.mark.parametrize("place", ["state", "cache", "config", "home/.gitconfig", "home/aihome"])
def test_what_is_agent_devs_own_is_not_shown(agent_dev: AgentDev, tmp_path: Path, place: str) -> None:
    (tmp_path / "config").mkdir()
    agent_dev("--", "true")
    assert (tmp_path / place).exists()
    done = agent_dev("--", "ls", "-d", tmp_path / place)
    assert done.returncode == 2
    assert done.stdout == ""


def test_mounts_name_no_place_of_the_overlays(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "cat", "/proc/mounts")
    assert str(agent_dev.repo) in done.stdout
    assert str(agent_dev.state) not in done.stdout


def test_other_users_of_the_machine_have_no_names_inside(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "cut", "-d:", "-f1", "/etc/passwd")
    assert set(done.stdout.split()) == {"root", "nobody", NAME}


# The environment


def names(printed: str) -> set[str]:
    return {line.split("=", 1)[0] for line in printed.split("\0") if line}


def test_the_environment_is_the_allow_list_and_what_was_declared(agent_dev: AgentDev) -> None:
    words = ("--env", "DECLARED=yes", "--env", "TAKEN", "--env", "NOT_THERE")
    done = agent_dev(*words, "--", "/usr/bin/env", "-0", env={**SECRETS, "TAKEN": "along"})
    assert names(done.stdout) == VARIABLES | {"DECLARED", "TAKEN"}
    assert {"DECLARED=yes", "TAKEN=along"} <= set(done.stdout.split("\0"))


def test_no_process_inside_shows_the_users_environment(agent_dev: AgentDev) -> None:
    code = """if True:
        import glob, json
        files = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/environ"]
        print(json.dumps({path: open(path, errors="replace").read() for path in files}))
    """
    found: dict[str, str] = agent_dev.show_inside(code, env=SECRETS)
    assert {"/proc/1/environ", "/proc/2/environ", "/proc/1/cmdline"} <= set(found)
    assert [path for path, text in found.items() if "canary" in text] == []


def test_what_was_declared_does_not_show_at_the_first_process(agent_dev: AgentDev) -> None:
    done = agent_dev("--env", "DECLARED=canary", "--", "cat", "/proc/1/environ", "/proc/1/cmdline")
    assert "bwrap" in done.stdout
    assert "canary" not in done.stdout


def test_language_time_zone_and_colours_pass(agent_dev: AgentDev) -> None:
    env = {"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "COLORTERM": "truecolor"}
    assert agent_dev("--", "printenv", *env, env=env).stdout.splitlines() == list(env.values())


PROXIES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


def test_proxy_variables_pass(agent_dev: AgentDev) -> None:
    env = {name: f"http://{name}.invalid:3128" for name in PROXIES}
    printed = agent_dev("--", "/usr/bin/env", env=env).stdout.splitlines()
    assert {f"{name}={value}" for name, value in env.items()} <= set(printed)


def test_show_names_proxy_variables_as_such(agent_dev: AgentDev) -> None:
    env = {name: f"http://{name}.invalid:3128" for name in PROXIES}
    rows = [row for row in agent_dev("show", "bash", env=env).stdout.splitlines() if "a proxy)" in row]
    assert [name for name, value in env.items() if not any(f"{name}={value}" in row for row in rows)] == []


# Descriptors

DESCRIPTORS = """if True:
    import json, os, stat
    found = {}
    for pid in os.environ["PIDS"].split():
        folder = f"/proc/{pid}/fd"
        mine = os.open(folder, os.O_RDONLY)
        for name in os.listdir(mine):
            try:
                link, mode = os.readlink(name, dir_fd=mine), os.stat(name, dir_fd=mine).st_mode
            except FileNotFoundError:
                continue
            found[f"{pid}:{name}"] = [link, stat.S_ISDIR(mode)]
        os.close(mine)
    print(json.dumps(found))
"""


def descriptors(agent_dev: AgentDev, pids: str, **keywords: Any) -> dict[str, tuple[str, bool]]:
    found: dict[str, tuple[str, bool]] = agent_dev.show_inside(DESCRIPTORS, "--env", f"PIDS={pids}", **keywords)
    return found


def test_the_agent_has_the_three_standard_descriptors_alone(agent_dev: AgentDev) -> None:
    code = "import json, os; print(json.dumps(sorted(os.listdir('/proc/self/fd'), key=int)))"
    assert agent_dev.show_inside(code) == ["0", "1", "2", "3"]  # 3: the one that lists


def test_no_descriptor_inside_is_a_directory_or_names_a_place_of_the_host(agent_dev: AgentDev) -> None:
    found = descriptors(agent_dev, "1 self")
    assert "1:0" in found
    own = {"/proc/2/fd"}  # the directory that the test itself reads
    assert [link for link, is_folder in found.values() if is_folder and link not in own] == []
    allowed = ("pipe:", "anon_inode:", "/memfd:", "/dev/null")
    assert [link for link, _ in found.values() if not link.startswith(allowed) and link not in own] == []


def test_what_our_caller_left_open_does_not_go_inside(agent_dev: AgentDev, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(folder, True)
    try:
        words = ["--env", "PIDS=1 self", "--", PYTHON, "-I", "-c", DESCRIPTORS]
        with agent_dev.started(*words, pass_fds=(folder,)) as process:
            out, said = process.communicate(timeout=30)
    finally:
        os.close(folder)
    assert process.returncode == 0, said
    found: dict[str, tuple[str, bool]] = json.loads(out)
    assert [link for link, _ in found.values() if str(tmp_path) in link] == []


# Rights


def status_of_process(agent_dev: AgentDev) -> dict[str, str]:
    printed = agent_dev("--", "cat", "/proc/self/status").stdout
    return {name: value.strip() for name, _, value in (line.partition(":") for line in printed.splitlines())}


def test_there_are_no_capabilities(agent_dev: AgentDev) -> None:
    found = {name: int(value, 16) for name, value in status_of_process(agent_dev).items() if name.startswith("Cap")}
    assert found == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)


def test_no_program_gives_new_privileges(agent_dev: AgentDev) -> None:
    assert status_of_process(agent_dev)["NoNewPrivs"] == "1"


@pytest.mark.parametrize(("name", "number"), [("uid_map", os.getuid()), ("gid_map", os.getgid())])
def test_one_id_is_mapped_to_itself_and_roots_to_an_ordinary_one(agent_dev: AgentDev, name: str, number: int) -> None:
    fields = agent_dev("--", "cat", f"/proc/self/{name}").stdout.split()
    assert len(fields) == 3
    assert (fields[0], fields[2]) == (str(number if os.getuid() else ORDINARY), "1")


def test_the_users_files_are_the_agents_own(agent_dev: AgentDev, repo: Path) -> None:
    entry = tarfile.TarInfo("taken.txt")
    entry.uid, entry.size = 4711, 6  # root would give what it unpacks to its owner, and may not
    with tarfile.open(repo / "archive.tar", "w") as archive:
        archive.addfile(entry, io.BytesIO(b"taken\n"))
    done = agent_dev("--", "sh", "-euc", 'stat -c %U README.md . ~ /tmp | sort -u; id -un; echo "$USER"; tar -xf archive.tar')
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1
    assert agent_dev("merge", "--take", "taken.txt").returncode == 0
    assert (repo / "taken.txt").stat().st_uid == os.getuid()


def test_the_system_is_read_only(agent_dev: AgentDev) -> None:
    paths = [
        "/x",
        "/etc/x",
        "/var/x",
        "/usr/x",
        "/usr/bin/x",
        "/dev/x",
        "/run/agent-dev/git/0/objects/x",
    ]
    done = agent_dev("--", "touch", *paths)
    assert [path for path in paths if f"'{path}': Read-only file system" not in done.stderr] == []


def test_files_of_etc_cannot_be_changed_in_place(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        errors = {}
        for name in ("passwd", "hosts", "resolv.conf"):
            try:
                os.chmod(f"/etc/{name}", 0o644)
                open(f"/etc/{name}", "a").close()
                errors[name] = "writable"
            except OSError as error:
                errors[name] = error.strerror
        print(json.dumps(errors))
    """
    assert set(agent_dev.show_inside(code).values()) == {"Read-only file system"}


def is_own(path: str) -> bool:
    """Whether a setting belongs to the IPC or pid namespace that the sandbox has of its own (ipc_namespaces(7))."""
    name = path.removeprefix("/proc/sys/kernel/")
    return path.startswith("/proc/sys/fs/mqueue/") or name.startswith(("msg", "shm", "sem", "auto_msgmni", "pid_max"))


def test_no_setting_of_the_kernel_can_be_written(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        found = []
        for place, folders, files in os.walk("/proc"):
            if place == "/proc":
                folders[:] = [name for name in folders if not name.isdigit() and name not in ("self", "thread-self")]
            for name in files:
                path = os.path.join(place, name)
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue
                if not os.stat(path).st_mode & 0o002:
                    found.append(path)
                    if path.endswith("msgmax"):
                        with open(path, "wb", 0) as file:
                            file.write(b"4097")
        print(json.dumps(found))
    """
    before = {path: Path(path).read_text() for path in map(str, Path("/proc/sys").glob("*/**/*")) if is_own(path)}
    found = agent_dev.show_inside(code)
    assert [path for path in found if not is_own(path)] == []
    assert {path: Path(path).read_text() for path in before} == before  # the sandbox changed its own, and no other's


def test_every_mount_is_nosuid(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    assert len(rows) > 10
    assert [row[1] for row in rows if "nosuid" not in row[3].split(",")] == []


def test_every_mount_but_devices_own_is_nodev(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    assert [row[1] for row in rows if "nodev" not in row[3].split(",") and not row[1].startswith("/dev/")] == []


def test_a_temporary_file_system_has_a_limit(agent_dev: AgentDev) -> None:
    code = """if True:
        import errno, json, os
        found = {}
        for place, limit in json.loads(os.environ["LIMITS"]).items():
            fd = os.open(f"{place}/large", os.O_CREAT | os.O_WRONLY)
            try:
                os.posix_fallocate(fd, 0, limit + 1)
            except OSError as error:
                found[place] = errno.errorcode[error.errno]
        print(json.dumps(found))
    """
    limits = {"/tmp": 4 << 30, "/var/tmp": 4 << 30, "/run": 1 << 30, "/dev/shm": 1 << 30}
    assert agent_dev.show_inside(code, "--env", f"LIMITS={json.dumps(limits)}") == dict.fromkeys(limits, "ENOSPC")


def test_nothing_in_memory_can_be_written_without_a_limit(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    ours = [(row[1], row[3].split(",")) for row in rows if row[2] == "tmpfs"]
    assert [place for place, options in ours if "rw" in options and not any(o.startswith("size=") for o in options)] == []


def test_a_device_cannot_be_made(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "mknod", "/tmp/sda", "b", "8", "0").returncode == 1


# What a program needs


def test_the_users_name_and_home_are_found(agent_dev: AgentDev) -> None:
    code = (
        "import json, os, pwd; e = pwd.getpwuid(os.getuid()); print(json.dumps([e.pw_name, e.pw_dir, os.path.isdir(e.pw_dir)]))"
    )
    assert agent_dev.show_inside(code) == [NAME, str(agent_dev.home), True]


def test_the_users_group_has_a_name(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "id", "-gn").returncode == 0


def test_localhost_resolves(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "getent", "hosts", "localhost")
    assert done.returncode == 0, done.stderr
    assert "localhost" in done.stdout


def test_the_name_servers_are_the_hosts(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "cat", "/etc/resolv.conf").stdout == Path("/etc/resolv.conf").read_text()


# Runs a script as root of a mount namespace of its own, where /etc is a copy in memory that can be changed; `$@` is agent-dev.
OWN_ETC = """
mount -t tmpfs tmpfs /run && mkdir /run/etc || exit 99
cp -R /etc/. /run/etc 2>/dev/null
mount --bind /run/etc /etc || exit 99
"""


def with_own_etc(script: str) -> tuple[str, ...]:
    return ("unshare", "-rm", "sh", "-c", OWN_ETC + script, "sh")


def test_name_servers_are_found_wherever_their_file_points(agent_dev: AgentDev) -> None:
    """Here into /run, which is not shown inside, as with systemd-resolved."""
    script = """
        mkdir -p /run/systemd/resolve && echo 'nameserver 192.0.2.7' >/run/systemd/resolve/stub-resolv.conf
        ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf && exec "$@"
    """
    done = agent_dev("--", "cat", "/etc/resolv.conf", before=with_own_etc(script))
    assert done.stdout == "nameserver 192.0.2.7\n", done.stderr


@pytest.mark.parametrize("name", ["hosts", "alternatives/mine", "ssl/certs/mine/below/mine"])
def test_what_changed_in_etc_is_seen_at_the_next_start(agent_dev: AgentDev, name: str) -> None:
    script = f"""
        rm -f /etc/{name}; mkdir -p $(dirname /etc/{name}); echo '127.0.0.1 before' >/etc/{name}; "$@"
        echo '127.0.0.1 later' >/etc/{name}; "$@"
    """
    done = agent_dev("--", "cat", f"/etc/{name}", before=with_own_etc(script))
    assert done.stdout == "127.0.0.1 before\n127.0.0.1 later\n", done.stderr


def test_what_root_alone_may_read_in_etc_is_not_shown(agent_dev: AgentDev) -> None:
    script = """
        for name in hosts profile services; do
            echo canary >/etc/$name; chmod 600 /etc/$name
        done
        exec "$@"
    """
    done = agent_dev("--", "grep", "-r", "canary", "/etc", before=with_own_etc(script))
    assert done.returncode != 125, done.stderr
    assert done.stdout == ""


def test_the_certificates_of_authorities_are_the_hosts(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os, ssl
        paths = ssl.get_default_verify_paths()
        found = [path for path in (paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
                 if os.path.exists(path)]
        context = ssl.create_default_context()
        for path in found:
            context.load_verify_locations(path)
        print(json.dumps([found, context.cert_store_stats()["x509_ca"]]))
    """
    outside = subprocess.run([PYTHON, "-I", "-c", code], capture_output=True, text=True, check=True, env=agent_dev.env)
    found, count = json.loads(outside.stdout)
    if not count:
        pytest.skip("this machine has no certificates of authorities")
    assert agent_dev.show_inside(code) == [found, count]


def test_the_description_of_a_usual_terminal_is_found(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "tput", "colors", env={"TERM": "xterm-256color"})
    assert done.stdout == "256\n", done.stderr


def test_a_description_that_lies_in_the_users_home_alone_is_found(agent_dev: AgentDev, tmp_path: Path) -> None:
    source = tmp_path / "mine.ti"
    source.write_text("mine-of-ada|a terminal of my own,\n\tuse=xterm,\n\tcolors#77,\n")
    subprocess.run(["tic", "-o", agent_dev.home / ".terminfo", source], check=True, capture_output=True)
    done = agent_dev("--", "tput", "colors", env={"TERM": "mine-of-ada"})
    assert done.stdout == "77\n", done.stderr


def test_no_signal_is_ignored_or_blocked(agent_dev: AgentDev) -> None:
    found = status_of_process(agent_dev)
    named = (1 << 31) - 1  # the 31 classic signals; the two after them are libc's own and come from whoever started us
    assert (int(found["SigIgn"], 16) & named, int(found["SigBlk"], 16) & named) == (0, 0)


def test_a_pipeline_whose_reader_leaves_ends_by_the_signal(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("y\n141\n", "")


def test_input_and_output_pass_through_untouched(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat; echo said >&2", input="typed\n")
    assert (done.stdout, done.stderr) == ("typed\n", "said\n")
