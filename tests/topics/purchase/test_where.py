"""Ownership, energy, the cost of a run and where to run it: identities, orders; what is missing stays missing."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cookbook as cb
from cookbook import catalog
from cookbook.catalog import prices
from cookbook.catalog.prices import Price
from cookbook.topics.costs import cost
from cookbook.topics.purchase import places
from cookbook.topics.purchase.where import break_even, cumulative

POSITIVE = st.floats(0.1, 1e6)
DEVICES = [
    "k40",
    "k80-board",
    "p100-sxm2-16gb",
    "v100-sxm2-16gb",
    "tpu-v2",
    "xeon-phi-7120p",
    "rtx-4090",
    "a100-sxm-80gb",
    "h100-sxm",
    "mi300x",
]


@pytest.fixture(scope="module")
def found():
    return cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4)


@given(POSITIVE, st.floats(0.5, 20), st.floats(0, 0.3))
def test_an_annuity_pays_for_the_price_and_no_less(price, years, rate):
    yearly = cost.annuity_usd(price, years, rate)
    assert yearly * years >= price * (1 - 1e-9)
    months = np.arange(1, round(12 * years) + 1)
    if abs(12 * years - len(months)) < 1e-9:
        assert (yearly / 12 / (1 + rate / 12) ** months).sum() == pytest.approx(price)


def test_owning_is_the_same_for_arrays_and_numbers():
    prices, lives = np.array([1e5, 3e5]), np.array([3.0, 5.0])
    both = cost.ownership_usd(prices, 3, life_years=lives, money_rate=0.05, watts=5e3, usd_per_kwh=0.1, pue=1.5)
    each = [
        cost.ownership_usd(p, 3, life_years=n, money_rate=0.05, watts=5e3, usd_per_kwh=0.1, pue=1.5).total
        for p, n in zip(prices, lives, strict=True)
    ]
    np.testing.assert_allclose(both.total, each)
    assert both.parts["cooling"] == pytest.approx(0.5 * both.parts["electricity"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"money_rate": 5}, r"0 to 1$"),
    ],
)
def test_figures_that_cannot_be_are_named(change, words):
    values = {"hardware_usd": 1e5, "horizon_years": 3, "life_years": 5} | change
    with pytest.raises(ValueError, match=words):
        cost.ownership_usd(**values)


def test_what_is_not_known_stays_unknown():
    assert math.isnan(cost.ownership_usd(math.nan, 3, life_years=5).total)
    assert math.isnan(cost.break_even_hours(1e5, math.nan, 20))
    assert cost.break_even_hours(1e5, 20, 20) == math.inf


@given(st.floats(0, 1), st.floats(0, 1))
def test_power_grows_with_activity_between_idle_and_full(one, other):
    low, high = sorted((one, other))
    watts = cost.power_watts(1e4, np.array([0, low, high, 1]), 0.2, 0.8)
    assert (np.diff(watts) >= 0).all() and watts[0] == pytest.approx(2e3) and watts[-1] == pytest.approx(8e3)


def test_energy_is_not_rated_power_times_time_and_says_that_it_is_unvalidated():
    step = cb.train_step("resnet50", "a100-sxm-80gb", batch=64)
    used, rated = cost.step_kwh(step, "a100-sxm-80gb"), cost.machine_power("a100-sxm-80gb").rated
    assert used.median < rated.median * step.point / cost.JOULES_PER_KWH
    assert "unvalidated" in used.note and used.source


def test_carbon_intensities_are_those_of_grids():
    rows = catalog.table("tco").query("category == 'carbon_intensity'")
    assert rows["value"].between(0, 1500).all()
    assert prices.carbon("Finland Central").median == 77 and prices.carbon("Germany West Central").median == 402


def test_regions_and_currencies():
    germany, euros = prices.tariff("de"), prices.tariff("de", "EUR")
    assert euros.median == pytest.approx(0.233) and germany.median == pytest.approx(0.233 * 1.08)
    assert math.isnan(prices.tariff("Norway").median) and "Norway" in prices.tariff("Norway").why
    assert math.isnan(prices.carbon("eu").median) and prices.carbon("eu").why
    with pytest.raises(ValueError, match="'XYZ' has no exchange rate"):
        prices.tariff("us", "XYZ")
    with pytest.raises(KeyError, match="no region called 'Atlantis'; nearest names"):
        prices.tariff("Atlantis")


@pytest.mark.parametrize("device", DEVICES)
def test_an_epoch_of_the_founding_example_on_ten_devices(device):
    """14 million images of ResNet-152: low below high, or missing with a reason."""
    step = cb.train_step("resnet152", device, batch=32)
    for way in ("on demand", "bought"):
        bill = cb.planning.run_cost(step, device, samples_per_step=32, samples=14e6, way=way).set_index("span")
        epoch, one = bill.loc["epoch"], bill.loc["step"]
        assert epoch["seconds_median"] == pytest.approx(14e6 / 32 * step.point)
        assert 0 < epoch["kwh_low"] < epoch["kwh_median"] < epoch["kwh_high"]
        assert 0 < epoch["kgco2e_low"] < epoch["kgco2e_high"]
        if math.isnan(epoch["usd_median"]):
            assert device in epoch["why"] and math.isnan(epoch["usd_low"]) and math.isnan(epoch["usd_high"])
        else:
            assert 0 < epoch["usd_low"] <= epoch["usd_median"] <= epoch["usd_high"] and epoch["priced"][:2] == "20"
            assert epoch["usd_median"] == pytest.approx(14e6 / 32 * one["usd_median"])


def test_many_scenarios_are_billed_at_once():
    steps = cb.train_step("resnet50", "h100-sxm", batch=[32, 64])
    bill = cb.planning.run_cost(steps, "h100-sxm", samples_per_step=[32, 64], samples=1e6, epochs=2)
    alone = cb.train_step("resnet50", "h100-sxm", batch=64)
    one = cb.planning.run_cost(alone, "h100-sxm", samples_per_step=64, samples=1e6, epochs=2)
    both = bill[(bill["span"] == "run") & (bill["scenario"] == 1)].iloc[0]
    assert both["usd_high"] == pytest.approx(one[one["span"] == "run"]["usd_high"].iloc[0])
    with pytest.raises(ValueError, match="samples = 0 is outside its range"):
        cb.planning.run_cost(alone, "h100-sxm", samples_per_step=64, samples=0)


def test_every_place_is_there_with_a_cost_or_a_reason(found):
    frame = found.frame()
    assert list(frame.index) == places.place_keys()
    known = frame[frame["usd"].notna()]
    assert (known["usd_low"] <= known["usd"]).all() and (known["usd"] <= known["usd_high"]).all()
    assert (known["priced"] != "").all()
    assert (frame.loc[frame["usd"].isna(), "why"] != "").all() and (frame["why"] == "").equals(frame["will_do"])
    assert found.best == frame[frame["will_do"]]["usd"].idxmin()
    assert sum(found.odds.values()) == pytest.approx(1)


def test_a_summary_calls_no_place_the_cheapest_where_another_often_is():
    """As the panel: the first of several whose intervals overlap; alone, there is no other."""
    several, alone = (
        cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, places=places)
        for places in (None, ["cloud-h100"])
    )
    assert several.odds[several.best] < 0.8
    assert several.summary().endswith(" feasible options, but not clearly")
    assert ", leads " in several.summary()
    assert alone.summary().endswith(" over 3 years, is the only feasible option")


def test_odds_do_not_make_a_cheapest_where_intervals_overlap():
    """One rule of comparison for records and panels: the interval must not overlap any other's."""
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", epochs=3, runs=8, years=2, seq=2048)
    able = found.frame().query("will_do").sort_values("usd", kind="stable")
    assert found.odds[found.best] > 0.8 and able["usd_low"].iloc[1:].min() < able["usd_high"].iloc[0]
    assert found.summary().endswith(", but not clearly")
    apart = cb.planning.where_to_run(
        "llama3.2_3b", "ultrachat-200k", epochs=3, runs=8, seq=2048, places=["spot-h100", "on-premises-h100"]
    )
    assert apart.summary().endswith(", is the cheapest of 2 feasible options")


def test_hours_are_those_of_the_prediction(found):
    batch = found.places["cloud-h100"].batch
    step = cb.train_step("resnet152", "h100-sxm", devices=8, batch=batch)
    hours = found.points["cloud-h100"]["hours"][0]
    assert hours == pytest.approx(14197122 * 30 / (batch * 8) * step.point / 3600)
    assert found.points["spot-h100"]["hours"][0] > hours


def test_shared_figures_vary_together(found):
    """Two ways to pay for the same machines differ by price alone, draw by draw."""
    np.testing.assert_array_equal(found.outcomes["cloud-h100"]["hours"], found.outcomes["reserved-h100"]["hours"])
    one, other = (places.drawn(found.places[key]) for key in ("on-premises-h100", "colocated-h100"))
    np.testing.assert_array_equal(one["tariff"], other["tariff"])


def test_a_range_is_the_middle_eighty_per_cent():
    values = places.spread(Price(1.0, 3.0, 20.0, "USD"), np.random.default_rng(1).standard_normal(100_000))
    assert np.mean((values >= 1) & (values <= 20)) == pytest.approx(0.8, abs=0.01)
    assert np.median(values) == pytest.approx(3, rel=0.02)


def rented(key, way, together=1):
    """Rows of list prices of the newest twelve months, per hour of a device, read from the raw file; by hand."""
    rows = pd.read_csv(catalog.data_directory() / "cloud_prices.csv", keep_default_na=True)
    rows = rows[rows["accelerator_key"] == key]
    column, usual = prices.RENT[way], rows["usd_per_hour"] / rows["devices"]
    if way == "spot":
        dearest = rows["provider"].map(usual.groupby(rows["provider"]).max())
        rows = rows[~(rows[column] / rows["devices"] > dearest) & (rows["devices"] >= together)]
    rows = rows[rows[column].notna()]
    month = pd.to_datetime(rows["date"].str[:7])
    return (rows[column] / rows["devices"])[month > month.max() - pd.DateOffset(months=12)]


@pytest.mark.parametrize(
    ("key", "device", "way", "together"),
    [
        ("cloud-h100", "h100-sxm", "on demand", 1),
        ("cloud-a100", "a100-sxm-80gb", "on demand", 1),
        ("spot-h100", "h100-sxm", "spot", 8),
    ],
)
def test_drawn_rent_is_from_the_tenth_to_the_ninetieth_percentile_of_list_prices(found, key, device, way, together):
    """The rows of the raw file have these percentiles; quartiles, as prices are shown elsewhere, lie between them."""
    place, listed = found.places[key], rented(device, way, together)
    assert len(listed) == place.figures["price"].rows > 2
    drawn = places.drawn(place, 100_000)["price"] / place.devices
    wanted = np.quantile(listed, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.percentile(drawn, [10, 50, 90]), wanted, rtol=0.02)
    quartiles = prices.hourly_usd(device, way, None, together)
    assert wanted[0] < quartiles.low < quartiles.high < wanted[2]
    within = np.mean((drawn > quartiles.low) & (drawn < quartiles.high))
    assert within < 0.7, "quartiles of list prices are not taken as the ends of the middle 80 %"


WAYS = [*prices.RENT, prices.BOUGHT]


@pytest.mark.parametrize(
    ("way", "table", "column"),
    [("on demand", "cloud_prices", "usd_per_hour"), (prices.BOUGHT, "hardware_prices", "usd_per_device")],
)
def test_deciles_are_the_10th_and_90th_percentile_of_the_listed_rows(way, table, column):
    """Another way: the rows between the dates that a price tells, straight from the table."""
    listed, several = catalog.table(table), 0
    for key in catalog.table("accelerators")["key"]:
        price = (prices.bought_usd if way == prices.BOUGHT else prices.hourly_usd)(key, ends="deciles")
        rows = listed[(listed["accelerator_key"] == key) & listed[column].notna()]
        rows = rows[(rows["date"] >= price.first) & (rows["date"] <= price.last)]
        if price.rows > 1 and len(rows) == price.rows:
            usd = rows[column] / (1 if way == prices.BOUGHT else rows["devices"])
            np.testing.assert_allclose((price.low, price.median, price.high), np.quantile(usd, (0.1, 0.5, 0.9)))
            several += 1
    assert several >= 3


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.all) if way.startswith("reserved") else way for way in WAYS]
)
def test_deciles_are_of_the_rows_whose_quartiles_are_shown(way):
    """For each accelerator and system: the same rows and median, and ends that are no nearer."""
    wider = 0
    for key in [*catalog.table("accelerators")["key"], *catalog.table("systems")["key"]]:
        for since in (None, 2025):
            price = prices.bought_usd(key, since) if way == prices.BOUGHT else prices.hourly_usd(key, way, since, 8)
            listed = places.list_price(key, way, since, 8)
            np.testing.assert_equal((listed.median, listed.why, listed.rows), (price.median, price.why, price.rows))
            if price.rows > 1 and not price.why:
                assert listed.low <= price.low and price.high <= listed.high, key
                wider += listed.high > price.high
    assert wider


def test_a_server_without_a_price_has_the_percentiles_of_its_accelerators(found):
    one, whole = (places.list_price(name, prices.BOUGHT) for name in ("h100-sxm", "dgx-h100"))
    assert whole.rows == one.rows == 5 and (whole.low, whole.high) == pytest.approx((8 * one.low, 8 * one.high))
    assert found.places["on-premises-h100"].figures["price"].high == pytest.approx(whole.high)
    single = places.list_price("tinybox-green", prices.BOUGHT)
    low, high = places.usual_spread(True)
    assert (single.low, single.high) == pytest.approx((25000 * low, 25000 * high)) and "single price" in single.note


def test_privacy_is_a_hard_filter():
    rules = {rule: cb.planning.where_to_run("resnet50", epochs=90, private=rule).frame() for rule in places.PRIVACY}
    houses = rules["in house"]
    assert set(houses[houses["will_do"]]["kind"]) <= {"laptop", "workstation", "on premises"}
    assert "colocated-h100" in rules["own machines"][rules["own machines"]["will_do"]].index
    assert not rules["own machines"][rules["own machines"]["kind"].isin(["cloud", "cluster", "API"])]["will_do"].any()


def test_the_part_that_a_laptop_gets_through_is_deadline_over_time(found):
    row = found.frame().loc["laptop"]
    assert row["why"].startswith("too late") and row["part"] == pytest.approx(7 * 24 / row["hours"], rel=1e-6)
    assert row["part_low"] < row["part"] < row["part_high"]


def test_uploading_counts_toward_the_deadline():
    slow = cb.planning.where_to_run("resnet50", "imagenet-21k", uplink="10 Mb/s", deadline="7 d")
    row = slow.frame().loc["cloud-h100"]
    assert row["upload_hours"] == pytest.approx(1.31e12 * 8 / 10e6 / 3600) and "upload" in row["why"]
    assert slow.frame().loc["on-premises-h100", "upload_hours"] == 0


def test_a_region_without_a_tariff_has_no_cost_of_owning_unless_given():
    here = cb.planning.where_to_run("resnet50", region="no").frame().loc["workstation"]
    assert math.isnan(here["usd"]) and "Norway" in here["why"]
    given = cb.planning.where_to_run("resnet50", region="no", prices={"electricity": 0.1})
    assert given.frame().loc["workstation", "usd"] > 0


def test_a_service_is_priced_by_tokens_and_promises_no_deadline():
    model = cb.planning.where_to_run("gpt2", "c4-en-tokens", samples=1e5, runs=1, years=1, places=["api", "laptop"])
    row, price = model.frame().loc["api"], prices.stated("api_price", items="up to 16 billion")
    assert model.points["api"]["parts"]["rent"][0] == pytest.approx(12 * 1e5 * 1024 / 1e6 * price.median)
    assert math.isnan(row["hours"]) and not row["will_do"]
    assert "language models only" in cb.planning.where_to_run("vgg16", places=["api"]).frame().loc["api", "why"]


def test_owners_buy_as_many_as_keep_up():
    often = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=40, deadline="90 d")
    drawn = often.outcomes["workstation"]
    assert (drawn["units"] >= drawn["use"]).all() and (drawn["units"] < drawn["use"] + 1).all()
    assert often.frame().loc["workstation", "units"] > 1


def test_the_tornado_moves_one_figure_at_a_time(found):
    table = found.tornado("on-premises-h100").set_index("figure")
    centre = sum(float(part[0]) for part in found.points["on-premises-h100"]["parts"].values())
    assert (table[["usd_low", "usd_high"]].min(axis=1) <= centre * (1 + 1e-9)).all()
    assert (table[["usd_low", "usd_high"]].max(axis=1) >= centre * (1 - 1e-9)).all()
    assert table["swing"].is_monotonic_decreasing
    assert set(table.index) >= {"price", "life", "staff", "tariff"} and "carbon" not in table.index
    with pytest.raises(ValueError, match="has no cost here"):
        found.tornado("api")


def test_beyond_break_even_owning_is_cheaper(found):
    even = break_even(found, "on-premises-h100", "cloud-h100")
    assert even.runs[0] < even.runs[1] < even.runs[2]
    for runs, low, high in ((even.runs[0], 0.05, 0.15), (even.runs[1], 0.45, 0.55)):
        at = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=runs)
        assert low < np.mean(at.usd("on-premises-h100") < at.usd("cloud-h100")) < high
    with pytest.raises(ValueError, match="no own machine is feasible"):
        break_even(cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=300, deadline="1 h"))


def test_no_loser_is_named_whose_share_of_hours_may_still_be_within_them():
    """Of an interval that begins below all hours, the panel says where owning costs less at its low end."""
    task = dict(runs=8, years=2, epochs=3, seq=2048)
    panel = cb.panels.where_to_run("llama3.2_3b", "ultrachat-200k", **task)
    whole = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", deadline="7 d", **task)
    low, middle, high = break_even(whole, "workstation-6", "spot-h100").use
    assert low < 1 < middle < high
    assert (
        "by the medians, Workstation, 6 × RTX 4090 costs more than Cloud, 8 × H100, spot even when always in use; at "
        f"the low end of the 80 % interval, it costs less above a utilisation of {100 * low:.0f} %." in panel.answer
    )


def test_the_share_of_hours_above_which_owning_pays_has_its_interval():
    """Where the reader gives a utilisation, the share to compare it with is an estimate, too."""
    panel = cb.panels.where_to_run(utilisation=10)
    own, rent = panel.answer.partition("Own or rent: ")[2].partition(" above ")[0].split(" costs less than ")
    rows = catalog.table("places").set_index("name")["key"]
    whole = cb.planning.where_to_run("resnet152", "imagenet-21k", runs=4, deadline="7 d", years=3, utilisation=0.1)
    low, middle, high = (100 * use for use in break_even(whole, rows[own], rows[rent]).use)
    assert f"above a utilisation of {middle:.0f} % (80 %: {low:.0f} % to {high:.0f} %)." in panel.answer


def test_why_there_is_nothing_to_compare_is_said():
    with pytest.raises(ValueError, match=r"no own machine is feasible \(.* no electricity price"):
        break_even(cb.planning.where_to_run("resnet50", region="pl"))


def test_a_language_model_reads_no_images():
    with pytest.raises(ValueError, match="contains image samples, but gpt2 reads text"):
        cb.planning.where_to_run("gpt2", "imagenet-21k", places=["laptop"])
    assert cb.planning.where_to_run("gpt2", "imagenet-21k", samples=10, places=["laptop"]).places


def test_cash_starts_with_the_purchase_and_ends_with_the_rent(found):
    paid = cumulative(found, ["on-premises-h100", "cloud-h100"]).set_index(["place", "month"])["usd"]
    assert paid["cloud-h100", 0.0] == 0 and paid["on-premises-h100", 0.0] > 2e5
    assert paid["cloud-h100", 36.0] == pytest.approx(np.median(found.usd("cloud-h100")))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"places": ["moon"]}, "no place called 'moon'"),
        ({"prices": {"laptop": -1}}, "prices = -1 is outside"),
        ({"prices": {"moon": 1}}, "'moon'"),
        ({"region": "xx"}, "no region"),
        ({"data": "imagenet"}, "nearest"),
        ({"deadline": "7 W"}, "W"),
        ({"years": "3"}, "years = '3'"),
        ({"prices": {"laptop": "1"}}, "prices = '1' is not a number"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(change, words):
    with pytest.raises((ValueError, KeyError)) as problem:
        cb.planning.where_to_run("resnet50", **change)
    assert words in str(problem.value)


def test_each_place_takes_the_fastest_batch_that_it_holds(found):
    for key in ("laptop", "workstation-6", "cloud-h100"):
        place, row = found.places[key], dict(places.place_row(key))
        sizes = list(places.BATCHES)
        steps = cb.train_step("resnet152", row["device"], devices=place.devices, batch=sizes)
        need = cb.requirements("resnet152", batch=sizes, accelerators=[row["device"]]).devices
        rates = np.where(need["fits"], np.array(sizes) / steps.point, 0)
        assert place.batch == sizes[int(np.argmax(rates))] == found.frame().loc[key, "batch"]
    fixed = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, batch=32)
    assert set(fixed.frame()["batch"]) == {0, 32}
    assert fixed.frame().loc["workstation-6", "batch"] == 32
    assert fixed.frame().loc["workstation-6", "usd"] > found.frame().loc["workstation-6", "usd"]


def test_a_network_that_nobody_holds_says_so():
    frame = cb.planning.where_to_run("gpt3_175b", "c4-en-tokens", places=["workstation"]).frame()
    assert frame.loc["workstation", "why"] == "does not fit in memory with 1 sample on each accelerator"


def test_a_reservation_is_cheaper_by_the_hour_than_going_without(found):
    price = found.frame()["price"]
    assert price["reserved-h100-3y"] < price["reserved-h100"] < price["cloud-h100"]


def test_at_a_given_utilisation_the_task_pays_for_its_share(found):
    half = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, utilisation=0.5)
    key = "on-premises-h100"
    paid = np.minimum(found.outcomes[key]["use"] / found.outcomes[key]["units"] / 0.5, 1) * found.outcomes[key]["units"]
    np.testing.assert_allclose(half.outcomes[key]["paid"], paid)
    ratio = half.outcomes[key]["parts"]["staff"] / found.outcomes[key]["parts"]["staff"]
    np.testing.assert_allclose(ratio, paid / found.outcomes[key]["units"])
    assert half.frame().loc["cloud-h100", "usd"] == pytest.approx(found.frame().loc["cloud-h100", "usd"])
    assert break_even(half, key, "cloud-h100").use == pytest.approx(break_even(found, key, "cloud-h100").use)


@pytest.mark.parametrize("years", [0.25, 1, 3, 6])
def test_what_is_counted_at_the_end_is_what_the_frame_compares(years):
    one = cb.planning.where_to_run("resnet50", epochs=90, years=years, places=["workstation", "cloud-a100"])
    rows = cumulative(one, ["workstation", "cloud-a100"])
    last = rows[rows["month"] == rows["month"].max()].set_index("place")
    pd.testing.assert_series_equal(last["counted"], one.frame().loc[last.index, "usd"], check_names=False)
    assert last.loc["cloud-a100", "usd"] == pytest.approx(last.loc["cloud-a100", "counted"])
    assert last["counted"].idxmin() == one.best


def test_a_place_of_ones_own(found):
    own = {"like": "workstation", "name": "My box", "device": "rtx-4090", "devices": 2, "price": 5000}
    both = cb.planning.where_to_run("resnet50", epochs=90, places=["workstation", own])
    assert both.places["My box"].devices == 2 and both.frame().loc["My box", "price"] == 5000
    assert both.frame().loc["My box", "hours"] < both.frame().loc["workstation", "hours"]
    wide = cb.accelerator("Wide", like="rtx-4090", mem_bandwidth="2 TB/s")
    row = cb.planning.where_to_run("resnet50", places=[{"like": "cloud-a100", "device": wide}]).frame().iloc[0]
    assert row["why"] and math.isnan(row["usd"]), "of one's own accelerator no price is known"
    for wrong in (
        {"like": "moon"},
        {"like": "workstation", "devices": 0},
        {"like": "workstation", "colour": "red"},
        {"like": "workstation", "way": "stolen"},
        {"like": "workstation", "price": -1},
        {},
        5,
        [[]],
        {"like": "workstation", "device": "rtx-409O"},
        {"like": "workstation", "kind": []},
    ):
        with pytest.raises((ValueError, KeyError)):
            cb.planning.where_to_run("resnet50", places=[wrong])
    with pytest.raises(ValueError, match="twice"):
        cb.planning.where_to_run("resnet50", places=["laptop", "notebook"])


def test_results_are_read_only_and_print_short(found):
    even = break_even(found)
    owned = cost.ownership_usd(300e3, 3, life_years=5)
    for record in (found, found.task, found.places["laptop"], even, owned, cb.planning.hourly_usd("t4")):
        assert len(repr(record)) < 300 and "\n" not in repr(record) and "<table" in record._repr_html_()
        assert isinstance(record.to_dict(), dict) and len(record.frame()) >= 1
        with pytest.raises(AttributeError):
            record.note = "changed"
    for mapping in (found.places, found.places["laptop"].figures, owned.parts, places.drawn(found.places["laptop"])):
        with pytest.raises(TypeError):
            mapping["new"] = 1
    with pytest.raises(ValueError, match="read-only"):
        places.drawn(found.places["laptop"])["price"][0] = 1
    copy = found.frame()
    copy["usd"] = 0
    assert found.frame()["usd"].max() > 0


def test_a_pue_that_nobody_states_is_told():
    step = cb.train_step("resnet50", "t4", batch=8)
    bill = cb.planning.run_cost(step, "t4", samples_per_step=8, samples=100, pue="abc")
    assert "pue of" in bill["why"].iloc[0]


def test_your_own_accelerator_is_billed_at_your_own_price():
    wide = cb.accelerator(like="t4", mem_bandwidth="1 TB/s")
    step = cb.train_step("resnet50", "t4", batch=8)
    how = {"samples_per_step": 8, "samples": 1e6}
    assert "no price is known" in cb.planning.run_cost(step, wide, **how)["why"].iloc[0]
    bill = cb.planning.run_cost(step, wide, price=2.0, **how).set_index("span")
    assert bill.loc["epoch", "usd_median"] == pytest.approx(1e6 / 8 * step.point / 3600 * 2)


@pytest.mark.parametrize("spelled", ["cloud-h100", "Cloud, 8 × H100, on demand", "Cloud, 8 x H100, on demand"])
def test_a_place_is_found_by_its_key_and_with_either_sign(spelled: str) -> None:
    found = cb.planning.where_to_run("resnet50", "imagenet-1k", places=[spelled])
    assert found.places["cloud-h100"].name == "Cloud, 8 × H100, on demand"


def test_a_workstation_is_looked_after_like_a_share_of_a_server():
    """Nobody's machine runs for years untended; at a server's whole share it costs as much in staff as a server."""
    keys = ["workstation-6", {"like": "workstation-6", "staff_share": 1}, "on-premises-h100"]
    found = cb.planning.where_to_run("resnet152", "imagenet-21k", places=keys)
    staff = {key: float(outcome["parts"]["staff"].mean()) for key, outcome in found.outcomes.items()}
    usual, tended, server = staff.values()
    assert usual == pytest.approx(tended / 10, rel=0.2) and tended == pytest.approx(server, rel=0.2)
