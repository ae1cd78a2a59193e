"""What the containment tests need of the machine, found by trying."""

from tests.sandbox.conftest import namespaces

__all__ = ["namespaces"]
