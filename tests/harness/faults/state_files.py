"""A table of the files that agent-dev keeps, and of the modules that write them; the tests of damaged state draw from it.

A module that writes files must have a row here (tests/unit/test_state_files.py), and a row must have a file in the world of
tests/faults/test_damaged_state.py, or a reader in tests/disk/session/test_damaged_files.py. So no kind is forgotten.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

SESSION = "state/agent-dev/*/*"  # of sessions/ and trash/
MERGE = "state/agent-dev/merges/*"


@dataclass(frozen=True)
class StateFile:
    """A kind of file: its path in a world, with `*` for names, and the modules that write it.

    `is_read_alone`: only its reader is tested, since only a running session has it, or planting it would end other commands.
    """

    pattern: str
    writers: tuple[str, ...]
    is_read_alone: bool = False

    def matches(self, path: PurePath) -> bool:
        """Return whether a path, relative to a world, is of this kind; a `*` at the end also matches files below."""
        parts, wanted = path.parts, PurePath(self.pattern).parts
        if len(parts) > len(wanted) and wanted[-1].endswith("*"):
            parts = parts[: len(wanted)]
        return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


KINDS = (
    StateFile("state/agent-dev/format", ("session/store",)),
    StateFile("state/agent-dev/tick", ("merge_engine/merge_clock",)),
    StateFile("state/agent-dev/homes/*.last", ("home/index",)),
    StateFile("state/agent-dev/homes/*.before", ("home/index",)),
    StateFile("state/agent-dev/homes/*.import", ("home/importing/record",)),
    StateFile("state/agent-dev/homes/networks/*", ("home/network_lease",), is_read_alone=True),
    StateFile("state/agent-dev/trust/*", ("config/trust_store",), is_read_alone=True),
    StateFile("state/agent-dev/snapshots/*/about.json", ("direct/direct_run",)),
    StateFile("state/agent-dev/snapshots/*/opened", ("fs/unlocked_modes",)),
    StateFile("state/agent-dev/snapshots/*/rounds/.agent-dev-backups/*.json", ("backup/backup_store",)),
    StateFile(f"{SESSION}/session.json", ("session/store",)),
    StateFile(f"{SESSION}/events.jsonl", ("session/events", "session/hash_chain")),
    StateFile(f"{SESSION}/commands.jsonl", ("session/hash_chain",)),
    StateFile(f"{SESSION}/network.jsonl", ("session/hash_chain", "network/standby")),
    StateFile(f"{SESSION}/network-rules.json", ("network/deciding/live_rules",)),
    StateFile(f"{SESSION}/published.json", ("network/published/port_list",)),
    StateFile(f"{SESSION}/asks/last", ("session/approvals",)),
    StateFile(f"{SESSION}/asks/*.json", ("session/approvals",)),
    StateFile(f"{SESSION}/asks/*.answer", ("session/approvals",)),
    StateFile(f"{SESSION}/judged.json", ("risk/cache",)),
    StateFile(f"{SESSION}/draft.json", ("merge/saved_selection",)),
    StateFile(f"{SESSION}/conflicts.json", ("commits/saved_resolutions",)),
    StateFile(f"{SESSION}/result.json", ("cli/run_result",)),
    StateFile(f"{SESSION}/opened", ("session/uppers",)),
    StateFile(f"{SESSION}/rollback.pending", ("checkpoint/rollback",)),
    StateFile(f"{SESSION}/git/*", ("agent_git/refs", "git/private_copy")),
    StateFile(f"{SESSION}/objects.elsewhere", ("git/object_links",), is_read_alone=True),
    StateFile(f"{SESSION}/base/manifest", ("overlay/lower_snapshot_take", "bundle/base_builder")),
    StateFile(f"{SESSION}/base/index*", ("overlay/lower_snapshot_take",)),
    StateFile(f"{SESSION}/base/merged", ("overlay/lower_snapshot",)),
    StateFile(f"{SESSION}/base/before", ("overlay/rows_before_merge",)),
    StateFile(f"{SESSION}/base/content/*", ("overlay/lower_snapshot",)),
    StateFile(f"{SESSION}/checkpoints/*/about.json", ("checkpoint/checkpoint_store",)),
    StateFile(f"{SESSION}/checkpoints/*/*.table", ("checkpoint/checkpoint_store",)),
    StateFile(f"{SESSION}/checkpoints/objects/*", ("checkpoint/content_pool",)),
    StateFile(f"{SESSION}/objects/*", ("git/private_copy",)),
    StateFile(f"{MERGE}/journal", ("merge_engine/journal_file",)),
    StateFile(f"{MERGE}/results", ("merge_engine/merged_texts",)),
    StateFile(f"{MERGE}/opened", ("fs/unlocked_modes",)),
    StateFile("config/agent-dev/network/*.yaml", ("config/remembered_rules",)),
    StateFile("home/*/.git/worktrees/*/agent-dev", ("session/made_work_trees",), is_read_alone=True),
    StateFile("cache/agent-dev/etc-*", ("sandbox/etc",)),
    StateFile("cache/agent-dev/ca-*.crt", ("network/upstream/certificates",)),
    StateFile("cache/agent-dev/*.json", ("fs/cache",)),
)

# Modules that write files that the tests of damaged state do not damage, and why.
NOT_DAMAGED = {
    "agents/install": "a file that lives as long as an installation",
    "agent_git/reftable": "a configuration for one command",
    "import_cache": "not in the state directory; tests/disk/cli/test_import_cache.py damages it",
    "bug_report/crash": "the report is for a person",
    "bundle/commits_import": "git's own objects",
    "bundle/content_places": "the agent's files, and files that live as long as the import",
    "bundle/signature": "keys of the user",
    "bundle/upper_builder": "the agent's files",
    "checkpoint/freezer": "control groups",
    "checkpoint/restore": "the agent's files",
    "cli/commands/sessions/bundle": "tests/disk/bundle/test_refused.py: flipped and cut bundles",
    "cli/commands/settings/learn": "a draft for the user",
    "cli/editor": "a file for the user's editor",
    "cli/main": "standard streams",
    "cli/setup/config_file": "the user's settings",
    "fleet/checkout": "empty locks, and git's own files",
    "fleet/hosts": "git's own objects",
    "fleet/jobs": "files that live as long as an attempt to run tasks",
    "fleet/run_folder": "tests/disk/fleet/test_resume.py: damaged and cut files",
    "fs/copytree": "the user's files",
    "fs/durable": "calls of other modules",
    "fs/safe_mkdir": "empty files to mount on",
    "fs/state_files": "calls of other modules",
    "git/bare": "a repository that lives as long as a command",
    "git/blob_reader": "a command's standard streams",
    "git/replay": "a repository that lives as long as a command",
    "home/importing/target": "files of an agent home",
    "home/index_process": "an empty lock",
    "home/manage": "files of an agent home",
    "home/mount_points": "empty locks",
    "linux/cgroups": "control groups",
    "linux/user_limits": "limits of the kernel",
    "retention/automatic": "an empty mark",
    "merge/export": "files for the user",
    "merge/pack": "an empty mark",
    "merge_engine/index_lock": "git's index of the user",
    "merge_engine/lfs_objects": "git's objects of the user",
    "merge_engine/pending_marks": "empty marks",
    "merge_engine/slots": "the user's and the agent's files",
    "network/broker/trust_files": "certificates of a running sandbox, read inside",
    "overlay/lower_snapshot_process": "a text for a person",
    "overlay/raw_json": "calls of other modules",
    "review_page/output_file": "a page for the user",
    "run/services": "a file that lives as long as `learn`",
    "sandbox/masks": "empty files to mount on",
    "sandbox/terminal/recording_file": "a recording for the user",
    "session/session_names": "an empty lock",
    "supervisor/findings": "a file that lives as long as `learn`",
}
