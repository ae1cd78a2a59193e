"""Names, `/etc`, terminals, signals, input and output that programs find inside."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev
from tests.sandbox.sandbox.inside_facts import NAME, status_of_process


def test_the_users_name_and_home_are_found(agent_dev: AgentDev) -> None:
    code = (
        "import json, os, pwd; e = pwd.getpwuid(os.getuid()); print(json.dumps([e.pw_name, e.pw_dir, os.path.isdir(e.pw_dir)]))"
    )
    assert agent_dev.run_python_inside(code) == [NAME, str(agent_dev.home), True]


def test_the_users_group_has_a_name(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "id", "-gn").returncode == 0


def test_localhost_resolves(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "getent", "hosts", "localhost")
    assert done.returncode == 0, done.stderr
    assert "localhost" in done.stdout


@pytest.mark.parametrize("net", ["host", "none"])
def test_the_sandboxs_own_name_resolves(agent_dev: AgentDev, net: str) -> None:
    code = "import socket; name = socket.gethostname(); print(name, socket.getfqdn(), socket.gethostbyname(name))"
    script = f"getent hosts $(hostname) && hostname -f && {PYTHON} -c '{code}'"
    done = agent_dev("--net", net, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:6] == ["127.0.1.1", "sandbox", "sandbox", "sandbox", "sandbox", "127.0.1.1"]
    code = "import socket; print(socket.create_server((socket.gethostname(), 0)).getsockname()[1])"
    assert agent_dev.run_python_inside(code, "--net", net) > 0


def test_the_name_servers_are_those_of_the_host(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "cat", "/etc/resolv.conf").stdout == Path("/etc/resolv.conf").read_text()


# Run a script as root of its own mount namespace, in which /etc is a writable copy in memory; `$@` runs agent-dev.
OWN_ETC = """
mount -t tmpfs tmpfs /run && mkdir /run/etc || exit 99
cp -R /etc/. /run/etc 2>/dev/null
mount --bind /run/etc /etc || exit 99
"""


def with_own_etc(script: str) -> tuple[str, ...]:
    return ("unshare", "-rm", "sh", "-c", OWN_ETC + script, "sh")


def test_name_servers_are_found_wherever_resolv_conf_points(agent_dev: AgentDev) -> None:
    """The symlink leads into /run, which is not mounted inside, as with systemd-resolved."""
    script = """
        mkdir -p /run/systemd/resolve && echo 'nameserver 192.0.2.7' >/run/systemd/resolve/stub-resolv.conf
        ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf && exec "$@"
    """
    done = agent_dev("--", "cat", "/etc/resolv.conf", before=with_own_etc(script))
    assert done.stdout == "nameserver 192.0.2.7\n", done.stderr


@pytest.mark.parametrize("name", ["hosts", "alternatives/mine", "ssl/certs/mine/below/mine"])
def test_a_change_in_etc_is_visible_at_the_next_start(agent_dev: AgentDev, name: str) -> None:
    script = f"""
        rm -f /etc/{name}; mkdir -p $(dirname /etc/{name}); echo '127.0.0.1 before' >/etc/{name}; "$@"
        echo '127.0.0.1 later' >/etc/{name}; "$@"
    """
    done = agent_dev("--", "grep", "127.0.0.1", f"/etc/{name}", before=with_own_etc(script))
    assert done.stdout == "127.0.0.1 before\n127.0.0.1 later\n", done.stderr


def test_files_of_etc_readable_by_root_only_are_not_visible(agent_dev: AgentDev) -> None:
    script = """
        for name in hosts profile services; do
            echo canary >/etc/$name; chmod 600 /etc/$name
        done
        exec "$@"
    """
    done = agent_dev("--", "grep", "-r", "canary", "/etc", before=with_own_etc(script))
    assert done.returncode != 125, done.stderr
    assert done.stdout == ""


def test_the_ca_certificates_are_those_of_the_host(agent_dev: AgentDev) -> None:
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
    assert agent_dev.run_python_inside(code) == [found, count]


def test_the_terminfo_entry_of_a_common_terminal_is_found(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "tput", "colors", env={"TERM": "xterm-256color"})
    assert done.stdout == "256\n", done.stderr


def test_a_terminfo_entry_only_in_the_users_home_is_found(agent_dev: AgentDev, tmp_path: Path) -> None:
    source = tmp_path / "mine.ti"
    source.write_text("mine-of-ada|a terminal of my own,\n\tuse=xterm,\n\tcolors#77,\n")
    subprocess.run(["tic", "-o", agent_dev.home / ".terminfo", source], check=True, capture_output=True)
    done = agent_dev("--", "tput", "colors", env={"TERM": "mine-of-ada"})
    assert done.stdout == "77\n", done.stderr


def test_no_signal_is_ignored_or_blocked(agent_dev: AgentDev) -> None:
    found = status_of_process(agent_dev)
    named = (1 << 31) - 1  # signals 1 to 31; the next two belong to the C library, and are inherited from the caller
    assert (int(found["SigIgn"], 16) & named, int(found["SigBlk"], 16) & named) == (0, 0)


def test_a_pipeline_whose_reader_exits_ends_with_sigpipe(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("y\n141\n", "")


def test_input_and_output_pass_through_unchanged(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat; echo said >&2", input="typed\n")
    assert (done.stdout, done.stderr) == ("typed\n", "said\n")
