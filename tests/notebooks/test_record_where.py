"""The verdicts of "Where this began" follow from its tables, and part from them where the tables change."""

import re

import pandas as pd
import pytest
from records import decision, table

SCALED, GRID = "cell-07", "cell-15"


def interval(text: str) -> tuple[float, float]:
    low, high = re.search(r"\(([\d.]+) to ([\d.]+)\)", text).groups()
    return float(low), float(high)


def follows(scaled: pd.DataFrame, grid: pd.DataFrame, record: dict[str, str]) -> bool:
    """Whether intervals, gains of the link and the count of GPUs say what the verdicts say."""
    speed, size = scaled.columns[3], scaled.columns[0]
    (_, high), (low, _) = interval(scaled.loc["alexnet", speed]), interval(scaled.loc["googlenet", speed])
    larger, link = (
        record["Larger models scale more easily"],
        record["A fast link matters most for the least compute-intensive"],
    )
    gains = scaled["NVLink over PCIe"].astype(float)
    most = max(gains.index, key=lambda name: gains[name])
    ten = next(gpus for gpus, side in grid["side p"].items() if side == "10")
    return (
        larger.startswith("no" if high < low else "open")
        and all(
            f"{name} with {scaled.loc[name, size]} M parameters {scaled.loc[name, speed]}" in larger
            for name in ("alexnet", "googlenet")
        )
        and float(scaled.loc["alexnet", size]) > float(scaled.loc["googlenet", size])
        and link.startswith("yes")
        and most == scaled.index[0]
        and f"{gains[most]:.1f} for {most}" in link
        and f"so {ten} GPUs; {float(grid.loc[ten, 'exact [GB/s]']):g} GB/s"
        in record["Ten GPUs on a grid need 300 GB/s"]
    )


def test_the_verdicts_follow_from_the_tables():
    assert follows(table("where", SCALED), table("where", GRID), decision("where"))


@pytest.mark.parametrize(
    ("cell", "row", "column", "text"),
    [
        (SCALED, "alexnet", 3, "4.6 (4.1 to 7.0)"),  # intervals overlap
        (SCALED, "googlenet", 0, "70.0"),
        (SCALED, "googlenet", 4, "2.9"),
        (GRID, "100", 2, "300.0"),
        (GRID, "100", 0, "9"),
    ],
)
def test_another_table_gives_another_verdict(cell, row, column, text):
    tables = {name: table("where", name) for name in (SCALED, GRID)}
    tables[cell].loc[row, tables[cell].columns[column]] = text
    if text == "9":
        tables[cell].loc["64", "side p"] = "10"
    assert not follows(*tables.values(), decision("where"))
