"""The decision of recipe 13 follows from its table of options, and parts from it where the table changes."""

import re
from contextlib import suppress

import pandas as pd
import pytest
from records import decision, table

WAIT, MORE = "mean wait [h], 80 % of weeks", "more per week [$]"


def follows(options: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the choice is the cheapest that keeps the accepted wait in 9 of 10 weeks, and of those the quickest."""
    accepted = float(re.search(r"of ([\d.]+) h in 9 of 10 weeks", record["Accepted"])[1])
    waits = {
        name: [float(figure) for figure in re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups()]
        for name, text in options[WAIT].items()
    }
    usd = {name: float(text.replace(",", "")) for name, text in options[MORE].items()}
    able = [name for name, (_, _, most) in waits.items() if most <= accepted]
    if not able:
        return record["Choice"].startswith("none keeps")
    first = min(able, key=lambda name: (usd[name], waits[name][0]))
    rivals = [name for name in able if usd[name] == usd[first] and name != first]
    ratios = re.findall(r"(\w+) × [\d.]+ \(([\d.]+) to", record[f"Wait over that of {first}"]) if rivals else []
    compared = {name.partition(",")[0] for name in rivals}
    tied = {first} | {name for name in rivals if float(dict(ratios)[name.partition(",")[0]]) <= 1}
    named = set(re.findall(r"\w+, \d+ nodes", record["Choice"]))
    costs = {name: text for name, text in options[MORE].items() if name in record["Mean wait (80 % of weeks)"]}
    quoted = (
        f"${max(costs.values(), key=lambda text: float(text.replace(',', '')))} more"
        in record["Twice the GPUs instead"]
    )
    repeated = all(f"{name} {options[WAIT][name]} h" in record["Mean wait (80 % of weeks)"] for name in (*tied, *costs))
    return named == tied and set(dict(ratios)) == compared and quoted and repeated


def test_the_record_follows_from_the_options():
    assert follows(table("13", "live"), decision("13"))


@pytest.mark.parametrize(
    ("option", "column", "text"),
    [
        ("fair, 8 nodes", WAIT, "1.2 (0.3 to 8.9)"),  # misses the accepted wait
        ("fair, 8 nodes", MORE, "9,000"),  # no longer free
        ("static, 8 nodes", WAIT, "0.2 (0.1 to 0.3)"),  # nothing need change
        ("static, 16 nodes", MORE, "12,020"),  # another price of GPUs
        ("static, 16 nodes", WAIT, "0.4 (0.1 to 0.9)"),  # more GPUs wait less
    ],
)
def test_another_table_gives_another_record(option, column, text):
    options = table("13", "live")
    options.loc[option, column] = text
    with suppress(KeyError):  # the record compares with another option
        assert not follows(options, decision("13"))
