"""The decision of recipe 07 follows from its tables of pairs, repeats and prices, and changes with them."""

import re
from typing import Any

import pytest
from records import decision, outputs, table, words

TASK, PUBLISHER, CLAIM = "4,096 tokens", "mosaicml", 2.0


def three(text: str) -> list[float]:
    """Return point, low and high of a text such as "2.34 (2.14 to 2.56)"."""
    return [float(figure) for figure in re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text).groups()]


def page() -> dict[str, Any]:
    """Return what the stored page shows: pairs, repeats, what the new GPU is worth, prices, and the record."""
    prices = dict(re.findall(r"^(\S+): \$([\d.]+) per hour", words("07", "prices"), re.M))
    shown = {cell: table("07", cell) for cell in ("oursshown", "noise", "worth")}
    return shown | {"prices": {gpu: float(usd) for gpu, usd in prices.items()}, "record": decision("07")}


def follows(page: dict[str, Any]) -> bool:
    """Whether ratios, their noise, limits and the verdict on the claim are those of the pair named in the record."""
    (old, usd), (new, _) = page["prices"].items()
    row, record = page["oursshown"].loc[TASK], page["record"]
    rates = [float(text.replace(",", "")) for text in row.iloc[:2]]
    noise = float(page["noise"].loc[PUBLISHER].iloc[2])
    ratio, low, high = three(row.iloc[2])
    expected = rates[1] / rates[0], rates[1] / rates[0] / noise, rates[1] / rates[0] * noise
    verdict = "yes" if low >= CLAIM else "no" if high < CLAIM else "not settled"
    limits = three(page["worth"].loc[TASK].iloc[1])
    right = all(abs(a - b) < 0.02 for a, b in zip((ratio, low, high), expected, strict=True))
    right &= all(abs(a - usd * b) < 0.012 for a, b in zip(limits, (ratio, low, high), strict=True))
    choice = f"{new} up to ${limits[1]:.2f} per hour, {old} if it costs more than ${limits[2]:.2f}; open between"
    return (
        right
        and record["Choice"] == choice
        and record["Measured"] == f"{ratio:.2f} times ({low:.2f} to {high:.2f})"
        and record["2 times as fast?"] == verdict == row.iloc[4]
        and TASK in record["Work"]
        and len(re.findall(r"20\d\d-\d\d to 20\d\d-\d\d", record["Price"])) == 2
    )


def test_the_record_follows_from_the_page():
    assert follows(page())


@pytest.mark.parametrize(
    ("cell", "row", "column", "text"),
    [
        ("oursshown", TASK, 2, "2.34 (1.90 to 2.56)"),  # a wider noise
        ("oursshown", TASK, 1, "49,000"),  # a slower new GPU
        ("oursshown", TASK, 4, "no"),
        ("noise", PUBLISHER, 2, "1.31"),  # a publisher that repeats itself badly
        ("worth", TASK, 1, "3.48 (3.81 to 3.18)"),  # ends swapped
    ],
)
def test_another_table_gives_another_record(cell, row, column, text):
    other = page()
    other[cell].iloc[other[cell].index.get_loc(row), column] = text
    assert not follows(other)


def test_another_price_gives_other_limits():
    shown = page()
    (old, _), (new, usd) = shown["prices"].items()
    assert not follows(shown | {"prices": {old: 1.10, new: usd}})


def test_the_table_of_pairs_has_no_pair_of_two_publishers():
    said = "".join(output.get("text", "") for output in outputs("07", "pairs"))
    every, one = re.match(r"(\d+) pairs, (\d+) of them by one publisher", said).groups()
    assert int(one) < int(every) and float(re.search(r"to ([\d.]+)", said)[1]) < 6.7
