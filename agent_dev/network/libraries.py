"""Find out before the agent starts whether the gateway's modules can be loaded, without loading them each time.

A cache lists the files of all modules as they were when these were loaded. While the files are the same, the gateway may load
after the agent has started; after an upgrade, or with a broken library, it loads before.
"""

import os
import sys

from agent_dev.fs import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# All that a gateway imports, also at its first use. Credentials are read before the agent starts, with what they need.
_MODULES = (
    "agent_dev.network.service",
    "agent_dev.network.protocols.http_inspection",
    "agent_dev.network.deciding.asking",
    "agent_dev.network.deciding.questions",
    "agent_dev.network.published.start",
    "agent_dev.network.upstream.connector",
    "agent_dev.session.alerts",
    "agent_dev.session.hash_chain",
)
_FOR_CREDENTIALS = ("agent_dev.network.broker.start",)
_MAX_ENTRIES = 4  # interpreters and search paths


def are_unchanged(cache_path: str) -> bool:
    """Return whether every file is as it was when all modules were loaded."""
    marks = cache.read(cache_path).get(_key())
    if not isinstance(marks, dict) or not marks:
        return False
    return all(name in sys.modules or (isinstance(mark, list) and _mark(str(mark[0])) == mark) for name, mark in marks.items())


def load(cache_path: str) -> None:
    """Load all modules, and note their files. Raises ValueError with the reason if one cannot be loaded."""
    _import(_MODULES)
    files = ((name, _file(module)) for name, module in tuple(sys.modules.items()))
    marks = {name: mark for name, path in files if (mark := _mark(path))}
    others = [(key, one) for key, one in cache.read(cache_path).items() if key != _key()]
    cache.write(cache_path, {**dict(others[1 - _MAX_ENTRIES :]), _key(): marks})


def try_all() -> None:
    """Load all modules, also those for credentials, as a test of the installation. Raises OSError with the reason."""
    try:
        _import((*_MODULES, *_FOR_CREDENTIALS))
    except ValueError as error:
        raise OSError(str(error)) from None


def _import(names: tuple[str, ...]) -> None:
    try:
        for name in names:
            __import__(name)
    except Exception as error:  # noqa: BLE001  (a broken library may raise anything)
        raise ValueError(failure_reason(error)) from None


def failure_reason(error: Exception) -> str:
    """Return why a module could not be loaded, on one line, with the file that failed."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed"
    path, trace = "", error.__traceback__
    while trace:
        name = trace.tb_frame.f_code.co_filename
        path, trace = path if name.startswith("<") else name, trace.tb_next
    if isinstance(error, SyntaxError):
        path = error.filename or path
    words = str(error).partition("\n")[0] or type(error).__name__
    return f"a library is broken: {words} ({path})"


def _key() -> str:
    return "\n".join((sys.version, *sys.path))


def _file(module: "ModuleType") -> str:
    spec = getattr(module, "__spec__", None)
    return spec.origin or "" if spec and spec.has_location else ""


def _mark(path: str) -> list[str | int]:
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [path, status.st_ino, status.st_size, status.st_mtime_ns]
