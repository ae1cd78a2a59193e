"""Write patches: escaped, coloured and paged on a terminal, exact bytes elsewhere."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import TextIOWrapper

from agent_dev.cli.render.colour import ALWAYS, AUTO, OutputTone, Palette, choose_palette
from agent_dev.sanitize import visible
from agent_dev.value import Value

_PAGER = "less"
_LESS = "FRX"  # as git: quit if it fits, raw colours, no alternate screen
# A pager that cannot be started has read nothing, so that cat shows all. Ctrl-C is the pager's, and ends cat.
_OR_CAT = 'trap : INT; /bin/sh -c "$0"; case $? in 126|127) exec cat;; esac'
_TONES = {"+": OutputTone.ADDED, "-": OutputTone.REMOVED, "@": OutputTone.HEADING}


class PatchStyle(Value):
    """The format of a patch: exact for programs; else escaped for a reader, with or without colours."""

    is_exact: bool = True
    is_coloured: bool = False


@contextmanager
def open_output(environ: Mapping[str, str], color: str = AUTO, *, has_pager: bool = True) -> Iterator[PatchStyle]:
    """Prepare stdout for patches; on a terminal a pager reads them.

    Forced colours imply escaping, so that no text of an agent reaches a terminal raw.
    """
    is_terminal = sys.stdout.isatty()
    is_dumb = environ.get("TERM", "dumb") in ("", "dumb")
    is_coloured = choose_palette(environ, color).is_coloured
    pager = environ.get("PAGER", _PAGER) if is_terminal and has_pager and not is_dumb else ""
    shown = PatchStyle(is_exact=not is_terminal and color != ALWAYS, is_coloured=is_coloured)
    if pager in ("", "cat"):
        yield shown
        return
    with _pipe_to(pager, environ):
        yield shown


@contextmanager
def _pipe_to(pager: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Redirect stdout to a pager; output that the pager does not read is dropped."""
    import subprocess  # not needed without a pager

    sys.stdout.flush()
    env = {"LESS": _LESS, "LV": "-c", **environ}
    try:
        process = subprocess.Popen(("/bin/sh", "-c", _OR_CAT, pager), stdin=subprocess.PIPE, env=env)
    except OSError:  # cannot fork: no pager
        yield
        return
    stdout, before = sys.stdout, signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager handles Ctrl-C
    assert process.stdin is not None  # noqa: S101  (a pipe)
    sys.stdout = TextIOWrapper(process.stdin, encoding="utf-8", errors="surrogateescape")
    try:
        with suppress(BrokenPipeError):
            yield
        with suppress(BrokenPipeError):
            sys.stdout.close()
    finally:
        sys.stdout = stdout
        process.wait()
        signal.signal(signal.SIGINT, before)


def write_patch(patch: bytes, shown: PatchStyle) -> None:
    """Write the patch of one change."""
    if not patch:
        return
    if shown.is_exact:
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
        sys.stdout.buffer.flush()
        return
    sys.stdout.writelines(f"{line}\n" for line in _lines(patch, is_coloured=shown.is_coloured))
    sys.stdout.flush()


def _lines(patch: bytes, *, is_coloured: bool) -> Iterator[str]:
    palette, is_head = Palette(is_coloured), True
    for raw in patch.removesuffix(b"\n").split(b"\n"):
        line = visible(raw, tab="\t")
        is_head = line.startswith("diff --git ") or (is_head and not line.startswith("@@ "))
        yield palette.paint(line, OutputTone.STRONG if is_head else _TONES.get(line[:1]))
