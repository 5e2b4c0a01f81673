"""The panel of recipe 09: figures are those of `where_to_run`, errors are words, every picture is drawn."""

from __future__ import annotations

import ast
from typing import Any

import pandas as pd
import pytest

import cookbook as cb
from cookbook.units import dollar_range, dollars

PICTURES = ["costs", "paid", "tornado"]


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("where_to_run")


def test_the_answer_names_the_cheapest_with_band_and_break_even(panel: Any) -> None:
    found = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4)
    row, even = found.frame().loc[found.best], cb.planning.break_even(found)
    assert panel.answer.startswith(f"${row['usd'] / 1e3:.1f} k over 3 years: {row['name']} leads ")
    assert found.odds[found.best] < 0.8 and ", but not clearly." in panel.shown["headline"]
    assert f"${row['usd_low'] / 1e3:.3g} k to ${row['usd_high'] / 1e3:.3g} k" in panel.answer
    assert f"cheapest in {100 * found.odds[found.best]:.0f} % of Monte Carlo samples" in panel.answer
    assert f"costs less than {found.places[even.rent].name} above {even.runs[1]:.2g} runs per month" in panel.answer
    assert "Laptop: it processes" in panel.answer
    pd.testing.assert_frame_equal(panel.frame.set_index("place"), found.frame())


def test_a_price_and_a_network_of_ones_own_leave_no_room_for_the_laptop() -> None:
    blocks = {"depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck"}
    panel = cb.panels.where_to_run(model={"model_type": "resnet", **blocks}, batch=4)
    assert " Laptop: " in panel.answer and " Assumed: " in panel.answer and " Price: " not in panel.answer
    panel.update(hourly=1)
    assert " Laptop: " not in panel.answer and " Assumed: " in panel.answer and " Price: " in panel.answer


def test_rules_filter_before_prices(panel: Any) -> None:
    panel.update(private="in house", deadline="60 d")
    rows = panel.frame[panel.frame["will_do"]]
    assert set(rows["kind"]) == {"laptop", "workstation", "on premises"}
    assert rows.loc[rows["usd"].idxmin(), "name"] in panel.answer
    assert "Cloud" not in panel.answer
    panel.update(deadline="1 h")
    assert panel.answer.startswith("None of 12 options is feasible")
    assert panel.shown["error"] == "" and not panel.shown["parts"]
    assert set(panel.shown["off"]["picture"]) == {"paid", "tornado"}


@pytest.mark.parametrize("picture", PICTURES)
def test_sources_say_what_is_recalled(panel: Any, picture: str) -> None:
    panel.update(picture=picture)
    assert any("recalled" in note for _, _, note in panel.sources)


def test_parts_add_up_to_the_cost(panel: Any) -> None:
    found = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4)
    total = sum(float(part[0]) for part in found.points[found.best]["parts"].values())
    assert sum(part["value"] for part in panel.shown["parts"]) == pytest.approx(total)


@pytest.mark.parametrize("picture", PICTURES)
def test_the_code_gives_the_same_state(panel: Any, picture: str) -> None:
    panel.update(picture=picture, runs=8, region="de", years=2)
    first, *rest = panel.code.splitlines()
    ast.parse(panel.code)
    again = eval(first, {"cb": cb})
    assert again.answer == panel.answer and again.values == panel.values
    scope: dict[str, Any] = {"cb": cb}
    exec(rest[0], scope)
    assert scope["found"].best is not None and scope["found"].frame().loc[scope["found"].best, "name"] in panel.answer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"region": "Atlantis"}, ["No region called 'Atlantis'", "nearest"]),
        ({"years": 0}, ["Horizon = 0", "0.25 to 6"]),
        ({"runs": "many"}, ["Runs per month", "many"]),
        ({"deadline": "7"}, ["Deadline", "no unit"]),
        ({"model": "resnet999"}, ["resnet999", "none that is spelt alike"]),
        ({"private": "secret"}, ["secret"]),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(refuses: Any, panel: Any, change: Any, words: list[str]) -> None:
    refuses(panel, change, words)


def test_missing_is_said_and_never_zero(panel: Any) -> None:
    panel.update(region="Norway")
    row = panel.frame.set_index("place").loc["on-premises-h100"]
    assert pd.isna(row["usd"]) and "no electricity price of Norway" in row["why"]
    panel.receive({"do": "open", "what": "table"})
    cells = {cells[0]: cells for cells in panel.shown["table"]["rows"]}
    assert cells["On premises, 8 × H100"][2] == "not known" and "Norway" in cells["On premises, 8 × H100"][1]


def test_sentence_and_chart_compare_the_same_cost_over_a_short_horizon(panel: Any) -> None:
    panel.update(years=1, batch=32, picture="paid")
    assert "over 1 year: Workstation, 6 × RTX 4090 is " in panel.answer
    rows = pd.DataFrame(panel.columns)
    counted = rows.dropna(subset=["counted"]).set_index("what")["counted"]
    assert counted["owned"] < counted["rented"] and panel.answer.startswith(f"{dollars(counted['owned'])} over")
    assert rows.loc[rows["what"] == "owned", "usd"].max() > 2 * counted["owned"], "what is paid is more than its share"
    assert "$25 k to buy, counted by use" in panel.answer
    assert panel.shown["signals"]["live_title"].startswith("Workstation, 6 × RTX 4090 costs less over 1 year")


def test_an_empty_batch_is_the_fastest_that_each_place_holds(panel: Any) -> None:
    frame = panel.frame.set_index("place")
    assert frame.loc["cloud-h100", "batch"] == 512 and frame.loc["workstation-6", "batch"] == 128
    best = frame[frame["will_do"]]["usd"].idxmin()
    assert panel.values["batch"] is None and panel.shown["state"]["batch"]["text"] == f"{frame.loc[best, 'batch']:.0f}"
    hours = frame.loc["cloud-h100", "hours"]
    panel.update(batch=32)
    assert panel.frame.set_index("place").loc["cloud-h100", "hours"] > 2 * hours


def test_utilisation_shares_what_is_owned_and_leaves_rent_alone(panel: Any) -> None:
    alone = panel.frame.set_index("place")
    panel.update(utilisation=100)
    full = panel.frame.set_index("place")
    own, rent = "on-premises-h100", "cloud-h100"
    assert full.loc[own, "usd"] < 0.2 * alone.loc[own, "usd"]
    assert full.loc[rent, "usd"] == pytest.approx(alone.loc[rent, "usd"])
    panel.update(utilisation=1)
    least = panel.frame.set_index("place")
    assert least.loc[own, "usd"] == pytest.approx(alone.loc[own, "usd"]), "never more than the whole machine"
    panel.update(utilisation=0)
    assert panel.shown["error"] == "" and panel.frame.set_index("place").loc[own, "usd"] == alone.loc[own, "usd"]
    panel.update(utilisation=140)
    assert "Utilisation = 140 is outside its range" in panel.answer


def test_an_own_price_of_a_rented_place_holds_for_it_alone(panel: Any) -> None:
    """8 accelerators at 0.50 USD an hour, by the panel and by the call that it gives; other places keep their cost."""
    before = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4).frame()
    panel.update(quoted="cloud-h100", hourly=0.5)
    assert 'prices={"cloud-h100": 0.5}' in panel.code and "hourly=0.5" in panel.code
    after = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, prices={"cloud-h100": 0.5}).frame()
    assert after.at["cloud-h100", "usd"] < before.at["cloud-h100", "usd"]
    others = [key for key in before.index if key != "cloud-h100"]
    assert after.loc[others, "usd"].equals(before.loc[others, "usd"])
    assert panel.answer.startswith(dollars(float(after.at["cloud-h100", "usd"])))
    said = "Price: Cloud, 8 × H100, on demand is at your price of $0.50 per hour, all others at list prices."
    assert said in panel.answer
    panel.update(private="in house", deadline="1 h")
    assert "None of" in panel.answer and said in panel.answer
    panel.update(hourly=0)
    assert "your price" not in panel.answer
    panel.update(hourly=0.5, quoted="on-premises-h100")
    assert "is not rented by the hour; take one of" in panel.shown["error"]


def test_an_own_quote_of_a_purchase_holds_for_it_alone(panel: Any) -> None:
    before = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4).frame()
    panel.update(bought="workstation", purchase=9000)
    assert 'prices={"workstation": 9000.0}' in panel.code and "purchase=9000" in panel.code
    prices = {"workstation": 9000}
    after = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, prices=prices).frame()
    assert after.at["workstation", "usd"] > before.at["workstation", "usd"]
    assert panel.frame.set_index("place").at["workstation", "usd"] == after.at["workstation", "usd"]
    assert "Price: Workstation, 1 × RTX 4090 is at your quote of $9,000, all others at list prices." in panel.answer
    panel.update(hourly=0.5)
    assert "is at your price of $0.50 per hour, Workstation, 1 × RTX 4090 is at your quote of $9,000" in panel.answer
    panel.update(purchase=0, hourly=0)
    assert "your quote" not in panel.answer
    panel.update(purchase=9000, bought="cloud-h100")
    assert "is not bought; take one of" in panel.shown["error"]


def test_ranges_of_the_sensitivity_are_amounts_as_people_write_them(panel: Any) -> None:
    """In dollars per year, not 6e+03 to 5.5e+04 USD/year."""
    rules = {"private": "in house", "deadline": "60 d"}
    panel.update(**rules, picture="tornado")
    found = cb.planning.where_to_run("resnet152", "imagenet-21k", epochs=30, runs=4, **rules)
    staff = found.tornado().set_index("figure").loc["staff"]
    texts = pd.DataFrame(panel.columns)["text"].tolist()
    assert staff["unit"] == "USD/year" and f"{dollar_range(staff['low'], staff['high'])} per year" in texts
    assert not [text for text in texts if "e+" in text or "USD" in text]
