"""Every network of the zoo against the counts its row cites: the row may claim no more than what holds."""

from __future__ import annotations

import math

import pytest

from cookbook import catalog
from cookbook.workloads import zoo

ROWS = catalog.table("models").to_dict("records")
NAMES = [row["name"] for row in ROWS]


def blank(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def agrees(row: dict, figure: str, computed: float) -> bool | None:
    """Whether the published figure is met within its printed rounding; None where nothing is published."""
    published = row[f"published_{figure}"]
    if blank(published):
        return None
    adjustment = row[f"{figure}_adjustment"]
    rounding = row[f"{figure}_rounding"]
    total = computed + (0.0 if blank(adjustment) else adjustment)
    return abs(total - published) <= rounding * (1 + 1e-9)


def evidence(row: dict) -> str:
    """What the published figures allow the row to say of itself."""
    workload = zoo.model(row["name"])
    macs = float(workload.ops.total("macs", 1, workload.seq))
    parameters = agrees(row, "parameters", workload.ops.parameter_count)
    if parameters and agrees(row, "macs", macs):
        return "verified"
    return "parameters only" if parameters else "unverified"


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_counts_equal_the_published_figures(row: dict) -> None:
    assert evidence(row) == row["how"]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_every_figure_has_source_and_rounding(row: dict) -> None:
    for figure in ("parameters", "macs"):
        published = row[f"published_{figure}"]
        if blank(published):
            assert blank(row[f"{figure}_adjustment"]), "an adjustment needs a published figure"
            continue
        assert not blank(row[f"{figure}_source"])
        assert 0 <= row[f"{figure}_rounding"] <= 0.08 * published, (
            "too coarse a figure: leave it blank, say so in the note"
        )
        if not blank(row[f"{figure}_adjustment"]):
            assert row["note"], "an adjustment must be explained in the note"
            assert float(row[f"{figure}_adjustment"]).is_integer()
    unmet = row["how"] != "verified" and not blank(row["published_macs"])
    if row["how"] == "unverified" or unmet:
        assert row["note"], "say in the note why the row is not verified"


def test_at_least_sixty_networks_are_verified() -> None:
    assert sum(row["how"] == "verified" for row in ROWS) >= 60


def test_names_and_aliases_lead_to_one_network() -> None:
    for row in ROWS:
        aliases = [] if blank(row["aliases"]) else row["aliases"].split(";")
        for name in [row["name"], row["title"], *aliases]:
            assert catalog.lookup("models", name) == row["name"], name
