"""Prepare an agent's earlier output for a terminal that attaches to its session (xterm's ctlseqs, ECMA-48).

Replayed output may only draw: the answer to a query would become input of the agent, a copy would replace the clipboard.
"""

import re

from agent_dev.sandbox.attaching.output_modes import modes_after, parse_sequences

_CLEAR = re.compile(rb"\x1bc|\x1b\[3J")
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
_CLEAR_SCREEN = b"\x1b[2J"
_CONTROLS = re.compile(rb"[\x00-\x07\x18\x1a\x7f]|\xc2[\x80-\x9f]")
_CSI_FINALS = b"@ABCDEFGHIJKLMPSTXZ`abdefgmrhlsu"
_CSI_PREFIXED = {b"?": b"hlJK", b">": b"mu", b"<": b"u", b"=": b"u"}
_CSI_INTERMEDIATE = {(b" ", b"q"), (b"!", b"p")}  # shape of the cursor, soft reset
_QUIET_MODES = {b"3", b"2026", b"2048"}  # these change the width, hold back output, or report the size
_DRAWN_COMMANDS = {b"0", b"1", b"2", b"4", b"8", b"10", b"11", b"12", b"104", b"110", b"111", b"112"}
_ESCAPES = b"78=>DEHMcNO"
_CHARACTER_SETS = (b"(", b")")


def make_replay(modes: bytes, output: bytes) -> bytes:
    """Return output that draws the screen of an agent after this recent output. `modes`: those in force before it."""
    start = _start_of_screen(output)
    return modes_after(modes + output[:start]) + without_queries(output[start:])


def _start_of_screen(output: bytes) -> int:
    """Return the offset of the last point at which the screen was empty; 0 if there is none."""
    start = max((match.end() for match in _CLEAR.finditer(output)), default=0)
    switches = list(_ALTERNATE.finditer(output))
    if not switches or switches[-1][1] == b"l":
        return start
    return max(start, switches[-1].end(), output.rfind(_CLEAR_SCREEN) + len(_CLEAR_SCREEN))


def without_queries(output: bytes) -> bytes:
    """Return only those parts of output that draw."""
    parts = []
    for text, sequence in parse_sequences(output):
        parts.append(_CONTROLS.sub(b"", text))
        if sequence is not None and _draws(sequence.kind, sequence.parameters, sequence.final):
            parts.append(sequence.data)
    return b"".join(parts)


def _draws(kind: bytes, parameters: bytes, final: bytes) -> bool:
    if kind == b"[":
        return _csi_draws(parameters, final)
    if kind == b"]":
        return parameters.partition(b";")[0] in _DRAWN_COMMANDS and b"?" not in parameters.partition(b";")[2]
    return kind == b"" and (final in _ESCAPES if not parameters else parameters in _CHARACTER_SETS)


def _csi_draws(parameters: bytes, final: bytes) -> bool:
    body = parameters.rstrip(b" !\"#$%&'()*+,-./")
    intermediate = parameters[len(body) :]
    if intermediate:
        return (intermediate, final) in _CSI_INTERMEDIATE
    if body[:1] in _CSI_PREFIXED:
        is_quiet = final in b"hl" and not _QUIET_MODES.isdisjoint(body[1:].split(b";"))
        return final in _CSI_PREFIXED[body[:1]] and not is_quiet and body != b"?"
    return final in _CSI_FINALS
