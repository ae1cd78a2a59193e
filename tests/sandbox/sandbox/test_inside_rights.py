"""Permissions inside: ids, capabilities, read-only paths, memory limits."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from agent_dev.sandbox.plan import INSIDE_UID
from tests.harness.program import AgentDev
from tests.sandbox.sandbox.inside_facts import status_of_process


def test_the_agent_has_no_capabilities(agent_dev: AgentDev) -> None:
    found = {name: int(value, 16) for name, value in status_of_process(agent_dev).items() if name.startswith("Cap")}
    assert found == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)


def test_no_program_grants_new_privileges(agent_dev: AgentDev) -> None:
    assert status_of_process(agent_dev)["NoNewPrivs"] == "1"


@pytest.mark.parametrize(("name", "number"), [("uid_map", os.getuid()), ("gid_map", os.getgid())])
def test_only_one_id_is_mapped_and_root_to_an_ordinary_one(agent_dev: AgentDev, name: str, number: int) -> None:
    fields = agent_dev("--", "cat", f"/proc/self/{name}").stdout.split()
    assert len(fields) == 3
    assert (fields[0], fields[2]) == (str(number if os.getuid() else INSIDE_UID), "1")


def test_the_users_files_belong_to_the_agent(agent_dev: AgentDev, repo: Path) -> None:
    entry = tarfile.TarInfo("taken.txt")
    entry.uid, entry.size = 4711, 6  # as root, tar would restore the owner, which is not permitted
    with tarfile.open(repo / "archive.tar", "w") as archive:
        archive.addfile(entry, io.BytesIO(b"taken\n"))
    done = agent_dev("--", "sh", "-euc", 'stat -c %U README.md . ~ /tmp | sort -u; id -un; echo "$USER"; tar -xf archive.tar')
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1
    assert agent_dev("merge", "--take", "taken.txt").returncode == 0
    assert (repo / "taken.txt").stat().st_uid == os.getuid()


def test_the_system_is_mounted_read_only(agent_dev: AgentDev) -> None:
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
    assert set(agent_dev.run_python_inside(code).values()) == {"Read-only file system"}


def is_own(path: str) -> bool:
    """Return whether a setting belongs to the IPC or PID namespace of the sandbox (ipc_namespaces(7))."""
    name = path.removeprefix("/proc/sys/kernel/")
    return path.startswith("/proc/sys/fs/mqueue/") or name.startswith(("msg", "shm", "sem", "auto_msgmni", "pid_max"))


def test_no_kernel_setting_is_writable(agent_dev: AgentDev) -> None:
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
    found = agent_dev.run_python_inside(code)
    assert [path for path in found if not is_own(path)] == []
    assert {path: Path(path).read_text() for path in before} == before  # only settings of the sandbox's own namespaces changed


def test_every_mount_is_nosuid(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    assert len(rows) > 10
    assert [row[1] for row in rows if "nosuid" not in row[3].split(",")] == []


def test_every_mount_except_dev_is_nodev(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    assert [row[1] for row in rows if "nodev" not in row[3].split(",") and not row[1].startswith("/dev/")] == []


def test_a_tmpfs_has_a_size_limit(agent_dev: AgentDev) -> None:
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
    assert agent_dev.run_python_inside(code, "--env", f"LIMITS={json.dumps(limits)}") == dict.fromkeys(limits, "ENOSPC")


def test_every_writable_memory_file_system_has_a_limit(agent_dev: AgentDev) -> None:
    rows = [line.split() for line in agent_dev("--", "cat", "/proc/mounts").stdout.splitlines()]
    ours = [(row[1], row[3].split(",")) for row in rows if row[2] == "tmpfs"]
    assert [place for place, options in ours if "rw" in options and not any(o.startswith("size=") for o in options)] == []


def test_a_device_node_cannot_be_created(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "mknod", "/tmp/sda", "b", "8", "0").returncode == 1
