"""A discard or an undiscard that is killed at any step can be repeated, and loses no session."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.merge import session_access
from agent_dev.session import discarded, removal, sessions, store
from agent_dev.session.sessions import CommandContext

STEPS = (
    *((removal, name, is_done) for name in ("move_to_trash", "move_from_trash") for is_done in (False, True)),
    *((store, "write_record", is_done) for is_done in (False, True)),
)


@pytest.fixture
def context(tmp_path: Path) -> CommandContext:
    return CommandContext(store.Store(str(tmp_path / "state")), str(tmp_path), str(tmp_path), {})


def add_session(context: CommandContext, state: str) -> str:
    session = store.create_session(context.store)
    root = store.add_root(session, 0, context.root)
    Path(root.upper, "new").write_text("new\n")
    store.write_record(session, {**store.BLANK, "state": state, "root": context.root, "roots": [context.root]})
    store.unlock_session(session)
    return session.id


def in_child(work: Callable[[], object], where: object, name: str, *, is_done: bool) -> None:
    """Do something in a child process that is killed when it calls a function, before or after its work."""
    call: Callable[..., object] = getattr(where, name)

    def killed(*args: object, **options: object) -> object:
        if is_done:
            call(*args, **options)
        os._exit(0)

    child = os.fork()
    if child == 0:
        try:
            setattr(where, name, killed)
            work()
        finally:
            os._exit(1)
    os.waitpid(child, 0)


@pytest.mark.parametrize("state", [store.WAITING, store.MERGED])
@pytest.mark.parametrize(("where", "name", "is_done"), STEPS)
@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_killed_discard_or_undiscard_can_be_repeated(
    context: CommandContext, state: str, where: object, name: str, *, is_done: bool, is_discarded: bool
) -> None:
    session = add_session(context, state)

    def discard() -> None:
        session_access.discard(context, sessions.find_session(context, session))

    def undiscard() -> None:
        discarded.undiscard(context, discarded.find_discarded(context, session))

    if is_discarded:
        discard()
    in_child(undiscard if is_discarded else discard, where, name, is_done=is_done)
    if discarded.list_discarded(context.store):
        undiscard()
    [one] = sessions.list_sessions(context.store)
    assert (one.session.id, one.state) == (session, state)
    assert Path(one.session.root(0, "").upper, "new").read_text() == "new\n"
