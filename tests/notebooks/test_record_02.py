"""The decision of recipe 02 follows from its tables of options and checkpoints, and changes with them."""

import re
from typing import Any

import pytest
from records import decision, table, words

GPUS, HOURS = 8, 4000


def three(text: str) -> list[float]:
    """Return point, low and high of a text such as "96 (72 to 100)"."""
    return [float(figure.replace(",", "")) for figure in re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text).groups()]


def page() -> dict[str, Any]:
    """Return what the stored page shows: options, checkpoints, the rent of a GPU hour, and the record."""
    rent = float(re.search(r"GPU hour: \$([\d.]+)", words("02", "prices"))[1])
    return {"options": table("02", "table"), "writes": table("02", "writes"), "rent": rent, "record": decision("02")}


def follows(page: dict[str, Any]) -> bool:
    """Whether hours follow from the shares, costs from hours and prices, and the choice from the costs."""
    options, record, costs = page["options"], page["record"], {}
    now = three(options.iloc[0, 0])[0]
    for name, (busy, won, price, cost) in list(options.iterrows())[1:]:
        point, low, high = three(won)
        if abs(point - GPUS * HOURS * (three(busy)[0] - now) / 100) > 400 or not low <= point <= high:
            return False
        if "recovered" in cost or "no price" in cost:
            if high > 0 and price != "none yet":
                return False
            continue
        costs[name] = three(cost)
        usd = float(price.replace(",", ""))
        if any(abs(each - usd / hours) > 0.006 for each, hours in zip(costs[name], (point, high, low), strict=True)):
            return False
        if f"{name} ${cost}" not in record["Per recovered GPU hour (80 %)"]:
            return False
    cheapest = min(costs, key=lambda name: costs[name][0])
    tied = [name for name in costs if costs[name][1] <= costs[cheapest][2] and costs[name][2] < page["rent"]]
    named = [name for name in options.index[1:] if re.search(rf"(^|or |: ){name}($| or|;)", record["Choice"])]
    lost = float(page["writes"].loc["file system, pausing", "every 30 min"])
    dated = re.search(r"20\d\d-\d\d to 20\d\d-\d\d.*drive 20\d\d-\d\d; memory 20\d\d", record["Price"])
    quoted = f"GPU hour ${page['rent']:.2f}" in record["Price"] and f"{lost:.1f} %" in record["Language model"]
    return named == tied and quoted and dated is not None


def test_the_record_follows_from_the_page():
    assert follows(page())


@pytest.mark.parametrize(
    ("cell", "row", "column", "text"),
    [
        ("options", "a local drive", 2, "12,000"),  # another price
        ("options", "a local drive", 0, "60 (50 to 70)"),  # recovers less
        ("options", "twice the memory", 3, "0.03 (0.02 to 0.04)"),  # as cheap as the drive
        ("options", "a local drive", 1, "18,872 (19,000 to 14,589)"),  # ends swapped
        ("options", "192 cores", 1, "9,000 (8,000 to 9,900)"),  # cores recover what the table of shares denies
        ("writes", "file system, pausing", 1, "4.10"),
    ],
)
def test_another_table_gives_another_record(cell, row, column, text):
    other = page()
    other[cell].iloc[other[cell].index.get_loc(row), column] = text
    assert not follows(other)


def test_a_rent_below_the_cost_gives_another_record():
    assert not follows(page() | {"rent": 0.02})
