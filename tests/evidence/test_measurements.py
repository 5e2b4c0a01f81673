"""All measurements in one frame: each row once, units by hand, rules on frames small enough to check by eye."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.evidence import measurement_rows, measurements

ROWS = cb.measurements()


def table_row(table: str, **where: object) -> pd.Series:
    """First row of a table with these cells."""
    rows = cb.table(table)
    return rows[np.logical_and.reduce([rows[name] == value for name, value in where.items()])].iloc[0]


def of(name: str) -> pd.Series:
    return ROWS.set_index("id").loc[name]


def test_every_row_of_every_table_is_there_once():
    tables = {name: cb.table(name) for name in measurement_rows.READERS}
    assert len(ROWS) == sum(map(len, tables.values())) and ROWS["id"].is_unique
    plain = ROWS["id"].str.replace(r"^training_classic:|^inference:", "", regex=True)
    for table in tables.values():
        assert "id" not in table or set(table["id"]) <= set(plain)
    assert list(ROWS.columns) == list(measurements.COLUMNS)


def test_what_is_not_known_is_missing_and_never_zero():
    numbers = ROWS.select_dtypes(float).drop(columns=["year"])
    assert not (numbers == 0).any().any()
    assert ROWS.select_dtypes(exclude=float).notna().all().all()
    assert not np.isinf(numbers).any().any()
    assert (ROWS["url"].str.startswith("http") | ROWS["source"].str.contains("recalled", case=False)).all()


def test_rates_and_times_are_in_si():
    first = table_row("inference", metric="TTFT ms p50")
    assert of(first["id"])["time"] == pytest.approx(first["value"] / 1000) and math.isnan(of(first["id"])["throughput"])
    each = table_row("inference", metric="output tokens/s/GPU", devices=8)
    assert of(each["id"])["throughput"] == pytest.approx(8 * each["value"])
    assert (of(each["id"])["unit"], of(each["id"])["per_device"]) == ("output tokens/s", pytest.approx(each["value"]))
    step = table_row("training_transformer", id="mosaic-llmfoundry-2024-001")
    assert of(step["id"])["throughput"] == pytest.approx(4096 * 2048 / 16.268, rel=1e-4)
    assert of(step["id"])["per_watt"] == pytest.approx(step["tokens_per_s"] / 512 / 700)  # 700 W of TDP
    product = ROWS[ROWS["kind"] == "matmul"].iloc[0]  # Gaudi 2, as printed: 418.7 TFLOP/s of 432 in bf16
    assert product["throughput"] == pytest.approx(418.7e12) and product["utilisation"] == pytest.approx(0.969, abs=1e-3)
    exchange = ROWS[ROWS["kind"] == "collectives"].iloc[0]  # 32 KiB at 0.75 GB/s; 1.31 GB/s of bus bandwidth
    assert exchange["time"] == pytest.approx(32768 / 0.75e9) and exchange["throughput"] == pytest.approx(1.31e9)
    assert math.isnan(exchange["per_device"])


def test_a_time_needs_a_batch_in_the_unit_that_is_counted():
    timed = ROWS[(ROWS["kind"] == "training") & (ROWS["time_of"] == "step")]
    images = timed[timed["unit"] == "images/s"]
    assert np.allclose(images["time"], images["batch"] / images["throughput"])
    classic = ROWS["id"].isin(cb.table("training_classic").query("unit == 'tokens/s'")["id"])
    assert ROWS.loc[classic, "time"].isna().all()


def synthetic(**columns: object) -> pd.DataFrame:
    """Runs that differ only in what is given."""
    rows = pd.DataFrame(columns)
    same = dict.fromkeys(measurement_rows.CURVE_KEYS, "a") | {"kind": "training", "layout": ""}
    rows = rows.assign(**{name: value for name, value in same.items() if name not in rows})
    return rows.assign(batch_per_device=rows["batch"] / rows["devices"])


def test_weak_and_strong_efficiency_by_hand():
    batch, rate = [64.0, 64.0, 512.0, 64.0], [90.0, 110.0, 720.0, 400.0]
    rows = synthetic(devices=[1.0, 1.0, 8.0, 8.0], batch=batch, throughput=rate)
    found = measurement_rows.efficiencies(rows)
    assert found["weak_efficiency"].tolist() == pytest.approx([math.nan, math.nan, 0.9, math.nan], nan_ok=True)
    assert found["strong_efficiency"].tolist() == pytest.approx([math.nan, math.nan, math.nan, 0.5], nan_ok=True)
    assert found["scaling"].tolist() == ["weak and strong", "weak and strong", "weak", "strong"]


@pytest.mark.parametrize("column", ["publisher", "model", "software", "precision", "accelerator", "layout", "unit"])
def test_another_publisher_or_software_is_no_base(column):
    rows = synthetic(devices=[1.0, 8.0], batch=[64.0, 512.0], throughput=[100.0, 720.0], **{column: ["a", "b"]})
    found = measurement_rows.efficiencies(rows)
    assert found["weak_efficiency"].isna().all() and found["scaling"].eq("").all()


def test_only_training_and_inference_scale():
    rows = synthetic(devices=[1.0, 8.0], batch=[64.0, 512.0], throughput=[100.0, 720.0], kind=["storage", "storage"])
    assert measurement_rows.efficiencies(rows)["weak_efficiency"].isna().all()


def test_a_server_is_known_where_the_row_names_it_alone():
    keys = pd.Series(["tpu-v3", "tpu-v3", "v100-sxm2-16gb", "p100-sxm2-16gb", "v100-sxm2-16gb"])
    said = pd.Series(["TPU v3-8", "TPU v3-8192", "NVIDIA DGX-1 with 8x V100", "dgx1_ngc20.06", "a machine"])
    found = measurement_rows._servers(keys, said)
    assert found["server"] == ["GCP TPU v3-8", "", "DGX-1 (V100)", "DGX-1 (P100)", ""]
    assert found["processor"][2:] == ["Xeon E5-2698 v4", "Xeon E5-2698 v4", ""]


def test_predictions_are_those_of_left_out_publishers():
    judged = cb.accuracy("row").set_index("id")
    known = ROWS.assign(id=ROWS["id"].str.removeprefix("training_classic:")).query("kind == 'training'").set_index("id")
    known = known.loc[judged.index]
    faster = judged["unit"].str.endswith("/s")
    for end, other in (("predicted", "predicted"), ("low_80", "high_80"), ("high_80", "low_80")):
        wanted = np.where(faster, judged[end], known["throughput"] * judged["measured"] / judged[other])
        np.testing.assert_allclose(known[end.replace("_", "")], wanted, rtol=1e-5)


def test_utilisation_counts_the_layers():
    run = of("mosaic-llmfoundry-2024-001")
    flop = 6 * 64.8624e9 + 12 * 80 * 8192 * 2048
    assert run["utilisation"] == pytest.approx(flop * run["throughput"] / 512 / 989e12, rel=1e-3)
    rows = cb.measurements(network="resnet50", kind="training", precision="fp32", classic_flop=True)
    run = rows[rows["task"].str.contains("224")].iloc[0]
    peak = cb.accelerator(run["accelerator"]).peaks["peak_fp32"]
    assert run["utilisation"] == pytest.approx(6 * 3.86e9 * run["throughput"] / run["devices"] / peak, rel=0.01)


def test_filters_equal_plain_pandas():
    found = cb.measurements(kind="training", framework=["TensorFlow", "Caffe"], devices=(2, None), network="ResNet-50")
    plain = ROWS[
        (ROWS["kind"] == "training")
        & ROWS["framework"].isin(["TensorFlow", "Caffe"])
        & (ROWS["devices"] >= 2)
        & (ROWS["network"] == "resnet50")
    ]
    pd.testing.assert_frame_equal(found, plain)
    assert len(cb.measurements(devices=8)) == (ROWS["devices"] == 8).sum()
    found.loc[:, "throughput"] = 0  # a copy: the frame stays as it is
    assert not (cb.measurements()["throughput"] == 0).any()


def test_versus_leaves_one_thing_to_differ():
    pairs = cb.measurements(kind="training", versus="framework")
    for _, each in pairs.groupby("setting"):
        assert each["framework"].is_unique and len(each) == each["values"].iloc[0] > 1
        assert (each[list(measurements.DECIDING_COLUMNS)].nunique(dropna=False) == 1).all()
        np.testing.assert_allclose(each["times"], each["throughput"] / each["throughput"].min())
    best = ROWS.set_index("id").loc[pairs["id"]]
    assert (best["throughput"].to_numpy() == pairs["throughput"].to_numpy()).all()
    with pytest.raises(ValueError, match="no two values of framework were measured with all else equal"):
        cb.measurements(network=["resnet18", "resnet34"], kind="training", versus="framework")


def test_the_nearest_to_a_row_is_that_row():
    near = cb.measurements(near="dle-0124")
    assert near["id"].iloc[0] == "dle-0124" and near["distance"].iloc[0] == 0
    assert near["distance"].is_monotonic_increasing and (near["kind"] == "training").all()
    vendors = cb.table("accelerators").set_index("key")["vendor"]
    assert set(near["accelerator"].map(vendors)) == {"NVIDIA"}
    two = cb.measurements(near={"model": "resnet50", "devices": 8, "accelerator": "V100 SXM2 16GB"}, kind="training")
    alike = two[two["network"] == "resnet50"].set_index("devices")["distance"]
    assert alike.groupby(level=0).min().idxmin() in (4, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"netork": "x"}, "no column 'netork'; nearest: network"),
        ({"framework": "mxnt"}, "no measurement has framework = 'mxnt'; nearest: .*MXNet"),
        ({"accelerator": "zz-9000"}, "no measurement has accelerator = 'zz-9000'; nearest"),
        ({"year": "late"}, "year = 'late' is not a number; give one, or \\(lowest, highest\\)"),
        ({"year": (1, 2, 3)}, "is not a number"),
        ({"near": "abc"}, "no measurement has id = 'abc'; nearest"),
        ({"near": {"gpu": 1}}, "near has no field 'gpu'; it has kind"),
        ({"near": {"devices": 0, "model": "resnet50"}}, "devices = 0 is not possible; give a number above 0"),
        ({"near": {"devices": 1}}, "near names nothing to compare"),
        ({"near": {"model": "resnet50", "accelerator": "zz-9"}}, "no accelerator called 'zz-9'"),
        ({"near": {"model": "resnt50"}}, "no model called 'resnt50'; nearest names: resnet50"),
        ({"devices": (8, 4)}, "holds nothing: give the lowest first"),
        ({"devices": (10**9, None)}, "no measurement matches devices = 1000000000 to most"),
        ({"kind": "matmul", "framework": "MXNet"}, "no measurement matches kind = matmul, framework = MXNet: loosen"),
    ],
)
def test_bad_input_is_told(call, words):
    with pytest.raises((ValueError, KeyError), match=words):
        cb.measurements(**call)
