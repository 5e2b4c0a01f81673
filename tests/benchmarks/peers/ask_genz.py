"""GenZ: a roofline of each operator, ring collectives. Its default efficiency, 1: it states the bound of an operator.

It knows no queue: the first token of a server is that of one prompt alone.
"""

from peer_exchange import (
    BATCH,
    DECODE,
    FIRST_TOKEN,
    NEXT_TOKEN,
    Refused,
    batch_rate,
    dimensions,
    equal_experts,
    exchange,
    middle_context,
    peak_of,
    refuse_other_kinds,
)

FORMATS = {"fp16": "bf16", "bf16": "bf16", "fp8": "fp8", "int8": "int8", "int4": "int4", "fp4": "fp4", "fp32": "f32"}
FORMATS |= {"q8_0": "int8", "q4_0": "int4", "q4_k_m": "int4"}


def answer(question):
    """Return the answer of ``prefill_moddeling`` and ``decode_moddeling``."""
    refuse_other_kinds(question, {DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN})
    if question["weights"] not in FORMATS:
        raise Refused(f"takes no {question['weights']}")
    setting = {
        "model": network_of(question),
        "batch_size": question["batch"],
        "system_name": system_of(question),
        "bits": FORMATS[question["weights"]],
        **configuration_of(question),
    }
    if question["kind"] == FIRST_TOKEN:
        return first_token({**setting, "batch_size": 1}, question)
    step = next_token(setting, question)
    if question["kind"] == NEXT_TOKEN:
        return step
    return batch_rate(question, first_token(setting, question), step) if question["kind"] == BATCH else 1 / step


def first_token(setting, question):
    """Return seconds of the prompts of a batch."""
    from GenZ import prefill_moddeling

    return prefill_moddeling(input_tokens=max(question["input_tokens"], 1), **setting)["Latency"] / 1e3


def next_token(setting, question):
    """Return seconds of one step, the cache as full as half-way through the answer."""
    from GenZ import decode_moddeling

    return decode_moddeling(input_tokens=middle_context(question), output_tokens=0, Bb=1, **setting)["Latency"] / 1e3


def network_of(question):
    """Return the network by its dimensions."""
    from GenZ.Models.default_models import ModelConfig

    size = dimensions(question)
    experts, alike = {}, equal_experts(size)
    if alike:
        names = ("num_experts", "expert_top_k", "moe_intermediate_size")
        experts = {**dict(zip(names, alike, strict=True)), "moe_layer_freq": 1}
    return ModelConfig(
        model="asked",
        vocab_size=size["vocab"],
        hidden_size=size["hidden"],
        intermediate_size=size["ffn_hidden"],
        num_ffi=2 if size.get("gated_mlp") else 1,
        num_decoder_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"],
        head_dim=size["head_dim"],
        **experts,
    )


def system_of(question):
    """Return the device by its datasheet; the peak is that of 16 bits, which the tool scales."""
    device = question["device"]
    return {
        "Flops": peak_of(question) / 1e12,
        "Memory_size": device["memory"] / 2**30,
        "Memory_BW": device["memory_bandwidth"] / 1e9,
        "ICN": device.get("link", 32e9) / 1e9,
        "real_values": True,
    }


def configuration_of(question):
    """Return degrees of parallelism."""
    tp, pp, ep = (question[name] for name in ("tp", "pp", "ep"))
    return {
        "tensor_parallel": tp,
        "pipeline_parallel": pp,
        "expert_parallel": ep,
        "parallelism_heirarchy": f"TP{{{tp}}}_EP{{{ep}}}_PP{{{pp}}}",
    }


if __name__ == "__main__":
    exchange(answer)
