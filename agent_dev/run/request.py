"""A requested run, and the facts prepared for it."""

from agent_dev.config.options import RunOptions
from agent_dev.config.profile import Settings
from agent_dev.git import repository
from agent_dev.sandbox.plan import Machine, MaskEntry
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.git.nested_repositories import NestedRepository
    from agent_dev.sandbox.containers.support import ContainerSupport
    from agent_dev.sandbox.shared_sockets import SharedSocket
    from agent_dev.sandbox.terminal.pty import Terminal

    Notice = Callable[[str], None]  # shows a line to the user
else:
    ContainerSupport = NestedRepository = SharedSocket = object

HOSTS_SUFFIX = "-hosts"  # of the name of the file with the hosts, after that of `findings`
AGENT, COMMAND, AGENT_OR_COMMAND = "agent", "command", "agent or command"  # what the arguments of a run are


class RunRequest(Value):
    """A run: the agent or command with its arguments, the options, and the user's environment."""

    arguments: tuple[str, ...]
    options: RunOptions
    environ: dict[str, str]
    kind: str = AGENT  # COMMAND, as after `--`: never a profile; AGENT: a profile or a listed program, else an error
    deadline: int = 0  # monotonic ns when the run is stopped; 0: never
    merge_lock: int = -1  # descriptor of a lock file: held by merges, and by this run until its lower snapshot
    continues: bool = False  # a resumed session goes on with the agent's own conversation, if its profile says how
    agent_arguments: tuple[str, ...] = ()  # of a resumed session's agent, in place of those of its first run
    forks: bool = False  # it goes on with a copy of the conversation instead
    review_notes: bytes = b""  # notes of the review, a file for the agent of a resumed session
    terminal: "Terminal | None" = None  # of a session that can be detached; None: the user's
    has_checkpoints: bool = True  # False for a transaction: if it fails it is kept whole, otherwise merged
    reviews_next: bool = False  # the caller opens the review next, and ends the last checkpoint (`RunOutcome.last_checkpoint`)
    command: tuple[str, ...] = ()  # runs instead of the agent, with the agent's settings


class PreparedRun(Value):
    """Everything that is known before the session is created."""

    settings: Settings
    machine: Machine
    location: repository.SessionLocation
    cwd: str
    command: tuple[str, ...]
    agent_home: str
    homes_folder: str  # folder of all agent homes, if each profile or project has one
    store: store.Store
    cache_folder: str
    overlays: tuple[str, ...]
    ro: tuple[str, ...]
    rw: tuple[str, ...]
    tools: tuple[str, ...]
    caches: tuple[str, ...]
    masked_views: tuple[tuple[str, tuple[MaskEntry, ...]], ...]  # of tools, caches and `ro`: path, masks for its credentials
    shared_sockets: tuple[SharedSocket, ...]
    hidden: tuple[tuple[str, str], ...]  # tool directories not shown, with reasons
    notices: tuple[str, ...]  # about untrusted settings of the repository, and a conversation that cannot continue
    upstream_ca: str = ""  # the real path of a file with authorities that agents trust besides the system's
    trust_bundle: str = ""  # a file with these and the system's
    stand_ins: tuple[tuple[str, str], ...] = ()  # variables inside and their stand-in keys, if there are credentials
    containers: ContainerSupport | None = None  # if the agent can run containers
    ssh_agent: str = ""  # the user's ssh-agent, if a filter is in front of it
    clipboard: str = ""  # the program that reads the user's clipboard, if its images are shared
    agent_files: tuple[tuple[str, bytes], ...] = ()  # generated files of the sandbox for this agent: path, content
    seeds: tuple[tuple[str, bytes], ...] = ()  # files that the agent home gets unless it has them: path there, content
    findings: str = ""  # a file for what the agent looks for and is denied (`learn`), and one for its hosts; "": none
    nested_repositories: tuple[NestedRepository, ...] = ()  # below the root, in direct mode

    @property
    def untrusted_paths(self) -> tuple[str, ...]:
        """The paths that an agent may have written, from which no program is run on the host."""
        return (self.location.root, self.agent_home, self.homes_folder, *self.overlays, *self.rw)
