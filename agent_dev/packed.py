"""Values packed into one bytes object each, for those that a command holds 100,000 of."""

from typing import Any, ClassVar, Self


class Packed(bytes):
    """A value whose fields are properties, read from its bytes. Equal values have equal bytes.

    A subclass packs them in `__new__`, which takes the fields by name, and lists them in `FIELDS`.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to make a copy, also in another process."""
        return bytes.__new__, (self.__class__, bytes(self))

    def __repr__(self) -> str:
        """Show the values by name."""
        return f"{self.__class__.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.FIELDS)})"

    __str__ = __repr__

    def with_values(self, **values: Any) -> Self:
        """Return a copy with other values."""
        return self.__class__(**{name: getattr(self, name) for name in self.FIELDS} | values)
