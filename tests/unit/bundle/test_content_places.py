"""The space that the contents of a bundle need."""

from agent_dev.bundle import content_places
from agent_dev.bundle.manifest import ContentUses


def test_a_content_for_several_places_needs_one_more_copy() -> None:
    uses = ContentUses({"one": 1, "two": 2, "both": 1, "base": 0}, {"one": False, "two": False, "both": True, "base": True})
    sizes = {"one": 1, "two": 10, "both": 100, "base": 1000}
    assert content_places.size_on_disk(sizes, uses) == 1 + 3 * 10 + 3 * 100 + 1000
