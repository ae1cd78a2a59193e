"""Trust in repository settings: `.agent-dev.yaml` applies only if the user trusted exactly these bytes.

The record is in the state directory, which no agent can reach. If the file has changed since, only the restrictions of the
trusted version apply, until the user trusts it again.
"""

import os
import stat

from agent_dev import __version__
from agent_dev.config.profile import Layer
from agent_dev.config.repository_settings import FILE_NAME, restrictions
from agent_dev.errors import IgnoredSettings
from agent_dev.fs import checksummed_json
from agent_dev.value import Value

_LARGEST = 64 << 10  # bytes
_NOTHING = Layer({}, {})


class TrustRecord(Value):
    """A trusted file: its digest, text, fields and their lines."""

    digest: str
    text: str
    fields: dict[str, object]
    lines: dict[str, int]

    def layer(self, root: str) -> Layer:
        """Return the fields as a layer of settings."""
        return Layer(self.fields, {name: f"{root}/{FILE_NAME}:{line}" for name, line in self.lines.items()})


def has_settings(root: str) -> bool:
    """Return whether a root has settings; a start without them costs only this call."""
    try:
        os.lstat(f"{root}/{FILE_NAME}")
    except OSError:
        return False
    return True


def read(root: str) -> bytes:
    """Return the file's bytes. Raises IgnoredSettings if it is not a regular file, too large or unreadable."""
    path = f"{root}/{FILE_NAME}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IgnoredSettings(path=path, reason=error.strerror) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise IgnoredSettings(path=path, reason="not a regular file")
        data = os.read(fd, _LARGEST + 1)
    finally:
        os.close(fd)
    if len(data) > _LARGEST:
        raise IgnoredSettings(path=path, reason=f"larger than {_LARGEST >> 10} KiB")
    return data


def load_layer(state: str, root: str) -> tuple[Layer, str]:
    """Return the settings of a root that apply now, and a message for the user if they are not complete."""
    known = read_record(state, root)
    try:
        data = read(root)
    except IgnoredSettings as error:
        return (restrictions(known.layer(root)) if known else _NOTHING), error.message
    if known is None:
        return _NOTHING, f"{FILE_NAME} is not trusted and was ignored (to review it: agent-dev trust)"
    if digest(data) != known.digest:
        message = (
            f"{FILE_NAME} has changed since you trusted it; only the restrictions of the trusted version apply (agent-dev trust)"
        )
        return restrictions(known.layer(root)), message
    return known.layer(root), ""


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    import hashlib  # deferred: only needed if a repository has settings

    return hashlib.sha256(data).hexdigest()


def read_record(state: str, root: str) -> TrustRecord | None:
    """Return the record of the trusted file of a root; None without one, or for one of another version or root."""
    try:
        with open(_path(state, root), "rb", 0) as file:
            kept = checksummed_json.loads(file.read())
    except (OSError, ValueError):
        return None
    if kept.get("root") != root or kept.get("version") != __version__:
        return None
    return TrustRecord(kept["digest"], kept["text"], kept["fields"], kept["lines"])


def write_record(state: str, root: str, trusted: TrustRecord) -> None:
    """Save the record of a trusted file."""
    path = _path(state, root)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    temp = f"{path}.{os.getpid()}"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, checksummed_json.dumps({"version": __version__, "root": root, **trusted.as_dict()}))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temp, path)


def revoke(state: str, root: str) -> bool:
    """Revoke the trust in a root; return whether there was any."""
    try:
        os.unlink(_path(state, root))
    except FileNotFoundError:
        return False
    return True


def _path(state: str, root: str) -> str:
    return f"{state}/trust/{digest(os.fsencode(root))}"
