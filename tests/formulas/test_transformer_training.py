"""Step time of transformer training: published tables with their publisher left out, limits, and hand calculations."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import catalog
from cookbook.calibration import fit
from cookbook.formulas import transformer_training as f
from cookbook.prediction.api import train_step
from cookbook.prediction.kernels import clock_share
from cookbook.prediction.kinds import configurations
from cookbook.prediction.kinds import transformer_step as transformer
from cookbook.prediction.kinds.configurations import Shard
from cookbook.prediction.parsing import tables
from cookbook.prediction.scenario import Rows
from cookbook.workloads import zoo

KNOWN = {constant.name: constant.start for constant in transformer.CONSTANTS}
ROW = {
    "model": "",
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 32,
    "head_dim": 128,
    "ffn_hidden": 11008,
    "vocab": 32000,
    "seq_len": 4096,
    "gated_mlp": "yes",
    "accelerator": "a100-sxm-80gb",
    "devices": 1,
    "per_node": 8,
    "tp": 1,
    "pp": 1,
    "dp": 1,
    "cp": 1,
    "micro_batch": 1,
    "global_batch": 8,
    "activation_recompute": "none",
    "precision": "bf16",
    "zero_fsdp_stage": "0",
    "attention_kernel": "flash_attention2",
    "software": "Megatron Core",
}
# A stack that splits neither logits nor, of its own accord, norms, and hides no exchange.
UNFUSED = "PyTorch"
EXCHANGES = ("tensor_exchange", "context_exchange", "expert_exchange", "weight_exchange", "pipeline_exchange")


def scenarios(frame: pd.DataFrame) -> Rows:
    return transformer.resolve(tables.read("training_transformer", frame))


def parts_of(constants=None, terms=None, **changes) -> dict[str, float]:
    rows = scenarios(pd.DataFrame([{**ROW, **changes}]))
    assert rows.why[0] == "", rows.why[0]
    found = transformer.parts(rows, {**KNOWN, **(constants or {})}, terms)
    return {name: float(value[0]) for name, value in found.items()}


def seconds(constants=None, terms=None, **changes) -> float:
    return sum(parts_of(constants, terms, **changes).values())


@pytest.fixture(scope="module")
def without_megatron() -> pd.DataFrame:
    """Rows of NVIDIA's Megatron papers, predicted by constants that have seen none of that publisher."""
    rows, frame = fit.measured_rows("training_transformer")
    publisher = rows.group == rows.group[(frame["source"] == "megatron-2021-table1").to_numpy()][0]
    error = fit.log_error(rows, fit.fit(rows, rows.usable & ~publisher))
    return frame.assign(error=np.abs(np.expm1(error)))[publisher]


@pytest.mark.parametrize(
    ("source", "mean", "worst"),
    [
        ("megatron-2021-table1", 0.10, 0.15),
        ("megatron-2021-table2", 0.11, 0.20),
        ("korthikanti-2022-recompute", 0.15, 0.22),
    ],
)
def test_published_step_times_of_megatron(without_megatron, source, mean, worst):
    """Narayanan et al. 2021, tables 1 and 2; Korthikanti et al. 2022, table 5: 4 to 21 of 100 above what was measured.

    What is missed has one cause: these runs reach more of the A100 than those of all other publishers. It is most where
    a pipeline has two layers a stage.
    """
    error = without_megatron.loc[without_megatron["source"] == source, "error"]
    assert len(error) >= 8
    assert error.mean() <= mean
    assert error.max() <= worst


def test_products_of_one_layer_by_hand():
    """T = 4096 tokens, h = 4096, f = 11008: 2 T (4 h^2 + 3 h f) = 1.6579 TFLOP forward, three times with backward.

    Beside it the traffic: weights once, stream in and out of both halves, queries, keys, values, and the inner width.
    """
    weights, passes = 4 * 4096**2 + 3 * 4096 * 11008, 3 * 32 * 8
    moved = 2 * (weights + 4096 * (4 * 4096 + 2 * 4096 + 2 * 4096 + 3 * 11008))
    expected = passes * (2 * 4096 * weights / (312e12 * 0.869 * 0.9) + moved / (2.039e12 * 0.85))
    assert parts_of()["products"] == pytest.approx(expected, rel=1e-3)


def test_attention_core_by_hand():
    """Causal: 2048.5 keys a token, 2 x 4096 x 2048.5 x 8192 = 0.13747 TFLOP; 1 + 3.3 passes at half of the peak.

    Times 0.9 x 1.15, what the device sustains of it at the start of the fit.
    """
    flop = 2 * 4096 * 2048.5 * (4096 + 4096)
    fused = flop / (312e12 * 0.5 * 0.9 * 1.15 * 4096 / 4396) * 4.3 * 32 * 8
    assert parts_of()["attention"] == pytest.approx(fused)


def test_tensor_exchange_by_hand():
    """8 all-reduces x 2 x 7/8 x 33.55 MB at 0.8 x 300 GB/s and 14 starts of 5 us; four a layer, none hidden."""
    found = parts_of(software=UNFUSED, tp=8, devices=8)["tensor_exchange"]
    one = 2 * 7 / 8 * 4096 * 4096 * 2 / 240e9 + 14 * 5e-6
    assert found == pytest.approx(4 * 32 * 8 * one)


def test_bubble_by_hand():
    """8 stages, 8 micro-batches: the pipeline waits 7 stages for 8 that it works, 7/8 without interleaving."""
    found = parts_of(pp=8, devices=8)
    worked = sum(found[name] for name in ("products", "attention", "elementwise", "launch"))
    assert found["bubble"] == pytest.approx(7 / 8 * worked)


def test_full_recomputation_by_hand():
    """One more forward pass: 4 passes for 3 of the products, 5.3 for 4.3 of the fused attention core."""
    none, full = parts_of(), parts_of(activation_recompute="full")
    assert full["products"] / none["products"] == pytest.approx(4 / 3)
    assert full["attention"] / none["attention"] == pytest.approx(5.3 / 4.3)
    half = parts_of(activation_recompute="partial 50 %")
    assert half["products"] == pytest.approx((none["products"] + full["products"]) / 2)


def test_the_last_product_of_a_layer_that_nothing_reads_is_not_computed_again():
    """Compiled: 3 f of the 4 h + 3 f weights of a width are the gated layer, a third of it is its last product."""
    none, full = (parts_of(software="JAX", activation_recompute=how) for how in ("none", "full"))
    attention, gated = 4 * 4096**2, 3 * 4096 * 11008
    again = (attention + gated * 2 / 3) / (attention + gated)
    assert full["products"] / none["products"] == pytest.approx(1 + again / 3, rel=5e-3)


def test_unstated_recomputation_is_as_much_as_the_memory_asks_for():
    """A layout that fits computes nothing again, one far too large everything, and some in between a share."""
    row = {**ROW, "activation_recompute": "", "layers": 4}
    sizes = pd.DataFrame([{**row, "micro_batch": 4 * size} for size in range(1, 17)])
    again = scenarios(sizes).recomputed_all.tolist()
    assert again[0] == 0 and again[-1] == 1
    assert again == sorted(again) and any(0 < share < 1 for share in again)


def test_products_in_eight_bits_pay_for_rounding():
    """Half of the products' peak, but more traffic between them."""
    wide, narrow = (parts_of(accelerator="h100-sxm", precision=name) for name in ("bf16", "fp8"))
    assert narrow["products"] < wide["products"] and narrow["elementwise"] > wide["elementwise"]


def test_logits_that_are_not_split_are_gathered_and_read_by_each_rank():
    layout = {"tp": 8, "devices": 8, "activation_recompute": "none"}
    split, whole = (parts_of(software=name, **layout)["head"] for name in ("Megatron Core", UNFUSED))
    logits = 4096 * 32000 * 7 / 8
    expected = 8 * (14 * logits / (2.039e12 * 0.85) + 2 * logits / (300e9 * 0.8))
    assert whole - split == pytest.approx(expected)


def test_experts_that_only_show_in_the_active_parameters_keep_both_counts():
    """671 billion parameters, 37 active: eight experts a token hold two thirds of the active ones."""
    blank = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp"), "")
    row = scenarios(pd.DataFrame([{**ROW, **blank, "parameters": 671e9, "active_parameters": 37e9}]))
    assert row.why[0] == "" and row.moe[0] == 1 and row.experts_per_token[0] == 8
    expert = 3 * row.layers[0] * row.hidden[0] * row.moe_ffn_hidden[0]
    assert 8 * expert == pytest.approx(37e9 * 2 / 3)
    assert (row.experts[0] - 8) * expert == pytest.approx(671e9 - 37e9, rel=0.01)


def test_a_split_sequence_gathers_once_more_and_sends_less_to_the_next_stage():
    """Five exchanges for four; the next stage gets an eighth of the stream from each of eight ranks."""
    layout = {"tp": 8, "pp": 2, "devices": 16, "software": UNFUSED, "global_batch": 8}
    whole, split = (parts_of(sequence_parallel=cell, **layout) for cell in ("no", "yes"))
    assert split["tensor_exchange"] / whole["tensor_exchange"] == pytest.approx(5 / 4)
    assert split["pipeline_exchange"] < whole["pipeline_exchange"] / 5
    older = {"software": "Megatron-LM", "attention_kernel": "no flash", "sequence_parallel": "no"}
    megatron = parts_of(**{**layout, **older})
    assert megatron["pipeline_exchange"] == pytest.approx(split["pipeline_exchange"])


def test_lora_has_no_products_for_weight_gradients():
    """Two passes for three."""
    assert parts_of(task="LoRA fine-tune")["products"] / parts_of()["products"] == pytest.approx(2 / 3)


def test_micro_batches_add_up():
    """Twice the batch at the same micro-batch is twice the work of every part but the optimiser."""
    once, twice = parts_of(terms={"optimiser": False}), parts_of(terms={"optimiser": False}, global_batch=16)
    assert sum(twice.values()) == pytest.approx(2 * sum(once.values()))


def test_one_device_exchanges_nothing_and_never_waits():
    for stage in ("0", "1", "2", "3"):
        found = parts_of(zero_fsdp_stage=stage)
        assert all(found[name] == 0 for name in (*EXCHANGES, "gradient_exchange", "bubble", "stragglers"))


@pytest.mark.parametrize("layout", [{"tp": 4}, {"pp": 4}, {"dp": 4}, {"cp": 4}, {"tp": 2, "pp": 2}])
def test_shards_of_free_exchange_share_the_products(layout):
    """Products of all devices together are those of one device, but that each reads its stream or weights."""
    whole = parts_of(global_batch=32)["products"]
    split = parts_of(global_batch=32, devices=4, **layout)["products"]
    assert 0.999 * whole <= 4 * split <= 1.1 * whole


@pytest.mark.parametrize(
    "layout", [{"tp": 8}, {"pp": 8}, {"dp": 8, "zero_fsdp_stage": "3"}, {"cp": 8}, {"tp": 2, "dp": 4}]
)
def test_faster_links_never_take_longer(layout):
    slow = seconds({"link_efficiency": 0.5, "network_efficiency": 0.3}, devices=8, software=UNFUSED, **layout)
    assert seconds({"link_efficiency": 1.0, "network_efficiency": 0.9}, devices=8, software=UNFUSED, **layout) < slow


@given(st.floats(0.1, 1.0), st.floats(1.0, 2.0))
def test_higher_efficiency_never_takes_longer(efficiency, more):
    assert seconds({"efficiency": efficiency * more}) <= seconds({"efficiency": efficiency})


def test_experts_cost_at_least_what_a_dense_layer_of_their_active_width_costs():
    dense = seconds(ffn_hidden=8 * 1536)
    routed = {"experts": 128, "experts_per_token": 8, "moe_ffn_hidden": 1536}
    assert seconds(ep=1, **routed) > dense
    assert seconds(ep=8, dp=8, devices=8, global_batch=64, **routed) > dense


# A run that each cause touches, and whether the step takes longer where it is switched off.
EXPERTS = {"experts": 64, "experts_per_token": 4, "moe_ffn_hidden": 2048, "devices": 8, "ep": 8, "dp": 8}
PLAIN = {"software": "Hugging Face transformers", "devices": 8, "dp": 8, "zero_fsdp_stage": "2"}
SHARDED = {"devices": 64, "dp": 64, "zero_fsdp_stage": "3", "global_batch": 64}
CAUSES = {
    "overlap": (SHARDED, True),
    "shared_ports": ({**SHARDED, "software": "DeepSpeed"}, False),
    "eager_kernels": ({**PLAIN, "micro_batch": 1, "seq_len": 128}, False),
    "hooks": (PLAIN, False),
    "frozen_weights": ({"fine_tuning": "lora"}, True),
    "dequantisation": ({"fine_tuning": "qlora"}, False),
    "adapters": ({"fine_tuning": "lora"}, False),
    "casts": ({"accelerator": "h100-sxm", "precision": "fp8"}, False),
    "power_cap": ({"accelerator": "h100-pcie"}, False),
    "sliding_windows": ({"model": "gemma3_12b"}, True),
    "ring_attention": ({"cp": 2, "devices": 2}, False),
    "expert_kernels": (EXPERTS, False),
    "ragged_experts": (EXPERTS, False),
}


@pytest.mark.parametrize("term", CAUSES)
def test_switching_a_cause_off_leaves_what_it_costs_or_saves(term):
    changes, longer = CAUSES[term]
    less, whole = seconds(terms={term: False}, **changes), seconds(**changes)
    assert (less > whole) if longer else (less < whole)
    assert seconds(terms={term: True}, **changes) == whole


def test_nothing_else_is_switched_off():
    assert {"hooks", *transformer.NEUTRAL} == set(CAUSES)
    assert seconds(terms=dict.fromkeys(transformer.NEUTRAL, False)) > 0


@pytest.mark.parametrize("term", sorted(set(transformer.TERMS) - set(CAUSES)))
def test_switching_a_term_off_never_takes_longer(term):
    layout = {
        "devices": 512,
        "tp": 8,
        "pp": 4,
        "dp": 8,
        "cp": 2,
        "ep": 8,
        "experts": 64,
        "experts_per_token": 4,
        "moe_ffn_hidden": 2048,
        "dense_layers": 4,
        "zero_fsdp_stage": "3",
        "software": UNFUSED,
        "global_batch": 64,
        "activation_recompute": "full",
        # Copies are waited for where computation is too short to hide them: without it they would be longer.
        **({"cpu_offload": "activations", "offload_link": "1 GB/s"} if term == "offload" else {}),
    }
    less, all_terms = seconds(terms={term: False}, **layout), seconds(**layout)
    # The computation of this layout hides two of its exchanges.
    assert less < all_terms or (term in ("context_exchange", "gradient_exchange") and less == all_terms)


def test_an_unknown_term_is_named():
    with pytest.raises(ValueError, match="no term 'bubbles'"):
        transformer.parts(scenarios(pd.DataFrame([ROW])), KNOWN, {"bubbles": False})


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_window_never_widens_the_context(seq, window):
    assert f.mean_context(seq, window) <= f.mean_context(seq) == pytest.approx((seq + 1) / 2)


@given(st.integers(1, 10**5), st.integers(1, 512))
def test_aligned_is_the_next_multiple(size, multiple):
    wide = f.aligned(size, multiple)
    assert size <= wide < size + multiple
    assert wide % multiple == 0


@given(st.integers(1, 16), st.integers(1, 512))
def test_a_token_reaches_no_more_ranks_than_it_has_experts(choices, ranks):
    assert f.distinct_ranks(choices, ranks) >= 1 - 1e-9
    assert f.distinct_ranks(choices, ranks) <= min(choices, ranks) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accelerator": "abacus"}, "abacus"),
        ({"accelerator": ""}, "catalogue"),
        ({"tp": 3}, "is more than devices = 1"),
        ({"devices": 0}, "devices = '0'"),
        ({"micro_batch": "0"}, "micro_batch = '0'"),
        ({"layers": "", "hidden": ""}, "dimensions"),
        ({"seq_len": "-4"}, "seq_len = '-4'"),
    ],
)
def test_rows_that_cannot_be_predicted_say_why(changes, words):
    rows = scenarios(pd.DataFrame([{**ROW, **changes}, ROW]).astype(str))
    assert np.isnan(configurations.memory_bytes(rows, configurations.usual())[0])
    assert words in rows.why[0]
    assert rows.why[1] == ""
    found = transformer.step_seconds(transformer.parts(rows, KNOWN))
    assert np.isnan(found[0])
    assert found[1] > 0


def test_hundred_thousand_rows_give_what_one_gives():
    rows = scenarios(pd.DataFrame([ROW])).take(np.zeros(100_000, dtype=int))
    found = transformer.step_seconds(transformer.parts(rows, KNOWN))
    assert found[-1] == found[0] == pytest.approx(seconds())


def test_the_page_of_a_row_speaks_only_where_its_software_is_not_named():
    rows = [{"software": "NeMo", "locator": "llm-foundry"}, {"software": "", "locator": "llm-foundry"}]
    blank = {"attention_kernel": "", "zero_fsdp_stage": "3"}
    found = scenarios(pd.DataFrame([{**ROW, **blank, **each} for each in rows]))
    assert found.key("engine").tolist() == ["megatron-core", "torch-fsdp"]


def decoders() -> list[str]:
    rows = catalog.table("models")
    return rows.loc[rows["builder"] == zoo.DECODER, "name"].tolist()


@pytest.mark.parametrize("name", decoders())
def test_layers_that_are_predicted_have_the_weights_of_the_network(name: str) -> None:
    """A whole layer is a shard of one, as it is built operation by operation; norms, biases and routers are small."""
    network = zoo.model(name)
    rows = train_step(name, "h100-sxm", devices=1, tp=1, pp=1, neighbours=False).rows
    layer = Shard(rows)
    sparse = rows.moe * (rows.layers - rows.dense_layers)
    weights = rows.layers * layer.attention + (rows.layers - sparse) * layer.mlp
    weights = weights + sparse * (layer.expert * rows.experts + layer.shared)
    ops = network.ops
    left_out = ("router", "shared_gate")
    counted = [
        kind == "linear" and "layer" in block and "predict_ahead" not in block and not any(x in each for x in left_out)
        for each, kind, block in zip(ops.name, ops.kind, ops.block, strict=True)
    ]
    assert float(np.ravel(weights)[0]) == pytest.approx(float((ops.parameters * ops.count)[counted].sum()), rel=0.01)


TUNED = {"software": "PyTorch HF Trainer", "task": "LoRA"}


def test_kernels_that_the_host_starts_by_hand():
    """30 kernels, 15 more of plain modules and 28 of adapters; 2.6 passes of starts in 32 layers, 8 micro-batches.

    Where the host takes far longer than the device, the fourth root of fourth powers leaves little but the host.
    """
    found = parts_of({"kernel_start": 1e-2}, **TUNED)
    device = sum(found[name] for name in ("products", "attention", "elementwise"))
    host = (30 + 15 + 28) * 2.6 * 32 * 8 * 1e-2
    assert found["launch"] == pytest.approx((device**4 + host**4) ** 0.25 - device)
    assert parts_of(software="JAX", accelerator="tpu-v5p", attention_kernel="")["launch"] == 0, "XLA runs the graph"


def test_adapters_and_weights_of_four_bits_by_hand():
    """Plain adapters move 19.5 bytes of each element in and out of seven products in three passes, of 16 bits 9.5.

    Attention has three inputs of one width (two of them for four products) and four outputs, feed-forward products
    three of either. A kernel widens weights in both passes; plain operations keep them for the backward pass.
    """
    plain, quantised = (parts_of(**TUNED | {"task": task}) for task in ("LoRA", "Q-LoRA"))
    twice = parts_of({"adapter_share": 2.0}, **TUNED)
    rate = 2.039e12 * 0.85
    attention = (1 + 1 + 3 + 1) * 4096
    elements = 32 * 8 * 4096 * (attention + 3 * (4096 + 11008))
    assert twice["elementwise"] - plain["elementwise"] == pytest.approx(elements * 19.5 * 3 / rate)
    fused, none = parts_of(task="LoRA"), parts_of({"adapter_share": 1e-9}, task="LoRA")
    expected = 32 * 8 * 4096 * attention * 9.5 * 3 / rate
    assert fused["elementwise"] - none["elementwise"] == pytest.approx(expected)
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert quantised["elementwise"] - plain["elementwise"] == pytest.approx(8 * 4.5 * weights * 2 / rate)
    unpacked = parts_of(**TUNED | {"task": "Q-LoRA", "precision": "bf16 (int4 GPTQ base weights)"})
    assert unpacked["elementwise"] - plain["elementwise"] == pytest.approx(8 * 16.5 * weights / rate)
    full = parts_of(software=TUNED["software"])
    assert plain["products"] == pytest.approx(full["products"] * 2 / 3), "no products for gradients of frozen weights"


def test_the_host_that_asks_for_the_tokens_of_experts_is_waited_for():
    """Without a capacity host and device add up in squares; with one, in fourth powers; the work is the same."""
    mixture = {"experts": 8, "experts_per_token": 2, "moe_ffn_hidden": 11008}
    few = {"ragged_rows": 1e-9, "kernel_start": 1e-4}
    free, capped = parts_of(few, **mixture), parts_of(few, **mixture, capacity_factor=1)
    device = sum(free[name] for name in ("products", "experts", "attention", "elementwise"))
    host = ((free["launch"] + device) ** 2 - device**2) ** 0.5
    assert capped["experts"] == pytest.approx(free["experts"])
    assert capped["launch"] == pytest.approx((device**4 + host**4) ** 0.25 - device)
    assert host == pytest.approx((30 + 40 + 8 * 8 * 0.5) * 2.6 * 32 * 8 * 1e-4 * 0.7), "starts of 8 experts, TE"


def test_what_returns_from_experts_is_not_sent_again_where_nothing_reads_it():
    """Six exchanges with all recomputed, five where what nothing reads is left out, four without."""
    mixture = {
        "experts": 8,
        "experts_per_token": 2,
        "moe_ffn_hidden": 11008,
        "devices": 8,
        "dp": 8,
        "ep": 8,
        "accelerator": "h100-sxm",
    }

    def ratio(software: str) -> float:
        plain, again = (
            parts_of(software=software, activation_recompute=word, **mixture)["expert_exchange"]
            for word in ("none", "full")
        )
        return again / plain

    assert (ratio("PyTorch"), ratio("NeMo AutoModel")) == pytest.approx((6 / 4, 5 / 4))


def test_a_device_with_less_power_keeps_less_of_its_clock():
    """500 W of 700 W at the same peak: the cube root, 0.894."""
    assert clock_share("h100-sxm", "hopper", 1.0) == 1, "measured itself"
    capped = clock_share("another", "hopper", 500 / 989e12)
    assert capped == pytest.approx((500 / 700) ** (1 / 3)) and clock_share("another", "hopper", 900 / 989e12) == 1
    assert clock_share("another", "no such generation", 1e-15) == clock_share("another", "hopper", np.nan) == 1


def test_a_micro_batch_that_nobody_states_is_what_memory_keeps():
    """34 B for each element and layer: 0.32 GB a sequence of 12 layers, 66 in a quarter of 80 GiB, 64 asked for.

    18 GB a sequence of 32 layers: one. A pipeline passes one at a time; of six the largest power of two is four.
    """
    small = {
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "kv_heads": 12,
        "head_dim": 64,
        "ffn_hidden": 3072,
        "seq_len": 1024,
        "micro_batch": "",
        "global_batch": 64,
        "gated_mlp": "no",
    }
    rows = pd.DataFrame(
        [
            {**ROW, **each}
            for each in (small, {"micro_batch": ""}, small | {"pp": 2, "devices": 2}, small | {"global_batch": 6})
        ]
    )
    assert np.broadcast_to(scenarios(rows).micro_batch, 4).tolist() == [64, 1, 1, 4]
