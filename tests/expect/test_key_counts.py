"""Ordinary reviews take few keys. Each key is counted, from the open screen to the closed one."""

from pathlib import Path

from tests.expect.reviews import review, work
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal

MODULE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(20))


class Keyboard:
    """Presses keys one at a time, each after the screen shows an expected text, and counts them."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.count = 0

    def press(self, key: str, then: str) -> str:
        """Press a key and wait for a text; return the screen."""
        self.count += 1
        self.terminal.keys(key)
        return self.terminal.wait_for(then)

    def close(self) -> None:
        """Close the result page."""
        self.count += 1
        self.terminal.keys("enter")
        assert self.terminal.wait_exit() == 0


def test_one_edited_file_takes_four_keys(shop: AgentDev, repo: Path) -> None:
    work(shop, "echo 'print(3)' >>code.py")
    with review(shop, rows=24, cols=80) as terminal:
        keyboard = Keyboard(terminal)
        keyboard.press("A", "selected 1 of 1")
        keyboard.press("c", "No, go back")
        keyboard.press("y", "1 change merged")
        keyboard.close()
    assert keyboard.count <= 4
    assert (repo / "code.py").read_text().endswith("print(3)\n")


def test_a_refactoring_takes_few_keys_and_one_question(shop: AgentDev, repo: Path) -> None:
    for number in range(20):
        (repo / f"old{number}.py").write_text(f"# {number}\n{MODULE}")
    for number in range(23):
        (repo / f"gone{number}.py").write_text(f"# gone {number}\n{MODULE}")
    for number in range(20):
        (repo / f"kept{number}.py").write_text(MODULE)
    shop.git("add", "-A")
    shop.git("commit", "-qm", "modules")
    moves = "mkdir new; for n in $(seq 0 19); do mv old$n.py new/; done"
    edits = "for n in $(seq 0 19); do echo 'VALUE = 1' >>new/old$n.py; done; echo 'VALUE = 2' >>kept1.py"
    work(shop, f"{moves}; {edits}; rm gone*.py")

    with review(shop, rows=24, cols=80) as terminal:
        keyboard = Keyboard(terminal)
        keyboard.press("A", "selected 44 of 44")
        asked = keyboard.press("c", "a large share of the tree?")
        assert "Delete 23 files" in asked
        keyboard.press("y", "Apply 44 changes?")
        keyboard.press("y", "44 changes merged")
        keyboard.close()

    assert keyboard.count <= 12
    assert sorted(path.name for path in (repo / "new").iterdir()) == sorted(f"old{number}.py" for number in range(20))
    assert not [*repo.glob("old?*.py"), *repo.glob("gone*.py")] or (repo / "old.py").exists()
    assert shop("undo").returncode == 0
    assert len([*repo.glob("gone*.py")]) == 23


def test_mixed_changes_with_conflicts_and_risks_take_25_keys(shop: AgentDev, repo: Path) -> None:
    for number in range(31):
        (repo / f"m{number:02}.py").write_text(MODULE)
    shop.git("add", "-A")
    shop.git("commit", "-qm", "modules")
    edits = "for n in $(seq 2 30); do f=$(printf m%02d.py $n); sed -i 's/return 7$/return 77/' $f; done"
    conflicts = "sed -i 's/return 3$/return 33/' m00.py m01.py"
    risky = "for n in 1 2; do printf '#!/bin/sh\\necho hello\\n' >run$n.sh; chmod +x run$n.sh; done"
    work(shop, f"{edits}; {conflicts}; {risky}")
    for name in ("m00.py", "m01.py"):
        (repo / name).write_text(MODULE.replace("return 3\n", "return 333\n"))

    with review(shop, rows=24, cols=80) as terminal:
        keyboard = Keyboard(terminal)
        keyboard.press("A", "selected 29 of 33")
        keyboard.press(">", "selected 30 of 33")
        keyboard.press(">", "selected 31 of 33")
        keyboard.press("!", "▌[ ]   +! run1.sh")
        keyboard.press("space", "selected 32 of 33")
        keyboard.press("j", "run2.sh")
        keyboard.press("space", "selected 33 of 33")
        keyboard.press("c", "Apply these 2 risky changes?")
        keyboard.press("y", "Apply 33 changes?")
        keyboard.press("y", "33 changes merged")
        keyboard.close()

    assert keyboard.count <= 25
    assert "return 33\n" in (repo / "m00.py").read_text()
    assert (repo / "run2.sh").exists()


def test_keys_typed_ahead_do_what_they_do_when_typed_slowly(shop: AgentDev, repo: Path) -> None:
    for name in ("m00.py", "m01.py", "m02.py"):
        (repo / name).write_text(MODULE)
    shop.git("add", "-A")
    shop.git("commit", "-qm", "modules")
    conflicts = "sed -i 's/return 3$/return 33/' m00.py m01.py"
    work(shop, f"{conflicts}; sed -i -e 's/return 7$/return 77/' -e 's/return 17$/return 1717/' m02.py")
    for name in ("m00.py", "m01.py"):
        (repo / name).write_text(MODULE.replace("return 3\n", "return 333\n"))

    with review(shop, rows=24, cols=80) as terminal:
        terminal.keys(">", ">", "j", "j", "enter", "]", "space", "c")  # both conflicts, and the second hunk of m02.py
        terminal.wait_for("Apply 3 changes?")
        terminal.keys("y")
        terminal.wait_for("3 changes merged")
        terminal.keys("enter")
        assert terminal.wait_exit() == 0

    assert "return 33\n" in (repo / "m00.py").read_text()
    assert "return 33\n" in (repo / "m01.py").read_text()
    assert (repo / "m02.py").read_text() == MODULE.replace("return 17\n", "return 1717\n")
