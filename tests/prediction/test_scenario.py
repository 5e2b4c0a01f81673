"""The schema of scenarios: every field says what it is, every choice refuses what is not listed, hostile values too."""

import csv
import inspect

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog import UnknownName
from cookbook.prediction.kinds.input_pipeline_arguments import ARGUMENT_NAMES
from cookbook.prediction.scenario import (
    GROUPS,
    KINDS,
    NUMERIC,
    SCHEMA_KINDS,
    TABLES,
    Coded,
    checked,
    fields,
    scenario,
    together,
)

PHASES = [kind for kind in KINDS if kind not in SCHEMA_KINDS]
DECLARED = {f"{phase}: {name}": each for phase in PHASES for name, each in fields(phase).items()}
CHOICES = [name for name, each in DECLARED.items() if each.type == "choice"]
FLAGS = [name for name, each in DECLARED.items() if each.type == "flag"]
NUMBERS = [name for name, each in DECLARED.items() if each.type in NUMERIC]
TYPES = {*NUMERIC, *TABLES, "choice", "flag", "text", "software", "accelerator", "recompute"}
HOSTILE = [
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    10**400,
    "",
    "abc",
    {},
    object(),
    True,
    [[1, 2], [3, 4]],
    np.zeros((2, 2)),
    np.array([]),
    [],
    b"8",
    1j,
    "x" * 10_000,
]


@pytest.mark.parametrize("name", list(DECLARED))
def test_every_field_says_what_it_is_and_who_reads_it(name):
    field = DECLARED[name]
    assert field.description and field.type in TYPES and field.allowed
    assert set(field.phases) & set(PHASES) and set(field.phases) <= {*PHASES, *GROUPS}
    assert field.low <= field.high


def test_no_kind_has_two_fields_of_one_name_and_no_field_is_without_a_kind():
    with (catalog.data_directory() / "schema" / "scenario.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["name"], phase) for row in csv.DictReader(file) for phase in row["phases"].split(";")]
    assert len(rows) == len(set(rows)) and {name for name, _ in rows} == set(fields())


def test_every_argument_of_an_input_pipeline_is_declared():
    """Under its own name, or as the fields that stand for it; groups hold what a mapping may say."""
    known, arguments = fields("input_pipeline"), list(inspect.signature(cb.match_storage).parameters)
    stands_for = {argument: field for field, argument in ARGUMENT_NAMES.items()}
    assert [name for name in arguments if stands_for.get(name, name) not in known] == []
    own = set(arguments) | set(ARGUMENT_NAMES) | {name for group in GROUPS for name in fields(group)}
    assert {name for name in known if not name.startswith("step_")} == own - {"system"}
    assert all(each.default or each.name == "sample_bytes" for each in known.values() if each.type in NUMERIC)


@pytest.mark.parametrize("kind", PHASES)
def test_spellings_mean_one_field_of_a_kind(kind):
    known = [each for each in fields().values() if kind in each.phases]
    spellings = [spelling for each in known for spelling in each.spellings]
    assert len(spellings) == len(set(spellings))
    # A network is a model where no rate of a network is asked for: there the field of that name comes first.
    assert set(spellings) & {each.name for each in known} <= {"network"}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_takes_its_spellings_and_refuses_others_with_the_nearest(name):
    field = DECLARED[name]
    for spelling, choice in field.choices.items():
        assert checked(field, spelling).levels == (choice,)
        assert checked(field, spelling.upper()).levels == (choice,)
    wrong = next(iter(field.choices)) + "x"
    with pytest.raises(ValueError, match=field.name) as refused:
        checked(field, wrong)
    assert next(iter(field.choices.values())) in str(refused.value) and "nearest" in str(refused.value)


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_takes_yes_and_no_and_nothing_between(name):
    field = DECLARED[name]
    for value in (True, 1, "yes", "true", "on", np.True_):
        assert checked(field, value) == 1
    for value in (False, 0, "no", "false", "off"):
        assert checked(field, value) == 0
    for value in ("maybe", 2, 0.5, "", "partly"):
        with pytest.raises(ValueError, match="neither yes nor no"):
            checked(field, value)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: f"{type(value).__name__}-{str(value)[:12]}")
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_read_from_what_is_none(name, value):
    field = DECLARED[name]
    if value is True and field.type == "share":
        assert checked(field, value) == 1
        return
    if isinstance(value, float) and value == field.high == np.inf:  # requests that are all there at once
        assert field.name == "request_rate" and checked(field, value) == np.inf
        return
    with pytest.raises(ValueError, match=field.name) as refused:
        checked(field, value)
    assert len(str(refused.value)) < 300


def test_a_bad_entry_of_a_list_spoils_no_other():
    found = scenario(
        "training_classic",
        {"model": "resnet50", "accelerator": "v100", "batch": [8, -1, 2**70, None], "devices": [1, 1, 2.5, 4]},
    )
    assert [bool(why) for why in found.why] == [False, True, True, False]
    assert "batch = -1" in found.why[1] and np.isnan(found.number("batch")[1:]).all()
    assert found.number("devices").tolist()[:2] == [1, 1]


@pytest.mark.parametrize(
    "given, words",
    [
        ({"model": "resnet50x"}, "resnet50"),
        ({"accelerator": "gtx-9999"}, "gtx-9999"),
        ({"precision": "fp3"}, "fp3"),
    ],
)
def test_unknown_names_of_the_tables_get_the_nearest(given, words):
    with pytest.raises(UnknownName, match=words):
        scenario("training_classic", given)


def test_unknown_fields_and_kinds_and_uneven_lists_are_named():
    with pytest.raises(ValueError, match="devices"):
        scenario("training_transformer", {"devises": 8})
    with pytest.raises(ValueError, match="training_classic"):
        scenario("cooking", {})
    with pytest.raises(ValueError, match="one length"):
        scenario("training_transformer", {"tp": [1, 2], "pp": [1, 2, 4]})


def test_a_list_of_one_entry_stands_for_all_and_series_are_lists():
    found = scenario("training_classic", {"batch": [8], "devices": pd.Series([1, 2, 4]), "precision": ["fp16"]})
    assert len(found) == 3 and found.several and found.number("batch") == 8 and found.words("precision").codes == 0
    assert scenario("training_classic", {"batch": [-1], "devices": [1, 2]}).why.tolist() == 2 * [
        "batch = -1 is outside its range; give 1e-09 to 1e+09"
    ]
    assert not scenario("training_classic", {"batch": 8}).several


def test_nothing_of_a_scenario_can_be_changed():
    found = scenario("training_classic", {"model": "resnet50", "batch": 8})
    with pytest.raises(TypeError):
        found.columns["batch"] = 9
    with pytest.raises(AttributeError):
        found.size = 3


def test_columns_with_more_combinations_than_an_integer_counts_stay_in_their_rows():
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 1000, (12, 4000))
    found = together(*(Coded(each, tuple(range(1000))) for each in numbers))
    assert [found.levels[code] for code in found.codes.tolist()] == [tuple(row) for row in numbers.T.tolist()]


def test_fields_of_transformer_training_are_of_types_that_calls_and_tables_read():
    """A field of another type would pass every check and change nothing."""
    from cookbook.catalog.fields import names_of
    from cookbook.prediction.kinds import transformer
    from cookbook.prediction.parsing import tables

    numbers = set(names_of("training_transformer", "count", "number", "flag", "share"))
    assert numbers <= {*transformer.OPTIONS, *transformer.READ_SEPARATELY}
    flags = set(names_of("training_transformer", "flag"))
    assert numbers - flags <= {*tables.COUNTS, *tables.READ_SEPARATELY}
