"""The table of tasks: a task has one result, whatever runs twice."""

import random

import pytest

from agent_dev.fleet.task_table import FINISHED, Task, TaskState, TaskTable, host_counts, progress_text
from agent_dev.transaction.result import FAILED, MERGED, TransactionResult
from tests.harness.scale import printed_seed, repeat

PASSED, BAD = TransactionResult(MERGED, 0, ()), TransactionResult(FAILED, 1, (), "command")


def table(count: int = 3) -> TaskTable:
    return TaskTable(tuple(Task(number, f"task {number}") for number in range(count)))


def test_a_task_that_arrived_stays_as_it_is_when_it_runs_again() -> None:
    arrived = table().start(0, "a").arrive(0, PASSED)
    assert arrived.start(0, "b").arrive(0, BAD).tasks[0] == arrived.tasks[0]
    finished = arrived.finish(0, PASSED)
    assert finished.start(0, "b").arrive(0, BAD).finish(0, BAD) == finished


def test_tasks_are_mergeable_in_the_order_of_the_list() -> None:
    late = table().arrive(1, PASSED)
    assert late.mergeable(in_order=True) == ()
    assert late.mergeable(in_order=False) == (1,)
    assert late.finish(0, BAD).mergeable(in_order=True) == (1,)
    assert late.arrive(0, PASSED).mergeable(in_order=True) == (0, 1)


def test_a_stopped_table_is_missing_what_has_no_result() -> None:
    stopped = table().start(0, "a").start(1, "b").arrive(1, PASSED).stop()
    assert stopped.missing() == (0, 2)
    assert [task.state for task in stopped.tasks] == [TaskState.WAITING, TaskState.ARRIVED, TaskState.WAITING]


def test_the_progress_counts_each_task_once() -> None:
    now = table(4).start(0, "a").finish(0, PASSED).start(1, "a").start(2, "b").finish(2, BAD)
    assert host_counts(now) == {"a": (1, 1), "b": (0, 1)}
    text = progress_text(now, 60, 120)
    assert text == "1 done, 1 failed, 1 running, 1 waiting, 2.0 per minute · a: 1 running, 1 done · b: 0 running, 1 done"


def test_the_progress_names_running_hosts_where_lines_are_short() -> None:
    now = table(4).start(0, "build1").finish(0, PASSED).start(1, "build1").start(2, "build2")
    text = progress_text(now, 6, 79)
    assert text == "1 done, 0 failed, 2 running (build1 1, build2 1), 1 waiting, 10.0 per minute"
    assert progress_text(now, 6, 70) == "1 done, 0 failed, 2 running, 1 waiting, 10.0 per minute"


@pytest.mark.parametrize("round_number", range(repeat(20)))
def test_no_sequence_of_events_finishes_a_task_twice(round_number: int) -> None:
    chance = random.Random(printed_seed() + round_number)  # noqa: S311
    now, first = table(), dict[int, Task]()
    for _ in range(60):
        number, result = chance.randrange(3), chance.choice((PASSED, BAD))
        event = chance.choice(("start", "arrive", "finish", "stop"))
        match event:
            case "start":
                now = now.start(number, "a")
            case "arrive":
                now = now.arrive(number, result)
            case "finish":
                now = now.finish(number, result)
            case _:
                now = now.stop()
        for task in now.tasks:
            if task.state in FINISHED:
                assert first.setdefault(task.number, task) == task
