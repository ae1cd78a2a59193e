"""The number of repetitions in tests, and the seed of random ones.

AGENT_DEV_TEST_SCALE is a percentage: `make test` sets 5, CI 10, `make test-all` 100. From EVERY_TEST on, every test runs.
"""

import os
import random
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

EVERY_TEST = 10  # percent
# By directory: below EVERY_TEST, one in this many of its tests runs. Tests that run the whole program take a second each.
ONE_OF = {"containment": 5, "expect": 5, "sandbox": 5, "disk": 2, "faults": 2, "tui": 2}
SCALE = max(1, int(os.environ.get("AGENT_DEV_TEST_SCALE", "100")))


def repeat(full: int) -> int:
    """Return the scaled number of repetitions where 100 percent are `full`; at least one."""
    return max(1, full * SCALE // 100)


def stride(full: int) -> int:
    """Return the scaled stride through a long list of cases where 100 percent are every `full`-th."""
    return max(1, full * 100 // SCALE)


def some(items: Iterable[T], chance: random.Random) -> list[T]:
    """Return all items at 100 percent, below that a random share of them."""
    every = list(items)
    return chance.sample(every, -(-len(every) * min(SCALE, 100) // 100))


def printed_seed() -> int:
    """Return AGENT_DEV_TEST_SEED, or a new seed; pytest shows it when the test fails."""
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201
    return seed


def seeded_random() -> random.Random:
    """Return random numbers from the printed seed."""
    return random.Random(printed_seed())  # noqa: S311  (no secrets)


def sample(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests to run: below EVERY_TEST, evenly spread cases of some tests of each directory."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[pytest.Item] = set()
    for number, (name, one) in enumerate(cases.items()):
        if SCALE >= EVERY_TEST:
            kept.update(one)
        elif number % ONE_OF.get(name.split("/")[1], 1) == 0:
            count = -(-len(one) * SCALE // 100)
            kept.update(one[number * len(one) // count] for number in range(count))
    return kept
