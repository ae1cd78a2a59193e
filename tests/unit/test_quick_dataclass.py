"""Quick dataclasses behave as those of the standard library, but for the assignments that type checkers refuse."""

import dataclasses
import pickle
import sys
from collections.abc import Callable
from copy import copy

import pytest

from agent_dev import quick_dataclass
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import UNASSESSED, Change, ChangeKind


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


def define_shared(decorator: Callable[..., Callable[[type], type]], shared: tuple[str, ...]) -> type:
    """Return a class that names its shared fields."""

    class Thing:
        """A thing."""

        SHARED = shared

        name: bytes
        size: int = 3
        links: tuple[str, ...] = ()
        path: str = dataclasses.field(default="", compare=False)

        @property
        def is_small(self) -> bool:
            """Return whether the size is small."""
            return self.size < 4

    return decorator(frozen=True, slots=True)(Thing)


@pytest.mark.parametrize("shared", [("size", "links"), ("links",), ("links", "size", "path"), ("name", "size", "links", "path")])
def test_values_with_shared_fields_are_ordinary_ones(shared: tuple[str, ...]) -> None:
    quick, ordinary = (define_shared(one.dataclass, shared) for one in (quick_dataclass, dataclasses))
    rows = [(b"a",), (b"a", 4), (b"a", 3, ("x",)), (b"a", 3, (), "p"), (b"b",), (b"a", 4, ("y",))]
    values, others = [quick(*row) for row in rows], [ordinary(*row) for row in rows]
    assert list(map(repr, values)) == list(map(repr, others))
    assert [[one == other for other in values] for one in values] == [[one == other for other in others] for one in others]
    assert [len(set(map(hash, kind))) for kind in (values, others)] == [5, 5]
    assert list(map(quick_dataclass.asdict, values)) == list(map(dataclasses.asdict, others))
    assert [one.is_small for one in values] == [one.is_small for one in others]
    assert [quick_dataclass.replace(one, links=("z",)).links for one in values] == [("z",)] * len(values)
    assert [copy(one) for one in values] == values
    assert quick(name=b"a", links=("x",)) == values[2]
    assert not hasattr(values[0], "__dict__")
    assert vars(quick)["__match_args__"] == vars(ordinary)["__match_args__"]
    with pytest.raises(TypeError):
        quick()


def test_values_share_a_tuple_of_equal_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_dataclass, "_MAX_KNOWN", 2)
    made = define_shared(quick_dataclass.dataclass, ("size", "links"))
    first, second, other, again = made(b"a", 5), made(b"b", 5), made(b"c", 6), made(b"d", 5)
    third, same, back, late = made(b"e", 7), made(b"f", 7), made(b"g", 5), made(b"h", 7)
    assert first._shared is second._shared is again._shared is back._shared
    assert third._shared is same._shared  # one after the other, although no more tuples are kept
    assert late._shared is not third._shared
    assert [one.size for one in (first, second, other, again, third, same, back, late)] == [5, 5, 6, 5, 7, 7, 5, 7]


def test_changes_with_the_same_findings_need_96_bytes() -> None:
    """100,000 changes of a session need 9 MB."""
    changes = [Change(Key(0, b"%d" % number), ChangeKind.EDITED, None, None, risks=(UNASSESSED,)) for number in range(3)]
    assert sys.getsizeof(changes[0]) <= 96
    assert changes[0].with_findings((), 1, 2, is_binary=False).risks == ()
    assert pickle.loads(pickle.dumps(changes)) == changes  # noqa: S301
