"""The decision of recipe 09 follows from the table of its offers."""

import re

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb
from cookbook.topics.purchase.where import WhereToRun

SAID = sources("09")

ODDS, CHEQUE, ALONE, PRICED = "cheapest in [% of samples]", "to pay at once [$]", "alone [$]", "priced by"
BUSY, EVEN = "this task's hours [% of all]", "owning pays above [% of hours]"
PRICE = "price of the machine, 10th to 90th percentile"
PAYS, SPOT = "Share of hours from which owning pays", "One spot H100 in place of the three"


def owned(offers: pd.DataFrame, cost: dict[str, float], record: dict[str, str]) -> bool:
    """Whether each purchase states the hours that others must fill, and the share of hours from which it pays."""
    rents = sorted((name for name in cost if "per hour" in offers[PRICED][name]), key=cost.__getitem__)
    gaps = re.findall(r"([\w-]+) (\d+) of the (\d+) % planned", record["Hours that others must fill"])
    text, _, rent = record[PAYS].partition(", against ")
    band = r"([\w-]+) (\S+)(?: %)? \((\S+)(?: %)? to (\S+?)(?: %)?\)"
    pays = {name: ends for name, *ends in re.findall(band, text)}
    server = re.fullmatch(r"(\d+) \((\d+) to (\d+)\)", table("09", "breakeven")[EVEN]["cloud-h100"])
    return (
        {name for name, *_ in gaps} == set(pays) == set(cost) - set(rents)
        and rent == rents[0]
        and pays["on-premises-h100"] == [share if int(share) <= 100 else "never" for share in server.groups()]
        and all(
            abs(float(left) - (float(use) - float(offers[BUSY][name]))) <= 1
            # The median of a ratio of samples is not quite the ratio of their medians.
            and abs(float(pays[name][0]) - float(use) * cost[name] / cost[rent]) < 3
            for name, left, use in gaps
        )
    )


def test_the_record_follows_from_the_offers():
    """The choice is every offer whose interval overlaps that of the cheapest, and each figure is repeated."""
    offers = table("09", "choices")
    record = decision("09")
    column = next(name for name in offers if "80 %" in name)
    cost = {}
    for name, text in offers[column].items():
        if figures := re.fullmatch(r"([\d,]+) \(([\d,]+) to ([\d,]+)\)", text):
            cost[name] = [float(figure.replace(",", "")) for figure in figures.groups()]
    first = min(cost, key=lambda name: cost[name][0])
    ranked = sorted(cost, key=lambda name: cost[name][0])
    tied = [name for name in ranked if cost[name][1] <= cost[first][2]]
    length = column.partition(" [")[0]
    quoted = all(
        f"{name} ${offers[column][name]}" in record[f"Cost over {length} (80 %)"]
        and f"{name} {offers[ODDS][name]} %" in record["Cheapest in"]
        and f"{name} ${offers[CHEQUE][name]}" in record["To pay at once"]
        and f"{name} ${offers[ALONE][name]}" in record["If nobody shares"]
        and f"{name} {offers[PRICED][name]}" in record["Price"]
        for name in cost
    )
    rents = [name for name in ranked if "per hour" in offers[PRICED][name]]
    several = f"open: {' or '.join(tied)}; their intervals overlap; until your use is measured, rent {rents[0]}"
    several += ", or one spot H100 if your runs save checkpoints"
    chosen = record["Choice"] == (several if len(tied) > 1 else first)
    server = offers[PRICED]["on-premises-h100"].partition(", ")[2].partition(";")[0]
    old = f"a current quote for on-premises-h100 (our prices of its GPUs are of {server}), a measured use"
    asked = re.search(r"20\d\d", server) is not None and record["What would change it"].startswith(old)
    assert chosen
    assert quoted
    assert asked
    assert owned(offers, {name: usd[0] for name, usd in cost.items()}, record)


def test_full_rent_pays_for_the_server_in_two_years_and_not_in_one():
    """Full rent buys the server in one to two years, however much the staff takes, as the vote says."""
    offers, owned = table("09", "choices"), table("09", "ownership")
    cheque = float(offers[CHEQUE]["on-premises-h100"].replace(",", ""))
    column = owned["on-premises-h100 [thousand $]"].astype(float)
    staff = 1e3 * (column["staff"] + column["maintenance"]) / 3
    rent = float(table("09", "breakeven").iloc[0, 0].split()[0])
    assert staff == pytest.approx(42_000, rel=0.02)
    words = SAID["predict3"]
    running = 8766 * (rent - 0.7)  # of a year, day and night [$]
    spans = cheque / running, cheque / (running - staff)
    assert "after two years of full rent it has paid for itself" in words
    assert "that holds for a machine that works day and" in words
    assert 1 < spans[0] < spans[1] < 2


def test_the_share_of_power_is_of_the_parts_and_not_of_their_total_too():
    """The printed share of power and cooling is that of the parts of the table, and its total their sum."""
    printed, owned = words("09", "power"), table("09", "ownership")
    server = owned["on-premises-h100 [thousand $]"].astype(float)
    parts = server.drop("total")
    share = 100 * parts[["electricity", "cooling"]].sum() / parts.sum()
    assert f"Power and cooling: {share:.0f} % of the cost here;" in printed
    assert abs(parts.sum() - server["total"]) < 0.3


def test_the_rated_power_of_the_workstation_is_not_called_its_draw():
    """The text repeats the rated power of the workstation, its host included, and the draw at full load."""
    printed = words("09", "power")
    rated, full = re.search(r"rated at ([\d.]+) kW, about ([\d.]+) kW at full load", printed).groups()
    cards = 6 * cb.accelerator("rtx-4090").tdp_watts / 1e3
    assert (
        f"and their host are rated at {rated} kW and, by our estimate, draw about {full} kW at full load"
        in SAID["summary"]
    )
    assert cards < float(full) < 0.9 * float(rated)


def test_the_figures_are_asked_for_in_the_order_of_what_they_move():
    """The text asks for the figures in the order in which they move the cost, the price with its five rows."""
    ends = table("09", "tornado")
    moved = {
        name: abs(float(high.replace(",", "")) - float(low.replace(",", ""))) for name, low, high in ends.itertuples()
    }
    prices = next(name for name in ends.index if name.startswith("ends of our"))
    life, staff = (next(name for name in ends.index if name.startswith(one)) for one in ("years of use", "administr"))
    named = ["use: 100 or 50 % of hours", prices, life, staff, PRICE]
    sizes = [moved[name] for name in named]
    asked = (
        "*Ask about use first, then for quotes for the rent and the server, and finally about years of use and staff.*"
    )
    assert asked in SAID["explain4"]
    assert sizes == sorted(sizes, reverse=True)


TASK = dict(epochs=3, runs=8, deadline="7 d", region="us", seq=2048, years=2, utilisation=0.8)


def test_the_highest_price_of_a_server_costs_its_lead_over_the_cloud():
    """Text and vote say what the highest price would add to the cost at medians, and beside the cloud."""
    rented = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=["cloud-h100"], **TASK)
    cloud = sum(part[0] for part in rented.points["cloud-h100"]["parts"].values())
    ends = table("09", "tornado")
    words = SAID["explain4"]
    row = next(name for name in ends.index if name.startswith("ends of our"))
    count, low, high = re.fullmatch(r"ends of our (\d+) prices: \$([\d,]+) or \$([\d,]+)", row).groups()
    listed = cb.table("hardware_prices").query("accelerator_key == 'h100-sxm' and date >= '2024-07-31'")
    usd, top = 8 * listed["usd_per_device"], listed.loc[listed["usd_per_device"].idxmax()]
    medians = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=["on-premises-h100"], **TASK)
    cost = sum(part[0] for part in medians.points["on-premises-h100"]["parts"].values())
    dear, most = (float(ends.iloc[:, 1][name].replace(",", "")) / cost for name in (row, PRICE))
    assert (int(count), low, high) == (len(usd), f"{usd.min():,.0f}", f"{usd.max():,.0f}")
    assert (
        f"our {['', '', '', '', '', 'five'][len(usd)]} prices, it raises the cost by up to a quarter. "
        f"The highest of the five, {high} dollars for a" in words
    )
    assert "dgx-h100" in top["locator"]
    assert (
        "a complete DGX, is above that range. Such a price would raise the cost by a third, to about the cost of"
        in words
    )
    assert 1.3 < dear < 1.37
    assert "Between the 10th and the 90th percentile of our five prices, it raises the cost" in words
    assert 1.2 < most < 1.27
    assert usd.quantile(0.9) < usd.max()
    assert abs(dear * cost / cloud - 1) < 0.02
    assert "even the highest of our five prices, half above the median, would raise" in SAID["predict4"]
    assert 1.45 < usd.max() / usd.median() < 1.55


def test_the_price_of_the_server_is_told_with_all_that_is_said_about_it():
    """Four of the five prices are of servers, and one is of a single GPU: the words must not end before that."""
    places = ["workstation-6", "on-premises-h100", "cloud-h100"]
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, **TASK).frame()
    offers = table("09", "choices")
    assert "with the server or without" in found["priced"]["on-premises-h100"]
    for name in places:
        assert offers[PRICED][name].endswith(f", {found['priced'][name]}")
        assert f"{name} {offers[PRICED][name]}" in decision("09")["Price"]


def test_spot_prices_of_one_and_of_eight_gpus_say_when_owning_pays():
    assert "eight spot GPUs in one machine, whose prices all come from one provider" in SAID["explain3"]
    assert "single spot GPUs, shown in the record, the formula gives more than 100 %" in SAID["explain3"]
    row = table("09", "breakeven").loc["spot-h100"]
    of_eight = cb.table("cloud_prices").query(
        "accelerator_key == 'h100-sxm' and devices == 8 and date == @row['priced by']"
    )
    assert set(of_eight[of_eight["usd_per_hour_spot"].notna()]["provider"]) == {"AWS"}
    assert 85 < float(row.iloc[2].split()[0]) < 100
    single = float(re.search(r"\$([\d.]+) per hour", decision("09")[SPOT])[1])
    assert 123_000 / (8766 * (8 * single - 0.7)) > 1.3


def test_the_time_of_a_step_cannot_decide_between_the_server_and_the_cloud():
    """It moves both costs by nearly one factor, and moves the cost of the workstation by another."""
    assert "by the same factor, so it cannot decide between the server and the cloud" in SAID["explain4"]
    task = dict(epochs=3, runs=8, deadline="7 d", region="us", seq=2048, years=2, utilisation=0.8)
    places = ["on-premises-h100", "cloud-h100"]
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, **task)
    step = [found.tornado(place).set_index("figure").loc["step"] for place in places]
    factors = [row["usd_high"] / row["usd_low"] for row in step]
    assert factors[0] == pytest.approx(factors[1], rel=0.03) and factors[0] > 1.4
    server, cloud = found.frame()["usd"]
    assert step[0]["usd_high"] < cloud and server < cloud, "use at 50 % alone reverses the order"
    assert float(table("09", "tornado").loc["use: 100 or 50 % of hours"].iloc[1].replace(",", "")) > cloud


def test_an_epoch_has_no_price_where_the_job_does_not_fit():
    epochs = table("09", "epochtable")
    same = dict(devices=1, batch=1, global_batch=8, seq=2048)
    fits = pd.Series({each: cb.train_step("llama3.2_3b", each, **same).fits for each in epochs.index})
    assert ((epochs["epoch [$]"] == "does not fit") == (fits == "no")).all() and (fits == "no").sum() == 2


def less_certain(epochs: pd.DataFrame) -> str:
    """The answer of the first vote, from the table below it: both ranges hold four cases of five."""
    shown = epochs[epochs["list prices"].astype(int) > 1]["high over low: time | price"]
    several = shown.str.split(" | ", regex=False, expand=True)
    wider = several[1].astype(float) > several[0].astype(float)
    return "the price" if wider.all() else "the time" if not wider.any() else "it depends"


def test_where_several_lists_state_a_price_it_is_less_certain_than_the_time():
    epochs = table("09", "epochtable")
    assert less_certain(epochs) == "the price" and (epochs["list prices"].astype(int) > 1).sum() == 6
    narrower = epochs.assign(**{"high over low: time | price": "1.5 | 1.2"})
    assert less_certain(narrower) == "the time"
    vote = SAID["predict1"]
    assert 'answer="the price, wherever several lists state one"' in vote


def offered(**prices: float) -> WhereToRun:
    """Return the three offers of the page, at prices of the reader's own."""
    places = ["workstation-6", "on-premises-h100", "cloud-h100"]
    return cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, prices=prices, **TASK)


def test_the_costs_are_up_to_a_tenth_above_what_the_medians_give():
    assert "up to a tenth higher than the costs with every figure at its median" in SAID["decide"]
    found, shown = offered(), table("09", "choices").iloc[:, 0]
    for name, text in shown.items():
        middle = sum(part[0] for part in found.points[name]["parts"].values())
        assert 1.02 < float(text.split()[0].replace(",", "")) / middle < 1.1


def test_a_quote_for_the_rent_narrows_the_interval_of_the_cloud():
    """A quote for the rent narrows the interval of the cloud to less than half, and no other is as wide."""
    wide, quoted = offered().frame(), offered(**{"cloud-h100": 2.99}).frame().loc["cloud-h100"]
    factors = wide["usd_high"] / wide["usd_low"]
    halved = quoted["usd_high"] - quoted["usd_low"] < 0.5 * (wide["usd_high"] - wide["usd_low"])["cloud-h100"]
    text = "the cloud has the widest interval. A quote for the rent narrows that interval by more than half."
    assert text in SAID["decide"]
    assert factors.idxmax() == "cloud-h100"
    assert halved


def test_the_dearest_tenth_of_rents_is_that_of_the_lists():
    """The text repeats the 90th percentile of rents in the table, and the share of hours that follows."""
    rent = table("09", "breakeven").iloc[0, 0]
    dear = float(re.fullmatch(r"[\d.]+ \([\d.]+ to ([\d.]+)\)", rent)[1])
    lists = cb.table("cloud_prices").query("accelerator_key == 'h100-sxm' and date >= '2025-11'")
    listed = 8 * (lists["usd_per_hour"] / lists["devices"]).dropna()
    share = 100 * 123_000 / (8766 * (dear - 0.7))
    assert (
        f"At the 90th percentile of rental prices, {dear:.0f} dollars, a use of {share:.0f} % would be enough."
        in SAID["byhand3"]
    )
    assert abs(listed.quantile(0.9) - dear) < 0.1


def test_beside_the_three_offers_one_spot_gpu_is_cheapest_in_most_samples():
    places = ["workstation-6", "on-premises-h100", "cloud-h100"]
    one = {"like": "spot-h100", "devices": 1, "name": "one"}
    odds = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=[*places, one], **TASK).odds
    assert decision("09")[SPOT].endswith(
        f"; added to the three, it is cheapest in {100 * odds['one']:.0f} % of samples"
    )
    assert odds["one"] > 0.7


def spot() -> re.Match[str]:
    """Return the words of the record on one spot GPU: cost with its ends, and hours per run."""
    return re.match(r"\$([\d,]+) \(([\d,]+) to ([\d,]+)\), (\d+) h per run", decision("09")[SPOT])


def test_the_break_even_of_each_purchase_and_one_spot_gpu_are_those_of_the_package():
    task = dict(epochs=3, runs=8, deadline="7 d", region="us", seq=2048, years=2, utilisation=0.8)
    one = {"like": "spot-h100", "devices": 1, "name": "one"}
    places = ["workstation-6", "on-premises-h100", "cloud-h100", one]
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, **task)
    for name in places[:2]:
        use = cb.planning.break_even(found, name, "cloud-h100").use
        low, middle, high = (f"{100 * end:.0f} %" if end <= 1 else "never" for end in use)
        assert f"{name} {middle} ({low} to {high})" in decision("09")[PAYS]
    row = found.frame().iloc[3]
    usd = (f"{each:,.0f}" for each in (row.usd, row.usd_low, row.usd_high))
    assert spot().groups() == (*usd, f"{row.hours:.0f}")


def test_one_spot_gpu_is_in_time_and_named_where_it_costs_less_than_each_offer():
    offers, said = table("09", "choices"), spot()
    cost = [float(text.split()[0].replace(",", "")) for text in offers.iloc[:, 0]]
    assert float(said[1].replace(",", "")) < min(cost) and float(said[4]) < 24 * 7
    assert decision("09")["Choice"].endswith(", or one spot H100 if your runs save checkpoints")
    page = nbformat.read(FOLDER / "09-where-to-run.ipynb", as_version=4)
    text = next(cell.source for cell in page.cells if cell.id == "explain3")
    assert f"about {said[4]} hours, interruptions included" in text and "less than any of your three offers" in text


def test_the_years_of_use_of_a_purchase_are_stated():
    """Table, text and record state the years over which a purchase is spread, and the administrator's ends."""
    ends, record = table("09", "tornado"), decision("09")
    places = ["workstation-6", "on-premises-h100", "cloud-h100"]
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, **TASK)
    (short, long), (least, most) = (
        found.tornado("on-premises-h100").set_index("figure").loc[name, ["low", "high"]] for name in ("life", "staff")
    )
    assert f"years of use: {short:g} or {long:g}" in ends.index
    assert f"administrator: ${least:,.0f} or ${most:,.0f} per year" in ends.index
    assert f"because a purchase is spread over {short:g} to {long:g} years of use" in SAID["decide"]
    assert f"fewer years of use than {short:g} to {long:g}, " in record["What would change it"]


def test_the_record_says_what_is_paid_if_nobody_shares_and_nothing_is_left():
    """The record gives the money paid if nobody shares: the whole purchase, and what it costs to run."""
    record = decision("09")
    task = TASK | {"utilisation": None}
    places = ["on-premises-h100", "workstation-6"]
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", places=places, **task)
    last = cb.planning.cumulative(found, places, 2).groupby("place", sort=False)["usd"].last()
    money = "; ".join(f"{name} ${round(usd, -2):,.0f}" for name, usd in last.items())
    alone, cheque = (
        {name: float(usd.replace(",", "")) for name, usd in re.findall(r"([\w-]+) \$([\d,]+)", record[row])}
        for row in ("If nobody shares", "To pay at once")
    )
    assert (
        record.get("Paid in 2 years if nobody shares")
        == f"{money}, of which nothing comes back if the machine is then worth nothing"
    )
    assert all(usd > cheque[name] > alone[name] for name, usd in last.items())
    assert last["on-premises-h100"] > 1.5 * alone["on-premises-h100"]
    assert "you lose everything that you have paid, which the record lists as *Paid*" in SAID["decide"]


def test_six_gaming_cards_share_more_than_the_optimiser_states():
    """Six gaming cards hold the job with all three shared or with layers split, but not with states alone."""
    same = dict(devices=6, seq=2048, global_batch=24, micro_batch=1)
    cards = {
        (tp, zero): str(cb.train_step("llama3.2_3b", "rtx-4090", tp=tp, zero=zero, **same).fits)
        for tp, zero in ((1, 1), (1, 3), (2, 1))
    }
    text = (
        "With data parallelism alone, which is how we plan your three options, it fits on six gaming cards if they "
        "shard weights, gradients and optimiser states (ZeRO stage 3). Sharding the optimiser states alone "
        "(stage 1) would not be enough. If each layer is also split across two cards, stage 1 is enough."
    )
    assert text in SAID["explain1"]
    assert cards == {(1, 1): "no", (1, 3): "yes", (2, 1): "yes"}


def test_the_layout_that_is_left_out_would_change_the_order():
    """Split layers would shorten the workstation's run by a quarter and put its median below the server's."""
    page, offers, record = nbformat.read(FOLDER / "09-where-to-run.ipynb", 4), table("09", "choices"), decision("09")
    words = next(cell.source for cell in page.cells if "Other layouts" in cell.source)
    step = cb.train_step("llama3.2_3b", "rtx-4090", devices=6, seq=2048, global_batch=24)
    hours = 3 * 207_865 / 24 * step.point / 3600
    planned = float(re.search(r"workstation-6 4 per GPU, ([\d.]+) h per run", record["Workload"])[1])
    column = next(name for name in offers if "80 %" in name)
    usd = {name: float(text.partition(" ")[0].replace(",", "")) for name, text in offers[column].items()}
    others = [cost for name, cost in usd.items() if name != "workstation-6"]
    told = "a run is predicted to take a quarter less time, which would make the workstation the cheapest of the three"
    assert str(step.assumed.taken["tp"]) == "2"
    assert hours / planned == pytest.approx(0.75, abs=0.02)
    assert usd["workstation-6"] * hours / planned < min(others) < usd["workstation-6"]
    assert told in words


def test_panel_and_record_compare_by_one_rule():
    """The panel calls an option the cheapest only where its interval overlaps no other, as the record does."""
    page = nbformat.read(FOLDER / "09-where-to-run.ipynb", 4)
    shown = str(next(cell.outputs for cell in page.cells if cell.id == "panel"))
    found = cb.planning.where_to_run("llama3.2_3b", "ultrachat-200k", epochs=3, runs=8, years=2, seq=2048).frame()
    able = found.query("will_do").sort_values("usd", kind="stable")
    tied = (able["usd_low"].iloc[1:] <= able["usd_high"].iloc[0]).any()
    assert tied and f"leads {len(able)} feasible options" in shown and "is the cheapest of" not in shown
    said = {cell.id: cell.source for cell in page.cells}
    told = "Like the record, the panel calls an option the cheapest only if its interval overlaps no other."
    assert told in said["hook"]


def test_the_text_says_how_often_each_option_updates_the_weights():
    """The text gives the conversations of each update, the batches of the record times the GPUs."""
    record = decision("09")
    batch = dict(re.findall(r"([\w-]+) (\d+) per GPU", record["Workload"]))
    spot = re.search(r"per run at batch (\d+)", record[SPOT])[1]
    eight, six = 8 * int(batch["on-premises-h100"]), 6 * int(batch["workstation-6"])
    text = f"every {eight} conversations, six gaming cards every {six}, and one spot GPU every {spot}. Check"
    assert text in SAID["summary"]
    assert batch["cloud-h100"] == batch["on-premises-h100"]
