"""What to change first: purchases beside months, free before priced before unpriced, missing prices missing."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.catalog.prices import years_of_use


def match(storage, **more):
    run = {"batch": 256, "accelerators": 8, "cores": 64, "memory": "64 GB", "network": "25 Gb/s"}
    return cb.match_storage(0.05, "h100-sxm", storage, "imagenet-1k", **run, **more)


@pytest.mark.parametrize(
    "storage",
    [
        {"storage": "samsung-860-evo-1tb", "price_usd_per_tb": 79},
        "amazon-ebs-gp2-200-gib",
        "amazon-efs-bursting-1-tib",
        {"read_bandwidth": "0.1 GB/s", "read_iops": 1e4},
    ],
)
def test_free_then_by_gain_for_the_money_then_without_a_price(storage):
    frame = cb.planning.rank_changes(match(storage))
    group = frame["usd"].map(lambda usd: 2 if np.isnan(usd) else int(usd > 0))
    assert group.is_monotonic_increasing
    priced = frame[group == 1]
    assert priced["gain_per_usd"].is_monotonic_decreasing
    assert (frame["usd_per_hour"].isna() == frame["usd"].isna()).all()
    assert frame.loc[frame["usd"].isna(), "basis"].eq("no price is known").all()


def test_a_purchase_is_spread_over_its_years_and_a_month_over_its_hours():
    bought = cb.planning.rank_changes(match({"storage": "samsung-860-evo-1tb", "price_usd_per_tb": 79}))
    drive = bought[bought["change"].str.contains("drives")].iloc[0]
    assert drive["usd"] == pytest.approx(79) and drive["per"] == "purchase"
    assert drive["usd_per_hour"] == pytest.approx(79 / (years_of_use()[1] * 365.25 * 24), rel=2e-3)
    rented = cb.planning.rank_changes(match("amazon-ebs-gp2-200-gib"))
    volume = rented[rented["change"].str.contains("drives")].iloc[0]
    assert volume["per"] == "month" and np.isnan(volume["pays_after"])
    assert volume["usd"] == pytest.approx(200 * 2**30 / 1e12 * 100)
    assert volume["usd_per_hour"] == pytest.approx(volume["usd"] / 730.5, rel=2e-3)


def test_a_purchase_pays_when_the_same_training_has_cost_that_much_less():
    found = match({"storage": "samsung-860-evo-1tb", "price_usd_per_tb": 79})
    drive = cb.planning.rank_changes(found).query("change.str.contains('drives')").iloc[0]
    faster = found.samples_per_s + drive["gain"]
    cost = found.usd_per_hour / found.samples_per_s, found.usd_per_hour / faster
    saved = (cost[0] - cost[1]) * found.samples_per_s * drive["pays_after"]
    assert saved == pytest.approx(79)


def test_memory_has_a_dated_price_for_what_is_missing():
    frame = cb.planning.rank_changes(match("samsung-860-evo-1tb"))
    memory = frame[frame["change"].str.contains("memory")].iloc[0]
    prices = cb.table("tco").query("item == 'server memory'").sort_values("year")
    whole = cb.table("data_sets").set_index("key").stored_bytes["imagenet-1k"] / 0.7
    assert memory["usd"] == pytest.approx((whole - 64e9) / 1e9 * prices["value"].iloc[-1], rel=1e-6)
    assert prices["year"].iloc[-1] in memory["basis"]


def test_several_scenarios_are_refused():
    with pytest.raises(ValueError, match="2 scenarios"):
        cb.planning.rank_changes(match("samsung-860-evo-1tb", workers=[1, 2]))


def test_the_panel_ranks_alike():
    panel = cb.panels.storage(price=79, picture="changes")
    frame = cb.planning.rank_changes(eval(panel.code.splitlines()[1], {"cb": cb}))
    panel.receive({"do": "open", "what": "table"})
    assert isinstance(frame, pd.DataFrame) and frame["change"].iloc[0] in panel.answer
    assert "pays for itself in" in panel.answer
