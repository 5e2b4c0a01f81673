"""The decision of recipe 09 follows from the table of its offers, and parts from it where the table changes."""

import re

import pandas as pd
import pytest
from records import decision, table

ODDS, CHEQUE, ALONE, PRICED = "cheapest in [% of samples]", "to pay at once [$]", "alone [$]", "priced by"


def follows(offers: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the choice is every offer whose interval overlaps that of the cheapest, and each figure is repeated."""
    column = next(name for name in offers if "80 %" in name)
    cost = {}
    for name, text in offers[column].items():
        if figures := re.fullmatch(r"([\d,]+) \(([\d,]+) to ([\d,]+)\)", text):
            cost[name] = [float(figure.replace(",", "")) for figure in figures.groups()]
    first = min(cost, key=lambda name: cost[name][0])
    tied = {name for name, (_, low, _) in cost.items() if low <= cost[first][2]}
    named = {name for name in offers.index if name in record["Choice"].partition(";")[0]}
    length = column.partition(" [")[0]
    quoted = all(
        f"{name} ${offers[column][name]}" in record[f"Cost over {length} (80 %)"]
        and f"{name} {offers[ODDS][name]} %" in record["Cheapest in"]
        and f"{name} ${offers[CHEQUE][name]}" in record["To pay at once"]
        and f"{name} ${offers[ALONE][name]}" in record["If nobody shares"]
        and f"{name} {offers[PRICED][name]}" in record["Price"]
        for name in cost
    )
    rents = [name for name in cost if "per hour" in offers[PRICED][name]]
    share = re.match(r"(\d+) % of hours \(([\w-]+) against ([\w-]+)\)", record["Owning pays above"])
    use = float(re.search(r"of (\d+) %", record["Hours that others must fill"])[1])
    bought = min((name for name in cost if name not in rents), key=lambda name: cost[name][0])
    above = use * cost[bought][0] / cost[rents[0]][0]
    even = (share[2], share[3]) == (bought, rents[0]) and abs(float(share[1]) - above) < 1
    return named == tied and (len(tied) > 1) == record["Choice"].startswith("open") and quoted and even


def test_the_record_follows_from_the_offers():
    assert follows(table("09", "choices"), decision("09"))


@pytest.mark.parametrize(
    ("offer", "column", "text"),
    [
        ("cloud-h100", 0, "8,863 (9,998 to 13,218)"),  # no longer tied
        ("on-premises-h100", 0, "2,679 (1,793 to 3,542)"),  # clearly the cheapest
        ("workstation-6", 0, "not feasible: too late"),
        ("on-premises-h100", CHEQUE, "7,817"),  # only the share of the cheque that the task takes
        ("cloud-h100", PRICED, "$2.20 per hour, your own price"),
        ("cloud-h100", 0, "6,863 (6,198 to 13,218)"),  # another rent moves the break-even
    ],
)
def test_another_table_gives_another_record(offer, column, text):
    offers = table("09", "choices")
    offers.loc[offer, offers.columns[column] if column == 0 else column] = text
    assert not follows(offers, decision("09"))
