"""The log in words: every kind of event, commands, and what an unknown event holds."""

import pytest

from agent_dev.cli.render.colour import OutputTone, Palette
from agent_dev.cli.render.log_words import describe_command, describe_event


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"event": "start", "argv": ["sh", "-c", "a b"], "profile": "claude"}, "started sh -c 'a b', profile claude"),
        ({"event": "start", "argv": ["x", "y" * 80], "profile": "x"}, f"started x '{'y' * 59}…', profile x"),
        ({"event": "checkpoint", "checkpoint": 3, "cause": "timer", "changed": 1}, "checkpoint 3 (timer), 1 path changed"),
        ({"event": "checkpoint", "cause": "timer", "failed": "disk full"}, "no checkpoint (timer): disk full"),
        (
            {"event": "rollback", "to": 2, "before": 5, "paths": 1200, "problems": ["a", "b"]},
            "rolled back to checkpoint 2, 1,200 paths changed, 2 failed; the state before is checkpoint 5",
        ),
        (
            {"event": "rollback", "to": 0, "before": 5, "paths": 1},
            "restored deleted files, 1 path changed; the state before is checkpoint 5",
        ),
        (
            {"event": "transaction", "verdict": "failed", "reason": "risky: x", "milliseconds": 1500},
            "transaction failed after 1.5 s: risky: x",
        ),
        ({"event": "inside", "verdict": "rolled back", "command": "sh -c 'a b'"}, "transaction inside rolled back: sh -c 'a b'"),
        ({"event": "merge", "merge": "m.1", "changes": 2}, "2 changes merged (merge m.1)"),
        ({"event": "undo", "merge": "m.1", "changes": 1}, "1 change undone (merge m.1)"),
        (
            {"event": "end", "exit": 1, "milliseconds": 60_000, "changes": 3, "commits": 1},
            "exited with status 1 after 60.0 s: 3 changes, 1 commit",
        ),
        ({"n": 1, "time": 2, "event": "other", "x": 1}, "other x=1"),
        ({}, ""),
    ],
)
def test_events_are_described(row: dict[str, object], text: str) -> None:
    assert describe_event(row) == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"argv": ["ls"], "decision": "allow", "cwd": "/r", "exit": 0}, "ls"),
        (
            {"argv": ["rm", "-rf", "/"], "decision": "deny", "rule": "rm-root", "cwd": "/r/sub"},
            "deny (rm-root): rm -rf /  (in /r/sub)",
        ),
        ({"argv": ["make"], "decision": "ask", "rule": "slow", "answer": "yes", "cwd": "/r"}, "approved (slow): make"),
        ({"argv": ["make"], "decision": "ask", "rule": "slow", "answer": "no", "cwd": "/r"}, "denied by you (slow): make"),
        ({"argv": ["make"], "decision": "ask", "answer": "none", "cwd": "/r"}, "denied, no answer: make"),
        ({"argv": ["make"], "decision": "allow", "exit": 2, "duration": 90}, "make  exited with status 2 after 0.1 s"),
        ({"pid": 7, "exit": 1, "duration": 2000}, "process 7 exited with status 1 after 2.0 s"),
    ],
)
def test_commands_are_described(row: dict[str, object], text: str) -> None:
    assert describe_command(row, "/r") == text


def test_text_is_painted_only_in_colour() -> None:
    assert Palette(is_coloured=True).paint("x", OutputTone.ADDED) == "\x1b[32mx\x1b[m"
    assert Palette().paint("x", OutputTone.ADDED) == "x"
    assert Palette(is_coloured=True).paint("x", None) == "x"
