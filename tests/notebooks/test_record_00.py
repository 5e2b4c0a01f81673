"""The bound that the record of page 00 gives is that of its check, and names the precision for which it holds."""

import re
from typing import Any

import nbformat
import pytest
from records import FOLDER, decision, sources, words

import cookbook as cb

SAID = sources("00")
LABEL = "A bound to remember"


def test_the_bound_names_its_precision():
    """Record and text give the bound of the check for 16 bits and one token per read, and nothing shorter."""
    record, checked = decision("00"), words("00", "check1")
    bound = float(re.search(r"Correct: ([\d.]+) ms", checked)[1])
    gb, bandwidth = (
        float(re.search(pattern, SAID["turn"])[1]) for pattern in (r"the ([\d.]+) GB", r"at ([\d.]+) TB/s")
    )
    least = cb.generate("llama3_8b", "h100-sxm", input_len=1024, output_len=1024, precision="fp8").low80 / 1024
    assert bound == pytest.approx(gb / bandwidth, rel=0.01)
    assert f"takes at least {bound:.1f} ms per token at batch 1" in record[LABEL]
    assert "in 16 bits on one H100" in record[LABEL]
    assert record[LABEL].endswith(", without speculative decoding")
    assert "with weights of 16 bits and one token per read" in SAID["turn"]
    assert "Weights in 8 bits would halve it, and speculative decoding" in SAID["turn"]
    assert f"through {gb} GB of weights in 16 bits" in SAID["token"]
    assert bound / 2 < 1e3 * least < bound  # so the bound of 16 bits is none for 8, and its half is


def test_the_measured_rate_is_compared_in_the_unit_of_the_prediction():
    """The text turns the measured rate of the card into the seconds of its prediction, inside the interval."""
    card = words("00", "interval")
    low, high = (float(text) for text in re.search(r"within ([\d.]+) s to ([\d.]+) s", card).groups())
    rate = float(re.search(r"measured: ([\d.]+) tokens/s", card)[1])
    assert f"At {rate} tokens/s, the 1,024 tokens take {1024 / rate:.1f} s." in SAID["reading"]
    assert low < 1024 / rate < high


def test_an_unknown_job_names_the_routes():
    names: dict[str, Any] = {"job": "buy a laptop", "cb": cb, "weights": 1.0, "rate": 1.0}
    with pytest.raises(ValueError, match="job = 'buy a laptop' has no route; set it to one of: buy a cluster, fine"):
        exec(SAID["decision"], names)


def test_recipes_beside_the_routes_name_what_comes_first():
    """The recipes beside the routes are named with those that their own pages require."""
    needed = {}
    for number in ("11", "14"):
        title = nbformat.read(next(FOLDER.glob(f"{number}-*.ipynb")), as_version=4).cells[0].source
        needed[number] = sorted(set(re.findall(r"\]\((\d\d)-[\w-]+\.ipynb\)", title)))
    stated = {
        number: re.findall(r"\d\d", text)
        for number, text in re.findall(r"\[(\d\d)\]\S+ \(after ([^)]+)\)", SAID["routes"])
    }
    assert stated == needed
