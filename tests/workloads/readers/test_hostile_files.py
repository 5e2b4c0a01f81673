"""Damaged and hostile files: whatever is in them, a model or a sentence, soon and in little memory.

As a script, ``python tests/workloads/readers/test_hostile_files.py 100000`` tries so many and counts what goes
wrong by kind.
"""

import copy
import importlib.util
import json
import math
import random
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.workloads.zoo import Workload

HERE = Path(__file__).parent


def of(name):
    """A test module beside this one, also where this one is a script."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES, CONFIGURATIONS, KERAS = of("test_files"), of("test_configurations"), of("test_keras")
STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    2,
    10**9,
    10**18,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "yes",
    [],
    {},
    [1, 2],
    [[]],
    {"a": 1},
    "\0",
    "\ud800",
    [10**30],
    ["mamba"],
    [None] * 50,
    -(10**18),
    1e308,
]
MOST_BYTES = 150e6


def seeds():
    """Files of every format, by its name; the graph of ONNX where its library is installed."""
    configurations = [json.loads(row["config"]) for row in CONFIGURATIONS.ROWS] + list(CONFIGURATIONS.OTHERS.values())
    gguf = [FILES.gguf(FILES.METADATA, FILES.GGUF_TENSORS), FILES.gguf(FILES.METADATA, {})]
    proto = [
        FILES.vgg16().encode(),
        FILES.resnet50().encode()[:6000],
        FILES.prototxt(("LSTM", "l", "data", "l", "")).encode(),
    ]
    tables = [
        b"layer,out,kernel,padding\nconv,8,3,1\nflatten,,,\nlinear,10,,\n",
        json.dumps(
            {"layers": [{"layer": "embedding", "vocab": 9, "features": 4}, {"layer": "linear", "out": 9}]}
        ).encode(),
    ]
    found = {
        "configuration": configurations,
        "gguf": gguf,
        "safetensors": [FILES.safetensors({"a": (2, 3), "b": (4,)})],
        "prototxt": proto,
        "table": tables,
        "keras": _architectures(),
    }
    if importlib.util.find_spec("onnx"):
        found["onnx"] = [of("test_torch").small_graph()]
    return found


def _architectures():
    """Architectures of Keras as dicts, as text and in their archive."""
    words = [
        ("Embedding", {"input_dim": 50, "output_dim": 4}),
        ("Reshape", {"target_shape": [-1, 8]}),
        ("MultiHeadAttention", {"num_heads": 2, "key_dim": 4}),
        ("Bidirectional", {"layer": {"class_name": "LSTM", "config": {"units": 5}}}),
        ("Dense", {"units": 2}),
    ]
    pictures = [
        ("ZeroPadding2D", {"padding": [[1, 1], [2, 2]]}),
        ("SeparableConv2D", {"filters": 9, "kernel_size": 3}),
        ("Conv2DTranspose", {"filters": 4, "kernel_size": [2, 2], "strides": [2, 2]}),
        ("MaxPooling2D", {"pool_size": [2, 2]}),
        ("PReLU", {"shared_axes": [1]}),
        ("Flatten", {}),
    ]
    found = [KERAS.sequential(*words, shape=(20,)), KERAS.sequential(*pictures, shape=(8, 8, 3))]
    graphs = [KERAS.mobilenetv2(2)[0], KERAS.vgg16()[0]]
    return [*found, *graphs, *(json.dumps(each).encode() for each in (*found, *graphs)), KERAS.archive(found[0])]


def damaged(data, chance):
    """Bytes turned, cut out, doubled, or numbers in their text made large."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        if not out:
            break
        at = chance.randrange(len(out))
        kind = chance.randrange(6)
        if kind == 0:
            out[at] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.choice((1, 3, 50, 1000))]
        elif kind == 2:
            out[at:at] = out[at : at + chance.choice((1, 8, 200))]
        elif kind == 3:
            out[at : at + 8] = chance.choice(
                (b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, b"99999999", b"{{{{{{{{", b'""":[]{}')
            )
        elif kind == 4:
            del out[at:]
        else:
            digits = [place for place, byte in enumerate(out) if 48 <= byte <= 57]
            if digits:
                place = chance.choice(digits)
                out[place : place + 1] = chance.choice(
                    (b"0", b"-1", b"9" * 6, b"9" * 30, b"1e9", b"1e400", b"nan", b"")
                )
    return bytes(out)


def _within(group):
    """Values of a group, those in its lists too."""
    for value in group.values():
        yield from value if isinstance(value, list) else [value]


def strange(config, chance):
    """A configuration with fields taken out, swapped or made strange, at any depth."""
    config = json.loads(json.dumps(config))
    for _ in range(chance.choice((1, 1, 2, 4))):
        group = config
        while chance.random() < 0.6 and (inner := [each for each in _within(group) if isinstance(each, dict) and each]):
            group = chance.choice(inner)
        if not group:
            break
        key, kind = chance.choice(list(group)), chance.randrange(4)
        if kind == 0:
            del group[key]
        elif kind == 1:
            group[key] = copy.deepcopy(chance.choice(STRANGE))
        elif kind == 2:
            group[key] = group[chance.choice(list(group))]
        elif isinstance(group[key], int) and not isinstance(group[key], bool):
            group[key] = chance.choice((group[key] * 1000, group[key] + 1, -group[key], group[key] // 3))
        else:
            group["model_type"] = chance.choice(
                ("llama", "mamba", "vit", "gemma3_text", "falcon", "mpt", "t5", "unknown", "deepseek_v3")
            )
    return config


def attempt(kind, seed, chance, longest):
    """What goes wrong with one damaged input, empty where nothing does; `longest` in seconds of the processor."""
    source = strange(seed, chance) if isinstance(seed, dict) else damaged(seed, chance)
    if isinstance(source, dict) and chance.random() < 0.3:
        source = damaged(json.dumps(source).encode("utf-8", "replace"), chance)
    changes = {"shape": (3, 32, 32)} if kind in ("onnx", "prototxt", "keras") and chance.random() < 0.3 else {}
    begun = time.process_time()
    try:
        found = cb.model(source, **changes)
        told = repr(found)
        if not isinstance(found, Workload):
            return "no model"
    except (ValueError, UnknownName) as problem:
        told = str(problem)
        if not 5 <= len(told) <= 900:
            return f"a message of {len(told)} letters: {told[:80]}"
    except Exception as problem:  # what a reader should never see
        return f"{type(problem).__name__}: {str(problem)[:120]}"
    spent = time.process_time() - begun
    return f"{spent:.0f} s" if spent > longest else "0x in words" if "object at 0x" in told else ""


def search(number, seed=0, longest=math.inf):
    """So many inputs over all formats; what went wrong, by format and kind."""
    chance, found, begin = random.Random(seed), Counter(), list(seeds().items())
    for place in range(number):
        kind, choices = begin[place % len(begin)]
        wrong = attempt(kind, chance.choice(choices), chance, longest)
        if wrong:
            found[kind, wrong] += 1
    return found


def test_damaged_files_give_a_model_or_a_sentence(within):
    with within(80):
        assert not search(2500)


@pytest.mark.all
@pytest.mark.slow
def test_very_many_damaged_files_give_a_model_or_a_sentence(within):
    with within(600):
        assert not search(20_000, seed=1)


def test_no_file_takes_much_memory():
    """What is held at most while five hundred damaged files are read."""
    search(20)
    tracemalloc.start()
    try:
        search(500, seed=2)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_BYTES


if __name__ == "__main__":
    begun = time.time()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    for (kind, wrong), times in search(int(sys.argv[1]), seed, 3.0).most_common(40):
        print(times, kind, wrong)
    print(f"{int(sys.argv[1]):,} inputs in {time.time() - begun:,.0f} s")
