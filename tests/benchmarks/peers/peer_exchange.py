"""Questions in, answers out: the loop that runs in the environment of a peer, one line of JSON each.

An adapter (``ask_*.py``) contains one function that takes a question and returns a number with its unit, and calls
`exchange` with it. Only the standard library is imported here, since an environment contains nothing of ours.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import time
import warnings

DECODE, BATCH, FIRST_TOKEN, NEXT_TOKEN = "decode", "static batch", "TTFT", "TPOT"
STEP, FINE_TUNING = "training step", "fine-tuning step"
UNITS = {
    DECODE: "tokens/s",
    BATCH: "tokens/s",
    FIRST_TOKEN: "s",
    NEXT_TOKEN: "s",
    STEP: "s",
    FINE_TUNING: "s",
}
MAX_SECONDS = 120
# Failures of a tool in our words, by what its message mentions; the first that fits.
FAILURES = (
    (("memory", "oom", "mem tier", "fit on chip", "too large"), "does not fit by its count of memory"),
    (("resolve", "not found", "unknown model", "unsupported model", "ambiguous"), "does not know the model"),
    (("divisible", "divide", "% ", "must be"), "takes no such parallelism configuration or batch"),
    (
        ("no data", "not available", "missing", "empty", "no silicon", "unsupported", "not support"),
        "has no data of the case",
    ),
)


class Refused(Exception):
    """A question that a tool cannot be asked, or does not answer; the text is its reason."""


def refuse_other_kinds(question, kinds):
    """Raise a refusal unless the tool predicts questions of this kind."""
    if question["kind"] not in kinds:
        raise Refused(f"predicts no {question['kind']}")


def refuse_several_devices(question):
    """Raise a refusal if the question is about more than one device."""
    if question["devices"] > 1:
        raise Refused("takes one device only")


def refuse_experts(question):
    """Raise a refusal if the network has experts."""
    if question["model"].get("experts", 1) > 1:
        raise Refused("takes no mixture of experts")


def dimensions(question, latent=False):
    """Return the dimensions of the network as integers; refuse layers that keep a state, and latent attention."""
    model = question["model"]
    if "layers" not in model or model.get("state_layers"):
        raise Refused("not asked about layers that keep a state")
    if model.get("latent_attention") and not (latent and model.get("kv_rank")):
        raise Refused("not asked about latent attention")
    return {name: int(value) for name, value in model.items() if isinstance(value, (int, float))}


def equal_experts(size):
    """Return number, chosen number and width of the experts, or nothing; refuse layers that are not alike."""
    if size.get("experts", 1) <= 1:
        return ()
    if size.get("shared_experts") or size.get("dense_layers"):
        raise Refused("not asked about experts that differ between layers")
    return size["experts"], size["experts_per_token"], size.get("moe_ffn_hidden", size["ffn_hidden"])


def peak_of(question):
    """Return the dense peak of 16-bit products [FLOP/s]; that of 32 bits where the datasheet states no other."""
    device = question["device"]
    return next(device[name] for name in ("peak_bf16", "peak_fp16", "peak_fp32") if name in device)


def middle_context(question):
    """Return the tokens in the cache half-way through the answer."""
    return int(question["input_tokens"] + question["output_tokens"] / 2)


def batch_rate(question, prompt_seconds, step_seconds):
    """Return output tokens per second of a batch that runs to its end: one prompt, then a step for each token."""
    tokens = question["output_tokens"]
    return question["batch"] * tokens / (prompt_seconds + (tokens - 1) * step_seconds)


def reason_of(problem):
    """Return the reason of a refusal: ours as it is, a failure of the tool in our words."""
    if isinstance(problem, Refused):
        return str(problem)
    message = str(problem).lower()
    words = (words for mentions, words in FAILURES if any(mention in message for mention in mentions))
    return next(words, f"fails ({type(problem).__name__})")


def respond(question, answer):
    """Return one answer as a record: id, seconds, and value with unit, or the reason of a refusal."""
    start = time.perf_counter()
    signal.alarm(MAX_SECONDS)
    try:
        value = float(answer(question))
        if not 0 < value < float("inf"):
            raise Refused(f"answers {value}")
        outcome = {"value": value, "unit": UNITS[question["kind"]]}
    except (Exception, SystemExit) as problem:
        outcome = {"refused": reason_of(problem)}
    finally:
        signal.alarm(0)
    return {"id": question["id"], "seconds": time.perf_counter() - start, **outcome}


def _too_long(*_):
    raise TimeoutError(f"no answer within {MAX_SECONDS} s")


def exchange(answer):
    """Read questions from standard input and write answers to standard output, whatever else a peer prints."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _too_long)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        for line in sys.stdin:
            with contextlib.redirect_stdout(sys.stderr):
                record = respond(json.loads(line), answer)
            print(json.dumps(record), file=output, flush=True)
