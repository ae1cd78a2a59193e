"""Decide everything before a session exists: settings, machine, root, refusals."""

import os

from agent_dev import paths as agent_dev_paths
from agent_dev.config import load
from agent_dev.config.options import settings_request
from agent_dev.config.profile import BUILT_IN, GATEWAY_NETS, Profile, Settings
from agent_dev.errors import (
    AgentNotInstalled,
    CannotStart,
    CommandNotFound,
    InterpreterNotFound,
    NewerState,
    NotExecutable,
    Refused,
    UnknownAgent,
    UsageError,
)
from agent_dev.fs import cache
from agent_dev.git import repository
from agent_dev.linux import programs, users
from agent_dev.paths import escape_in_string, expand, is_below, split_optional
from agent_dev.run import shown_paths
from agent_dev.run.request import AGENT, COMMAND, PreparedRun, RunRequest
from agent_dev.sandbox import machine, plan, preflight, unsafe_paths
from agent_dev.session import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.config.agent_instructions import AgentInstructions
    from agent_dev.sandbox.plan import Machine
    from agent_dev.sandbox.shared_sockets import SharedSocket
else:
    SharedSocket = object

_OF_THE_KERNEL = ("/dev", "/proc")


def prepare_run(request: RunRequest, facts: "Machine | None" = None, *, with_command: bool = True) -> PreparedRun:
    """Decide everything for a run. Raises AgentDevError; only caches are created.

    `facts`: those of the machine, if a command is only looked up, not its credentials to mask. `with_command`: check the command.
    """
    options, environ = request.options, request.environ
    if not request.arguments[0]:
        raise UsageError(message="the agent's name is empty", hint="list agents with `agent-dev profiles`")
    cwd = os.path.realpath(agent_dev_paths.absolute(options.directory))
    home = users.home_directory(environ)
    location = repository.find_location(cwd)
    agent = "" if request.kind == COMMAND else request.arguments[0]
    settings, notices = _settings(request, agent, home, location.root)
    settings, found = _with_instructions(settings, agent, location.root)
    agent_home = os.path.realpath(plan.agent_home_path(settings.profile, home, location.root))
    settings, anew = _with_conversation(settings, request, agent_home, cwd)
    profile = _checked_profile(request, agent, settings)
    homes = os.path.realpath(plan.agent_homes_folder(profile, home)) if "{" in profile.home else agent_home
    overlays, rw = _paths(profile.overlay, home, "overlay", settings), _paths(profile.rw, home, "rw", settings)
    prepared = PreparedRun(
        settings=settings,
        machine=facts
        or machine.inspect_machine(
            environ, _untrusted_paths(home, location.root, agent_home, homes, *overlays, *rw), profile.net, _etc_files(profile)
        ),
        location=location,
        cwd=cwd,
        command=_command(profile, request, found.options if found else (), is_profile=profile.name == agent),
        agent_home=agent_home,
        homes_folder=homes,
        store=_state_store(profile, home, environ),
        cache_folder=cache.folder(environ),
        overlays=overlays,
        ro=_paths(profile.ro, home, "ro", settings),
        rw=rw,
        tools=(),
        caches=(),
        masked_views=(),
        shared_sockets=(),
        hidden=(),
        notices=(*notices, *anew),
        agent_files=found.files if found else (),
        seeds=found.seeds if found else (),
    )
    _refuse(prepared, request)
    prepared = _resolve_path(shown_paths.with_tools(prepared, with_masks=facts is None))
    prepared = _with_containers(_with_stand_ins(_with_authorities(_with_shared_sockets(prepared, environ))))
    if with_command:
        check_command(prepared, is_direct=bool(options.direct))
    return prepared


def _checked_profile(request: RunRequest, agent: str, settings: Settings) -> Profile:
    """Return the profile. Raises UsageError for options without an effect on its network, UnknownAgent for an unknown word."""
    profile = settings.profile
    flag = "--allow" if request.options.allow else "--deny" if request.options.deny else ""
    if flag and profile.net not in GATEWAY_NETS:
        raise UsageError(message=f"{flag} has no effect with net: {profile.net}", hint="--net allow")
    if request.kind == AGENT:
        require_known(agent, settings, request.options.profile_file)
    return profile


def require_known(agent: str, settings: Settings, profile_file: str) -> None:
    """Raise UnknownAgent for a word that is neither a profile nor a listed program."""
    profile = settings.profile
    if agent in profile.programs or agent == profile.name != load.DEFAULT_PROFILE:
        return
    expected = f"the profile in {profile_file}: its name is {profile.name}" if profile_file else "a profile or a subcommand"
    raise UnknownAgent(name=agent, expected=expected, hint=f"to run a program: agent-dev -- {agent}")


def _settings(request: RunRequest, agent: str, home: str, root: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings, with the repository's own if they are trusted and with paths expanded, and notices about these."""
    wanted = settings_request(agent, home, request.environ, request.options)
    settings = load.load_settings(wanted)
    if not os.path.lexists(f"{root}/.agent-dev.yaml"):
        return _expand_fields(settings, home, root), ()
    from agent_dev.config import trust_store  # most repositories have no settings of their own

    state = store.state_store(expand(settings.profile.state, home), request.environ).path
    layer, notice = trust_store.load_layer(state, root)
    settings = load.load_settings(wanted.replace(repository=layer))
    return _expand_fields(settings, home, root), (notice,) if notice else ()


def _untrusted_paths(home: str, *paths: str) -> tuple[str, ...]:
    """Return the paths except those that contain the user's home: they are refused later, with their own reason."""
    return tuple(path for path in paths if not is_below(home, path))


def _resolve_path(prepared: PreparedRun) -> PreparedRun:
    """Resolve the PATH entries with a `*` in a directory's name or a `?` at the end (docs/profiles.md)."""
    settings = prepared.settings
    resolved = {path: _resolve_path_entry(path, prepared) for path in settings.profile.path}
    origins = {
        f"path:{resolved[path]}": settings.origins.get(f"path:{path}", BUILT_IN) for path in resolved if resolved[path] != path
    }
    profile = settings.profile.replace(path=tuple(dict.fromkeys(filter(None, resolved.values()))))
    return prepared.replace(settings=settings.replace(profile=profile, origins=origins | settings.origins))


def _resolve_path_entry(path: str, prepared: PreparedRun) -> str:
    if "*" in path:
        return _newest(expand(path, prepared.machine.home), prepared)
    if not path.endswith("?"):
        return path
    entry = path[:-1]
    outside = path_on_host(expand(entry, prepared.machine.home), prepared)
    return entry if outside and preflight.may_be_directory(outside, len(outside) - len(entry.removeprefix("~/"))) else path


def _newest(pattern: str, prepared: PreparedRun) -> str:
    folder, _, rest = pattern.partition("/*/")
    folder_outside = path_on_host(folder, prepared) or ""
    try:
        names = [name for name in os.listdir(folder_outside) if os.path.isdir(f"{folder_outside}/{name}/{rest}")]
    except OSError:
        return ""
    return f"{folder}/{max(names, key=_version)}/{rest}" if names else ""


def _version(name: str) -> tuple[list[int], str]:
    return [int(part) for part in name.lstrip("v").split(".") if part.isdigit()], name


def _with_instructions(settings: Settings, agent: str, root: str) -> "tuple[Settings, AgentInstructions | None]":
    """Return the settings with variables that lead an agent to its instructions, and these; None if this is no agent."""
    profile = settings.profile
    if profile.name != agent or not profile.command or not profile.agent:
        return settings, None
    from agent_dev.config import agent_instructions  # agents only: other starts do not need it

    found = agent_instructions.agent_instructions(profile, root)
    with_variables = settings.replace(profile=profile.replace(set=(*profile.set, *found.variables)))
    return with_variables, found


def _with_conversation(settings: Settings, request: RunRequest, agent_home: str, cwd: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with the words that continue the agent's conversation, and a notice if it cannot continue."""
    profile = settings.profile
    if not request.continues or request.command or not profile.command or profile.name != request.arguments[0]:
        return settings, ()
    from agent_dev.home import conversations  # only to resume

    has_terminal = request.terminal is not None or (os.isatty(0) and os.isatty(1))
    is_interactive = has_terminal and not (request.options.prompt or request.review_notes)
    return conversations.with_conversation(settings, agent_home, cwd, is_interactive=is_interactive)


def _command(profile: Profile, request: RunRequest, instructions: tuple[str, ...], *, is_profile: bool) -> tuple[str, ...]:
    """Return the command of a run: the profile's with the given arguments, words that continue a conversation, and a prompt.

    `instructions`: words that follow the agent's standing options.
    """
    if request.command:
        return request.command
    words, agent = request.arguments, dict(profile.agent)
    is_agent = is_profile and bool(profile.command)
    if request.agent_arguments and not is_agent:
        hint = "agent-dev resume SESSION -- COMMAND"
        raise UsageError(message="the session ran a command: only an agent takes other arguments", hint=hint)
    arguments = _arguments(profile, request) if is_agent else words[1:]
    prompt = request.options.prompt or request.review_notes.decode()
    continues = is_agent and request.continues and bool(agent.get("resume"))
    form = _prompt_form(words[0], agent, continues=continues) if is_agent and prompt else ()
    fork = agent.get("fork") if request.forks else ()
    if continues and _has_subcommand(form) and form == tuple(agent.get("task", ())):
        arguments, form = (), (form[0], *(fork or agent["task_resume"]), *arguments, *form[1:])
    elif continues:
        arguments = (*(fork or agent["resume"]), *arguments)
    words = (words[0], *arguments)
    if request.options.prompt and not form:
        hint = f"agent-dev {'-- ' if request.kind == COMMAND else ''}{words[0]} ARGUMENTS"
        raise UsageError(message=f"{words[0]} has no known way to take a prompt", hint=hint)
    given = tuple(word.replace("{prompt}", prompt) for word in form)
    if not is_agent:
        return words
    is_bare = any(word in agent.get("bare", ()) for word in (*words[1:2], *given[:1]))
    standing = profile.command[:1] if is_bare else (*profile.command, *instructions)
    return (*standing, *words[1:], *given)


def _arguments(profile: Profile, request: RunRequest) -> tuple[str, ...]:
    """Return the arguments of an agent: those given now, in a conversation that continues else the first run's repeated ones."""
    arguments, agent = request.arguments[1:], dict(profile.agent)
    if request.agent_arguments or not request.continues or not (profile.has_package or agent.get("resume")):
        return request.agent_arguments or arguments
    from agent_dev.session.repeated_options import repeated_arguments  # only to resume

    return repeated_arguments(arguments, repeatable_options(profile, arguments))


def repeatable_options(profile: Profile, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that a resumed agent gets again; none after a subcommand that is no conversation."""
    agent = dict(profile.agent)
    is_bare = any(word in agent.get("bare", ()) for word in arguments[:1])
    return () if is_bare else tuple(agent.get("repeat", ()))


def _prompt_form(name: str, agent: "dict[str, Any]", *, continues: bool) -> tuple[str, ...]:
    """Return the words of a prompt: without a terminal those of a task. Raises UsageError if these cannot continue."""
    prompt, task = agent.get("prompt", ()), agent.get("task", ())
    if not task or (os.isatty(0) and os.isatty(1)):
        return tuple(prompt)
    if continues and _has_subcommand(task) and not agent.get("task_resume"):
        message = f"without a terminal, {name} cannot continue its conversation with a prompt"
        raise UsageError(message=message, hint="agent-dev -p PROMPT resume --fresh")
    return tuple(task)


def _has_subcommand(words: tuple[str, ...]) -> bool:
    return bool(words) and words[0][0] not in "-{"


def _expand_fields(settings: Settings, home: str, root: str) -> Settings:
    """Return settings whose command and variables have paths in place of a leading `~`, `{home}`, `{root}` and `{root_escaped}`.

    The value of an `--env` option stays as it was typed: the shell has expanded it.
    """

    def expanded(text: str) -> str:
        text = expand(text, home).replace("{home}", home)
        return text.replace("{root_escaped}", escape_in_string(root)).replace("{root}", root)

    profile, origins = settings.profile, settings.origins
    variables = tuple((name, value if origins.get(f"set:{name}") == "--env" else expanded(value)) for name, value in profile.set)
    return settings.replace(profile=profile.replace(command=tuple(map(expanded, profile.command)), set=variables))


def _state_store(profile: Profile, home: str, environ: dict[str, str]) -> store.Store:
    found = store.state_store(expand(profile.state, home), environ)
    try:
        store.require_known_format(found)
    except NewerState as error:
        raise CannotStart(message=error.message, hint=error.hint) from None
    return found


def _paths(paths: tuple[str, ...], home: str, field: str, settings: Settings) -> tuple[str, ...]:
    resolved = []
    for path in paths:
        origin = settings.origins.get(f"{field}:{path}", BUILT_IN)
        # a trailing ? typed as an option is part of the name
        name, is_optional = (path, False) if field == "overlay" or origin.startswith("--") else split_optional(path)
        real = os.path.realpath(expand(name, home))
        if os.path.exists(real):
            resolved.append(real)
        elif not is_optional:
            raise Refused(message=f"{path} does not exist (from {origin})")
    return tuple(dict.fromkeys(resolved))


def protected_paths(prepared: PreparedRun, trusted_files: tuple[str, ...] = ()) -> unsafe_paths.ProtectedPaths:
    """Return the paths that the sandbox of a prepared run must not show."""
    return unsafe_paths.ProtectedPaths(
        home=prepared.machine.home,
        own_directories=(
            ("the state directory", prepared.store.path),
            (unsafe_paths.AGENT_HOME, prepared.agent_home),
            ("the cache", prepared.cache_folder),
        ),
        mounts=_mounts(),
        git_dirs=git_dirs(prepared),
        trusted_files=trusted_files,
    )


def _refuse(prepared: PreparedRun, request: RunRequest) -> None:
    is_direct = bool(request.options.direct)
    trusted = load.settings_paths(prepared.machine.home, request.environ, request.options.config)
    protected = protected_paths(prepared, trusted)
    label = "the repository" if prepared.location.git else "the directory"
    wanted = (
        unsafe_paths.RequestedPath(label, prepared.location.root, is_root=True, is_writable=is_direct),
        *(unsafe_paths.RequestedPath("--overlay", path, is_root=True) for path in prepared.overlays),
        *(unsafe_paths.RequestedPath("--ro", path) for path in prepared.ro),
        *(unsafe_paths.RequestedPath("--rw", path, is_writable=True) for path in prepared.rw),
        unsafe_paths.RequestedPath(unsafe_paths.AGENT_HOME, prepared.agent_home, is_writable=True),
    )
    refusal = unsafe_paths.refusal_reason(wanted, protected)
    if refusal:
        raise Refused(message=refusal[0], hint=refusal[1])
    for path in prepared.overlays:
        repository.refuse_bare(path)
        repository.refuse_embedded_git_dir(repository.SessionLocation(path, repository.find_git_dir(path)))
    repository.refuse_embedded_git_dir(prepared.location)
    _refuse_owner(prepared)
    _refuse_reftables(prepared, request.environ)


def _refuse_reftables(prepared: PreparedRun, environ: dict[str, str]) -> None:
    tables = [path for path in git_dirs(prepared) if repository.has_reftable(path)]
    if tables:
        from agent_dev.git import reftable  # only for these: other starts do not need it

        git = programs.find_program("git", environ, prepared.untrusted_paths)
        for path in tables:
            reftable.check_readable(path, git, environ)


def git_dirs(prepared: PreparedRun) -> tuple[str, ...]:
    """Return the git dirs of all roots."""
    repositories = (prepared.location.git, *map(repository.find_git_dir, prepared.overlays))
    return tuple(path for git in repositories if git for path in (git.folder, git.common))


def _mounts() -> tuple[str, ...]:
    with open("/proc/self/mountinfo", "rb", 0) as file:
        return tuple(map(os.fsdecode, unsafe_paths.mount_points(file.read())))


def _refuse_owner(prepared: PreparedRun) -> None:
    owner = os.stat(prepared.location.root).st_uid
    if prepared.machine.uid == 0 and owner != 0:
        owner_name = users.user_name(owner)
        raise Refused(
            message=f"{prepared.location.root} belongs to {owner_name}, but you are root",
            hint=f"sudo -u {owner_name} agent-dev …",
        )
    if not os.access(prepared.location.root, os.R_OK | os.X_OK):
        raise Refused(message=f"{prepared.location.root} cannot be read")


def locate_command(prepared: PreparedRun, *, is_direct: bool = False) -> tuple[str, str]:
    """Return the command's path in the sandbox and on the host, looked up in this order: agent home, tools, system, our own."""
    name = prepared.command[0]
    folders = plan.inside_path(prepared.settings.profile, prepared.machine.home)
    for path in [name] if "/" in name else [f"{folder}/{name}" for folder in folders]:
        inside = os.path.normpath(os.path.join(prepared.cwd, path))
        outside = path_on_host(inside, prepared)
        if outside and os.path.lexists(outside):
            return inside, outside
    from agent_dev.run import command_not_found  # rare

    if command_not_found.is_control_command(name, prepared, is_direct=is_direct):
        inside = f"{plan.PROGRAMS}/{name}"
        return inside, path_on_host(inside, prepared) or ""
    profile = prepared.settings.profile
    if profile.command[:1] == (name,) and profile.has_package:
        raise AgentNotInstalled(command=name, agent=profile.name, hint=f"agent-dev install {profile.name}")
    hint = profile.install or command_not_found.missing_command_hint(name, prepared, is_direct=is_direct)
    raise CommandNotFound(command=name, hint=hint)


def check_command(prepared: PreparedRun, *, is_direct: bool) -> None:
    """Raise CommandNotFound or NotExecutable if the command would not start; links are left to the sandbox."""
    _, outside = locate_command(prepared, is_direct=is_direct)
    if os.path.islink(outside):
        return
    if os.path.isdir(outside) or not os.access(outside, os.X_OK):
        raise NotExecutable(command=prepared.command[0], hint=_executable_hint(outside, prepared.cache_folder))
    interpreter = preflight.script_interpreter(outside)
    outside_interpreter = path_on_host(interpreter, prepared)
    if interpreter and (outside_interpreter is None or not os.path.lexists(outside_interpreter)):
        hint = f"named in the first line of {outside}"
        raise InterpreterNotFound(command=prepared.command[0], interpreter=interpreter, hint=hint)


def _executable_hint(path: str, cache_folder: str) -> str:
    if os.path.isdir(path):
        return "it is a directory"
    can_change = os.path.isfile(path) and not any(is_below(path, one) for one in (cache_folder, *_OF_THE_KERNEL))
    return f"chmod +x {path}" if can_change else ""  # the cache has the sandbox's /etc


def require_prompt(prepared: PreparedRun, request: RunRequest, arguments: tuple[str, ...]) -> None:
    """Raise UsageError for a shipped agent with no input, arguments or prompt: some would draw their screen and wait forever."""
    profile, origin = prepared.settings.profile, prepared.settings.origins.get("command", "")
    if arguments or request.options.prompt or request.review_notes or request.command or "prompt" not in dict(profile.agent):
        return
    if request.terminal or os.fstat(0).st_rdev != os.stat(os.devnull).st_rdev:
        return
    if origin.startswith(f"{load.profiles_folder()}/"):  # the user's own command may contain a prompt
        verb = "resume" if request.continues else profile.name
        raise UsageError(message=f"without a terminal, {profile.name} needs a prompt", hint=f"agent-dev -p PROMPT {verb}")


def path_on_host(path: str, prepared: PreparedRun) -> str | None:
    """Return the host path of a path in the sandbox; None if nothing of the host is mounted there."""
    home = prepared.machine.home
    if path.startswith(agent_dev_paths.RUN + "/"):
        return "/bin/sh"
    for shown in (
        prepared.location.root,
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
    for mount in reversed(prepared.machine.etc):
        if isinstance(mount, plan.Bind) and is_below(path, mount.target):
            return mount.source + path[len(mount.target) :]
    system = (*prepared.machine.system, *(link for link, _ in prepared.machine.links), *_OF_THE_KERNEL)
    return path if any(is_below(path, prefix) for prefix in system) else None


def _with_shared_sockets(prepared: PreparedRun, environ: dict[str, str]) -> PreparedRun:
    profile = prepared.settings.profile
    if not profile.share and profile.net not in GATEWAY_NETS:
        return prepared
    from agent_dev.config.network_rules import SOCKET_PREFIX  # most runs share nothing
    from agent_dev.sandbox import shared_sockets

    context = shared_sockets.SocketContext(environ, prepared.machine.uid, prepared.machine.home, prepared.untrusted_paths)
    allowed = profile.allow if profile.net in GATEWAY_NETS else ()
    paths = tuple(rule.removeprefix(SOCKET_PREFIX) for rule in allowed if rule.startswith(f"{SOCKET_PREFIX}/"))
    shared, agent = shared_sockets.share_paths(paths, context), ""
    names = tuple(name for name in profile.share if name != "clipboard-images")  # by programs, not by a socket of the host
    if profile.ssh and "ssh-agent" in names:
        filtered, agent = shared_sockets.share_filtered_ssh_agent(context)
        names, shared = tuple(name for name in names if name != "ssh-agent"), (filtered, *shared)
    shared = (*shared_sockets.share_sockets(names, context), *shared)
    return _with_clipboard(prepared.replace(shared_sockets=shared, ssh_agent=agent), environ)


def _with_clipboard(prepared: PreparedRun, environ: dict[str, str]) -> PreparedRun:
    names = prepared.settings.profile.share
    if "clipboard-images" not in names or "display" in names:  # a display has the whole clipboard
        return prepared
    from agent_dev.clipboard import prepare  # few runs share it
    from agent_dev.control import socket_file

    reader = prepare.find_reader(environ, prepared.untrusted_paths)
    python = socket_file.inside_python(prepared.machine.system, prepared.untrusted_paths)
    shared = (*prepared.shared_sockets, prepare.programs_inside(reader, python))
    return prepared.replace(shared_sockets=shared, clipboard=reader)


def _with_authorities(prepared: PreparedRun) -> PreparedRun:
    profile, machine = prepared.settings.profile, prepared.machine
    if not profile.upstream_ca:
        return prepared
    from agent_dev.network.upstream import certificates, settings  # most users have none

    path, data = settings.read_authorities(profile, machine.home, prepared.untrusted_paths)
    return prepared.replace(upstream_ca=path, trust_bundle=certificates.make_bundle(data, prepared.cache_folder))


def _with_stand_ins(prepared: PreparedRun) -> PreparedRun:
    profile = prepared.settings.profile
    if not profile.credentials or profile.net not in GATEWAY_NETS:
        return prepared
    from agent_dev.network.broker import stand_ins  # most users have no credentials

    return prepared.replace(stand_ins=stand_ins.make_stand_ins(profile.credentials))


def _etc_files(profile: Profile) -> tuple[tuple[str, bytes], ...]:
    if not profile.containers:
        return ()
    from agent_dev.sandbox.containers import requirements  # only with `containers`

    return requirements.host_configuration()


def _with_containers(prepared: PreparedRun) -> PreparedRun:
    if not prepared.settings.profile.containers:
        return prepared
    from agent_dev.control import socket_file  # only with `containers`
    from agent_dev.sandbox.containers import prepare

    python = socket_file.inside_python(prepared.machine.system, prepared.untrusted_paths)
    found = prepare.prepare_containers(prepared.settings.profile, prepared.machine, python, prepared.agent_home)
    return prepared.replace(containers=found)
