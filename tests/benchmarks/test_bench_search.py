"""The search over layouts: a hundred thousand of them at once, against single calls of the same run.

The limit is a ratio, never absolute seconds.
"""

import time

import pytest

from cookbook.prediction.api import train_step
from cookbook.topics.runs.search import search

COUNTS = [count * 8 for count in range(1, 193)]


@pytest.fixture(scope="module")
def timed():
    search("llama2_7b", "h100-sxm", 8, 8)
    start = time.perf_counter()
    found = search("llama2_70b", "h100-sxm", COUNTS, 15_120, seq=32_768)
    return found, time.perf_counter() - start


def test_a_hundred_thousand_layouts_are_far_cheaper_than_single_calls(timed):
    found, seconds = timed
    train_step("llama2_70b", "h100-sxm", devices=64, tp=8, pp=8)
    start = time.perf_counter()
    train_step("llama2_70b", "h100-sxm", devices=64, tp=8, pp=8, batch=2)
    call = time.perf_counter() - start
    each = seconds / found.tried
    print(f"\n{found.tried:,} layouts in {seconds:.2f} s, {1 / each:,.0f} a second; a call: {call / each:,.0f} of them")
    assert found.tried >= 1e5
    assert each < call / 100
