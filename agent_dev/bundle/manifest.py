"""The manifest of a bundle: checks every value, since anyone may have written it.

Nothing is written before the whole manifest is checked. An entry's path must be below its root, in a directory that precedes it,
and not in a git directory. So a tree that is built in this order, in a new empty directory, never leaves that directory.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent_dev.bundle.manifest_json import Rows
from agent_dev.errors import BadBundle
from agent_dev.quick_dataclass import dataclass
from agent_dev.version_range import VersionRange

FORMAT = "agent-dev bundle"
VERSIONS = VersionRange(1, 1)  # that are read and written
LOGS = ("commands", "events", "network")
MAX_ENTRIES, MAX_ROOTS, MAX_REFS = 500_000, 64, 20_000
MAX_LOG = 128 << 20  # bytes
MAX_SIZE = 1 << 40  # bytes of one file
_MAX_TIME = 1 << 63
_NO_GIT = "its repositories are not valid"
_MAX_PATH, _MAX_NAME, _MAX_TARGET = 4096, 255, 4095
_MAX_ATTRIBUTES, _MAX_ATTRIBUTE = 64, 1 << 17
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII).fullmatch
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII).fullmatch
_REF = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+").fullmatch
_SESSION_NAME = re.compile(r"(?![0-9]{6}-[0-9]{6}-[0-9]{3}.\Z)[A-Za-z0-9._-]{0,100}", re.ASCII).fullmatch  # not an id
_NOT_NAMES = (b".", b"..")
_CONTENT, _SPECIAL = ("file",), ("fifo", "socket")
UPPER_TYPES = ("dir", "file", "symlink", "whiteout", *_SPECIAL)
BASE_TYPES = ("dir", "file", "symlink", *_SPECIAL)
_UPPER_KEYS = frozenset(("path", "type", "mode", "mtime", "size", "digest", "target", "opaque", "attributes"))
_BASE_KEYS = frozenset(("path", "type", "mode", "size", "digest", "blob", "target", "attributes"))
_FIELDS = frozenset(("format", "version", "made", "session", "roots", "git", "logs", "blobs", "left_out", "task"))


@dataclass(frozen=True, slots=True)
class ContentUses:
    """Where the contents of a bundle belong, by SHA-256: the number of files in upper layers, whether a base version has it.

    The strings are those of the manifest.
    """

    files: dict[str, int]
    base: dict[str, bool]


def check_manifest(manifest: Any) -> ContentUses:
    """Check every value of a manifest, and return where its contents belong.

    Raises BadBundle for the first value that no export would write.
    """
    try:
        return _check(manifest)
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise BadBundle(reason=f"a value in its manifest is missing or of the wrong type ({error})") from None


def require(is_met: bool, reason: str) -> None:  # noqa: FBT001  (reads as an assertion)
    """Raise BadBundle unless a condition is met."""
    if not is_met:
        raise BadBundle(reason=reason)


def _require_at(is_met: bool, reason: str, path: bytes) -> None:  # noqa: FBT001  (reads as an assertion)
    """Raise BadBundle unless a condition is met at a path; the reason is formatted only then, because there are many paths."""
    if not is_met:
        raise BadBundle(reason=reason.format(path=repr(path[:80])))


def _check(manifest: Any) -> ContentUses:
    require(isinstance(manifest, Mapping) and manifest.get("format") == FORMAT, "it is not a bundle of agent-dev")
    version = manifest.get("version")
    require(version in VERSIONS, _wrong_version(version))
    require(manifest.keys() <= _FIELDS, "its manifest has unknown fields")
    blobs = manifest["blobs"]
    require(isinstance(blobs, dict), "its list of files is not valid")
    for digest, size in blobs.items():
        require(bool(_SHA256(digest)) and is_count(size, MAX_SIZE), f"the file {digest[:80]!r} is not valid")
    uses = _check_roots(manifest["roots"], blobs)
    _check_repositories(manifest["git"], len(manifest["roots"]))
    _check_logs(manifest["logs"])
    _check_session(manifest["session"])
    _check_made(manifest["made"])
    left_out = manifest["left_out"]
    require(
        isinstance(left_out, list) and len(left_out) <= 100 and all(_is_text(one) for one in left_out), "`left_out` is not valid"
    )
    if "task" in manifest:
        _check_task(manifest["task"])
    return uses


def _wrong_version(version: Any) -> str:
    """Return why a version of the format is not accepted, and which program must be upgraded."""
    if type(version) is not int:
        return "its version is not valid"
    side = "here" if version > VERSIONS.newest else "where it was made"
    return f"it has version {str(version)[:20]}, and this agent-dev reads {VERSIONS}: upgrade agent-dev {side}"


def _check_roots(roots: Any, blobs: Mapping[str, int]) -> ContentUses:
    require(isinstance(roots, list) and 1 <= len(roots) <= MAX_ROOTS, "its roots are not valid")
    require(sum(len(root["entries"]) + len(root["base"]) for root in roots) <= MAX_ENTRIES, "it has too many entries")
    uses = ContentUses(dict.fromkeys(blobs, 0), dict.fromkeys(blobs, False))
    for root in roots:
        require(root.keys() == {"name", "entries", "base", "complete"}, "a root has unknown fields")
        require(_is_text(root["name"]) and isinstance(root["complete"], bool), "a root's name is not valid")
        _check_entries(root["entries"], blobs, uses)
        _check_base(root["base"], blobs, uses)
    require(all(uses.files[digest] or uses.base[digest] for digest in blobs), "it contains files that belong to no path")
    return uses


def _check_entries(rows: Any, blobs: Mapping[str, int], uses: ContentUses) -> None:
    """Check the entries of an upper layer; each must be in a directory that precedes it."""
    require(isinstance(rows, Rows), "its entries are not valid")
    folders, seen, valid = {b""}, set(), {b""}
    for row in rows:
        path, kind = _path(row, UPPER_TYPES, _UPPER_KEYS, valid)
        _require_at(path.rpartition(b"/")[0] in folders, "{path} is not in a directory of the bundle", path)
        _require_at(path not in seen, "{path} is listed twice", path)
        seen.add(path)
        if kind == "dir":
            folders.add(path)
        _require_at(row.get("opaque") is None or (kind == "dir" and row["opaque"] is True), "{path} cannot be opaque", path)
        if kind == "whiteout":
            _require_at(len(row) == 2, "the deletion of {path} has unknown fields", path)
            continue
        _check_common(path, row)
        _require_at(is_count(row["mtime"], _MAX_TIME), "the time of {path} is not valid", path)
        if kind == "file":
            digest = row["digest"]
            _require_at(
                isinstance(digest, str) and blobs.get(digest, -1) == row["size"], "the content of {path} is missing", path
            )
            uses.files[digest] += 1
        else:
            _require_at("digest" not in row and "size" not in row, "{path} cannot have content", path)


def _check_base(rows: Any, blobs: Mapping[str, int], uses: ContentUses) -> None:
    """Check the base versions of paths."""
    require(isinstance(rows, Rows), "its base versions are not valid")
    seen, valid = set(), {b""}
    for row in rows:
        path, _ = _path(row, BASE_TYPES, _BASE_KEYS, valid)
        _require_at(path not in seen, "the base version of {path} is listed twice", path)
        seen.add(path)
        _check_common(path, row)
        _require_at(is_count(row["size"], _MAX_TIME), "the size of {path} is not valid", path)
        digest, blob = row.get("digest"), row.get("blob")
        _require_at(row["type"] == "file" or (digest is None and blob is None), "{path} cannot have content", path)
        _require_at(
            digest is None or (isinstance(digest, str) and bool(_SHA256(digest))), "the digest of {path} is not valid", path
        )
        _require_at(blob is None or (isinstance(blob, str) and bool(_OBJECT_ID(blob))), "the blob of {path} is not valid", path)
        if digest in blobs:
            _require_at(blobs[digest] == row["size"], "the size of {path} is wrong", path)
            uses.base[digest] = True


def _path(row: Any, types: tuple[str, ...], keys: frozenset[str], valid: set[bytes]) -> tuple[bytes, str]:
    """Return the path and the type of an entry. `valid`: directories that were checked; this path's directory is added."""
    require(isinstance(row, dict) and isinstance(row.get("path"), str), "an entry has no path")
    path: bytes = row["path"].encode("utf-8", "surrogateescape")
    _require_at(_is_below(path, valid), "{path} is not a path below a root", path)
    kind = row["type"]
    _require_at(isinstance(kind, str) and kind in types, "{path} has an unknown type", path)
    _require_at(row.keys() <= keys, "{path} has unknown fields", path)
    return path, kind


def _is_below(path: bytes, valid: set[bytes]) -> bool:
    """Return whether a path is normalized, below a root and not in a git directory."""
    if len(path) >= _MAX_PATH:
        return False
    folder, _, name = path.rpartition(b"/")
    if folder not in valid:
        if not all(map(_is_name_in_path, folder.split(b"/"))):
            return False
        valid.add(folder)
    return _is_name_in_path(name) and not path.startswith(b"/")


def _is_name_in_path(name: bytes) -> bool:
    return 0 < len(name) <= _MAX_NAME and b"\0" not in name and name not in _NOT_NAMES and name.lower() != b".git"


def _check_common(path: bytes, row: dict[str, Any]) -> None:
    _require_at(is_count(row["mode"], 0o7777), "the mode of {path} is not valid", path)
    target = row.get("target")
    _require_at((row["type"] == "symlink") == (target is not None), "{path} cannot have a target", path)
    if target is not None:
        raw = target.encode("utf-8", "surrogateescape")
        _require_at(0 < len(raw) <= _MAX_TARGET and b"\0" not in raw, "the target of {path} is not valid", path)
    attributes = row.get("attributes")
    if attributes is not None:
        _check_attributes(path, attributes)


def _check_attributes(path: bytes, attributes: Any) -> None:
    _require_at(
        isinstance(attributes, dict) and len(attributes) <= _MAX_ATTRIBUTES, "the attributes of {path} are not valid", path
    )
    for name, value in attributes.items():
        is_own = name.startswith("user.") and not name.startswith("user.overlay.") and "\0" not in name
        require(
            is_own and 5 < len(name.encode("utf-8", "surrogateescape")) <= _MAX_NAME,
            f"the attribute {name[:80]!r} is not allowed",
        )
        is_value = isinstance(value, str) and len(value) <= _MAX_ATTRIBUTE and bool(_HEX(value))
        require(is_value, f"the value of the attribute {name[:80]!r} is not valid")


def _check_repositories(rows: Any, roots: int) -> None:
    """Check the rows of the repositories, in the order of their roots."""
    require(
        isinstance(rows, list) and all(isinstance(row, dict) and is_count(row.get("root"), roots - 1) for row in rows), _NO_GIT
    )
    numbers = [row["root"] for row in rows]
    require(numbers == sorted(set(numbers)), _NO_GIT)
    for row in rows:
        _check_git(row)


def _check_git(git: dict[str, Any]) -> None:
    require(git.keys() == {"root", "format", "before", "after", "size", "digest"}, "its commits have unknown fields")
    require(
        git["format"] in ("sha1", "sha256") and is_count(git["size"], MAX_SIZE), "the format or size of its commits is not valid"
    )
    require(bool(_SHA256(git["digest"])), "the digest of its commits is not valid")
    length = 40 if git["format"] == "sha1" else 64
    for side in ("before", "after"):
        refs = git[side]
        require(isinstance(refs, dict) and len(refs) <= MAX_REFS, "its refs are not valid")
        for name, value in refs.items():
            require(
                _is_head(name, value, length) or (is_ref(name) and is_id(value, length)), f"the ref {name[:80]!r} is not valid"
            )


def _is_head(name: str, value: Any, length: int) -> bool:
    if name != "HEAD" or not isinstance(value, str):
        return False
    branch = value.removeprefix("ref: ")
    return is_id(value, length) if branch == value else branch.startswith("refs/heads/") and is_ref(branch)


def is_id(value: Any, length: int) -> bool:
    """Return whether a value is an object id of this length."""
    return isinstance(value, str) and len(value) == length and bool(_OBJECT_ID(value))


def is_ref(name: str) -> bool:
    """Return whether git accepts a ref's name (git-check-ref-format(1))."""
    parts = name.split("/")
    is_odd = any(part.startswith((".", "-")) or part.endswith((".lock", ".")) or not part for part in parts)
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    return bool(_REF(name)) and not is_odd and max(sizes) < 250 and sum(sizes) < 1000 and ".." not in name and "@{" not in name


def _check_logs(logs: Any) -> None:
    require(isinstance(logs, dict) and logs.keys() <= set(LOGS), "its logs are not valid")
    for row in logs.values():
        is_log = row.keys() == {"size", "digest"} and is_count(row["size"], MAX_LOG) and bool(_SHA256(row["digest"]))
        require(is_log, "its logs are not valid")


def _check_made(made: Any) -> None:
    require(made.keys() == {"host", "program"} and all(_is_text(one) for one in made.values()), "its origin is not valid")


def _check_task(task: Any) -> None:
    """Check the task for which a bundle was created; the reader of the task checks its result."""
    require(
        task.keys() == {"id", "result"} and _is_text(task["id"]) and isinstance(task["result"], dict), "its task is not valid"
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 300 and "\0" not in value


def is_count(value: Any, maximum: int) -> bool:
    """Return whether a value is an integer from 0 to `maximum`."""
    return type(value) is int and 0 <= value <= maximum


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and len(value) < 10_000 and all(isinstance(one, str) and "\0" not in one for one in value)


def _is_log_end(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"count", "chain", "dropped"}:
        return False
    return is_count(value["count"], 1 << 40) and is_count(value["dropped"], 1 << 40) and bool(_SHA256(value["chain"]))


def _is_policy(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"set", "digest"} and all(_is_text(one) for one in value.values())


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_SESSION_NAME(value))


def _is_time(value: Any) -> bool:
    return is_count(value, _MAX_TIME)


SESSION_FIELDS: dict[str, Callable[[Any], bool]] = {  # the fields of a session's record that a bundle contains
    "name": _is_name,
    "profile": lambda value: _is_text(value) and "/" not in value,
    "command": _is_words,
    "words": _is_words,
    "is_command": lambda value: isinstance(value, bool),
    "started": _is_time,
    "launched": _is_time,
    "ended": _is_time,
    "exit": lambda value: is_count(value, 255),
    "policy": _is_policy,
    "commands": _is_log_end,
    "events": _is_log_end,
    "network": _is_log_end,
    "rename_similarity": lambda value: is_count(value, 100),
}


def _check_session(fields: Any) -> None:
    require(isinstance(fields, dict) and fields.keys() <= SESSION_FIELDS.keys(), "its session has an unknown field")
    for name, value in fields.items():
        require(SESSION_FIELDS[name](value), f"the {name} of its session is not valid")
    for name in ("name", "profile", "command", "words", "is_command", "started"):
        require(name in fields, f"the {name} of its session is missing")
