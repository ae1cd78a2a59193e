"""Import the modules of a start from one file, because finding and reading a hundred files takes as long as running them.

The file is next to the byte code that Python caches. As with that, a module is taken from it only while its source has the
recorded size and time; other modules are imported as usual.
"""

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec  # part of every interpreter; importlib.machinery takes 1 ms
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    # By name: the source's path, its time of modification in ns, its size in bytes, its code.
    Modules = dict[str, tuple[str, int, int, CodeType]]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_FOLDER = f"{_PACKAGE}/__pycache__"
_PATH = f"{_FOLDER}/start.{sys.implementation.cache_tag}.cache"
_IN_SETUP_PROCESS = ("agent_dev.sandbox.joining", "agent_dev.sandbox.joining.step", "agent_dev.sandbox.joining.service")


class _CachedLoader(SourceFileLoader):
    """Finds and loads modules whose code is in the file."""

    modules: "Modules" = {}  # noqa: RUF012  (typing is not imported on the launch path)
    is_outdated = False
    needed: "tuple[str, ...]" = ()

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: "Sequence[str] | None" = None,  # noqa: ARG003  (the protocol of finders)
        target: "ModuleType | None" = None,  # noqa: ARG003
    ) -> ModuleSpec | None:
        """Return how to load a module; None if it is not in the file, or has changed since."""
        found = cls.modules.get(fullname)
        if found is None:
            return None
        source, changed_ns, size, _ = found
        if not _is_unchanged(source, changed_ns, size):
            cls.is_outdated = True
            return None
        is_package = source.endswith("/__init__.py")
        spec = ModuleSpec(fullname, cls(fullname, source), origin=source, is_package=is_package)
        spec.has_location = True
        if is_package and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(source))
        return spec

    def get_code(self, fullname: str) -> "CodeType":
        """Return the code of a module for which there is a spec."""
        return self.modules[fullname][3]


def use() -> None:
    """Import modules from the file from now on, if there is one."""
    modules = _read()
    if modules is None:
        _CachedLoader.is_outdated = True
        return
    _CachedLoader.modules = modules
    sys.meta_path.insert(0, _CachedLoader)


def note_start() -> None:
    """Note that what is imported now is what a start needs."""
    if _CachedLoader.is_outdated:
        _CachedLoader.needed = tuple(name for name in sys.modules if name.partition(".")[0] == __package__)


def can_be_renewed() -> bool:
    """Return whether there is no file, or an outdated one, and whether it can be written."""
    if not _CachedLoader.needed or sys.dont_write_bytecode or sys.pycache_prefix or sys.flags.optimize:
        return False
    return os.access(_FOLDER, os.W_OK)


def renew() -> None:
    """Write the file with the modules that the start needed. Raises OSError."""
    from importlib import import_module  # not during a start

    rows: Modules = {}
    for name in (*_CachedLoader.needed, *_IN_SETUP_PROCESS):
        spec = import_module(name).__spec__
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            continue
        status = os.stat(spec.origin)
        code = spec.loader.get_code(name)
        if code is not None:
            rows[name] = (spec.origin, status.st_mtime_ns, status.st_size, code)
    content = marshal.dumps((_PACKAGE, rows))
    partial = f"{_PATH}.{os.getpid()}"
    try:
        with open(partial, "xb") as file:
            file.write(_header(content) + content)
        os.rename(partial, _PATH)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def _read() -> "Modules | None":
    """Return the contents of the file; None if it is missing, damaged, of another Python, or the package was moved."""
    if sys.flags.optimize:
        return None  # code with assertions and docstrings
    try:
        with open(_PATH, "rb", buffering=0) as file:
            content = file.readall()
    except OSError:
        return None
    code = memoryview(content)[8:]
    if content[:8] != _header(code):
        return None
    package, modules = marshal.loads(code)  # noqa: S302  (as trusted as our sources, in whose folder it is)
    return modules if package == _PACKAGE else None


def _header(content: bytes | memoryview) -> bytes:
    return MAGIC_NUMBER + crc32(content).to_bytes(4, "little")


def _is_unchanged(source: str, changed_ns: int, size: int) -> bool:
    try:
        status = os.stat(source)
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) == (changed_ns, size)
