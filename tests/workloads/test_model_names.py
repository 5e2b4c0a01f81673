"""Names of current models as people type them: checkpoints with owner, suffix and file's end lead to one network."""

import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.prediction.answer import answer
from cookbook.prediction.parsing import networks
from cookbook.workloads.builders import transformers

# As measured tables print them, with the network they are a checkpoint of.
PRINTED = {
    "gpt-oss-20b": "gpt_oss_20b",
    "gpt-oss-120b": "gpt_oss_120b",
    "Llama 3.1 70B Instruct FP8-KV": "llama3_70b",
    "Qwen3-Coder-30B-A3B-Instruct": "qwen3_30b_a3b",
    "Qwen2.5-Coder-7B-Instruct": "qwen2.5_7b",
    "gemma-3-4b-it-qat": "gemma3_4b",
    "Llama 3.1 405B Instruct FP8-KV": "llama3_405b",
    "Nemotron Nano 30B (A3B)": "nemotron_3_nano_30b_a3b",
    "MiniMax-M2.1": "minimax_m2",
    "Llama 3.3 70B Instruct": "llama3_70b",
    "Qwen3-235B-A22B-Instruct-2507": "qwen3_235b_a22b",
    "Qwen3.6-27B-exl3-6.0bpw": "qwen3.5_27b",
    "Qwen3.6-27B-FP8": "qwen3.5_27b",
    "Qwen3.6-27B-INT8-W8A8": "qwen3.5_27b",
    "Qwen3.6-27B-autoround-int4": "qwen3.5_27b",
    "Qwen3-4B-Instruct-2507": "qwen3_4b",
    "Kimi-K2.5": "kimi_k2_thinking",
    "DeepSeek-R1-0528": "deepseek_v3",
    "DeepSeek-V3.1-Terminus": "deepseek_v3",
    "ERNIE-4.5-21B-A3B-PT": "ernie_4.5_21b_a3b",
    "GLM-4.7-Flash": "glm_4.7_flash",
    "MiniMax-M2.5": "minimax_m2",
    "Qwen3-Coder-Next": "qwen3_next_80b_a3b",
    "Qwen3-8B": "qwen3_8b",
    "Qwen3-30B-A3B-Instruct-2507": "qwen3_30b_a3b",
    "Nemotron-3-Super-120B-A12B-NVFP4": "nemotron_3_super_120b_a12b",
    "Mistral-7B-v0.3": "mistral_7b_v0.3",
    "QuantTrio-Qwen3.6-27B-AWQ": "qwen3.5_27b",
    "qwen3.6-35b-a3b-autoround-int4": "qwen3.5_35b_a3b",
    "Llama-3.1-405B-Instruct": "llama3_405b",
    "Qwen3.5-397B-A17B": "qwen3.5_397b_a17b",
    "Kimi-K2-Instruct": "kimi_k2",
    "Qwen3-Coder-480B-A35B-Instruct-FP8": "qwen3_coder_480b_a35b",
    "DeepSeek-V3.2": "deepseek_v3.2",
    "Llama-4-Scout-17B-16E-Instruct": "llama4_scout",
    "Llama-4-Maverick-17B-128E-Instruct": "llama4_maverick",
    "Ministral-3-14B-Instruct-2512": "ministral_3_14b",
    "Qwen3-VL-235B-A22B-Instruct": "qwen3_235b_a22b",
    "DeepSeek-R1-Distill-Qwen-14B": "qwen2.5_14b",
    "GLM-4.5V-FP8": "glm_4.5_air",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-FP8": "nemotron_3_nano_30b_a3b",
    "Kimi-K2-Thinking": "kimi_k2_thinking",
    "DeepSeek-V3.2-Exp": "deepseek_v3.2",
    "GLM-5-FP8": "glm_5",
    "GLM-5.1-FP8": "glm_5",
    "Qwen2.5-7B-Instruct-GPTQ-Int4": "qwen2.5_7b",
    "Qwen3-Next-80B-A3B-Instruct": "qwen3_next_80b_a3b",
    "DeepSeek-R1-FP4": "deepseek_v3",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3_30b_a3b",
    "Qwen3-8B-Q4_K_M.gguf": "qwen3_8b",
    "unsloth/Qwen3-8B-bnb-4bit": "qwen3_8b",
    "opt-13b": "opt_13b",
    "Whisper large-v3": "whisper_large_v3",
    "Qwen3.5-9B": "qwen3.5_9b",
    "DeepSeek-V4-Pro": "deepseek_v4_pro",
    "deepseek-ai/DeepSeek-V4-Flash": "deepseek_v4_flash",
    "Kimi-K3": "kimi_k3",
    "GLM-5.3": "glm_5.2",
    "zai-org/GLM-5.2": "glm_5.2",
    "MiniMax-M3": "minimax_m3",
    "google/gemma-4-31B-it": "gemma4_31b",
    "Gemma-4-26B-A4B": "gemma4_26b_a4b",
    "Gemma 4 E2B": "gemma4_e2b",
    "gemma-4-e4b-it-Q4_K_M.gguf": "gemma4_e4b",
    "Mistral-Large-3": "mistral_large_3",
    "mistralai/Mistral-Small-4-119B-2603": "mistral_small_4",
    "Devstral-2": "devstral_2_123b",
    "Devstral-Small-2-24B": "mistral_small_24b",
    "Step-3.5-Flash": "step_3.5_flash",
    "Hunyuan-A13B": "hunyuan_a13b",
    "ERNIE-4.5-300B-A47B": "ernie_4.5_300b_a47b",
    "MiMo-V2-Flash": "mimo_v2_flash",
    "FLUX.2-dev": "flux_2_dev",
    "Qwen-Image": "qwen_image",
    "Wan2.2-T2V-A14B": "wan2.2_a14b",
    "LTX-2": "ltx_2",
    "SAM 2": "sam2_hiera_large",
    "facebook/dinov3-vitl16-pretrain-lvd1689m": "dinov3_vit_l",
    "Qwen2.5-VL-7B-Instruct": "qwen2.5_7b",
    "Kimi-Linear-48B-A3B-Instruct": "kimi_linear_48b_a3b",
    "c4ai-command-a-03-2025": "command_a",
    "INTELLECT-3": "glm_4.5_air",
    # Tags, as local servers write them.
    "qwen3:8b": "qwen3_8b",
    "qwen3.5:9b": "qwen3.5_9b",
    "gpt-oss:20b": "gpt_oss_20b",
    "gemma4:26b": "gemma4_26b_a4b",
    "mistral:7b": "mistral_7b",
    "llama3:8b-instruct-q4_K_M": "llama3_8b",
    "deepseek-r1:70b": "llama3_70b",
    "kimi-k2.5:cloud": "kimi_k2_thinking",
    "mixtral:8x7b": "mixtral_8x7b",
    "llava:7b": "mistral_7b_v0.2",
    "command-r:35b": "aya_expanse_32b",
}


@pytest.mark.parametrize(("typed", "key"), PRINTED.items(), ids=PRINTED)
def test_a_printed_name_leads_to_its_network(typed: str, key: str) -> None:
    assert catalog.lookup("models", typed) == key
    assert networks.spoken(typed).key == key


@pytest.mark.parametrize(
    ("typed", "weights"),
    [
        ("Qwen3.6-27B-FP8", "fp8"),
        ("Qwen3-8B-Q4_K_M.gguf", "q4_k_m"),
        ("Qwen3.6-27B-autoround-int4", "int4"),
        ("DeepSeek-R1-FP4", "fp4"),
    ],
)
def test_a_suffix_of_format_is_read_in_tables_and_told(typed: str, weights: str) -> None:
    read = networks.served(typed, "1024", "output tokens/s")
    assert read.weights == weights and typed in read.assumed and read.name in read.assumed


# What tables write behind a network that they train, and what people type for the same thing.
TRAINED = (
    "{} fine-tune",
    "{} fine-tuning",
    "{}_finetune",
    "{} fine tuning",
    "{} pretraining",
    "{}_pretrain",
    "{} (LoRA)",
    "{} full fine-tune",
    "{} (fine-tuning)",
    "{} continued pretraining",
)


def test_underscore_hyphen_and_space_are_alike_in_every_name() -> None:
    rows = catalog.table("models")
    for key, name, title in zip(rows["name"], rows["name"], rows["title"], strict=True):
        for joint in " -_":
            assert catalog.lookup("models", name.replace("_", joint)) == key
            assert networks.spoken(title.replace(" ", joint)).key == key


def test_words_of_training_behind_a_name_lead_to_its_network_or_to_that_stage_of_it() -> None:
    for row in catalog.table("models")[["name", "title"]].itertuples():
        for form in TRAINED:
            for name in (row.name, row.title):
                assert networks.spoken(form.format(name)).key.startswith(row.name), form.format(name)


@pytest.mark.parametrize(
    ("typed", "key"),
    {
        "yolov5s": "yolov5s",
        "YOLOv5-s": "yolov5s",
        "yolo11n": "yolo11n",
        "yolov11n": "yolo11n",
        "yolox-s": "yolox_s",
        "RegNetX-4GF": "regnet_x_4gf",
        "regnetx_040": "regnet_x_4gf",
        "RegNetY-6.4GF": "regnet_y_6_4gf",
        "regnety_1280": "regnet_y_128gf",
        "opt_13b": "opt_13b",
        "yolov8n.pt": "yolov8n",
        "CoAtNet-2": "coatnet_2",
        "maxvit_tiny_tf_224": "maxvit_tiny",
        "ResNeXt-152 (32x4d)": "resnext152_32x4d",
    }.items(),
)
def test_spellings_that_people_type(typed: str, key: str) -> None:
    assert catalog.lookup("models", typed) == key and networks.spoken(typed).key == key


def test_adapters_that_a_models_cell_states_are_trained_alone() -> None:
    rows = pd.DataFrame(
        {
            "id": range(4),
            "accelerator": "a100-sxm-80gb",
            "devices": 8,
            "global_batch": 64,
            "seq_len": 2048,
            "precision": "bf16",
            "model": ["llama2 7b", "llama2 7b (LoRA)", "llama2 7b", "llama2 7b QLoRA"],
            "fine_tuning": ["", "", "lora", "finetune"],
        }
    )
    full, named, stated, quantised = answer(rows, "training_transformer").to_dict("records")
    assert named["predicted"] == stated["predicted"] != full["predicted"]
    assert "fine_tuning = lora, as its model says" in named["assumed"]
    assert "fine_tuning = qlora" in quantised["assumed"] and "fine_tuning" not in stated["assumed"]


@pytest.mark.parametrize("typed", ["GLM-9.9-Huge", "Zeta-77B", "resnet51b-fp8-instruct-x"])
def test_a_model_of_another_maker_is_not_offered(typed: str) -> None:
    with pytest.raises(catalog.UnknownName) as unknown:
        catalog.lookup("models", typed)
    assert not [near for near in unknown.value.nearest if near.startswith(("megatron", "gpt", "bert"))]


@pytest.mark.parametrize(
    ("typed", "offered"),
    {
        "Gemma 4": "gemma4_",
        "DeepSeek-V4": "deepseek_v4_",
        "FLUX.2": "flux_2_",
        "Wan2.2": "wan2.2_",
        "DINOv3": "dinov3_",
    }.items(),
)
def test_a_family_without_a_size_is_refused_with_its_sizes(typed: str, offered: str) -> None:
    with pytest.raises(catalog.UnknownName) as unknown:
        catalog.lookup("models", typed)
    assert len(unknown.value.nearest) >= 2 and all(name.startswith(offered) for name in unknown.value.nearest[:2])


@pytest.mark.parametrize("typed", ["FLUX.1-Fill-dev", "Wan2.2-I2V-A14B", "llava:13b"])
def test_a_network_with_other_inputs_is_refused(typed: str) -> None:
    """It has more channels at its input than the one of a like name, or another language model."""
    with pytest.raises(catalog.UnknownName):
        catalog.lookup("models", typed)


def test_a_slip_of_the_pen_is_offered_its_model() -> None:
    with pytest.raises(catalog.UnknownName, match="resnet50"):
        catalog.lookup("models", "resnt50")


def test_a_file_that_is_there_comes_before_a_checkpoints_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen3-8B-Q4_K_M.gguf").write_bytes(b"no model")
    with pytest.raises(ValueError, match="Qwen3-8B"):
        cb.model("Qwen3-8B-Q4_K_M.gguf")


def test_the_published_format_is_taken_and_told() -> None:
    untold = cb.generate("gpt-oss-120b", "h100-sxm")
    assert "weights_format = fp4, as published" in untold.assumed
    stated = cb.generate("gpt-oss-120b", "h100-sxm", weights_format="fp4")
    assert untold.point == stated.point and "as published" not in stated.assumed
    with pytest.raises(ValueError, match="do not fit"):
        cb.generate("gpt-oss-120b", "h100-sxm", precision="bf16")


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"layers": 0}, "layers must be 3 to 78"),
        ({"layers": 79}, "layers must be 3 to 78"),
        ({"heads": None}, "index needs heads, dim and top"),
    ],
)
def test_an_indexer_that_no_layer_can_read_is_refused(index: dict[str, int | None], words: str) -> None:
    sizes = dict(cb.model("glm_5.2").arguments)
    changed = {name: value for name, value in {**sizes["index"], **index}.items() if value is not None}
    with pytest.raises(ValueError, match=words):
        transformers.decoder(**{**sizes, "index": changed})


def test_layers_that_read_what_an_earlier_one_chose_have_no_indexer_of_their_own() -> None:
    """GLM-5.2 by hand: queries, keys and one weight a head, in 21 of 78 layers."""
    sizes = dict(cb.model("glm_5.2").arguments)
    every, some = (
        transformers.decoder(**{**sizes, "index": {**sizes["index"], "layers": layers}}).parameter_count
        for layers in (78, 21)
    )
    heads, dim, width, rank = (
        sizes["index"]["heads"],
        sizes["index"]["dim"],
        sizes["width"],
        sizes["latent"]["q_rank"],
    )
    assert every - some == 57 * (rank * heads * dim + width * dim + 2 * dim + width * heads)
