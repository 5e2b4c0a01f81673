"""llm-analysis: a roofline of each part of a layer, with shares of peak and of bandwidth that the user chooses.

Shares as its manual suggests: 0.5 of the peak for training, 0.7 for inference, 0.9 of the bandwidth. It knows a
feed-forward layer of two matrices; as its own files of Llama do, one of three is given as 1.5 times as wide.
It knows no queue: the first token of a server is that of one prompt alone.
"""

from peer_exchange import (
    BATCH,
    DECODE,
    FINE_TUNING,
    FIRST_TOKEN,
    NEXT_TOKEN,
    STEP,
    Refused,
    batch_rate,
    dimensions,
    equal_experts,
    exchange,
    peak_of,
    refuse_other_kinds,
)

BITS = {"fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "q8_0": 8, "int4": 4, "fp4": 4, "q4_0": 4, "q4_k_m": 4}
STEPS = {STEP, FINE_TUNING}


def answer(question):
    """Return the answer of ``LLMAnalysis.inference`` or ``LLMAnalysis.training``."""
    refuse_other_kinds(question, {DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN, *STEPS})

    from llm_analysis import analysis

    training = question["kind"] in STEPS
    if training and question["method"] != "full":
        raise Refused("models full fine-tuning only")
    if training and question.get("cp", 1) > 1:
        raise Refused("takes no context parallelism")
    tool = analysis.LLMAnalysis(
        model_of(question),
        device_of(question),
        number_formats_of(question),
        parallelism_of(question),
        flops_efficiency=0.5 if training else 0.7,
        hbm_memory_efficiency=0.9,
    )
    return trained(tool, question) if training else generated(tool, question)


def generated(tool, question):
    """Return tokens per second of a batch, or the delay of the first or the next token."""
    found = tool.inference(
        batch_size_per_gpu=1 if question["kind"] == FIRST_TOKEN else question["batch"],
        seq_len=max(question["input_tokens"], 1),
        num_tokens_to_generate=question["output_tokens"],
    )
    if question["kind"] == FIRST_TOKEN:
        return found["prefill_latency"]
    step = found["decode_latency"]
    if question["kind"] == NEXT_TOKEN:
        return step
    return batch_rate(question, found["prefill_latency"], step) if question["kind"] == BATCH else 1 / step


def trained(tool, question):
    """Return seconds of one step of the global batch."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO

    micro, recompute = question.get("micro_batch"), question["recompute"].upper() or "NONE"
    found = tool.training(
        batch_size_per_gpu=micro,
        global_batch_size=question["global_batch"],
        seq_len=question["sequence_tokens"],
        activation_recomputation=ActivationRecomputation["SELECTIVE" if recompute == "PARTIAL" else recompute],
        ds_zero=DSZeRO(question.get("zero_stage", 0)),
        mlp_gated_linear_units=False,
    )
    return found["latency_per_iter"]


def model_of(question):
    """Return the network by its dimensions."""
    from llm_analysis.config import ModelConfig

    size = dimensions(question)
    experts, chosen, width = equal_experts(size) or (1, 1, size["ffn_hidden"])
    width = round(width * (1.5 if size.get("gated_mlp") else 1))
    return ModelConfig(
        name="asked",
        num_layers=size["layers"],
        n_head=size["heads"],
        hidden_dim=size["hidden"],
        vocab_size=size["vocab"],
        max_seq_len=2**20,
        num_key_value_heads=size.get("kv_heads", size["heads"]),
        ffn_embed_dim=width,
        expansion_ratio=width / size["hidden"],
        moe_num_experts=experts,
        moe_top_k=chosen,
    )


def device_of(question):
    """Return the device by its datasheet."""
    from llm_analysis.config import GPUConfig

    device = question["device"]
    peak = peak_of(question)
    return GPUConfig(
        name="asked",
        mem_per_GPU_in_GB=device["memory"] / 1e9,
        hbm_bandwidth_in_GB_per_sec=device["memory_bandwidth"] / 1e9,
        intra_node_bandwidth_in_GB_per_sec=device.get("link", 32e9) / 1e9,
        intra_node_min_message_latency=8e-6,
        peak_fp16_TFLOPS=peak / 1e12,
        peak_i8_TFLOPS=device.get("peak_fp8", device.get("peak_int8", peak)) / 1e12,
        inter_node_bandwidth_in_GB_per_sec=device.get("network", 25e9) / 1e9,
    )


def number_formats_of(question):
    """Return bits of weights and activations: activations of 8 bits for fp8 and int8 products."""
    from llm_analysis.config import DtypeConfig

    stored = question.get("weights") or question["precision"]
    if stored not in BITS:
        raise Refused(f"takes no {stored}")
    bits = BITS[stored]
    return DtypeConfig("asked", weight_bits=bits, activation_bits=8 if stored in ("fp8", "int8") else 16)


def parallelism_of(question):
    """Return the parallelism configuration; blank degrees are 1 or what remains of the devices."""
    from llm_analysis.config import ParallelismConfig

    tp, pp = question.get("tp", 1), question.get("pp", 1)
    data = question["devices"] // (tp * pp) if "method" in question else 1
    split = tp if question.get("sequence_parallel") == "yes" else 1
    return ParallelismConfig(tp_size=tp, pp_size=pp, dp_size=data, sp_size=split)


if __name__ == "__main__":
    exchange(answer)
