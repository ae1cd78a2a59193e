"""Find, read and check YAML: profiles, config.yaml, risk rules; parsed files are cached as JSON until they change."""

import os
import stat
import sys

from agent_dev import __version__
from agent_dev.config.profile import GATEWAY_NETS, Layer, Settings, merge_layers
from agent_dev.errors import InvalidConfiguration
from agent_dev.fs import cache
from agent_dev.paths import expand, is_below
from agent_dev.sanitize import visible
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
REMEMBERED_KIND = "network"  # rules that answers of the user's made
DEFAULT_PROFILE = "default"  # the profile of an agent without one, and the lowest layer
_NOT_PROFILES = ("policy", "risks")
_FORMAT = 1  # of the cache
_COARSEST_CLOCK = 20_000_000  # ns: the coarsest resolution of ctime
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_NO_NAME = "not a valid profile name (letters, digits, ., _ and -)"
_VARIABLES = (("AGENT_DEV_HOME", "home"), ("AGENT_DEV_NET", "net"), ("AGENT_DEV_STATE", "state"))


class SettingsRequest(Value):
    """A request for settings: the agent's name, the user's real home and environment, and the command line's values."""

    agent: str
    home: str
    environ: dict[str, str]
    config: str = ""
    profile_file: str = ""
    flags: Layer = Layer({}, {})
    repository: Layer = Layer({}, {})  # the settings of the repository that apply
    is_read_only: bool = False  # do not write the cache


class _File(Value):
    """The content of a file without its problems: fields, and the lines of `field` and `field:item`."""

    path: str
    fields: dict[str, object]
    lines: dict[str, int]

    def layer(self, *, without: str = "extends") -> Layer:
        """Return the fields with their origins."""
        fields = {name: value for name, value in self.fields.items() if name not in ("extends", without)}
        return Layer(fields, {name: f"{self.path}:{line}" for name, line in self.lines.items()})


def load_settings(request: SettingsRequest) -> Settings:
    """Return the settings of an agent. Raises InvalidConfiguration with one line for each problem in any of the files.

    Lowest layer first: built in, the repository, shipped profiles, config.yaml, the user's own profiles, environment, flags.
    With a gateway, rules that the user's answers made and the hosts of the agent are added.
    A word without a profile gets the profile or config.yaml that lists it in `programs`, else `default`, without a command. A
    `--profile` file gives the profile its name.
    """
    files = SettingsFiles(request.home, request.environ)
    base = files.shipped(DEFAULT_PROFILE)
    config = _config(files, request)
    found = _selected(files, request, config)
    chain = _chain(files, found) if found else ()
    highest = (_environment(request.environ, files.problems), request.flags)
    _check_flags(request.flags, files.problems)
    if not request.is_read_only:
        files.save()
    files.check()
    name = _name_of(found) if found else DEFAULT_PROFILE
    lowest = base.layer() if found is base else base.layer(without="about")
    shipped = [file for file in chain if os.path.dirname(file.path) == files.folders[1]]
    own = [file for file in chain if file not in shipped]
    files_above = (*(file for file in shipped if file is not base), *config, *own)
    layers = (lowest, request.repository, *(file.layer() for file in files_above))
    made = _merge(name, (*layers, *highest), request)
    if made.profile.net in GATEWAY_NETS:
        from agent_dev.config.agent_hosts import add_agent_hosts  # deferred: only with a gateway

        remembered = _remembered(files, name, request)
        made = add_agent_hosts(_merge(name, (*layers, *remembered, *highest), request))
    if name == request.agent or request.profile_file:
        return made
    return made.replace(profile=made.profile.replace(command=(), install=""))  # the profile's command is another one


def _merge(name: str, layers: tuple[Layer, ...], request: SettingsRequest) -> Settings:
    made = merge_layers(name, layers)
    if not request.repository.fields:
        return made
    from agent_dev.config.repository_settings import apply_restrictions  # deferred: most repositories have no settings

    return apply_restrictions(made, request.repository, request.flags)


def _remembered(files: "SettingsFiles", name: str, request: SettingsRequest) -> tuple[Layer, ...]:
    """Return the rules that the user's answers made for a profile. Raises InvalidConfiguration."""
    file = files.read(remembered_path(request.home, request.environ, name), REMEMBERED_KIND)
    if not request.is_read_only:
        files.save()
    files.check()
    return (file.layer(),) if file else ()


def list_profiles(home: str, environ: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return name, path and description of each profile; of an unreadable one, its first problem as the description."""
    files = SettingsFiles(home, environ)
    found = []
    for name, path in sorted(files.profiles().items()):
        before = len(files.problems)
        if not _is_profile_name(name):
            found.append((name, path, f"is ignored: {_NO_NAME}"))
            continue
        file = files.read(path, "profile")
        about = _about(file, files) if file else ""
        found.append((name, path, "; ".join(files.problems[before : before + 1]) or about))
    files.save()
    return tuple(found)


def list_profile_names(home: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the names of all profiles without reading any."""
    return tuple(sorted(filter(_is_profile_name, SettingsFiles(home, environ).profiles())))


def profiles_folder() -> str:
    """Return the directory of the shipped profiles: in the package (wheel), or next to it (repository)."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = package + "/profiles"
    return inside if os.path.isdir(inside) else os.path.dirname(package) + "/profiles"


def config_folder(home: str, environ: dict[str, str]) -> str:
    """Return the directory of the user's settings."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (base if base.startswith("/") else home + "/.config") + "/agent-dev"


def remembered_path(home: str, environ: dict[str, str], profile: str) -> str:
    """Return the path of the network rules that the user's answers made for a profile."""
    return f"{config_folder(home, environ)}/network/{profile}.yaml"


def settings_paths(home: str, environ: dict[str, str], explicit: str = "") -> tuple[str, ...]:
    """Return all paths of settings, links resolved: the directory, each file in it, `explicit`, our packages and our Python."""
    folder = config_folder(home, environ)
    files = [f"{parent}/{name}" for parent, _, names in os.walk(folder) for name in names]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    programs = (own, f"{os.path.dirname(own)}/tui", profiles_folder())
    python = [os.path.dirname(os.__file__), *filter(None, [sys.executable])]
    python += [sys.prefix] if sys.prefix != sys.base_prefix else []  # our virtual environment
    explicit = explicit or environ.get("AGENT_DEV_CONFIG", "")
    paths = (folder, *files, *((expand(explicit, home),) if explicit else ()), *programs, *python)
    return tuple(dict.fromkeys(map(os.path.realpath, paths)))


class SettingsFiles:
    """The YAML files of one request, read through the cache. Problems are collected and raised together at the end."""

    def __init__(
        self,
        home: str,
        environ: dict[str, str],
        cache_name: str = "profiles.json",
        choices: "dict[str, tuple[str, ...]] | None" = None,
    ) -> None:
        self._choices = choices or {}
        self.config = config_folder(home, environ)
        self.folders = (self.config + "/profiles", profiles_folder())
        self.problems: list[str] = []
        self._cache_path = f"{cache.folder(environ)}/{cache_name}" if environ.get("HOME") or environ.get("XDG_CACHE_HOME") else ""
        self._cached = cache.read(self._cache_path)
        self._is_new = False
        self._done: dict[str, _File | None] = {}

    def shipped(self, name: str) -> _File:
        """Return a shipped profile; a missing one is empty and reported as a problem."""
        path = f"{self.folders[1]}/{name}.yaml"
        file = self.read(path, "profile")
        if file is None:
            self.problems.append(f"{path}: missing from this installation of agent-dev")
        return file or _File(path, {}, {})

    def profile(self, name: str, *, beneath: str = "") -> _File | None:
        """Return the profile of that name, the user's before a shipped one; `beneath`: the next one below that file."""
        if not _is_profile_name(name):
            return None
        paths = [f"{folder}/{name}.yaml" for folder in self.folders]
        for path in paths[paths.index(beneath) + 1 :] if beneath in paths else paths:
            file = self.read(path, "profile")
            if file is not None:
                return file
        return None

    def profiles(self) -> dict[str, str]:
        """Return the path of each profile by name, including files whose name is not valid."""
        found = {}
        for folder in reversed(self.folders):
            try:
                listed = os.listdir(folder)
            except OSError:
                continue  # the user's directory is optional
            found.update({name.removesuffix(".yaml"): f"{folder}/{name}" for name in listed if name.endswith(".yaml")})
            if folder == self.folders[1]:
                found = {name: path for name, path in found.items() if name not in _NOT_PROFILES}
        return found

    def read(self, path: str, kind: str) -> _File | None:
        """Return the content of a file, without its invalid fields; None if it does not exist."""
        key = f"{kind}:{path}"
        if key not in self._done:
            self._done[key] = self._read(path, kind)
        return self._done[key]

    def _read(self, path: str, kind: str) -> _File | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            if not any(os.path.islink(one) and not os.path.exists(one) for one in (path, os.path.dirname(path))):
                return None
            reason = "a link leads to nothing"  # its settings may restrict the agent, such as `net: none`
        except OSError as error:
            reason = str(error.strerror)
        else:
            if not (stat.S_ISFIFO(status.st_mode) and is_below(path, self.config)):  # elsewhere it may be the shell's <(…)
                return _unpacked(path, self._cached.get(f"{kind}:{path}"), _key(status)) or self._parse(path, kind)
            reason = "it is a FIFO"
        self.problems.append(f"{path}: cannot be read: {reason}")
        return _File(path, {}, {})

    def _parse(self, path: str, kind: str) -> _File:
        # deferred: yaml takes 13 ms, and is not needed for unchanged files
        from agent_dev.config import strict_yaml

        parsed = strict_yaml.parse(path, kind, self._choices)
        self.problems += parsed.problems
        if parsed.status and not parsed.problems and _is_old_enough(parsed.status):
            self._cached.pop(f"{kind}:{path}", None)
            self._cached[f"{kind}:{path}"] = {"key": _key(parsed.status), "fields": parsed.fields, "lines": parsed.lines}
            self._is_new = True
        return _File(path, parsed.fields, parsed.lines)

    def save(self) -> None:
        """Save the parsed files to the cache."""
        if self._is_new and self._cache_path:
            cache.write(self._cache_path, self._cached)

    def save_and_check(self) -> None:
        """Save the parsed files to the cache. Raises InvalidConfiguration if there were problems."""
        self.save()
        self.check()

    def check(self) -> None:
        """Raise InvalidConfiguration if there were problems."""
        if self.problems:
            raise InvalidConfiguration(message="\n".join(map(visible, self.problems)))


def _config(files: SettingsFiles, request: SettingsRequest) -> tuple[_File, ...]:
    explicit = request.config or request.environ.get("AGENT_DEV_CONFIG", "")
    path = os.path.abspath(expand(explicit, request.home)) if explicit else files.config + "/config.yaml"
    file = files.read(path, "config")
    if file is None and explicit:
        files.problems.append(f"{'--config' if request.config else 'AGENT_DEV_CONFIG'}: {path} does not exist")
    return (file,) if file else ()


def _selected(files: SettingsFiles, request: SettingsRequest, config: tuple[_File, ...]) -> _File | None:
    if not request.profile_file:
        return files.profile(request.agent) or _listing_profile(files, request, config) or files.profile(DEFAULT_PROFILE)
    path = os.path.abspath(expand(request.profile_file, request.home))
    file = files.read(path, "profile")
    if file is None:
        files.problems.append(f"--profile: {path} does not exist")
    return file


def _listing_profile(files: SettingsFiles, request: SettingsRequest, config: tuple[_File, ...]) -> _File | None:
    """Return the profile that lists a program in `programs`, unless config.yaml does."""
    if not request.agent or any(_lists_program(file, request.agent) for file in config):
        return None
    others = SettingsFiles(request.home, request.environ)  # separate ones: only problems of the selected files count
    names = [
        name
        for name in sorted(filter(_is_profile_name, others.profiles()))
        if _lists_program(others.profile(name), request.agent)
    ]
    others.problems.clear()
    others.save_and_check()
    if len(names) > 1:
        found = ", ".join(names)
        files.problems.append(f"{request.agent} is in `programs` of several profiles: {found} (agent-dev -- {request.agent})")
    return files.profile(names[0]) if names else None


def _lists_program(file: _File | None, program: str) -> bool:
    listed = file.fields.get("programs") if file else ()
    return isinstance(listed, tuple | list) and program in listed


def _chain(files: SettingsFiles, first: _File) -> tuple[_File, ...]:
    """Return a profile and those that it extends, the base first. A user's profile may extend the shipped one of its name."""
    chain = [first]
    while "extends" in (file := chain[-1]).fields:
        name = str(file.fields["extends"])
        where = f"{file.path}:{file.lines['extends']}: extends"
        below = files.profile(name, beneath=file.path)
        if below is None:
            files.problems.append(f"{where}: {_no_profile(name, file, files)}")
            break
        if any(below.path == other.path for other in chain):
            cycle = " → ".join([_name_of(other) for other in chain] + [name])
            files.problems.append(f"{where}: circular: {cycle}")
            break
        chain.append(below)
    return tuple(reversed(chain))


def _about(file: _File, files: SettingsFiles) -> str:
    """Return a profile's description, else that of the nearest profile that it extends, except `default`."""
    texts = [one.fields.get("about") for one in _chain(files, file) if one is file or _name_of(one) != DEFAULT_PROFILE]
    return str(next((text for text in reversed(texts) if text), ""))


def _environment(environ: dict[str, str], problems: list[str]) -> Layer:
    fields: dict[str, object] = {}
    origins: dict[str, str] = {}
    for variable, field in _VARIABLES:
        if environ.get(variable):
            problems += _problems(field, variable, [environ[variable]])
            fields[field], origins[field] = environ[variable], variable
    return Layer(fields, origins)


def _check_flags(flags: Layer, problems: list[str]) -> None:
    given = flags.fields
    if "net" in given:
        problems += _problems("net", "--net", [str(given["net"])])
    for field in ("env", "set", "share", "allow", "deny"):
        items = given.get(field, ())
        if isinstance(items, tuple | list) and items:
            source = "--env" if field == "set" else f"--{field}"
            problems += _problems(field, source, [str(item[0] if field == "set" else item) for item in items])


def _problems(field: str, source: str, texts: list[str]) -> tuple[str, ...]:
    from agent_dev.config import schema  # deferred: most runs set neither flag nor variable

    return schema.check_values(field, source, texts)


def _no_profile(name: str, file: _File, files: SettingsFiles) -> str:
    from agent_dev.config import validators  # deferred: imports difflib and re

    if not _is_profile_name(name):
        return f"{name} is {_NO_NAME}"
    if name == _name_of(file):
        return f"there is no shipped profile {name}"
    return f"there is no profile {name}{validators.did_you_mean(name, files.profiles())}"


def _name_of(file: _File) -> str:
    return os.path.basename(file.path).removesuffix(".yaml")


def _is_profile_name(name: str) -> bool:
    return name[:1].isalnum() and _NAME.issuperset(name) and name not in _NOT_PROFILES


def as_profile_name(word: str) -> str:
    """Return a valid profile name for the name of a program."""
    return "".join(one if one in _NAME else "-" for one in word).lstrip("._-") or "command"


def lists_to_tuples(rule: dict[str, object]) -> "dict[str, Any]":
    """Return a rule with tuples in place of lists, which the cache returns."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in rule.items()}


def _key(status: os.stat_result) -> list[object]:
    """Return a key that changes with the file; includes the ctime, which cannot be set."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, __version__, _FORMAT]


def _is_old_enough(status: os.stat_result) -> bool:
    """Return whether the ctime is old enough for every later change to show in it."""
    import time  # deferred: only after parsing

    return stat.S_ISREG(status.st_mode) and time.time_ns() - status.st_ctime_ns > _COARSEST_CLOCK


def _unpacked(path: str, cached: object, key: list[object]) -> _File | None:
    if not isinstance(cached, dict) or cached.get("key") != key:
        return None
    fields, lines = cached.get("fields"), cached.get("lines")
    return _File(path, fields, lines) if isinstance(fields, dict) and isinstance(lines, dict) else None
