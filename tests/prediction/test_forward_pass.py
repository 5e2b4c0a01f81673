"""One forward pass: limits of the formulas, what rows mean, and the front door."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.formulas import networks as formulas
from cookbook.prediction.answer import answer
from cookbook.prediction.kinds import forward
from cookbook.prediction.kinds.generation import sizes
from cookbook.prediction.parsing import tables, words
from cookbook.prediction.parsing.tables import measured_table
from cookbook.prediction.scenario import Rows
from cookbook.prediction.software import level_of

ROW = {
    "id": "a",
    "model": "resnet50",
    "accelerator": "t4",
    "devices": "1",
    "precision": "int8",
    "batch": "32",
    "software": "TensorRT 7.2",
    "scenario": "static",
    "metric": "images/s",
}


def scenarios(frame: pd.DataFrame) -> Rows:
    return forward.resolve(tables.read("inference", frame))


def test_a_pass_is_at_least_its_longer_side_and_at_most_the_sum():
    device, host = np.array([0.0, 1e-3, 2e-3, 5.0]), np.array([1e-3, 1e-3, 0.0, 1e-3])
    found = formulas.pass_seconds(device, host, 2.5)
    assert np.all(found >= np.maximum(device, host)) and np.all(found <= device + host + 1e-15)


def test_power_limits_a_peak_only_where_it_is_short():
    plenty, short = formulas.sustained_peak(1e13, [1e6, 1.0], 1e-12)
    assert plenty == pytest.approx(1e13, rel=1e-6) and short == pytest.approx(1e12, rel=1e-3)
    assert formulas.sustained_peak(1e13, np.inf, 1e-12) == 1e13


def test_rates_grow_with_the_batch_and_delays_do_too():
    found = cb.forward_pass("resnet50", "a100-sxm-80gb", batch=[1, 2, 4, 16, 64, 256], software="TensorRT 8")
    small = "a100-sxm-40gb"
    found_plain = cb.forward_pass("resnet50", small, batch=[1, 16, 256], software="TensorRT 8", neighbours=False)
    assert np.all(np.diff(found_plain.rate) > 0) and np.all(np.diff(found_plain.point) > 0)
    assert np.all(np.diff(found.point) > 0) and np.all(found.low80 < found.point)


def test_narrow_formats_are_faster_in_large_batches_where_the_device_has_them():
    formats = ["fp32", "tf32", "fp16", "fp8"]
    found = cb.forward_pass(
        "vit_l_16", "h100-sxm", batch=256, precision=formats, software="TensorRT 9", neighbours=False
    )
    assert np.all(np.diff(found.rate) > 0)


def test_compiled_engines_start_faster():
    engines = ["PyTorch eager", "TensorFlow", "torch.compile", "TensorRT 8"]
    found = cb.forward_pass("resnet50", "a100-sxm-40gb", batch=1, software=engines, neighbours=False)
    assert found.point[-1] < found.point[2] < found.point[0]


def test_every_kind_of_device_gets_a_time_and_says_how_well_it_is_known():
    keys = [
        "a100-sxm-80gb",
        "rtx-3090",
        "jetson-agx-orin-64gb",
        "xeon-platinum-8480",
        "tpu-v4",
        "inferentia2",
        "alveo-u280",
        "epyc-9654",
        "apple-m2-max",
    ]
    found = cb.forward_pass("resnet50", keys, batch=8)
    assert np.all(np.isfinite(found.point)) and set(found.why) == {""}
    assert found.tier[keys.index("epyc-9654")] == found.tier[keys.index("apple-m2-max")] == "datasheet only"
    reach = found.high80 / found.point
    assert reach[keys.index("epyc-9654")] > reach[keys.index("a100-sxm-80gb")]


def test_a_format_that_the_device_lacks_is_named_with_those_it_has():
    with pytest.raises(ValueError, match=r"fp8.*V100.*fp32, fp16"):
        cb.forward_pass("resnet50", "v100", precision="fp8")
    several = cb.forward_pass("resnet50", ["v100", "h100-sxm"], precision="fp8")
    assert np.isnan(several.point[0]) and "fp16" in several.why[0] and np.isfinite(several.point[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batch": 0}, "batch"),
        ({"batch": "many"}, "not a number"),
        ({"devices": 0}, "devices"),
        ({"seq": 128}, "seq"),
        ({"batch": [1, 2], "devices": [1, 2, 3]}, "one length"),
    ],
)
def test_bad_input_gets_a_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        cb.forward_pass("resnet50", "t4", **change)


def test_a_prompt_of_a_language_model_is_one_pass_as_in_its_answers():
    one = cb.forward_pass("llama2_7b", "h100-sxm", batch=4, precision="fp16", software="TensorRT-LLM", seq=512)
    row = {
        "model": "llama2_7b",
        "accelerator": "h100-sxm",
        "devices": "1",
        "batch": "4",
        "precision": "fp16",
        "software": "TensorRT-LLM",
        "input_len": "512",
        "metric": "prefill tokens/s",
    }
    prefill = answer(pd.DataFrame([row]), "inference", neighbours=False)
    assert 4 * 512 / one.point == pytest.approx(prefill["predicted"][0], rel=1e-6)
    assert one.high80 / one.point >= prefill["high80"][0] / prefill["predicted"][0] * 0.999
    assert "device and engine" not in one.tier
    with pytest.raises(ValueError, match="weights of 138 GB do not fit"):
        cb.forward_pass("llama2_70b", "h100-sxm", precision="fp16", seq=512)


def test_memory_is_weights_and_what_one_operation_holds():
    small, large = (cb.forward_pass("vgg16", "jetson-nano", batch=b, precision="fp32") for b in (1, 1024))
    weights = 4 * cb.model("vgg16").ops.parameter_count
    assert small.memory["weights"] == large.memory["weights"] == weights
    assert small.fits == "yes" and large.fits == "no" and large.memory_bytes > small.memory_bytes


def test_changed_networks_are_predicted():
    changed = cb.model("resnet50", image=448)
    plain, larger = (cb.forward_pass(w, "t4", batch=32, neighbours=False) for w in ("resnet50", changed))
    assert 3 < larger.point / plain.point < 5


def test_a_delay_is_the_rate_turned_over():
    both = answer(pd.DataFrame([ROW, ROW | {"metric": "latency ms"}]), "inference")
    rate, delay = both.iloc[0], both.iloc[1]
    assert rate["unit"] == "images/s" and delay["unit"] == "latency ms"
    assert delay["predicted"] == pytest.approx(1e3 * 32 / rate["predicted"])
    assert delay["high80"] == pytest.approx(1e3 * 32 / rate["low80"])
    assert (both["low90"] < both["low80"]).all() and (both["low80"] < both["predicted"]).all()


def test_outcomes_are_never_read():
    found = answer(pd.DataFrame([ROW | {"value": value} for value in ("", "1", "9e9", "x")]), "inference")
    assert found["predicted"].nunique() == 1


def test_cores_of_a_chip_share_it():
    row = ROW | {"accelerator": "inferentia2", "precision": "bf16", "note": "data parallel over 2 NeuronCores"}
    made = scenarios(pd.DataFrame([row]))
    assert made.replicas[0] == 2 and made.peak[0] == pytest.approx(cb.accelerator("inferentia2").peaks["peak_bf16"] / 2)
    printed = ROW | {"accelerator": "tpu-v3", "accelerator_as_printed": "tpu-v3.8", "devices": "8"}
    assert scenarios(pd.DataFrame([printed])).replicas[0] == 4


LLM = {
    "id": "a",
    "model": "Llama-2-7b",
    "accelerator": "h100-sxm",
    "devices": "1",
    "tp": "1",
    "precision": "fp16/fp16/fp16",
    "input_len": "128",
    "output_len": "128",
    "batch": "1",
    "scenario": "static",
    "software": "TensorRT-LLM 0.9",
    "metric": "output tokens/s",
}


def generated(**changes):
    lists = {name: values for name, values in changes.items() if isinstance(values, list)}
    count = len(next(iter(lists.values()))) if lists else 1
    rows_ = [LLM | {n: v[at] if n in lists else v for n, v in changes.items()} for at in range(count)]
    return answer(pd.DataFrame(rows_), "inference")["predicted"].to_numpy(float)


def test_one_token_takes_at_least_the_time_to_read_all_weights():
    device = cb.accelerator("h100-sxm")
    found = generated(metric="TPOT ms p50")[0] * 1e-3
    assert 1 < found / (2 * cb.model("llama2_7b").ops.parameter_count / device.mem_bandwidth) < 2.5


def test_answers_take_longer_with_longer_prompts_and_share_weights_in_a_batch():
    assert np.all(np.diff(generated(batch=["1", "8", "64"])) > 0)
    assert np.all(np.diff(generated(metric="TTFT ms", input_len=["128", "1024", "4096"])) > 0)
    assert np.all(np.diff(generated(input_len=["128", "1024", "4096"], batch="16")) < 0)


def test_shards_share_weights_and_stages_do_not_speed_up_one_stream():
    one, two = generated(tp=["1", "2"], devices=["1", "2"])
    assert 1 < two / one < 2
    # Handing activations over costs next to nothing.
    assert generated(pp=["1", "2"], devices=["1", "2"]) == pytest.approx([one, one], rel=5e-3)
    whole, each = generated(tp="2", devices="2", metric=["output tokens/s", "output tokens/s/GPU"])
    assert each == pytest.approx(whole / 2)


def test_fewer_bits_of_weights_are_faster_where_memory_sets_the_pace():
    found = generated(precision=["F16/fp16/fp16", "Q8_0/fp16/fp16", "Q4_K_M/fp16/fp16"], software="llama.cpp")
    assert np.all(np.diff(found) > 0)


def test_intervals_of_language_models_cover_publishers_that_no_constant_has_seen():
    frame = measured_table("inference")
    frame = frame[frame["source"].isin(["tensorrt-llm-performance", "xiongjiedai-llama-cpp"])].reset_index(drop=True)
    found, value = answer(frame, "inference"), frame["value"].astype(float)
    inside = (found["low80"] <= value) & (value <= found["high80"])
    assert inside.groupby(frame["source"]).mean().between(0.75, 0.98).all()


def test_every_level_of_engines_is_reached_and_described():
    levels = catalog.table("software_levels")
    assert set(levels.loc[levels["kind"] == "inference", "level"]) == set(catalog.table("inference_engines")["level"])


@pytest.mark.parametrize(
    ("said", "level"),
    [
        (("TensorRT 4.0.0.3 CUDA 9.0 cuDNN 7", "", "v100-sxm2-16gb", "static"), "tensorrt-early"),
        (("TensorRT 10.2", "", "l4", "offline"), "tensorrt"),
        (("OpenVINO", "", "xeon-platinum-8380", "offline"), "cpu"),
        (("tf-nightly", "", "tpu-v3", "offline"), "xla-tpu"),
        (("PyTorch 2.4 nchw", "", "rtx-3090", ""), "eager-nchw"),
        (("ONNX Runtime", "", "a100-sxm-80gb", "static"), "compiled"),
        (("", "", "h100-sxm", ""), "eager"),
    ],
)
def test_words_lead_to_levels(said, level):
    named, *hints = said
    device = cb.accelerator(said[2])
    found = words.stack("inference", named, "; ".join(hints))
    assert (found or level_of("inference", "", device.vendor, device.kind)) == level


def test_networks_of_mlperf_inference_meet_their_published_counts():
    for name in ("ssd1200_resnet34", "ssd_mobilenet_v1"):
        row = catalog.table("models").set_index("name").loc[name]
        macs = float(cb.model(name).ops.total("macs", 1, None))
        assert macs == pytest.approx(row["published_macs"], rel=0.005)


def test_offline_a_language_model_fills_the_memory():
    """0.9 of 80 GB less 13.5 GB of weights, over keys and values of 1,000 tokens and half of 1,000: by hand below."""
    row = {
        "model": "llama2_7b",
        "accelerator": "h100-sxm",
        "devices": "1",
        "tp": "1",
        "scenario": "offline",
        "precision": "fp16",
        "input_len": "1000",
        "output_len": "1000",
        "metric": "output tokens/s",
    }
    found = answer(pd.DataFrame([row, row | {"batch": "1"}]), "inference")
    memory = cb.accelerator("h100-sxm").memory_bytes
    slots = np.floor((0.9 * memory - 2 * 6_738_415_616) / (1500 * 2 * 32 * 32 * 128 * 2))
    assert f"batch = {slots:g}" in found["assumed"][0]
    assert found["predicted"][0] > 10 * found["predicted"][1]


def test_of_a_mixture_those_experts_are_read_that_tokens_are_sent_to():
    """Eight experts of which a token asks two: their weights by hand, and no experts without."""
    found = sizes("mixtral_8x7b")
    assert (found["experts"], found["experts_per_token"]) == (8, 2)
    assert found["expert_bytes"] == 2 * 32 * 8 * 3 * 4096 * 14336
    assert sizes("llama2_7b")["expert_bytes"] == 0


def test_the_processor_of_a_host_is_not_what_runs_the_network():
    row = ROW | {"accelerator": "a100-pcie-80gb", "software": "TensorRT 8.4.2, CUDA 11.6"}
    hosted = row | {"note": "NVIDIA, host 2x AMD EPYC 7742 64-Core Processor; preview"}
    made = scenarios(pd.DataFrame([row, hosted, row | {"accelerator": "xeon-platinum-8380", "software": "OpenVINO"}]))
    assert made.key("engine").tolist() == ["tensorrt", "tensorrt", "cpu"]


def test_a_cache_keeps_what_fits_and_a_device_without_one_nothing():
    """Of 12 MB that pass 4 MB, three quarters go to memory; rows know the cache of their device, divided by cores."""
    assert formulas.missed_share(12e6, 4e6) == 0.75 and formulas.missed_share([1e3, 1e15], 0).tolist() == [1, 1]
    made = scenarios(pd.DataFrame([ROW, ROW | {"accelerator": "inferentia2", "precision": "bf16", "note": CORES}]))
    assert made.cache.tolist() == [4e6, pytest.approx(50.33e6 / 2)]


CORES = "data parallel over 2 NeuronCores"


def test_a_larger_cache_helps_small_batches_more():
    """L4 and T4 have 300 and 320 GB/s; 48 and 4 MB. With 4 MB on both, the L4 gains nothing from its cache."""
    rows = scenarios(pd.DataFrame([ROW | {"accelerator": "l4", "batch": batch} for batch in ("8", "512")]))
    constants = {c.name: c.start for c in forward.CONSTANTS}
    with_it = forward.parts(rows, constants)["products"]
    rows.values["cache"] = np.full(2, 4e6)
    saved = 1 - with_it / forward.parts(rows, constants)["products"]
    assert saved[0] > saved[1] > 0


def test_requests_in_flight_and_cores_as_the_pages_of_neuron_state_them():
    """Two workers a core: a delay is two passes; one model on one core: half the chip, all of its memory's rate."""
    row = ROW | {"accelerator": "inferentia2", "precision": "bf16", "metric": "latency ms p50"}
    notes = (
        "2 models on 2 NeuronCores, 1 worker each",
        "2 models on 2 NeuronCores, 2 workers each",
        "1 model on 1 NeuronCore, 1 worker",
    )
    frame = pd.DataFrame([row | {"note": note} for note in notes])
    made, found = scenarios(frame), answer(frame, "inference", neighbours=False)["predicted"]
    assert made.replicas.tolist() == [2, 2, 1] and found[1] == pytest.approx(2 * found[0])
    whole = cb.accelerator("inferentia2").mem_bandwidth
    assert made.mem_bandwidth.tolist() == [whole / 2, whole / 2, whole] and made.peak[0] == made.peak[2]


def test_retinanet_of_mlperf_inference_has_its_own_backbone():
    row = ROW | {"model": "retinanet", "input_len": "800x800", "scenario": "offline", "metric": "samples/s"}
    names = [name for name, *_ in scenarios(pd.DataFrame([row, row | {"scenario": "static"}])).networks]
    assert names == ["retinanet_resnext50", "retinanet_resnet50_fpn"]


def test_a_compiler_with_slow_kernels_is_not_slow_at_reading_memory():
    """At one sample of a network of products alone, most of the time is weights: half the kernels' share costs less."""
    made = scenarios(pd.DataFrame([ROW | {"model": "vgg16", "batch": "1", "precision": "fp16"}] * 2))
    made.values["kernels"] = np.array([1.0, 0.5])
    whole, half = forward.parts(made, {c.name: c.start for c in forward.CONSTANTS})["products"]
    assert 1 < half / whole < 1.5
