"""Coordinator and worker agree on the highest version that both have; otherwise one line says which side to upgrade."""

import json
from typing import Any

import pytest

from agent_dev.bundle import manifest
from agent_dev.errors import BadTicket, WorkerRefused
from agent_dev.fleet import answer, ticket, worker
from agent_dev.fleet.answer import WorkerGreeting
from agent_dev.fs import checksummed_json
from agent_dev.transaction.result import MERGED, TransactionResult
from agent_dev.version_range import VersionRange
from tests.disk.bundle.bundles import members
from tests.unit.fleet.test_tickets import RESULT, TICKET

OURS = VersionRange(2, 4)
GREETING = WorkerGreeting("9.9", 8, has_commit=True)


def greeting(protocol: Any, bundle: Any, **more: object) -> bytes:
    """Return the greeting of a worker that has these versions."""
    return json.dumps(json.loads(answer.encode_greeting(GREETING)) | {"protocol": protocol, "bundle": bundle} | more).encode()


@pytest.mark.parametrize(
    ("theirs", "agreed"), [((1, 2), 2), ((1, 3), 3), ((3, 3), 3), ((4, 9), 4), ((1, 9), 4), ((0, 1), None), ((5, 6), None)]
)
def test_the_highest_common_version_is_used(theirs: tuple[int, int], agreed: int | None) -> None:
    assert OURS.highest_common(VersionRange(*theirs)) == VersionRange(*theirs).highest_common(OURS) == agreed


@pytest.mark.parametrize("theirs", [[1, 2], [4, 7], [0, 99]])
def test_a_worker_of_another_age_is_used_if_the_ranges_overlap(theirs: list[int]) -> None:
    found = answer.parse_greeting(greeting(theirs, theirs, new_in_its_version={}), "lab", OURS, OURS)
    assert (found.protocol, found.bundle, found.program) == (VersionRange(*theirs), VersionRange(*theirs), "9.9")


@pytest.mark.parametrize(
    ("protocol", "bundle", "reason"),
    [
        ([0, 1], [2, 4], "version 0 to 1 of the protocol, this machine 2 to 4: upgrade agent-dev on lab"),
        ([5, 5], [2, 4], "version 5 of the protocol, this machine 2 to 4: upgrade agent-dev here"),
        ([2, 4], [1, 1], "version 1 of bundles, this machine 2 to 4: upgrade agent-dev on lab"),
        ([2, 4], [5, 9], "version 5 to 9 of bundles, this machine 2 to 4: upgrade agent-dev here"),
    ],
)
def test_a_worker_without_a_common_version_names_the_older_side(protocol: Any, bundle: Any, reason: str) -> None:
    data = greeting(protocol, bundle, known="in another form", processors=None)  # as its version has it
    with pytest.raises(WorkerRefused) as caught:
        answer.parse_greeting(data, "lab", OURS, OURS)
    assert caught.value.message == f"lab cannot be used: it has {reason}"


@pytest.mark.parametrize(
    ("hosts", "agreed", "refused"),
    [
        ({}, 4, {}),
        ({"a": (1, 3), "b": (3, 9)}, 3, {}),
        ({"a": (1, 2), "b": (3, 4), "c": (3, 3)}, 3, {"a": "upgrade agent-dev on a"}),
        ({"a": (4, 9), "b": (1, 3), "c": (1, 3)}, 3, {"a": "upgrade agent-dev on the other hosts"}),
        ({"a": (1, 2), "b": (3, 4)}, 4, {"a": "upgrade agent-dev on a"}),
    ],
)
def test_hosts_of_a_run_speak_one_version(hosts: dict[str, tuple[int, int]], agreed: int, refused: dict[str, str]) -> None:
    greetings = {name: WorkerGreeting("1", 1, has_commit=True, protocol=VersionRange(*one)) for name, one in hosts.items()}
    version, errors = answer.agree_on_protocol(greetings, OURS)
    assert (version, list(errors)) == (agreed, list(refused))
    assert all(refused[name] in error.message for name, error in errors.items())


@pytest.mark.parametrize(
    ("change", "side"),
    [
        ({"version": 99, "more": 1}, "on the worker"),
        ({"version": 0}, "on the machine that sent it"),
        ({"bundle": [98, 99]}, "on the worker"),
        ({"bundle": [0, 0]}, "on the machine that sent it"),
    ],
)
def test_a_worker_says_which_side_is_too_old(change: dict[str, Any], side: str) -> None:
    with pytest.raises(BadTicket) as caught:
        ticket.parse_ticket(json.dumps(json.loads(ticket.encode_ticket(TICKET)) | change).encode())
    assert caught.value.message.endswith(f": upgrade agent-dev {side}")


def test_a_worker_answers_in_the_versions_of_its_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "VERSIONS", OURS)
    monkeypatch.setattr(ticket, "PROTOCOL", OURS)
    line = json.loads(ticket.encode_ticket(TICKET)) | {"version": 3, "bundle": [1, 2]}
    found = ticket.parse_ticket(json.dumps(line).encode())
    data = worker.empty_bundle(found, answer.encode_task(found.id, TransactionResult(MERGED, 0, ()), found.version))
    value = checksummed_json.loads(members(data)[0][1])
    assert (value["version"], value["task"]["result"]["version"]) == (2, 3)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_result_of_an_unknown_version_is_refused(version: int) -> None:
    assert version not in ticket.PROTOCOL
    with pytest.raises(Exception, match=f"result has version {version}"):
        answer.parse_task({"task": answer.encode_task("a1-1", RESULT, version)}, "a1-1")
