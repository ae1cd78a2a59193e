"""One sandbox with `net: allow` in the small internet, for all attempts of a module."""

from collections.abc import Iterator

import pytest

from tests.containment.network.attempts import OPTIONS
from tests.containment.support.world import Machine
from tests.harness.inside_python import InsidePython, inside_python
from tests.harness.internet import in_internet


@pytest.fixture(scope="module")
def allowed(shared: Machine) -> Iterator[InsidePython]:
    """Yield the sandbox."""
    with inside_python(shared.program, *OPTIONS, before=in_internet()) as running:
        yield running
