"""Check each bundle that a worker sent, import it as a session, and merge it. Nothing in a bundle is executed."""

import os
from collections.abc import Callable
from typing import Any

from agent_dev.agent_git import commits
from agent_dev.bundle import importing
from agent_dev.errors import AgentDevError, BadBundle, Refused
from agent_dev.fleet import answer
from agent_dev.fleet.run_folder import FleetRun
from agent_dev.merge import history
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import removal, sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import child_process, merge_attempt
from agent_dev.transaction.result import EXIT_REFUSED, FAILED, MERGED, TransactionAttempt, TransactionResult, TransactionSpec

REFUSED, LOST = "refused", "lost"  # causes of tasks whose worker sent something else than its bundle, or nothing


@dataclass(frozen=True, slots=True)
class Delivery:
    """Imports and merges the results of a run. Every step is in the run's journal before the next one."""

    run: FleetRun
    spec: TransactionSpec
    context: CommandContext
    name: str  # the name of the sessions, before the task's number
    taken: frozenset[str] = frozenset()  # names of other open sessions

    def receive(self, number: int, path: str) -> TransactionResult:
        """Import the bundle of a task; return its result, with the session if it has one. A bad bundle is a failed task."""
        try:
            result = self._import(number, path)
        except (BadBundle, Refused, OSError) as error:
            reason = error.message if isinstance(error, AgentDevError) else str(error.strerror)
            return TransactionResult(FAILED, EXIT_REFUSED, (), REFUSED, reason)
        event = "imported" if result.session and result.state == MERGED else "finished"
        self.run.note(event, task=number, result=child_process.to_row(result))
        return result

    def _import(self, number: int, path: str) -> TransactionResult:
        limit = self.context.profile.max_bundle_mib << 20
        with open(path, "rb", buffering=1 << 20) as file:
            if os.fstat(file.fileno()).st_size >= limit:
                raise BadBundle(reason=f"it has more than {limit >> 20} MiB (max_bundle_mib)")
            bundle = importing.open_bundle(file, lambda _data, _signature: "")  # the task's id shows for whom it was made
            result = answer.parse_task(bundle.manifest, self.run.task_id(number))
            manifest = bundle.manifest
            if len(manifest["roots"]) == 1 and not manifest["roots"][0]["entries"] and not _moves_refs(manifest):
                bundle.read_members(None)
                return result.replace(commits=0)
            name = f"{self.name}-{number + 1}"
            name = "" if name in self.taken else name
            request = importing.ImportRequest(name, (), limit * 4)
            session = importing.import_bundle(bundle, self.context, request)
        count = self._count_commits(session) if _moves_refs(manifest) else 0
        return result.replace(session=session.id, name=name or session.id, commits=count)

    def _count_commits(self, session: store.Session) -> int:
        record = store.read_record(session)
        try:
            return len(commits.list_session_commits(session, record, self.context.environ)) or 1  # 1: a branch or a tag
        except AgentDevError:
            return 1  # the review says what is wrong with them

    def merge(self, number: int, result: TransactionResult, notice: Callable[[str], None]) -> TransactionResult:
        """Merge an imported task's session, all of it or nothing; return the new result."""
        self.run.note("merging", task=number)
        session = store.Session(result.session, f"{self.context.store.sessions}/{result.session}")
        try:
            attempt = TransactionAttempt(result, child_process.lock_session(session))
        except (AgentDevError, FileNotFoundError):
            done = result.replace(state=FAILED, code=EXIT_REFUSED, cause="session", reason="its session is in use or gone")
        else:
            done = merge_attempt.merge_result(attempt, self.spec, notice)
        self.finish(number, done)
        return done

    def finish(self, number: int, result: TransactionResult) -> None:
        """Note the final result of a task."""
        self.run.note("finished", task=number, result=child_process.to_row(result))

    def discard(self, result: TransactionResult) -> None:
        """Move the session of a task that is not needed any more to the trash."""
        session = store.Session(result.session, f"{self.context.store.sessions}/{result.session}")
        child_process.discard_attempt(TransactionAttempt(result, session), self.context.store)

    def recall(self) -> dict[int, tuple[TransactionResult, bool]]:
        """Return what an interrupted run has: results by task, and whether they are finished."""
        found: dict[int, tuple[TransactionResult, bool]] = {}
        merging: set[int] = set()
        for event in self.run.events():
            if event["event"] == "merging":
                merging.add(int(event["task"]))
            elif event["event"] in ("imported", "finished"):
                attempt = self._noted_attempt(event.get("result"))
                if attempt is not None:
                    found[int(event["task"])] = (attempt.result, event["event"] == "finished")
        merges = {one.session: one.id for one in history.list_merges(self.context)}
        for number, (result, is_finished) in found.items():
            if not is_finished and number in merging and result.session in merges:  # it was killed after the merge
                found[number] = (result.replace(merge=merges[result.session], session=""), True)
        return found

    def _noted_attempt(self, row: object) -> TransactionAttempt | None:
        try:
            return child_process.from_row(row, self.context.store)
        except (KeyError, TypeError, ValueError):
            return None  # damaged: the task runs again, or its session is reviewed

    def remove_unnoted(self, noted: set[int]) -> None:
        """Remove sessions that were imported, but not noted: the coordinator was killed in between. They are imported again."""
        ids = {self.run.task_id(number) for number in range(len(self.run.lines)) if number not in noted}
        for one in sessions.sessions_of_repository(self.context):
            if one.state == store.WAITING and one.record.get("imported", {}).get("task", "") in ids:
                removal.remove_session_now(child_process.lock_session(one.session))

    def sent_files(self, missing: tuple[int, ...]) -> list[tuple[int, str]]:
        """Return files that workers have sent for these tasks in earlier attempts."""
        attempts = [event for event in self.run.events() if event["event"] == "attempt"]
        files = [
            (number, f"{event['path']}/out/{job}")
            for event in attempts
            for job, number in enumerate(event["tasks"], 1)
            if number in missing
        ]
        return [(number, path) for number, path in files if os.path.exists(path) and os.path.getsize(path)]


def _moves_refs(manifest: dict[str, Any]) -> bool:
    return any(git["before"] != git["after"] for git in manifest["git"])
