"""Print plans of sandboxes, and profiles, as text or JSON."""

from collections.abc import Iterable

from agent_dev.cli.render.format import print_json, print_line, print_wrapped
from agent_dev.overlay.labels import format_count
from agent_dev.run.config_report import is_default
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.show import RunPreview

_DETAILS = ("path", "env")
_SYSTEM = ("/usr ", "/opt ", "/bin ", "/sbin ", "/lib", "/etc", "/proc", "/dev", "/sys", "/run", "/tmp ", "/var/tmp ")


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
