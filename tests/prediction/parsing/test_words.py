"""What people write in their tables: numbers with multiples and units, spoken names, yes and no, formats, metrics."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.__main__ import main
from cookbook.prediction.answer import answer, unknown_columns
from cookbook.prediction.parsing import networks, words
from cookbook.prediction.parsing.tables import clear_rows, read
from cookbook.prediction.scenario import fields

TRAINED = {
    "model": "llama2_7b",
    "accelerator": "h100-sxm",
    "devices": "8",
    "tp": "8",
    "pp": "1",
    "precision": "bf16",
    "seq": "4096",
    "micro_batch": "1",
    "global_batch": "64",
    "software": "NeMo",
}
SERVED = {
    "model": "llama2_7b",
    "accelerator": "h100-sxm",
    "devices": "1",
    "batch": "4",
    "input_len": "512",
    "output_len": "128",
    "precision": "fp16",
    "software": "TensorRT-LLM",
    "metric": "output tokens/s",
}
IMAGES = {
    "model": "resnet50",
    "accelerator": "t4",
    "precision": "int8",
    "batch": "32",
    "software": "TensorRT 8",
    "metric": "images/s",
}


def one(kind, row):
    return answer(pd.DataFrame([row]), kind).iloc[0]


@pytest.mark.parametrize(
    "name, cell, value",
    [
        ("seq", "4k", 4096),
        ("seq", "4096", 4096),
        ("seq", "4,096", 4096),
        ("seq", "32K", 32768),
        ("devices", "1k", 1000),
        ("devices", "8 GPUs", 8),
        ("parameters", "7B", 7e9),
        ("parameters", "70 billion", 7e10),
        ("parameters", "6.74e9", 6.74e9),
        ("global_batch", "1,024", 1024),
        ("layers", "24+24", 48),
        ("network", "25 GB/s", 25e9),
        ("network", "200 Gb/s", 25e9),
        ("vocab", "32k", 32000),
        ("devices", "", np.nan),
        ("devices", "n/a", np.nan),
        ("devices", "unknown", np.nan),
    ],
)
def test_numbers_mean_what_they_say(name, cell, value):
    found, problem, _ = words.number(cell, fields()[name])
    assert problem == "" and (found == value or (np.isnan(value) and np.isnan(found)))


@pytest.mark.parametrize(
    "name, cell",
    [
        ("devices", "8-16"),
        ("devices", "8 or 16"),
        ("devices", "8 nodes"),
        ("devices", "eight"),
        ("devices", "0"),
        ("devices", "2.5"),
        ("devices", "8 per node"),
        ("seq", "-4"),
        ("tp", "2/4"),
        ("network", "25 bananas"),
        ("devices", "8,5"),
        ("global_batch", "1e400"),
        ("parameters", "7B-13B"),
    ],
)
def test_numbers_that_are_none_are_refused_by_name(name, cell):
    found, problem, _ = words.number(cell, fields()[name])
    assert np.isnan(found) and name in problem and len(problem) < 300


def test_multiples_are_told_and_change_the_answer_as_written_out():
    short, long = (one("training_transformer", TRAINED | {"seq": cell}) for cell in ("8k", "8192"))
    assert short["predicted"] == long["predicted"] and "8k = 8,192" in short["assumed"]


@pytest.mark.parametrize(
    "cell, key",
    [
        ("Llama 2 7B", "llama2_7b"),
        ("meta-llama/Llama-2-7b-hf", "llama2_7b"),
        ("Llama-2-7B-chat", "llama2_7b"),
        ("LLaMA 3 8B", "llama3_8b"),
        ("ResNet-50 v1.5", "resnet50_v1.5"),
        ("vgg_a (vgg11)", "vgg11"),
    ],
)
def test_spoken_names_lead_to_networks(cell, key):
    assert networks.spoken(cell).key == networks.spoken(key).key != ""


@pytest.mark.parametrize("cell, total", [("Foo-72B-Instruct", 72e9), ("my 1.3b model", 1.3e9), ("Acme 8x7B", None)])
def test_names_that_state_a_size_are_read_by_it(cell, total):
    said = networks.spoken(cell)
    assert not said.key and said.assumed and said.parameters == (total or pytest.approx(7e9 * (1 + 7 * 2 / 3)))


@pytest.mark.parametrize(
    "cell, value",
    [
        ("yes", 1),
        ("True", 1),
        ("1.0", 1),
        ("on", 1),
        ("no", 0),
        ("FALSE", 0),
        ("0.0", 0),
        ("disabled", 0),
        ("maybe", None),
        ("2", None),
    ],
)
def test_yes_and_no(cell, value):
    assert words.truth(cell) == value


@pytest.mark.parametrize(
    "cell, name",
    [
        ("BF16", "bf16"),
        ("torch.bfloat16", "bf16"),
        ("amp_fp16", "fp16"),
        ("mixed", "fp16"),
        ("mxfp8", "fp8"),
        ("float32", "fp32"),
        ("TF32", "tf32"),
        ("int8 (AQT)", "int8"),
        ("bf16 (int4 GPTQ base weights)", "bf16"),
        ("nvfp16x", ""),
        ("bananas", ""),
        ("int3", ""),
    ],
)
def test_number_formats(cell, name):
    assert words.precision(cell) == name


@pytest.mark.parametrize(
    "cell, stage",
    [
        ("3", 3),
        ("3.0", 3),
        ("zero 3", 3),
        ("ZeRO-2", 2),
        ("FSDP", 3),
        ("none", np.nan),
        ("DDP", 0),
        ("distributed optimizer", 1),
    ],
)
def test_stages_of_sharding(cell, stage):
    found, _, problem = words.zero_stage(cell)
    assert problem == "" and (found == stage or (np.isnan(stage) and np.isnan(found)))


@pytest.mark.parametrize(
    "cell, rate, of_node",
    [
        ("4x Omni-Path 100Gb/s per node", 50e9, True),
        ("4x100Gb RoCE per node", 50e9, True),
        ("8x NDR InfiniBand 400Gb/s per node", 50e9, False),
        ("8x HDR InfiniBand 200Gb/s per node (Selene)", 25e9, False),
        ("2x Mellanox ConnectX-5 Ex 100Gb/s Ethernet", 25e9, True),
        ("200 Gb/s HDR IB per GPU", 25e9, False),
        (
            "Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 200Gb/s, Management: 1x 25Gb",
            25e9,
            False,
        ),
        ("n/a (1 node)", np.nan, False),
        ("n/a (single slice)", np.nan, False),
    ],
)
def test_all_ports_of_a_network_count(cell, rate, of_node):
    found, node, problem = words.network(cell)
    assert problem == "" and node == of_node and (found == rate or (np.isnan(found) and np.isnan(rate)))


@pytest.mark.parametrize(
    "cell, modules, word",
    [
        ("selective (op)", "", "0.5"),
        ("selective (layer)", "", "0.5"),
        ("selective", "", "selective"),
        ("partial", "every second product", "0.5"),
        ("custom", "", ""),
        ("custom (offload)", "", ""),
        ("qkv_proj_offloaded", "", "offload"),
    ],
)
def test_words_for_recomputation(cell, modules, word):
    assert words.recompute(cell, modules) == (word, "")


def test_cells_that_say_that_they_state_nothing_are_blank():
    assert np.isnan(words.number("interleaved (stages/rank not stated)", fields()["vp"])[0])
    assert words.attention("2")[::2] == ("", "") == words.attention("-")[::2]
    assert words.offload("possibly (custom remat policy)")[0][0] == "none"


@pytest.mark.parametrize(
    ("cell", "word", "layers"),
    [
        ("activations of 40 layers", "activations", 40),
        ("activations of 16 of 32 layers", "activations", 16),
        ("activations of 16 transformer layers", "activations", 16),
        ("activations", "activations", np.nan),
        ("no (all 32 layers on GPU)", "none", np.nan),
        ("optimizer, 32 layers", "optimiser", np.nan),
        ("optimiser to drives", "optimiser to drives", np.nan),
    ],
)
def test_what_is_offloaded_and_of_how_many_layers(cell, word, layers):
    np.testing.assert_equal(words.offload(cell), ((word, layers), ""))


@pytest.mark.parametrize("count", ["1.5", "1,000", "0", "16/32"])
def test_a_number_of_offloaded_layers_that_cannot_be_read_is_refused(count):
    assert "does not say of how many layers" in words.offload(f"activations of {count} layers")[1]


@pytest.mark.parametrize(
    "software, level",
    [
        ("torchtitan", "torch-compiled"),
        ("torchtitan (PyTorch FSDP2)", "torch-fsdp"),
        ("fms-fsdp (PyTorch FSDP, torch.compile)", "torch-compiled"),
        ("Hugging Face Trainer with DeepSpeed", "transformers"),
        ("Megatron-DeepSpeed", "deepspeed-3d"),
        ("NeMo AutoModel", "torch-fsdp"),
    ],
)
def test_stacks_of_transformer_training(software, level):
    assert words.stack("transformer", software, "") == level


def test_rows_in_doubt_are_not_clear():
    frame = pd.DataFrame({"task": ["pretrain"] * 3 + ["qlora"], "quality": ["A", "B", "C", "A"]})
    assert clear_rows(frame)["quality"].tolist() == ["A", "B", "A"]


def test_a_delay_in_seconds_is_that_in_milliseconds():
    for name in ("TTFT", "ITL", "TPOT", "latency"):
        short, long = (one("inference", SERVED | {"metric": f"{name} {unit}"}) for unit in ("s", "ms"))
        assert long["predicted"] == pytest.approx(1e3 * short["predicted"]), name
        assert long["high80"] == pytest.approx(1e3 * short["high80"]) and short["unit"] == f"{name} s"


def test_a_number_with_a_unit_keeps_to_its_range_too():
    memory = fields("input_pipeline")["memory"]
    assert words.number("64 GB", memory)[:2] == (64e9, "")
    value, why, _ = words.number("-64 GB", memory)
    assert np.isnan(value) and "outside its range" in why


def test_ways_to_count_images_mean_one_rate():
    found = [
        one("inference", IMAGES | {"metric": name})["predicted"]
        for name in ("images/s", "QPS", "samples/s", "FPS", "images per second", "inferences/sec")
    ]
    assert len(set(found)) == 1
    asked = [
        one("inference", SERVED | {"metric": name})["predicted"] for name in ("requests/s", "RPS", "output tokens/s")
    ]
    assert asked[0] == asked[1] == pytest.approx(asked[2] / 128)


def test_a_metric_that_nobody_knows_is_refused_by_name():
    for row in (IMAGES, SERVED):
        found = one("inference", row | {"metric": "bananas/fortnight"})
        assert np.isnan(found["predicted"]) and "bananas" in found["why"]


@pytest.mark.parametrize("kind", ["training_transformer", "training_classic", "inference"])
def test_unknown_columns_are_named_with_the_nearest(kind):
    (told,) = unknown_columns(kind, ["model", "Num GPUs", "devises", "notes", "step_time_s"])
    assert "'devises'" in told and "devices" in told


def test_the_command_names_unknown_columns_and_refuses_them_where_asked(tmp_path, capsys):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    pd.DataFrame([TRAINED | {"devises": "16"}]).to_csv(source, index=False)
    main(["predict", str(source), str(target), "--kind", "training_transformer"])
    assert "devises" in capsys.readouterr().err and target.exists()
    target.unlink()
    with pytest.raises(SystemExit) as refused:
        main(["predict", str(source), str(target), "--kind", "training_transformer", "--strict"])
    assert refused.value.code not in (0, None) and not target.exists()


def test_other_spellings_of_columns_are_read_as_the_fields():
    theirs = {
        "model_name": "llama2_7b",
        "gpu": "h100-sxm",
        "num_gpus": "8",
        "tensor_model_parallel_size": "8",
        "pipeline_parallel_size": "1",
        "dtype": "bf16",
        "seq_len": "4096",
        "mbs": "1",
        "gbs": "64",
        "framework": "NeMo",
    }
    assert one("training_transformer", theirs)["predicted"] == one("training_transformer", TRAINED)["predicted"]


def test_a_language_model_that_nobody_listed_is_answered_from_its_parameters():
    bare = {name: cell for name, cell in TRAINED.items() if name != "model"}
    said, named = (one("training_transformer", bare | more) for more in ({"parameters": "13e9"}, {"model": "Foo-13B"}))
    assert said["predicted"] == named["predicted"] > 0 and "13 B parameters" in named["assumed"]
    small = one("training_transformer", bare | {"parameters": "7e9"})
    assert small["predicted"] < said["predicted"] and small["tier"] != "device and engine measured"
    served = one("inference", SERVED | {"model": "Foo-13B"})
    assert served["predicted"] > 0 and served["memory_bytes"] > 26e9
    nothing = one("training_transformer", bare | {"model": "my_secret_net"})
    assert np.isnan(nothing["predicted"]) and "parameters" in nothing["why"]


def test_cells_of_numbers_and_cells_of_text_are_the_same():
    text, numbers = pd.DataFrame([TRAINED] * 2), pd.DataFrame([TRAINED] * 2)
    for name in ("devices", "tp", "pp", "seq", "micro_batch", "global_batch"):
        numbers[name] = pd.to_numeric(numbers[name])
    text["zero"], numbers["zero"] = ["1", ""], [1, np.nan]
    text["sequence_parallel"], numbers["sequence_parallel"] = ["yes", ""], [1.0, np.nan]
    both = [answer(frame, "training_transformer") for frame in (text, numbers)]
    pd.testing.assert_frame_equal(*both)
    assert both[0]["predicted"].notna().all()


def test_what_reading_gives_holds_no_outcome():
    rows = [read("training_transformer", pd.DataFrame([TRAINED | {"step_time_s": cell}])) for cell in ("1", "9e9")]
    assert set(rows[0].columns) == set(rows[1].columns) and not {"step_time_s", "value"} & set(rows[0].columns)


@pytest.mark.parametrize(
    ("cells", "weights", "kv"),
    [
        ({"model": "Llama-2-70B-chat-AWQ", "precision": ""}, "int4", ""),
        ({"model": "Llama-2-70B-chat-AWQ"}, "int4", ""),
        ({"model": "llama2-70b.Q4_K_M.gguf", "precision": ""}, "q4_k_m", ""),
        ({"model": "Llama-2-70B-FP8-KV", "precision": ""}, "fp8", "fp8"),
        ({"model": "llama2_70b", "quantization": "gptq", "kv_cache_dtype": "fp8_e5m2"}, "int4", "fp8"),
        ({"model": "llama2_70b", "precision": "fp8/bf16/fp16"}, "fp8", "fp16"),
    ],
)
def test_formats_of_checkpoints_are_read_wherever_they_stand(cells, weights, kv):
    told = one("inference", SERVED | cells)
    plain = {"precision": "fp16", "model": "llama2_70b"}
    asked = one("inference", SERVED | plain | {"weights_format": weights, "kv_format": kv or "fp16"})
    assert not told["why"]
    assert told["memory_bytes"] == pytest.approx(asked["memory_bytes"], rel=0.05)
    if "AWQ" in cells["model"] or "Q4" in cells["model"]:
        assert f"weights_format = {weights}" in told["assumed"]
        assert told["predicted"] == pytest.approx(asked["predicted"])


@pytest.mark.parametrize(
    "cells",
    [
        {"quantization": "bananas"},
        {"precision": "Q5_9"},
        {"kv_cache_dtype": "fp3"},
        {"weight_dtype": "int12"},
    ],
)
def test_formats_that_nobody_stores_in_are_refused(cells):
    why = one("inference", SERVED | cells)["why"]
    assert "is not known" in why and next(iter(cells.values())) in why


def test_a_call_refuses_formats_that_are_not_listed():
    with pytest.raises(ValueError, match=r"weights_format = 'int12' is not a choice; take one of .*; nearest: int"):
        cb.generate("llama2_7b", "h100-sxm", input_len=512, output_len=64, weights_format="int12")
    one, other = (
        cb.generate("llama2_7b", "h100-sxm", input_len=512, output_len=64, weights_format=name).point
        for name in ("awq", "int4")
    )
    assert one == other


def test_a_model_by_its_size_keeps_about_as_much_as_a_listed_one_of_that_size():
    row = SERVED | {"batch": "32", "devices": "2"}
    listed, other = (one("inference", row | {"model": name}) for name in ("llama2_70b", "Qwen2.5-72B"))
    assert 0.9 < other["memory_bytes"] / listed["memory_bytes"] < 1.25


def test_sixteen_bits_beside_eight_are_counted_and_told():
    row = {
        "model": "bert_large_mlperf",
        "accelerator": "h100-sxm",
        "devices": "8",
        "batch_per_device": "48",
        "task_input": "max seq_len 512 (variable length, packing/unpadding allowed)",
        "unit": "sequences/s",
        "software": "NGC MXNet",
        "software_notes": "MLPerf-tuned submission",
    }
    both, plain = (one("training_classic", row | {"precision": cell}) for cell in ("fp8+fp16 (TE)", "amp_fp16"))
    assert both["predicted"] == plain["predicted"] > 0 and "fp8+fp16" in both["assumed"]


@pytest.mark.parametrize(
    "cell, key",
    [
        ("DeepSeek-R1-Distill-Qwen-14B", "qwen2.5_14b"),
        ("Qwen2-72B-Instruct", "qwen2.5_72b"),
        ("DeepSeek-R1 671B", "deepseek_v3"),
        ("MiniMax-M2.5", "minimax_m2"),
        ("Kimi K2", "kimi_k2"),
        ("stable_diffusion_v2_unet", "stable_diffusion_2"),
        ("fast rcnn r-50-c4", "detectron_fast_r50_c4"),
        ("mnasnet_075", "mnasnet0_75"),
        ("swinv2_tiny_window8", "swin_v2_t"),
    ],
)
def test_names_of_released_measurements_lead_to_networks(cell, key):
    assert networks.spoken(cell).key == key


def test_cases_of_mlperf_since_2022_are_many_windows():
    old, new = (networks.served(name, "", "samples/s", "offline") for name in ("3d-unet-99", "3d-unet-99 (KiTS19)"))
    assert (old.name, new.name) == ("nnunet_3d", "unet3d") and new.items < 0.1


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("MLPerf Offline (v3.0, closed)", "offline"),
        ("MLPerf Server (v2.1, closed)", "server"),
        ("MLPerf SingleStream (v2.1, closed)", "single_stream"),
        ("static batch 1, decode", "decode"),
        ("static batch 1, prefill", "prefill"),
        ("static batch (timm benchmark.py)", "static"),
        ("static batch Real Time", "real_time"),
        ("static batch forward (training mode)", "forward"),
        ("offline max throughput, in-flight batching, fixed lengths", "offline"),
        ("server, fixed concurrency, random fixed lengths, request rate inf", "server"),
    ],
)
def test_ways_that_requests_arrive_in_as_reports_put_them(said, way):
    found = read("inference", pd.DataFrame([SERVED | {"scenario": said}]))
    assert found.words("scenario").each(str, object).tolist() == [way]


def test_a_way_that_nobody_knows_is_named():
    found = one("inference", SERVED | {"scenario": "by carrier pigeon"})
    assert found["reason"] == "not-read" and "pigeon" in found["why"] and "offline" in found["why"]


@pytest.mark.parametrize("cell", ["submitter-tuned", "max (infinite rate)", "auto", "tuned", "not stated"])
def test_a_number_that_somebody_chose_is_not_stated(cell):
    assert np.isnan(words.number(cell, fields()["batch"])[0]) and words.number(cell, fields()["batch"])[1] == ""
    assert words.number("max 8", fields()["batch"])[1] != "", "a figure beside it is not dropped"


def test_stages_are_cut_as_the_recipes_of_a_stack_do_and_it_is_said():
    """96 layers on 8 stages are 12 a stage: two layers in each of six chunks; 80 layers are ten: five chunks."""
    report = {
        "layers": "96",
        "hidden": "12288",
        "heads": "96",
        "accelerator": "h100-sxm",
        "devices": "64",
        "tp": "8",
        "pp": "8",
        "global_batch": "64",
        "software": "NVIDIA NeMo Framework Release 23.09",
    }
    changes = [{}, {"layers": "80"}, {"vp": "2"}, {"pp": "1", "tp": "8", "devices": "8"}, {"software": "Megatron-LM"}]
    found = read("training_transformer", pd.DataFrame([report | each for each in changes]).fillna(""))
    np.testing.assert_array_equal(np.nan_to_num(found.number("vp"), nan=-1), [6, 5, 2, -1, -1])
    assert "recipes of this stack" in one("training_transformer", report)["assumed"]


def test_devices_with_ports_of_their_own_do_not_exchange_over_the_hosts_adapter():
    row = TRAINED | {"inter_node_link": "2x Ethernet 100Gb/s per node", "devices": "64", "tp": "8"}
    rates = [
        read("training_transformer", pd.DataFrame([row | {"accelerator": each}])).number("node_network")
        for each in ("h100-sxm", "gaudi2")
    ]
    assert float(rates[0][0]) == 25e9 and np.isnan(rates[1][0])


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("LoRA fine-tune", "lora"),
        ("Q-LoRA fine-tune", "qlora"),
        ("SFT (full fine-tune)", "full"),
        ("pretrain", "full"),
    ],
)
def test_what_is_trained_is_read(said, kind):
    found = read("training_transformer", pd.DataFrame([TRAINED | {"task": said}]))
    assert found.words("fine_tuning").each(str, object).tolist() == [kind]


def test_a_training_run_without_a_batch_is_answered_with_the_usual_one():
    """64 images of ResNet-50, of 4.1 G multiply-accumulates, are the power of two below 3e11 of them."""
    row = {
        "model": "resnet50",
        "accelerator": "v100-sxm2-16gb",
        "devices": "1",
        "precision": "fp16",
        "unit": "images/s",
    }
    found, stated = (one("training_classic", row | each) for each in ({}, {"batch_per_device": "64"}))
    assert "batch = 64" in found["assumed"] and found["predicted"] == stated["predicted"] > 0


@pytest.mark.parametrize(
    "columns, same, told",
    [
        ({"sp": "4", "tp": "1"}, {"cp": "4", "tp": "1"}, "cp = 4: sp = 4 is Ulysses"),
        ({"ulysses_degree": "4", "tp": "1"}, {"cp": "4", "tp": "1"}, "cp = 4: Ulysses"),
        ({"sp_size": "4", "cp": "2", "tp": "1"}, {"cp": "8", "tp": "1"}, "cp = 8: sp = 4 is Ulysses"),
        ({"sp": "8"}, {"sequence_parallel": "yes"}, ""),
        ({"parallelism": "TP=2, PP1, sp: 4", "tp": "", "pp": ""}, {"tp": "2", "pp": "1", "cp": "4"}, "tp = 2, pp = 1"),
        ({"layout": "tp8 pp1 / ZeRO=3", "tp": "", "pp": ""}, {"zero": "3"}, "tp = 8, pp = 1"),
    ],
)
def test_ranks_of_ulysses_count_as_context_parallelism_and_layouts_stand_in_a_cell(columns, same, told):
    one_, other = (one("training_transformer", TRAINED | each) for each in (columns, same))
    assert one_["why"] == "" and one_["predicted"] == other["predicted"] and told in one_["assumed"]


def test_ranks_that_are_no_number_are_refused_by_the_name_of_their_column():
    found = answer(pd.DataFrame([TRAINED | {"sp": each} for each in ("64", "1", "6.5", "")]), "training_transformer")
    assert "sp = '6.5'" in found["why"][2] and found["predicted"][1] == found["predicted"][3]


def test_a_batch_that_is_no_whole_number_of_passes_is_shared_out_evenly_and_told():
    row = TRAINED | {"tp": "1", "global_batch": "100", "micro_batch": "3"}
    broken, even = one("training_transformer", row), one("training_transformer", row | {"micro_batch": "2.5"})
    assert broken["predicted"] == even["predicted"] and "evenly = 2.5" in broken["assumed"] and not broken["why"]
    assert "no multiple" in one("training_transformer", row | {"global_batch": "4"})["why"]
    with pytest.raises(ValueError, match="no multiple of dp x micro-batch = 8 x 3: take 96 or 120"):
        cb.train_step("llama2_7b", "h100-sxm", devices=8, tp=1, pp=1, global_batch=100, micro_batch=3)


ORCA = {"model": "llama3_8b", "accelerator": "h100-sxm", "batch": "8", "software": "vLLM", "metric": "output tokens/s"}


@pytest.mark.parametrize(
    "columns, prompt, answered",
    [
        ({"input_len": "OpenOrca"}, 222, 294),
        ({"isl": "MLPerf open-orca data set"}, 222, 294),
        ({"dataset": "ShareGPT"}, 230, 203),
        ({"input_len": "", "data": "CNN/DailyMail"}, 871, 128),
        ({"input_len": "LongBench", "output_len": "LongBench"}, 8948, 91),
        ({"input_len": "sharegpt", "osl": "64"}, 230, 64),
        ({"input_len": "512", "output_len": "128", "dataset": "ShareGPT"}, 512, 128),
    ],
)
def test_data_sets_of_requests_stand_for_the_lengths_that_are_published(columns, prompt, answered):
    columns = {"output_len" if name == "osl" else name: cell for name, cell in columns.items()}
    found = one("inference", ORCA | columns)
    same = one("inference", ORCA | {"input_len": str(prompt), "output_len": str(answered)})
    assert found["why"] == "" and found["predicted"] == same["predicted"]
    told = [f"input_len = {prompt}", f"output_len = {answered}"]
    named = ["512" not in columns.values(), columns.get("output_len", "LongBench") == "LongBench"]
    assert [each in found["assumed"] for each in told] == named


def test_a_data_set_that_nobody_knows_is_no_length():
    assert "input_len = 'bananas' is not a number" in one("inference", ORCA | {"input_len": "bananas"})["why"]
    assert "usual one" in one("inference", ORCA | {"input_len": "MLPerf gpt-oss", "scenario": "offline"})["assumed"]
