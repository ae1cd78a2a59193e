"""The decorator `dataclass` for values that are made by the hundred thousand, such as entries of a file tree.

To type checkers it is the one of `dataclasses`, and its values are frozen. At run time nothing stops an assignment: a frozen
dataclass sets each field of a new value by a call, which takes three times as long as the assignments of an ordinary one.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

Class = TypeVar("Class")


def dataclass(*, frozen: bool, slots: bool) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator that makes a dataclass; `frozen`: its values can be hashed."""
    return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
