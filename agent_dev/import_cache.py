"""Import our modules from one file, because finding and reading a hundred files takes as long as running them.

The file is next to the byte code that Python caches. As with that, a module is taken from it only while its source has the
recorded size and time; other modules are imported as usual. Those of a start come first and are read at once.
"""

import marshal
import os
import sys
import time
from _frozen_importlib import ModuleSpec  # part of every interpreter; importlib.machinery takes 1 ms
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType

    # By name: whether it is a package, its source's time of modification in ns and its size in bytes; the offset of its code
    # after the index, its length and checksum.
    Index = dict[str, tuple[bool, int, int, int, int, int]]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_TOP = os.path.dirname(_PACKAGE)
_PACKAGES = (__package__, "tui")
_FOLDER = f"{_PACKAGE}/__pycache__"
_PATH = f"{_FOLDER}/modules.{sys.implementation.cache_tag}.cache"
_NEW = f"{_PATH}.new"
_HEADER = 12  # bytes: Python's magic number, and the index's checksum and length
_ABANDONED = 600  # seconds after which a file that was not finished is replaced


class _CachedLoader(SourceFileLoader):
    """Finds and loads modules whose code is in the file."""

    index: "Index" = {}  # noqa: RUF012  (typing is not imported on the launch path)
    start = 0  # offset of the modules in the file
    at_start = b""  # the modules of a start, the first in the file
    is_outdated = False
    needed: "frozenset[str]" = frozenset()

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: "Sequence[str] | None" = None,  # noqa: ARG003  (the protocol of finders)
        target: "ModuleType | None" = None,  # noqa: ARG003
    ) -> ModuleSpec | None:
        """Return how to load a module; None if it is not in the file, or has changed since."""
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        is_package, changed_ns, size = cls.index.get(fullname, (False, 0, 0))[:3]
        source = f"{_TOP}/{fullname.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        if not size or not _is_unchanged(source, changed_ns, size):
            cls.is_outdated = True
            return None
        spec = ModuleSpec(fullname, cls(fullname, source), origin=source, is_package=is_package)
        spec.has_location = True
        if is_package and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(source))
        return spec

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the code of a module for which there is a spec."""
        offset, length, checksum = self.index[fullname][3:]
        is_at_start = offset + length <= len(self.at_start)
        code = self.at_start[offset : offset + length] if is_at_start else _read(self.start + offset, length)
        if crc32(code) == checksum:
            return marshal.loads(code)  # type: ignore[no-any-return]  # noqa: S302  (as trusted as our sources, in whose folder it is)
        _CachedLoader.is_outdated = True  # damaged, or replaced since
        return super().get_code(fullname)


def use() -> None:
    """Import modules from the file from now on, if there is one."""
    if sys.flags.optimize:
        return  # the file has code with assertions and docstrings
    _CachedLoader.index, _CachedLoader.start, length = _read_index()
    _CachedLoader.at_start = _read(_CachedLoader.start, length) if length else b""
    _CachedLoader.is_outdated = not _CachedLoader.index
    sys.meta_path.insert(0, _CachedLoader)


def note_start() -> None:
    """Note that what has been imported is what a start needs."""
    if _CachedLoader.is_outdated:
        _CachedLoader.needed = frozenset(sys.modules)


def can_be_renewed() -> bool:
    """Return whether there is no file, or an outdated one, and whether it can be written.

    Only in a virtual environment, which is removed with all its files: no other installer would remove this one.
    """
    if not _CachedLoader.is_outdated or sys.dont_write_bytecode or sys.pycache_prefix or sys.flags.optimize:
        return False
    if sys.prefix == sys.base_prefix:
        return False
    return os.access(_FOLDER, os.W_OK) and not _is_being_written()


def renew() -> None:
    """Write the file with all our modules. Raises OSError."""
    index: Index = {}
    codes = []
    offset = at_start = 0
    if os.path.exists(_NEW) and not _is_being_written():
        os.unlink(_NEW)  # its writer was killed
    try:
        new = os.open(_NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return  # another process writes it
    try:
        for name, source, is_package in sorted(_find_modules(), key=lambda module: module[0] not in _CachedLoader.needed):
            status = os.stat(source)
            code = _compile(name, source)
            if code:
                codes.append(code)
                index[name] = (is_package, status.st_mtime_ns, status.st_size, offset, len(code), crc32(code))
                offset += len(code)
                at_start = offset if name in _CachedLoader.needed else at_start
        table = marshal.dumps((_PACKAGE, at_start, index))
        with open(new, "wb") as file:
            file.write(MAGIC_NUMBER + crc32(table).to_bytes(4, "little") + len(table).to_bytes(4, "little") + table)
            file.writelines(codes)
        os.rename(_NEW, _PATH)
    except BaseException:
        os.unlink(_NEW)
        raise


def _find_modules() -> "Iterator[tuple[str, str, bool]]":
    """Yield each of our modules: its name, its source, whether it is a package."""
    for package in _PACKAGES:
        for folder, folders, files in os.walk(f"{_TOP}/{package}"):
            folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]
            parent = folder[len(_TOP) + 1 :].replace("/", ".")
            for name in files:
                stem, ending = os.path.splitext(name)
                if ending == ".py":
                    yield parent if stem == "__init__" else f"{parent}.{stem}", f"{folder}/{name}", stem == "__init__"


def _compile(name: str, source: str) -> bytes:
    """Return the code of a module; empty if it cannot be compiled."""
    try:
        code = SourceFileLoader(name, source).get_code(name)
    except (SyntaxError, ValueError):  # being edited
        return b""
    return marshal.dumps(code)


def _is_being_written() -> bool:
    try:
        return time.time() - os.stat(_NEW).st_mtime < _ABANDONED
    except OSError:
        return False


def _read_index() -> "tuple[Index, int, int]":
    """Return the file's index, its end, and the length of the modules of a start.

    It is empty if the file is missing, damaged, or of another Python, or if the package was moved.
    """
    header = _read(0, _HEADER)
    table = _read(_HEADER, int.from_bytes(header[8:], "little"))
    if header[:8] != MAGIC_NUMBER + crc32(table).to_bytes(4, "little"):
        return {}, 0, 0
    package, at_start, index = marshal.loads(table)  # noqa: S302  (as trusted as our sources, in whose folder it is)
    return (index, _HEADER + len(table), at_start) if package == _PACKAGE else ({}, 0, 0)


def _read(offset: int, length: int) -> bytes:
    """Return a part of the file; empty if it cannot be read."""
    try:
        fd = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, length, offset)
    except (OSError, MemoryError):  # a damaged length
        return b""
    finally:
        os.close(fd)


def _is_unchanged(source: str, changed_ns: int, size: int) -> bool:
    try:
        status = os.stat(source)
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) == (changed_ns, size)
