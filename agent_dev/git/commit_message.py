"""Commits as we write them: their bytes, the words of a squash, and trailers at the end of a message."""

from collections.abc import Sequence

from agent_dev.git.formats.commit_format import Told


def body(tree: str, parents: Sequence[str], author: bytes, committer: bytes, message: bytes, encoding: bytes = b"") -> bytes:
    """Return a commit object's bytes; people as `Name <email> seconds zone`."""
    lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
    lines += [b"author " + author, b"committer " + committer]
    if encoding:
        lines.append(b"encoding " + encoding)
    return b"\n".join(lines) + b"\n\n" + message


def with_trailers(message: bytes, trailers: Sequence[tuple[str, str]]) -> bytes:
    """Return a message with trailers that are not there yet; in the block of those that end it, if there is one."""
    lines = [f"{name}: {value}".encode("utf-8", "surrogateescape") for name, value in trailers]
    text = message.rstrip(b"\n")
    new = [line for line in lines if line not in text.split(b"\n")]
    if not new:
        return message
    between = b"\n" if _ends_in_trailers(text) else b"\n\n"
    return text + between + b"\n".join(new) + b"\n"


def _ends_in_trailers(text: bytes) -> bool:
    """Whether the last paragraph, which is not the first, is one of trailers."""
    first, between, last = text.rpartition(b"\n\n")
    if not between or not first.strip():
        return False
    return all(_is_trailer(line) or line[:1] in (b" ", b"\t") for line in last.split(b"\n"))


def _is_trailer(line: bytes) -> bool:
    name, colon, value = line.partition(b":")
    return bool(colon) and value[:1] == b" " and bool(name) and all(byte in b"-" or chr(byte).isalnum() for byte in name)


def squashed(commits: Sequence[Told], agent: str) -> bytes:
    """Return the message of one commit in place of several, the oldest first."""
    if len(commits) == 1:
        return commits[0].message
    subjects = [one.subject.encode("utf-8", "surrogateescape") for one in commits]
    first = f"Take {len(commits)} commits of {agent}".encode("utf-8", "surrogateescape")
    return first + b"\n\n" + b"".join(b"- " + subject + b"\n" for subject in subjects)
