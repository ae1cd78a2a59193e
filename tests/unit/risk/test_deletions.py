"""Deletions that need review: tests of files that changed."""

import pytest

from agent_dev.risk.deletions import changed_stems, is_test_of

PATHS = [b"src/shop.py", b"lib/Cart.java", b"web/menu.ts", b"tests/test_shop.py"]


@pytest.mark.parametrize(
    "path",
    [
        b"tests/test_shop.py",
        b"shop_test.go",
        b"web/menu.spec.ts",
        b"web/menu.test.ts",
        b"CartTest.java",
        b"x/CartTests.cs",
        b"CartSpec.scala",
        b"spec/cart_spec.rb",
    ],
)
def test_a_test_of_a_changed_file_is_recognized_by_its_name(path: bytes) -> None:
    assert is_test_of(path, changed_stems(PATHS, [b"README", path]))


@pytest.mark.parametrize(
    "path", [b"tests/test_other.py", b"shop.py", b"test_.py", b"latest.py", b"contest/shop.py", b"test", b""]
)
def test_other_names_are_not_tests_of_a_changed_file(path: bytes) -> None:
    assert not is_test_of(path, changed_stems(PATHS, [path]))
    assert not is_test_of(path, changed_stems(PATHS, [b"test_shop.py", b"test_menu.py"]))


def test_only_stems_that_a_test_may_have_are_kept() -> None:
    assert changed_stems([b"a.py", b"Shop.py", b"", b".env"], [b"test_shop.py", b"other.py", b""]) == {"shop"}
