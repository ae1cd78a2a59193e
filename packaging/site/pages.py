# ruff: noqa: INP001  (a hook of MkDocs)
"""Add pages to those of docs/: the files of the top directory, and a reference that is generated from the program's tables."""

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP))

from mkdocs.structure.files import File, Files  # noqa: E402  the path comes first

from agent_dev.cli import help_text  # noqa: E402
from tests.harness.reference import json_schemas  # noqa: E402
from tests.harness.reference.parsers import Argument, Subcommand, run_arguments, subcommands  # noqa: E402

_TOP_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_SOURCE = re.compile(r"^(?:\.\./)*((?:agent_dev|tui|tests|profiles|benchmarks|packaging|\.ci|LICENSE|pyproject).*)$")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for name, page in _TOP_PAGES.items():
        files.append(File.generated(config, page, content=_from_top((TOP / name).read_text(encoding="utf-8"))))
    generated = {
        "reference/commands.md": _commands(),
        "reference/settings.md": _settings(),
        "reference/schemas.md": _schemas(),
        "decisions.md": _decisions(),
    }
    for page, lines in generated.items():
        files.append(File.generated(config, page, content="\n".join(lines) + "\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files of the top directory to the site's pages, and links to source code to the published source."""
    depth = page.file.src_uri.count("/")

    def replace(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        found = target.lstrip("./") if target.startswith("..") else target
        if found in _TOP_PAGES:
            return f"]({'../' * depth}{_TOP_PAGES[found]}{anchor})"
        source = _SOURCE.match(target)
        return f"](https://example.org/agent-dev/source/{source[1]})" if source else match[0]

    return _LINK.sub(replace, markdown)


def _from_top(text: str) -> str:
    return re.sub(r"\]\(docs/", "](", text)


def _commands() -> Iterator[str]:
    yield "# Commands and options"
    yield ""
    yield " ".join(help_text.ALL.partition("\n\n")[0].split())
    yield "\n## Options of a run\n"
    yield from map(_argument, run_arguments())
    for verb in subcommands():
        yield from _subcommand(verb)


def _subcommand(verb: Subcommand) -> Iterator[str]:
    yield f"\n## {verb.name}\n"
    yield "```\n" + "\n".join(" ".join(line.split()) for line in verb.usage.splitlines()) + "\n```\n"
    yield _escape(verb.description) + "\n"
    yield from map(_argument, (*verb.positionals, *verb.options))
    if verb.example:
        yield f"\nExample: `{verb.example}`"


def _argument(one: Argument) -> str:
    names = ", ".join(f"`{name}`" for name in one.names)
    value = f"`{one.metavar}`" if one.metavar else ""
    return f"- {' '.join(filter(None, (names, value)))}: {_escape(one.about)}"


def _settings() -> Iterator[str]:
    """Read the fields of Profile, with their comments."""
    source = (TOP / "agent_dev/config/profile.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    profile = next(one for one in ast.parse(source).body if isinstance(one, ast.ClassDef))
    yield "# Keys of settings\n"
    yield "The keys of profiles and `config.yaml`, with their built-in values. [Profiles](../profiles.md#keys) explains them.\n"
    yield "| key | built-in value | meaning |"
    yield "|---|---|---|"
    for field in profile.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None:
            default = ast.unparse(field.value)
            comment = lines[field.lineno - 1].partition("  # ")[2]
            yield f"| `{field.target.id}` | `{default}` | {_escape(comment).replace('|', chr(92) + '|')} |"


def _schemas() -> Iterator[str]:
    yield "# JSON schemas\n"
    yield "A schema for each document of `--json`, in the form of JSON Schema 2020-12. [JSON](../json.md) explains the keys.\n"
    for name in json_schemas.SCHEMAS:
        yield f"- [{name}](../json/{name}.schema.json)"


def _decisions() -> Iterator[str]:
    yield "# Decisions\n"
    for name in sorted(os.listdir(TOP / "docs/decisions")):
        title = (TOP / "docs/decisions" / name).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        yield f"- [{title}](decisions/{name})"


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
