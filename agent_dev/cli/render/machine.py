"""Plans, profiles and this machine, as text or JSON on stdout."""

from collections.abc import Iterable, Sequence

from agent_dev.cli.render.format import as_document, fitted, line
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.doctor import Finding
    from agent_dev.run.show import Shown


_MARKS = {"well": "✓", "lacking": "-", "wrong": "✗"}


def shown(value: "Shown", *, as_json: bool) -> None:
    """Print what a run would look like."""
    if as_json:
        rows = [{"what": label, "value": text, "origin": origin or None} for label, text, origin in value.rows]
        as_document({"version": 1, "rows": rows, "bwrap": value.shell_line})
        return
    for label, text, origin in value.rows:
        line(f"{label:<10} {visible(text)}" + (f"   ({visible(origin)})" if origin else ""))
    line("")
    line(value.shell_line)


def profiles(known: Iterable[tuple[str, str, str]], *, as_json: bool) -> None:
    """Print the profiles."""
    if as_json:
        rows = [{"name": profile, "path": path, "about": about} for profile, path, about in known]
        as_document({"version": 1, "profiles": rows})
        return
    for profile, path, about in known:
        fitted(f"{profile:<12} {about}  ({path})")


def findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print what doctor found."""
    if as_json:
        rows = [{"what": one.what, "found": one.found, "wrong": one.is_wrong, "cure": one.cure or None} for one in found]
        as_document({"version": 1, "findings": rows})
        return
    for one in found:
        fitted(f"{_MARKS[one.state]} {one.what}: {visible(one.found)}")
        if one.cure:
            fitted(f"    → {one.cure}")
