"""Frozen records for the launch path, without the start-up cost of `dataclasses`.

`dataclasses` takes 10 ms to import and about 0.3 ms per class, three times as long as bubblewrap takes to start
(docs/decisions/0002-launch-path-imports.md). To type checkers a `Value` is a frozen dataclass:

    class Bind(Value):
        source: str
        target: str
        writable: bool = False

Off the launch path, `dataclass(frozen=True, slots=True)` of `quick_dataclass` is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Do nothing; only type checkers use it."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """A record whose fields are its annotations in order, those of base classes first."""

    __match_args__: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        own = cls.__annotations__  # of this class only, also where they are evaluated lazily (Python 3.14)
        cls.__match_args__ = (*cls.__match_args__, *own)  # type: ignore[misc]  # of the subclass

    def __init__(self, *args: object, **named: object) -> None:
        fields = self.__match_args__
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values, got {len(args)}")
        values = dict(zip(fields, args, strict=False))
        for name, value in named.items():
            if name not in fields or name in values:
                raise TypeError(f"{type(self).__name__}: unexpected {name!r}")
            values[name] = value
        kind = type(self)
        for name in fields:
            if name not in values:
                if not hasattr(kind, name):
                    raise TypeError(f"{kind.__name__}: missing {name!r}")
                values[name] = getattr(kind, name)
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def as_dict(self) -> "dict[str, Any]":
        """Return the record as a dictionary, in field order."""
        return {name: self.__dict__[name] for name in self.__match_args__}

    def replace(self, **changes: object) -> "Self":
        """Return a copy with some fields replaced."""
        return type(self)(**{**self.as_dict(), **changes})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({inside})"
