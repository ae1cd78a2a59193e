"""Configuration layers are merged into settings: which values replace others, which are appended, and the origin of each."""

import pytest

from agent_dev.config import repository_settings
from agent_dev.config.profile import BUILT_IN, LISTS, Layer, merge_layers

WEAK = Layer({"home": "~/weak", "net": "host"}, {"home": "weak:1", "net": "weak:2"})
STRONG = Layer({"home": "~/strong"}, {"home": "strong:1"})


def test_empty_layers_give_the_defaults() -> None:
    made = merge_layers("x", ())

    assert (made.profile.name, made.profile.home, made.profile.net, made.profile.merge) == ("x", "~/aihome", "host", True)
    assert made.origins == {}


def test_a_later_layer_replaces_a_single_value() -> None:
    made = merge_layers("x", (WEAK, STRONG))

    assert (made.profile.home, made.profile.net) == ("~/strong", "host")
    assert made.origins == {"home": "strong:1", "net": "weak:2"}


@pytest.mark.parametrize("field", LISTS)
def test_lists_are_concatenated_in_the_order_of_the_layers(field: str) -> None:
    made = merge_layers("x", (Layer({field: ("a", "b")}, {f"{field}:a": "f:1"}), Layer({field: ("c",)}, {f"{field}:c": "g:1"})))

    # The first directory of PATH wins, so those of a later layer come first.
    assert getattr(made.profile, field) == (("c", "a", "b") if field == "path" else ("a", "b", "c"))
    assert (made.origins[f"{field}:a"], made.origins[f"{field}:c"]) == ("f:1", "g:1")


def test_an_item_given_twice_is_listed_once_with_the_later_layer_as_origin() -> None:
    made = merge_layers("x", (Layer({"ro": ("/a",)}, {"ro": "f:1"}), Layer({"ro": ("/a",)}, {"ro": "--ro"})))

    assert made.profile.ro == ("/a",)
    assert made.origins["ro:/a"] == "--ro"


def test_a_command_is_replaced_as_a_whole() -> None:
    made = merge_layers("x", (Layer({"command": ("a", "-x")}, {}), Layer({"command": ("b",)}, {})))

    assert made.profile.command == ("b",)


def test_variables_are_merged_and_the_later_value_wins() -> None:
    weak = Layer({"set": (("A", "1"), ("B", "1"))}, {"set": "f:1", "set:A": "f:2"})
    strong = Layer({"set": (("B", "2"),)}, {"set:B": "--env"})
    made = merge_layers("x", (weak, strong))

    assert made.profile.set == (("A", "1"), ("B", "2"))
    assert (made.origins["set:A"], made.origins["set:B"]) == ("f:2", "--env")


def test_lists_from_json_are_the_same_as_tuples() -> None:
    from_json = Layer({"command": ["a", "b"], "ro": ["/a"], "set": [["A", "1"]]}, {})
    parsed = Layer({"command": ("a", "b"), "ro": ("/a",), "set": (("A", "1"),)}, {})

    assert merge_layers("x", (from_json,)) == merge_layers("x", (parsed,))


def test_a_layer_without_origins_is_built_in() -> None:
    assert merge_layers("x", (Layer({"merge": False}, {}),)).origins == {"merge": BUILT_IN}


def test_the_effects_of_a_repository_say_which_paths_are_optional() -> None:
    grants, _ = repository_settings.describe_effects({"ro": ("~/a?", "~/b"), "rw": ("/c?",), "env": ("X",)})
    assert grants == (
        "mounts ~/a read-only, if it exists",
        "mounts ~/b read-only",
        "lets the agent write /c directly, without review, if it exists",
        "passes through your variable X",
    )
