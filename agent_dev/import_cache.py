"""Import our modules from one file, because finding and reading a hundred files takes as long as running them.

The file is next to the byte code that Python caches. As with that, a module is taken from it only while its source has the
recorded size and time; other modules are imported as usual. The modules of a start are also in the file as three groups, those
of every command first, in the order in which they must run: without Python's import system a start takes an eighth less
processor time (docs/decisions/0002-launch-path-imports.md).
"""

import marshal
import os
import sys
import time
from _frozen_importlib import ModuleSpec  # part of every interpreter; importlib.machinery takes 1 ms
from _frozen_importlib_external import MAGIC_NUMBER, PathFinder, SourceFileLoader
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType
    from typing import Any

    # Whether a module is a package, its source's time of modification in ns and its size in bytes.
    Source = tuple[bool, int, int]
    Sources = dict[str, Source]
    # The offset of a part of the file, from the end of its head; its length and checksum.
    Part = tuple[int, int, int]
    Index = dict[str, tuple[Source, Part]]
    Group = tuple[Sources, Part]  # each module after those that it imports; their code
    Head = tuple[tuple[Group, ...], Part]  # the groups, and the index of all modules

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_TOP = os.path.dirname(_PACKAGE)
_PACKAGES = (__package__, "tui")
_FOLDER = f"{_PACKAGE}/__pycache__"
_PATH = f"{_FOLDER}/modules.{sys.implementation.cache_tag}.cache"
_NEW = f"{_PATH}.new"
_FORMAT = b"\4"  # of the file: an upgrade leaves the file of the former version
_HEADER = 13  # bytes: the format, Python's magic number, and the checksum and the length of the head
_NO_PART: "Part" = (0, 0, 0)
_NO_HEAD: "Head" = ((), _NO_PART)
_COMMON, _START, _SUPERVISOR = range(3)
_GROUPS = (  # the modules that import all others of a group
    ("agent_dev.cli.main",),
    (  # those that a start imports, some of them late
        "agent_dev.run.run",
        "agent_dev.run.new_session",
        "agent_dev.run.command_policy",
        "agent_dev.sandbox.joining.service",
        "agent_dev.sandbox.supervisor_interface",
        "agent_dev.supervisor.handle",
    ),
    ("agent_dev.supervisor.exec_service",),
)
_LIST = """
import sys
sys.path[:] = {path}
from agent_dev import import_cache
import_cache.use()
for names in {groups}:
    for name in names:
        __import__(name)
    print(*import_cache._SourceLoader.imported)
    import_cache._SourceLoader.imported.clear()
"""
_ABANDONED = 600  # seconds after which a file that was not finished is replaced


class _SourceLoader(SourceFileLoader):
    """Loads a module of ours, and records its name."""

    imported: "list[str]" = []  # each after those that it imports  # noqa: RUF012  (typing is not imported on the launch path)

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module."""
        super().exec_module(module)
        self.imported.append(module.__name__)


class _CachedLoader(_SourceLoader):
    """Finds and loads modules whose code is in the file."""

    head: "Head" = _NO_HEAD
    start = 0  # offset of the parts
    index: "Index | None" = None  # read for the first module that is not in a group
    is_outdated = False

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> ModuleSpec | None:
        """Return how to load one of our modules."""
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        found = _find(fullname)
        if found and _is_current(fullname, found[0]):
            return _spec(fullname, *found)
        cls.is_outdated = True
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and type(spec.loader) is SourceFileLoader:
            spec.loader = _SourceLoader(fullname, spec.loader.path)
        return spec

    def __init__(self, fullname: str, path: str, part: "Part" = _NO_PART) -> None:
        super().__init__(fullname, path)
        self.part = part

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the code of a module for which there is a spec."""
        code = _read_part(self.part)
        if code:
            return marshal.loads(code)  # type: ignore[no-any-return]  # noqa: S302  (as trusted as our sources, in whose folder it is)
        _CachedLoader.is_outdated = True  # damaged, or replaced since
        return super().get_code(fullname)


def use() -> None:
    """Import modules from the file from now on, if there is one."""
    if sys.flags.optimize:
        return  # the file has code with assertions and docstrings
    _CachedLoader.head, _CachedLoader.start = _read_head()
    _CachedLoader.is_outdated = not _CachedLoader.head[0]
    sys.meta_path.insert(0, _CachedLoader)


def import_common() -> None:
    """Import the modules of every command at once, if the file is used."""
    _import_group(_COMMON)


def import_start() -> None:
    """Import the other modules of a start at once, if the file is used; call it only where an agent is started."""
    _import_group(_START)


def import_supervisor() -> None:
    """Import the other modules of the supervisor at once, if the file is used; call it only in its process."""
    _import_group(_SUPERVISOR)


def _import_group(number: int) -> None:
    groups = _CachedLoader.head[0]
    if not groups:
        return
    sources, part = groups[number]
    if not all(_is_current(name, source) for name, source in sources.items()) or not _import_all(sources, part):
        _CachedLoader.is_outdated = True


def _import_all(sources: "Sources", part: "Part") -> bool:
    """Import modules without the import system; return False if they are damaged, or if a module's package is missing.

    Each module finds those that it imports already imported.
    """
    data = _read_part(part)
    if not data:
        return False
    modules = sys.modules
    kind = type(sys)
    for (name, source), code in zip(sources.items(), marshal.loads(data), strict=True):  # noqa: S302  (as trusted as our sources)
        if name in modules:
            continue
        parent, _, child = name.rpartition(".")
        if parent and parent not in modules:
            return False
        spec = _spec(name, source)
        module = kind(name)
        module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
        module.__package__ = spec.parent
        if spec.submodule_search_locations is not None:
            module.__path__ = spec.submodule_search_locations
        modules[name] = module
        exec(code, module.__dict__)  # noqa: S102
        if parent:
            setattr(modules[parent], child, module)
    return True


def _find(name: str) -> "tuple[Source, Part] | None":
    """Return a module's entry in the index; None if it is not in the file."""
    if _CachedLoader.index is None:
        data = _read_part(_CachedLoader.head[1])
        _CachedLoader.index = marshal.loads(data) if data else {}  # noqa: S302  (as trusted as our sources)
    return _CachedLoader.index.get(name)


def _spec(name: str, source: "Source", part: "Part" = _NO_PART) -> ModuleSpec:
    is_package, path = source[0], _path(name, source)
    spec = ModuleSpec(name, _CachedLoader(name, path, part), origin=path, is_package=is_package)
    spec.has_location = True
    if is_package and spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(os.path.dirname(path))
    return spec


def _path(name: str, source: "Source") -> str:
    return f"{_TOP}/{name.replace('.', '/')}{'/__init__' if source[0] else ''}.py"


def _is_current(name: str, source: "Source") -> bool:
    """Return whether a module's source has not changed since."""
    try:
        status = os.stat(_path(name, source))
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) == source[1:]


def can_be_renewed() -> bool:
    """Return whether there is no file, or an outdated one, and whether it can be written.

    Only in a virtual environment, which is removed as a whole: elsewhere, an uninstaller would leave the file.
    """
    if not _CachedLoader.is_outdated or sys.dont_write_bytecode or sys.pycache_prefix or sys.flags.optimize:
        return False
    if sys.prefix == sys.base_prefix:
        return False
    return os.access(_FOLDER, os.W_OK) and not _is_being_written()


def renew() -> None:
    """Write the file with all our modules. Raises OSError."""
    index: Index = {}
    codes: dict[str, CodeType] = {}
    parts: list[bytes] = []
    if os.path.exists(_NEW) and not _is_being_written():
        os.unlink(_NEW)  # its writer was killed
    try:
        new = os.open(_NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return  # another process writes it
    try:
        for name, source, is_package in _find_modules():
            status = os.stat(source)
            code = _compile(name, source)
            if code:
                codes[name] = code
                index[name] = (is_package, status.st_mtime_ns, status.st_size), _add_part(parts, code)
        groups = []
        for imported in _list_groups():
            names = tuple(filter(codes.__contains__, imported))
            part = _add_part(parts, tuple(codes[name] for name in names))
            groups.append(({name: index[name][0] for name in names}, part))
        head = marshal.dumps((_PACKAGE, (tuple(groups), _add_part(parts, index))))
        with open(new, "wb") as file:
            file.write(_FORMAT + MAGIC_NUMBER + crc32(head).to_bytes(4, "little") + len(head).to_bytes(4, "little") + head)
            file.writelines(parts)
        os.rename(_NEW, _PATH)
    except BaseException:
        os.unlink(_NEW)
        raise


def _add_part(parts: list[bytes], value: "Any") -> "Part":
    offset = sum(map(len, parts))
    parts.append(marshal.dumps(value))
    return offset, len(parts[-1]), crc32(parts[-1])


def _list_groups() -> "list[list[str]]":
    """Return the modules of each group, each after those that it imports. Raises OSError.

    Another interpreter lists them: this one has also imported what only this command needed, such as dataclasses for `--name`.
    """
    import subprocess  # not on the launch path

    script = _LIST.format(path=sys.path, groups=_GROUPS)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:  # a module is being edited
        raise OSError(done.stderr)
    return [line.split() for line in done.stdout.splitlines()]


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


def _compile(name: str, source: str) -> "CodeType | None":
    """Return the code of a module; None if it cannot be compiled."""
    try:
        return SourceFileLoader(name, source).get_code(name)
    except (SyntaxError, ValueError):  # being edited
        return None


def _is_being_written() -> bool:
    try:
        return time.time() - os.stat(_NEW).st_mtime < _ABANDONED
    except OSError:
        return False


def _read_head() -> "tuple[Head, int]":
    """Return the groups of a start's modules and the place of the index, and where the parts begin.

    There are no groups if the file is missing, damaged, or of another Python, or if the package was moved.
    """
    header = _read(0, _HEADER)
    data = _read(_HEADER, int.from_bytes(header[9:], "little"))
    if header[:9] != _FORMAT + MAGIC_NUMBER + crc32(data).to_bytes(4, "little"):
        return _NO_HEAD, 0
    package, head = marshal.loads(data)  # noqa: S302  (as trusted as our sources, in whose folder it is)
    return (head, _HEADER + len(data)) if package == _PACKAGE else (_NO_HEAD, 0)


def _read_part(part: "Part") -> bytes:
    """Return a part of the file; empty if it is missing or damaged."""
    offset, length, checksum = part
    data = _read(_CachedLoader.start + offset, length) if length else b""
    return data if crc32(data) == checksum else b""


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
