"""Import pygit2 also on a machine without CA certificates, such as a small container, where it refuses to be imported."""

import os
import ssl
from functools import cache
from types import ModuleType


@cache
def load_pygit2() -> ModuleType:
    """Return pygit2. It looks for certificates at its import only, and nothing here connects by TLS with it."""
    found = ssl.get_default_verify_paths()
    if found.cafile or found.capath:
        import pygit2  # here and below: slow, and only needed to compare lines

        return pygit2
    name, before = found.openssl_capath_env, os.environ.get(found.openssl_capath_env)
    os.environ[name] = os.sep
    try:
        import pygit2

        return pygit2
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
