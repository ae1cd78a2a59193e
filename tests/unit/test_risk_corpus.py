"""What the shipped rules find in a corpus of planted and harmless changes, and that docs/risks.md says so."""

from tests.harness import corpus, harmless, planted

NOT_FOUND = {"harm in ordinary code", "words written to dodge"}
MARKED = "marked on purpose"


def test_the_corpus_is_large_and_holds_no_change_twice() -> None:
    for cases in (list(planted.cases()), list(harmless.cases())):
        assert len({(case.path, case.before, case.after, case.mode, case.target) for case in cases}) == len(cases) >= 400


def test_all_that_is_planted_is_found_but_what_no_rule_can_see() -> None:
    rules = corpus.shipped()
    missed = [case for case in planted.cases() if case.group not in NOT_FOUND and not case.rules(rules)]

    assert missed == []


def test_everyday_work_is_not_marked_but_on_purpose() -> None:
    rules = corpus.shipped()
    marked = [(case, case.rules(rules)) for case in harmless.cases() if case.group != MARKED and case.rules(rules)]

    assert marked == []


def test_the_figures_of_the_page_are_those_of_now() -> None:
    text = corpus.PAGE.read_text(encoding="utf-8")

    assert corpus.page(text) == text, "python -m tests.harness.corpus writes them"
