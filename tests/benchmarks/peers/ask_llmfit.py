"""llmfit: bandwidth over bytes, times a constant. ``llmfit plan`` with a profile of the device; one user, one device.

Its catalogue of models is the one inside the binary; nothing is fetched.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from peer_exchange import DECODE, FIRST_TOKEN, Refused, exchange, refuse_other_kinds, refuse_several_devices

TOOL = Path(sys.executable).with_name("llmfit")
QUANTISATIONS = {"fp16": "F16", "bf16": "BF16", "int8": "Q8_0", "fp8": "Q8_0", "int4": "Q4_K_M", "fp4": "Q4_K_M"}
QUANTISATIONS |= {"q4_0": "Q4_0", "q8_0": "Q8_0", "q4_k_m": "Q4_K_M", "q6_k": "Q6_K", "q5_k_m": "Q5_K_M"}


def answer(question):
    """Return the rate of the path "gpu" of the plan; refuse where the memory it needs is more than there is."""
    refuse_other_kinds(question, {DECODE, FIRST_TOKEN})
    if question["kind"] == FIRST_TOKEN:
        raise Refused("states the first token of a device in the machine only")
    refuse_several_devices(question)
    if question["weights"] not in QUANTISATIONS:
        raise Refused(f"takes no {question['weights']}")
    for name in question["model"]["names"]:
        if "/" not in name:
            continue
        found = plan(name, question)
        if found and found["model_name"].lower() == name.lower():
            path = next(one for one in found["run_paths"] if one["path"] == "gpu")
            if path["minimum"]["vram_gb"] * 1e9 > question["device"]["memory"]:
                raise Refused("does not fit in memory")
            return path["estimated_tps"]
    raise Refused("does not know the model")


def plan(name, question):
    """Return the plan of one model, or None where the tool has no model of this name."""
    context = max(question["input_tokens"] + question["output_tokens"], 1)
    command = [TOOL, "--profile", profile(json.dumps(question["device"])), "plan", name, "--context", str(context)]
    command += ["--quant", QUANTISATIONS[question["weights"]], "--json", "--no-dashboard"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    return None if run.returncode else json.loads(run.stdout)


@lru_cache(maxsize=64)
def profile(device):
    """Return the path of a hardware profile with the rates of a device."""
    facts = json.loads(device)
    hardware = {
        "total_ram_gb": 256.0,
        "unified_memory": facts["vendor"] == "Apple",
        "gpu_memory_bandwidth_gbps": facts["memory_bandwidth"] / 1e9,
        "ddr_bandwidth_gbps": 100.0,
    }
    peak = facts.get("peak_fp16", facts.get("peak_bf16"))
    if peak:
        hardware["gpu_compute_tflops_fp16"] = peak / 1e12
    path = Path(tempfile.mkdtemp()) / "asked.json"
    words = {"gpu_name_contains": facts["names"][1]}
    path.write_text(json.dumps({"schema_version": 1, "name": "asked", "hardware": hardware, "match": words}))
    return str(path)


if __name__ == "__main__":
    exchange(answer)
