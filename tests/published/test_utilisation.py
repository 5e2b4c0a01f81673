"""Conventions of utilisation give the figures that publishers printed for runs whose time they printed too."""

import numpy as np
import pytest

import cookbook as cb

PRINTED = {
    "hardware": (
        "Narayanan et al. 2021; NVIDIA's and BigScience's logs",
        lambda r: cb.utilisation.narayanan_2021(r.layers, r.hidden, r.seq_len, r.vocab),
    ),
    "hardware_8n": ("BigScience", lambda r: cb.utilisation.kaplan_2020(r.parameters, recomputed=1)),
    "maxtext": ("Google MaxText", lambda r: cb.utilisation.chowdhery_2022(r.parameters, r.layers, r.hidden, r.seq_len)),
    "mosaic": ("MosaicML", lambda r: cb.utilisation.chowdhery_2022(r.parameters, r.layers, r.hidden, r.seq_len)),
    "model_full_attention": (
        "Korthikanti et al. 2022; NVIDIA NeMo",
        lambda r: cb.utilisation.korthikanti_2022(r.layers, r.hidden, r.seq_len, r.vocab),
    ),
}


@pytest.mark.parametrize("convention", PRINTED)
def test_rates_in_print(convention):
    table = cb.table("training_transformer").query("flops_convention == @convention and experts != experts")
    rows = table[(table["hidden"] > 0) & (table["tokens_per_s"] > 0) & (table["reported_flops"] > 0)]
    assert len(rows) >= 5
    ours = PRINTED[convention][1](rows) * rows["tokens_per_s"] / rows["devices"]
    assert np.median(ours / rows["reported_flops"]) == pytest.approx(1, abs=0.02)


def test_recomputation_in_print_is_a_third():
    """Narayanan's 96 counts four passes where Korthikanti's 72 counts three."""
    sizes = (96, 12288, 2048, 51200)
    ratio = cb.utilisation.narayanan_2021(*sizes) / cb.utilisation.korthikanti_2022(*sizes)
    assert float(ratio) == pytest.approx(4 / 3, rel=5e-3)


def test_a_figure_that_contradicts_itself_is_caught():
    """In rows marked palm_mfu the TFLOP/s count work that the MFU beside them does not."""
    table = cb.table("training_transformer").query("flops_convention == 'palm_mfu' and mfu > 0")
    peak = table["accelerator"].map(cb.table("accelerators").set_index("key")["peak_bf16"])
    assert (table["reported_flops"] / peak / table["mfu"]).min() > 1.1
