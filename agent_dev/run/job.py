"""A run that is ready to start, and its outcome."""

from agent_dev.home.mount_points import HomeLease
from agent_dev.run.request import PreparedRun
from agent_dev.sandbox.plan import SandboxPlan, SessionSpec
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.checkpoint.last_checkpoint import LastCheckpoint
    from agent_dev.merge.review import ReviewFindings
    from agent_dev.overlay.lower_snapshot_request import PriorChanges


class RunOutcome(Value):
    """The outcome of a run: its exit code, and the number of changes, commits and refs kept (all 0: session removed)."""

    exit_code: int
    session: store.Session
    name: str
    changes: int
    commits: int
    opens_review: bool
    refreshes: int = 0
    end_signal: int = 0
    refs: int = 0
    has_timed_out: bool = False  # stopped at its deadline
    denied: int = 0  # number of commands that the policy denied
    server_notices: tuple[str, ...] = ()  # what the user should know about its connections and what it read of the clipboard
    limit_notice: str = ""  # the limit that ended it
    checkpoint_error: str = ""  # why there is no checkpoint of the end
    kept_notice: str = ""  # why it is kept without changes: all were undone at its end, or only checkpoints hold some
    last_checkpoint: "LastCheckpoint | None" = None  # still being taken; nothing may change the session before it is finished
    review_cache: "ReviewFindings | None" = None  # its changes, for the next opening

    @property
    def is_kept(self) -> bool:
        """True if the session has changes, commits or refs, or a notice."""
        return bool(self.changes or self.commits or self.refs or self.kept_notice)


class RunJob(Value):
    """A run that is ready to start, in a new or a resumed session."""

    prepared: PreparedRun
    session: store.Session
    plan: SandboxPlan
    spec: SessionSpec
    record: store.Record
    home: HomeLease
    environ: dict[str, str]
    touched: "tuple[PriorChanges, ...]" = ()
    deadline: int = 0
    merge_lock: int = -1
    has_checkpoints: bool = True
    reviews_next: bool = False  # as in the request
    name_claim: int = -1  # on its name, until the record has it

    @property
    def is_resumed(self) -> bool:
        """True if this run resumes a session."""
        return bool(self.touched)
