"""aiconfigurator: measured times of kernels of three engines, and the schedule of a step. ``cli_estimate``.

The newest version of the engine that it has measured; measured kernels alone (SILICON), and where it has none of a
case, its mixture with formulas (HYBRID). One sequence and static batches in its static mode, servers as requests in
flight. Networks by their name, or by a configuration written from the dimensions where they are Llama's; number
formats are those of the question, or as published where these are the same.
"""

import json
import tempfile
from functools import lru_cache
from pathlib import Path

from peer_exchange import (
    BATCH,
    DECODE,
    FIRST_TOKEN,
    NEXT_TOKEN,
    Refused,
    batch_rate,
    dimensions,
    exchange,
    refuse_experts,
    refuse_other_kinds,
)

SYSTEMS = {
    "a100-sxm-80gb": "a100_sxm",
    "a100-pcie-80gb": "a100_pcie",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100-sxm": "h100_sxm",
    "h100-pcie": "h100_pcie",
    "h200-sxm": "h200_sxm",
    "l40s": "l40s",
    "l4": "l4",
    "a30": "a30",
    "rtx-pro-6000-server": "rtx_pro_6000_server",
}
ENGINES = {"tensorrt": "trtllm", "trt": "trtllm", "nim": "trtllm", "vllm": "vllm", "sglang": "sglang"}
PRODUCTS = {"fp16": "bfloat16", "bf16": "bfloat16", "fp8": "fp8", "int8": "int8_wo", "int4": "int4_wo", "fp4": "nvfp4"}
CACHES = {"fp16": "bfloat16", "bf16": "bfloat16", "fp8": "fp8", "int8": "int8"}


def answer(question):
    """Return the answer of ``cli_estimate``."""
    refuse_other_kinds(question, {DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN})
    software = question["software"].lower()
    engine = next((tool for word, tool in ENGINES.items() if word in software), None)
    if not engine:
        raise Refused(f"does not know the engine {question['software'].split()[0]}")
    key = question["device"]["names"][0]
    if key not in SYSTEMS:
        raise Refused(f"does not know {key}")
    if question["weights"] not in PRODUCTS or question["cache"] not in CACHES:
        raise Refused(f"takes no {question['weights']} with a cache of {question['cache']}")
    served, network = question["kind"] in (FIRST_TOKEN, NEXT_TOKEN), network_of(question)
    published = published_format(network) == question["weights"]
    setting = {
        "model_path": network,
        "system_name": SYSTEMS[key],
        "mode": "agg" if served else "static",
        "backend_name": engine,
        "isl": max(question["input_tokens"], 1),
        "osl": max(question["output_tokens"], 2),
        "batch_size": question["batch"],
        "gemm_quant_mode": None if published else PRODUCTS[question["weights"]],
        "kvcache_quant_mode": CACHES[question["cache"]],
        "tp_size": question["tp"],
        "pp_size": question["pp"],
    }
    found = estimate(setting, expert_configurations(question, published))
    if question["kind"] == FIRST_TOKEN:
        return found.ttft / 1e3
    step = found.tpot / 1e3
    if question["kind"] == NEXT_TOKEN:
        return step
    return batch_rate(question, found.ttft / 1e3, step) if question["kind"] == BATCH else 1 / step


def estimate(setting, configurations):
    """Return the first estimate: measured kernels, then a mixture with formulas; experts split, then spread."""
    from aiconfigurator.cli.api import cli_estimate

    problem = None
    for experts in configurations:
        for mode in ("SILICON", "HYBRID"):
            try:
                return cli_estimate(**setting, **experts, database_mode=mode)
            except TimeoutError:  # of the whole question
                raise
            except (Exception, SystemExit) as refusal:
                problem = problem or refusal
    raise problem


def expert_configurations(question, published):
    """Return ways of placing experts: as the question says; where it splits each, also spread over the devices."""
    model = question["model"]
    if model["active_parameters"] > 0.9 * model["parameters"]:
        return [{}]
    tp, ep, product = question["tp"], question["ep"], None if published else PRODUCTS[question["weights"]]
    degrees = dict.fromkeys([(ep, max(tp // ep, 1)), (tp, 1)])
    return [{"moe_ep_size": spread, "moe_tp_size": split, "moe_quant_mode": product} for spread, split in degrees]


@lru_cache(maxsize=1)
def known():
    """Return the networks whose configuration the package contains: plain name to names."""
    import aiconfigurator_core

    folder, names = Path(aiconfigurator_core.__file__).parent / "model_configs", {}
    for path in sorted(folder.glob("*_config.json")):
        name = path.name.removesuffix("_config.json").replace("--", "/")
        if "hf_quant" not in path.name:
            names.setdefault(plain(name), []).append(name)
    return names


def plain(name):
    """Return the name of a network without its owner, number format and kind of tuning."""
    name = name.lower().rpartition("/")[2].removeprefix("meta-")
    for suffix in ("-bf16", "-fp8", "-nvfp4", "-instruct"):
        name = name.removesuffix(suffix)
    return name


@lru_cache(maxsize=64)
def published_format(network):
    """Return the format in which the weights of a network are published, where its configuration states one."""
    import aiconfigurator_core

    folder = Path(aiconfigurator_core.__file__).parent / "model_configs"
    path = folder / f"{network.replace('/', '--')}_config.json"
    if not path.exists():
        return ""
    if "nvfp4" in network.lower():
        return "fp4"
    stated = json.loads(path.read_text()).get("quantization_config") or {}
    return {"fp8": "fp8", "mxfp4": "fp4", "compressed-tensors": "int4"}.get(stated.get("quant_method"), "")


def network_of(question):
    """Return the name of a network that the package knows, or a folder with a configuration like Llama's."""
    for name in question["model"]["names"]:
        names = known().get(plain(name), [])
        same = [one for one in names if published_format(one) == question["weights"]]
        unquantised = [one for one in names if not published_format(one)]
        if names:
            return (same or unquantised or names)[0]
    size = dimensions(question)
    refuse_experts(question)
    if not size.get("gated_mlp") or question["model"].get("windowed"):
        raise Refused("knows none of its names, and its layers are not Llama's")
    return written(json.dumps(size))


@lru_cache(maxsize=64)
def written(size):
    """Return a folder with the configuration of a network of these dimensions, in the fields of Llama."""
    size, folder = json.loads(size), Path(tempfile.mkdtemp())
    configuration = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": size["hidden"],
        "intermediate_size": size["ffn_hidden"],
        "num_hidden_layers": size["layers"],
        "num_attention_heads": size["heads"],
        "num_key_value_heads": size["kv_heads"],
        "head_dim": size["head_dim"],
        "vocab_size": size["vocab"],
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(configuration))
    return str(folder)


if __name__ == "__main__":
    exchange(answer)
