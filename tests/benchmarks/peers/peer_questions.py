"""Neutral questions: a sample of the measured rows that predictions are evaluated on, without their outcomes.

A question is a record of plain values: what runs on what, in SI units. Each tool is given the same record and reads
from it what it can. Rows are those of `validation_generation_rows` and `validation_transformer_rows`, whose network is
in the model zoo and for which everything that a question contains is stated. Of each publisher and kind, the rows with
the smallest SHA-256 of their id are taken, so that nobody can choose them and no publisher dominates.
"""

import hashlib
import json
import math
from functools import lru_cache

import numpy as np
import pandas as pd
from peer_exchange import BATCH, DECODE, FINE_TUNING, FIRST_TOKEN, NEXT_TOKEN, STEP, UNITS

from cookbook import catalog, hardware
from cookbook.evidence.evaluation import network_of
from cookbook.prediction.kinds.transformer import of_model, sizes
from cookbook.prediction.parsing import tables
from cookbook.workloads import zoo

PER_PUBLISHER = 24
SERVED = {
    ("decode", "output tokens/s"): DECODE,
    ("static", "output tokens/s"): BATCH,
    ("server", "TTFT ms p50"): FIRST_TOKEN,
    ("server", "TTFT ms avg"): FIRST_TOKEN,
    ("server", "TPOT ms p50"): NEXT_TOKEN,
    ("server", "TPOT ms avg"): NEXT_TOKEN,
}
TASKS = {"pretrain": STEP, "finetune": FINE_TUNING, "lora": FINE_TUNING, "qlora": FINE_TUNING}
METHODS = {"pretrain": "full", "finetune": "full", "lora": "lora", "qlora": "qlora"}
SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp", "vocab", "latent_attention")
LATENT = ("kv_rank", "rope_dim")
EXPERTS = ("experts", "experts_per_token", "shared_experts", "moe_ffn_hidden", "dense_layers")
DEGREES = ("tp", "pp", "vp", "dp", "cp", "ep", "zero_stage", "micro_batch", "global_batch")
PEAKS = ("fp32", "fp16", "bf16", "fp8", "int8", "fp4")


def questions(per_publisher=PER_PUBLISHER):
    """Return the sampled rows, or all where `per_publisher` is None.

    Columns: id, publisher, kind, measured and predicted (by constants that have not seen the publisher) in SI,
    question (JSON).
    """
    rows = pd.concat([_served(), _trained()], ignore_index=True)
    order = [hashlib.sha256(name.encode()).hexdigest() for name in rows["id"]]
    rows = rows.assign(order=order).sort_values(["kind", "publisher", "order"], kind="stable")
    if per_publisher is not None:
        rows = rows[rows.groupby(["kind", "publisher"]).cumcount() < per_publisher]
    return rows.drop(columns="order").reset_index(drop=True)


def _evaluated(name):
    """Return the evaluated rows of a table by id: measured outcome and logarithm of predicted over measured."""
    return catalog.table(f"validation_{name}_rows").set_index("id")[["measured", "full", "unit"]]


def _served():
    evaluated = _evaluated("generation")
    frame = tables.measured_table("generation")
    frame = frame[frame["id"].isin(evaluated.index)].reset_index(drop=True)
    requests = tables.read("inference", tables.without_outcomes(frame))
    cells = {
        name: requests.words(name).each(lambda word: word, object) for name in ("model", "weights_format", "kv_format")
    }
    machines = requests.words("accelerator").each(lambda machine: machine, object)
    rows = []
    for at, row in enumerate(frame.to_dict("records")):
        kind = SERVED.get((row["scenario"], row["metric"]))
        numbers = {name: _number(row[name]) for name in ("batch", "input_len", "output_len")}
        name, weights, machine = cells["model"][at], cells["weights_format"][at], machines[at]
        stated = kind and name and weights and machine and not any(map(math.isnan, numbers.values()))
        degrees, devices = _degrees(row), int(float(row["devices"]))
        # What the other devices do, where there are more than those of the configuration, is no part of a question.
        if not stated or numbers["output_len"] < 1 or degrees["tp"] * degrees["pp"] != devices:
            continue
        question = {
            "id": row["id"],
            "kind": kind,
            "unit": UNITS[kind],
            "model": _network(name, row["model"]),
            "device": device(machine),
            "devices": devices,
            **degrees,
            "software": row["software"],
            "weights": weights,
            "cache": cells["kv_format"][at] or "fp16",
            "batch": int(numbers["batch"]),
            "input_tokens": int(numbers["input_len"]),
            "output_tokens": int(numbers["output_len"]),
        }
        outcome, predicted = _outcome(float(row["value"]), row["metric"], evaluated.loc[row["id"]])
        rows.append(_row(row, kind, outcome, predicted, question))
    return pd.DataFrame(rows)


def _degrees(row):
    """Return degrees of parallelism: where tensor parallelism is not stated, all devices of a pipeline stage."""
    stages = int(_number(row["pp"], 1))
    tensor = int(_number(row["tp"], max(float(row["devices"]) // stages, 1)))
    return {"tp": tensor, "pp": stages, "ep": int(_number(row["ep"], 1))}


def _outcome(value, metric, evaluated):
    """Return outcome and prediction in SI: evaluated latencies are rates, so their ratio is turned over."""
    if " ms" in metric:
        return value / 1e3, value / 1e3 / math.exp(evaluated["full"])
    return value, value * math.exp(evaluated["full"])


def _trained():
    evaluated = _evaluated("transformer")
    frame = tables.measured_table("training_transformer")
    frame = frame[frame["id"].isin(evaluated.index)].reset_index(drop=True)
    machines = tables.read("training_transformer", tables.without_outcomes(frame)).words("accelerator")
    machines, rows = machines.each(lambda machine: machine, object), []
    for at, row in enumerate(frame.to_dict("records")):
        shape = {name: _number(row[name]) for name in (*SHAPE, *EXPERTS) if not math.isnan(_number(row[name]))}
        degrees = {name: _number(row[name]) for name in DEGREES}
        needed = [shape.get(name, math.nan) for name in ("layers", "hidden", "heads", "ffn_hidden", "vocab")]
        needed += [degrees["global_batch"], _number(row["seq_len"]), _number(row["parameters"])]
        if any(map(math.isnan, needed)) or not machines[at] or not row["number_format"]:
            continue
        question = {
            "id": row["id"],
            "kind": TASKS[row["task"]],
            "unit": UNITS[TASKS[row["task"]]],
            "model": {
                "names": _names(row["model"]),
                "parameters": _number(row["parameters"]),
                "active_parameters": _number(row["active_parameters"], _number(row["parameters"])),
                **shape,
            },
            "device": device(machines[at]),
            "devices": int(float(row["devices"])),
            "per_node": int(_number(row["per_node"], min(8, float(row["devices"])))),
            **{name: int(value) for name, value in degrees.items() if not math.isnan(value)},
            "method": METHODS[row["task"]],
            "software": row["software"],
            "precision": row["number_format"],
            "recompute": row["activation_recompute"],
            "sequence_parallel": row["sequence_parallel"],
            "sequence_tokens": int(_number(row["seq_len"])),
        }
        outcome = evaluated.loc[row["id"]]
        predicted = outcome["measured"] * math.exp(outcome["full"])
        rows.append(_row(row, question["kind"], outcome["measured"], predicted, question))
    return pd.DataFrame(rows)


def _row(row, kind, measured, predicted, question):
    return {
        "id": row["id"],
        "publisher": str(tables.publishers(pd.DataFrame([row]))[0]),
        "kind": kind,
        "measured": float(measured),
        "predicted": float(predicted),
        "question": json.dumps(question),
    }


def _number(cell, default=math.nan):
    """Return a cell as a number; yes is 1 and no is 0."""
    text = {"yes": "1", "no": "0"}.get(str(cell).strip(), str(cell).strip())
    return default if text in ("", "nan") else float(text)


@lru_cache(maxsize=512)
def _names(printed):
    """Return the names of a network: as printed, its key, its aliases; those of a model hub among them."""
    table, key = catalog.table("models").set_index("name"), network_of(printed)
    aliases = str(table.loc[key, "aliases"]).split(";") if key in table.index else []
    return list(dict.fromkeys(name for name in (printed, key, *aliases) if name))


@lru_cache(maxsize=512)
def _network(key, printed):
    """Return what a question says of a network of the zoo: names, parameters, dimensions."""
    network = zoo.model(key)
    found = of_model(key)
    shape = {name: float(found[name]) for name in (*SHAPE, *LATENT, *EXPERTS) if name in found}
    total, stored = float(network.ops.parameter_count), sizes(key)
    routed = stored["expert_bytes"] / 2
    active = total - routed * (1 - stored["experts_per_token"] / stored["experts"]) if routed else total
    state = network.builder == zoo.HYBRID
    names = list(dict.fromkeys([*_names(printed), *_names(key)]))
    return {"names": names, "parameters": total, "active_parameters": active, "state_layers": state, **shape}


def device(machine: hardware.Machine):
    """Return what a question says of a device: names, memory [B], rates [B/s], dense peaks [FLOP/s]; none is blank."""
    accelerator = machine.accelerator
    row = catalog.table("accelerators").set_index("key").loc[accelerator.key]
    peaks = {name: row[f"peak_{name}"] for name in PEAKS}
    for column in ("peak_fp16_vector", "peak_fp16_fp32acc"):
        if np.isfinite(row[column]) and (column == "peak_fp16_fp32acc" or np.isnan(peaks["fp16"])):
            peaks["fp16"] = row[column]
    numbers = {
        "memory": row["memory_bytes"],
        "memory_bandwidth": row["mem_bandwidth"],
        "link": machine.link,
        "network": machine.network,
        **{f"peak_{name}": value for name, value in peaks.items()},
    }
    names = [accelerator.key, row["name"], *str(row["aliases"]).split(";")]
    stated = {name: float(value) for name, value in numbers.items() if np.isfinite(value)}
    return {"names": [name for name in names if name], "vendor": row["vendor"], **stated}
