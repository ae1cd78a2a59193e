"""A repository's own settings: read only when the user trusted exactly these bytes, and kept with that word in the state.

The record lies under the root's path, where no agent can reach it. When the file is another one since, the restrictions of
what was trusted stay in force, and all else of it is void until the user is asked again.
"""

import os
import stat

from agent_dev import __version__
from agent_dev.config.profile import Layer
from agent_dev.config.repository_settings import NAME, restrictions
from agent_dev.errors import NotTrustworthy
from agent_dev.fs import fast_json as quick_json
from agent_dev.value import Value

_LARGEST = 64 << 10  # bytes
_NOTHING = Layer({}, {})


class Trusted(Value):
    """What the user trusted: the digest and the text of the file, what it says, and the lines where."""

    digest: str
    text: str
    fields: dict[str, object]
    lines: dict[str, int]

    def layer(self, root: str) -> Layer:
        """Return it as a layer of settings."""
        return Layer(self.fields, {name: f"{root}/{NAME}:{line}" for name, line in self.lines.items()})


def is_there(root: str) -> bool:
    """Whether a root has settings of its own: all that a start without them pays."""
    try:
        os.lstat(f"{root}/{NAME}")
    except OSError:
        return False
    return True


def read(root: str) -> bytes:
    """Return the file's bytes. Raises NotTrustworthy for a link, a pipe, or one that is too large or cannot be read."""
    path = f"{root}/{NAME}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotTrustworthy(path=path, reason=error.strerror) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotTrustworthy(path=path, reason="it is no file")
        data = os.read(fd, _LARGEST + 1)
    finally:
        os.close(fd)
    if len(data) > _LARGEST:
        raise NotTrustworthy(path=path, reason=f"it is larger than {_LARGEST >> 10} KiB")
    return data


def layer(state: str, root: str) -> tuple[Layer, str]:
    """Return what a root's own settings may say now, and a line for the user where that is not all of it."""
    known = record(state, root)
    try:
        data = read(root)
    except NotTrustworthy as error:
        return (restrictions(known.layer(root)) if known else _NOTHING), error.message
    if known is None:
        return _NOTHING, f"{NAME} is not trusted, so it is not used (agent-dev trust shows it and asks)"
    if digest(data) != known.digest:
        return restrictions(
            known.layer(root)
        ), f"{NAME} has changed since you trusted it: only its restrictions of then hold (agent-dev trust)"
    return known.layer(root), ""


def digest(data: bytes) -> str:
    """Return what tells one content from another."""
    import hashlib  # only where a repository has settings of its own

    return hashlib.sha256(data).hexdigest()


def record(state: str, root: str) -> Trusted | None:
    """Return what the user trusted in a root; None for nothing, or for a record that is not of this version or place."""
    try:
        with open(_place(state, root), "rb", 0) as file:
            kept = quick_json.loads(file.read())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("root") != root or kept.get("version") != __version__:
        return None
    return Trusted(kept["digest"], kept["text"], kept["fields"], kept["lines"])


def keep(state: str, root: str, trusted: Trusted) -> None:
    """Write down that the user trusts this."""
    place = _place(state, root)
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    temp = f"{place}.{os.getpid()}"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, quick_json.dumps({"version": __version__, "root": root, **trusted.as_dict()}))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temp, place)


def revoke(state: str, root: str) -> bool:
    """Take the word back; return whether there was one."""
    try:
        os.unlink(_place(state, root))
    except FileNotFoundError:
        return False
    return True


def _place(state: str, root: str) -> str:
    return f"{state}/trust/{digest(os.fsencode(root))}"
