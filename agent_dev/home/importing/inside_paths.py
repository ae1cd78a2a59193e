"""Paths in settings, as they are in the sandbox, where the agent home is in place of the real home."""

import os

from agent_dev.config.profile import Profile
from agent_dev.paths import expand, is_below, split_optional

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/gnu", "/etc", "/dev", "/proc")
_HOMES = ("${HOME}", "$HOME", "~")


class InsidePaths:
    """The paths that exist in the sandbox of one agent."""

    def __init__(self, profile: Profile, home: str, spelling: str, agent_home: str, root: str) -> None:
        """`home`: the real home, without links; `spelling`: as in HOME. `root`: the repository."""
        self._home, self._spelling, self._agent_home = home, spelling, agent_home
        items = (*profile.tools, *profile.caches, *profile.ro, *profile.rw, *profile.overlay)
        self._shown = (root, *(os.path.realpath(expand(split_optional(item)[0], home)) for item in items))
        self.imported: tuple[str, ...] = ()  # paths that will be in the agent home

    def locate(self, path: str) -> str | None:
        """Return a path as it is in the sandbox, None if it is not there; text that is no path of this machine stays as it is."""
        for prefix in _HOMES:
            if path.startswith(f"{prefix}/"):
                return path if self._is_in_home(path[len(prefix) + 1 :]) else None
        for folder in (self._agent_home, self._home, self._spelling):
            if folder != "/" and is_below(path, folder):
                return f"{self._home}{path[len(folder) :]}" if self._is_in_home(path[len(folder) + 1 :]) else None
        if not os.path.lexists(path):
            return path
        return path if any(is_below(path, folder) for folder in (*_SYSTEM, *self._shown)) else None

    def _is_in_home(self, path: str) -> bool:
        path = os.path.normpath(path) if path else ""
        if path.startswith("../"):
            return False
        if not path or os.path.lexists(f"{self._agent_home}/{path}"):
            return True
        full = f"{self._home}/{path}"
        if not os.path.lexists(full):
            return False
        is_imported = any(is_below(path, one) or is_below(one, path) for one in self.imported)
        return is_imported or any(is_below(full, folder) for folder in self._shown)
