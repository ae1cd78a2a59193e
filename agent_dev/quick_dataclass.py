"""Dataclasses that are defined and made quickly.

To type checkers `dataclass` is the one of `dataclasses`. At run time it generates only the method `__init__` of a class, since
compiling six methods for each of two hundred classes took an eighth of the processor time of the review screen's start. Values of
frozen classes are made by ordinary assignments, in a third of the time, so that nothing but the type checker stops an assignment.
"""

import dataclasses
from dataclasses import asdict, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

__all__ = ["asdict", "dataclass", "field", "replace"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(made: type | None = None, /, *, frozen: bool = False, slots: bool = False, order: bool = False):  # noqa: ANN201  (to type checkers it is the one above)
        """Return a class as a dataclass, or a decorator that does; `frozen`: its values can be hashed."""

        def decorate(plain: type) -> type:
            if order:
                return dataclasses.dataclass(plain, slots=slots, order=True, unsafe_hash=frozen)
            return _with_methods(dataclasses.dataclass(plain, slots=slots, repr=False, eq=False), can_be_hashed=frozen)

        return decorate(made) if made else decorate


def _with_methods(made: type, *, can_be_hashed: bool) -> type:
    fields = dataclasses.fields(made)
    values = _getter(tuple(each.name for each in fields if each.compare))
    shown = tuple(each.name for each in fields if each.repr)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(values(self))

    def __repr__(self: object) -> str:  # noqa: N807
        return f"{made.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in made.__dict__:
            setattr(made, method.__name__, method if can_be_hashed or method is not __hash__ else None)
    return made


def _getter(names: tuple[str, ...]) -> "Callable[[object], object]":
    return attrgetter(*names) if names else lambda _: ()
