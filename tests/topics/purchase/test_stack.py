"""Stacks for an application: costs as other doors give them, limits that contradict, and what changes the ranking."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.prediction.kinds.input_pipeline_arguments import mismatch
from cookbook.topics.purchase import stack_panel, stack_sizes
from cookbook.topics.purchase.stack import StackChoice, one_size, pick_stack
from cookbook.topics.purchase.stack_limits import contradiction


@pytest.fixture(scope="module")
def image() -> StackChoice:
    return pick_stack("image", "train")


@pytest.fixture(scope="module")
def chat() -> StackChoice:
    return pick_stack("chat", "serve")


def test_what_a_place_costs_is_what_recipe_nine_says(image: StackChoice) -> None:
    """A stack that storage and host feed in time costs what its place costs: the same figures, the same draws."""
    places = cb.planning.where_to_run("resnet50", epochs=90, runs=4, deadline="3 d").frame()
    table = image.frame()
    for name in ("laptop", "workstation", "cloud-h100", "on-premises-h100"):
        assert table.loc[name, "used"] > 0.99
        low, high = places.loc[name, "usd_low"], places.loc[name, "usd_high"]
        assert table.loc[name, "usd_low"] == pytest.approx(low, rel=0.03), name
        assert table.loc[name, "usd_high"] == pytest.approx(high, rel=0.03), name
        assert low < table.loc[name, "usd"] < high


def test_rent_of_a_month_by_hand(chat: StackChoice) -> None:
    """Two machines rented at 1 USD an hour, day and night for three years: 2 x 26,298 h (of 365.25 days), and keeping
    the weights, which costs next to nothing."""
    own = pick_stack("chat", "serve", rate=10, prices={"cloud-l40s": 1.0})
    row = own.frame().loc["cloud-l40s"]
    hours = 3 * 365.25 * 24
    assert row["usd"] == pytest.approx(row["machines"] * hours, rel=0.01) and row["machines"] >= 1
    half = pick_stack("chat", "serve", rate=10, hours=12, prices={"cloud-l40s": 1.0}).frame().loc["cloud-l40s"]
    assert half["usd"] == pytest.approx(row["usd"] / 2, rel=0.01)


def test_machines_follow_the_requests_by_hand() -> None:
    """A batch takes `point` seconds; 70 % of the time may be busy: so many requests a second an accelerator."""
    found = {each.key: each for each in pick_stack("image", "serve", rate=20_000).found}
    for name in ("cloud-t4", "cloud-l4", "workstation-6"):
        each = found[name]
        step = cb.forward_pass("resnet50", each.row["device"], batch=each.place.batch)
        rate = each.place.batch / float(np.ravel(step.point)[0])
        assert each.need == pytest.approx(20_000 / (0.7 * rate * each.row["devices"]))
        assert each.place.machines == math.ceil(each.need)
        assert each.latency == pytest.approx(2 * each.place.batch / rate + (0.005 if name.startswith("work") else 0.03))
        assert each.latency <= 0.1 and each.least <= each.place.machines <= each.most


def test_a_batch_twice_as_large_would_be_too_late() -> None:
    """The largest batch is taken that keeps the limit, or one that is no slower a request."""
    for each in pick_stack("image", "serve").found:
        if each.why or each.place.batch in (1, 1024):
            continue
        step = cb.forward_pass("resnet50", each.row["device"], batch=[each.place.batch, 2 * each.place.batch])
        once, twice = np.ravel(step.point)
        trip = each.latency - 2 * once
        assert 2 * twice + trip > 0.1 or twice > 2 * once, each.key


def test_a_slow_drive_holds_the_best_network_back() -> None:
    """Decoding 150 JPEGs' worth of a clip on four cores takes longer than computing: time follows the host."""
    found = {each.key: each for each in pick_stack("video", "train").found}
    slow = found["cloud-l40s"]
    assert slow.limit == "decoding" and slow.used < 0.95
    alone = cb.train_step("resnet50", "l40s", {"micro_batch": slow.place.batch})
    assert slow.place.figures["step"].median == pytest.approx(float(np.ravel(alone.point)[0]) / slow.used)


def test_the_ranking_is_by_what_was_asked(image: StackChoice) -> None:
    for by in ("usd", "hours", "kwh"):
        table = pick_stack("image", "train", by=by).frame()
        good = table[table["will_do"]]
        assert good[by].is_monotonic_increasing and table["will_do"].tolist() == sorted(table["will_do"], reverse=True)
    ends = image.frame()[image.frame()["usd"].notna()]
    for name in ("usd", "kwh", "kgco2e"):
        known = ends[ends[name].notna()]
        assert (known[f"{name}_low"] <= known[name]).all() and (known[name] <= known[f"{name}_high"]).all()
    assert sum(image.odds.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("application", "task"), [("image", "train"), ("chat", "fine-tune"), ("speech", "serve"), ("video", "train")]
)
def test_where_the_ranking_changes_another_stack_is_best(application: str, task: str) -> None:
    """On this side of each value the stack is the same as now, beyond it the one that is named: asked anew."""
    found = pick_stack(application, task)
    table = found.changes()
    assert len(table) and set(table["input"]) <= {"price", "use", "volume", "deadline", "years"}
    for row in table.itertuples():
        near, far = row.factor**0.999, row.factor**1.001
        assert found.winners(row.input, near).tolist() == [found.best], row
        assert found.winners(row.input, far).tolist() == [row.wins] and row.wins != found.best, row
        assert row.at == pytest.approx(row.now * row.factor)


def test_more_runs_than_the_break_even_change_the_answer_itself(image: StackChoice) -> None:
    """The break-even of use is no property of its own search: the whole question asked again says the same."""
    row = image.changes().set_index("input").loc["use"]
    assert row["factor"] > 1
    assert pick_stack("image", "train", runs=row["at"] * 0.99).best == image.best
    assert pick_stack("image", "train", runs=row["at"] * 1.01).best == row["wins"]


def test_a_price_at_the_break_even_by_hand(image: StackChoice) -> None:
    """Rent is all but proportional to its price: the second's cost over the first's, data kept apart."""
    price = image.changes().set_index("input").loc["price"]
    table, parts = image.ranked, image.where.points[image.best]["parts"]
    rent, rest = (float(np.ravel(parts[name])[0]) for name in ("rent", "data"))
    assert price["factor"] == pytest.approx((table["usd"].iloc[1] - rest) / rent, rel=1e-3)
    assert price["wins"] == table.index[1]


PAIRS = [
    ({"private": "in house", "stacks": ["cloud-h100", "cloud-l4"]}, ("stacks", "private")),
    ({"private": "in house", "power": "100 W"}, ("private", "power")),
    ({"private": "in house", "deadline": "1 h", "power": "1 kW"}, ("private", "deadline")),
    ({"budget": 2500, "stacks": ["cloud-l4", "workstation", "on-premises-h100"]}, ("stacks", "budget")),
    ({"deadline": "2 h", "stacks": ["workstation", "laptop"]}, ("stacks", "deadline")),
]


@pytest.mark.parametrize(("limits", "pair"), PAIRS)
def test_limits_that_contradict_are_told_as_a_pair(limits: dict[str, Any], pair: tuple[str, str]) -> None:
    """Each of the two can be kept alone; together none can; and no third is blamed."""
    with pytest.raises(ValueError, match="contradict each other") as told:
        pick_stack("image", "train", **limits)
    words = str(told.value).partition(" contradict")[0]
    names = ("stacks", "private", "power", "deadline", "budget")
    assert [name for name in names if f"{name} = " in words] == list(pair)
    for name in pair:
        pick_stack("image", "train", **{name: limits[name]})


def test_by_how_much_limits_contradict_and_that_the_remedy_works() -> None:
    """A laptop with an RTX 4090 is rated for 150 W, 1.4484 times that with its host: 217 W, and 100 W are allowed."""
    with pytest.raises(ValueError) as told:
        pick_stack("image", "train", private="in house", power=100)
    words = str(told.value)
    assert "Laptop, RTX 4090 comes nearest at 217 W, which is 117 W more (2.17 times as much)" in words
    remedy = words.rpartition("power = ")[2]
    assert pick_stack("image", "train", private="in house", power=remedy).best == "laptop"


def test_the_remedy_of_a_deadline_and_of_a_latency_works() -> None:
    for task, given, name in (
        ("train", {"private": "in house", "deadline": "1 h"}, "deadline"),
        ("serve", {"private": "in house", "latency": "6 ms"}, "latency"),
    ):
        with pytest.raises(ValueError) as told:
            pick_stack("image" if task == "train" else "sensor", task, **given)
        remedy = str(told.value).rpartition(f"{name} = ")[2]
        pick_stack("image" if task == "train" else "sensor", task, **{**given, name: remedy})


def test_one_limit_that_nobody_keeps_is_told_alone_and_three_together() -> None:
    with pytest.raises(ValueError, match=r"no stack meets budget = \$10: .* comes nearest at \$"):
        pick_stack("image", "train", budget=10, private="in house")
    with pytest.raises(ValueError, match=r"private = in house and deadline = 2 h and budget = .30 k contradict"):
        pick_stack("image", "train", private="in house", deadline="2 h", budget=30_000)
    with pytest.raises(ValueError, match="no stack can do this at all"):
        pick_stack("chat", "train", model="llama3_405b")


def test_no_contradiction_where_a_stack_keeps_all(image: StackChoice) -> None:
    assert contradiction(image.ranked, image.limits) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "serve", "by": "hours"}, "take one of usd, kwh"),
        ({"power": "5 kg"}, "power = '5 kg'"),
        ({"model": "bert_base"}, "model = 'bert_base' takes text"),
        ({"task": "serve", "application": "text", "model": "llama3_8b"}, "answers token by token"),
        ({"task": "serve", "application": "chat", "model": "bert_base"}, "is no language model"),
    ],
)
def test_bad_arguments_are_told_in_the_callers_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as told:
        pick_stack(**{"application": "image", "task": "train", **given})
    assert words in str(told.value), told.value


def test_unknown_names_get_the_nearest() -> None:
    for given in ({"stacks": ["clod-l4"]}, {"region": "atlantis"}, {"data": "imagnet"}, {"model": "resnet5000"}):
        with pytest.raises(catalog.UnknownName, match=r"nearest"):
            pick_stack("image", "train", **given)


def test_a_service_answers_from_the_price_list(chat: StackChoice) -> None:
    """Ten requests a second, 512 tokens in and 256 out, at the cheapest list price of the table, for three years."""
    rows = catalog.table("api_prices")
    rows = rows[rows["model"] == "llama3_8b"]
    each = (rows["usd_input"] * 512 + rows["usd_output"] * 256) / 1e6
    bill = 10 * 3 * 365.25 * 86400 * each
    row = chat.frame().loc["service"]
    assert bill.min() * 0.95 < row["usd_low"] < row["usd_high"] < bill.max() * 1.05 and not row["will_do"]
    assert row["usd"] == pytest.approx(bill.median(), rel=0.001) and "time is not stated" in row["why"]


def test_stacks_that_do_not_stay_serve_nothing(chat: StackChoice) -> None:
    table = chat.frame()
    assert not table.loc[["laptop", "spot-h100"], "will_do"].any()
    assert table.loc["spot-h100", "why"].startswith("it does not stay")
    assert table.loc[["laptop", "spot-h100"], ["usd", "usd_low", "usd_high", "kwh"]].isna().all(axis=None)
    assert pick_stack("image", "train").frame().loc[["laptop", "spot-h100"], "will_do"].all()


def test_one_size_is_what_the_rankings_say() -> None:
    found = one_size("train", ["image", "sensor", "chat"])
    table = found.frame()
    for application in ("image", "sensor", "chat"):
        ranked = pick_stack(application, "train").ranked
        best, rows = ranked.index[0], table[table["application"] == application].set_index("stack")
        assert found.wins[f"{application}, train"] == best and rows.loc[best, "ratio"] == 1
        for key in rows.index[rows["will_do"]]:
            assert rows.loc[key, "ratio"] == pytest.approx(ranked.loc[key, "usd"] / ranked.loc[best, "usd"])
        assert rows.loc[~rows["will_do"], "ratio"].isna().all()
    alone = table[(table["stack"] == found.size) & table["will_do"]]["ratio"]
    assert found.does == len(alone) == 3
    assert found.penalty == pytest.approx(float(np.prod(alone)) ** (1 / len(alone)))
    assert found.worst == alone.max()


def test_limits_leave_out_applications_and_say_why_where_none_is_left() -> None:
    found = one_size("serve", ["sensor", "text"], stacks=["cloud-l4", "cloud-a100"])
    assert list(found.wins) == ["text, serve"]
    with pytest.raises(ValueError, match="latency"):
        one_size("serve", "sensor", stacks=["cloud-l4"])


def test_tables_fit_together() -> None:
    """Three tasks for each application, each with a network among its candidates that takes its data."""
    rows = catalog.table("applications")
    assert rows.groupby("application")["task"].nunique().eq(3).all() and rows["application"].nunique() == 8
    for row in rows.to_dict("records"):
        assert row["network"] in row["networks"].split(";")
        assert not any(mismatch(model, row["data"]) for model in row["networks"].split(";")), row["key"]
    assert len(one_size().wins) == len(rows)
    places = set(catalog.table("places")["key"])
    assert set(catalog.table("stacks")["place"]) <= places


def test_own_networks_and_prices_are_taken() -> None:
    own = cb.layers([{"layer": "linear", "out": 4096}, {"layer": "linear", "out": 10}], input=(1024,), title="Mine")
    found = pick_stack("sensor", "train", model=own, samples=1e6, epochs=10)
    assert found.frame()["will_do"].any()
    listed, own = (pick_stack("image", "train", prices=prices) for prices in ({}, {"laptop": 0.0}))
    free = own.frame().loc["laptop", "usd"]
    assert own.best == "laptop" and 0 < free < 2000  # electricity and a little staff
    assert listed.frame().loc["laptop", "usd"] - free > 2000


def test_a_ranking_is_quick_and_its_record_is_reused(within: Any) -> None:
    pick_stack("image", "train"), pick_stack("text", "serve")
    with within(8):
        pick_stack("speech", "fine-tune").frame()
    before = stack_sizes.candidates.cache_info().hits
    pick_stack("speech", "fine-tune", budget=1e6)
    assert stack_sizes.candidates.cache_info().hits == before + 1


def test_a_wish_is_told_with_what_was_assumed(image: StackChoice) -> None:
    assert "model = resnet50" in image.assumed and "runs = 4" in image.assumed
    name = image.ranked["name"].iloc[0]
    assert image.odds[image.best] < 0.8
    first = f"{name} leads 13 feasible stacks by cost, but not clearly: $"
    assert image.summary().startswith(first)
    assert " is the best of 13 feasible stacks by time of a run: " in replace(image, by="hours").summary()
    energy = replace(image, by="kwh").summary()
    assert " leads 13 feasible stacks by energy, but not clearly: " in energy
    alone = pick_stack("image", "train", stacks=["cloud-h100"]).summary()
    assert alone.startswith("Cloud, 8 × H100 is the only feasible stack: $")
    given = pick_stack("image", "train", model="resnet50", runs=4)
    assert not any(words.startswith(("model", "runs")) for words in given.assumed)
    assert isinstance(image.frame(), pd.DataFrame) and set(image.to_dict()) == set(catalog.table("stacks")["key"])
    assert replace(image, by="kwh").ranked["kwh"].iloc[0] == image.ranked[image.ranked["will_do"]]["kwh"].min()


def test_machines_that_run_side_by_side_are_counted_rated_and_limited() -> None:
    """Fifty runs a month of 67 h keep five laptops busy, each rated for 217 W: 1,086 W in all, and 300 allowed."""
    free = pick_stack("image", "train", runs=50, private="in house")
    row, place = free.ranked.loc["laptop"], free.where.places["laptop"]
    busy = row["hours"] * 50 / (365.25 * 24 / 12)
    assert row["machines"] == row["devices"] == math.ceil(busy) == 5
    assert row["watts"] == pytest.approx(5 * place.figures["rated"].median) == pytest.approx(1086, rel=0.002)
    with pytest.raises(ValueError, match="power = 300 W contradict"):
        pick_stack("image", "train", runs=50, private="in house", power="300 W")
    # Rented by the hour, nothing waits: one cluster runs the runs one after the other.
    assert free.ranked.loc["cloud-h100", "machines"] == 1


def test_more_runs_take_more_machines_and_break_the_power() -> None:
    """One laptop does up to a month's 730.5 hours; the run that needs a second one takes 2 x 217 W, beyond 300."""
    found = pick_stack("image", "train", runs=4, private="in house", power="300 W")
    hours = found.ranked.loc["laptop", "hours"]
    turn = found.changes().set_index("input").loc["use"]
    assert found.best == "laptop" and turn["wins"] == "" and turn["at"] == pytest.approx(730.5 / hours, rel=1e-3)
    assert pick_stack("image", "train", runs=turn["at"] * 0.99, private="in house", power="300 W").best == "laptop"
    with pytest.raises(ValueError, match="power = 300 W"):
        pick_stack("image", "train", runs=turn["at"] * 1.01, private="in house", power="300 W")


LIMITED = {"budget": 4e5, "power": "30 kW", "private": "own machines"}


@pytest.mark.parametrize("by", ["usd", "hours", "kwh"])
@pytest.mark.parametrize(("application", "task"), [("image", "train"), ("speech", "serve"), ("chat", "serve")])
def test_nothing_changed_leaves_the_best_whatever_the_limits(application: str, task: str, by: str) -> None:
    if task == "serve" and by == "hours":
        pytest.skip("a service has no time of a run")
    for limits in ({}, *({name: value} for name, value in LIMITED.items()), LIMITED):
        found = pick_stack(application, task, by=by, **limits)
        for name in found._now():
            assert found.winners(name, 1.0).tolist() == [found.best], (name, limits)


def test_a_budget_counts_where_time_is_ranked() -> None:
    """By time of a run, within a budget, more runs make the fastest too dear: asked anew as well."""
    found = pick_stack("image", "train", by="hours", budget=8000)
    turn = found.changes().set_index("input").loc["use"]
    assert turn["wins"] and turn["factor"] > 1
    asked = [pick_stack("image", "train", by="hours", budget=8000, runs=turn["at"] * near) for near in (0.99, 1.01)]
    assert [each.best for each in asked] == [found.best, turn["wins"]]


def test_the_volume_of_a_service_turns_where_it_does_when_asked_anew(chat: StackChoice) -> None:
    """Of networks that answer batches; machines of a language model follow from a queue, so that nothing is claimed."""
    turned = 0
    for application in ("image", "text"):
        found = pick_stack(application, "serve", stacks=["cloud-l4", "workstation-6"])
        for row in found.changes().query("input == 'volume'").itertuples():
            asked = [
                pick_stack(application, "serve", stacks=["cloud-l4", "workstation-6"], rate=row.at * near).best
                for near in (0.97, 1.03)
            ]
            assert (asked if row.factor > 1 else asked[::-1]) == [found.best, row.wins], (application, row)
            turned += 1
    assert turned
    assert "volume" not in set(chat.changes()["input"])
    with pytest.raises(ValueError, match="another rate"):
        chat.winners("volume", 2)


def test_stacks_that_cannot_do_it_are_told_each_with_its_reason() -> None:
    for stacks in (["service"], ["service", "laptop"]):
        with pytest.raises(ValueError, match="none of the requested stacks can do this") as told:
            pick_stack("chat", "serve", stacks=stacks)
        words = str(told.value)
        assert "time is not stated" in words and words.endswith("take others") and "in both" not in words
        assert ("it does not stay" in words) == ("laptop" in stacks)


@pytest.mark.parametrize(
    ("task", "given"),
    [
        ("serve", "runs"),
        ("serve", "deadline"),
        ("serve", "epochs"),
        ("serve", "samples"),
        ("train", "rate"),
        ("train", "hours"),
        ("fine-tune", "latency"),
    ],
)
def test_what_a_task_does_not_use_is_refused(task: str, given: str) -> None:
    words = f"{given} is not used when task = {task!r}: leave it out"
    for ask in (lambda: pick_stack("image", task, **{given: 5}), lambda: one_size(task, ["image"], **{given: 5})):
        with pytest.raises(ValueError) as told:
            ask()
        assert str(told.value) == words


def test_one_size_says_what_it_leaves_out_and_what_is_free_is_no_ratio() -> None:
    found = one_size("serve", ["sensor", "text"], stacks=["cloud-l4", "cloud-a100"])
    assert found.left == 1 and found.summary().endswith("left out: 1 that no stack can do within the limits")
    assert one_size("serve", ["text"]).left == 0 and "left out" not in one_size("serve", ["text"]).summary()
    free = one_size("train", ["image"], stacks=["laptop"], prices={"laptop": 0, "electricity": 0})
    table = free.frame()
    assert table.loc[table["will_do"], "ratio"].tolist() == [1.0] and free.penalty == free.worst == 1


def test_the_chart_of_all_applications_takes_the_limits_that_all_share() -> None:
    """Budget and power hold for each application; what one application alone has is left as usual, and marked off."""
    panel = cb.panels.stack("image", "train", runs=50, budget=5000, power=1, picture="matrix")
    names: dict[str, Any] = {"cb": cb}
    call = panel.code.splitlines()[-1]
    assert call == 'cb.planning.one_size("train", budget=5000, power=1000).frame()'
    table, direct = eval(call, names), one_size("train", budget=5000, power=1000)
    pd.testing.assert_frame_equal(table, direct.frame())
    assert panel.answer.startswith(f"{len(set(direct.wins.values()))} stack")
    assert ("Left out" in panel.answer) == bool(direct.left)
    rules = import_module("cookbook.topics.purchase.stack_panel").OFF
    off = {name: rule({"picture": "matrix", "task": "train"}) for name, rule in rules.items()}
    assert set(off) >= {"runs", "deadline", "rate", "latency", "model"} and all(off.values())
    assert off["runs"] == {"*": "the chart of all applications uses typical targets"}
    assert not rules["runs"]({"picture": "costs", "task": "train"})


def test_odds_of_a_service_say_what_they_count() -> None:
    assert "of samples of prices, with this number of machines;" in cb.panels.stack("image", "serve").answer
    assert "of Monte Carlo samples;" in cb.panels.stack("image", "train").answer


def test_an_own_quote_in_the_panel_is_that_of_the_call():
    panel = cb.panels.stack("image", "train")
    panel.update(bought="workstation-5090", purchase=5000)
    mine = cb.planning.pick_stack("image", "train", prices={"workstation-5090": 5000}).frame()
    usual = cb.planning.pick_stack("image", "train").frame()
    assert 'prices={"workstation-5090": 5000.0}' in panel.code
    assert mine.at["workstation-5090", "will_do"] and not usual.at["workstation-5090", "will_do"]
    assert "Workstation, 1 × RTX 5090 is at your quote of $5,000" in panel.answer


def test_an_own_price_in_the_panel_is_that_of_the_call():
    panel = cb.panels.stack()
    panel.update(quoted="cloud-h100", hourly=0.4)
    mine = cb.planning.pick_stack("image", "train", prices={"cloud-h100": 0.4}).frame()
    usual = cb.planning.pick_stack("image", "train").frame()
    assert 'prices={"cloud-h100": 0.4}' in panel.code
    assert mine.at["cloud-h100", "usd"] < usual.at["cloud-h100", "usd"]
    assert mine.at["workstation", "usd"] == usual.at["workstation", "usd"]
    for picture in ("costs", "matrix"):
        panel.update(picture=picture)
        assert "Price: Cloud, 8 × H100 is at your price of $0.40 per hour" in panel.answer
    panel.update(picture="matrix")
    assert "prices=" in panel.code and not panel.shown["error"]


def test_the_panel_says_how_many_prices_stand_behind_a_stack_and_that_its_machine_is_typical() -> None:
    rented = cb.panels.stack("image", "train", runs=4)
    single = "8 × Instinct MI300X at a single price in a machine like Oracle BM.GPU.MI300X.8 (the price may be another"
    assert single in rented.answer
    rented.update(quoted="cloud-mi300x", hourly=1.5)
    assert "8 × Instinct MI300X in a machine like Oracle BM.GPU.MI300X.8, " in rented.answer
    bought = cb.panels.stack("sensor", "serve", private="in house")
    assert " at a single price" in bought.answer and "another provider's" not in bought.answer


def test_a_stack_without_a_price_is_not_called_impossible(image: StackChoice) -> None:
    beside = {row["name"]: stack_panel._short(row) for _, row in image.frame().iterrows()}
    assert beside["Workstation, 1 × RTX 5090"] == "no price known" and "not possible" not in beside.values()
