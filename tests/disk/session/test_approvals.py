"""Questions to the user: their numbers, answers, and what becomes of those of a process that died."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_dev.session import approvals

ASK_AND_DIE = "import sys; from agent_dev.session import approvals; approvals.add_question(sys.argv[1], {'kind': 'connection'})"


def test_numbers_are_unique_across_processes_and_runs(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = [*pool.map(lambda _: approvals.add_question(str(tmp_path), {}), range(40))]
    assert sorted(numbers) == [*range(1, 41)]
    approvals.remove_all(str(tmp_path))
    assert approvals.list_questions(str(tmp_path)) == {}
    assert approvals.add_question(str(tmp_path), {}) == 41


def test_questions_of_a_process_that_died_are_not_listed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ASK_AND_DIE, str(tmp_path)], check=True, timeout=60)
    assert [*tmp_path.glob("asks/1.json")]
    approvals.add_question(str(tmp_path), {"argv": ["x"]})
    assert approvals.list_questions(str(tmp_path)) == {2: {"argv": ["x"]}}
    assert approvals.count_by_kind(str(tmp_path)) == (1, 0)


@pytest.mark.parametrize("text", ["", "perhaps", "YES", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_a_strange_answer_is_a_no(tmp_path: Path, text: str) -> None:
    number = approvals.add_question(str(tmp_path), {})
    assert approvals.read_answer(str(tmp_path), number) == ""
    Path(tmp_path, "asks", f"{number}.answer").write_text(text)
    assert approvals.read_answer(str(tmp_path), number) == approvals.NO


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", json.dumps({"asker": [1]}), json.dumps({"asker": ["1", 1]})])
def test_a_damaged_question_is_not_listed(tmp_path: Path, text: str) -> None:
    approvals.add_question(str(tmp_path), {})
    for name in ("1.json", "x.json"):
        Path(tmp_path, "asks", name).write_text(text)
    assert approvals.list_questions(str(tmp_path)) == {}
