"""A table of the files that agent-dev keeps, and of the modules that write them; the tests of damaged state draw from it.

A module that writes files must have a row here (tests/unit/test_state_files.py), and a row must have a file in the world of
tests/faults/test_damaged_state.py, or a reader in tests/disk/session/test_damaged_files.py. Every test of the whole program looks
for files without a row (tests/conftest.py). So no kind is forgotten.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

SESSION = "state/agent-dev/*/*"  # of sessions/ and trash/
_LAYERS = ("upper", "work")  # of overlays: the agent's files, and the kernel's
_TEMPORARY = re.compile(r"\.(new|\d+)$")  # ends the name of a file that is about to replace another one
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
        """Return whether a path, relative to a world, is of this kind."""
        return _matches(path, self.pattern)


def _matches(path: PurePath, pattern: str) -> bool:
    """Return whether a path matches a pattern; a `*` at the end also matches files below."""
    parts, wanted = path.parts, PurePath(pattern).parts
    if len(parts) > len(wanted) and wanted[-1].endswith("*"):
        parts = parts[: len(wanted)]
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


KINDS = (
    StateFile("state/agent-dev/format", ("session/store",)),
    StateFile("state/agent-dev/tick", ("merge_engine/merge_clock",)),
    StateFile("state/agent-dev/homes/*-*[0-9a-f]", ("home/mount_points",), is_read_alone=True),
    StateFile("state/agent-dev/homes/*.last", ("home/index",)),
    StateFile("state/agent-dev/homes/*.before", ("home/index",)),
    StateFile("state/agent-dev/homes/*.import", ("home/importing/record",)),
    StateFile("state/agent-dev/homes/networks/*", ("home/network_lease",), is_read_alone=True),
    StateFile("state/agent-dev/trust/*", ("config/trust_store",), is_read_alone=True),
    StateFile("state/agent-dev/snapshots/*/about.json", ("direct/direct_run",)),
    StateFile("state/agent-dev/snapshots/*/opened", ("fs/unlocked_modes",)),
    StateFile("state/agent-dev/snapshots/*/rounds/.agent-dev-backups/*.json", ("backup/backup_store",)),
    StateFile("state/agent-dev/snapshots/*/after/manifest", ("overlay/lower_snapshot_take",)),
    StateFile("state/agent-dev/snapshots/*/after/index*", ("overlay/lower_snapshot_take",)),
    StateFile("state/agent-dev/snapshots/*/after/content/*", ("overlay/lower_snapshot",)),
    StateFile("state/agent-dev/fleet/*/run.json", ("fleet/run_folder",), is_read_alone=True),
    StateFile("state/agent-dev/fleet/*/journal", ("fleet/run_folder",), is_read_alone=True),
    StateFile(f"{SESSION}/session.json", ("session/store",)),
    StateFile(f"{SESSION}/archive", ("checkpoint/session_archive",)),
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
    StateFile(f"{SESSION}/base/before-*", ("overlay/rows_before_merge",)),
    StateFile(f"{SESSION}/base/content/*", ("overlay/lower_snapshot",)),
    StateFile(f"{SESSION}/checkpoints/*/about.json", ("checkpoint/checkpoint_store",)),
    StateFile(f"{SESSION}/checkpoints/*/*.table", ("checkpoint/checkpoint_store",)),
    StateFile(f"{SESSION}/checkpoints/objects/*", ("checkpoint/content_pool",)),
    StateFile(f"{SESSION}/objects/*", ("git/private_copy",)),
    StateFile(f"{MERGE}/journal", ("merge_engine/journal_file",)),
    StateFile(f"{MERGE}/results", ("merge_engine/merged_texts",)),
    StateFile(f"{MERGE}/summary.json", ("merge/history",)),
    StateFile(f"{MERGE}/opened", ("fs/unlocked_modes",)),
    StateFile("config/agent-dev/network/*.yaml", ("config/remembered_rules",)),
    StateFile("home/*/.git/worktrees/*/agent-dev", ("session/made_work_trees",), is_read_alone=True),
    StateFile("cache/agent-dev/etc-*", ("sandbox/etc",)),
    StateFile("cache/agent-dev/ca-*.crt", ("network/upstream/certificates",)),
    StateFile("cache/agent-dev/*.json", ("fs/cache",)),
)

# Files in our directories that the tests of damaged state do not damage, and why.
NOT_OURS = {
    f"{SESSION}/roots/*": "the agent's files",
    f"{SESSION}/base/git-*": "an empty repository, written before each use",
    f"{SESSION}/ca-bundle.crt": "certificates, read inside",
    f"{SESSION}/java-cacerts": "certificates, read inside",
    f"{MERGE}/stage-*": "files of the user and the agent, on the way",
    f"{MERGE}/aside-*": "files of the user and the agent, for an undo",
    "state/agent-dev/snapshots/*/tree/*": "a copy of the user's files",
    "state/agent-dev/snapshots/*/rounds/[0-9]*": "copies of the user's files",
    "state/agent-dev/fleet/*/attempt-*": "bundles and output of workers, which are not trusted anyway",
    "state/agent-dev/fleet/*/pack": "git's own objects",
    "state/agent-dev/covers/*": "what agents see instead of files with tokens",
    "state/agent-dev/trash/home-*": "files of former agent homes",
    "state/agent-dev/gone/*": "being removed",
    "state/agent-dev/crashes/*": "reports for a person",
    "cache/agent-dev/*.json.[0-9]*": "a file that is about to replace another one",
}

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


def find_unknown(state: Path, cache: Path) -> Iterator[PurePath]:
    """Yield the files with content in a state and a cache directory of which neither KINDS nor NOT_OURS knows the kind."""
    patterns = (*(kind.pattern for kind in KINDS), *NOT_OURS)
    for name, folder in (("state/agent-dev", state), ("cache/agent-dev", cache)):
        for parent, folders, files in os.walk(folder):
            above = PurePath(name, Path(parent).relative_to(folder))
            folders[:] = [one for one in folders if one not in _LAYERS and not _is_not_ours(above / one)]
            for path in map(above.joinpath, files):
                known = path.with_name(_TEMPORARY.sub("", path.name) or path.name)
                is_known = any(_matches(known, pattern) or _is_folder_of(known, pattern) for pattern in patterns)
                if not is_known and _has_content(folder / path.relative_to(name)):
                    yield path


def _is_not_ours(path: PurePath) -> bool:
    return any(_matches(path, pattern) for pattern in NOT_OURS)


def _is_folder_of(path: PurePath, pattern: str) -> bool:
    """Return whether a path is where a pattern has a directory; a test has put a file there."""
    parts = PurePath(pattern).parts[: len(path.parts)]
    return "*" not in parts[-1] and len(parts) < len(PurePath(pattern).parts) and _matches(path, "/".join(parts))


def _has_content(path: Path) -> bool:
    """Return whether a path is a regular file that is not empty; False if it was just removed."""
    try:
        return path.is_file() and not path.is_symlink() and path.stat().st_size > 0
    except OSError:
        return False
