"""Formatting of commits: the object's bytes, the message of a squash, and trailers."""

from collections.abc import Sequence

from agent_dev.git.formats.commit_format import ParsedCommit


def format_commit(
    tree: str, parents: Sequence[str], author: bytes, committer: bytes, message: bytes, encoding: bytes = b""
) -> bytes:
    """Return a commit object's bytes; people are given as `Name <email> seconds zone`."""
    lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
    lines += [b"author " + author, b"committer " + committer]
    if encoding:
        lines.append(b"encoding " + encoding)
    return b"\n".join(lines) + b"\n\n" + message


def add_trailers(message: bytes, trailers: Sequence[tuple[str, str]]) -> bytes:
    """Return the message with missing trailers added, to its trailer block if it ends with one."""
    lines = [f"{name}: {value}".encode("utf-8", "surrogateescape") for name, value in trailers]
    text = message.rstrip(b"\n")
    new = [line for line in lines if line not in text.split(b"\n")]
    if not new:
        return message
    separator = b"\n" if _ends_in_trailers(text) else b"\n\n"
    return text + separator + b"\n".join(new) + b"\n"


def _ends_in_trailers(text: bytes) -> bool:
    """Return whether the last paragraph consists of trailers and is not the first one."""
    first, separator, last = text.rpartition(b"\n\n")
    if not separator or not first.strip():
        return False
    return all(_is_trailer(line) or line[:1] in (b" ", b"\t") for line in last.split(b"\n"))


def _is_trailer(line: bytes) -> bool:
    name, colon, value = line.partition(b":")
    return bool(colon) and value[:1] == b" " and bool(name) and all(byte in b"-" or chr(byte).isalnum() for byte in name)


def format_squash_message(commits: Sequence[ParsedCommit], agent: str) -> bytes:
    """Return the message of a squash of `commits`, the oldest first."""
    if len(commits) == 1:
        return commits[0].message
    subjects = [one.subject.encode("utf-8", "surrogateescape") for one in commits]
    title = f"Import {len(commits)} commits of {agent}".encode("utf-8", "surrogateescape")
    return title + b"\n\n" + b"".join(b"- " + subject + b"\n" for subject in subjects)
