"""Find, read and check YAML: profiles, config.yaml, risk rules; what a file says is kept as JSON until it changes."""

import os
import stat
import sys

from agent_dev import __version__
from agent_dev.config.profile import Layer, Settings, stack
from agent_dev.errors import BadConfiguration
from agent_dev.fs import cache
from agent_dev.sandbox.plan import expand
from agent_dev.sanitize import visible
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.policy.command_rules import Policy, Rule
    from agent_dev.risk.risk_rules import RiskRule

DEFAULT = "default"  # the profile of every agent that has none, and the weakest layer of all
_NOT_PROFILES = ("policy", "risks")
_FORMAT = 1  # of the cache
_COARSEST_CLOCK = 20_000_000  # ns between two times of change that a file system can tell apart
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_NO_NAME = "no name of a profile (letters, digits, ., _ and -)"
_VARIABLES = (("AGENT_DEV_HOME", "home"), ("AGENT_DEV_NET", "net"), ("AGENT_DEV_STATE", "state"))


class Request(Value):
    """Whose settings: the agent's name, the user's real home and environment, and what the command line says."""

    agent: str
    home: str
    environ: dict[str, str]
    config: str = ""
    profile_file: str = ""
    flags: Layer = Layer({}, {})
    repository: Layer = Layer({}, {})  # what the root's own settings may say


class _File(Value):
    """What a file says, without its problems: fields, and the lines of `field` and `field:item`."""

    path: str
    fields: dict[str, object]
    lines: dict[str, int]

    def layer(self, *, without: str = "extends") -> Layer:
        """Return the fields with where each came from."""
        fields = {name: value for name, value in self.fields.items() if name not in ("extends", without)}
        return Layer(fields, {name: f"{self.path}:{line}" for name, line in self.lines.items()})


def settings(request: Request) -> Settings:
    """Return what an agent gets. Raises BadConfiguration with a line for each problem of all files together.

    The weakest layer first: built in, the repository, shipped profiles, config.yaml, the user's own profiles, environment, flags.
    An agent without a profile gets `default`, without a command; a `--profile` file is called as the file is.
    """
    files = _Files(request.home, request.environ)
    base = files.shipped(DEFAULT)
    config = _config(files, request)
    found = _chosen(files, request)
    chain = _chain(files, found) if found else ()
    strongest = (_environment(request.environ, files.problems), request.flags)
    _check_flags(request.flags, files.problems)
    files.finish()
    name = _name_of(found) if found else DEFAULT
    weakest = base.layer() if found is base else base.layer(without="about")
    shipped = [file for file in chain if os.path.dirname(file.path) == files.folders[1]]
    own = [file for file in chain if file not in shipped]
    files_above = (*(file for file in shipped if file is not base), *config, *own)
    made = stack(name, (weakest, request.repository, *(file.layer() for file in files_above), *strongest))
    if request.repository.fields:
        from agent_dev.config.repository_settings import tighten  # most repositories have no settings of their own

        made = tighten(made, request.repository, request.flags)
    return made if name == request.agent or request.profile_file else made.but(profile=made.profile.but(command=()))


def names(home: str, environ: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return name, path and what it says about itself of each profile; of one that cannot be read its first problem."""
    files = _Files(home, environ)
    found = []
    for name, path in sorted(files.profiles().items()):
        before = len(files.problems)
        if not _is_profile_name(name):
            found.append((name, path, f"is not used: {_NO_NAME}"))
            continue
        file = files.read(path, "profile")
        said = _about(file, files) if file else ""
        found.append((name, path, "; ".join(files.problems[before : before + 1]) or said))
    files.problems.clear()
    files.finish()
    return tuple(found)


def risk_rules(environ: dict[str, str]) -> "tuple[RiskRule, ...]":
    """Return the shipped rules in their order, then the user's own; one of a shipped rule's name takes its place.

    Raises BadConfiguration with a line for each problem.
    """
    from agent_dev.risk.risk_rules import RiskRule  # deferred: dataclasses and enum, not before the agent has started

    files = _Files(os.path.realpath(environ.get("HOME", "/")), environ, "risks.json")
    found: dict[str, dict[str, Any]] = {}
    for path in (f"{profiles_folder()}/risks.yaml", f"{files.config}/risks.yaml"):
        file = files.read(path, "rules")
        rules = file.fields.items() if file else ()
        found |= {name: _with_tuples(rule) for name, rule in rules if isinstance(rule, dict)}
    files.finish()
    return tuple(RiskRule(name=name, **rule) for name, rule in found.items())


def policy(name: str, home: str, environ: dict[str, str]) -> "Policy":
    """Return the set of command rules of that name: the user's rules first, then the shipped ones, then what it extends."""
    from agent_dev.policy import command_rules as policies  # deferred: a start without a policy needs none of it

    files = _Files(home, environ, "policy.json")
    found = [files.read(f"{folder}/policy.yaml", "policy") for folder in (files.config, files.folders[1])]
    files.finish()
    sets: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for file in found:
        for said, one in file.fields.items() if file else ():
            if isinstance(one, dict):
                sets.setdefault(said, []).append((file.path if file else "", one))
    rules: list[policies.Rule] = []
    at, seen = name, set[str]()
    while at and at not in seen:
        if at not in sets:
            files.problems.append(f"policy: there is no set {at} (there are {', '.join(sets)})")
            break
        seen.add(at)
        rules += [_command_rule(path, rule) for path, one in sets[at] for rule in one.get("rules", ())]
        at = next((str(one["extends"]) for _, one in sets[at] if one.get("extends")), "")
    files.finish()
    return policies.Policy(name, tuple(rules))


def digest(policy: "Policy") -> str:
    """Return what names a set's rules, wherever they stand."""
    from hashlib import sha256  # when a session ends

    return sha256(repr([rule.but(origin="") for rule in policy.rules]).encode("utf-8", "replace")).hexdigest()


def _command_rule(path: str, fields: dict[str, object]) -> "Rule":
    from agent_dev.policy.command_rules import Rule  # deferred: as above

    said = {name: value for name, value in fields.items() if name != "line"}
    return Rule(origin=f"{path}:{fields['line']}", **_with_tuples(said))


def profiles_folder() -> str:
    """Return where the shipped profiles are: in the package as a wheel has them, else beside it as the repository does."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = package + "/profiles"
    return inside if os.path.isdir(inside) else os.path.dirname(package) + "/profiles"


def config_folder(home: str, environ: dict[str, str]) -> str:
    """Return where the user's own settings are."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (base if base.startswith("/") else home + "/.config") + "/agent-dev"


def believed(home: str, environ: dict[str, str], chosen: str = "") -> tuple[str, ...]:
    """Return all places of settings, links resolved: the folder, each file in it, `chosen`, and ourselves with our Python's."""
    folder = config_folder(home, environ)
    files = [f"{place}/{name}" for place, _, names in os.walk(folder) for name in names]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    python = (sys.prefix,) if sys.prefix != sys.base_prefix else ()  # of a virtual environment, which is ours alone
    chosen = chosen or environ.get("AGENT_DEV_CONFIG", "")
    places = (folder, *files, *((expand(chosen, home),) if chosen else ()), own, profiles_folder(), *python)
    return tuple(dict.fromkeys(map(os.path.realpath, places)))


class _Files:
    """The YAML files of one request, read through the cache. Problems are gathered, and raised together at the end."""

    def __init__(self, home: str, environ: dict[str, str], kept: str = "profiles.json") -> None:
        self.config = config_folder(home, environ)
        self.folders = (self.config + "/profiles", profiles_folder())
        self.problems: list[str] = []
        self._place = f"{cache.folder(environ)}/{kept}" if environ.get("HOME") or environ.get("XDG_CACHE_HOME") else ""
        self._kept = cache.read(self._place)
        self._is_new = False
        self._done: dict[str, _File | None] = {}

    def shipped(self, name: str) -> _File:
        """Return a shipped profile; one that is missing is an empty one with a problem."""
        path = f"{self.folders[1]}/{name}.yaml"
        file = self.read(path, "profile")
        if file is None:
            self.problems.append(f"{path}: does not exist, though it belongs to agent-dev")
        return file or _File(path, {}, {})

    def profile(self, name: str, *, beneath: str = "") -> _File | None:
        """Return the profile of that name, the user's own before a shipped one; the one `beneath` a file of that name."""
        if not _is_profile_name(name):
            return None
        paths = [f"{folder}/{name}.yaml" for folder in self.folders]
        for path in paths[paths.index(beneath) + 1 :] if beneath in paths else paths:
            file = self.read(path, "profile")
            if file is not None:
                return file
        return None

    def profiles(self) -> dict[str, str]:
        """Return the path of each profile by name, of files with a name that no profile can have, too."""
        found = {}
        for folder in reversed(self.folders):
            try:
                listed = os.listdir(folder)
            except OSError:
                continue  # the user's own folder need not be there
            found.update({name.removesuffix(".yaml"): f"{folder}/{name}" for name in listed if name.endswith(".yaml")})
            if folder == self.folders[1]:
                found = {name: path for name, path in found.items() if name not in _NOT_PROFILES}
        return found

    def read(self, path: str, kind: str) -> _File | None:
        """Return what a file says, None when there is none; with problems, what is right in it."""
        word = f"{kind}:{path}"
        if word not in self._done:
            self._done[word] = self._read(path, kind)
        return self._done[word]

    def _read(self, path: str, kind: str) -> _File | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path}: cannot be read: {error.strerror}")
            return _File(path, {}, {})
        return _unpacked(path, self._kept.get(f"{kind}:{path}"), _key(status)) or self._parse(path, kind)

    def _parse(self, path: str, kind: str) -> _File:
        # deferred: yaml costs 13 ms, and is not needed while a file is as it was
        from agent_dev.config import strict_yaml as yaml_file

        parsed = yaml_file.parse(path, kind)
        self.problems += parsed.problems
        if parsed.status and not parsed.problems and _is_settled(parsed.status):
            self._kept.pop(f"{kind}:{path}", None)
            self._kept[f"{kind}:{path}"] = {"key": _key(parsed.status), "fields": parsed.fields, "lines": parsed.lines}
            self._is_new = True
        return _File(path, parsed.fields, parsed.lines)

    def finish(self) -> None:
        """Keep what was read anew, and raise BadConfiguration if there were problems."""
        if self._is_new and self._place:
            cache.write(self._place, self._kept)
        if self.problems:
            raise BadConfiguration(message="\n".join(map(visible, self.problems)))


def _config(files: _Files, request: Request) -> tuple[_File, ...]:
    chosen = request.config or request.environ.get("AGENT_DEV_CONFIG", "")
    path = os.path.abspath(expand(chosen, request.home)) if chosen else files.config + "/config.yaml"
    file = files.read(path, "config")
    if file is None and chosen:
        files.problems.append(f"{'--config' if request.config else 'AGENT_DEV_CONFIG'}: {path} does not exist")
    return (file,) if file else ()


def _chosen(files: _Files, request: Request) -> _File | None:
    if not request.profile_file:
        return files.profile(request.agent) or files.profile(DEFAULT)
    path = os.path.abspath(expand(request.profile_file, request.home))
    file = files.read(path, "profile")
    if file is None:
        files.problems.append(f"--profile: {path} does not exist")
    return file


def _chain(files: _Files, first: _File) -> tuple[_File, ...]:
    """Return a profile and all that it extends, the farthest first. A user's own may extend the shipped one of its name."""
    chain = [first]
    while "extends" in (file := chain[-1]).fields:
        name = str(file.fields["extends"])
        where = f"{file.path}:{file.lines['extends']}: extends"
        below = files.profile(name, beneath=file.path)
        if below is None:
            files.problems.append(f"{where}: {_no_profile(name, file, files)}")
            break
        if any(below.path == other.path for other in chain):
            round_trip = " → ".join([_name_of(other) for other in chain] + [name])
            files.problems.append(f"{where}: goes round in a circle ({round_trip})")
            break
        chain.append(below)
    return tuple(reversed(chain))


def _about(file: _File, files: _Files) -> str:
    """Return what a profile says about itself, else what the nearest one that it extends says; but for the default's words."""
    words = [one.fields.get("about") for one in _chain(files, file) if one is file or _name_of(one) != DEFAULT]
    return str(next((said for said in reversed(words) if said), ""))


def _environment(environ: dict[str, str], problems: list[str]) -> Layer:
    fields: dict[str, object] = {}
    origins: dict[str, str] = {}
    for variable, field in _VARIABLES:
        if environ.get(variable):
            problems += _wrong(field, variable, [environ[variable]])
            fields[field], origins[field] = environ[variable], variable
    return Layer(fields, origins)


def _check_flags(flags: Layer, problems: list[str]) -> None:
    given = flags.fields
    if "net" in given:
        problems += _wrong("net", "--net", [str(given["net"])])
    for field in ("env", "set", "share"):
        items = given.get(field, ())
        if isinstance(items, tuple | list) and items:
            problems += _wrong(
                field, "--share" if field == "share" else "--env", [str(item[0] if field == "set" else item) for item in items]
            )


def _wrong(field: str, word: str, texts: list[str]) -> tuple[str, ...]:
    from agent_dev.config import schema  # deferred: most starts set neither flag nor variable

    return schema.one(field, word, texts)


def _no_profile(name: str, file: _File, files: _Files) -> str:
    from agent_dev.config import validators as checks  # deferred: brings difflib and re, only to complain

    if not _is_profile_name(name):
        return f"{name} is {_NO_NAME}"
    if name == _name_of(file):
        return f"there is no shipped profile {name}"
    return f"there is no profile {name}{checks.nearest(name, files.profiles())}"


def _name_of(file: _File) -> str:
    return os.path.basename(file.path).removesuffix(".yaml")


def _is_profile_name(name: str) -> bool:
    return name[:1].isalnum() and _NAME.issuperset(name) and name not in _NOT_PROFILES


def _with_tuples(rule: dict[str, object]) -> "dict[str, Any]":
    return {name: tuple(value) if isinstance(value, list) else value for name, value in rule.items()}


def _key(status: os.stat_result) -> list[object]:
    """Return what tells a file from what it was; the time of change too, which nobody can set."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, __version__, _FORMAT]


def _is_settled(status: os.stat_result) -> bool:
    """Whether a later change of the file would show: one soon after the last might get the same time."""
    import time  # deferred: only after parsing

    return stat.S_ISREG(status.st_mode) and time.time_ns() - status.st_ctime_ns > _COARSEST_CLOCK


def _unpacked(path: str, kept: object, key: list[object]) -> _File | None:
    if not isinstance(kept, dict) or kept.get("key") != key:
        return None
    fields, lines = kept.get("fields"), kept.get("lines")
    return _File(path, fields, lines) if isinstance(fields, dict) and isinstance(lines, dict) else None
