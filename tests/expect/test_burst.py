"""Keys that reach a real terminal in one burst."""

import pytest

from tests.expect.reviews import EDIT, review, work
from tests.harness.program import AgentDev


@pytest.mark.parametrize("burst", ["q?", "qf", "q:", "q/"])
def test_keys_typed_after_the_quit_key_cause_no_traceback(shop: AgentDev, burst: str) -> None:
    work(shop, EDIT)
    with review(shop) as terminal:
        terminal.send(burst)
        terminal.wait_exit()
        assert "Traceback" not in terminal.text()
        assert "NoMatches" not in terminal.text()
    assert shop.changes().keys() == {"code.py", "new.py", "old.py"}
