"""Charts: readable, described, equal on every machine, and drawn without a network."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cookbook.charts import devices, live, look, models
from cookbook.topics.accuracy import charts as accuracy
from cookbook.topics.runs import charts as runs
from cookbook.topics.serving import charts as serving
from cookbook.topics.storage import charts as storage

RATES = pd.DataFrame(
    [
        ["A needs", "need", 2.6e14, None, None, None, None, "260 TFLOP/s"],
        ["B", "device", 3.1e14, 2.0e14, 2.7e14, 5, "possible", "84 %|within what was measured"],
        ["C", "device", 1.2e14, 1e14, 1e14, 1, "too slow at its peak", "220 %|3 devices at least"],
        ["D", "device", None, None, None, None, "not known", "no bf16 peak known"],
    ],
    columns=["row", "role", "rate", "low", "high", "measured", "verdict", "text"],
)
BYTES = pd.DataFrame(
    [
        ["A needs", "need", "weights", 2e9, None, "5 GB"],
        ["A needs", "need", "activations", 3e9, None, None],
        ["B", "device", "capacity", 8e9, "fits", "8 GB"],
        ["C", "device", "capacity", 4e9, "does not fit", "4 GB"],
    ],
    columns=["row", "role", "part", "bytes", "verdict", "text"],
)
ZOO = pd.DataFrame(
    [
        ["One", "convolution", 2.5e7, 8e9, "published", "One", True],
        ["Two", "transformer", 7e9, 1.4e13, "unverified", "", False],
    ],
    columns=["title", "group", "parameters", "flop", "status", "label", "selected"],
)
RUNS = pd.DataFrame(
    [[1.0, 1.1, "a", None, 10.0, 11.0, 1, 0, 0, 0, 0], [8.0, 0.4, "b", 1, 5e3, 2e3, 8, 0, 0, 0, 0]],
    columns=["at", "ratio", "group", "rank", "measured", "predicted", "count", "source", "model", "device", "unit"],
)
ERRORS = pd.DataFrame(
    [["a", 8.0, 4.0, 15.0, 12.0, "8 %"], ["b", 20.0, 10.0, 30.0, None, "20 %"]],
    columns=["row", "median", "lower", "upper", "before", "text"],
)
COVERAGE = pd.DataFrame(
    [["a", 90.0, 70.0, 88.0, "more than chance", "90 %"], ["b", 50.0, 70.0, 88.0, "less than chance", "50 %"]],
    columns=["row", "share", "low", "high", "verdict", "text"],
)
EFFECTS = pd.DataFrame(
    [["a (300)", 1.4, 1.1, "more accurate", False], ["b (2)", 0.9, 0.8, "less accurate", True]],
    columns=["row", "before", "after", "verdict", "few"],
)
MACHINE = pd.DataFrame(
    [
        ["path", 0, 0.5, 1.0, "", 0, "full", "a to b"],
        ["path", 0, 0.5, 0.0, "", 1, "full", "a to b"],
        ["node", -1, 0.5, 1.0, "0", 0, "", "a"],
        ["share", -1, 0.5, 0.5, "100 %", 0, "", ""],
    ],
    columns=["what", "id", "x", "y", "text", "order", "level", "tip"],
)
FLOWS = pd.DataFrame([["a", 2.0, 1.0, "x2"], ["b", 0.5, 1.0, "half"]], columns=["row", "got", "need", "text"])
CORES = pd.DataFrame(
    [["curve", 1, 500.0, 400.0, 600.0, 500.0, ""], ["demand", 1, 900.0, None, None, None, "takes 900"]],
    columns=["what", "cores", "rate", "low", "high", "chosen", "text"],
)
DAYS = pd.DataFrame(
    [
        ["curve", 20.0, 2e6, "64", 64, None, None, None, None],
        ["curve", 11.0, 2.2e6, "128", 128, None, None, None, None],
        ["here", 11.0, 2.2e6, "128", 128, 9.0, 13.0, 1e6, 4e6],
        ["deadline", 30.0, None, "deadline 30 days", None, None, None, None, None],
    ],
    columns=["what", "days", "cost", "text", "devices", "low", "high", "least", "most"],
)
INTERVALS = pd.DataFrame(
    [["curve", 10.0, 90.0, 80.0, 95.0, None], ["mark", 20.0, 97.0, None, None, "Daly 2006"]],
    columns=["what", "minutes", "useful", "low", "high", "text"],
)
LAYOUTS = pd.DataFrame(
    [["TP 8", "compute", 2.0, "9 days"], ["PP 8", "compute", 2.0, "10 days"], ["PP 8", "bubble", 0.2, None]],
    columns=["row", "part", "value", "text"],
)
COSTS = pd.DataFrame(
    [
        ["a", 90.0, 70.0, 120.0, "cheapest feasible", "$90"],
        ["b", 50.0, 40.0, 60.0, "will not do", "too late"],
        ["c", 95.0, 80.0, 300.0, "feasible", "$95"],
        ["d", None, None, None, "will not do", "no price"],
        ["e", 70.0, 60.0, 80.0, "not known", "$70, time not stated"],
    ],
    columns=["row", "usd", "low", "high", "verdict", "text"],
)
SWINGS = pd.DataFrame(
    [["price", 10.0, 40.0, 20.0, "$5 to $20/h"], ["tariff", 21.0, 19.0, 20.0, ""]],
    columns=["row", "start", "end", "centre", "text"],
)
PAID = pd.DataFrame(
    [
        ["owned", 0.0, 20.0, 15.0, 30.0, "a", 10.0],
        ["owned", 12.0, 22.0, 17.0, 33.0, "a", 10.0],
        ["rented", 0.0, 0.0, 0.0, 0.0, "b", 10.0],
        ["rented", 12.0, 24.0, 20.0, 40.0, "b", 10.0],
    ],
    columns=["what", "month", "usd", "low", "high", "text", "meets"],
)
DEVICES = pd.DataFrame(
    [
        ["a", 20.0, 10.0, 40.0, 90.0, None, "measured here", "20 (10-40)", True, "on", "a"],
        ["b", 5.0, 1.0, 25.0, 50.0, 7.0, "datasheet only", "5 (1-25)", False, "on", "b"],
        ["c", None, None, None, None, None, "", "no price", False, "on", "c"],
    ],
    columns=["row", "point", "low", "high", "peak", "before", "evidence", "text", "looked", "control", "value"],
)
ROOF = pd.DataFrame(
    [
        ["roof", "d", 0.1, 1e11, None, None, "d", True, "", ""],
        ["roof", "d", 300.0, 3e14, None, None, "d", True, "", ""],
        ["op", "x", 9.0, 9e12, "memory", 0.7, "norm x", True, "op", "x"],
        ["op", "y", 900.0, 3e14, "compute", 0.3, "conv y", False, "op", "y"],
        ["label", "d", 300.0, 3e14, None, None, "d", True, "", ""],
    ],
    columns=["what", "id", "x", "y", "bound", "share", "text", "looked", "control", "value"],
)
GROWTH = pd.DataFrame(
    [
        ["line", "a: x1.5", 2014.0, 1.0, ""],
        ["line", "a: x1.5", 2024.0, 57.7, ""],
        ["device", "a: x1.5", 2015.0, 2.0, "d"],
    ],
    columns=["what", "words", "year", "value", "name"],
)
LOADS = pd.DataFrame(
    [
        ["line", "TTFT p95", 1.0, 50.0, None],
        ["line", "TTFT p95", 9.0, 400.0, None],
        ["line", "TPOT p95", 1.0, 12.0, None],
        ["here", "TPOT p95", 5.0, 20.0, None],
        ["limit", None, None, 50.0, "TPOT limit"],
        ["capacity", None, 10.0, None, "capacity"],
    ],
    columns=["what", "series", "rate", "ms", "text"],
)
HELD = pd.DataFrame(
    [
        ["bf16", "weights", 16.0, "90 requests"],
        ["bf16", "KV cache free", 56.0, None],
        ["int4", "weights", 5.0, "110 requests"],
        ["int4", "KV cache free", 67.0, None],
    ],
    columns=["row", "part", "value", "text"],
)
CHARTS = {
    "knee": (serving.knee, LOADS),
    "engine memory": (serving.engine_memory, HELD),
    "days": (runs.days_usd, DAYS),
    "hours": (runs.days_hours, DAYS),
    "checkpoints": (runs.checkpoints, INTERVALS),
    "layouts": (runs.layout_parts, LAYOUTS),
    "per device": (devices.per_device, DEVICES),
    "roofline": (devices.roofline, ROOF),
    "growth": (devices.growth, GROWTH),
    "costs": (devices.place_costs, COSTS),
    "tornado": (devices.tornado, SWINGS),
    "paid": (devices.paid, PAID),
    "machine": (storage.machine, MACHINE),
    "gets": (storage.gets, FLOWS),
    "cores": (storage.over_cores, CORES),
    "points": (accuracy.points, RUNS),
    "errors": (accuracy.errors, ERRORS),
    "coverage": (accuracy.coverage, COVERAGE),
    "effects": (accuracy.effects, EFFECTS),
    "rate": (models.rate_needed, RATES),
    "memory": (models.memory_bars, BYTES),
    "zoo": (models.parameters_vs_flop, ZOO),
}


PARTS = [*look.TIME_PARTS.values(), *look.MEMORY_PARTS.values(), *look.MONEY_PARTS.values()]


def contrast(colour: str, background: str = look.PAPER) -> float:
    """Contrast of two colours `#rrggbb` as the Web Content Accessibility Guidelines define it: 1 (equal) to 21."""
    high, low = sorted((luminance(colour), luminance(background)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_black_on_white_has_all_contrast() -> None:
    assert contrast("#000000") == pytest.approx(21)


@pytest.mark.parametrize("colour", [*look.PALETTE, *PARTS])
def test_colours_stand_out_on_white(colour: str) -> None:
    assert contrast(colour) >= 3


@pytest.mark.parametrize("colour", [*look.PALETTE[:4], *PARTS])
def test_colours_stand_out_in_the_dark_theme(colour: str) -> None:
    assert contrast(colour, "#111111") >= 3


@pytest.mark.parametrize("parts", [look.TIME_PARTS, look.MEMORY_PARTS, look.MONEY_PARTS])
def test_parts_that_touch_differ(parts: dict[str, str]) -> None:
    assert len(set(parts.values())) == len(parts)
    assert all(a != b for a, b in pairwise(parts.values()))


# Deuteranopia in linear sRGB: Machado, Oliveira & Fernandes, IEEE TVCG 15 (6), 2009, severity 1; then CIE L*a*b*, D65.
GREEN_BLIND = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, sees: np.ndarray) -> np.ndarray:
    """Lightness, green to red and blue to yellow of a colour, as somebody sees it."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(sees @ linear, 0, 1) / (0.95047, 1.0, 1.08883)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_white_and_a_red_have_the_coordinates_of_the_standard() -> None:
    assert lab("#ffffff", np.eye(3)) == pytest.approx([100, 0, 0], abs=0.02)
    assert lab("#ff0000", np.eye(3)) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)


@pytest.mark.parametrize("parts", [look.TIME_PARTS, look.MEMORY_PARTS, look.MONEY_PARTS])
@pytest.mark.parametrize("sees", [np.eye(3), GREEN_BLIND], ids=["all", "green-blind"])
def test_parts_differ_whoever_looks(parts: dict[str, str], sees: np.ndarray) -> None:
    """A just noticeable difference is about 2.3; neighbours on a chart need several."""
    for (one, first), (other, second) in itertools.combinations(parts.items(), 2):
        assert np.linalg.norm(lab(first, sees) - lab(second, sees)) > 12, (one, other)


def test_verdicts_differ_in_shape_as_well_as_colour() -> None:
    for verdicts in (look.VERDICTS, devices.PLACES, devices.EVIDENCE, devices.BOUNDS, accuracy.NEARER):
        assert len({shape for _, shape in verdicts.values()}) == len(verdicts)


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_says_its_takeaway_its_units_and_its_description(name: str) -> None:
    draw, frame = CHARTS[name]
    spec = draw(frame).to_dict()
    assert len(spec["title"]["text"].split()) > 3
    assert len(spec["description"]) > 60
    titles = set(re.findall(r'"title": "([^"]+)"', json.dumps(spec["layer"])))
    assert any("[" in title or "logarithmic" in title for title in titles)
    assert draw(frame, title="Mine").to_dict()["title"]["text"] == "Mine"


@pytest.mark.parametrize("name", CHARTS)
def test_a_live_chart_carries_its_data_once(name: str) -> None:
    draw, frame = CHARTS[name]
    chart = live.LiveChart(draw(frame), frame)
    assert "datasets" not in chart.spec
    assert chart.spec["data"] == {"name": "live"}
    assert len(json.dumps(chart.get_state(["spec", "columns", "signals"]), default=str)) < 30_000


@pytest.mark.parametrize("name", CHARTS)
def test_no_chart_names_another_machine(name: str) -> None:
    draw, frame = CHARTS[name]
    spec, _ = live.live_spec(draw(frame))
    assert "http" not in json.dumps(spec)


def test_two_live_charts_have_the_same_digest_and_another_value_another() -> None:
    first, second = (live.LiveChart(models.rate_needed(RATES), RATES) for _ in range(2))
    assert repr(first) == repr(second)
    second.update(RATES.assign(rate=RATES["rate"] * 1.01))
    assert repr(first) != repr(second)


def test_the_digest_forgives_what_rounding_may_change() -> None:
    columns = live.to_columns(RATES)
    shifted = live.to_columns(RATES.assign(rate=RATES["rate"] * (1 + 1e-7)))
    assert live.digest(columns, {}) == live.digest(shifted, {})


def test_an_update_keeps_the_order_of_the_rows() -> None:
    chart = live.LiveChart(models.rate_needed(RATES), RATES)
    chart.update(RATES.iloc[::-1])
    assert chart.signals["rows"] == ["D", "C", "B", "A needs"]


def test_an_unknown_signal_is_refused_and_nothing_changes() -> None:
    chart = live.LiveChart(models.rate_needed(RATES), RATES)
    before = repr(chart)
    with pytest.raises(ValueError, match="x_low"):
        chart.update(RATES.head(1), x_lo=1.0)
    assert repr(chart) == before


def test_all_charts_of_a_kernel_share_one_bundle() -> None:
    first, second = (live.LiveChart(models.memory_bars(BYTES), BYTES) for _ in range(2))
    assert first.runtime is second.runtime
    assert len(first.runtime.source) > 500_000


def test_a_missing_bundle_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(live.MissingBundleError, match="install the package"):
        live.bundle_source(tmp_path / "vega_bundle.js")


def test_a_png_only_where_outputs_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = live.LiveChart(models.rate_needed(RATES), RATES)
    monkeypatch.delenv("COOKBOOK_STATIC", raising=False)
    data, _ = chart._repr_mimebundle_()
    assert "image/png" not in data and data["text/plain"] == repr(chart)
    monkeypatch.setenv("COOKBOOK_STATIC", "1")
    data, _ = chart._repr_mimebundle_()
    assert len(data["image/png"]) > 10_000


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_can_be_drawn(name: str) -> None:
    draw, frame = CHARTS[name]
    chart = live.LiveChart(draw(frame), frame)
    assert live.to_png(chart.spec, chart.columns, chart.signals).startswith(b"\x89PNG")


def test_a_readers_kernel_imports_no_vl_convert() -> None:
    code = "import sys, cookbook as cb; cb.panels.model_zoo(); print([m for m in sys.modules if 'vl_convert' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_axes_end_at_round_numbers() -> None:
    assert look.decades([3e12, 9e14]) == (1e12, 1e15)
    assert look.decades([]) == (1e9, 1e15)
    assert [look.nice_ceiling(x) for x in (0.9, 1.0, 1.2, 26, 71)] == [1.0, 1.0, 1.5, 30.0, 100.0]
    assert look.nice_ceiling(float("nan")) == 1.0


def test_the_memory_axis_shows_every_capacity_in_full() -> None:
    """80 and 192 GiB must not look alike, however little is needed."""
    frame = BYTES.assign(bytes=[1e8, 1e8, 80 * 2**30, 192 * 2**30])
    assert models.memory_domain(frame) >= 192


def drawn(frame: pd.DataFrame) -> str:
    """The rate picture as SVG."""
    import vl_convert

    spec = models.rate_needed(frame).properties(width=500).to_dict()
    return str(vl_convert.vegalite_to_svg(spec, vl_version=live.VEGA_LITE))


def test_one_measurement_is_a_tick_and_several_are_a_band() -> None:
    picture = drawn(RATES)
    assert re.findall(r'aria-label="low: [^;]*; row: (\w)', picture) == ["B"]
    assert picture.count('aria-roledescription="tick"') == 1 and "100T, best of one search (n = 1)" in picture
    assert drawn(RATES.drop(columns="measured")).count('aria-roledescription="tick"') == 2, "no number, no band"
    subtitle = models.rate_needed(RATES).title.subtitle
    assert "best matmul of one search" in subtitle and "10th to 90th percentile" in subtitle


def test_a_missing_measurement_is_not_told_as_zero() -> None:
    tips = json.dumps(models.rate_needed(RATES).to_dict())
    assert "isValid(datum.high) ? 'none'" in tips and '"title": "measured from"' not in tips


def test_titles_claim_no_more_than_is_known() -> None:
    assert models.rate_title(RATES) == "1 of 3 accelerators is not ruled out; too little is known of 1"
    none = RATES.assign(verdict=RATES["verdict"].where(RATES["verdict"] != "possible", "does not fit"))
    assert models.rate_title(none).startswith("None of the 3 accelerators could meet the target on its own")
    assert "of the networks here" in models.zoo_title(ZOO) and "per sample" in models.zoo_title(ZOO)


def test_effects_lie_between_ends_as_far_below_one_as_above() -> None:
    low, high = accuracy.effect_ends(EFFECTS).values()
    assert low <= 0.8 and high >= 1.4 and low * high == pytest.approx(1)
    assert accuracy.effect_ends(EFFECTS.assign(before=1e6))["high"] == accuracy.RATIOS[1]
