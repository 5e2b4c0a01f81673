"""calculon: efficiencies by size of an operation, a hierarchy of networks, Megatron's schedule.

Devices are those of its own system files, which lie in its source beside the package. Its networks have a feed-forward
layer of two matrices, so one of three is given as 1.5 times as wide, and no language-model head.
"""

import logging
import os
from pathlib import Path

from peer_exchange import FINE_TUNING, STEP, Refused, dimensions, exchange, refuse_experts, refuse_other_kinds

SYSTEMS = {"a100-sxm-80gb": "a100_80g", "h100-sxm": "h100_80g_nvl8"}
RECOMPUTE = {"full": "full", "selective": "attn_only", "partial": "attn_only", "none": "none", "": "none"}


def answer(question):
    """Return the total time of one batch as ``calculon llm`` computes it."""
    refuse_other_kinds(question, {STEP, FINE_TUNING})

    import calculon
    from calculon.llm import Llm
    from calculon.system import System

    refuse_experts(question)
    if question["method"] != "full":
        raise Refused("trains all weights only")
    if question.get("cp", 1) > 1 or question.get("zero_stage", 0) > 2:
        raise Refused("takes no context parallelism and no shared weights (ZeRO-3)")
    if question["precision"] not in ("fp16", "bf16"):
        raise Refused(f"takes no {question['precision']}")
    key = question["device"]["names"][0]
    if key not in SYSTEMS:
        raise Refused(f"has no system file of {key}")
    folder = Path(os.environ["PEER_SOURCE"]) / "systems"
    system = calculon.io.read_json_file(str(folder / f"{SYSTEMS[key]}.json"))
    model = Llm(Llm.Application(application(question)), logging.getLogger("calculon"))
    node = System(system, logging.getLogger("calculon")) if System.__init__.__code__.co_argcount > 2 else System(system)
    model.compile(node, Llm.Execution.from_json(execution(question)))
    model.run(node)
    return model.get_total_time()


def application(question):
    """Return the network."""
    size = dimensions(question)
    return {
        "hidden": size["hidden"],
        "feedforward": round(size["ffn_hidden"] * (1.5 if size.get("gated_mlp") else 1)),
        "seq_size": question["sequence_tokens"],
        "attn_heads": size["heads"],
        "attn_size": size.get("head_dim", size["hidden"] // size["heads"]),
        "num_blocks": size["layers"],
    }


def execution(question):
    """Return the parallelism configuration and options; the network of a degree is the nearest that fits."""
    tp, pp = question.get("tp", 1), question.get("pp", 1)
    data, node = question["devices"] // (tp * pp), question["per_node"]
    parallel = tp > 1 and question.get("sequence_parallel") == "yes"
    near = [tp <= node, tp * pp <= node, question["devices"] <= node]
    recompute = RECOMPUTE.get(question["recompute"], "none")
    return {
        "num_procs": question["devices"],
        "tensor_par": tp,
        "pipeline_par": pp,
        "data_par": data,
        "tensor_par_net": 0 if near[0] else 1,
        "pipeline_par_net": 0 if near[1] else 1,
        "data_par_net": 0 if near[2] else 1,
        "batch_size": question["global_batch"],
        "microbatch_size": question.get("micro_batch", 1),
        "datatype": "float16",
        "fused_activation": True,
        "attention_type": "multihead",
        "activation_recompute": recompute,
        "pipeline_interleaving": question.get("vp", 1),
        "optimizer_sharding": question.get("zero_stage", 0) > 0 and data > 1,
        "tensor_par_comm_type": "rs_ag" if parallel else "ar",
        "tensor_par_overlap": "none",
        "seq_par_ag_redo": parallel and recompute != "full",
        "data_par_overlap": False,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
    }


if __name__ == "__main__":
    exchange(answer)
