"""Layouts of steps for which the reader states none: they fit where any does, and every door takes the same."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.prediction.answer import answer
from cookbook.prediction.kinds.constraints import CHUNKS, usual_chunks

MODELS = (
    ("deepseek_v3", "h800-sxm", 2048),
    ("mixtral_8x7b", "h100-sxm", 64),
    ("llama3_405b", "h100-sxm", 1024),
    ("llama3_70b", "a100-sxm-80gb", 32),
)


@pytest.mark.parametrize(("model", "device", "devices"), MODELS)
def test_a_step_without_a_layout_fits_and_says_what_was_taken(model, device, devices):
    step = cb.train_step(model, device, devices=devices)
    assert step.fits == "yes" and ("tp = " in step.assumed or "ep = " in step.assumed)
    (batch,) = np.ravel(step.rows.global_batch).tolist()
    best = cb.search(model, device, devices, int(batch), micro_batch=1).table.iloc[0]
    # The search computes all layers again or none, a default as many as it must; neither is far from the other.
    assert best["step_seconds"] / 1.5 < step.point < 1.5 * best["step_seconds"]


def test_deepseek_v3_by_defaults_is_no_longer_an_order_of_magnitude_off():
    """14.8 T tokens took 2.66 M hours of an H800 in fp8: 1,545 tokens a second and device (its report, table 1)."""
    step = cb.train_step("deepseek_v3", "h800-sxm", devices=2048, global_batch=15360, precision="fp8")
    assert 1545 / 2 < step.tokens_per_s / 2048 < 1545 * 2


def test_what_is_stated_stays():
    stated = cb.train_step("deepseek_v3", "h800-sxm", devices=2048, pp=16, ep=64, vp=1)
    assert "tp" not in stated.assumed.split("; ")[0] and (stated.rows.pp, stated.rows.ep) == (16, 64)
    # One device has no layout: what does not fit there is said not to.
    alone = cb.train_step("llama3_8b", "h100-sxm", devices=1)
    assert alone.fits == "no" and alone.rows.tp == alone.rows.pp == 1


def test_stages_are_cut_as_their_stack_cuts_them():
    plan = {"devices": 64, "tp": 8, "pp": 8, "global_batch": 64}
    cut, whole = (cb.train_step("gpt3_175b", "a100-sxm-80gb", **plan, **more) for more in ({}, {"vp": 1}))
    assert "vp = 6" in cut.assumed and cut.parts["bubble"] < whole.parts["bubble"] / 3 and cut.point < whole.point
    assert cut.point == cb.train_step("gpt3_175b", "a100-sxm-80gb", **plan, vp=6).point
    # Eager PyTorch cuts none; nor does a pipeline that is fed no whole number of rounds, or says it is not interleaved.
    for more in ({"software": "PyTorch"}, {"global_batch": 12}, {"pipeline_schedule": "1f1b"}):
        assert cb.train_step("gpt3_175b", "a100-sxm-80gb", **plan | more).rows.vp == 1, more


def test_llama_405b_interleaves_though_its_layers_count_with_embedding_and_head():
    step = cb.train_step("llama3_405b", "h100-sxm", devices=16384, tp=8, pp=16)
    assert step.rows.vp == 4 and step.fits == "yes"


def test_tables_and_sweeps_take_the_layout_of_the_call():
    single = cb.train_step("mixtral_8x7b", "h100-sxm", devices=64)
    table = answer(
        pd.DataFrame(
            [{"model": "mixtral_8x7b", "accelerator": "h100-sxm", "devices": devices} for devices in (8, 64, 64)]
        ),
        "training_transformer",
    )
    steps = cb.sweep("train_step", model="mixtral_8x7b", accelerator="h100-sxm", devices=[8, 64], progress=False)
    assert table["predicted"].iloc[1] == table["predicted"].iloc[2] == pytest.approx(single.point, rel=1e-12)
    assert steps["seconds"].iloc[1] == pytest.approx(single.point, rel=1e-12)
    assert table["fits"].tolist() == ["no", "yes", "yes"]


def test_a_grid_cuts_stages_as_a_call_does():
    """Of a sweep, where only some layouts interleave: rounds are whole for some batches, stages for some networks."""
    axes = {"pp": [1, 4, 8], "global_batch": [64, 96, 100], "software": ["", "PyTorch FSDP"]}
    plan = {"model": "gpt3_175b", "accelerator": "a100-sxm-80gb", "devices": 64, "tp": 8}
    swept = cb.sweep("train_step", progress=False, **plan, **axes)
    cut = 0
    for row in swept.to_dict("records"):
        named = {"global_batch": row["global_batch"], "pp": row["pp"], "software": row["software"] or None}
        if row["why"]:
            continue
        step = cb.train_step("gpt3_175b", "a100-sxm-80gb", devices=64, tp=8, **named)
        assert row["seconds"] == pytest.approx(step.point, rel=1e-12), named
        cut += step.rows.vp > 1
    assert cut >= 2


def test_chunks_hold_two_layers_and_fill_stages_evenly():
    layers, stages = np.meshgrid([12, 24, 32, 61, 80, 96, 118, 126], [2, 4, 8, 16], indexing="ij")
    chunks = usual_chunks(layers, stages)
    cut = chunks > 1
    whole, with_ends = layers / (stages * chunks), (layers + 2) / (stages * chunks)
    assert cut.any() and ((whole[cut] % 1 == 0) | (with_ends[cut] % 1 == 0)).all() and (with_ends[cut] >= 2).all()
    assert chunks.max() <= 6 and usual_chunks(np.nan, 4) == 1 and max(CHUNKS) <= 6
