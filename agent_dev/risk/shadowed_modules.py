"""Python modules of a project that shadow standard ones: programs in that directory import them instead."""

import sys

# Directories at the front of sys.path: the directory of the started program, and those that a test run or an editable
# installation inserts (pytest: rootdir and rootdir/tests; setuptools: src layout).
_ROOTS = frozenset(("", "src", "lib", "python", "scripts", "script", "bin", "tools", "test", "tests", "examples", "benchmarks"))
# Modules that no program imports, or whose names are common for other files.
_HARMLESS = frozenset(("test", "this", "antigravity", "idlelib", "turtledemo", "lib2to3", "__main__", "nt", "msvcrt", "winreg"))
_NAMES = frozenset(name.lower() for name in sys.stdlib_module_names) - _HARMLESS
_ENDS = (".py", "/__init__.py")


def shadows_standard_module(path: bytes) -> bool:
    """Return whether a file becomes a module that is found before a standard one."""
    text = path.decode("utf-8", "surrogateescape").lower()
    for end in _ENDS:
        if text.endswith(end):
            folder, _, name = text.removesuffix(end).rpartition("/")
            if name in _NAMES and folder in _ROOTS:
                return True
    return False
