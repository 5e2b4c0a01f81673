"""The choices of recipe 14 follow from the table of its buyers, and part from it where the table changes."""

import re

import pandas as pd
import pytest
from records import decision, table

COST, MACHINES = "3 years [$, 80 %]", "machines (fast to slow end)"


def follows(buyers: pd.DataFrame, sizes: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether each buyer gets the stacks whose intervals overlap that of the cheapest, with its cost and machines."""
    for who, rows in buyers.groupby(level=0, sort=False):
        spans = [[float(figure.replace(",", "")) for figure in re.findall(r"[\d,]*\d", text)] for text in rows[COST]]
        order = sorted(range(len(spans)), key=lambda at: spans[at][0])
        first = order[0]
        tied = [rows["stack"].iloc[at] for at in order if spans[at][1] <= spans[first][2]]
        name, choice = rows["stack"].iloc[first], record[who]
        if len(tied) == 1:
            count = rows[MACHINES].iloc[first]
            right = choice == name + (f", machines: {count}" if "(" in count else "")
        else:
            named = choice.removeprefix("open: ").partition(";")[0].split(" or ")
            right = choice.startswith("open: ") and set(named) == set(tied)
        price = rows["priced"].iloc[first]
        if not (
            right and f"{name} ${rows[COST].iloc[first]}" in record[f"{who}: cost"] and price in record[f"{who}: cost"]
        ):
            return False
    pairs = [name for name in sizes.index if " and " in name]
    mean = next(name for name in sizes if "on average" in name)
    best = min(pairs, key=lambda name: float(sizes[mean][name]))
    return record["Two sizes"].startswith(f"{best} ×{sizes[mean][best]} on average, ×{sizes['at most'][best]} at most")


def test_the_record_follows_from_the_buyers():
    assert follows(table("14", "buyers"), table("14", "one-size"), decision("14"))


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        (1, COST, "11,408 (7,727 to 20,862)"),  # the hospital's second no longer overlaps
        (8, COST, "11,353 (5,673 to 28,798)"),  # the factory's second overlaps
        (8, MACHINES, "2 (1 to 2)"),
        (2, COST, "36,431 (35,351 to 66,827)"),  # another stack is the start-up's cheapest
        (0, "priced", "your quote"),
    ],
)
def test_another_table_gives_another_record(row, column, text):
    buyers = table("14", "buyers")
    buyers.iloc[row, buyers.columns.get_loc(column)] = text
    assert not follows(buyers, table("14", "one-size"), decision("14"))


def test_another_pair_gives_another_record():
    sizes = table("14", "one-size")
    mean = next(name for name in sizes if "on average" in name)
    sizes.loc[sizes.index[-1], mean] = "1.01"
    assert not follows(table("14", "buyers"), sizes, decision("14"))
