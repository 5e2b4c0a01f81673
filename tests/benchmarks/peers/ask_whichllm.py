"""whichllm: bandwidth over bytes, times constants of the quantisation and of the maker. One user, one device."""

from peer_exchange import DECODE, Refused, exchange, refuse_other_kinds, refuse_several_devices

# Names that its table of quantisations lacks: others of the same number of bits.
QUANTISATIONS = {
    "fp16": "F16",
    "fp32": "F32",
    "int8": "Q8_0",
    "fp8": "Q8_0",
    "int4": "Q4_K_M",
    "fp4": "NVFP4",
    "q5_k_s": "Q5_K_S",
}


def answer(question):
    """Return the answer of ``estimate_tok_per_sec``."""
    refuse_other_kinds(question, {DECODE})

    from whichllm.data.quantization import QUANT_BYTES_PER_WEIGHT
    from whichllm.engine.performance import estimate_tok_per_sec
    from whichllm.hardware.types import GPUInfo
    from whichllm.models.types import GGUFVariant, ModelInfo

    refuse_several_devices(question)
    quantisation = QUANTISATIONS.get(question["weights"], question["weights"].upper())
    if quantisation not in QUANT_BYTES_PER_WEIGHT:
        raise Refused(f"takes no {question['weights']}")
    model, device = question["model"], question["device"]
    total, active = round(model["parameters"]), round(model["active_parameters"])
    name = model["names"][-1]
    stored = round(total * QUANT_BYTES_PER_WEIGHT[quantisation])
    if stored > device["memory"]:
        raise Refused("does not fit in memory")
    gpu = GPUInfo(
        name=device["names"][1],
        vendor=device["vendor"].lower(),
        vram_bytes=round(device["memory"]),
        memory_bandwidth_gbps=device["memory_bandwidth"] / 1e9,
        shared_memory=device["vendor"] == "Apple",
    )
    network = ModelInfo(
        id=name,
        family_id=name,
        name=name,
        parameter_count=total,
        parameter_count_active=active if active < 0.9 * total else None,
        is_moe=active < 0.9 * total,
    )
    return estimate_tok_per_sec(network, GGUFVariant(f"{quantisation}.gguf", quantisation, stored), gpu)


if __name__ == "__main__":
    exchange(answer)
