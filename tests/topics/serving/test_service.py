"""Services of language models: the simulation against queues that are solved in textbooks, the steady state against
the simulation, and the door."""

import math
from itertools import pairwise

import numpy as np
import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.formulas import serving
from cookbook.formulas.serving import batch_shares, bulk_queue, mixed_seconds, service_latencies
from cookbook.topics.serving import replicas, service
from cookbook.topics.serving.engines import _interpolated as interpolated
from cookbook.topics.serving.engines import arrivals, lengths
from cookbook.topics.serving.service import tokens_per_usd
from cookbook.topics.serving.simulation import CHUNKED, FIRST, POLICIES, SPLIT, StepCosts, simulate

# Of the steady state beside the simulation: throughput, TPOT, and TTFT in the middle and at the 95th percentile.
LIMITS = {"requests_per_second": 0.04, "tpot_p50": 0.08, "ttft_p50": 0.20, "ttft_p95": 0.25}


def constant(value):
    return lambda one, other: value + 0.0 * np.asarray(one) + 0.0 * np.asarray(other)


def simple(**changes):
    known = {
        "decode": lambda batch, seen: 0.012 + 2e-5 * batch + 4e-8 * batch * seen,
        "prefill": lambda tokens, seen: np.hypot(0.012, 2.5e-5 * tokens) + 1e-9 * tokens * seen,
        "kv_tokens": 400_000,
        "max_sequences": 256,
        "chunk": 2048,
    }
    return StepCosts(**{**known, **changes})


# --- against textbooks -------------------------------------------------------------------------------------------


def one_by_one(work, kv_tokens=1e9):
    """Prompts alone, one pass each: a queue with one server."""
    return StepCosts(
        constant(1e-3),
        lambda tokens, seen: work * np.asarray(tokens) + 0.0 * np.asarray(seen),
        kv_tokens,
        max_sequences=100_000,
        chunk=1,
    )


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_prompts_of_one_length_wait_as_in_m_d_1(load):
    count, seconds = 40_000, 0.02
    found = simulate(
        one_by_one(seconds / 100),
        [100] * count,
        [1] * count,
        policy=FIRST,
        arrival=arrivals(load / seconds, count, 1, 1),
    )
    waits = load * seconds / 2 / (1 - load)  # Pollaczek and Khinchine
    assert found.to_dict()["ttft"] == pytest.approx(seconds + waits, rel=0.05)
    solved = service_latencies(
        constant(1e-3),
        lambda tokens, seen: seconds / 100 * np.asarray(tokens),
        prompt=100,
        answer=1,
        kv_tokens=1e9,
        max_sequences=1e5,
        chunk=1,
        rate=load / seconds,
        prefill_first=True,
    )
    assert solved["ttft"] == pytest.approx(seconds + waits, rel=0.05)


def test_prompts_of_exponential_length_wait_as_in_m_m_1():
    count, load, mean = 100_000, 0.7, 0.02
    prompts = np.maximum(np.random.default_rng(3).exponential(1000, count), 1).astype(int)
    found = simulate(
        one_by_one(mean / 1000), prompts, [1] * count, arrival=arrivals(load / mean, count, 1, 4), policy=FIRST
    )
    assert found.to_dict()["ttft"] == pytest.approx(mean / (1 - load), rel=0.06)
    assert found.to_dict()["ttft_p95"] == pytest.approx(mean / (1 - load) * np.log(20), rel=0.08)


def test_a_sequence_that_costs_nothing_more_makes_a_poisson_batch():
    """Iterations that take as long for any batch: as many servers as requests, so that Little's law gives the batch."""
    costs = StepCosts(constant(0.01), constant(1e-6), 1e9, 10_000, 4096)
    found = simulate(costs, [10] * 20_000, [101] * 20_000, arrival=arrivals(5.0, 20_000, 1, 5))
    during = (found.requests["finish"] - found.requests["first"]).sum() / found.seconds
    assert during == pytest.approx(5.0 * 100 * 0.01, rel=0.02)
    shares = batch_shares(5.0, 100, [0.01] * 60)
    assert shares @ np.arange(61) == pytest.approx(5.0, rel=1e-6)
    assert shares[5] == pytest.approx(np.exp(-5) * 5**5 / 120, rel=1e-6)


def test_one_server_gives_the_shares_of_m_m_1():
    shares = batch_shares(0.7, 1.0, 1.0 * np.arange(1, 200))
    assert shares[:4] == pytest.approx(0.3 * 0.7 ** np.arange(4), rel=1e-6)


def test_clusters_keep_the_mean_and_widen_the_batch():
    batch = np.arange(301)
    for peak in (1.0, 2.0, 4.0):
        shares = batch_shares(1.0, 1.0, [20.0] * 300, peak)
        mean = shares @ batch
        assert mean == pytest.approx(20.0, rel=1e-3)
        assert shares @ (batch - mean) ** 2 == pytest.approx(20.0 * peak, rel=2e-2)


@pytest.mark.parametrize("work", [0.002, 0.4, 1.0, 7.3, 20.0])
def test_arrivals_that_keep_apart_keep_the_mean_however_few_come(work):
    """A clock: what one request has on its own it has at least, and nobody is kept from coming (Little's law)."""
    batch = np.arange(301)
    for peak in (1e-6, 0.2, 0.7):
        shares = batch_shares(work, 1.0, [1.0] * 300, peak)
        mean = shares @ batch
        assert mean == pytest.approx(work, rel=1e-6)
        least = 1 - work if work < 1 else peak  # one place that is taken or free is as regular as can be
        assert shares @ (batch - mean) ** 2 / work >= max(least, peak) - 1e-9


@pytest.mark.parametrize("policy", POLICIES)
def test_a_clock_at_light_load_leaves_no_request_slower_than_random_arrivals(policy):
    def row(bursts):
        return cb.serve(
            "llama3_70b",
            "h100-sxm",
            tp=2,
            devices=4 if policy == SPLIT else 2,
            rate=0.002,
            policy=policy,
            burstiness=bursts,
        ).table.iloc[0]

    clock, poisson = row(0), row(1)
    for name in ("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "busy"):
        assert clock[name] <= 1.02 * poisson[name], name


def test_a_bulk_queue_that_serves_all_finds_what_came():
    found = bulk_queue([2.0] * 60, [0, 1], np.arange(60))
    assert found[:3] == pytest.approx(np.exp(-2) * np.array([1, 2, 2]), rel=1e-6)


def test_a_bulk_queue_that_serves_every_other_time_is_empty_for_what_is_left():
    """One unit in half of the iterations that find one, 0.2 come in each: busy 2 x 0.2 of all (balance)."""
    found = bulk_queue(np.full(80, 0.2), [0, 1], np.minimum(np.arange(80), 0.5))
    assert found[0] == pytest.approx(0.6, rel=1e-6)


@pytest.mark.parametrize("clients", [2, 8, 40])
def test_clients_whose_prompts_go_first_are_decoded_all_at_once(clients):
    """No prompt waits while answers go on: in a cycle each client has its prompt, alone, and 50 steps with all others.

    With prompts of 0.1 s and steps of 10 ms and 1 ms for each of the batch: 40 clients in 4 s and 50 times 50 ms.
    """

    def decode(batch, seen):
        return 0.01 + 1e-3 * np.asarray(batch) + 0.0 * np.asarray(seen)

    solved = service_latencies(
        decode,
        lambda tokens, seen: 1e-4 * np.asarray(tokens) + 0.0 * np.asarray(seen),
        prompt=1000,
        answer=51,
        answer_spread=0.6,
        kv_tokens=1e6,
        max_sequences=64,
        chunk=1000,
        clients=clients,
        prefill_first=True,
    )
    cycle = 0.1 * clients + 50 * (0.01 + 1e-3 * clients)
    assert solved["rate"] == pytest.approx(clients / cycle, rel=0.03)
    assert solved["batch"] == pytest.approx(clients)


@pytest.mark.parametrize("first", [False, True])
def test_answers_of_one_token_are_answered_as_fast_as_prompts_are_worked_on(first):
    """Prompts of 1,000 tokens, two a pass, at 1 ms and 0.1 ms a token: 201 ms for two."""
    solved = service_latencies(
        constant(1e-3),
        lambda tokens, seen: 1e-3 + 1e-4 * np.asarray(tokens) + 0.0 * seen,
        prompt=1000,
        answer=1,
        answer_spread=0.5,
        kv_tokens=1e6,
        max_sequences=64,
        chunk=2000,
        clients=20,
        prefill_first=first,
    )
    assert solved["rate"] == pytest.approx(2 / 0.201, rel=0.02)


@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_prompts_that_fill_every_iteration_are_answered_as_fast_as_those_go(spread):
    """Twenty prompts of 4,000 tokens take 160 iterations of 500 and more, answers ten of them: each iteration is full.

    An iteration takes 1 ms and 10 us a token, 6 ms: a prompt each 8 of them, 48 ms, less the few tokens of answers.
    """
    solved = service_latencies(
        constant(1e-3),
        lambda tokens, seen: 1e-3 + 1e-5 * np.asarray(tokens) + 0.0 * np.asarray(seen),
        prompt=4000,
        answer=11,
        answer_spread=spread,
        kv_tokens=1e6,
        max_sequences=64,
        chunk=500,
        clients=20,
    )
    assert solved["rate"] == pytest.approx(1 / 0.048, rel=0.02)
    assert solved["ttft"] + 10 * solved["tpot"] == pytest.approx(20 * 0.048, rel=0.03)


def test_prompts_of_many_lengths_spread_the_time_of_tokens_as_in_the_simulation():
    """Long prompts hold up more answers at once, and bring more prompts meanwhile."""
    costs, count = simple(), 12_000
    came = arrivals(12, count, 1, 3)
    seen = simulate(costs, lengths(2000, count, 1.0, 1), lengths(40, count, 0.0, 2), arrival=came).to_dict()
    solved = service_latencies(
        costs.decode,
        costs.prefill,
        prompt=2000,
        answer=40,
        prompt_spread=1.0,
        kv_tokens=4e5,
        max_sequences=256,
        chunk=2048,
        rate=count / came[-1],
    )
    for name in ("tpot_p50", "tpot_p95"):
        assert solved[name] == pytest.approx(seen[name], rel=0.06), name


def test_an_iteration_with_both_kinds_of_work_takes_neither_less_nor_more_than_both():
    for step, prompt in ((0.01, 0.05), (0.05, 0.01), (0.02, 0.02)):
        assert max(step, prompt) <= mixed_seconds(step, prompt, 0.01) <= step + prompt


# --- properties of the simulation --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    count = 3_000
    load = (lengths(800, count, 0.7, 1), lengths(150, count, 0.7, 2))
    return {policy: simulate(simple(), *load, arrival=arrivals(8, count, 1, 3), policy=policy) for policy in POLICIES}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_is_answered_once_and_in_full(runs, policy):
    rows = runs[policy].requests
    assert (rows["first"] > rows["arrival"]).all() and (rows["finish"] >= rows["first"]).all()
    assert runs[policy].gaps[1].sum() == (rows["answer"] - 1).sum()  # a gap for each token but the first
    assert rows["preempted"].sum() == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_littles_law_holds_for_the_whole_run(runs, policy):
    """Time that requests spend at the service is the integral of how many are there."""
    rows = runs[policy].requests
    events = np.concatenate([rows["arrival"], rows["finish"]])
    order, change = np.argsort(events, kind="stable"), np.repeat([1, -1], len(rows))
    there = np.cumsum(change[order])[:-1] @ np.diff(events[order])
    assert there == pytest.approx(rows["e2e"].sum(), rel=1e-9)


@pytest.mark.parametrize("clients", [8, 33, 300])
@pytest.mark.parametrize("prompt", [64, 512, 4096])
def test_a_closed_loop_of_requests_at_once_is_solved_in_few_rounds(clients, prompt, monkeypatch):
    """Each round solves the chain of waiting tokens once, and the last time between tokens once more."""
    chains = []
    solve = serving.bulk_queue
    monkeypatch.setattr(serving, "bulk_queue", lambda *given: chains.append(given) or solve(*given))
    costs = simple()
    load = {"prompt": prompt, "answer": 128, "prompt_spread": 0.5, "answer_spread": 1.0, "clients": clients}
    sizes = {"kv_tokens": costs.kv_tokens, "max_sequences": costs.max_sequences, "chunk": costs.chunk}
    service_latencies(costs.decode, costs.prefill, **load, **sizes)
    assert len(chains) <= 5


def test_clients_of_a_closed_loop_are_always_there():
    found = simulate(simple(), lengths(500, 4_000, 0.7, 1), lengths(100, 4_000, 0.7, 2), concurrency=32)
    told = found.to_dict()
    assert told["requests_per_second"] * told["e2e"] == pytest.approx(32, rel=0.03)
    assert found.busy == pytest.approx(1, abs=1e-9)


def test_same_seed_same_service():
    def run(seed):
        load = lengths(500, 500, 0.7, seed), lengths(100, 500, 0.7, seed + 1)
        return simulate(simple(), *load, arrival=arrivals(8, 500, 1, seed)).requests

    assert run(1).equals(run(1)) and not run(1).equals(run(2))


def test_policies_trade_first_tokens_against_gaps(runs):
    told = {policy: run.to_dict() for policy, run in runs.items()}
    assert told[FIRST]["ttft_p50"] < told[CHUNKED]["ttft_p50"]
    assert told[FIRST]["itl_p99"] > told[CHUNKED]["itl_p99"] > told[SPLIT]["itl_p99"]


def test_memory_that_is_full_delays_and_preempts_but_loses_nothing():
    count = 1_500
    load = (lengths(200, count, 0.5, 1), lengths(300, count, 0.5, 2, most=2_000))
    tight = simulate(simple(kv_tokens=6_000), *load, concurrency=64)
    wide = simulate(simple(), *load, concurrency=64)
    assert tight.requests["preempted"].sum() > 0
    assert tight.requests["finish"].notna().all() and tight.kv_share <= 1
    assert tight.rate < wide.rate


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_wait_where_no_more_sequences_are_let_in(policy):
    """With room for few sequences, an engine holds no more, and its closed loop answers as many as are there."""
    count = 1_500
    load = (lengths(200, count, 0.5, 1), lengths(100, count, 0.5, 2))
    found = simulate(simple(max_sequences=8), *load, concurrency=32, policy=policy)
    rows, told = found.requests, found.to_dict()
    assert found.batch <= 8
    # Of 32 clients 24 wait: three of four seconds of a request are spent before its first token or its decoding.
    assert told["requests_per_second"] * told["e2e"] == pytest.approx(32, rel=0.05)
    decoding = (rows["finish"] - rows["first"]).sum() / found.seconds
    assert policy == SPLIT or decoding < 8


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_preempted_is_answered_in_full_under_each_policy(policy):
    load = (lengths(200, 800, 0.5, 1), lengths(300, 800, 0.5, 2, most=2_000))
    found = simulate(simple(kv_tokens=6_000), *load, concurrency=64, policy=policy)
    assert found.requests["preempted"].sum() > 0 and found.kv_share <= 1
    assert found.gaps[1].sum() >= (found.requests["answer"] - 1 - found.requests["preempted"]).sum()
    assert (found.requests["finish"] >= found.requests["first"]).all()


@pytest.mark.parametrize(("window", "windowed"), [(100, 1.0), (100, 0.5), (120, 0.5), (90, 0.75), (np.inf, 0.0)])
def test_iterations_read_what_windows_leave_of_each_sequence(window, windowed):
    """1 ms a token that is read: by hand, from the 91 tokens after the first one of an answer to the 120 before its
    last; for two at once, each with its own length."""
    costs = StepCosts(
        lambda batch, seen: 1e-3 * np.asarray(batch) * seen,
        constant(0.002),
        1e6,
        16,
        512,
        window=window,
        windowed=windowed,
    )
    kept = windowed * np.minimum(np.arange(200), window) + (1 - windowed) * np.arange(200)
    found = simulate(costs, [90], [31], concurrency=1).requests
    assert found["finish"][0] - found["first"][0] == pytest.approx(1e-3 * kept[91:121].sum())
    both = simulate(costs, [90, 70], [31, 31], arrival=[0.0, 0.0]).requests
    assert (both["finish"] - both["first"]).tolist() == pytest.approx([1e-3 * (kept[91:121] + kept[71:101]).sum()] * 2)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [250, 700])
def test_what_windows_leave_is_given_back_in_full(policy, window):
    """Though many were preempted: who comes after a long pause is answered as fast as on an engine never used."""
    costs = simple(kv_tokens=4_000, window=window, windowed=0.75)
    load = (lengths(200, 400, 0.5, 1), lengths(300, 400, 0.5, 2, most=2_000))
    late = simulate(costs, *(np.append(each, 600) for each in load), arrival=[0.0] * 400 + [1e5], policy=policy)
    assert late.requests["preempted"].sum() > 0 and 0 < late.kv_share <= 1
    alone = simulate(costs, [600], [600], arrival=[0.0], policy=policy)
    assert late.requests["e2e"].iloc[-1] == pytest.approx(alone.requests["e2e"].iloc[0], rel=1e-9)


def test_more_requests_are_held_where_layers_have_windows():
    load = {"input_len": 16_000, "output_len": 500, "input_spread": 0, "rate": 0.05, "devices": 1}
    full, windowed = (cb.serve(name, "l40s", **load).table.iloc[0] for name in ("mistral_7b_v0.2", "mistral_7b"))
    # 16,250 tokens against 4,096, of a prompt and half its answer; reading them is less than all of a step.
    assert full["kv_share"] / full["batch"] == pytest.approx(
        16_250 / 4096 * windowed["kv_share"] / windowed["batch"], rel=0.1
    )
    assert windowed["capacity"] > 1.2 * full["capacity"] and windowed["tpot_p50"] < full["tpot_p50"]


def test_repeated_iterations_are_the_same_as_single_ones():
    """A prompt that arrives in the middle of many equal iterations starts at the next boundary."""
    costs = StepCosts(constant(0.01), constant(0.002), 1e6, 16, 512)
    found = simulate(costs, [10, 10], [101, 11], arrival=[0.0, 0.1234]).requests
    # The first prompt takes 2 ms, then an iteration ends each 10 ms; the second prompt joins that from 0.132 s.
    assert found["first"].tolist() == pytest.approx([0.002, 0.132 + 0.01])
    assert found["finish"].tolist() == pytest.approx([1.002, 0.142 + 0.1])


def test_a_trace_is_served_as_it_comes():
    found = simulate(simple(), [100, 3_000, 5], [10, 1, 40], arrival=[0.0, 0.0, 9.0]).requests
    assert found["e2e"].iloc[2] == pytest.approx(0.0121 + 39 * 0.01202, rel=0.02)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"prompts": [0, 5]}, "prompts = 0"),
        ({"prompts": [-3, 5]}, "prompts = -3"),
        ({"answers": [1.5, 2]}, "answers = 1.5"),
        ({"answers": [5]}, "one of each"),
        ({"arrival": [2.0, 1.0]}, "in order"),
        ({"arrival": None}, "either arrival"),
        ({"concurrency": 2}, "either arrival"),
        ({"prompts": [5, 900_000]}, "larger than the room"),
    ],
)
def test_simulation_refuses_what_cannot_be(change, words):
    given = {"prompts": [5, 5], "answers": [2, 2], "arrival": [0.0, 1.0], **change}
    prompts, answers = given.pop("prompts"), given.pop("answers")
    with pytest.raises(ValueError, match=words):
        simulate(simple(), prompts, answers, **given)


@pytest.mark.parametrize(
    "call",
    [
        lambda: arrivals(0, 5),
        lambda: arrivals(1, 5, -1),
        lambda: lengths(0.5, 5),
        lambda: lengths(5, 5, -1),
        lambda: simple(kv_tokens=0),
        lambda: simple(chunk="many"),
        lambda: simple(decode=3),
        lambda: simple(window=0),
        lambda: simple(window=0.5),
        lambda: simple(windowed=1.5),
        lambda: simple(windowed=-1),
    ],
)
def test_loads_and_costs_refuse_what_cannot_be(call):
    with pytest.raises(ValueError, match=r" = |must be"):
        call()


# --- the steady state against the simulation ---------------------------------------------------------------------


def drawn(seed):
    """A random service at 10 to 80 % load, and its policy, which alternates."""
    random = np.random.default_rng(seed)

    def spread(low, high):
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    floor, token = spread(0.004, 0.04), 1 / spread(4e3, 6e4)
    sequence, kept, attended = spread(1e-6, 5e-5), spread(5e-9, 1e-7), spread(1e-10, 3e-9)
    prompt, answer = int(spread(64, 4096)), int(spread(32, 512))
    prompt_spread, answer_spread = (float(random.choice([0, 0.3, 0.7, 1.0])) for _ in range(2))
    chunk, most = int(random.choice([512, 2048, 8192])), int(random.choice([32, 128, 256]))
    costs = StepCosts(
        lambda batch, seen: np.hypot(floor, sequence * batch) + batch * seen * kept,
        lambda tokens, seen: np.hypot(floor, tokens * token) + tokens * seen * attended,
        spread(3e4, 1e6),
        most,
        chunk,
    )
    load, closed = random.uniform(0.1, 0.8), random.random() < 0.4
    lens = {"prompt": prompt, "answer": answer, "prompt_spread": prompt_spread, "answer_spread": answer_spread}
    return costs, lens, load, closed, POLICIES[seed % 2]


def at_most(costs, prompt, answer, prompt_spread, answer_spread, policy):
    """Requests per second of an engine that is never idle, and how many it holds."""
    held = prompt + answer * (1 + answer_spread**2) / 2
    slots = max(min(costs.max_sequences, (costs.kv_tokens - prompt * (1 + prompt_spread**2) / 2) / held), 1.0)
    pass_ = costs.chunk if policy == CHUNKED else max(1, costs.chunk / prompt) * prompt
    work = costs.prefill(pass_, prompt * (1 + prompt_spread**2) / 2)
    work = max(work - (costs.decode(1, 0) if policy == CHUNKED else 0), 0) * prompt / pass_
    # In chunks, no more answers run than prompts pass in as many iterations as an answer takes.
    batch = min(slots, max((answer - 1) * costs.chunk / prompt, 1.0)) if policy == CHUNKED else slots
    return 1 / (work + (answer - 1) * costs.decode(batch, held) / batch), slots


def compared(seed, count):
    """Steady state over simulation of one random service, by figure."""
    costs, lens, load, closed, policy = drawn(seed)
    rate, slots = at_most(costs, **lens, policy=policy)
    most = costs.kv_tokens / 3
    requests = (
        lengths(lens["prompt"], count, lens["prompt_spread"], seed + 1000, most),
        lengths(lens["answer"], count, lens["answer_spread"], seed + 2000, most),
    )
    clients = max(1, int(slots * load))
    came = {"concurrency": clients} if closed else {"arrival": arrivals(load * rate, count, 1, seed)}
    seen = simulate(costs, *requests, policy=policy, **came).to_dict()
    asked = {"clients": clients} if closed else {"rate": count / came["arrival"][-1]}
    solved = service_latencies(
        costs.decode,
        costs.prefill,
        **lens,
        kv_tokens=costs.kv_tokens,
        chunk=costs.chunk,
        max_sequences=costs.max_sequences,
        prefill_first=policy == FIRST,
        **asked,
    )
    solved["requests_per_second"] = solved["rate"]
    return {name: solved[name] / seen[name] for name in LIMITS}


@pytest.mark.all
@pytest.mark.parametrize("burstiness", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("policy", [CHUNKED, FIRST])
def test_bursts_make_requests_wait_as_in_the_simulation(policy, burstiness):
    costs, count, solved, seen = simple(), 12_000, [], []
    load = lengths(800, count, 0.5, 1), lengths(150, count, 0.5, 2)
    for bursts in (1.0, burstiness):
        came = arrivals(8, count, bursts, 3)
        seen.append(simulate(costs, *load, arrival=came, policy=policy).to_dict())
        solved.append(
            service_latencies(
                costs.decode,
                costs.prefill,
                prompt=800,
                answer=150,
                prompt_spread=0.5,
                answer_spread=0.5,
                kv_tokens=4e5,
                max_sequences=256,
                chunk=2048,
                rate=count / came[-1],
                prefill_first=policy == FIRST,
                burstiness=bursts,
            )
        )
    assert solved[1]["rate"] == pytest.approx(seen[1]["requests_per_second"], rel=0.04)
    for name, limit in (("tpot_p50", 0.12), ("ttft_p50", 0.3), ("ttft_p95", 0.25), ("e2e_p50", 0.12)):
        assert solved[1][name] == pytest.approx(seen[1][name], rel=limit), name
    assert solved[1]["ttft_p95"] > solved[0]["ttft_p95"] and seen[1]["ttft_p95"] > seen[0]["ttft_p95"]


def test_steady_state_agrees_with_the_simulation():
    found = [compared(seed, 2_500) for seed in range(8)]
    for name, limit in LIMITS.items():
        missed = [round(float(each[name]), 3) for each in found if abs(each[name] - 1) > limit]
        assert len(missed) <= 1, f"{name} misses {limit:.0%}: {missed}"


@pytest.mark.parametrize("policy", [CHUNKED, FIRST])
@pytest.mark.parametrize("windowed", [0.5, 1.0])
def test_steady_state_agrees_with_the_simulation_where_layers_have_windows(policy, windowed):
    """Prompts of 1,500 tokens and answers of 300, of which most outgrow a window of 1,000 and some never do."""
    costs, count, rate = simple(window=1_000, windowed=windowed), 8_000, 4.0
    came, spread = arrivals(rate, count, 1, 3), {"prompt_spread": 0.6, "answer_spread": 0.6}
    seen = simulate(costs, lengths(1500, count, 0.6, 1), lengths(300, count, 0.6, 2), arrival=came, policy=policy)
    given = {
        "prompt": 1500,
        "answer": 300,
        **spread,
        "kv_tokens": costs.kv_tokens,
        "chunk": costs.chunk,
        "max_sequences": costs.max_sequences,
        "prefill_first": policy == FIRST,
        "rate": count / came[-1],
    }
    solved = service_latencies(costs.decode, costs.prefill, **given, window=1_000, windowed=windowed)
    solved["requests_per_second"] = solved["rate"]
    for name, limit in LIMITS.items():
        assert solved[name] == pytest.approx(seen.to_dict()[name], rel=limit), name
    whole = service_latencies(costs.decode, costs.prefill, **given)
    assert whole["tpot"] > solved["tpot"] and whole["ttft"] >= solved["ttft"]


@pytest.mark.all
@pytest.mark.slow
def test_steady_state_agrees_with_the_simulation_of_200_services():
    """Nearly all services within the limits, the middle one within a quarter of them.

    Late first tokens of full services are known no better: two simulations of 4,000 requests differ as much.
    """
    least = {"requests_per_second": 0.98, "tpot_p50": 0.95, "ttft_p50": 0.96, "ttft_p95": 0.93}
    found = [compared(seed, 4_000) for seed in range(200)]
    for name, limit in LIMITS.items():
        errors = np.abs(np.array([each[name] for each in found]) - 1)
        print(
            f"\n{name}: median {np.median(errors):.1%}, {np.mean(errors <= limit):.1%} within {limit:.0%}, "
            f"worst {np.max(errors):.0%}"
        )
        assert np.mean(errors <= limit) >= least[name], name
        assert np.median(errors) <= limit / 4, name


@pytest.mark.parametrize("first", [False, True])
def test_latency_grows_with_load_and_falls_with_speed(first):
    def solve(rate, slower=1.0):
        costs = simple()
        return service_latencies(
            lambda *each: slower * costs.decode(*each),
            lambda *each: slower * costs.prefill(*each),
            prompt=800,
            answer=150,
            prompt_spread=0.5,
            answer_spread=0.5,
            kv_tokens=4e5,
            max_sequences=256,
            chunk=2048,
            rate=rate,
            prefill_first=first,
        )

    for name in ("ttft_p50", "ttft_p95", "tpot", "e2e_p95", "batch"):
        values = [solve(rate)[name] for rate in (0.5, 2, 5, 10, 15)]
        assert np.all(np.diff(values) > -0.005 * np.array(values[1:])), name
    fast, slow = solve(4.0), solve(2.0, 2.0)
    assert slow["ttft_p95"] == pytest.approx(2 * fast["ttft_p95"], rel=1e-6)  # time scales
    assert slow["batch"] == pytest.approx(fast["batch"], rel=1e-6)


# --- the door ----------------------------------------------------------------------------------------------------

CHAT = {"input_len": 512, "output_len": 128}


@pytest.fixture(scope="module")
def chat():
    return cb.serve("llama3_8b", "h100-sxm", rate=4, devices=1, **CHAT)


def test_percentiles_are_in_order_and_figures_hang_together(chat):
    row = chat.table.iloc[0]
    for name in ("ttft", "tpot", "e2e"):
        assert 0 < row[f"{name}_p50"] <= row[f"{name}_p95"] <= row[f"{name}_p99"]
    assert row["output_tokens_per_second"] == pytest.approx(4 * 128)
    spent = (row["usd_per_million_input"] * 512 + row["usd_per_million_output"] * 128) / 1e6 * 4 * 3600
    assert spent == pytest.approx(row["usd_per_hour"])
    assert row["requests_per_second"] < row["capacity"] and row["joule_per_token"] > 0
    assert "Llama 3 8B" in repr(chat) and "Limit" in chat._repr_html_()


def test_fewest_devices_keep_the_limits_and_one_less_does_not():
    asked = {"rate": 60, "tpot": 0.03, **CHAT}
    best = cb.serve("llama3_8b", "h100-sxm", **asked).best
    assert best["meets"] and best["tpot_p95"] <= 0.03 * 1.001
    fewer = cb.serve("llama3_8b", "h100-sxm", devices=[best["devices"] - 1, best["devices"]], **asked).table
    assert fewer["meets"].tolist() == [False, True]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "load",
    [{"rate": 100}, {"users": 3000, "think": 30}, {"users": 300, "think": 1}, {"concurrency": 300}],
    ids=["open", "pauses", "short pauses", "no pauses"],
)
def test_the_fewest_engines_are_those_of_a_search_one_by_one_with_the_same_figures(load, policy):
    limits = {"ttft": 0.25, "tpot": 0.02, "policy": policy, "tp": 1}
    best = cb.serve("llama3_8b", "h100-sxm", **load, **limits, **CHAT).best
    each = best["devices"] // best["engines"]
    counts = [each * engines for engines in range(1, best["engines"] + 2)]
    rows = cb.serve("llama3_8b", "h100-sxm", devices=counts, **load, **limits, **CHAT).rows
    assert [row["meets"] for row in rows] == [False] * (best["engines"] - 1) + [True, True]
    of_a_search = {"devices_fast", "devices_slow", "costly"}
    one = rows[best["engines"] - 1]
    assert best["engines"] > 1 and {name: best[name] for name in best.keys() - of_a_search} == {
        name: one[name] for name in one.keys() - of_a_search
    }


@pytest.mark.parametrize(
    ("load", "lengths", "limits"),
    [
        ({"users": 4767, "think": 66.71}, {"input_len": 228, "output_len": 12}, {"ttft": 0.161, "tpot": 0.0192}),
        ({"users": 5000, "think": 0.1}, {"input_len": 128, "output_len": 20}, {"ttft": 0.05, "tpot": 0.05}),
        ({"users": 30.7, "think": 0.1, "tp": 4}, {"input_len": 1, "output_len": 2}, {"tpot": 0.012}),
    ],
)
def test_the_fewest_devices_keep_limits_that_fewer_users_of_an_engine_may_miss(load, lengths, limits):
    """Prompts first: the fewer share an engine, the longer a token may take, until there are few prompts at all."""
    spread = 1.0 if lengths["input_len"] == 1 else 0.5
    asked = {**load, **lengths, **limits, "policy": FIRST, "input_spread": spread, "output_spread": spread}
    row = cb.serve("llama3_8b", "h100-sxm", **asked).rows[0]
    fewer = [row["devices"] - row["tp"], row["devices"]]
    rows = cb.serve("llama3_8b", "h100-sxm", devices=fewer, **asked | {"tp": row["tp"]}).rows
    assert [each["meets"] for each in rows] == [False, True] and row["meets"] and row["engines"] > 1
    assert row["devices_fast"] <= row["devices"] <= row["devices_slow"]


def test_requests_at_once_that_are_no_integer_for_each_engine_do_not_wait():
    """Of 3 requests on 2 engines, one engine has 2 and the other has 1."""
    load = {"input_len": 100, "output_len": 500, "input_spread": 0, "output_spread": 0}
    alone, both, mean = (
        cb.serve("llama3_8b", "h100-sxm", concurrency=clients, devices=devices, tp=1, **load).rows[0]
        for clients, devices in ((1, 1), (2, 1), (3, 2))
    )
    for name in ("ttft_p50", "ttft_p99", "tpot_p50", "batch"):
        assert mean[name] == pytest.approx((alone[name] + both[name]) / 2), name
    assert mean["requests_per_second"] == pytest.approx(alone["requests_per_second"] + both["requests_per_second"])


def test_users_who_nearly_fill_an_engine_with_long_pauses_are_served():
    load = {"think": 500, "input_len": 500, "output_len": 100, "tp": 1, "devices": 1}
    rows = [cb.serve("llama3_8b", "h100-sxm", users=users, **load).rows[0] for users in (24100, 24178.2, 24300)]
    assert rows[0]["ttft_p95"] < rows[1]["ttft_p95"] < rows[2]["ttft_p95"]


@pytest.mark.parametrize("devices", [12, 13, 14, 15, 16])
def test_prompts_that_go_first_are_served_however_long_they_hold_up_answers(devices):
    """Answers of two tokens wait for dozens of short prompts: the time between tokens is not near that of a step."""
    load = {"users": 15622, "think": 10, "input_len": 64, "output_len": 2, "input_spread": 0, "output_spread": 0.5}
    row = cb.serve("llama3_8b", "a100-sxm-80gb", tp=1, devices=devices, policy=FIRST, **load).rows[0]
    assert 0 < row["tpot_p50"] <= row["tpot_p95"]
    assert row["in_service"] <= row["requests_per_second"] * row["e2e_p95"]


def test_cheapest_of_several_accelerators():
    found = cb.serve("llama3_8b", ["h100-sxm", "l40s", "a100-sxm-80gb"], rate=4, **CHAT)
    rows = found.table
    assert found.best["usd_per_hour"] == rows.loc[rows["meets"], "usd_per_hour"].min()


@pytest.mark.parametrize("policy", POLICIES)
def test_door_and_simulation_agree(policy):
    devices = 2 if policy == SPLIT else 1
    rows = [
        cb.serve(
            "llama3_8b", "h100-sxm", rate=4, devices=devices, policy=policy, simulated=simulated, **CHAT
        ).table.iloc[0]
        for simulated in (False, True)
    ]
    for name in ("ttft_p50", "tpot_p50", "e2e_p50"):
        assert rows[0][name] == pytest.approx(rows[1][name], rel=0.2), name


@pytest.mark.all
@pytest.mark.parametrize(
    "load",
    [
        {"rate": 20, "devices": 2},
        {"rate": 20, "devices": 3, "prefill_engines": 2},
        {"rate": 20, "devices": 4},
        {"rate": 20, "devices": 2, "burstiness": 4},
        {"concurrency": 8, "devices": 2},
        {"concurrency": 64, "devices": 2},
    ],
)
def test_prompts_on_engines_of_their_own_agree_with_the_simulation(load):
    solved, seen = (
        cb.serve("llama3_8b", "h100-sxm", policy=SPLIT, simulated=each, **load, **CHAT).table.iloc[0]
        for each in (False, True)
    )
    for name, limit in (("requests_per_second", 0.04), ("tpot_p50", 0.08), ("ttft_p50", 0.20), ("ttft_p95", 0.25)):
        assert solved[name] == pytest.approx(seen[name], rel=limit), name


def test_a_trace_gives_its_means_and_is_simulated_as_it_is():
    random = np.random.default_rng(5)
    own = {"input_len": random.integers(50, 1500, 2_000), "output_len": random.choice([20, 400], 2_000)}
    came = np.cumsum(random.exponential(0.25, 2_000))
    given = {"devices": 1, "arrival": came, **own}
    found = cb.serve("llama3_8b", "h100-sxm", **given)
    assert found.load.prompt == pytest.approx(own["input_len"].mean())
    assert found.load.answer_spread == pytest.approx(own["output_len"].std() / own["output_len"].mean())
    assert found.load.rate == pytest.approx(1_999 / (came[-1] - came[0]))
    assert found.load.burstiness == pytest.approx(1, rel=0.15)
    row = cb.serve("llama3_8b", "h100-sxm", simulated=True, **given).table.iloc[0]
    costs = cb.planning.engine_costs("llama3_8b", "h100-sxm", input_len=found.load.prompt)
    alone = simulate(costs, own["input_len"], own["output_len"], arrival=came).to_dict()
    assert row["ttft_p95"] == alone["ttft_p95"] and row["e2e_p50"] == alone["e2e_p50"]
    for name in ("ttft_p50", "tpot_p50"):
        assert found.table.iloc[0][name] == pytest.approx(row[name], rel=0.2), name
    other = cb.serve("llama3_8b", "h100-sxm", simulated=True, **{**given, "arrival": came * 2}).table.iloc[0]
    assert other["requests_per_second"] == pytest.approx(row["requests_per_second"] / 2, rel=0.02)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"output_len": [-1] * 30}, "output_len = -1 is outside its range"),
        ({"output_len": [5] * 29}, "lists of one length"),
        ({"output_len": [1.5] * 30}, "output_len = 1.5"),
        ({"input_len": [], "output_len": []}, "input_len = .* is empty"),
        ({"output_len": 5}, "input_len is a list: give"),
        ({"output_len": ["five"] * 30}, "output_len = .* is not a number"),
        ({"output_len": [np.nan] * 30}, "output_len = nan"),
        ({"arrival": range(30)}, "rate and arrival given"),
        ({"rate": None, "arrival": range(29)}, "lists of one length"),
        ({"rate": None, "arrival": 5}, "arrival = 5"),
        ({"rate": None, "arrival": [1.0] * 30}, "in order"),
        ({"rate": None, "arrival": range(30, 0, -1)}, "in order"),
        (
            {"output_len": [1] * 29 + [500_000], "rate": 1e-3, "simulated": True},
            "500,100 tokens is larger than the room",
        ),
        ({"output_len": [1] * 29 + [9_000], "context": 8192}, "9,100 tokens is more than"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(change, words):
    given = {"rate": 4, "devices": 1, "input_len": [100] * 30, "output_len": [50] * 30, **change}
    with pytest.raises(ValueError, match=words):
        cb.serve("llama3_8b", "h100-sxm", **given)


def test_limits_that_cost_several_times_the_devices_say_what_looser_ones_need():
    asked = {"rate": 60, **CHAT}
    assert cb.serve("llama3_8b", "h100-sxm", tpot=0.05, **asked).best["costly"] == ""
    tight = cb.serve("llama3_8b", "h100-sxm", tpot=0.006, **asked)
    best = tight.best
    assert best["costly"].startswith("the limits need ") and best["costly"] in tight.summary()
    words = best["costly"].partition("; ")[2].split()
    assert words[:2] == ["tpot", "="] and words[-1] == "devices"
    looser, fewer = float(words[2]), int(words[-2].replace(",", ""))
    assert fewer < best["devices"] / 2
    again = cb.serve("llama3_8b", "h100-sxm", tpot=looser, tp=best["tp"], **asked).best
    assert again["devices"] <= fewer


def test_limits_that_long_prompts_alone_miss_name_the_best_possible():
    with pytest.raises(ValueError, match="for 95 % of the requests; give ttft above that") as told:
        cb.serve("llama3_8b", "h100-sxm", rate=4, ttft=0.03, tp=1, input_len=512, input_spread=2)
    least = float(str(told.value).partition(" needs ")[2].split()[0])
    kept = cb.serve("llama3_8b", "h100-sxm", rate=4, ttft=1.2 * least, tp=1, input_len=512, input_spread=2).best
    assert kept["meets"] and kept["ttft_p95"] <= 1.2 * least


def test_joules_have_the_interval_of_the_power(chat):
    row = chat.table.iloc[0]
    assert 0 < row["joule_per_token_low"] < row["joule_per_token"] < row["joule_per_token_high"]


def test_costs_between_the_counts_they_are_drawn_at_are_those_of_the_formula():
    def cost(count, seen):
        return np.hypot(0.01, 1e-4 * np.asarray(count)) + 1e-8 * np.asarray(count) * np.asarray(seen)

    counts = np.random.default_rng(0).uniform(1, 3_000, 500)
    assert interpolated(cost, 8192.0)(counts, 700.0) == pytest.approx(cost(counts, 700.0), rel=2e-4)
    whole = np.arange(1, 64)
    assert interpolated(cost, 8192.0)(whole, 700.0) == pytest.approx(cost(whole, 700.0), rel=1e-12)


def test_api_prices_break_even(chat):
    found = chat.against_apis()
    assert len(found) >= 2 and set(found["cheaper"]) <= {"api", "own", "cannot tell"}
    own, low, high = (found[f"own_usd_per_request{end}"] for end in ("", "_low", "_high"))
    between = (low <= found["usd_per_request"]) & (found["usd_per_request"] <= high)
    assert (low < own).all() and (own < high).all() and (between == (found["cheaper"] == "cannot tell")).all()
    price = chat.best["usd_per_hour"] / 3600
    assert (found["break_even"] * found["usd_per_request"]).tolist() == pytest.approx([price] * len(found))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"ttft": 1e-6}, "idle engine"),
        ({"tpot": 1e-6}, "idle engine"),
        ({"rate": 1e5}, "capacity .* take"),
        ({"input_len": -5}, "input_len = -5"),
        ({"output_len": 0}, "output_len = 0"),
        ({"output_len": -1}, "output_len"),
        ({"rate": -1}, "rate = -1"),
        ({"ttft": 0}, "ttft = 0"),
        ({"tpot": "fast"}, "tpot"),
        ({"acceptance": 1.5}, "accept"),
        ({"model": "llama3_70b", "accelerator": "t4"}, "do not fit 1 × 15.5 GB; give tp = 16"),
        ({"concurrency": 0, "rate": None}, "concurrency = 0"),
        ({"users": -1, "rate": None}, "users = -1"),
        ({"input_len": 1e6, "context": 8192}, "context"),
        ({"model": "gpt2", "input_len": 1000}, "positions for 1,024"),
        ({"acceptance": 1.2, "drafted": 4}, "acceptance = 1.2"),
        ({"drafted": 4}, "without acceptance"),
        ({"prefix_hit": 1.1}, "prefix_hit = 1.1"),
        ({"users": 5}, "one of rate"),
        ({"rate": None}, "no load given"),
        ({"policy": "static"}, "policy"),
        ({"model": "llama3_70b"}, "do not fit .* tp = 2 or more, or weights_format"),
        ({"burstiness": -1}, "burstiness"),
        ({"devices": 3, "tp": 2}, "multiple"),
        ({"kept": 1}, "kept"),
        ({"model": "resnet50"}, "no language model"),
        ({"input_spread": -1}, "input_spread"),
        ({"hourly": -1}, "hourly"),
        ({"simulated": "maybe"}, "simulated"),
    ],
)
def test_door_refuses_what_cannot_be(change, words):
    given = {"model": "llama3_8b", "accelerator": "h100-sxm", "rate": 4, "devices": 1, **CHAT, **change}
    with pytest.raises(ValueError, match=words):
        cb.serve(given.pop("model"), given.pop("accelerator"), **given)


def test_door_names_what_it_does_not_know():
    with pytest.raises(UnknownName):
        cb.serve("llama3_9b", "h100-sxm", rate=1)


def test_among_several_a_stack_that_cannot_says_why():
    found = cb.serve("llama3_70b", "h100-sxm", rate=1, devices=[1, 4], **CHAT).table
    assert "do not fit" in found["why"].iloc[0] and not found["meets"].iloc[0]
    assert found["why"].iloc[1] == ""


def test_a_load_above_capacity_says_so_though_fewer_shards_do_not_hold_the_weights():
    for devices, words in ((8, "above the capacity of 8 devices"), (1, "do not fit")):
        with pytest.raises(ValueError, match=words):
            cb.serve("llama3_70b", "h100-sxm", rate=200, devices=devices, **CHAT)


@pytest.mark.parametrize("users", [1, 20, 300, 1500])
@pytest.mark.parametrize("think", [0.5, 5, 60])
@pytest.mark.parametrize("policy", ["chunked prefill", "disaggregated"])
def test_users_ask_by_the_interactive_response_time_law(users, think, policy):
    """rate = users / (think + answer); the mean answer lies between that of an idle engine and the slowest ones."""
    row = cb.serve("llama3_8b", "h100-sxm", users=users, think=think, devices=2, policy=policy, **CHAT).table.iloc[0]
    answer = users / row["requests_per_second"] - think
    assert 0 < row["in_service"] <= users and row["in_service"] == pytest.approx(row["requests_per_second"] * answer)
    assert 0.5 * row["e2e_p50"] < answer < row["e2e_p99"]
    assert row["requests_per_second"] <= row["capacity"]


@pytest.mark.parametrize("think", [0.5, 30, 300, 1000])
@pytest.mark.parametrize("policy", ["chunked prefill", "disaggregated"])
def test_requests_in_service_are_their_rate_times_the_answer_however_long_users_think(think, policy):
    """Little's law against the same engine asked at that rate, whose requests do not know of users."""
    users = cb.serve("llama3_8b", "h100-sxm", users=100, think=think, devices=2, policy=policy, **CHAT).rows[0]
    load = {"rate": users["requests_per_second"], "devices": 2, "policy": policy, **CHAT}
    assert users["in_service"] == pytest.approx(cb.serve("llama3_8b", "h100-sxm", **load).rows[0]["in_service"], 0.01)


@pytest.fixture
def solved(monkeypatch):
    """The engines that are asked about, and how many steady states were solved for them."""
    engines, states = [], []

    class Recorded(replicas.Replicas):
        def __init__(self, *given):
            super().__init__(*given)
            engines.append(self)

    def counted(*given, **load):
        states.append(load)
        return service_latencies(*given, **load)

    replicas._states.cache_clear()
    monkeypatch.setattr(service, "Replicas", Recorded)
    monkeypatch.setattr(replicas, "service_latencies", counted)
    yield engines, states
    replicas._states.cache_clear()


def test_a_closed_loop_takes_few_steady_states(solved):
    """Those of the load and of both ends of its interval: three loops a service."""
    loads = [(users, think) for users in (20, 300, 1000) for think in (2, 10, 60)]
    for users, think in loads:
        cb.serve("llama3_8b", "h100-sxm", users=users, think=think, devices=2, **CHAT)
    assert len(solved[1]) <= 4 * 3 * len(loads)


def test_the_fewest_engines_take_few_steady_states(solved):
    """Searches for the load and for both ends of its interval share what they solve of one engine."""
    loads = [{"users": users, "think": think} for users in (100, 500, 3000) for think in (5, 30)]
    for load in (*loads, {"rate": 20}, {"rate": 100}):
        cb.serve("llama3_8b", "h100-sxm", ttft=0.5, tpot=0.012, tp=1, **load, **CHAT)
    assert len(solved[1]) <= 24 * (len(loads) + 2)


def test_littles_law_holds_where_the_answers_of_an_engine_jump(solved):
    """Prompts that fill their engines: near one rate, answers take 8 s or 28 s, and nothing between."""
    load = {"input_len": 16384, "output_len": 32, "input_spread": 1.0, "output_spread": 1.0, "tpot": 0.05}
    cb.serve("mixtral_8x7b", "h200-sxm", policy=SPLIT, concurrency=64, devices=16, **load)
    state = solved[0][0].solve(8)
    assert state["rate"] * state["e2e"] == pytest.approx(64 / 8, rel=2e-3)


def test_users_ask_more_often_the_more_they_are_and_the_less_they_think():
    def rate(users, think):
        return cb.serve("llama3_8b", "h100-sxm", users=users, think=think, devices=1, **CHAT).rows[0]

    crowds = [rate(users, 10) for users in (10, 50, 200, 400, 800, 1600)]
    pauses = [rate(200, think) for think in (60, 20, 5, 1)]
    for rows in (crowds, pauses):
        rates = [row["requests_per_second"] for row in rows]
        assert all(low < high * 1.005 for low, high in pairwise(rates)), rates
        assert all(one["e2e_p50"] < other["e2e_p50"] for one, other in pairwise(rows))


def test_users_who_do_not_think_are_requests_at_once():
    users, clients = (
        cb.serve("llama3_8b", "h100-sxm", **load, devices=2, **CHAT).rows[0]
        for load in ({"users": 100, "think": 0}, {"concurrency": 100})
    )
    assert users == clients and users["in_service"] == 100


@pytest.mark.parametrize("policy", ["chunked prefill", "prefill first", "disaggregated"])
@pytest.mark.parametrize("users", [3, 200, 800])
def test_a_pause_of_a_millisecond_changes_hardly_anything(users, policy):
    """Far below an iteration of 11 ms; three users leave one of four engines without any."""
    none, short = (
        cb.serve("llama3_8b", "h100-sxm", users=users, think=think, devices=4, policy=policy, **CHAT).rows[0]
        for think in (0, 0.001)
    )
    for name in ("requests_per_second", "in_service", "ttft_p50", "tpot_p50", "e2e_p95", "batch"):
        assert short[name] == pytest.approx(none[name], rel=0.02), name


@pytest.mark.all
@pytest.mark.parametrize(("users", "think"), [(50, 5), (200, 30), (200, 1), (1500, 30)])
def test_users_wait_as_long_as_those_that_are_simulated_one_by_one(users, think):
    """20,000 requests of users who think for exponential times; beyond the capacity, too."""
    solved, one_by_one = (
        cb.serve(
            "llama3_8b", "h100-sxm", users=users, think=think, devices=1, simulated=each, input_len=512, output_len=256
        ).rows[0]
        for each in (False, True)
    )
    for name, close in (("requests_per_second", 0.04), ("e2e_p50", 0.08), ("tpot_p50", 0.05), ("ttft_p50", 0.35)):
        assert solved[name] == pytest.approx(one_by_one[name], rel=close), name


def test_users_beyond_the_capacity_wait_for_each_other():
    crowd = cb.serve("llama3_8b", "h100-sxm", users=5000, devices=1, **CHAT).rows[0]
    assert not crowd["meets"] and "users wait" in crowd["binds"] and crowd["ttft_p50"] > 30
    enough = cb.serve("llama3_8b", "h100-sxm", users=5000, **CHAT).rows[0]
    assert enough["meets"] and enough["requests_per_second"] < enough["capacity"] and enough["ttft_p95"] < 1


@pytest.mark.parametrize("change", [{"drafted": 4, "acceptance": 0.7}, {"prefix_hit": 0.5}])
def test_drafts_and_kept_prompts_raise_the_capacity(chat, change):
    solved, one_by_one = (
        cb.serve("llama3_8b", "h100-sxm", rate=4, devices=1, simulated=each, **CHAT, **change).table.iloc[0]
        for each in (False, True)
    )
    row = chat.table.iloc[0]
    assert solved["capacity"] > row["capacity"] and solved["e2e_p50"] < row["e2e_p50"]
    for name in ("tpot_p50", "e2e_p50"):
        assert solved[name] == pytest.approx(one_by_one[name], rel=0.1), name


def test_intervals_hold_the_point_and_a_rate_is_not_exceeded(chat):
    closed = cb.serve("llama3_8b", "h100-sxm", concurrency=32, devices=1, **CHAT).table.iloc[0]
    names = ("ttft_p50", "tpot_p50", "output_tokens_per_second", "usd_per_million_input", "usd_per_million_output")
    for name in names:
        assert closed[f"{name}_low80"] < closed[name] < closed[f"{name}_high80"]
    row = chat.table.iloc[0]
    assert row["output_tokens_per_second_high80"] == row["output_tokens_per_second"]


def test_the_slow_end_is_that_of_an_engine_with_its_own_queues():
    """Times that are all k times as long are the same engine with pauses and limits of 1/k, and k times its times."""
    limits, crowd = {"ttft": 1.0, "tpot": 0.05}, {"users": 1000, "think": 30.0}
    row = cb.serve("llama3_8b", "h100-sxm", **crowd, **limits, **CHAT).best
    slow = cb.serve("llama3_8b", "h100-sxm", concurrency=8, devices=1, **CHAT).table.iloc[0]
    slow = slow["tpot_p50_high80"] / slow["tpot_p50"]  # no pause: the factor alone
    hurried = crowd | {"think": crowd["think"] / slow}
    same = cb.serve("llama3_8b", "h100-sxm", **hurried, devices=row["devices"], **CHAT).table.iloc[0]
    assert row["tpot_p50_high80"] == pytest.approx(slow * same["tpot_p50"], rel=1e-3)  # of a closed loop
    assert row["tpot_p50_high80"] > slow * row["tpot_p50"]
    tight = {name: limit / slow for name, limit in limits.items()}
    assert row["devices_slow"] == cb.serve("llama3_8b", "h100-sxm", **hurried, **tight, **CHAT).best["devices"]
    assert row["devices_slow"] >= row["devices"]


def test_an_open_load_beyond_the_slow_end_waits_without_end():
    one = cb.serve("llama3_8b", "h100-sxm", rate=0.1, devices=1, **CHAT).table.iloc[0]
    high = cb.serve("llama3_8b", "h100-sxm", rate=0.97 * one["capacity"], devices=1, **CHAT).table.iloc[0]
    assert math.isinf(high["tpot_p50_high80"]) and math.isfinite(high["tpot_p50"])


def test_a_context_beyond_the_table_is_told():
    found = cb.serve("llama3_8b", "h100-sxm", rate=0.1, devices=1, input_len=20000, output_len=100)
    assert any("more than the 8,192" in each for each in found.assumed)


# --- experts apart -----------------------------------------------------------------------------------------------

WIDE = {"precision": "fp8", "software": "SGLang", "input_len": 600, "output_len": 200}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("tp", [1, 2])
def test_experts_apart_and_simulation_agree(policy, tp):
    """Groups of tp devices share the experts of 8 devices: closed form and request by request."""
    asked = {**WIDE, "ep": 8, "tp": tp, "policy": policy, "devices": 16 if policy == SPLIT else 8}
    most = cb.serve("mixtral_8x7b", "h100-sxm", rate=0.01, **asked).table["capacity"][0]
    solved, run = (
        cb.serve("mixtral_8x7b", "h100-sxm", rate=0.6 * most, simulated=each, **asked).table.iloc[0]
        for each in (False, True)
    )
    for name, limit in LIMITS.items():
        assert solved[name] == pytest.approx(run[name], rel=limit), name


def test_an_engine_with_experts_apart_is_what_a_static_batch_is_estimated_with():
    """A step of 64 requests, 8 for each group: as `cb.generate` says; a prompt for each group: one pass of all."""
    costs = cb.planning.engine_costs(
        "mixtral_8x7b", "h100-sxm", ep=8, input_len=600, precision="fp8", software="SGLang"
    )
    asked = {"ep": 8, "tp": 1, "input_len": 600, "precision": "fp8", "software": "SGLang"}
    step = cb.generate("mixtral_8x7b", "h100-sxm", batch=64, output_len=2, delay_of="token", **asked)
    assert float(costs.decode(64, 601)) == pytest.approx(step.point, rel=1e-6)
    first = cb.generate("mixtral_8x7b", "h100-sxm", batch=8, output_len=1, delay_of="first token", **asked)
    assert float(costs.prefill(4800, 300)) == pytest.approx(first.point, rel=2e-3)
    one = cb.planning.engine_costs("mixtral_8x7b", "h100-sxm", precision="fp8", software="SGLang", chunk=512, tp=2)
    each = cb.planning.engine_costs("mixtral_8x7b", "h100-sxm", precision="fp8", software="SGLang", chunk=512, ep=8)
    assert (one.chunk, each.chunk) == (512, 8 * 512)
    assert each.max_sequences == 8 * one.max_sequences


def test_one_prompt_is_worked_on_by_one_group_and_several_share_the_time():
    costs = cb.planning.engine_costs(
        "deepseek_v3", "h200-sxm", ep=16, input_len=2000, precision="fp8", software="SGLang"
    )
    alone, all_at_once = float(costs.prefill(2000, 1000)), float(costs.prefill(32_000, 1000))
    assert alone < all_at_once < 8 * alone  # sixteen times the tokens, of which each group has as many


def test_sizing_with_experts_apart_takes_engines_of_all_their_devices():
    asked = {**WIDE, "input_len": 2000, "rate": 60, "tpot": 0.1, "ttft": 2}
    found = cb.serve("deepseek_v3", "h200-sxm", ep=16, policy=SPLIT, **asked).table.iloc[0]
    assert found["meets"] and found["devices"] % 32 == 0 and (found["ep"], found["tp"]) == (16, 1)
    assert found["devices"] == 32 * found["engines"]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"ep": 16}, "ep = 16 is more than experts = 8; give at most as many"),
        ({"ep": 6, "tp": 4}, "ep = 6 is no multiple of tp = 4, and tp none of ep"),
        ({"ep": 8, "tp": 1, "devices": 12}, "devices = 12 is no multiple of the 8 devices of an engine"),
        ({"model": "llama3_8b", "ep": 8}, "ep = 8: the model has no experts; leave ep out"),
        (
            {"model": "deepseek_v3", "ep": 8, "tp": 1},
            r"do not fit 8 × 77.3 GB; give ep = 16 or more, or weights_format = 'i",
        ),
    ],
)
def test_experts_that_cannot_be_spread_so_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        cb.serve(
            change.get("model", "mixtral_8x7b"),
            "h100-sxm",
            rate=2,
            precision="fp8",
            **{name: value for name, value in change.items() if name != "model"},
        )


@pytest.mark.parametrize("window", [[[1], [2, 3]], np.ones((2, 3)), -1, "far"])
def test_a_window_of_costs_is_a_number_of_tokens(window: object) -> None:
    with pytest.raises(ValueError, match="window = "):
        StepCosts(max, max, 1e6, window=window)  # type: ignore[arg-type]


def test_lengths_that_are_no_list_of_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"input_len = .* is not a number"):
        cb.serve("llama3_8b", "h100-sxm", rate=1, input_len=[[1], [2, 3]], output_len=5, devices=1)


def test_tokens_of_a_dollar_pay_for_their_prompts_too():
    found = cb.serve("llama3_8b", "h100-sxm", rate=5, input_len=1000, output_len=100, hourly=3.0)
    row = found.table.iloc[0]
    request = (100 * row["usd_per_million_output"] + 1000 * row["usd_per_million_input"]) / 1e6
    assert tokens_per_usd(row) == pytest.approx(100 / request, rel=1e-6)
