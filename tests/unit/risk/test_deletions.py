"""Deletions that need review: tests of files that changed."""

import pytest

from agent_dev.risk.deletions import changed_stems, is_test_of

CHANGED = changed_stems([b"src/shop.py", b"lib/Cart.java", b"web/menu.ts", b"tests/test_shop.py"])


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
    assert is_test_of(path, CHANGED)


@pytest.mark.parametrize(
    "path", [b"tests/test_other.py", b"shop.py", b"test_.py", b"latest.py", b"contest/shop.py", b"test", b""]
)
def test_other_names_are_not_tests_of_a_changed_file(path: bytes) -> None:
    assert not is_test_of(path, CHANGED)
