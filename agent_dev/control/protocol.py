"""The protocol of a session's control socket: four requests, and the rules for who may send them."""

from agent_dev.value import Value

BEGIN, COMMIT, ROLLBACK, CHECKPOINT = "begin", "commit", "rollback", "checkpoint"
MAX_REQUEST = 1024  # bytes of a request, with its newline
MAX_DEPTH = 16  # nested transactions
_MAX_DIGITS = 9


class ControlRequest(Value):
    """A request line of an agent.

    `text`: the reason of a begin or checkpoint. `number`: the checkpoint of a rollback, 0 for the begin. `paths`: the absolute
    paths whose changes a commit keeps; empty: all.
    """

    verb: str
    text: str = ""
    number: int = 0
    paths: tuple[str, ...] = ()


def parse_request(line: bytes) -> ControlRequest:
    """Parse a line without its newline. Raises ValueError with a reason in our own words."""
    try:
        decoded = line.decode()
    except UnicodeDecodeError:
        raise ValueError("the request is not UTF-8") from None
    verb, space, text = decoded.partition(" ")
    if verb not in (BEGIN, COMMIT, ROLLBACK, CHECKPOINT):
        raise ValueError("valid requests: begin, commit, rollback, checkpoint")
    if not decoded.isprintable() or bool(space) != bool(text):
        raise ValueError("a request is a verb and optionally one line of printable text")
    if verb == COMMIT:
        return ControlRequest(verb, paths=tuple(map(_decode_path, text.split(" "))) if text else ())
    if verb != ROLLBACK:
        return ControlRequest(verb, text)
    if text and not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text)):
        raise ValueError("a checkpoint is given by its number")
    return ControlRequest(verb, number=int(text or 0))


def _decode_path(quoted: str) -> str:
    """Return an absolute path, percent-decoded; every byte except visible ASCII must be encoded."""
    head, *others = quoted.split("%")
    try:
        raw = head.encode("ascii") + b"".join(bytes.fromhex(encoded[:2]) + encoded[2:].encode("ascii") for encoded in others)
    except ValueError:
        raw = b""
    path = raw.decode("utf-8", "surrogateescape")
    parts = path.split("/")[1:] if path.startswith("/") else ()
    if not parts or "\0" in path or "" in others or any(part in ("", ".", "..") for part in parts):
        raise ValueError(
            "a path must be absolute, without empty, . or .. components, and percent-encoded except for visible ASCII"
        )
    return path


class OpenTransaction(Value):
    """A transaction in progress. `is_void`: an enclosing one was rolled back, and this one with it."""

    client: int
    pid: int
    checkpoint: int
    is_void: bool = False


OpenTransactions = tuple[OpenTransaction, ...]  # outermost first


def may_proceed(transactions: OpenTransactions, client: int, ancestry: tuple[int, ...]) -> bool:
    """Return whether a client may begin or roll back: no transaction is open, or the client is inside the innermost one.

    `ancestry`: the client's process and its ancestors. Unrelated transactions run one at a time: a rollback of one would also
    revert the changes of the other.
    """
    return not transactions or transactions[-1].client == client or transactions[-1].pid in ancestry


def transaction_of(transactions: OpenTransactions, client: int) -> OpenTransaction | None:
    """Return a client's transaction."""
    return next((one for one in transactions if one.client == client), None)


def after_commit(transactions: OpenTransactions, client: int) -> OpenTransactions:
    """Return the open transactions after a client's commit."""
    return tuple(one for one in transactions if one.client != client)


def after_rollback(transactions: OpenTransactions, client: int) -> OpenTransactions:
    """Return the open transactions after a client's rollback; those nested in it become void."""
    index = next((number for number, one in enumerate(transactions) if one.client == client), len(transactions))
    return (*transactions[:index], *(one.replace(is_void=True) for one in transactions[index + 1 :]))


def outermost_checkpoint(transactions: OpenTransactions) -> int:
    """Return the checkpoint that reverts all open transactions; 0 if there is none."""
    return next((one.checkpoint for one in transactions if not one.is_void), 0)
