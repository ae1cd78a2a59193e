"""Compose the sandbox's settings for a session: the same for a run, a resumed session and `show`."""

from agent_dev import paths as agent_dev_paths
from agent_dev.config import load
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.git.passed_config_files import PassedConfig
from agent_dev.run import shown_paths
from agent_dev.run.request import PreparedRun
from agent_dev.sandbox import plan, preflight
from agent_dev.sandbox.plan import SessionSpec
from agent_dev.session.root import Root
from agent_dev.value import Value

_LARGEST_NPM_CONFIG = 1 << 16


class SessionMounts(Value):
    """The session's part of the sandbox: its id, overlay roots, caches and private git directories."""

    session: str
    roots: tuple[Root, ...]
    caches: tuple[Root, ...]
    git_dirs: tuple[PrivateGitDir, ...]


def compose_spec(prepared: PreparedRun, mounts: SessionMounts, passed: PassedConfig, environ: dict[str, str]) -> SessionSpec:
    """Return the session's part of a plan: its mounts, git's settings and everything decided before."""
    masked = shown_paths.find_masked_paths(prepared, mounts.roots or (Root(prepared.location.root, "", ""),))
    folder = f"{prepared.store.sessions}/{mounts.session}"
    containers = _containers(prepared, folder)
    read_only = {path for path, _ in prepared.masked_views if path in prepared.tools or path in prepared.ro}
    return SessionSpec(
        session=mounts.session,
        agent_home=prepared.agent_home,
        roots=mounts.roots,
        cwd=prepared.cwd,
        command=prepared.command,
        git_dirs=mounts.git_dirs,
        git_config=passed.config,
        caches=mounts.caches,
        tools=prepared.tools,
        masked_views=tuple(
            (path, shown_paths.mask_layer_path(prepared.store.path, names))
            for path, names in prepared.masked_views
            if path in read_only
        ),
        masked_files=masked.files,
        masked_directories=masked.directories,
        unmatched_masks=masked.unmatched,
        empty_directory=shown_paths.empty_directory_path(prepared.store.path),
        shared_mounts=(
            *(mount for one in prepared.shared_sockets for mount in one.mounts),
            *_certificates(prepared, folder)[0],
            *_ssh_agent(prepared, folder),
            *_clipboard(prepared, folder)[0],
            *containers.mounts,
        ),
        first_path=_clipboard(prepared, folder)[1],
        devices=containers.devices,
        step=containers.step,
        ro=prepared.ro,
        rw=prepared.rw,
        control_socket=_control_socket(prepared, folder),
        npm_config=_npm_config(),
        files=(*passed.files, *_files(prepared, environ), *containers.files),
        env=(
            *plan.allowed_env(prepared.settings.profile, environ),
            *(pair for one in prepared.shared_sockets for pair in one.env),
            *_certificates(prepared, "")[1],
            *containers.env,
        ),
        brokered_env=prepared.stand_ins,
    )


class _ContainerParts(Value):
    """Mounts, devices, files and words that containers add to a session's part of a plan."""

    mounts: tuple[plan.Mount, ...] = ()
    devices: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    step: tuple[str, ...] = ()


def _containers(prepared: PreparedRun, folder: str) -> _ContainerParts:
    found = prepared.containers
    if found is None:
        return _ContainerParts()
    from agent_dev.sandbox.containers import support  # only with `containers`

    return _ContainerParts(
        support.container_mounts(found, folder),
        (found.device,) if found.device else (),
        support.container_files(found),
        support.container_variables(found),
        support.container_step(found),
    )


def _certificates(prepared: PreparedRun, folder: str) -> tuple[tuple[plan.Bind, ...], tuple[tuple[str, str], ...]]:
    """Return mounts and variables for authorities that the system does not trust; `folder`: the session's."""
    if prepared.stand_ins:
        from agent_dev.network.broker import trust_files  # most users have no credentials
        from agent_dev.network.upstream import certificates  # as below

        return trust_files.trust_mounts(folder), certificates.trust_variables()
    if not prepared.trust_bundle:
        return (), ()
    from agent_dev.network.upstream import certificates  # most users have none

    return certificates.trust_mounts(prepared.trust_bundle), certificates.trust_variables()


def _ssh_agent(prepared: PreparedRun, folder: str) -> tuple[plan.Bind, ...]:
    """Return the mount of the filter's socket, if the user's ssh-agent is behind one."""
    if not prepared.ssh_agent:
        return ()
    from agent_dev.sandbox import shared_sockets  # already loaded
    from agent_dev.ssh_agent.filter_options import SOCKET_NAME  # only with `ssh`

    return (plan.Bind(shared_sockets.SSH_AGENT, f"{folder}/{SOCKET_NAME}"),)


def _npm_config() -> bytes:
    """Return the system's settings of npm, such as a registry, which npm does not read if it gets another global file."""
    found = b""
    for path in ("/usr/etc/npmrc", "/usr/local/etc/npmrc"):  # visible inside, too; the second belongs to the first npm on PATH
        try:
            with open(path, "rb", 0) as file:
                found += file.read(_LARGEST_NPM_CONFIG) + b"\n"
        except OSError:
            continue  # most systems have none
    return found


def _clipboard(prepared: PreparedRun, folder: str) -> tuple[tuple[plan.Bind, ...], tuple[str, ...]]:
    """Return the mount of the clipboard's socket, and the directory of the programs that use it, if its images are shared."""
    if not prepared.clipboard:
        return (), ()
    from agent_dev.clipboard import prepare  # already loaded
    from agent_dev.clipboard.options import SOCKET_NAME

    return (plan.Bind(prepare.SOCKET, f"{folder}/{SOCKET_NAME}"),), (prepare.FOLDER,)


def _files(prepared: PreparedRun, environ: dict[str, str]) -> tuple[tuple[str, bytes], ...]:
    """Return the generated files of the sandbox: the terminal's description and the demo's script."""
    files = (*preflight.terminfo(environ, prepared.machine.home), *prepared.agent_files)
    if prepared.settings.profile.name != "demo":
        return files
    with open(f"{load.profiles_folder()}/demo-agent.sh", "rb", 0) as file:
        return (*files, (f"{agent_dev_paths.RUN}/demo-agent.sh", file.read()))


def _control_socket(prepared: PreparedRun, folder: str) -> plan.ControlSocket | None:
    if not prepared.settings.profile.tx_inside:
        return None
    from agent_dev.control import socket_file  # only with `tx_inside`

    return socket_file.control_socket(folder, prepared.machine.system, prepared.untrusted_paths)
