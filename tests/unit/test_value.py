"""Small immutable records behave like frozen dataclasses."""

import pytest

from agent_dev.value import Value


class Point(Value):
    x: int
    y: int = 2


class Named(Point):
    name: str = "n"


class Other(Value):
    x: int
    y: int = 2


def test_fields_are_given_by_position_or_by_name() -> None:
    assert (Point(1, 3).x, Point(1, 3).y) == (1, 3)
    assert Point(y=3, x=1) == Point(1, 3)


def test_a_missing_field_gets_its_default() -> None:
    assert Point(1).y == 2


def test_a_subclass_has_the_fields_of_its_base_first() -> None:
    assert Named(1, 2, "a").as_dict() == {"x": 1, "y": 2, "name": "a"}


@pytest.mark.parametrize(("args", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_missing_repeated_unknown_and_too_many_fields_are_refused(args: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*args, **named)


def test_a_value_is_immutable() -> None:
    point = Point(1)

    with pytest.raises(AttributeError, match="frozen"):
        point.x = 5  # type: ignore[misc]  # what is tested
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert point.x == 1


def test_but_returns_a_changed_copy() -> None:
    point = Point(1)

    assert (point.replace(y=9), point) == (Point(1, 9), Point(1))


def test_but_refuses_an_unknown_field() -> None:
    with pytest.raises(TypeError):
        Point(1).replace(z=1)


def test_equal_fields_of_one_class_are_equal_and_hash_alike() -> None:
    assert Point(1) == Point(1, 2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert len({Point(1), Point(1, 2), Point(2)}) == 2


def test_another_class_with_the_same_fields_is_not_equal() -> None:
    assert Point(1) != Other(1)
    assert Point(1) != Named(1)


def test_a_value_can_be_matched_by_a_class_pattern() -> None:
    match Named(1, 3, "a"):
        case Named(x, y, name):
            assert (x, y, name) == (1, 3, "a")


def test_repr_shows_the_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2)"
