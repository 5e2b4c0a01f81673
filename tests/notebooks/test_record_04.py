"""The decision of recipe 04 follows from the table of its offers, and parts from it where the table changes."""

import re

import pandas as pd
import pytest
from records import decision, table


def follows(offers: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the choice is every offer whose interval overlaps that of the cheapest, and each figure is repeated."""
    column = next(name for name in offers if "per million" in name)
    costs = {}
    for name, text in offers[column].items():
        if figures := re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text):
            costs[name] = [float(figure) for figure in figures.groups()]
    cheapest = min(costs, key=lambda name: costs[name][0])
    tied = {name for name, (_, low, _) in costs.items() if low <= costs[cheapest][2]}
    named = {name for name in offers.index if name in record["Choice"]}
    quoted = all(
        f"{name} ${usd:.2f} ({low:.2f} to {high:.2f})" in record["Per million tokens (80 %)"]
        for name, (usd, low, high) in costs.items()
    )
    missing = set(offers.index) - set(costs)
    return named == tied and quoted and all(name in record["Without a price"] for name in missing)


def test_the_record_follows_from_the_offers():
    assert follows(table("04", "offers"), decision("04"))


@pytest.mark.parametrize(
    "mutation",
    [
        {"h200-sxm": "0.10 (0.09 to 0.11)"},  # no longer tied
        {"a100-sxm-80gb": "0.29 (0.40 to 0.45)"},
        {"gaudi3": "0.25 (0.18 to 0.36)"},  # a quote came
        {"h200-sxm": "0.36 (0.18 to 0.25)"},  # point and end swapped
    ],
)
def test_another_table_gives_another_record(mutation):
    offers = table("04", "offers")
    column = next(name for name in offers if "per million" in name)
    for name, text in mutation.items():
        offers.loc[name, column] = text
    assert not follows(offers, decision("04"))
