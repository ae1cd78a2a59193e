"""What an agent may say at the door of its session, and whose turn it is: four words, and nothing else."""

from agent_dev.value import Value

BEGIN, COMMIT, ROLLBACK, CHECKPOINT = "begin", "commit", "rollback", "checkpoint"
LONGEST = 1024  # bytes of a request, with its newline
DEEPEST = 16  # transactions in one another
_DIGITS = 9


class Request(Value):
    """One line that an agent said. `text`: why, of a begin or a checkpoint; `number`: where a rollback goes, 0: to the begin.

    `paths`: what alone stays of what is committed, absolute; empty: all of it.
    """

    word: str
    text: str = ""
    number: int = 0
    paths: tuple[str, ...] = ()


def parse(line: bytes) -> Request:
    """Return what a line without its newline asks for. Raises ValueError with the reason, in words that are ours alone."""
    try:
        said = line.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    word, blank, text = said.partition(" ")
    if word not in (BEGIN, COMMIT, ROLLBACK, CHECKPOINT):
        raise ValueError("the words are begin, commit, rollback and checkpoint")
    if not said.isprintable() or bool(blank) != bool(text):
        raise ValueError("a word, and at most one line of text after it")
    if word == COMMIT:
        return Request(word, paths=tuple(_path(one) for one in text.split(" ")) if text else ())
    if word != ROLLBACK:
        return Request(word, text)
    if text and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text)):
        raise ValueError("a checkpoint is named by its number")
    return Request(word, number=int(text or 0))


def _path(quoted: str) -> str:
    """Return an absolute path of which each byte but for visible ASCII stands as %XX."""
    first, *others = quoted.split("%")
    try:
        raw = first.encode("ascii") + b"".join(bytes.fromhex(one[:2]) + one[2:].encode("ascii") for one in others)
    except ValueError:
        raw = b""
    path = raw.decode("utf-8", "surrogateescape")
    parts = path.split("/")[1:] if path.startswith("/") else ()
    if not parts or "\0" in path or "" in others or any(part in ("", ".", "..") for part in parts):
        raise ValueError("a path begins with /, has no empty part, no . and no .., and each byte but for visible ASCII as %XX")
    return path


class Open(Value):
    """A transaction that has begun. `is_void`: one around it was rolled back, and it with that one."""

    client: int
    pid: int
    checkpoint: int
    is_void: bool = False


Opened = tuple[Open, ...]  # the outermost first


def has_turn(opened: Opened, client: int, ancestry: tuple[int, ...]) -> bool:
    """Whether a client may begin, or go back: nothing is open, or it lies within the innermost that is.

    `ancestry`: the client's process and those above it. Two that lie side by side take turns, since the rollback of one would
    take with it what the other did.
    """
    return not opened or opened[-1].client == client or opened[-1].pid in ancestry


def of(opened: Opened, client: int) -> Open | None:
    """Return a client's transaction."""
    return next((one for one in opened if one.client == client), None)


def committed(opened: Opened, client: int) -> Opened:
    """Return what is open when a client's has ended well."""
    return tuple(one for one in opened if one.client != client)


def rolled_back(opened: Opened, client: int) -> Opened:
    """Return what is open when a client's was rolled back: what began within it is void."""
    at = next((number for number, one in enumerate(opened) if one.client == client), len(opened))
    return (*opened[:at], *(one.but(is_void=True) for one in opened[at + 1 :]))


def outermost(opened: Opened) -> int:
    """Return the checkpoint that makes all undone that is open; 0 for none."""
    return next((one.checkpoint for one in opened if not one.is_void), 0)
