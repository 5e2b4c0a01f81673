"""mlsysim: a roofline with one compute efficiency, and collectives of three kinds of parallelism.

Its default efficiency, 0.5. Networks are given by their dimensions and devices by their datasheet, all else of them as
in its entries of Llama 2, Mixtral and H100. Its model of serving takes one device, its model of a fleet trains.
It is asked for no queue: the first token of a server is that of one prompt alone.
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
    exchange,
    middle_context,
    peak_of,
    refuse_other_kinds,
    refuse_several_devices,
)

FORMATS = {"fp16": "fp16", "bf16": "fp16", "fp8": "fp8", "int8": "int8", "int4": "int4", "fp32": "fp32"}
FORMATS |= {"q8_0": "int8", "q4_0": "int4", "q4_k_m": "int4"}


def answer(question):
    """Return the answer of ``ServingModel`` or ``DistributedModel``."""
    refuse_other_kinds(question, {DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN, STEP, FINE_TUNING})
    stored = question.get("weights") or question["precision"]
    if stored not in FORMATS:
        raise Refused(f"takes no {stored}")
    ask = trained if question["kind"] in (STEP, FINE_TUNING) else generated
    return ask(question, network_of(question), device_of(question), FORMATS[stored])


def network_of(question):
    """Return the network by its dimensions, latent attention and experts among them."""
    import mlsysim

    size, units = dimensions(question, latent=True), mlsysim.core.units.ureg
    zoo, active = mlsysim.Models.Language, size.get("active_parameters", size["parameters"])
    facts = {
        "name": "asked",
        "parameters": size["parameters"] * units.param,
        "inference_flops": 2 * active * units.flop,
        "layers": size["layers"],
        "hidden_dim": size["hidden"],
        "heads": size["heads"],
        "kv_heads": size.get("kv_heads", size["heads"]),
        "head_dim": size.get("head_dim"),
        "vocab_size": size["vocab"],
    }
    if size.get("latent_attention"):
        facts |= {"kv_lora_rank": size["kv_rank"], "qk_rope_head_dim": size["rope_dim"]}
    if size.get("experts", 1) <= 1:
        return zoo.Llama2_7B.model_copy(update=facts)
    facts |= {"experts": size["experts"], "active_experts_per_token": size["experts_per_token"]}
    return zoo.Mixtral_8x7B.model_copy(update={**facts, "active_parameters": active * units.param})


def device_of(question):
    """Return the device by its datasheet."""
    import mlsysim

    facts, usual, units = question["device"], mlsysim.Hardware.Cloud.H100, mlsysim.core.units.Q_
    stated = {"fp16": peak_of(question)}
    stated |= {name: facts.get(f"peak_{name}") for name in ("fp32", "fp8", "int8", "fp4")}
    stated |= {"int4": stated["int8"]}
    peaks = {name: units(value / 1e12, "TFLOP/s") for name, value in stated.items() if value}
    rate = {"bandwidth": units(facts["memory_bandwidth"] / 1e9, "GB/s")}
    return usual.model_copy(
        update={
            "name": "asked",
            "compute": usual.compute.model_copy(update={"peak_flops": peaks["fp16"], "precision_flops": peaks}),
            "memory": usual.memory.model_copy(update={**rate, "capacity": units(facts["memory"] / 1e9, "GB")}),
        }
    )


def generated(question, network, node, precision):
    """Return tokens per second of a batch, or the delay of the first or the next token."""
    import mlsysim

    refuse_several_devices(question)
    solver = mlsysim.solvers.ServingModel()

    def solved(tokens, batch=question["batch"]):
        found = solver.solve(network, node, max(tokens, 1), batch, precision)
        if not found.feasible:
            raise Refused("does not fit in memory")
        return found.ttft.to("s").magnitude, found.itl.to("s").magnitude

    if question["kind"] == FIRST_TOKEN:
        return solved(question["input_tokens"], 1)[0]
    step = solved(middle_context(question))[1]
    if question["kind"] == NEXT_TOKEN:
        return step
    return batch_rate(question, solved(question["input_tokens"])[0], step) if question["kind"] == BATCH else 1 / step


def trained(question, network, device, precision):
    """Return seconds of one step of the global batch."""
    import mlsysim
    from mlsysim.systems.types import Fleet, NetworkFabric, Node

    units, facts = mlsysim.core.units.Q_, question["device"]
    if question.get("cp", 1) > 1:
        raise Refused("takes no context parallelism")
    if question["method"] == "qlora":
        raise Refused("takes no quantised weights below adapters")
    per_node = min(question["per_node"], question["devices"])
    tp, pp = question.get("tp", 1), question.get("pp", 1)
    data = max(question["devices"] // (tp * pp), 1)
    passes = max(round(question["global_batch"] / data / question.get("micro_batch", 1)), 1)
    fleet = Fleet(
        name="asked",
        node=Node(
            name="asked",
            accelerator=device,
            accelerators_per_node=per_node,
            intra_node_bw=units(facts.get("link", 32e9) / 1e9, "GB/s"),
        ),
        count=max(question["devices"] // per_node, 1),
        fabric=NetworkFabric(name="asked", bandwidth=units(facts.get("network", 25e9) / 1e9, "GB/s")),
    )
    found = mlsysim.solvers.DistributedModel().solve(
        network,
        fleet,
        batch_size=question["global_batch"],
        precision=precision,
        tp_size=tp,
        pp_size=pp,
        ep_size=question.get("ep", 1),
        v_stages=question.get("vp", 1),
        microbatch_count=passes if pp > 1 else 1,
        zero_stage=question.get("zero_stage", 0),
        is_lora=question["method"] == "lora",
        activation_recomputation=question["recompute"] == "full",
        gradient_accumulation_steps=passes if pp == 1 else 1,
        seq_len=question["sequence_tokens"],
    )
    return found.step_latency_total.to("s").magnitude


if __name__ == "__main__":
    exchange(answer)
