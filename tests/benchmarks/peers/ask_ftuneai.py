"""ftuneai: six FLOP per parameter and token over a utilisation by method, times a scaling factor by sharding strategy.

Its defaults. Hours are rounded to two decimals, so it is asked for a very large data set and the answer is divided.
"""

from peer_exchange import FINE_TUNING, Refused, dimensions, exchange, refuse_other_kinds

STEPS = 10**7
SHARDING = {0: "none", 1: "zero_1", 2: "zero_2", 3: "zero_3"}


def answer(question):
    """Return the answer of ``TimeEstimator.estimate`` for one step."""
    refuse_other_kinds(question, {FINE_TUNING})

    from ftuneai.core.models import FineTuneMethod, GPUSpec, ModelSpec, ShardingStrategy, TrainingConfig
    from ftuneai.core.time import TimeEstimator

    if question.get("tp", 1) * question.get("pp", 1) * question.get("cp", 1) > 1:
        raise Refused("takes data parallelism only")
    size, device = dimensions(question), question["device"]
    model = ModelSpec(
        name="asked",
        parameters=size["parameters"],
        hidden_size=size["hidden"],
        num_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_kv_heads=size.get("kv_heads", size["heads"]),
        intermediate_size=size["ffn_hidden"],
        vocab_size=size["vocab"],
        max_seq_length=question["sequence_tokens"],
        is_moe=size.get("experts", 1) > 1,
        num_experts=size.get("experts"),
        num_active_experts=size.get("experts_per_token"),
    )
    gpu = GPUSpec(
        name="asked",
        vram_gb=device["memory"] / 1e9,
        fp16_tflops=device.get("peak_fp16", 0) / 1e12,
        bf16_tflops=device.get("peak_bf16", device.get("peak_fp16", 0)) / 1e12,
        fp32_tflops=device.get("peak_fp32", 0) / 1e12,
        memory_bandwidth_gbps=device["memory_bandwidth"] / 1e9,
    )
    config = TrainingConfig(
        method=FineTuneMethod(question["method"]),
        batch_size=question.get("micro_batch", 1),
        seq_length=question["sequence_tokens"],
        sharding=ShardingStrategy(SHARDING[question.get("zero_stage", 0)]),
        num_gpus=question["devices"],
    )
    samples = question["global_batch"] * STEPS
    found = TimeEstimator(model, config).estimate(gpu, samples, epochs=1, num_gpus=question["devices"])
    return found.total_hours * 3600 / STEPS


if __name__ == "__main__":
    exchange(answer)
