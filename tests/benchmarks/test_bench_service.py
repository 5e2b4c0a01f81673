"""Services of language models: a hundred thousand simulated requests, the steady state beside them, and millions of
decoding steps.

Each limit is a ratio, never absolute seconds.
"""

import time

import numpy as np
import pytest

from cookbook.formulas.generation import Decoder, Engine, Group, decode_step_seconds
from cookbook.formulas.serving import service_latencies
from cookbook.topics.serving.engines import arrivals, lengths
from cookbook.topics.serving.simulation import CHUNKED, POLICIES, SPLIT, StepCosts, simulate

COUNT = 100_000
COSTS = StepCosts(
    lambda batch, seen: 0.012 + 2e-5 * batch + 4e-8 * batch * seen,
    lambda tokens, seen: np.hypot(0.012, 2.5e-5 * tokens) + 1e-9 * tokens * seen,
    400_000,
)


@pytest.mark.parametrize(
    "policy", [policy if policy == CHUNKED else pytest.param(policy, marks=pytest.mark.all) for policy in POLICIES]
)
def test_a_hundred_thousand_requests_cost_less_than_an_event_a_token(policy):
    load = lengths(1000, COUNT, 1.0, 1), lengths(200, COUNT, 0.8, 2)
    start = time.perf_counter()
    found = simulate(COSTS, *load, arrival=arrivals(8, COUNT, 1, 3), policy=policy)
    seconds, told = time.perf_counter() - start, found.to_dict()
    start = time.perf_counter()
    if policy != SPLIT:
        solved = service_latencies(
            COSTS.decode,
            COSTS.prefill,
            prompt=1000,
            answer=200,
            prompt_spread=1.0,
            answer_spread=0.8,
            kv_tokens=4e5,
            max_sequences=256,
            chunk=2048,
            rate=8,
            prefill_first=policy == POLICIES[1],
        )
        ratios = ", ".join(f"{name} {solved[name] / told[name]:.2f}" for name in ("tpot_p50", "ttft_p50", "ttft_p95"))
        print(f"\nsteady state in {time.perf_counter() - start:.2f} s; over the simulation: {ratios}")
    tokens = int(load[1].sum())
    print(f"\n{policy}: {COUNT:,} requests, {tokens:,} tokens in {seconds:.1f} s")
    # Five events a request, where one a token would be two hundred.
    assert seconds < timed_events(5 * COUNT) * 20
    assert found.requests["finish"].notna().all()


def test_decoding_steps_of_a_million_stacks_cost_a_few_passes_over_arrays():
    count, random = 1_000_000, np.random.default_rng(1)
    batch, context = random.uniform(1, 256, count), random.uniform(1, 8192, count)
    shards = random.choice([1.0, 2.0, 4.0], count)
    model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    group = Group(shards, 1, random.uniform(1e12, 8e12, count), 80e9, 312e12, 312e12, 300e9)
    engine = Engine(0.8, 0.8, 0.6, 0.6, 0.3, 0.1, 12, 1e-4, 1e-3, 1e-5, 1e-5)
    seconds = least(lambda: decode_step_seconds(batch, context, decoder=model, group=group, engine=engine))
    once = least(lambda: np.hypot(batch, context))
    print(f"\n{count / seconds / 1e6:.1f} million decoding steps a second, {seconds / once:.0f} passes of np.hypot")
    assert seconds < 20 * once


def test_a_steady_state_costs_less_than_a_few_hundred_simulated_requests():
    count = 4_000
    load, came = (lengths(1000, count, 1.0, 1), lengths(200, count, 0.8, 2)), arrivals(8, count, 1, 3)
    simulated = least(lambda: simulate(COSTS, *load, arrival=came))
    solved = least(
        lambda: service_latencies(
            COSTS.decode,
            COSTS.prefill,
            prompt=1000,
            answer=200,
            prompt_spread=1.0,
            answer_spread=0.8,
            kv_tokens=4e5,
            max_sequences=256,
            chunk=2048,
            rate=8,
        )
    )
    print(f"\nsteady state in {1e3 * solved:.1f} ms, as long as {solved / simulated * count:.0f} simulated requests")
    assert solved < simulated / 8


def least(run) -> float:
    """Seconds of the fastest of five runs."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def timed_events(count: int) -> float:
    """Seconds of so many bare events of simpy."""
    from simpy import Environment

    env = Environment()

    def tick():
        for _ in range(count):
            yield env.timeout(1.0)

    env.process(tick())
    start = time.perf_counter()
    env.run()
    return time.perf_counter() - start
