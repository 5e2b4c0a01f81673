"""The schema of scenarios: every field says what it is, every choice refuses what is not listed, hostile values too."""

import numpy as np
import pytest

from cookbook.catalog import UnknownName
from cookbook.prediction.scenario import ASKED_AS, KINDS, checked, fields, scenario

CHOICES = [name for name, each in fields().items() if each.type == "choice"]
FLAGS = [name for name, each in fields().items() if each.type == "flag"]
NUMBERS = [name for name, each in fields().items() if each.type == "number"]
PHASES = [kind for kind in KINDS if kind not in ASKED_AS]
HOSTILE = [float("nan"), float("inf"), -float("inf"), -1, 10**400, "", "abc", {}, object(), True, [[1, 2], [3, 4]],
           np.zeros((2, 2)), np.array([]), [], b"8", 1j, "x" * 10_000]  # fmt: skip


@pytest.mark.parametrize("name", list(fields()))
def test_every_field_says_what_it_is_and_who_reads_it(name):
    field = fields()[name]
    assert field.description and field.type and field.allowed
    assert field.phases and set(field.phases) <= set(PHASES)
    assert field.low <= field.high


@pytest.mark.parametrize("kind", PHASES)
def test_spellings_mean_one_field_of_a_kind(kind):
    known = [each for each in fields().values() if kind in each.phases]
    spellings = [spelling for each in known for spelling in each.spellings]
    assert len(spellings) == len(set(spellings))
    # A network is a model where no rate of a network is asked for: there the field of that name comes first.
    assert set(spellings) & {each.name for each in known} <= {"network"}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_takes_its_spellings_and_refuses_others_with_the_nearest(name):
    field = fields()[name]
    for spelling, choice in field.choices.items():
        assert checked(field, spelling).levels == (choice,)
        assert checked(field, spelling.upper()).levels == (choice,)
    wrong = next(iter(field.choices)) + "x"
    with pytest.raises(ValueError, match=name) as refused:
        checked(field, wrong)
    assert next(iter(field.choices.values())) in str(refused.value) and "nearest" in str(refused.value)


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_takes_yes_and_no_and_nothing_between(name):
    field = fields()[name]
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
    with pytest.raises(ValueError, match=name) as refused:
        checked(fields()[name], value)
    assert len(str(refused.value)) < 300


def test_a_bad_entry_of_a_list_spoils_no_other():
    found = scenario("training_classic", {"model": "resnet50", "accelerator": "v100", "batch": [8, -1, 2**70, None],
                                          "devices": [1, 1, 2.5, 4]})  # fmt: skip
    assert [bool(why) for why in found.why] == [False, True, True, False]
    assert "batch = -1" in found.why[1] and np.isnan(found.number("batch")[1:]).all()
    assert found.number("devices").tolist()[:2] == [1, 1]


@pytest.mark.parametrize("given, words", [
    ({"model": "resnet50x"}, "resnet50"), ({"accelerator": "gtx-9999"}, "gtx-9999"), ({"precision": "fp3"}, "fp3"),
])  # fmt: skip
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


def test_nothing_of_a_scenario_can_be_changed():
    found = scenario("training_classic", {"model": "resnet50", "batch": 8})
    with pytest.raises(TypeError):
        found.columns["batch"] = 9
    with pytest.raises(AttributeError):
        found.size = 3
