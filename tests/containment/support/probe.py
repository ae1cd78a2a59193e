"""Try forbidden actions from inside the sandbox; print the result of each attempt as JSON.

The result of an attempt that raises an OSError is the error's name. The probe uses only the standard library, and imports
nothing from the tests; facts about the host are in the variable PROBE.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]
ATTEMPTS: dict[str, Any] = {}

Attempt = Callable[[Any], Any]


def attempt(section: str) -> Callable[[Attempt], Attempt]:
    def add(function: Attempt) -> Attempt:
        ATTEMPTS.setdefault(section, {})[function.__name__] = function
        return function

    return add


def call(numbers: Any, *arguments: Any) -> str:
    """Make a system call by its number; return the error's name, or "done"."""
    number = numbers[COLUMN] if isinstance(numbers, (list, tuple)) else numbers
    ctypes.set_errno(0)
    values = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *values)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]


# The terminal


@attempt("terminal")
def ioctls(target: Any) -> Any:
    buffer = ctypes.create_string_buffer(b"\x0a" * 64)
    found = {}
    for path in target["ways"]:
        fd = 0 if path == "stdin" else os.open(path, os.O_RDWR | os.O_NOCTTY)
        for name, request in target["requests"].items():
            for upper in target["upper"]:
                found[f"{path} {name} {upper:x}"] = call((16, 29), fd, request | upper << 32, buffer)
    return found


@attempt("terminal")
def own_terminal(target: Any) -> Any:
    _, terminal = os.openpty()
    return call((16, 29), terminal, target["requests"]["TIOCSTI"], ctypes.create_string_buffer(b"x"))


@attempt("terminal")
def size(_: Any) -> Any:
    before = os.get_terminal_size(0)
    fcntl.ioctl(0, 0x5414, bytes((31, 0, 97, 0)) + bytes(4))
    return [list(before), list(os.get_terminal_size(0))]


# The kernel


@attempt("kernel")
def system_calls(target: Any) -> Any:
    return {name: call(numbers, *[0] * 6) for name, numbers in target["calls"].items()}


@attempt("kernel")
def foreign_calls(_: Any) -> Any:
    """Make x86_64 system calls by 32-bit and x32 numbers."""
    if platform.machine() != "x86_64":
        return {"getpid by int 0x80": "ENOSYS", "getpid of x32": "ENOSYS"}
    return {"getpid by int 0x80": _by_interrupt(20), "getpid of x32": call(0x40000000 | 39)}


def _by_interrupt(number: int) -> str:
    import mmap

    # mov eax, number; int 0x80; ret
    code = b"\xb8" + number.to_bytes(4, "little") + b"\xcd\x80\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return "done" if result >= 0 else errno.errorcode[-result]


@attempt("kernel")
def keys(target: Any) -> Any:
    """Use the keys of the user's session: keyctl's search, request_key, add_key."""
    name = target["key"].encode()
    return {
        "search": call((250, 219), 10, (1 << 64) - 3, b"user", name, 0),
        "request": call((249, 218), b"user", name, None, 0),
        "add": call((248, 217), b"user", b"planted", b"x", 1, (1 << 64) - 3),
    }


@attempt("kernel")
def families(target: Any) -> Any:
    return {name: call((41, 198), family, kind, protocol) for name, (family, kind, protocol) in target["families"].items()}


@attempt("kernel")
def pairs(_: Any) -> Any:
    return [call((53, 199), family, 1, 0, ctypes.create_string_buffer(8)) for family in (1, 2)]


@attempt("kernel")
def namespaces(_: Any) -> Any:
    """Make every call that creates, enters or leaves a namespace, with flags that the kernel would check."""
    pid = LIBC.syscall(ctypes.c_long((56, 220)[COLUMN]), ctypes.c_ulong(0x10000011), 0, 0, 0, 0)  # CLONE_NEWUSER | SIGCHLD
    if pid == 0:
        os._exit(0)
    cloned = "done" if pid > 0 else errno.errorcode[ctypes.get_errno()]
    return {"clone": cloned, "clone3": call(435, 0, 0), "setns": call((308, 268), -1 & 0xFFFFFFFF, 0)}


@attempt("kernel")
def nested_sandbox(_: Any) -> Any:
    """Create namespaces as bubblewrap and browsers do, and mount another /proc in one."""
    pid = os.fork()
    if pid == 0:
        done = call((272, 97), 0x30020000)  # CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS
        os._exit(0 if done == "done" else errno.EPERM if done == "EPERM" else 99)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    bwrap = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"]
    commands = ([*bwrap, "true"], [*bwrap, "--proc", "/proc", "true"])
    return [code, *(subprocess.run(command, capture_output=True, check=False).returncode for command in commands)]


# Sockets, and other communication with processes


def connected(family: int, address: Any) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(10)
        try:
            client.connect(address)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "done"


@attempt("sockets")
def abstract(target: Any) -> Any:
    return [connected(socket.AF_UNIX, name) for name in target["abstract"]]


@attempt("sockets")
def own_abstract(_: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0of the sandbox")
        server.listen()
        return connected(socket.AF_UNIX, "\0of the sandbox")


@attempt("sockets")
def paths(target: Any) -> Any:
    return {name: connected(socket.AF_UNIX, path) for name, path in target["paths"].items()}


@attempt("sockets")
def shown_socket(target: Any) -> Any:
    return connected(socket.AF_UNIX, target["shown"])


@attempt("sockets")
def known_sockets(_: Any) -> Any:
    """Return which of the usual socket paths of privileged services exist."""
    user = f"/run/user/{os.getuid()}"
    names = ["docker.sock", "podman/podman.sock", "containerd/containerd.sock", "libvirt/libvirt-sock", "snapd.socket"]
    names += ["dbus/system_bus_socket", "systemd/private", "lxd/unix.socket", "crio/crio.sock", "pcscd/pcscd.comm"]
    paths = [f"{root}/{name}" for root in ("/run", "/var/run") for name in names] + [user, "/tmp/.X11-unix", "/tmp/.ICE-unix"]
    return [path for path in paths if os.path.lexists(path)]


@attempt("sockets")
def variables(_: Any) -> Any:
    return dict(os.environ)


@attempt("sockets")
def loopback(target: Any) -> Any:
    return connected(socket.AF_INET, ("127.0.0.1", target["port"]))


@attempt("sockets")
def shared_memory(target: Any) -> Any:
    ctypes.set_errno(0)
    found = LIBC.shmget(ctypes.c_int(target["memory"]), ctypes.c_size_t(0), 0)
    rows = {}
    for kind in ("shm", "sem", "msg"):
        with open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:
            rows[kind] = len(file.readlines()) - 1
    return [errno.errorcode.get(ctypes.get_errno(), "done") if found < 0 else "done", rows, os.listdir("/dev/shm")]


@attempt("sockets")
def descriptors(_: Any) -> Any:
    found = {}
    for pid in ("1", "self"):
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found[f"{pid} {name}"] = os.readlink(f"/proc/{pid}/fd/{name}")
            except FileNotFoundError:
                continue  # the descriptor that lists the directory
    return found


# Processes and privileges


@attempt("processes")
def signalled(target: Any) -> Any:
    try:
        os.kill(target["pid"], 0)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


@attempt("processes")
def of_the_host(target: Any) -> Any:
    """Return the processes with the host's canary in their arguments, environment or maps."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ", "maps"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    parts = [part for part in file.read().split(b"\0") if not part.startswith(b"PROBE=")]
                    if target["canary"].encode() in b"".join(parts):
                        found.append(f"{pid} {name}")
            except OSError:
                continue  # exited, or not readable
    return found


@attempt("processes")
def traced(target: Any) -> Any:
    return call((101, 117), 16, target["pid"], 0, 0)  # PTRACE_ATTACH


@attempt("processes")
def memory_of_the_host(target: Any) -> Any:
    with open(f"/proc/{target['pid']}/mem", "rb") as file:
        return file.read(1).hex()


@attempt("processes")
def through_the_first(target: Any) -> Any:
    return [os.path.lexists(f"/proc/1/root{target['secret']}"), os.path.lexists(f"/proc/1/cwd/{target['secret']}")]


@attempt("processes")
def status(_: Any) -> Any:
    with open("/proc/self/status", encoding="ascii") as file:
        rows = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return [{name: int(rows[name], 16) for name in names}, file.read().split()]


@attempt("processes")
def device(_: Any) -> Any:
    found = {}
    for name, mode in {"block": 0o60600, "character": 0o20600}.items():
        try:
            os.mknod(f"/tmp/{name}", mode, os.makedev(8, 0))
            found[name] = "done"
        except OSError as error:
            found[name] = errno.errorcode[error.errno or 0]
    return found


@attempt("processes")
def helper(_: Any) -> Any:
    """Overwrite the program that runs the sandbox, through its /proc/PID/exe link."""
    found = []
    for pid in ("1", "self"):
        try:
            os.close(os.open(f"/proc/{pid}/exe", os.O_WRONLY | os.O_TRUNC))
            found.append("done")
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0])
    return found


@attempt("program")
def helper_attributes(_: Any) -> Any:
    """Change the mode, the time and an attribute of the program that runs the sandbox."""
    changes: dict[str, Callable[[], None]] = {
        "mode": lambda: os.chmod("/proc/1/exe", 0o4700),
        "time": lambda: os.utime("/proc/1/exe", (1, 1)),
        "attribute": lambda: os.setxattr("/proc/1/exe", "user.agent", b"x"),
    }
    found = {}
    for name, change in changes.items():
        try:
            change()
            found[name] = "done"
        except OSError as error:
            found[name] = errno.errorcode[error.errno or 0]
    return found


@attempt("processes")
def later(_: Any) -> Any:
    """Write to directories from which programs are run later."""
    folders = ["/etc/cron.d", "/etc/cron.daily", "/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/at", "/etc/profile.d"]
    folders += ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/etc/ld.so.preload", "/etc/init.d"]
    folders += ["/usr/local/bin", "/etc/xdg/autostart", "/lib/udev/rules.d", "/etc/sudoers.d"]
    return written({"places": folders})


# Mounts


@attempt("mounts")
def written(target: Any) -> Any:
    found = {}
    for folder in target["places"]:
        try:
            with open(f"{folder}/planted", "w", encoding="ascii"):
                found[folder] = "done"
        except OSError as error:
            found[folder] = errno.errorcode[error.errno or 0]
    return found


@attempt("mounts")
def read(target: Any) -> Any:
    found = {}
    for path in target["secrets"]:
        try:
            with open(path, encoding="utf-8") as file:
                found[path] = file.read()
        except OSError as error:
            found[path] = errno.errorcode[error.errno or 0]
    return found


@attempt("mounts")
def environment(_: Any) -> Any:
    return dict(os.environ)


@attempt("mounts")
def table(_: Any) -> Any:
    """Return the mount points with their types and options."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return [line.split()[1:4] for line in file]


@attempt("mounts")
def held_open(_: Any) -> Any:
    found = []
    for name in os.listdir("/proc/1/fd"):
        link = os.readlink(f"/proc/1/fd/{name}")
        if not link.startswith(("pipe:", "anon_inode:", "/memfd:", "/dev/null")):
            found.append(link)
    return found


def main() -> None:
    target = json.loads(os.environ["PROBE"])
    found = {}
    for section in target["sections"]:
        for name, function in ATTEMPTS[section].items():
            try:
                found[name] = function(target)
            except OSError as error:
                found[name] = errno.errorcode.get(error.errno or 0, str(error))
    text = json.dumps(found)
    if target.get("into"):
        with open(os.path.expanduser(target["into"]), "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
