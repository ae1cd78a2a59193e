"""The detection rates of the shipped rules over a corpus of planted and harmless changes, as documented in docs/risks.md."""

import random
from collections.abc import Iterable

import pytest

from tests.harness.git import real_files
from tests.harness.risk import corpus, harmless, planted
from tests.harness.risk.corpus import Case

NOT_FOUND = {"harm in ordinary code", "text written to evade"}
MARKED = "marked on purpose"
LEAST = 600  # changes of each kind
FOUND, FALSE = 0.99, 0.03  # minimum, maximum


def dangerous() -> list[Case]:
    return [case for case in planted.cases() if case.group not in NOT_FOUND]


def marked(cases: Iterable[Case]) -> list[Case]:
    rules = corpus.shipped()
    return [case for case in cases if case.rules(rules)]


@pytest.mark.parametrize("cases", [dangerous(), list(harmless.cases())], ids=["dangerous", "harmless"])
def test_the_corpus_is_large_and_has_no_duplicates(cases: list[Case]) -> None:
    assert len(set(cases)) == len(cases) >= LEAST


def test_nearly_all_dangerous_changes_are_found() -> None:
    cases = dangerous()

    assert len(marked(cases)) >= FOUND * len(cases)


def test_nearly_no_harmless_change_is_a_false_alarm() -> None:
    cases = list(harmless.cases())

    assert len(marked(cases)) <= FALSE * len(cases)


def test_all_planted_risks_are_found_except_undetectable_ones() -> None:
    cases = dangerous()
    found = set(marked(cases))

    assert [case for case in cases if case not in found] == []


def test_everyday_changes_are_marked_only_intentionally() -> None:
    assert marked(case for case in harmless.cases() if case.group != MARKED) == []


def test_intentionally_marked_changes_are_marked() -> None:
    cases = [case for case in harmless.cases() if case.group == MARKED]

    assert marked(cases) == cases


@pytest.mark.slow
def test_harmful_real_files_are_found_and_harmless_ones_are_not_marked() -> None:
    seed = random.randrange(1 << 32)  # noqa: S311
    bad, good = list(real_files.planted(seed)), list(real_files.harmless(seed))
    alarms = marked(good)

    assert min(len(bad), len(good)) >= LEAST
    assert len(marked(bad)) >= FOUND * len(bad)
    assert len(alarms) <= FALSE * len(good), [(case.path, case.rules(corpus.shipped())) for case in alarms]


def test_the_figures_in_the_documentation_are_current() -> None:
    text = corpus.PAGE.read_text(encoding="utf-8")

    assert corpus.page(text) == text, "python -m tests.harness.risk.corpus writes them"
