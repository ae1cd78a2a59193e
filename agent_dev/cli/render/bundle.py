"""Print what a bundle holds."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from agent_dev.bundle.importing import OpenBundle
from agent_dev.cli.render.format import command_text, print_json, print_line
from agent_dev.overlay.labels import format_size
from agent_dev.sanitize import visible
from agent_dev.session.origin import signer_as_json

_SHOWN = 1000  # paths
_KINDS = {  # of entries: one, many, and the word before a path
    "dir": ("directory", "directories", "directory"),
    "file": ("file", "files", "file"),
    "symlink": ("link", "links", "link"),
    "whiteout": ("deletion", "deletions", "deleted"),
    "fifo": ("FIFO", "FIFOs", "FIFO"),
    "socket": ("socket", "sockets", "socket"),
}


def describe_signer(signer: str) -> str:
    """Return `signed by WHO` or `unsigned`."""
    return f"signed by {visible(signer)}" if signer else "unsigned"


def describe_entries(rows: Iterable[dict[str, Any]]) -> str:
    """Return the number of entries of each type: `1 deletion, 2 files`."""
    counts = Counter(row["type"] for row in rows)
    return ", ".join(f"{count:,} {_KINDS[kind][count > 1]}" for kind, count in sorted(counts.items())) or "no changes"


def _changed_refs(row: dict[str, Any]) -> list[str]:
    return sorted(name for name, to in row["after"].items() if row["before"].get(name) != to and name != "HEAD")


def print_bundle(bundle: OpenBundle, *, as_json: bool) -> None:
    """Print a bundle's session, origin and paths, or the same as JSON."""
    value = bundle.manifest
    session = value["session"]
    refs = [(row["root"], name) for row in value["git"] for name in _changed_refs(row)]
    if as_json:
        rows = [
            {"root": number, "path": one["path"], "type": one["type"]}
            for number, root in enumerate(value["roots"])
            for one in root["entries"]
        ]
        print_json(
            {
                "version": 1,
                "name": session["name"] or None,
                "command": session["command"],
                "host": bundle.host,
                **signer_as_json(bundle.signer),
                "roots": [root["name"] for root in value["roots"]],
                "entries": rows,
                "refs": [{"root": root, "name": name} for root, name in refs],
                "left_out": value["left_out"],
                "bytes": sum(value["blobs"].values()),
            }
        )
        return
    print_line(f"session {session['name'] or '(no name)'}: {command_text(session['command'])}")
    print_line(f"{describe_signer(bundle.signer)}, from {visible(bundle.host)}, agent-dev {visible(value['made']['program'])}")
    print_line(f"{format_size(sum(value['blobs'].values()))} of files, logs: {', '.join(sorted(value['logs'])) or 'none'}")
    for root, name in refs:
        place = f" in {visible(value['roots'][root]['name'])}" if len(value["roots"]) > 1 else ""
        print_line(f"ref {visible(name)}{place}")
    for root in value["roots"]:
        print_line(f"root {visible(root['name'])}: {describe_entries(root['entries'])}")
        for one in islice(root["entries"], _SHOWN):
            print_line(f"  {_KINDS[one['type']][2]:<9} {visible(one['path'])}")
        if len(root["entries"]) > _SHOWN:
            print_line(f"  {len(root['entries']) - _SHOWN} more (--json)")
    for text in value["left_out"]:
        print_line(f"not in the bundle: {visible(text)}")
