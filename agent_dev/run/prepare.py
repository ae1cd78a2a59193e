"""Everything that is decided before a session exists: settings, machine, place, and what is refused."""

import os

from agent_dev.config import load
from agent_dev.config.profile import BUILT_IN, Layer, Settings
from agent_dev.errors import CommandNotFound, NoInterpreter, NotExecutable, Refused, UsageError
from agent_dev.fs import cache
from agent_dev.git import repository as repo
from agent_dev.run import shown_paths as showing
from agent_dev.sandbox import machine, plan
from agent_dev.sandbox import preflight as look
from agent_dev.sandbox import refusals as refuse
from agent_dev.sandbox.plan import Machine, Setting, expand, is_below
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.sandbox.shared_sockets import Shared
else:
    Shared = object


class Options(Value):
    """What the command line says before the agent's name."""

    directory: str = ""
    home: str = ""
    net: str = ""
    ro: tuple[str, ...] = ()
    rw: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    merge: bool = True
    name: str = ""
    profile_file: str = ""
    config: str = ""
    debug: bool = False
    direct: str = ""  # by which provider of snapshots the real tree is written; "auto": by the best there is


class Request(Value):
    """A run: the agent's or command's words, the options, and the user's environment."""

    words: tuple[str, ...]
    options: Options
    environ: dict[str, str]
    is_command: bool = False  # after `--`: never a profile
    deadline: int = 0  # ns of the monotonic clock, when it is ended; 0: never
    gate: int = -1  # a file's descriptor; locked by whoever merges while this runs, and while this takes its base
    has_checkpoints: bool = True  # a transaction has none: what fails is looked at whole, what passes is merged


class Prepared(Value):
    """All that is known before the session is made."""

    settings: Settings
    machine: Machine
    place: repo.Place
    cwd: str
    command: tuple[str, ...]
    agent_home: str
    homes: str  # where all agent homes lie, when each profile or project has one
    store: store.Store
    cache: str
    overlays: tuple[str, ...]
    ro: tuple[str, ...]
    rw: tuple[str, ...]
    tools: tuple[str, ...]
    caches: tuple[str, ...]
    covers: tuple[tuple[str, tuple[str, ...]], ...]  # of tools, caches and `ro`: path, credentials it has or could have
    shared: tuple[Shared, ...]
    hidden: tuple[tuple[str, str], ...]  # tool directories not shown, and why
    said: tuple[str, ...]  # about settings of the repository's own that do not count

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The places that an agent may have written, from which the host takes no program."""
        return (self.place.root, self.agent_home, self.homes, *self.overlays, *self.rw)


def prepare(request: Request) -> Prepared:
    """Decide everything for a run. Raises AgentDevError; nothing has been created but what the cache keeps."""
    options, environ = request.options, request.environ
    if not request.words[0]:
        raise UsageError(message="the agent's name is empty", hint="agent-dev profiles lists the agents there are")
    here = os.path.realpath(repo.absolute(options.directory))
    home = machine.home(environ)
    place = repo.find(here)
    agent = "" if request.is_command else request.words[0]
    settings, said = _settings(request, agent, home, place.root)
    profile = settings.profile
    agent_home = os.path.realpath(plan.home_place(profile, home, place.root))
    homes = os.path.realpath(plan.homes_folder(profile, home)) if "{" in profile.home else agent_home
    overlays, rw = _paths(profile.overlay, home, "overlay", settings), _paths(profile.rw, home, "rw", settings)
    prepared = Prepared(
        settings=settings,
        machine=machine.look(environ, _untrusted(home, place.root, agent_home, homes, *overlays, *rw)),
        place=place,
        cwd=here,
        command=_command(profile.command, request.words, is_profile=profile.name == agent),
        agent_home=agent_home,
        homes=homes,
        store=store.place(expand(profile.state, home), environ),
        cache=cache.folder(environ),
        overlays=overlays,
        ro=_paths(profile.ro, home, "ro", settings),
        rw=rw,
        tools=(),
        caches=(),
        covers=(),
        shared=(),
        hidden=(),
        said=said,
    )
    _refuse(prepared, request)
    _refuse_tables(prepared, environ)
    prepared = _with_path(showing.with_tools(prepared))
    if profile.share:
        prepared = prepared.but(shared=_shared(prepared, environ))
    _look_up(prepared, is_direct=bool(options.direct))
    return prepared


def _settings(request: Request, agent: str, home: str, root: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings, with the repository's own as far as the user trusted them, and what there is to say of these."""
    options = request.options
    wanted = load.Request(
        agent=agent,
        home=home,
        environ=request.environ,
        config=options.config,
        profile_file=options.profile_file,
        flags=flags(options),
    )
    settings = load.settings(wanted)
    if not os.path.lexists(f"{root}/.agent-dev.yaml"):
        return settings, ()
    from agent_dev.config import trust_store as trust  # most repositories have no settings of their own

    state = store.place(expand(settings.profile.state, home), request.environ).path
    layer, said = trust.layer(state, root)
    return load.settings(wanted.but(repository=layer)), (said,) if said else ()


def _untrusted(home: str, *places: str) -> tuple[str, ...]:
    """Return the places but those that hold the user's home: they are refused later, with their own reason."""
    return tuple(place for place in places if not is_below(home, place))


def _with_path(prepared: Prepared) -> Prepared:
    """Settle PATH: a `*` in a directory's name, and a `?` behind it, which stays where there is none (docs/profiles.md)."""
    settings = prepared.settings
    found = {path: _settled(path, prepared) for path in settings.profile.path}
    origins = {f"path:{found[path]}": settings.origins.get(f"path:{path}", BUILT_IN) for path in found if found[path] != path}
    profile = settings.profile.but(path=tuple(dict.fromkeys(filter(None, found.values()))))
    return prepared.but(settings=settings.but(profile=profile, origins=origins | settings.origins))


def _settled(path: str, prepared: Prepared) -> str:
    if "*" in path:
        return _newest(expand(path, prepared.machine.home), prepared)
    if not path.endswith("?"):
        return path
    known = path[:-1]
    place = on_host(expand(known, prepared.machine.home), prepared)
    return known if place and look.may_be_directory(place, len(place) - len(known.removeprefix("~/"))) else path


def _newest(pattern: str, prepared: Prepared) -> str:
    folder, _, below = pattern.partition("/*/")
    place = on_host(folder, prepared) or ""
    try:
        names = [name for name in os.listdir(place) if os.path.isdir(f"{place}/{name}/{below}")]
    except OSError:
        return ""
    return f"{folder}/{max(names, key=_version)}/{below}" if names else ""


def _version(name: str) -> tuple[list[int], str]:
    return [int(part) for part in name.lstrip("v").split(".") if part.isdigit()], name


def flags(options: Options) -> Layer:
    """Return what the command line says, as the strongest layer."""
    pairs = {
        "home": repo.absolute(expand(options.home, os.environ.get("HOME", ""))) if options.home else "",
        "net": options.net,
        "ro": tuple(map(repo.absolute, options.ro)),
        "rw": tuple(map(repo.absolute, options.rw)),
        "overlay": tuple(map(repo.absolute, options.overlay)),
        "share": options.share,
        "env": tuple(item for item in options.env if "=" not in item),
        "set": tuple(tuple(item.split("=", 1)) for item in options.env if "=" in item),
        "limits": tuple(map(limit_of, options.limit)),
    }
    fields: dict[str, object] = {name: value for name, value in pairs.items() if value}
    if not options.merge:
        fields["merge"] = False
    words = {"set": "--env", "limits": "--limit", "merge": "--no-merge"}
    return Layer(fields, {name: words.get(name, f"--{name}") for name in fields})


def limit_of(item: str) -> tuple[str, int]:
    """Return name and value of a `--limit`. Raises UsageError."""
    from agent_dev.config import limits  # only where a limit is given
    from agent_dev.config import validators as checks  # only where a limit is given

    name, _, text = item.partition("=")
    if name not in limits.NAMES:
        hint = f"the limits are {', '.join(limits.NAMES)}"
        raise UsageError(message=f"--limit {item}: no limit {name}{checks.nearest(name, limits.NAMES)}", hint=hint)
    try:
        return name, limits.parse(name, text)
    except ValueError as error:
        raise UsageError(message=f"--limit {name}: {error}", hint="--limit NAME=VALUE") from None


def _command(standing: tuple[str, ...], words: tuple[str, ...], *, is_profile: bool) -> tuple[str, ...]:
    return (*standing, *words[1:]) if is_profile and standing else words


def _paths(paths: tuple[str, ...], home: str, field: str, settings: Settings) -> tuple[str, ...]:
    found = []
    for path in paths:
        real = os.path.realpath(expand(path, home))
        if not os.path.exists(real):
            origin = settings.origins.get(f"{field}:{path}", BUILT_IN)
            raise Refused(message=f"{path} does not exist (from {origin})")
        found.append(real)
    return tuple(found)


def _refuse(prepared: Prepared, request: Request) -> None:
    is_direct = bool(request.options.direct)
    ground = refuse.Ground(
        home=prepared.machine.home,
        own=(
            ("the state directory", prepared.store.path),
            ("the agent home", prepared.agent_home),
            ("the cache", prepared.cache),
        ),
        mounts=_mounts(),
        git=_git_dirs(prepared),
        believed=_believed(prepared, request) if prepared.rw or is_direct else (),
    )
    word = "the repository" if prepared.place.git else "the directory"
    wanted = (
        refuse.Wanted(word, prepared.place.root, is_root=True, is_writable=is_direct),
        *(refuse.Wanted("--overlay", path, is_root=True) for path in prepared.overlays),
        *(refuse.Wanted("--ro", path) for path in prepared.ro),
        *(refuse.Wanted("--rw", path, is_writable=True) for path in prepared.rw),
    )
    found = refuse.reason(wanted, ground)
    if found:
        raise Refused(message=found[0], hint=found[1])
    for path in prepared.overlays:
        repo.refuse_git_dir(path)
        repo.refuse_kind(repo.Place(path, repo.git_of(path)))
    repo.refuse_kind(prepared.place)
    _refuse_owner(prepared)


def _believed(prepared: Prepared, request: Request) -> tuple[str, ...]:
    return load.believed(prepared.machine.home, request.environ, request.options.config)


def _refuse_tables(prepared: Prepared, environ: dict[str, str]) -> None:
    tables = [path for path in _git_dirs(prepared) if repo.has_reftable(path)]
    if tables:
        from agent_dev.git import reftable  # only for those: other starts need nothing of it

        git = machine.program("git", environ, prepared.untrusted)
        for path in tables:
            reftable.refuse_unread(path, git, environ)


def _git_dirs(prepared: Prepared) -> tuple[str, ...]:
    """Return the user's git dirs of all roots."""
    found = (prepared.place.git, *map(repo.git_of, prepared.overlays))
    return tuple(path for git in found if git for path in (git.folder, git.common))


def _mounts() -> tuple[str, ...]:
    with open("/proc/self/mountinfo", "rb", 0) as file:
        return tuple(map(os.fsdecode, refuse.mount_points(file.read())))


def _refuse_owner(prepared: Prepared) -> None:
    owner = os.stat(prepared.place.root).st_uid
    if prepared.machine.uid == 0 and owner != 0:
        who = machine.user_name(owner)
        raise Refused(message=f"{prepared.place.root} belongs to {who}, and you are root", hint=f"sudo -u {who} agent-dev …")
    if not os.access(prepared.place.root, os.R_OK | os.X_OK):
        raise Refused(message=f"{prepared.place.root} cannot be read")


def locate(prepared: Prepared, *, is_direct: bool = False) -> tuple[str, str]:
    """Return where the command lies inside and on the host, looked up as it will be: agent home, tools, system, our own."""
    name = prepared.command[0]
    folders = plan.inside_path(prepared.settings.profile, prepared.machine.home)
    for path in [name] if "/" in name else [f"{folder}/{name}" for folder in folders]:
        inside = os.path.normpath(os.path.join(prepared.cwd, path))
        outside = on_host(inside, prepared)
        if outside and os.path.lexists(outside):
            return inside, outside
    from agent_dev.run import command_not_found as missing  # rare

    if missing.is_there(name, prepared, is_direct=is_direct):
        inside = f"{plan.PROGRAMS}/{name}"
        return inside, on_host(inside, prepared) or ""
    hint = prepared.settings.profile.install or missing.hint(name, prepared, is_direct=is_direct)
    raise CommandNotFound(command=name, hint=hint)


def _look_up(prepared: Prepared, *, is_direct: bool) -> None:
    """Raise CommandNotFound or NotExecutable for a command that would not start; a link is left for the inside to follow."""
    _, outside = locate(prepared, is_direct=is_direct)
    if os.path.islink(outside):
        return
    if os.path.isdir(outside) or not os.access(outside, os.X_OK):
        hint = f"chmod +x {outside}" if os.path.isfile(outside) else "it is a directory"
        raise NotExecutable(command=prepared.command[0], hint=hint)
    interpreter = look.interpreter(outside)
    place = on_host(interpreter, prepared)
    if interpreter and (place is None or not os.path.lexists(place)):
        hint = f"the first line of {outside} names it"
        raise NoInterpreter(command=prepared.command[0], interpreter=interpreter, hint=hint)


def on_host(path: str, prepared: Prepared) -> str | None:
    """Return where a path of the inside lies on the host; None when it is not shown."""
    home = prepared.machine.home
    if path.startswith(plan.RUN + "/"):
        return "/bin/sh"
    for shown in (
        prepared.place.root,
        *prepared.overlays,
        *prepared.ro,
        *prepared.rw,
        *prepared.tools,
        *prepared.caches,
    ):
        if is_below(path, shown):
            return path
    if is_below(path, home):
        return prepared.agent_home + path[len(home) :]
    system = (*prepared.machine.system, *(link for link, _ in prepared.machine.links))
    return path if any(is_below(path, place) for place in system) else None


def _files(prepared: Prepared, environ: dict[str, str]) -> tuple[tuple[str, bytes], ...]:
    """Return the files of ours inside: the terminal's description, and the demo's script."""
    files = look.terminfo(environ, prepared.machine.home)
    if prepared.settings.profile.name != "demo":
        return files
    with open(f"{load.profiles_folder()}/demo-agent.sh", "rb", 0) as file:
        return (*files, (f"{plan.RUN}/demo-agent.sh", file.read()))


def _door(prepared: Prepared, folder: str) -> plan.Door | None:
    if not prepared.settings.profile.tx_inside:
        return None
    from agent_dev.inside.control import socket_file as door  # only where an agent makes transactions of its own

    return door.door(folder, prepared.machine.system, prepared.untrusted)


def _shared(prepared: Prepared, environ: dict[str, str]) -> tuple[Shared, ...]:
    from agent_dev.sandbox import shared_sockets as shares  # most runs hand nothing in

    ground = shares.Ground(environ, prepared.machine.uid, prepared.machine.home, prepared.untrusted)
    return shares.shared(prepared.settings.profile.share, ground)


def setting(prepared: Prepared, parts: Setting, environ: dict[str, str]) -> Setting:
    """Complete the session's part of a plan with what was decided here."""
    masks, blanks = showing.masked(prepared, parts.roots)
    covered = {path for path, _ in prepared.covers if path in prepared.tools or path in prepared.ro}
    return parts.but(
        tools=prepared.tools,
        covers=tuple((path, showing.front(prepared.store.path, names)) for path, names in prepared.covers if path in covered),
        masks=masks,
        blanks=blanks,
        blank=showing.blank(prepared.store.path),
        shares=tuple(mount for one in prepared.shared for mount in one.mounts),
        ro=prepared.ro,
        rw=prepared.rw,
        door=_door(prepared, f"{prepared.store.sessions}/{parts.session}"),
        files=(*parts.files, *_files(prepared, environ)),
        env=(*plan.allowed_env(prepared.settings.profile, environ), *(pair for one in prepared.shared for pair in one.env)),
    )
