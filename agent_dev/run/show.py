"""What a run would look like: each value with its origin, the plan, the bwrap line ready to paste. Runs nothing."""

from dataclasses import dataclass

from agent_dev.config.limits import shown
from agent_dev.config.profile import BUILT_IN, LISTS
from agent_dev.run import run
from agent_dev.run.prepare import Prepared, Request, prepare, setting
from agent_dev.sandbox import bwrap, plan
from agent_dev.sandbox.plan import Bind, Cover, File, GitDir, Mask, Overlay, Root, Setting, Symlink, Tmpfs

SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows of (label, value, origin), and the shell line."""

    rows: tuple[tuple[str, str, str], ...]
    shell_line: str


def show(request: Request) -> Shown:
    """Return what `run` would do. Raises AgentDevError as it would."""
    prepared = prepare(request)
    built = plan.build(prepared.settings.profile, prepared.machine, _parts(prepared, request))
    rows = (*_settings(prepared), *_environment(prepared, built.env), *_mounts(built.mounts), *_hidden(prepared))
    return Shown(rows, bwrap.shell_line(built, prepared.machine.bwrap, prepared.machine.bwrap_version))


def _parts(prepared: Prepared, request: Request) -> Setting:
    """Return the session's part as it would be, for a session that does not exist."""
    folder = f"{prepared.store.sessions}/{SESSION}"
    paths = (prepared.place.root, *prepared.overlays)
    roots = tuple(Root(path, f"{folder}/roots/{n}/upper", f"{folder}/roots/{n}/work") for n, path in enumerate(paths))
    caches = tuple(
        Root(path, f"{folder}/caches/{n}/upper", f"{folder}/caches/{n}/work") for n, path in enumerate(prepared.caches)
    )
    git = prepared.place.git
    dirs: tuple[GitDir, ...] = ()
    if git is not None:
        store = ((f"{git.common}/objects", f"{plan.RUN}/git/0/objects"),)  # a run shows a farm of hard links instead
        dirs = (GitDir(f"{folder}/git/0", "" if git.inside else git.common, store),)
    given = run.settings_of(run.ask_git(prepared, request.environ), request.environ, prepared)
    parts = Setting(
        session=SESSION,
        agent_home=prepared.agent_home,
        roots=roots,
        cwd=prepared.cwd,
        command=prepared.command,
        git_dirs=dirs,
        git_config=given.config,
        files=given.files,
        caches=caches,
    )
    return setting(prepared, parts, request.environ).but(door=None)  # by hand there is nobody at it


def _settings(prepared: Prepared) -> list[tuple[str, str, str]]:
    profile, origins = prepared.settings.profile, prepared.settings.origins
    rows = [
        ("profile", profile.name, ""),
        ("command", " ".join(prepared.command), origins.get("command", "")),
        ("root", prepared.place.root, "git" if prepared.place.git else "no git"),
        ("home", f"{prepared.agent_home} at {prepared.machine.home}", origins.get("home", BUILT_IN)),
        ("state", prepared.store.path, origins.get("state", BUILT_IN)),
        ("net", profile.net, origins.get("net", BUILT_IN)),
        ("nested", "allowed" if profile.nested else "refused", origins.get("nested", BUILT_IN)),
        ("tx_inside", "yes" if profile.tx_inside else "no", origins.get("tx_inside", BUILT_IN)),
        ("bwrap", f"{prepared.machine.bwrap} {'.'.join(map(str, prepared.machine.bwrap_version))}", ""),
    ]
    rows += [("repository", said, "") for said in prepared.said]
    rows += [("limit", f"{name}={shown(name, size)}", origins.get(f"limits:{name}", BUILT_IN)) for name, size in profile.limits]
    for field in LISTS:
        if field in ("ro", "rw", "overlay", "path", "mask", "share"):
            rows += [(field, item, origins.get(f"{field}:{item}", BUILT_IN)) for item in profile.as_dict()[field]]
    return rows


def _environment(prepared: Prepared, env: tuple[tuple[str, str], ...]) -> list[tuple[str, str, str]]:
    origins = prepared.settings.origins
    rows = []
    for name, value in env:
        origin = origins.get(f"set:{name}") or origins.get(f"env:{name}") or _env_origin(name)
        rows.append(("env", f"{name}={value}", origin))
    return rows


def _env_origin(name: str) -> str:
    if name in plan.PROXY_ENV:
        return "your environment: a proxy"
    return "your environment" if name in plan.BASE_ENV else BUILT_IN


def _mounts(mounts: tuple[plan.Mount, ...]) -> list[tuple[str, str, str]]:
    return [("mount", _mount(mount), "") for mount in mounts]


def _mount(mount: plan.Mount) -> str:  # noqa: PLR0911  (a case for each kind)
    match mount:
        case Bind(target, source, writable):
            same = "" if source == target else f" from {source}"
            return f"{target} {'writable' if writable else 'read-only'}{same}"
        case Cover(target, _, _):
            return f"{target} read-only, without the credentials that it has or could have"
        case Overlay(target, _, upper, _):
            return f"{target} overlay, changes in {upper}"
        case Tmpfs(target, size, _):
            return f"{target} empty, in memory, at most {size >> 20} MiB"
        case Symlink(target, points_to):
            return f"{target} -> {points_to}"
        case File(target, data, _):
            return f"{target} a copy, {len(data)} bytes"
        case Mask(target):
            return f"{target} masked: empty and read-only"
        case _:
            return f"{mount.target} {type(mount).__name__.lower()}"


def _hidden(prepared: Prepared) -> list[tuple[str, str, str]]:
    return [("not shown", path, why) for path, why in prepared.hidden]
