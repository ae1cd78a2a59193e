"""Layers become settings: what replaces, what adds up, and where each value came from."""

import pytest

from agent_dev.config.profile import BUILT_IN, LISTS, Layer, stack

WEAK = Layer({"home": "~/weak", "net": "host"}, {"home": "weak:1", "net": "weak:2"})
STRONG = Layer({"home": "~/strong"}, {"home": "strong:1"})


def test_nothing_said_gives_the_defaults() -> None:
    made = stack("x", ())

    assert (made.profile.name, made.profile.home, made.profile.net, made.profile.merge) == ("x", "~/aihome", "host", True)
    assert made.origins == {}


def test_the_later_layer_replaces_a_single_value() -> None:
    made = stack("x", (WEAK, STRONG))

    assert (made.profile.home, made.profile.net) == ("~/strong", "host")
    assert made.origins == {"home": "strong:1", "net": "weak:2"}


@pytest.mark.parametrize("field", LISTS)
def test_lists_add_up_in_the_order_of_the_layers(field: str) -> None:
    made = stack("x", (Layer({field: ("a", "b")}, {f"{field}:a": "f:1"}), Layer({field: ("c",)}, {f"{field}:c": "g:1"})))

    # What a stronger layer says of PATH is looked at first.
    assert getattr(made.profile, field) == (("c", "a", "b") if field == "path" else ("a", "b", "c"))
    assert (made.origins[f"{field}:a"], made.origins[f"{field}:c"]) == ("f:1", "g:1")


def test_an_item_given_twice_stands_once_and_was_given_by_the_later_layer() -> None:
    made = stack("x", (Layer({"ro": ("/a",)}, {"ro": "f:1"}), Layer({"ro": ("/a",)}, {"ro": "--ro"})))

    assert made.profile.ro == ("/a",)
    assert made.origins["ro:/a"] == "--ro"


def test_a_command_is_replaced_as_a_whole() -> None:
    made = stack("x", (Layer({"command": ("a", "-x")}, {}), Layer({"command": ("b",)}, {})))

    assert made.profile.command == ("b",)


def test_variables_add_up_and_the_later_value_wins() -> None:
    weak = Layer({"set": (("A", "1"), ("B", "1"))}, {"set": "f:1", "set:A": "f:2"})
    strong = Layer({"set": (("B", "2"),)}, {"set:B": "--env"})
    made = stack("x", (weak, strong))

    assert made.profile.set == (("A", "1"), ("B", "2"))
    assert (made.origins["set:A"], made.origins["set:B"]) == ("f:2", "--env")


def test_lists_from_json_are_the_same_as_tuples() -> None:
    from_json = Layer({"command": ["a", "b"], "ro": ["/a"], "set": [["A", "1"]]}, {})
    parsed = Layer({"command": ("a", "b"), "ro": ("/a",), "set": (("A", "1"),)}, {})

    assert stack("x", (from_json,)) == stack("x", (parsed,))


def test_a_layer_without_origins_is_built_in() -> None:
    assert stack("x", (Layer({"merge": False}, {}),)).origins == {"merge": BUILT_IN}
