"""Print plans of sandboxes, profiles and the state of this machine as text or JSON."""

from collections.abc import Iterable, Iterator, Sequence

from agent_dev.cli.render.format import print_json, print_line, print_wrapped
from agent_dev.overlay.labels import format_count
from agent_dev.run.config_report import is_default
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.doctor import Finding
    from agent_dev.run.show import RunPreview

_DETAILS = ("path", "env")
_SYSTEM = ("/usr ", "/opt ", "/bin ", "/sbin ", "/lib", "/etc", "/proc", "/dev", "/sys", "/run", "/tmp ", "/var/tmp ")
_MARKS = {"well": "✓", "lacking": "-", "wrong": "✗"}


def print_run_plan(value: "RunPreview", *, as_json: bool, with_defaults: bool) -> None:
    """Print the settings and the sandbox of a run; `with_defaults`: also what every run has, and the bwrap command."""
    if as_json:
        rows = [{"name": label, "value": text, "origin": origin or None} for label, text, origin in value.rows]
        print_json({"version": 1, "rows": rows, "bwrap": value.shell_line})
        return
    shown = [row for row in value.rows if with_defaults or not _is_usual(*row)]
    for label, text, origin in shown:
        print_line(f"{label:<17} {visible(text)}" + (f"   ({visible(origin)})" if origin else ""))
    if with_defaults:
        print_line("")
        print_line(value.shell_line)
    elif len(shown) < len(value.rows):
        print_line(f"{format_count(len(value.rows) - len(shown), 'other row')} as in every run (--all shows them)")


def _is_usual(label: str, text: str, origin: str) -> bool:
    """Return whether a row is the same in every run: defaults of the environment, mounts of the system."""
    if label == "mount":
        return text.startswith(_SYSTEM)
    return label in _DETAILS and is_default(origin)


def print_profiles(known: Iterable[tuple[str, str, str]], *, as_json: bool) -> None:
    """Print the profiles."""
    if as_json:
        rows = [{"name": profile, "path": path, "about": about} for profile, path, about in known]
        print_json({"version": 1, "profiles": rows})
        return
    for profile, path, about in known:
        print_wrapped(f"{profile:<12} {about}  ({path})")


def print_findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print the findings of doctor."""
    if as_json:
        rows = [
            {"check": one.subject, "result": one.result, "failed": one.has_failed, "hint": one.remedy or None} for one in found
        ]
        print_json({"version": 1, "findings": rows})
        return
    for line in finding_lines(found):
        print_wrapped(line)


def finding_lines(found: "Sequence[Finding]") -> Iterator[str]:
    """Return a line for each finding, and one for its hint."""
    for one in found:
        yield f"{_MARKS[one.state]} {visible(one.subject)}: {visible(one.result)}"
        if one.remedy:
            yield f"    hint: {one.remedy}"
