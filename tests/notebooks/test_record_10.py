"""The order of recipe 10 follows from its table of offers, and parts from it where the table changes."""

import re

import pandas as pd
import pytest
from records import decision, table

HOUR, COUNT, PRICED = "service at the slow end [$ per hour]", "GPUs (slow end)", "priced by"


def costs(offers: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Dollars of each offer, low and high ends included; a single price is its own range."""
    found = {}
    for name, text in offers[HOUR].items():
        ends = [float(figure) for figure in re.findall(r"[\d.]+", text)]
        if ends:
            found[name] = (ends[0], *(ends[1:] or ends * 2))
    return found


def follows(offers: pd.DataFrame, apis: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether the choice is every offer that the best known price does not beat, in GPUs of the slow end."""
    usd, numbers = costs(offers), {}
    for name in usd:
        point, slow = map(int, re.fullmatch(r"(\d+) \((\d+)\)", offers[COUNT][name]).groups())
        numbers[name] = slow
        rate = float(offers["price [$ per hour]"][name])
        if slow < point or usd[name][0] != pytest.approx(slow * rate, rel=5e-3):
            return False
    known = [name for name in usd if not offers[PRICED][name].startswith("1 list price,")]
    most = usd[min(known, key=lambda name: usd[name][0])][2]
    tied = {f"{numbers[name]} × {name}" for name, (_, low, _) in usd.items() if low <= most}
    named = set(re.findall(r"\d+ × [\w.-]+", record["Choice"]))
    said = dict(re.findall(r"(\w+) \$([\d.]+) per hour", record["Or an API"]))
    hosted = {name: float(usd) for name, usd in said.items()} == pytest.approx(
        {name: float(usd) for name, usd in apis["API [$ per hour]"].items()}, abs=0.051
    )
    quoted = all(
        f"{numbers[name]} × {name} ${offers[HOUR][name]}" in record["Dollars per hour (quartiles)"] for name in usd
    )
    return named == tied and (len(tied) == 1) != record["Choice"].startswith("open:") and quoted and hosted


def test_the_record_follows_from_the_offers():
    assert follows(table("10", "offers"), table("10", "apis"), decision("10"))


@pytest.mark.parametrize(
    ("offer", "column", "text"),
    [
        ("h200-sxm", HOUR, "24.50 (35.52 to 40.73)"),  # no longer tied
        ("l40s", HOUR, "41.18 (30.20 to 68.62)"),  # tied
        ("h100-sxm", COUNT, "5 (5)"),  # bought for the median
        ("mi300x", "price [$ per hour]", "3.99"),  # a price that the dollars do not follow
        ("h100-sxm", HOUR, "23.92 (18.28 to 20.00)"),  # a firm price rules others out
    ],
)
def test_another_table_gives_another_record(offer, column, text):
    offers = table("10", "offers")
    offers.loc[offer, column] = text
    assert not follows(offers, table("10", "apis"), decision("10"))


def test_another_price_of_an_api_gives_another_record():
    apis = table("10", "apis")
    apis.loc["Groq", "API [$ per hour]"] = "12.0"
    assert not follows(table("10", "offers"), apis, decision("10"))


def test_the_number_of_the_record_keeps_the_limit_at_the_slow_end():
    """The interval beside the choice ends below the limit, and that of the median number above it."""
    spans = re.findall(r"(\d+) × h100-sxm (\d+) ms \((\d+) to (\d+)\)", decision("10")["Median TPOT (80 %)"])
    few, enough = ([int(figure) for figure in span] for span in spans)
    limit = int(re.search(r"TPOT (\d+) ms", decision("10")["Stack"])[1])
    assert few[0] < enough[0] and enough[3] < limit < few[3]
