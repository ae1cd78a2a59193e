"""Alert a user who is not at the terminal that a long run has ended."""

import os
import time

from agent_dev.notification import BELL, TERMINAL, TITLE, NotificationSettings, send_notification, short_text, terminal_sequences

_ABSENT = 15  # seconds without input; the kernel updates a terminal's access time every eight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.job import RunJob, RunOutcome


def alert_end(job: "RunJob", outcome: "RunOutcome", terminal: int) -> None:
    """Alert the user of the end of a run, unless they have typed just now. It waits for nothing.

    `terminal`: a descriptor of the user's terminal, -1 for none.
    """
    if terminal >= 0 and time.time() - os.fstat(terminal).st_atime < _ABSENT:
        return
    profile = job.prepared.settings.profile
    untrusted = (*job.prepared.untrusted_paths, job.session.folder)
    settings = NotificationSettings(profile.notify, profile.notify_command, job.environ, untrusted)
    text = short_text(_describe(job, outcome))
    if terminal >= 0:
        data = b"\a" * (BELL in settings.ways) + terminal_sequences(TITLE, text) * (TERMINAL in settings.ways)
        try:
            os.write(terminal, data)
        except OSError:
            return  # hung up
    send_notification(settings, TITLE, text)


def _describe(job: "RunJob", outcome: "RunOutcome") -> str:
    program = os.path.basename(str(job.record["command"][0]))
    ended = f"{program} has ended" if not outcome.exit_code else f"{program} has ended, exit code {outcome.exit_code},"
    place = os.path.basename(str(job.record["root"]).rstrip("/"))
    counts = (("change", outcome.changes), ("commit", outcome.commits))
    found = ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts if count)
    return f"{ended} in {place}: {found or 'no changes'}"
