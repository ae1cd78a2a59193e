"""Dataclasses that are defined and made quickly.

To type checkers `dataclass` is the one of `dataclasses`. At run time it generates only the method `__init__` of a class, since
compiling six methods for each of two hundred classes took an eighth of the processor time of the review screen's start. Values of
frozen classes are made by ordinary assignments, in a third of the time, so that nothing but the type checker stops an assignment.
"""

import dataclasses
from dataclasses import asdict, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "dataclass", "field", "replace"]

_MAX_KNOWN = 1000  # tuples of a class that are shared, unless the value before has the same

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(made: type | None = None, /, *, frozen: bool = False, slots: bool = False, order: bool = False):  # noqa: ANN201  (to type checkers it is the one above)
        """Return a class as a dataclass, or a decorator that does; `frozen`: its values can be hashed."""

        def decorate(plain: type) -> type:
            if order:
                return dataclasses.dataclass(plain, slots=slots, order=True, unsafe_hash=frozen)
            if shared := plain.__dict__.get("SHARED"):
                return _with_methods(_with_shared_fields(plain, shared), can_be_hashed=frozen)
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


def _with_shared_fields(plain: type, shared: tuple[str, ...]) -> type:
    """Return a class as a dataclass with slots, whose fields `shared` are properties; no field has a default factory."""
    made: Any = dataclasses.dataclass(plain, repr=False, eq=False)
    fields = dataclasses.fields(made)
    own = [each.name for each in fields if each.name not in shared]
    replaced = {"__dict__", "__weakref__", "__init__", *own}
    body = {name: value for name, value in made.__dict__.items() if name not in replaced}
    body |= {name: property(partial(_shared_value, place)) for place, name in enumerate(shared)}
    body |= {"__slots__": (*own, "_shared"), "__init__": _initializer(fields, shared), "__qualname__": plain.__qualname__}
    return type(plain.__name__, plain.__bases__, body)


def _shared_value(place: int, owner: Any) -> object:
    return owner._shared[place]  # noqa: SLF001


def _initializer(fields: "tuple[dataclasses.Field[Any], ...]", shared: tuple[str, ...]) -> "Callable[..., None]":
    """Return the method `__init__` of a class with shared fields."""
    parameters = (each.name if each.default is dataclasses.MISSING else f"{each.name}=default_{each.name}" for each in fields)
    lines = [f"self.{each.name} = {each.name}" for each in fields if each.name not in shared]
    lines.append(f"self._shared = share(({', '.join(shared)},))")
    names: dict[str, Any] = {f"default_{each.name}": each.default for each in fields} | {"share": _sharing()}
    exec(f"def __init__(self, {', '.join(parameters)}):\n " + "\n ".join(lines), names)  # noqa: S102  (as `dataclasses` does)
    return names["__init__"]  # type: ignore[no-any-return]


def _sharing() -> "Callable[[tuple[object, ...]], tuple[object, ...]]":
    """Return a function that returns an equal tuple from before, if there was one."""
    known: dict[tuple[object, ...], tuple[object, ...]] = {}
    last: tuple[object, ...] = ()

    def share(values: tuple[object, ...]) -> tuple[object, ...]:
        nonlocal last
        shared = last  # another thread may replace it
        if values != shared:  # mostly equal, and a hash takes longer
            shared = known.get(values, values) if len(known) >= _MAX_KNOWN else known.setdefault(values, values)
            last = shared
        return shared

    return share
