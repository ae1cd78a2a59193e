"""Quick dataclasses behave as those of the standard library, but for the assignments that type checkers refuse."""

import dataclasses
import pickle
from collections.abc import Callable
from copy import copy

import pytest

from agent_dev import quick_dataclass


def define(decorator: Callable[..., Callable[[type], type]], **options: bool) -> type:
    """Return a class with every kind of field that the program uses."""

    class Thing:
        """A thing."""

        name: bytes
        size: int = 3
        links: list[str] = dataclasses.field(default_factory=list, compare=False)
        path: str = dataclasses.field(default="", repr=False)

        def describe(self) -> str:
            """Return the name as text."""
            return self.name.decode()

    return decorator(**options)(Thing)


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}], ids=str)
def test_values_compare_hash_and_print_as_ordinary_ones(options: dict[str, bool]) -> None:
    """The same values are made of a quick and of an ordinary class."""
    quick, ordinary = define(quick_dataclass.dataclass, **options), define(dataclasses.dataclass, **options)
    rows = [(b"a",), (b"a", 4), (b"a", 3, ["x"]), (b"a", 3, [], "p"), (b"b",)]
    for made in (quick, ordinary):
        values = [made(*row) for row in rows]
        assert [values[0] == other for other in values] == [True, False, True, False, False]
        assert values[0] != rows[0]
        assert values[0].describe() == "a"
        assert hasattr(values[0], "__dict__") is not options.get("slots", False)
        assert quick_dataclass.replace(values[0], size=4) == values[1]
        assert quick_dataclass.asdict(values[3]) == {"name": b"a", "size": 3, "links": [], "path": "p"}
        assert copy(values[3]) == values[3]
        assert values[0].links is not values[1].links
        if options.get("frozen"):
            assert len(set(values)) == 4
        else:
            with pytest.raises(TypeError, match="unhashable"):
                hash(values[0])
    assert [repr(quick(*row)) for row in rows] == [repr(ordinary(*row)) for row in rows]
    assert quick(b"a") != ordinary(b"a")
    assert vars(quick)["__match_args__"] == vars(ordinary)["__match_args__"]


@quick_dataclass.dataclass(frozen=True, slots=True)
class Parent:
    """A class with one field."""

    first: int


@quick_dataclass.dataclass(frozen=True, slots=True)
class Child(Parent):
    """A class with a field of its own, and with its own text."""

    second: int = 2

    def __repr__(self) -> str:
        return "a child"


@quick_dataclass.dataclass(frozen=True, slots=True)
class Empty:
    """A class without fields."""


@quick_dataclass.dataclass(frozen=True, slots=True, order=True)
class Version:
    """A class whose values have an order."""

    major: int
    minor: int = 0


def test_derived_empty_and_ordered_classes() -> None:
    """A class compares its own fields and those of its parent; its own methods stay."""
    assert Child(1) == Child(1, 2) != Child(1, 3)
    assert len({Child(1), Child(1, 2), Parent(1), Child(2)}) == 3
    assert (repr(Child(1)), repr(Parent(1)), repr(Empty())) == ("a child", "Parent(first=1)", "Empty()")
    assert Child(1) != Parent(1)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert sorted([Version(2), Version(1, 5), Version(1)]) == [Version(1), Version(1, 5), Version(2)]
    assert pickle.loads(pickle.dumps(Child(1, 7))) == Child(1, 7)  # noqa: S301  (made here)
