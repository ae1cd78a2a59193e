"""Deletions that need review: files that git cannot restore, and tests of files that changed."""

import re
from collections.abc import Iterable

UNRESTORABLE_RULE = "deletion"  # applies to files that git cannot restore and that were not moved
TEST_RULE = "deleted-test"  # applies to tests of files that changed

# The stem of the tested file in the name of a test: test_shop.py, shop_test.go, shop.spec.ts, shopTest.java.
_TEST_STEM = re.compile(r"(?:tests?[_.-]|spec[_.-])(.+)|(.+?)(?:[_.-](?:tests?|spec)|Tests?|Spec)")


def changed_stems(paths: Iterable[bytes], tests: Iterable[bytes]) -> frozenset[str]:
    """Return the stems of changed files, for `is_test_of` of one of `tests`: of 100,000 files, few have tests among them."""
    wanted = {_tested_stem(path) for path in tests} - {""}
    return frozenset(stem for path in paths if (stem := _stem(path).casefold()) in wanted) if wanted else frozenset()


def is_test_of(path: bytes, stems: frozenset[str]) -> bool:
    """Return whether a path has the name of a test of a file with one of these stems."""
    return (stem := _tested_stem(path)) != "" and stem in stems


def _tested_stem(path: bytes) -> str:
    """Return the stem of the file that a test tests; "" for a path that is no test's name."""
    match = _TEST_STEM.fullmatch(_stem(path))
    return (match[1] or match[2]).casefold() if match is not None else ""


def _stem(path: bytes) -> str:
    """Return a file's name without its last extension."""
    name = path.rpartition(b"/")[2].decode("utf-8", "surrogateescape")
    return name.rpartition(".")[0] or name
