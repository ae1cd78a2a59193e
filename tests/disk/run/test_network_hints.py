"""Hints about the network at the start and at the end of a run."""

import socket

import pytest

from agent_dev.run.network import gateway
from agent_dev.sandbox.supervisor_interface import GatewayReport

REPORT = GatewayReport(9, "chain", 0, 0, ())


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::1")])
def test_a_database_that_listens_here_is_named_unless_a_rule_names_it(
    family: socket.AddressFamily, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(gateway, "_DATABASES", {port: "PostgreSQL"})
        hint = f"PostgreSQL listens on localhost:{port}, which the agent does not reach; --allow localhost:{port}"
        assert gateway.start_hints(("a.example", "localhost:1")) == (hint,)
        assert gateway.start_hints((f"localhost:{port} as 80",)) == ()
    assert gateway.start_hints(()) == ()


@pytest.mark.parametrize(
    ("report", "is_kept", "lines"),
    [
        (REPORT, True, ()),
        (None, True, ("the sandbox's gateway ended before the agent; from then on nothing was reachable",)),
        (REPORT.replace(denied=1), False, ("1 connection was denied",)),
        (REPORT.replace(denied=2), True, ("2 connections were denied (agent-dev log --network --denied)",)),
        (REPORT.replace(learned=("a.b", "c.d:22,443")), True, ('learned 2 rules; allow: [a.b, "c.d:22,443"]',)),
    ],
)
def test_the_end_of_a_run_summarizes_its_connections(
    report: GatewayReport | None, lines: tuple[str, ...], *, is_kept: bool
) -> None:
    assert gateway.end_notices(report, is_kept=is_kept) == lines
