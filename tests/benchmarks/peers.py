"""Predictions a second beside other analytic tools that install, in the same run: ``make peers``.

Each tool predicts one training step of Llama 2 7B on A100 again and again, with the layout and batch changing, in an
environment of its own (their requirements do not go with ours). Ours is timed in the same way, call by call, and as
arrays. Not a test: it needs the network, and prints what it finds.
"""

import json
import os
import subprocess
import sys
import time

SECONDS = 3.0
BATCHES = (1, 2, 4, 8)
PEERS = ("llm_analysis", "mlsysim")
LEFT_OUT = "calculon: left out, since no package registry has it (what PyPI has under that name is another program)"


def rate(call):
    """Calls a second, after one to warm up; batches change so that nothing is answered from memory."""
    call(BATCHES[0])
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        call(BATCHES[count % len(BATCHES)])
        count += 1
    return count / (time.perf_counter() - start)


def llm_analysis():
    """One step on 64 devices: tensor 4, pipeline 2."""
    import logging

    from llm_analysis import analysis
    from llm_analysis.config import ParallelismConfig

    logging.disable(logging.CRITICAL)
    known = (
        analysis.get_model_config_by_name("NousResearch_Llama-2-7b-hf"),
        analysis.get_gpu_config_by_name("a100-sxm-80gb"),
        analysis.get_dtype_config_by_name("w16a16e16"),
        ParallelismConfig(tp_size=4, pp_size=2, dp_size=8, sp_size=4),
    )
    tool = analysis.LLMAnalysis(*known, flops_efficiency=0.5, hbm_memory_efficiency=0.8)
    return rate(lambda batch: tool.training(batch_size_per_gpu=batch, gradient_accumulation_steps=4, seq_len=4096))


def mlsysim():
    """One step on one device: it takes no layout here."""
    import mlsysim as tool

    model, device = tool.Models.Language.Llama2_7B, tool.Hardware.Cloud.A100
    return rate(lambda batch: tool.Engine.solve(model, device, batch_size=batch, is_training=True, seq_len=4096))


def ours():
    """Calls a second, and scenarios a second in arrays of a hundred thousand."""
    import test_bench_training as bench
    from stopwatch import seconds

    from cookbook.prediction.api import train_step
    from cookbook.prediction.engine import estimate_rows

    layout = {"devices": 64, "tp": 4, "pp": 2, "global_batch": 1024, "seq": 4096, "software": "NeMo"}
    print(f"cookbook, call by call: {rate(lambda b: train_step('llama2_7b', 'a100-sxm-80gb', batch=b, **layout)):,.0f}")
    for kind in bench.KINDS:
        prepared = bench.ready(kind)
        taken = seconds(lambda ready=prepared: estimate_rows(ready, neighbours=False, memory=False))
        print(f"cookbook, arrays, {kind}: {bench.N / taken:,.0f}")


def main(python):
    """Time each peer with the interpreter of its own environment, then ours with this one."""
    print("scenarios a second")
    for name in PEERS:
        run = subprocess.run([python, __file__, name], capture_output=True, text=True)
        answer = run.stdout.strip().splitlines()[-1:]
        print(f"{name}: {json.loads(answer[0]):,.0f}" if run.returncode == 0 else f"{name}: {run.stderr[-300:]}")
    print(LEFT_OUT)
    ours()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in PEERS:
        os.environ["TRANSFORMERS_VERBOSITY"] = "error"
        print(json.dumps(globals()[sys.argv[1]]()))
    else:
        main(sys.argv[1])
