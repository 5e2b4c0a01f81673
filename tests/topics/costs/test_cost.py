"""Prices: every range holds the rows it rests on, nothing is made up, what is missing stays missing."""

import math

import numpy as np
import pytest

import cookbook as cb
from cookbook import accelerator, catalog, planning
from cookbook.catalog import prices as cost

CLOUD, BOUGHT = catalog.table("cloud_prices"), catalog.table("hardware_prices")
STORAGE, TCO = catalog.table("storage"), catalog.table("tco")
DEVICES = list(catalog.table("accelerators")["key"])
SYSTEMS = list(catalog.table("systems")["key"])


def is_missing(price):
    return math.isnan(price.low) and math.isnan(price.median) and math.isnan(price.high)


def newest(rows):
    """Rows of the twelve calendar months that end with the newest of them, by hand: (year, month) as one number."""
    months = [12 * int(date[:4]) + int(date[5:7]) if len(date) > 4 else 0 for date in rows["date"]]
    return rows[[month > max(months) - 12 for month in months]] if any(months) else rows


@pytest.mark.parametrize("way", ["on demand", "spot"])
def test_the_range_of_every_accelerator_is_that_of_its_newest_rows(way):
    priced = 0
    for key in DEVICES:
        rows = CLOUD[CLOUD["accelerator_key"] == key]
        own = (rows["usd_per_hour"] / rows["devices"]).groupby(rows["provider"]).max()
        above = rows[cost.RENT[way]] / rows["devices"] > rows["provider"].map(own)
        rows = newest(rows[rows[cost.RENT[way]].notna() & ~above])
        each = [row[cost.RENT[way]] / row["devices"] for row in rows.to_dict("records")]
        price = cost.hourly_usd(key, way)
        assert price.rows == len(each) and price.unit == "USD/h"
        if not each:
            assert is_missing(price) and key in price.why and price.source == ()
            continue
        priced += 1
        assert (price.low, price.median, price.high) == pytest.approx(tuple(np.quantile(each, [0.25, 0.5, 0.75])))
        assert price.low <= price.median <= price.high and price.why == ""
        assert set(price.source) == set(";".join(rows["source"]).split(";"))
        assert {price.first, price.last} <= set(rows["date"])
    assert priced > 10


@pytest.mark.parametrize("key", SYSTEMS)
@pytest.mark.parametrize("way", ["on demand", "bought"])
def test_a_system_has_a_price_with_sources_or_a_reason(key, way):
    price = cost.hourly_usd(key, way)
    if price.why:
        assert is_missing(price) and price.rows == 0 and price.source == ()
    else:
        assert 0 < price.low <= price.median <= price.high
        assert price.rows > 0 and price.source and set(price.source) <= set(catalog.table("sources")["key"])


def test_an_instance_costs_what_its_row_says():
    """AWS p3.16xlarge: 24.48 USD an hour in every list, eight V100."""
    price = cost.hourly_usd("AWS p3.16xlarge")
    rows = CLOUD[(CLOUD["provider"] == "AWS") & (CLOUD["instance"] == "p3.16xlarge")]
    assert price.note == "the instance as a whole"
    assert (price.low, price.high, price.rows) == (24.48, 24.48, len(newest(rows)))


def test_a_system_that_no_cloud_lists_counts_as_its_accelerators():
    box, one = cost.hourly_usd("dgx-a100-80gb"), cost.hourly_usd("a100-sxm-80gb")
    assert (box.low, box.median, box.high) == pytest.approx((8 * one.low, 8 * one.median, 8 * one.high))
    assert box.note == "8 times the price of one a100-sxm-80gb"


def test_purchase_is_spread_over_the_years_of_use():
    """DGX-1 V100: 149,000 USD over 3 to 6 years of 365.25 x 24 = 8,766 hours: 149,000 / (6 x 8,766) = 2.833 to
    149,000 / (3 x 8,766) = 5.666 USD/h."""
    price = cost.hourly_usd("dgx-1-v100", "bought")
    assert price.low == pytest.approx(149_000 / (6 * 8766)) == pytest.approx(2.833, abs=1e-3)
    assert price.high == pytest.approx(149_000 / (3 * 8766)) == pytest.approx(5.666, abs=1e-3)
    card, rows = cost.hourly_usd("h100-sxm", "bought"), newest(BOUGHT[BOUGHT["accelerator_key"] == "h100-sxm"])
    assert card.rows == len(rows) > 3
    assert card.low == pytest.approx(rows["usd_per_device"].quantile(0.25) / (6 * 8766))
    assert card.high == pytest.approx(rows["usd_per_device"].quantile(0.75) / (3 * 8766))
    assert "boavizta-api" in card.source, "who states the years is a source as well"


def test_since_replaces_the_newest_twelve_months():
    usual, recent, every = (cost.hourly_usd("h100-sxm", since=since) for since in (None, 2026, 2000))
    assert recent.rows < usual.rows < every.rows and recent.first >= "2026" and every.first < "2024"
    assert recent.median < usual.median < every.median, "the H100 has become cheaper"
    none = cost.hourly_usd("h100-sxm", since=2099)
    assert is_missing(none) and none.why.endswith("since 2099")


def test_a_made_up_accelerator_has_no_price():
    made_up = accelerator("faster", like="h100-sxm", mem_bandwidth="4 TB/s")
    assert "nobody sells it" in cost.hourly_usd(made_up).why
    assert cost.hourly_usd(accelerator("h100-sxm")) == cost.hourly_usd("H100 SXM5")


def test_electricity_in_its_units():
    """1 kW for an hour is 1 kWh: the tariff times the losses of the building."""
    losses = TCO.loc[TCO["category"] == "pue", ["value", "value_low", "value_high"]]
    tariffs = TCO[(TCO["unit"] == "USD/kWh") & (TCO["region"] == "US") & (TCO["year"] == "2024")]
    price = cost.electricity_usd("1 kW", region="US", since=2024)
    assert price.low == pytest.approx(tariffs["value"].min() * np.nanmin(losses))
    assert cost.electricity_usd(2000.0).high == pytest.approx(2 * cost.electricity_usd("1 kW").high)
    assert cost.electricity_usd(0).high == 0
    assert "at least" in cost.electricity_usd(1000).note
    missing = cost.electricity_usd(1000, region="DE")
    assert is_missing(missing) and "DE" in missing.why


def test_storage_keeps_what_is_missing_missing():
    frame = cost.storage_usd()
    assert list(frame["key"]) == list(STORAGE["key"])
    priced, rated = STORAGE["price_usd_per_tb"].notna(), STORAGE["read_bandwidth"].notna()
    assert (frame["usd"].notna() == priced).all()
    assert (frame["usd_per_gb_s"].notna() == (priced & rated)).all()
    assert ((frame["why"] == "") == (priced & rated)).all()
    assert set(frame.loc[priced, "per"]) == {"purchase", "month"} and set(frame.loc[~priced, "per"]) == {""}
    assert (frame.loc[priced, "date"] != "").all() and (frame["source"] != "").all()


def test_storage_by_hand():
    """1 TB at 85 USD that reads 7.45 GB/s: 85 / 7.45 = 11.41 USD per GB/s; twice the size for the same rate, twice."""
    drive = "samsung-990-pro-1tb-consumer"
    one, two = (cost.storage_usd(size).set_index("key").loc[drive] for size in ("1 TB", 2e12))
    assert one["usd"] == 85 and one["usd_per_gb_s"] == pytest.approx(85 / 7.45)
    assert two["usd"] == 170 and two["usd_per_gb_s"] == pytest.approx(2 * 85 / 7.45)
    assert one["usd_per_tb"] == two["usd_per_tb"] == 85


@pytest.mark.parametrize("way", ["reserved 1 year", "reserved 3 years"])
def test_a_reservation_never_costs_more_than_going_without(way):
    """Few lists state a reservation, and those are the dearest: their share of the price on demand counts for all."""
    column, priced = cost.RENT[way], 0
    for key in DEVICES:
        rows = newest(CLOUD[(CLOUD["accelerator_key"] == key) & CLOUD[column].notna() & CLOUD["usd_per_hour"].notna()])
        price, now = cost.hourly_usd(key, way), cost.hourly_usd(key)
        if rows.empty:
            continue
        priced += 1
        share = (rows[column] / rows["usd_per_hour"]).median()
        assert price.median == pytest.approx(now.median * share) and share < 1
        assert price.low <= price.median <= price.high and price.median < now.median and price.high <= now.high
        assert "of the on-demand price" in price.note and set(now.source) <= set(price.source)
    assert priced > 10
    assert is_missing(cost.hourly_usd("k40", way))


def test_every_door_asks_the_one_reader():
    """The V100 was 2.81 USD an hour for one door and 2.55 for another."""
    for key in ("v100-sxm2-16gb", "h100-sxm", "l4"):
        price = planning.hourly_usd(key)
        assert price == cost.hourly_usd(key) == planning.hourly_usd(accelerator(key))
        row = planning.compare("resnet50", [key], phase="inference").iloc[0]
        assert row["usd_per_hour"] == price.median
    price = cost.hourly_usd("h100-sxm")
    whole = planning.where_to_run("resnet50", places=["cloud-h100"]).places["cloud-h100"].figures["price"]
    assert whole.median == pytest.approx(8 * price.median)
    assert whole.low < 8 * price.low < 8 * price.high < whole.high, "a tenth of the list prices, not a quarter"


def test_a_price_is_read_only_and_prints_short():
    price = cost.hourly_usd("h100-sxm")
    with pytest.raises(AttributeError):
        price.low = 0
    assert repr(price).startswith("<Price: $2.99/h ($2.29 to $4.41), 20 rows, 2025-11 to 2026-05-24>")
    assert price.to_dict()["median"] == 2.99 and price.frame()["unit"].tolist() == ["USD/h"]
    assert "<table" in price._repr_html_() and "2.99" in price._repr_html_()
    assert "nobody sells it" in repr(cost.hourly_usd(accelerator(like="h100-sxm", tdp_watts=300)))


def test_errors_teach():
    with pytest.raises(ValueError, match="way = 'lease' is not a choice; take one of on demand"):
        cost.hourly_usd("h100-sxm", "lease")
    with pytest.raises(catalog.UnknownName, match="nearest names: h100-sxm"):
        cost.hourly_usd("h100-sxmm")
    with pytest.raises(ValueError, match="capacity = 0"):
        cost.storage_usd(0)
    with pytest.raises(ValueError, match="wrong unit"):
        cost.storage_usd("1 GB/s")
    with pytest.raises(ValueError, match="watts = -1"):
        cost.electricity_usd(-1)


def test_a_price_as_text_is_that_of_the_number() -> None:
    """Seconds and hours: `cb.si` gives dollars a second, prices are dollars an hour."""
    step = cb.train_step("gpt2_medium", "h100-sxm", devices=1, batch=1, global_batch=8)
    costs = [
        cb.planning.run_cost(step, "h100-sxm", samples_per_step=8, samples=1e5, price=price).usd_median.iloc[0]
        for price in (2.5, "$2.50/h", "2.5 USD/h")
    ]
    tunings = [
        cb.finetune("llama3_8b", "h100-sxm", tokens=2e7, hourly=price).table.usd.iloc[0] for price in (2.5, "$2.50/h")
    ]
    assert costs == pytest.approx([costs[0]] * 3) and tunings == pytest.approx([tunings[0]] * 2)
    for price in ("$2.50", "2.5 W", "cheap"):
        with pytest.raises(ValueError, match=r"price = .*such as '\$2.50/h'"):
            cb.planning.run_cost(step, "h100-sxm", samples_per_step=8, samples=1e5, price=price)


def test_spot_prices_of_machines_are_of_offers_of_as_many_devices():
    """Of H100 three rows offer eight at once, at more than one alone asks; of A100 too few do, so all count."""
    rows = CLOUD.query("accelerator_key == 'h100-sxm' and devices == 8 and usd_per_hour_spot > 0")
    each = rows[rows["date"].str.startswith("2025-11")]["usd_per_hour_spot"] / 8
    alone, eight = (cost.hourly_usd("h100-sxm", "spot", together=count) for count in (1, 8))
    assert eight.median == pytest.approx(each.median()) and eight.rows == len(each) == 3
    assert alone.median < eight.low and alone.rows > eight.rows
    a100 = [cost.hourly_usd("a100-sxm-80gb", "spot", together=count).rows for count in (1, 8)]
    assert a100[0] == a100[1] > 3
    assert cost.hourly_usd("h100-sxm", together=8).median == cost.hourly_usd("h100-sxm").median


def test_a_spot_offer_above_the_providers_own_price_on_demand_does_not_count():
    prices = CLOUD
    offer = prices[prices["instance"] == "runpod-h100-sxm-spot"].iloc[0]
    own = prices.query("provider == 'Runpod' and accelerator_key == 'h100-sxm'")["usd_per_hour"].max()
    assert offer["usd_per_hour_spot"] > own > cost.hourly_usd("h100-sxm", "spot").high
