"""The filter's process: read the rules, report that it is ready, then serve connections, each in a thread."""

import _socket
import shutil
import socket
import threading
from collections.abc import Callable

from agent_dev.config.ssh_rules import ssh_rules
from agent_dev.linux.helper_process import FAILED, READY
from agent_dev.session import events, store
from agent_dev.ssh_agent.connection_filter import ConnectionFilter, FilterRules, SshRequestRefused
from agent_dev.ssh_agent.filter_options import FilterOptions
from agent_dev.ssh_agent.known_hosts import fingerprints, known_hosts_files, read_host_keys
from agent_dev.ssh_agent.messages import EXTENSION, FAILURE, LIST, MAX_SIZE, SUCCESS, Malformed, pack, pack_keys, parse_keys
from agent_dev.ssh_agent.signatures import is_signed

_MAX_CONNECTIONS = 32
_MAX_LOGGED = 1000  # lines in the session's log
_PROGRAM_PATH = "/usr/bin:/bin:/usr/local/bin"

Log = Callable[[str, str], None]  # decision, text


def run(control: _socket.socket, listener: int, options: FilterOptions) -> None:
    """Serve until the launcher ends this process."""
    try:
        rules = _load(options)
    except (ValueError, OSError) as error:
        control.send(FAILED + str(error).encode("utf-8", "replace"))
        return
    control.send(READY)
    log, places = _logger(options), threading.BoundedSemaphore(_MAX_CONNECTIONS)
    threading.stack_size(256 << 10)
    with socket.socket(fileno=listener) as server:
        while True:
            client, _ = server.accept()
            if not places.acquire(blocking=False):
                client.close()
                continue
            threading.Thread(target=_serve, args=(client, rules, options.agent, log, places), daemon=True).start()


def _load(options: FilterOptions) -> FilterRules:
    rules = ssh_rules(options.rules)
    program = shutil.which("ssh-keygen", path=_PROGRAM_PATH)
    if rules.hosts and program is None:
        raise ValueError("ssh-keygen is not installed")
    hosts = read_host_keys(program or "", known_hosts_files(options.home), rules.hosts)
    return FilterRules(hosts, fingerprints(rules.keys, options.home), rules.signs_git)


def _logger(options: FilterOptions) -> Log:
    session, lock = store.Session(options.folder.rpartition("/")[2], options.folder, -1), threading.Lock()
    count = 0

    def log(decision: str, text: str) -> None:
        nonlocal count
        with lock:
            count += 1
            if count <= _MAX_LOGGED:
                events.log_event(session, events.SSH, decision=decision, text=text)

    return log


def _serve(client: socket.socket, rules: FilterRules, path: str, log: Log, places: threading.Semaphore) -> None:
    try:
        with client, socket.socket(socket.AF_UNIX) as agent:
            agent.connect(path)
            connection_filter = ConnectionFilter(rules, is_signed)
            while request := _receive(client):
                client.sendall(pack(_answer(connection_filter, request, agent, log)))
    except OSError as error:
        log("deny", str(error))
    finally:
        places.release()


def _answer(connection_filter: ConnectionFilter, request: bytes, agent: socket.socket, log: Log) -> bytes:
    try:
        purpose = connection_filter.check(request)
        response = _ask(agent, request)
        if request[0] == LIST:
            return pack_keys([one for one in parse_keys(response) if connection_filter.may_use(one[0])])
    except SshRequestRefused as error:
        log("deny", str(error))
        return FAILURE
    except Malformed as error:
        log("deny", f"a malformed request: {error}")
        return FAILURE
    log("allow", purpose)
    # An ssh-agent that does not support session-bind refuses it, but the filter has checked it.
    return SUCCESS if request[0] == EXTENSION else response


def _ask(agent: socket.socket, request: bytes) -> bytes:
    agent.sendall(pack(request))
    response = _receive(agent)
    if not response:
        raise OSError("the user's ssh-agent closed the connection")
    return response


def _receive(connection: socket.socket) -> bytes:
    """Return a message; b"" at the end of the stream, or if the message is too long."""
    size = int.from_bytes(_read(connection, 4), "big")
    return _read(connection, size) if 0 < size <= MAX_SIZE else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            return b""
        data += piece
    return bytes(data)
