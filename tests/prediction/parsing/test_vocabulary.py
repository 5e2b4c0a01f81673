"""Every row of the vocabulary is read: its example has its meaning, and no earlier row of its field takes it away."""

import ast
import re
from pathlib import Path

import pytest
from syntax import tree_of

from cookbook import catalog
from cookbook.prediction.parsing import columns, networks, parallelism, vocabulary, words
from cookbook.prediction.parsing.tables import _tuned

ROWS = catalog.table("vocabulary").to_dict("records")
PARSING = Path(words.__file__).parent
# Functions that read a text of a field from its cell to its meaning; the text of other fields is prepared by others.
READERS = {
    "precision": words.precision,
    "recompute_modules": lambda text: words.recompute("", text)[0],
    "attention": lambda text: words.attention(text)[0] or "contradiction",
    "model_adapters": lambda text: words.adapted("", text),
    "fine_tuning": lambda text: _tuned(text)[0],
    "target_modules": lambda text: words.adapters(text)[1],
    "target_modules_noted": lambda text: words.adapters("", text)[1],
    "optimiser": lambda text: words.optimiser(text)[0],
    "pipeline_schedule": lambda text: words.schedule(text)[0],
    "pipeline_schedule_noted": lambda text: words.schedule("", text)[0],
    "offload": lambda text: words.offload(text)[0][0],
    "scenario": lambda text: words.way(text)[0],
    "unit": lambda text: networks.unit_of(f"{text}/s")[0],
    "delay": lambda text: networks.metric_of(text).delay,
    "rate": lambda text: networks.metric_of(text).counts,
    "seconds": lambda text: f"{networks.metric_of(f'latency {text}').seconds:.9g}",
    "parallelism": lambda text: next(iter(parallelism.splits(f"{text} 4"))),
    **{
        f"column_{kind}": columns.names(kind).get
        for kind in (columns.TRANSFORMER, columns.CLASSIC, columns.SERVED, columns.STORAGE)
    },
}


def first_row(field: str, text: str) -> int:
    """Index of the first row of a field that fits a text, by the patterns alone."""
    for index, row in enumerate(ROWS):
        pattern = re.compile(row["pattern"], re.I | re.S)
        if row["field"] == field and (pattern.fullmatch if row["match"] == "whole" else pattern.search)(text):
            return index
    return -1


@pytest.mark.parametrize("index", range(len(ROWS)), ids=[f"{row['field']} {row['example']}" for row in ROWS])
def test_an_example_is_read_by_its_own_row(index):
    row = ROWS[index]
    assert first_row(row["field"], row["example"]) == index
    assert vocabulary.meaning(row["field"], row["example"]) == row["meaning"]
    if row["field"] in READERS:
        assert READERS[row["field"]](row["example"]) == row["meaning"]


def fields_in_code() -> set[str]:
    """Fields that the modules of parsing ask for."""
    asked = set()
    for path in PARSING.glob("*.py"):
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            called = [node.func, *node.args[:1]] if ast.unparse(node.func) == "partial" else [node.func]
            if any(ast.unparse(name).rpartition(".")[2] in vocabulary.__all__ for name in called):
                field = node.args[len(called) - 1]
                asked.add(ast.unparse(field))
    return asked


def test_each_field_of_the_table_is_asked_for_and_no_other():
    fields = {row["field"] for row in ROWS}
    asked = {ast.literal_eval(field) for field in fields_in_code() if field.startswith("'")}
    made = [field for field in fields_in_code() if field.startswith("f'")]
    prefixes = {field[2:].partition("{")[0] for field in made}
    assert asked <= fields and prefixes == {"column_", "measured_"}
    assert all(field in asked or field.startswith(tuple(prefixes)) for field in fields)


def test_a_spelling_is_a_row(tmp_path, monkeypatch):
    """A new word is understood once the table has it."""
    assert words.optimiser("Shampoo")[0] == ""
    table = catalog.table("vocabulary")
    row = dict(table[table["field"] == "optimiser"].iloc[0], pattern="shampoo", meaning="adam", example="Shampoo")
    table.loc[len(table)] = row
    caches = vocabulary._rows, vocabulary._matchers, vocabulary.meaning
    with monkeypatch.context() as changed:
        changed.setattr(catalog, "table", lambda name: table)
        for cache in caches:
            cache.cache_clear()
        assert words.optimiser("Shampoo") == ("adam", "")
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    "cell, typed",
    [
        ("0.4", "0.4"),
        (".4", "0.4"),
        ("0.40 of layers", "0.4"),
        ("0", "none"),
        ("0.0", "none"),
        ("0 %", "none"),
        ("1", "full"),
    ],
)
def test_a_share_of_layers_is_no_zero(cell, typed):
    assert words.recompute(cell) == (typed, "")


@pytest.mark.parametrize("cell", ["eager attention", "PyTorch eager", "naive attention", "vanilla"])
def test_an_eager_kernel_is_not_fused(cell):
    assert words.attention(cell)[0] == "eager"


@pytest.mark.parametrize("unit", ["us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "usec"])
def test_a_microsecond_is_no_second(unit):
    assert networks.metric_of(f"latency {unit}").seconds == 1e-6
