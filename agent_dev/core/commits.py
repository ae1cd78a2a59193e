"""What git's log says, parsed by us: everything here was written by an agent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that the agent made: its id in hex and its subject, as hostile as any text of the agent's."""

    id: str
    subject: str


def parse_log(output: bytes) -> tuple[Commit, ...]:
    """Parse `git log -z --format=%H%n%s`."""
    found = []
    for item in output.split(b"\0"):
        oid, _, subject = item.partition(b"\n")
        if oid:
            found.append(Commit(oid.decode("ascii", "replace"), subject.decode("utf-8", "surrogateescape")))
    return tuple(found)
