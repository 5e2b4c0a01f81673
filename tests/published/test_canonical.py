"""Public figures that experts know: each is asked through its door, and errors stay within the bounds of today."""

import csv
import re

import canonical
import pytest

import cookbook as cb

# True on the day they were written, with a small margin: median error of the questions answered at most, and share of
# them that the 80 % interval holds at least. They say what is, not what should be: tighten them when answers improve.
BOUNDS = {
    "all": (0.20, 0.74),
    "open": (0.19, 0.74),
    "held back": (0.24, 0.72),
    "no row of our tables": (0.25, 0.62),
    "one user": (0.16, 0.92),
    "prompt": (0.34, 0.70),
    "saturation": (0.19, 0.90),
    "one pass": (0.26, 0.46),
    "training": (0.22, 0.58),
    "run": (0.25, 0.49),
    "fine-tuning": (0.46, 0.59),
}


@pytest.fixture(scope="module")
def questions():
    return canonical.read()


@pytest.fixture(scope="module")
def answers(questions):
    return [canonical.ask(each) for each in questions]


def test_enough_questions_from_enough_sources(questions):
    assert len(questions) >= 80
    assert len({each.source for each in questions}) >= 20
    assert {each.kind for each in questions} == set(canonical.KINDS)


def test_halves_follow_from_the_name_alone(questions):
    counts = {half: sum(each.half == half for each in questions) for half in canonical.HALVES}
    assert min(counts.values()) >= len(questions) / 3, counts
    # `printf %s NAME | sha256sum` gives these first digits
    digits = {"gpt-fast-llama2-7b": "7", "gpt-fast-llama2-7b-tp8": "a"}
    for each in questions:
        if each.id in digits:
            assert (each.half == "held back") == (digits.pop(each.id) in "02468ace")
    assert not digits


def test_a_figure_of_our_tables_is_the_one_of_its_row(questions):
    """Some number of the measured row is the published one in the unit of the question, or in SI."""
    rows = [each for each in questions if each.row]
    assert len(rows) >= 40
    for each in rows:
        factor = canonical.UNITS[canonical.PARTS[each.door, each.part][0]][each.unit]
        numbers = [cell for cell in canonical.measured(each).values() if isinstance(cell, (int, float))]
        close = [
            cell
            for cell in numbers
            if cell in (pytest.approx(each.published, rel=1e-3), pytest.approx(each.published * factor, rel=1e-3))
        ]
        assert close, f"{each.id}: {each.published} {each.unit} is no cell of {each.row}"
        assert canonical.measured(each)["source"] == each.source, each.id


def test_every_question_is_answered_or_refused_as_its_row_says(answers):
    wrong = []
    for each in answers:
        asked = each.question
        if each.why and (not asked.expected or asked.expected not in each.why):
            wrong.append(f"{asked.id}: no answer, and its cell `expected` does not say why: {each.why}")
        if asked.expected and not each.why:
            wrong.append(f"{asked.id}: answered now ({each.point:.4g} {asked.unit}); empty its cell `expected`")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("group", BOUNDS)
def test_answers_grow_no_worse_than_the_bounds_of_today(answers, group):
    score, (error, inside) = canonical.groups(answers)[group], BOUNDS[group]
    assert score.error <= error, f"{group}: median error {score.error:.3f}, it was at most {error}"
    assert score.inside >= inside, f"{group}: the interval holds {score.inside:.3f}, it was at least {inside}"


NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def numbers(text):
    return [float(each.replace(",", "")) for each in NUMBER.findall(text)]


def test_the_page_tells_the_answers_of_today(answers):
    """Its words are those of the tables, and its numbers within a few per cent, so that processors may differ."""
    page = canonical.PAGE.read_text(encoding="utf-8")
    for name, table in canonical.parts_of_page(answers).items():
        (written,) = canonical.between(name).findall(page)
        remedy = f"{name}: run python tests/published/canonical.py"
        assert NUMBER.sub("#", written) == NUMBER.sub("#", table), remedy
        assert numbers(written) == pytest.approx(numbers(table), rel=0.02, abs=1.01 if name == "scores" else 0), remedy


def test_the_table_tells_the_answers_of_today(answers):
    """``known_answers``, which the recipe reads: words as they are, numbers within a few per cent."""
    table = cb.table("known_answers").to_dict("records")
    assert len(table) == len(answers), "run python tests/published/canonical.py"
    for written, now in zip(table, canonical.rows_of(answers), strict=True):
        for name, value in now.items():
            told = f"{now['question']}, {name}: run python tests/published/canonical.py"
            if isinstance(value, float):
                assert written[name] == pytest.approx(value, rel=0.02), told
            elif value:
                assert written[name] == value, told
            else:
                assert written[name] == "" or written[name] != written[name], told


GOOD = {
    "id": "a-question",
    "kind": "one user",
    "question": "How fast?",
    "door": "generate",
    "arguments": '{"model": "llama3_8b", "accelerator": "h100-sxm"}',
    "part": "answer rate",
    "times": "1",
    "unit": "tokens/s",
    "published": "100",
    "source": "https://example.org/page",
    "row": "",
    "recalled": "no",
    "expected": "",
    "note": "",
}


def read_one(tmp_path, **changes):
    path = tmp_path / "questions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, GOOD)
        lines.writeheader()
        lines.writerow(GOOD | changes)
    return canonical.read(path)


def test_a_good_row_is_read(tmp_path):
    (one,) = read_one(tmp_path)
    assert one.published == 100 and one.arguments["model"] == "llama3_8b"


@pytest.mark.parametrize(
    "column, value, told",
    [
        ("id", "A Question", "other signs"),
        ("kind", "guessing", "kind = 'guessing' is not one of one user"),
        ("door", "predict", "door = 'predict' is not one of generate"),
        ("part", "mood", "is none of cb.generate: answer rate"),
        ("arguments", "{", "is not JSON"),
        ("arguments", "[1]", "is no JSON object"),
        ("arguments", '{"model": "llama3_8b", "gpu": 1}', "has gpu, which cb.generate does not take"),
        ("arguments", '{"model": "llama3_8b", "delay_of": "token"}', "needs delay_of = None for answer rate"),
        ("unit", "days", "is no unit of a rate: tokens/s"),
        ("unit", "furlongs", "is no unit of a rate"),
        ("published", "0", "is no number above 0"),
        ("published", "many", "is no number above 0"),
        ("times", "nan", "is no number above 0"),
        ("times", "2", "note = '' is empty"),
        ("recalled", "", "is neither yes nor no"),
        ("source", "somebody", "is neither an address nor a key"),
        ("source", "", "is empty"),
        ("row", "nowhere-1", "is none of inference"),
    ],
)
def test_a_bad_cell_is_named(tmp_path, column, value, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        read_one(tmp_path, **{column: value})


def test_names_are_unique_and_columns_are_all_there(tmp_path):
    read_one(tmp_path)
    path = tmp_path / "questions.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text.splitlines()[1] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a-question: id is there twice"):
        canonical.read(path)
    path.write_text(text.replace("recalled,", "", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="columns"):
        canonical.read(path)


def test_arguments_that_are_fields_of_a_plan_are_known(tmp_path):
    asked = '{"model": "resnet50", "accelerator": "v100-sxm2-16gb", "micro_batch": 64}'
    (one,) = read_one(tmp_path, door="train_step", part="rate", unit="images/s", arguments=asked, kind="training")
    assert canonical.ask(one).point > 0
