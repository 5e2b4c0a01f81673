"""Sweeps: one row a combination, accelerator and batch, whether it can be computed or not."""

import itertools

import pandas as pd
import pytest

import cookbook as cb
from cookbook.planning import explore
from cookbook.prediction.api import forward_pass, generate, train_step
from cookbook.prediction.requirements import requirements
from cookbook.topics.sweeps import sweeping
from cookbook.topics.sweeps.sweeping import sweep

DEVICES = ["k40", "v100-sxm2-16gb"]


def test_a_sweep_is_the_outer_product_of_its_axes():
    frame = sweep(model=["resnet18", "vgg16"], batch=[1, 2, 4], accelerator=DEVICES, precision="fp32")
    assert len(frame) == 2 * 3 * 2
    need = requirements("vgg16", 4, precision="fp32", accelerators=["k40"])
    row = frame.query("model == 'vgg16' and batch == 4 and key == 'k40'").iloc[0]
    assert row.needed_bytes == need.memory_bytes == row.fixed_bytes + 4 * row.bytes_per_sample


def test_a_combination_that_fails_has_all_its_rows_and_says_why():
    frame = sweep(model="gpt2", seq=[128, 128.5], batch=[1, 2, 4], accelerator=DEVICES, precision="fp32")
    assert len(frame) == 2 * 3 * 2
    good, failed = (frame[frame["seq"] == seq].reset_index(drop=True) for seq in (128, 128.5))
    assert failed[["key", "batch"]].equals(good[["key", "batch"]])
    assert failed["verdict"].eq("cannot tell").all() and failed["why"].str.startswith("seq = 128.5").all()
    assert failed[["needed_bytes", "peak_flops", "largest_batch", "activations"]].isna().all(axis=None)
    assert not failed["fits"].any() and good["fits"].all() and frame["fits"].dtype == bool


def test_a_sweep_of_failures_alone_has_the_usual_columns():
    failed = sweep(model="resnet50", seq=128, batch=[1, 2], accelerator=DEVICES)
    good = sweep(model="gpt2", seq=128, batch=[1, 2], accelerator=DEVICES)
    assert list(failed.columns) == list(good.columns) and len(failed) == len(good) == 4


def test_accelerators_is_the_same_axis():
    one, other = (sweep(model="resnet18", **{axis: DEVICES}) for axis in ("accelerator", "accelerators"))
    assert one.equals(other)
    with pytest.raises(ValueError, match="one axis; give one of the two"):
        sweep(model="resnet18", accelerator="k40", accelerators="k40")
    with pytest.raises(ValueError, match="unknown axis 'optimizer'"):
        sweep(optimizer="adam")


def test_the_optimiser_as_an_axis_keeps_its_name():
    frame = sweep(model="resnet18", optimiser=["sgd", "adam"], accelerator="k40")
    assert frame["optimiser"].tolist() == ["sgd", "adam"]
    parameters = requirements("resnet18", accelerators=["k40"]).parameters
    assert frame["optimiser_bytes"].tolist() == [0, 2 * 4 * parameters]


AXES = {
    "model": ["llama2_7b", "resnet50", "mixtral-8x7b", "llama3-8b"],
    "accelerator": ["h100-sxm", "tpu-v4", "k40"],
    "devices": [16, 64],
    "tp": [1, 4, 3],
    "pp": [1, 2],
    "global_batch": [64, 96, 100],
    "recompute": [None, "full"],
    "zero": [1, 3],
}


@pytest.mark.parametrize("block", [1 << 16, 100, 1])
def test_a_sweep_of_steps_tells_what_single_calls_tell(block, monkeypatch):
    monkeypatch.setattr(sweeping, "GRID_ROWS", block)
    axes = AXES | ({} if block > 1 else {"devices": 64, "zero": 1, "model": AXES["model"][:2]})
    frame = sweep("train_step", progress=False, **axes)
    assert frame["devices"].dtype.kind == frame["tp"].dtype.kind == "i" and frame["why"].ne("").any()
    compared = 0
    for row in frame.sample(min(len(frame), 120), random_state=1).to_dict("records"):
        given = {name: row[name] for name in AXES if row[name] != "None"}
        if row["why"]:
            with pytest.raises(ValueError, match=r"\w+"):
                train_step(**given)
            continue
        one = train_step(**given)
        compared += 1
        for name in ("low80", "high80", "rate", "memory_bytes", "tokens_per_s"):
            assert row[name] == pytest.approx(getattr(one, name), rel=1e-9, nan_ok=True), (name, row)
        assert row["seconds"] == pytest.approx(one.point, rel=1e-9)
        assert [row[name] for name in ("fits", "bottleneck", "tier")] == [one.fits, one.bottleneck, one.tier]
    assert compared > 10


def test_whole_numbers_stay_whole_in_a_sweep():
    assert sweep(model="resnet18", batch=[1, 2], accelerator="k40")["batch"].dtype.kind == "i"
    assert sweep(model="resnet18", batch=[1, -2], accelerator="k40")["batch"].isna().any()


@pytest.mark.parametrize(
    ("of", "door", "axes"),
    [
        (
            "train_step",
            train_step,
            {
                "model": ["resnet50", "bert_large"],
                "micro_batch": [8, 64],
                "devices": [1, 16],
                "precision": [None, "fp32"],
            },
        ),
        (
            "forward_pass",
            forward_pass,
            {"model": ["resnet50", "llama2_7b"], "batch": [1, 32], "precision": [None, "fp32"]},
        ),
        (
            "generate",
            generate,
            {"model": ["llama2_7b"], "batch": [1, 32], "input_len": [512, 4096], "weights_format": [None, "awq"]},
        ),
    ],
)
def test_a_sweep_of_any_question_tells_what_its_door_tells(of, door, axes):
    frame = sweep(of, progress=False, accelerator=["h100-sxm", "v100-sxm2-16gb"], **axes)
    assert len(frame) >= 16 and (frame["why"] == "").mean() > 0.8
    for row in frame.to_dict("records"):
        given = {name: row[name] for name in axes if row[name] != "None"}
        if row["why"]:
            with pytest.raises(ValueError, match=r"\w+"):
                door(given.pop("model"), row["accelerator"], **given)
            continue
        one = door(given.pop("model"), row["accelerator"], **given)
        assert [row["seconds"], row["low80"]] == pytest.approx([one.point, one.low80]) and row["tier"] == one.tier


def test_what_a_network_is_not_asked_has_a_reason_in_its_rows():
    axes = {"model": ["resnet50", "llama2_7b"], "devices": 8, "tp": [1, 2], "seq": [None, 512]}
    frame = sweep("train_step", accelerator="h100-sxm", **axes)
    refused = frame[frame["why"] != ""]
    assert set(refused["model"]) == {"resnet50"} and len(refused) == 3
    assert refused["why"].str.contains("tp = 2|seq = 512").all() and refused["seconds"].isna().all()
    with pytest.raises(ValueError, match="unknown axis 'tp' of forward_pass"):
        sweep("forward_pass", model="resnet50", accelerator="t4", tp=2)


def test_an_axis_of_a_thousand_million_values_is_refused_before_it_is_listed():
    with pytest.raises(ValueError, match="accelerator has 1,000,000,000 values"):
        sweep(model="resnet50", accelerator=range(10**9))


TOO_MANY = dict.fromkeys(("devices", "tp", "pp", "cp", "ep", "vp", "micro_batch", "global_batch", "seq"), range(1, 101))


def endless():
    yield from iter(int, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: sweep("train_step", model="llama2_7b", accelerator="h100-sxm", **TOO_MANY),
            "1,000,000,000,000,000,000",
        ),
        (
            lambda: explore("train_step", model="llama2_7b", accelerator="h100-sxm", **TOO_MANY),
            "than 1,000,000,000,000:",
        ),
        (lambda: sweep(model="llama2_7b", accelerator="t4", batch=range(1, 2000), seq=range(1, 2000)), "3,996,001"),
        (lambda: sweep(model="resnet50", accelerator="t4", batch=range(10**30)), "batch has 1,000,000,000,000"),
        (
            lambda: explore("train_step", model="llama2_7b", accelerator="t4", devices=range(10**30)),
            "devices has 1,000",
        ),
        (lambda: sweep(model="resnet50", accelerator="t4", batch=endless()), "batch = a generator: give one value"),
        (
            lambda: sweep("train_step", model=itertools.cycle(["resnet50"]), accelerator="t4"),
            "model = a cycle: give one",
        ),
        (lambda: cb.requirements("resnet50", accelerators=itertools.cycle(["t4"])), "more than 10,000 entries"),
        (lambda: cb.planning.compare("resnet50", itertools.cycle(["t4"])), "more than 10,000 entries"),
        (lambda: cb.planning.jain_index(range(10**9)), "shares has 1,000,000,000 entries"),
        (lambda: cb.planning.least_squares_growth(range(10**9), [1.0]), "years = a range of 1,000,000,000"),
        (lambda: cb.planning.accuracy_curve("adc_bits", range(10**9)), "values = a range of 1,000,000,000"),
    ],
)
def test_what_has_no_end_is_refused_before_memory_fills(call, words, within):
    with within(5), pytest.raises(ValueError, match=words):
        call()


def test_a_column_of_a_table_is_an_axis():
    batches = pd.Series([16, 32])
    frame = sweep(model=pd.Index(["resnet50"]), accelerator="t4", batch=batches)
    assert frame["batch"].tolist() == [16, 32]
    steps = cb.train_step("resnet50", "t4", micro_batch=batches)
    assert steps.point.tolist() == cb.train_step("resnet50", "t4", micro_batch=[16, 32]).point.tolist()


def test_no_accelerator_is_a_reason_in_each_row():
    rows = cb.sweep(
        "train_step", model="llama2_7b", accelerator=None, devices=[8, 16], global_batch=512, progress=False
    )
    assert len(rows) == 2 and rows["why"].str.startswith("accelerator = None is no machine; give").all()
