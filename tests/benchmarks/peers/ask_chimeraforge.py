"""chimeraforge: bandwidth over bytes with coefficients of its own measurements. ``plan``, offline; one user.

It plans for a rate of requests and takes no number of clients, so it is asked for one request at a time, and for the
first token of a server as that of one prompt alone. The backend is the one of the question, llama.cpp as ollama;
networks by name, with the dimensions of the question.
"""

from peer_exchange import BATCH, DECODE, FIRST_TOKEN, NEXT_TOKEN, Refused, exchange, refuse_other_kinds

BACKENDS = {"llama": "ollama", "ollama": "ollama", "vllm": "vllm", "sglang": "sglang", "tgi": "tgi"}
QUANTISATIONS = {"fp16": "FP16", "bf16": "FP16", "fp8": "FP8", "int4": "AWQ"}
SELDOM = 1e-4
NO_LIMIT = 1e12
# It plans nothing without a price; no answer here depends on it.
ANY_PRICE = 1.0


def answer(question):
    """Return the rate, or the first token, of the candidate with the quantisation and backend of the question."""
    refuse_other_kinds(question, {DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN})
    if question["kind"] in (BATCH, NEXT_TOKEN):
        raise Refused("takes a rate of requests, no number of clients")

    from chimeraforge.api import PlanRequest, plan

    software = question["software"].lower()
    backend = next((tool for word, tool in BACKENDS.items() if word in software), None)
    if not backend:
        raise Refused(f"does not know the engine {(question['software'].split() or ['not stated'])[0]}")
    quantisation = QUANTISATIONS.get(question["weights"], question["weights"].upper())
    model, device = question["model"], question["device"]
    facts = {"params_b": model["parameters"] / 1e9}
    names = {"n_layers": "layers", "n_kv_heads": "kv_heads", "d_head": "head_dim", "hidden_size": "hidden"}
    facts |= {theirs: int(model[ours]) for theirs, ours in names.items() if ours in model}
    if model["active_parameters"] < 0.9 * model["parameters"]:
        facts = None
    rates = {"vram_gb": device["memory"] / 1e9, "bandwidth_gbps": device["memory_bandwidth"] / 1e9}
    rates |= {"cost_per_hour": ANY_PRICE}
    peak = device.get("peak_fp16", device.get("peak_bf16"))
    rates |= {"fp16_tflops": peak / 1e12} if peak else {}
    rates |= {"interconnect_gbps": device["link"] / 1e9} if device.get("link") else {}
    request = PlanRequest(
        models=[next((name for name in model["names"] if "/" in name), model["names"][0])],
        hardware=device["names"][1],
        gpu_overrides=rates,
        overrides=facts,
        request_rate=SELDOM,
        prompt_tokens=max(question["input_tokens"], 1),
        avg_tokens=question["output_tokens"],
        context_length=max(question["input_tokens"] + question["output_tokens"], 1),
        kv_quant="fp16",
        tensor_parallel=question["tp"],
        pipeline_parallel=question["pp"],
        platform="macos" if device["vendor"] == "Apple" else "linux",
        quality_target=0.0,
        budget=NO_LIMIT,
        latency_slo=NO_LIMIT,
        allow_network=False,
    )
    candidates = plan(request).to_dict()["result"]["candidates"]
    offered = [one for one in candidates if (one["quant"], one["backend"]) == (quantisation, backend)]
    if not offered:
        raise Refused(f"offers no {quantisation} with {backend}")
    return offered[0]["ttft_ms"] / 1e3 if question["kind"] == FIRST_TOKEN else offered[0]["throughput_tps"]


if __name__ == "__main__":
    exchange(answer)
