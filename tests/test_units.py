"""Units at the border: parsing, refusal of what cannot be read, and the round trip through `human`."""

import math
from decimal import Decimal
from enum import Enum, IntEnum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cookbook as cb
from cookbook.units import human, parse, scale, shown, si, si_unit

UNITS = ["FLOP/s", "B", "B/s", "W", "s", "Hz", "USD", "J", "FLOP", "FLOP/B", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("312 TFLOP/s", 3.12e14),
        ("33.45 TFLOP/s", 33.45e12),
        ("16 TOP/s", 1.6e13),
        ("80 GB", 8e10),
        ("64 GiB", 64 * 2**30),
        ("3.35 TB/s", 3.35e12),
        ("400 Gb/s", 5e10),
        ("400 Gbit/s", 5e10),
        ("300 W", 300.0),
        ("5 us", 5e-6),
        ("5 µs", 5e-6),
        ("8 h", 28800.0),
        ("1,234.5 GB", 1.2345e12),
        ("14 M", 14e6),
        ("14 million images", 14e6),
        ("1.2 M USD", 1.2e6),
        ("1 kWh", 3.6e6),
        ("0.12 USD/kWh", 0.12 / 3.6e6),
        ("$0.12/kWh", 0.12 / 3.6e6),
        ("$1.2 M", 1.2e6),
        ("-$33,600", -33600.0),
        ("$1.2 bn", 1.2e9),
        ("1 GMAC", 2e9),
        ("90 %", 0.9),
        (".5 TB", 5e11),
        ("4TB/s", 4e12),
        ("1e3 GB", 1e12),
    ],
)
def test_si_reads_quantities(text, expected):
    assert si(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80\u00a0GB", 8e10), ("+3. GB", 3e9), ("-.5e1 s", -5.0), ("5e3B", 5e3), ("2 E", 2e18), ("1,000,000", 1e6)],
)
def test_si_reads_what_people_paste(text, expected):
    assert si(text) == expected


@pytest.mark.parametrize("text", ["1e99999999 B", "1e400", "1e" + "9" * 30, "-1e309 s", "1e-400 s", "9" * 190 + "e299"])
def test_numbers_beyond_any_quantity_are_refused(text):
    with pytest.raises(ValueError, match="beyond any quantity"):
        si(text)


@pytest.mark.parametrize("text", ["٣ GB", "8\x000 GB", "1e5.5 B", "0x10 B", "1e 5", "--5 B", "５ GB", "9" * 100_000])
def test_what_only_looks_like_a_number_is_refused(text):
    with pytest.raises(ValueError, match=r"cannot read|unknown unit") as error:
        si(text)
    assert len(str(error.value)) < 320


@pytest.mark.parametrize("bad", [object(), {}, b"5 GB", {1}, 10**400])
def test_si_and_human_refuse_in_plain_words_what_is_no_quantity(bad):
    with pytest.raises((TypeError, ValueError), match=r"^value = "):
        si(bad)
    if not isinstance(bad, int):
        with pytest.raises(TypeError, match=r"^value = "):
            human(bad)


@pytest.mark.parametrize("unit", [5, ["B"], "x" * 1000])
def test_a_unit_is_a_short_text(unit):
    for ask in (lambda: si("5 B", unit), lambda: human(5, unit), lambda: scale("x" * 1000)):
        with pytest.raises(ValueError, match="unit = "):
            ask()


@pytest.mark.parametrize("value", [3, 2.5, True])
def test_numbers_pass_through(value):
    assert si(value) is value


@pytest.mark.parametrize("text", ["", "  ", "fast", "GB", "1.2.3 GB", "4 gb/s", "4 GB//s", "4 GB/", "4 qB", "1 TFLOPs"])
def test_unreadable_text_says_what_is_accepted(text):
    with pytest.raises(ValueError, match="accepted: a number, or a number and a unit such as 312 TFLOP/s"):
        si(text)


def test_flops_with_a_small_s_is_refused_because_it_is_read_both_ways():
    with pytest.raises(ValueError, match="FLOP for a count, FLOP/s for a rate"):
        si("4 TFLOPs")


@pytest.mark.parametrize(("text", "unit"), [("4 TFLOP/s", "B/s"), ("4 TB", "B/s"), ("4 TB/s", "B"), ("300 W", "J")])
def test_the_wrong_dimension_is_refused(text, unit):
    with pytest.raises(ValueError, match=f"wrong unit: expected one like {unit}"):
        si(text, unit)


def test_text_without_a_unit_is_refused_where_one_is_expected():
    assert si("4e12") == 4e12 and si(4e12, "B/s") == 4e12
    with pytest.raises(ValueError, match="'4e12' has no unit of the kind B/s"):
        si("4e12", "B/s")


def test_a_count_takes_no_unit():
    assert [si(text, "") for text in ("14e6", "14 M", "14 million images", "90 %")] == [14e6, 14e6, 14e6, 0.9]
    with pytest.raises(ValueError, match="expected a count such as 14e6"):
        si("14 GB", "")


@pytest.mark.parametrize("text", ["12,5 GB", "1,2,3 GB", "1,2345 GB", "1,23 GB", "12_5 GB", "1.5,3 GB", "1234,567 B"])
def test_commas_stand_between_thousands_only(text):
    with pytest.raises(ValueError, match="cannot read"):
        si(text)
    assert si("1,234,567.5 B") == si("1_234_567.5 B") == 1234567.5


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1e30, "B", "1,000,000 YB"),
        (1e60, "B", "more than 1,000,000,000 YB"),
        (5e-324, "s", "less than 0.001 as"),
        (1e14, "s", "3.17 million years"),
        (1e20, "s", "3,170 billion years"),
    ],
)
def test_human_beyond_all_prefixes_is_still_short(value, unit, shown):
    assert human(value, unit) == shown


@given(st.sampled_from(UNITS), st.floats(min_value=1e-3, max_value=1e20))
def test_human_and_back_keeps_three_digits(unit, value):
    assert si(human(value, unit)) == pytest.approx(value, rel=0.0051)


@given(st.sampled_from(UNITS), st.floats(min_value=1e-3, max_value=1e20))
def test_human_is_short_and_says_at_most_three_significant_digits(unit, value):
    number = human(value, unit).split(" ")[0].replace(",", "").lstrip("$")
    assert len(number.replace(".", "").strip("0")) <= 3


@given(st.floats(min_value=1e-9, max_value=1e12), st.floats(min_value=1e-9, max_value=1e12))
def test_human_keeps_the_order(one, other):
    low, high = sorted((one, other))
    assert si(human(low, "s")) <= si(human(high, "s")) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (3.12e14, "FLOP/s", "312 TFLOP/s"),
        (999.6, "B/s", "1 kB/s"),
        (59.99, "s", "1 min"),
        (8280, "s", "2.3 h"),
        (0.045, "s", "45 ms"),
        (5e-6, "s", "5 µs"),
        (33600, "USD", "$33.6 k"),
        (2.5, "USD/h", "$2.50/h"),
        (0.178, "USD", "$0.178"),
        (9994, "USD", "$9,990"),
        (9996, "USD", "$10 k"),
        (999_600, "USD", "$1 M"),
        (25557032, "", "25.6 M"),
        (0, "B", "0 B"),
        (-5e9, "B/s", "-5 GB/s"),
        (math.nan, "B", "unknown"),
        (math.inf, "s", "unlimited"),
    ],
)
def test_human_examples(value, unit, shown):
    assert human(value, unit) == shown


def test_scale_and_si_unit_are_those_of_the_schemas():
    assert [scale(unit) for unit in ("GB", "GB/s", "TFLOP/s", "TOP/s", "us", "MHz", "W", "")] == [
        1e9,
        1e9,
        1e12,
        1e12,
        pytest.approx(1e-6),
        1e6,
        1.0,
        1.0,
    ]
    assert [si_unit(unit) for unit in ("GB/s", "TFLOP/s", "us", "MiB", "h")] == ["B/s", "FLOP/s", "s", "B", "s"]


def test_integer_and_floating_operations_have_one_dimension():
    assert parse("TOP/s").dimension == parse("TFLOP/s").dimension == parse("TFLOPS").dimension
    assert parse("TFLOP").dimension != parse("TFLOP/s").dimension


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cb.train_step("resnet50", "h100-sxm", batch=np.array([[1, -2]])), "-2"),
        (lambda: cb.generate("llama3_8b", "h100-sxm", input_len=np.array(["x"]), output_len=2), "x"),
        (lambda: cb.planning.plan_run("llama3_8b", np.int64(7), [8], 1e9), "7"),
        (lambda: cb.serve("llama3_8b", "h100-sxm", rate=np.array([1, 2])), "[1, 2]"),
        (lambda: cb.parallelism.bubble_share("1f1b", np.int64(-3), 2), "-3"),
        (lambda: cb.accelerator(np.array([1, 2])), "[1, 2]"),
        (lambda: cb.planning.hourly_usd(np.float64(2.5)), "2.5"),
        (lambda: cb.planning.hourly_usd("h100-sxm", since=np.float64(2.5)), "2.5"),
    ],
)
def test_a_refusal_names_a_value_of_an_array_and_not_its_type(call, words):
    with pytest.raises((ValueError, TypeError, KeyError)) as refused:
        call()
    text = str(refused.value)
    assert words in text and not any(name in text for name in ("np.", "array(", "int64", "float64")), text


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.str_("abc"), "'abc'"),
        (pd.Series([1, 2]), "[1, 2]"),
        (pd.Categorical(["a"]), "['a']"),
        (pd.NA, "NA"),
        (Colour.RED, "Colour.RED"),
        ([Level.LOW], "[Level.LOW]"),
        (object(), "an object"),
        (Colour, "Colour"),
        (lambda: 0, "a function"),
        ((n for n in "a"), "a generator"),
        (np.array([object()]), "[an object]"),
        ({"a": frozenset([np.int64(1)])}, "{'a': frozenset({1})}"),
        ({"a": object()}.values(), "a dict_values"),
        (Decimal("-1.5"), "Decimal('-1.5')"),
        (b"abc", "b'abc'"),
        ("<b> at 0x7f", "'<b> at 0x7f'"),
    ],
)
def test_what_a_message_says_of_a_value_names_no_type_of_a_library_and_no_address(value, text):
    assert shown(value) == text
