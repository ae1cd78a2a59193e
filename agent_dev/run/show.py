"""Show a run without starting it: each value with its origin, the plan, and the bubblewrap command."""

from agent_dev import environment
from agent_dev import paths as agent_dev_paths
from agent_dev.config.limits import format_limit
from agent_dev.config.profile import BUILT_IN, GATEWAY_NETS, LISTS
from agent_dev.errors import AgentDevError, CannotStart
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.network.upstream.settings import describe_proxy
from agent_dev.quick_dataclass import dataclass
from agent_dev.run import mask_report, new_session, private_git
from agent_dev.run.compose import SessionMounts, compose_spec
from agent_dev.run.network import credentials
from agent_dev.run.prepare import check_command, prepare_run
from agent_dev.run.request import PreparedRun, RunRequest
from agent_dev.sandbox import bwrap, machine, plan
from agent_dev.sandbox.plan import Bind, File, Mask, MaskedView, Overlay, SessionSpec, Symlink, Tmpfs
from agent_dev.session.root import Root

SESSION_PLACEHOLDER = "SESSION"
_STAND_IN = "STAND-IN-KEY"


@dataclass(frozen=True, slots=True)
class RunPreview:
    """Rows of (label, value, origin), and the shell line; `problem`: why the command would not start."""

    rows: tuple[tuple[str, str, str], ...]
    shell_line: str
    problem: AgentDevError | None = None


def preview_run(request: RunRequest) -> RunPreview:
    """Return what `run` would do. Raises AgentDevError as it would, but not for a command that is not installed."""
    prepared = prepare_run(request, with_command=False)
    prepared = prepared.replace(stand_ins=tuple((name, _STAND_IN) for name, _ in prepared.stand_ins))
    parts = preview_spec(prepared, request.environ)
    sandbox_plan = plan.build_plan(prepared.settings.profile, prepared.machine, parts)
    left_out = private_git.left_out_notice(private_git.preview_copy(prepared))
    rows = (
        *_settings(prepared, request.environ),
        *((("git", left_out, ""),) if left_out else ()),
        *_exposures(prepared, parts),
        *_environment(prepared, sandbox_plan.env),
        *_mounts(sandbox_plan.mounts),
        *_hidden(prepared),
    )
    line = bwrap.shell_line(sandbox_plan, prepared.machine.bwrap, prepared.machine.bwrap_version)
    return RunPreview(rows, line, _start_problem(prepared, request))


def _start_problem(prepared: PreparedRun, request: RunRequest) -> AgentDevError | None:
    try:
        check_command(prepared, is_direct=bool(request.options.direct))
    except CannotStart as error:
        return error
    return credentials.missing_key(prepared, request.environ)


def _exposures(prepared: PreparedRun, parts: SessionSpec) -> list[tuple[str, str, str]]:
    """Return what remains readable although the settings may suggest otherwise."""
    rows = []
    patterns = prepared.settings.profile.mask
    if patterns:
        rows += [
            ("mask", f"{pattern} matches nothing here", prepared.settings.origins.get(f"mask:{pattern}", BUILT_IN))
            for pattern in parts.unmatched_masks
        ]
        rows += [
            ("mask", f"{pattern} is masked, but readable in git's objects", "")
            for pattern in mask_report.tracked_paths(prepared, parts)
        ]
    cloud = machine.cloud_provider()
    if cloud and prepared.settings.profile.net == "host":
        rows.append(("net", machine.METADATA_WARNING.format(cloud), "--net none prevents it"))
    return rows


def preview_spec(prepared: PreparedRun, environ: dict[str, str]) -> SessionSpec:
    """Return the session's part of the plan, for a session that does not exist."""
    folder = f"{prepared.store.sessions}/{SESSION_PLACEHOLDER}"
    paths = (prepared.location.root, *prepared.overlays)
    roots = tuple(Root(path, f"{folder}/roots/{n}/upper", f"{folder}/roots/{n}/work") for n, path in enumerate(paths))
    caches = tuple(Root(path, f"{folder}/caches/{n}", f"{folder}/caches/{n}.work") for n, path in enumerate(prepared.caches))
    git = prepared.location.git
    dirs: tuple[PrivateGitDir, ...] = ()
    if git is not None:
        store = ((f"{git.common}/objects", f"{agent_dev_paths.RUN}/git/0/objects"),)  # a run shows hard-linked objects instead
        dirs = (PrivateGitDir(f"{folder}/git/0", "" if git.inside else git.common, store),)
    passed = new_session.passed_git_config(new_session.start_git_query(prepared, environ), environ, prepared)
    spec = compose_spec(prepared, SessionMounts(SESSION_PLACEHOLDER, roots, caches, dirs), passed, environ)
    return spec.replace(control_socket=None)  # a shell line has no control server


def _upstream(prepared: PreparedRun, environ: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the rows about the proxy and the authorities, without a password."""
    proxy = describe_proxy(prepared.settings, environ) if prepared.settings.profile.net in GATEWAY_NETS else None
    authorities = [("upstream_ca", prepared.upstream_ca, prepared.settings.origins.get("upstream_ca", BUILT_IN))]
    return [*([("upstream_proxy", *proxy)] if proxy else []), *(authorities if prepared.upstream_ca else [])]


def _settings(prepared: PreparedRun, environ: dict[str, str]) -> list[tuple[str, str, str]]:
    profile, origins = prepared.settings.profile, prepared.settings.origins
    rows = [
        ("profile", profile.name, ""),
        ("command", " ".join(prepared.command), origins.get("command", "")),
        ("root", prepared.location.root, "git" if prepared.location.git else "no git"),
        ("home", f"{prepared.agent_home} at {prepared.machine.home}", origins.get("home", BUILT_IN)),
        ("state", prepared.store.path, origins.get("state", BUILT_IN)),
        ("net", profile.net, origins.get("net", BUILT_IN)),
        ("nested", "allowed" if profile.nested else "refused", origins.get("nested", BUILT_IN)),
        ("containers", "allowed" if profile.containers else "not set up", origins.get("containers", BUILT_IN)),
        ("tx_inside", "yes" if profile.tx_inside else "no", origins.get("tx_inside", BUILT_IN)),
        ("directory_renames", "yes" if profile.directory_renames else "no", origins.get("directory_renames", BUILT_IN)),
        ("bwrap", f"{prepared.machine.bwrap} {'.'.join(map(str, prepared.machine.bwrap_version))}", ""),
    ]
    rows += [("repository", notice, "") for notice in prepared.notices]
    rows += _upstream(prepared, environ)
    rows += credentials.credential_rows(prepared.settings)
    rows += [
        ("limit", f"{name}={format_limit(name, size)}", origins.get(f"limits:{name}", BUILT_IN)) for name, size in profile.limits
    ]
    for field in LISTS:
        if field in ("ro", "rw", "overlay", "path", "mask", "share", "allow", "deny", "publish", "no_proxy"):
            rows += [(field, item, origins.get(f"{field}:{item}", BUILT_IN)) for item in profile.as_dict()[field]]
    return rows


def _environment(prepared: PreparedRun, env: tuple[tuple[str, str], ...]) -> list[tuple[str, str, str]]:
    origins = prepared.settings.origins
    rows = []
    for name, value in env:
        origin = origins.get(f"set:{name}") or origins.get(f"env:{name}") or _env_origin(name)
        rows.append(("env", f"{name}={value}", origin))
    return rows


def _env_origin(name: str) -> str:
    if name in environment.PROXY_ENV:
        return "your environment: a proxy"
    return "your environment" if name in environment.BASE_ENV else BUILT_IN


def _mounts(mounts: tuple[plan.Mount, ...]) -> list[tuple[str, str, str]]:
    return [("mount", _mount(mount), "") for mount in mounts]


def _mount(mount: plan.Mount) -> str:  # noqa: PLR0911  (one case per kind)
    match mount:
        case Bind(target, source, writable):
            same = "" if source == target else f" from {source}"
            return f"{target} {'writable' if writable else 'read-only'}{same}"
        case MaskedView(target, _, _):
            return f"{target} read-only, credentials masked"
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


def _hidden(prepared: PreparedRun) -> list[tuple[str, str, str]]:
    return [("not shown", path, reason) for path, reason in prepared.hidden]
