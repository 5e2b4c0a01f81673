"""Fine-tuning on a few devices: memory by hand, published figures, orders, and what cannot be."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.calibration import fit
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds.transformer import KIND, resolve
from cookbook.prediction.measurements import Measurement
from cookbook.prediction.parsing import tables
from cookbook.prediction.scenario import scenario

PUBLISHED = catalog.table("worked_examples").set_index(["example", "quantity"])["value"]
# Llama 3 8B: 32 layers of width 4,096 with 8 of 32 heads of keys and values, 14,336 inner units, 128,256 tokens.
H, KV, F, LAYERS, VOCABULARY = 4096, 1024, 14336, 32, 128256
LINEAR = LAYERS * (2 * H * H + 2 * H * KV + 3 * H * F)
EDGE = 2 * VOCABULARY * H
# The runtime and the allocator as the model of memory starts, so that what is fitted moves no test.
USUAL = configurations.usual()


def parts(**changes) -> dict[str, float]:
    given = {
        "model": "llama3_8b",
        "accelerator": "a100-sxm-80gb",
        "software": "transformers",
        "seq": 2048,
        "micro_batch": 1,
        "devices": 1,
        "recompute": "full",
    }
    rows = resolve(scenario(KIND, given | changes))
    assert rows.why[0] == ""
    return {name: float(np.ravel(part)[0]) for name, part in configurations.memory_parts(rows, USUAL).items()}


def states(**changes) -> float:
    found = parts(**changes)
    return sum(found[name] for name in ("weights", "gradients", "optimiser"))


def test_full_fine_tuning_by_hand_takes_16_bytes_a_parameter():
    """Weights and gradients of 2 bytes, master weight and two states of Adam of 4 each; 18 with gradients of 4."""
    assert pytest.approx(8.03e9, rel=1e-3) == LINEAR + EDGE
    found = parts(fine_tuning="full")
    assert found["weights"] == found["gradients"] == 2 * (LINEAR + EDGE)
    assert found["optimiser"] == 12 * (LINEAR + EDGE)
    assert states(software="megatron-lm-2021") == 18 * (LINEAR + EDGE)


@pytest.mark.parametrize(
    "modules, widths",
    [
        ("attention", [H + H, H + KV, H + KV, H + H]),
        ("all linear", [H + H, H + KV, H + KV, H + H, H + F, H + F, F + H]),
    ],
)
def test_lora_by_hand(modules, widths):
    """Two factors beside each product: 16 x (in + out) weights, each with 16 bytes; 13.6 and 41.9 million of them."""
    adapters = 16 * LAYERS * sum(widths)
    found = parts(fine_tuning="lora", rank=16, target_modules=modules)
    assert found["weights"] == 2 * (LINEAR + EDGE + adapters)
    assert found["gradients"] == 2 * adapters and found["optimiser"] == 12 * adapters
    assert adapters == {"attention": 13_631_488, "all linear": 41_943_040}[modules]


def test_embeddings_that_train_have_gradients_and_states():
    more = [states(fine_tuning="lora", target_modules=each) for each in ("all linear and embeddings", "all linear")]
    assert more[0] - more[1] == 14 * EDGE


def test_qlora_by_hand():
    """4 bits, an 8-bit scale for 64 weights, a 32-bit one for 256 of these: 4.127 bits; embeddings stay in 16 bits."""
    size = catalog.table("constants").set_index("name").loc["quantised-weight", "value"]
    assert float(size) == pytest.approx(0.5 + 1 / 64 + 4 / (64 * 256), rel=1e-3)
    adapters = 41_943_040
    found = parts(fine_tuning="qlora", rank=16, target_modules="all linear")
    assert found["weights"] == pytest.approx(float(size) * LINEAR + 2 * EDGE + 2 * adapters)
    assert found["gathered"] == 2 * H * F  # one product widened to 16 bits
    assert 5.5e9 < found["weights"] < 6e9


@pytest.mark.parametrize(
    "optimiser, low, high",
    [
        ("sgd", 4, 4),
        ("momentum", 8, 8),
        ("adam-8bit", 6, 6.1),
        ("adafactor", 4, 4.1),
        ("galore", 6, 8),
        ("lamb", 12, 12),
    ],
)
def test_states_of_other_optimisers(optimiser, low, high):
    assert low <= parts(optimiser=optimiser)["optimiser"] / (LINEAR + EDGE) <= high


def test_a_lighter_optimiser_is_no_slower():
    step = {
        name: cb.train_step("llama3_8b", "h200-sxm", optimiser=name, recompute="full", neighbours=False)
        for name in ("adam", "adam-8bit", "sgd")
    }
    seconds = [each.parts["optimiser"] for each in step.values()]
    assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == 3


def test_qlora_2023_65_billion_parameters_on_one_device_of_48_gb():
    """Published: one 48 GB device where 16 bits alone would need 130 GB."""
    given = {"model": "llama_65b", "accelerator": "rtx-a6000", "rank": 64, "target_modules": "all linear", "seq": 512}
    needed = {kind: sum(parts(fine_tuning=kind, **given).values()) for kind in ("lora", "qlora")}
    assert needed["qlora"] <= PUBLISHED["qlora-2023", "65B QLoRA"] * 2**30 < needed["lora"]


@pytest.mark.parametrize(
    "quantity, model, changes",
    [
        ("8B LoRA", "llama3_8b", {"fine_tuning": "lora"}),
        ("8B QLoRA", "llama3_8b", {"fine_tuning": "qlora"}),
        ("70B LoRA", "llama3_70b", {"fine_tuning": "lora", "devices": 8, "zero": 3, "global_batch": 16}),
    ],
)
def test_torchtune_2024_peak_memory(quantity, model, changes):
    """Its loss goes through the logits in pieces, and allocated memory leaves the runtime out: so do we."""
    found = parts(model=model, micro_batch=2, rank=8, target_modules="all linear", tp=1, pp=1, **changes)
    allocated = sum(found.values()) - found["transient"] - found["reserved"]
    assert allocated == pytest.approx(PUBLISHED["torchtune-2024", quantity] * 2**30, rel=0.12)


def stated(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Stated and needed memory of the rows of one way to fine-tune, fitted without the publisher who states it."""
    rows, table = fit.memory_rows(), catalog.table("training_transformer")
    own = np.zeros(len(rows.ran), dtype=bool)
    own[: len(table)] = (table["task"] == task) & table["source"].eq("qwen-2023-finetune") & (table["devices"] == 1)
    own &= np.isfinite(rows.stated)
    constants = fit.fit_memory(rows, ~np.isin(rows.group, rows.group[own]))
    return rows.stated[own], np.exp(fit.needed_over_capacity(rows, constants)[own]) * fit.capacity(rows)[own]


@pytest.mark.parametrize("task, most", [("finetune", 0.25), ("lora", 0.25), ("qlora", 0.25)])
def test_measured_memory_of_an_unseen_publisher(task, most):
    known, needed = stated(task)
    assert len(known) >= 6 and np.median(np.abs(needed / known - 1)) <= most


def test_the_interval_of_memory_covers_what_was_measured():
    """All rows with a statement, each publisher with the same weight."""
    rows = fit.memory_rows()
    good = np.isfinite(rows.stated) & (rows.scenarios.why == "")
    ratio = rows.stated[good] / (np.exp(fit.needed_over_capacity(rows, USUAL)[good]) * fit.capacity(rows)[good])
    figures = catalog.table("constants").set_index("name")["value"].astype(float)
    inside = (ratio >= figures["memory-interval-low"]) & (ratio <= figures["memory-interval-high"])
    share = pd.Series(inside).groupby(rows.group[good]).mean().mean()
    assert 0.65 <= share <= 0.95


@pytest.fixture(scope="module")
def tuned():
    return cb.finetune("llama3_8b", "rtx-4090", "20 M", method=["full", "lora", "qlora"], devices=[1, 8], epochs=3)


def test_llama_3_8b_on_one_rtx_4090(tuned):
    table = tuned.table.set_index(["method", "devices"])
    assert table.loc[("full", 1), "fits"] == "no" and table.loc[("qlora", 1), "fits"] in ("yes", "likely")
    assert table.loc[("lora", 1), "fits"] in ("likely", "unlikely")  # 16 GB of weights on 24
    # Without checkpointing QLoRA would be faster and likely fit; what fits for sure comes first.
    assert table.loc[("qlora", 1), "recompute"] == "full" and table.loc[("qlora", 1), "fits"] == "yes"
    faster = cb.finetune("llama3_8b", "rtx-4090", "20 M", method="qlora", recompute="none", epochs=3).table.iloc[0]
    assert faster["fits"] == "likely" and faster["hours"] < table.loc[("qlora", 1), "hours"]
    assert table["memory_bytes"].loc[:, 1].is_monotonic_decreasing
    assert "QLoRA (" in table.loc[("full", 1), "why"] and not table.loc[("qlora", 1), "why"]
    assert table.loc[("lora", 1), "trained"] == 41_943_040


def test_the_table_adds_up(tuned):
    table, memory = tuned.table, tuned.memory
    assert np.allclose(memory.drop(columns=["method", "devices"]).sum(axis=1), table["memory_bytes"])
    states = memory[["weights", "gradients", "optimiser"]].sum(axis=1)
    assert (table["memory_low"] >= states * (1 - 1e-9)).all() and (table["memory_low"] <= table["memory_bytes"]).all()
    assert np.allclose(table["hours"] * 3600 * table["tokens_per_second"], 6e7)
    assert (table["hours_low"] < table["hours"]).all() and (table["hours"] < table["hours_high"]).all()


def test_experts_that_are_a_number_alone_are_read():
    assert cb.finetune("switch_base_8", "rtx-4090", method="qlora").table["fits"][0] == "yes"


def test_prices_are_those_given():
    one = cb.finetune("llama3_8b", "h100-sxm", 2e7, hourly=3.0, devices=2).table.iloc[0]
    assert one["usd"] == pytest.approx(one["hours"] * 2 * 3.0)


def test_what_is_largest_fits_and_twice_as_much_does_not(tuned):
    row = tuned.table.set_index(["method", "devices"]).loc[("qlora", 1)]
    for name in ("seq", "micro_batch"):
        most = int(row[f"largest_{name}"])
        given = {"method": "qlora", "recompute": "full", "zero": 0}
        tried = [cb.finetune("llama3_8b", "rtx-4090", **given, **{name: size}) for size in (most, 2 * most)]
        assert tried[0].table["why"][0] == "" and tried[1].table["why"][0] != ""


def test_changes_say_what_they_give(tuned):
    own = tuned.changes.query("method == 'full' and devices == 1").set_index("change")
    assert {"8-bit Adam", "LoRA", "QLoRA"} <= set(own.index)
    assert own.loc["QLoRA", "saved_bytes"] > own.loc["LoRA", "saved_bytes"] > 0
    needed = tuned.table["memory_bytes"][0]
    assert np.allclose(own["memory_bytes"] + own["saved_bytes"], needed)
    devices = own[own.index.str.contains("devices")]["memory_bytes"]
    assert devices.is_monotonic_decreasing and len(devices) >= 3


def test_padding_costs_what_it_adds():
    packed, padded = (cb.finetune("llama3_8b", "h100-sxm", 2e7, example_tokens=each) for each in (None, 512))
    assert padded.table["hours"][0] == pytest.approx(4 * packed.table["hours"][0])


def test_memory_falls_with_rank_and_modules_and_rises_with_length():
    ranks = [sum(parts(fine_tuning="lora", rank=rank).values()) for rank in (8, 64, 256)]
    assert ranks == sorted(ranks) and len(set(ranks)) == 3
    assert sum(parts(fine_tuning="qlora", seq=4096).values()) > sum(parts(fine_tuning="qlora").values())


def test_a_model_that_eight_devices_do_not_hold_says_what_would():
    found = cb.finetune("llama3_405b", "h100-sxm", devices=8, method="full")
    assert found.table["fits"][0] == "no" and "does not fit" in repr(found)
    assert "QLoRA (" in found.table["why"][0] and "128 devices" in found.table["why"][0]
    assert found.table["largest_seq"][0] == 0


@pytest.mark.parametrize(
    "given, words",
    [
        ({"example_tokens": 1e6}, ["example_tokens", "2,048"]),
        ({"global_batch": 7, "devices": 2}, ["global_batch = 7", "take 6"]),
        ({"model": "resnet50"}, ["resnet50"]),
        ({"accelerator": "epyc-7601"}, ["no memory size", "EPYC 7601", "memory_bytes"]),
    ],
)
def test_bad_input_says_which_what_and_allowed(given, words):
    with pytest.raises(ValueError) as error:
        cb.finetune(**{"model": "llama3_8b", "accelerator": "rtx-4090", **given})
    assert all(word in str(error.value) for word in words), error.value


def test_unknown_names_get_the_nearest():
    with pytest.raises(catalog.UnknownName, match="rtx-4090"):
        cb.finetune("llama3_8b", "rtx-4091")


@pytest.mark.parametrize(
    "cells, rank, adapts, trains",
    [
        ({"note": "rank 64 on all linear layers"}, 64, 1, 0),
        ({"note": "LoRA of rank 16 on attention"}, 16, 0, 0),
        ({"note": "LoRA with embedding and output layer; rank 64 on all linear layers"}, 64, 1, 1),
        ({"lora_rank": 8, "lora_target_modules": "q_proj,v_proj"}, 8, 0, 0),
        ({"lora_r": 32, "note": ""}, 32, 1, 0),
    ],
)
def test_rank_and_modules_are_read_from_tables_and_their_notes(cells, rank, adapts, trains):
    row = {"model": "llama3_8b", "accelerator": "a100-sxm-80gb", "task": "LoRA", "software": "transformers"}
    rows = resolve(tables.read(KIND, pd.DataFrame([{**row, **cells}])))
    assert rows.why[0] == ""
    found = [float(np.ravel(getattr(rows, name))[0]) for name in ("rank", "adapts_mlp", "trains_edge")]
    assert found == [rank, adapts, trains]


@pytest.mark.parametrize(
    "word, kind", [("AdamW (fused)", "adam"), ("paged_adamw_8bit", "adam-8bit"), ("Adafactor", "adafactor"), ("", "")]
)
def test_optimisers_are_read_and_strange_ones_told(word, kind):
    asked = tables.read(KIND, pd.DataFrame([{"model": "llama3_8b", "accelerator": "a100-sxm-80gb", "optimizer": word}]))
    assert asked.words("optimiser").each(str, object).tolist() in (kind, [kind])
    strange = tables.read(KIND, pd.DataFrame([{"model": "llama3_8b", "accelerator": "a100-sxm-80gb", "optim": "Muon"}]))
    assert not any(strange.why) and "Muon counts as adam" in str(strange.read.levels)


def test_the_card_shows_each_way_and_what_was_taken(tuned):
    html = tuned._repr_html_()
    assert html.count("<tr>") == 1 + len(tuned.table) and "software = torchtune" in html
    assert tuned.to_dict()["ways"][0]["method"] == "full"


def test_the_card_says_the_estimate_and_how_to_verify_it():
    tuned = cb.finetune("llama3_8b", "rtx-4090", method=["full", "qlora"])
    facts, row = tuned.facts(), tuned.table.iloc[1]
    assert list(facts) == ["Estimate", "Verify", "Does not fit", "Assumed"] and tuned.measured == ()
    assert facts["Estimate"].startswith(f"{cb.human(row['step_seconds'], 's')} per step (")
    assert facts["Verify"] == tuned.launch().verify
    assert list(cb.finetune("llama3_8b", "rtx-4090", method="full").facts()) == ["Does not fit", "Assumed"]


def test_a_measured_run_is_of_the_row_that_fits(monkeypatch):
    tuned = cb.finetune("llama3_8b", "rtx-4090", method=["full", "qlora"])
    step = tuned.steps.one(tuned.tried[1])
    assert (
        step.point == tuned.table["step_seconds"].iloc[1] and step.memory_bytes == tuned.table["memory_bytes"].iloc[1]
    )
    run = Measurement("a", 9.0, 9.0, "s", "torchtune", "Somebody", "2025", "b")
    monkeypatch.setattr(type(tuned.steps), "measured", property(lambda step: (run,)))
    assert tuned.facts()["Measured"] == "9 s, Somebody, torchtune 2025" and next(iter(tuned.facts())) == "Measured"
