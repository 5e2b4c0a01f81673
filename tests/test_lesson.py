"""Lesson aids: what they print without a front end, what they recognise, and what they refuse."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import lesson
from cookbook.formulas import arithmetic as roofline

OPTIONS = {
    "the same": "1 MAC is not 1 FLOP",
    "twice as much": "A MAC multiplies and adds.",
    "half": "the ratio is the other way round",
}


def ask(**changes):
    usual = {"question": "MAC or FLOP?", "options": OPTIONS, "answer": "twice as much"}
    return lesson.predict_first(**{**usual, **changes})


def test_question_reveals_answer_and_misconceptions_as_text():
    text = repr(ask())
    assert text.splitlines()[0] == "Predict: MAC or FLOP?"
    assert "Answer: b) twice as much: A MAC multiplies and adds." in text
    assert "Not c): the ratio is the other way round" in text


def test_question_folds_its_answer_in_html_and_escapes():
    page = ask(question="Is a < b?")._repr_html_()
    folded = page.split("<details>")[1]
    assert "Is a &lt; b?" in page and "twice as much: A MAC" in folded and "Answer" not in page.split("<details>")[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": "three times"},
        {"options": {**OPTIONS, "half": ""}},
        {"options": {"twice as much": "one"}},
    ],
)
def test_question_refuses_what_does_not_fit_together(changes):
    with pytest.raises(ValueError, match=r"answer = |says nothing"):
        ask(**changes)


def test_no_widget_is_stored_when_nobody_watches(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert set(ask()._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_live_question_tells_the_misconception_of_the_choice(monkeypatch, capsys):
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("JPY_SESSION_NAME", "notebook")
    assert "application/vnd.jupyter.widget-view+json" in ask()._repr_mimebundle_()
    box = lesson._question_widget(ask())
    radio, told = box.children[1], box.children[2]
    radio.value = "c"
    assert "the other way round" in told.value
    radio.value = "b"
    assert "Answer: b)" in told.value
    assert capsys.readouterr().out == ""


def test_package_of_lessons_imports_no_widgets():
    code = "import sys, cookbook.lesson; sys.exit(any(m in sys.modules for m in ('ipywidgets', 'pandas', 'altair')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_right_answers_pass_within_the_stated_tolerance():
    calls = []
    seen = lesson.check("265 TFLOP/s", lambda: calls.append(1) or 264e12, tolerance=0.01, unit="FLOP/s")
    assert seen and calls == [1]
    assert repr(seen) == "Correct: 265 TFLOP/s, within 1 % of the computed value."
    assert not lesson.check(268e12, 264e12, tolerance=0.01)
    assert lesson.check(0, 0) and not lesson.check(1, 0)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (8, "bits taken for bytes"),
        (1 / 8, "bytes taken for bits"),
        (1 / 2, "a factor of 2: were MAC taken for FLOP"),
        (2, "a factor of 2: were FLOP taken for MAC"),
        (1.073741824, "GiB taken for GB"),
        (1 / 1.073741824, "GB taken for GiB"),
        (1.048576, "MiB taken for MB"),
        (1000, "one SI prefix"),
        (1e-6, "two SI prefixes"),
        (3600, "hours"),
        (100, "percentage"),
    ],
)
def test_usual_slips_are_named(ratio, words):
    assert words in repr(lesson.check(ratio * 7.3e9, lambda: 7.3e9))


@given(st.floats(1e-6, 1e15), st.sampled_from([factor for factor, *_ in lesson.RATIOS]))
def test_each_slip_is_named_in_both_directions_at_any_size(right, factor):
    too_large, too_small = lesson.check(right * factor, right, 0), lesson.check(right / factor, right, 0)
    assert not too_large and not too_small
    assert "this check knows" not in repr(too_large) and "this check knows" not in repr(too_small)
    assert repr(too_large) != repr(too_small)


@pytest.mark.parametrize("factor", [3, 4, 6, 100 * 1.5, 1 / 3, 1 / 6])
def test_a_bare_ratio_is_no_mistake(factor):
    """Forgotten positions were once told to be MAC counted twice, because the ratio happened to fit."""
    told = repr(lesson.check(factor * 7.3e9, lambda: 7.3e9))
    assert "not by a mistake that this check knows" in told and "MAC" not in told and "pass" not in told


def test_mistakes_are_recognised_by_recomputing_them():
    positions = 8
    slips = {"the positions were forgotten": lambda: 24e9 / positions, "the backward pass was forgotten": 8e9 + 1e6}
    told = lesson.check("3 GMAC", lambda: 24e9, unit="MAC", slips=slips)
    assert repr(told) == "Not yet: you get 3 GMAC if the positions were forgotten."
    assert "backward pass was forgotten" in repr(lesson.check(8e9, 24e9, slips=slips))
    assert lesson.check(24e9, 24e9, slips={"nothing was done": 24e9})  # what is right is right
    word = lesson.check("compute", "memory", slips={"the batch was left at 1": "Compute"})
    assert repr(word) == "Not yet: you get compute if the batch was left at 1."


def test_a_ratio_upside_down_is_recognised():
    assert "upside down" in repr(lesson.check(1 / 26.3, lambda: 26.3))
    assert "upside down" in repr(lesson.check(0.001, 1000.0))
    assert "upside down" not in repr(lesson.check(1 / 26.3, lambda: 26.3, unit="B/s"))


def test_slips_of_units_are_told_where_the_unit_can_slip():
    assert "bits taken for bytes" in repr(lesson.check(8e9, 1e9, unit="B/s"))
    assert "bits" not in repr(lesson.check(8e9, 1e9, unit="FLOP")) and "MAC" not in repr(lesson.check(2, 1, unit="s"))
    assert "hours" in repr(lesson.check(3600.0, 1.0, unit="s"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": "much"},
        {"tolerance": True},
        {"unit": None},
        {"unit": 3},
        {"slips": "forgotten"},
        {"slips": [1]},
        {"slips": {"a list": []}},
        {"expected": None},
        {"expected": object()},
        {"expected": [1, 2]},
        {"expected": 10**400},
    ],
)
def test_what_no_exercise_can_be_made_of(wrong):
    with pytest.raises(ValueError, match=r"give"):
        lesson.check(**{"answer": 1.0, "expected": 2.0, **wrong})


@pytest.mark.parametrize("options", [{str(n): "why" for n in range(27)}, [], None, {"a": 1, "b": 2}])
def test_options_that_no_question_can_have(options):
    with pytest.raises(ValueError, match=r"answer = |says nothing"):
        ask(options=options, answer="1")
    assert "i) 8" in repr(ask(options={str(n): "why" for n in range(9)}, answer="8"))


def test_a_wrong_answer_is_not_given_away():
    assert "264" not in repr(lesson.check(1.23e14, lambda: 264e12, unit="FLOP/s"))


@pytest.mark.parametrize("blank", [None, ...])
def test_exercise_not_done_yet(blank):
    called = []
    assert "Not answered yet" in repr(lesson.check(blank, lambda: called.append(1)))
    assert not called


@pytest.mark.parametrize("answer", ["many", "12 parsecs", [], float("nan"), -3.0, float("inf")])
def test_answers_that_are_no_value_are_told_so(answer):
    seen = lesson.check(answer, 5.0)
    assert not seen and repr(seen).startswith(("Not a number", "Not yet"))


def test_words_and_flags():
    assert lesson.check(" Memory ", lambda: "memory")
    assert not lesson.check("compute", lambda: "memory")
    assert lesson.check(True, True) and not lesson.check(False, True)


def test_tolerance_out_of_range():
    with pytest.raises(ValueError, match=r"tolerance = 2 .*fraction"):
        lesson.check(1, 1, tolerance=2)


def test_source_is_the_real_one_without_docstring():
    text = repr(lesson.show_source(roofline.op_seconds))
    assert text.startswith("# cookbook.formulas.arithmetic.op_seconds")
    assert "return smooth_max(flop / peak_flops, bytes_moved / mem_bandwidth, smoothness)" in text
    assert '"""' not in text and ".. math::" not in text


def test_source_can_be_cut_and_marked():
    shown = lesson.show_source(roofline.op_seconds, lines=(-3, -1), highlight="smooth_max")
    assert len(shown.lines) == 3 and len(shown.marked) == 1
    marked = [line.strip("> ") for line in repr(shown).splitlines() if line.startswith(">")]
    assert len(marked) == 1 and marked[0].startswith("return smooth_max")
    assert shown._repr_html_().count("<mark") == 1


def test_source_of_decorated_and_one_line_functions():
    from functools import lru_cache

    @lru_cache
    def decorated(x):
        """Say nothing."""
        return x

    text = repr(lesson.show_source(decorated))
    assert "return x" in text and "Say nothing" not in text


@pytest.mark.parametrize(("function", "words"), [(len, "no Python source"), (5, "function = 5 is not a function")])
def test_source_that_does_not_exist(function, words):
    with pytest.raises(ValueError, match=words):
        lesson.show_source(function)


def test_an_answer_in_text_must_have_the_unit_that_is_asked_for():
    assert lesson.check("2 GMAC", 2e9, unit="MAC") and lesson.check("4 GFLOP", 2e9, unit="MAC")
    assert lesson.check("80 GiB", 80 * 2**30, unit="iB")
    assert "wrong unit" in repr(lesson.check("5 GB", 5e9, unit="FLOP/s"))
    assert "no unit" in repr(lesson.check("5", 5.0, unit="s"))


@pytest.mark.parametrize("lines", [(0, 3), (3, 1), (1, 999), (-99, -1)])
def test_lines_that_do_not_exist(lines):
    with pytest.raises(ValueError, match=r"it has lines 1 to"):
        lesson.show_source(roofline.op_seconds, lines=lines)


def test_hints_unfold_one_by_one():
    one, two = lesson.hint("Count."), lesson.hint("Count.", "Then <divide>.")
    assert repr(one) == "Hint: Count."
    assert repr(two) == "Hint 1: Count.\nHint 2: Then <divide>."
    assert two._repr_html_().count("<details>") == 2 and "&lt;divide&gt;" in two._repr_html_()
    with pytest.raises(ValueError, match="at least one"):
        lesson.hint()


def test_everything_prints_the_same_twice():
    for make in (ask, lambda: lesson.check(3, 4), lambda: lesson.hint("x"), lambda: lesson.show_source(lesson.hint)):
        assert repr(make()) == repr(make()) and make()._repr_html_() == make()._repr_html_()


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(lesson, "_seen", {})
    return lesson._seen


def test_progress_of_a_session_is_restored_by_the_line_that_it_prints(fresh, monkeypatch):
    exercises = [lambda: 264e12, lambda: 2 * 3e9]
    assert lesson.check("264 TFLOP/s", exercises[0], unit="FLOP/s") and not lesson.check(1.0, exercises[1])
    box = lesson._question_widget(ask())
    box.children[1].value = "b"
    told = lesson.progress()
    assert (told.answered, told.asked, told.solved, told.tried) == (1, 1, 1, 2)
    monkeypatch.setattr(lesson, "_seen", {})
    assert (lesson.progress().answered, lesson.progress().tried) == (0, 0)
    state = told.line.removeprefix('cb.progress("').removesuffix('")')
    assert lesson.progress(state) == told
    assert lesson._question_widget(ask()).children[1].value == "b"
    assert "solved this before, with 264 TFLOP/s" in repr(lesson.check(None, exercises[0]))
    assert not lesson.check(2.0, exercises[0]) and lesson.progress() == told  # a later slip takes nothing away


def test_exercises_are_told_apart(fresh):
    keys = {lesson.key_of("x", each) for each in (lambda: 264e12, lambda: 2 * 3e9, lambda: 2 * 4e9, 7.0, "memory")}
    assert len(keys) == 5


@pytest.mark.parametrize("line", ["nonsense", "x12=4", 'cb.progress("x0a1b2c=1")'])
def test_text_that_is_no_progress_is_named(fresh, line):
    with pytest.raises(ValueError, match="paste the whole line"):
        lesson.progress(line)
    assert not fresh
