"""Language models with layers that keep a state of fixed size: counts and bytes worked out by hand, and limits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.formulas.generation import (
    Decoder,
    Engine,
    Group,
    cache_slots,
    decode_parts,
    decode_step_seconds,
    prefill_parts,
)
from cookbook.formulas.serving import service_latencies
from cookbook.planning import engine_costs
from cookbook.prediction.answer import answer
from cookbook.prediction.kinds.generation import sizes
from cookbook.topics.serving.engines import arrivals, lengths
from cookbook.topics.serving.simulation import CHUNKED, FIRST, POLICIES, StepCosts, simulate
from cookbook.workloads.builders import sequence

IDEAL = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
H100 = Group(1, 1, 3.35e12, 80 * 2**30, 989e12, 989e12, 450e9)
HYBRIDS = (
    "jamba_1.5_mini",
    "jamba_1.5_large",
    "minimax_text_01",
    "qwen3_next_80b_a3b",
    "nemotron_h_8b",
    "granite_4.0_h_tiny",
)
PURE = "mamba2_2.7b"


def decoder(name, **formats):
    found = sizes(name, **formats)
    return Decoder(**{name: found[name] for name in Decoder._fields})


# --- counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "total", "active", "tables"),
    [
        ("jamba_1.5_mini", 52e9, 12e9, 0),  # Jamba 1.5, table 1
        ("jamba_1.5_large", 398e9, 94e9, 0),
        ("minimax_text_01", 456e9, 45.9e9, 2 * 200_064 * 6144),  # counts no embedding and no output matrix as active
    ],
)
def test_parameters_are_within_one_percent_of_the_published_ones(name, total, active, tables):
    ops = cb.model(name).ops
    assert ops.parameter_count == pytest.approx(total, rel=0.01)
    assert ops.active_parameter_count - tables == pytest.approx(active, rel=0.01)


def test_qwen3_next_has_the_parameters_of_its_checkpoint_and_about_three_active():
    """81,324,862,720 with one more layer that predicts ahead, worked out by hand: 79,674,391,296 are left."""
    expert, attention = 3 * 2048 * 512, 2048 * (3 * 4096 + 2 * 512) + 2 * 256
    experts = 513 * expert + 2048 * 512 + 2048
    ahead = experts + attention + 2 * 2048 * 2048 + 5 * 2048
    ops = cb.model("qwen3_next_80b_a3b").ops
    assert ops.parameter_count == 81_324_862_720 - ahead == 79_674_391_296
    assert round((ops.active_parameter_count - 2 * 151_936 * 2048) / 1e9) == 3


def test_a_layer_of_each_kind_by_hand():
    given = {"vocab": 100, "width": 64, "pattern": "M"}
    rest = 2 * 100 * 64 + 2 * 64
    kinds = {
        # in, convolution with its bias, step size, input and output of the state, A and D, norms, out
        "mamba": (
            {"state": 4, "kernel": 4, "expand": 2, "rank": 8, "norms": 1},
            64 * 256 + 128 * 5 + 128 * 16 + 8 * 128 + 128 + 128 * 5 + 16 + 128 * 64,
        ),
        # in (gate, values, keys and queries of two groups, step), convolution, three vectors, norm, out
        "mamba2": (
            {"heads": 4, "head_dim": 32, "state": 16, "groups": 2, "kernel": 4, "chunk": 8},
            64 * (2 * 128 + 2 * 32 + 4) + (128 + 64) * 5 + 3 * 4 + 128 + 128 * 64,
        ),
        "lightning": ({"heads": 4, "head_dim": 32, "chunk": 8}, 64 * 4 * 128 + 128 + 128 * 64),
        # queries and keys of two heads, values and gate of four; two rates a head; A and step; norm of one head
        "gated delta": (
            {"heads": 4, "key_heads": 2, "head_dim": 32, "kernel": 4, "chunk": 8},
            64 * (2 * 64 + 2 * 128) + 64 * 8 + (128 + 128) * 4 + 8 + 32 + 128 * 64,
        ),
    }
    assert set(kinds) == set(sequence.STATES)
    for kind, (state, by_hand) in kinds.items():
        assert sequence.hybrid(**given, recurrent=kind, state=state).parameter_count == by_hand + rest, kind


def test_work_on_states_is_linear_and_that_of_chunks():
    """Half a chunk of keys and values on average, then into the state and out of it; by hand for one layer of each."""
    near = (256 + 1) / 2
    assert sizes(PURE)["state_flop"] == 64 * 2 * (near * (128 + 80 * 64) + 2 * 80 * 64 * 128)
    assert sizes("minimax_text_01")["state_flop"] == 70 * 2 * (near * 2 * 64 * 128 + 2 * 64 * 128**2)
    delta = 32 * (5 * (64 + 1) / 2 * 128 + 64**2 / 6 + 3 * 128**2)
    assert sizes("qwen3_next_80b_a3b")["state_flop"] == pytest.approx(36 * 2 * delta)
    assert sizes("jamba_1.5_mini")["state_flop"] == 28 * 9 * 8192 * 16
    ops = cb.model(PURE).ops
    assert ops.total("flop", 1, 8192) == pytest.approx(4 * ops.total("flop", 1, 2048))
    many = cb.model("jamba_1.5_mini").ops
    more = float(many.total("flop", 1, 8192) - 4 * many.total("flop", 1, 2048))
    assert more == pytest.approx(4 * 4 * 4096 * (8192 * 8193 / 2 - 4 * 2048 * 2049 / 2))  # of four layers that attend


# --- bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("jamba_1.5_large", 63 * (16_384 * 16 + 16_384 * 3) * 2),  # 16 numbers a feature, and three inputs
        ("jamba_1.5_mini", 28 * (8192 * 16 + 8192 * 3) * 2),
        ("minimax_text_01", 70 * 64 * 128 * 128 * 2),  # a square for each head
        ("qwen3_next_80b_a3b", 36 * (32 * 128 * 128 + (32 + 2 * 16) * 128 * 3) * 2),
        ("nemotron_h_8b", 24 * (128 * 64 * 128 + (128 * 64 + 2 * 8 * 128) * 3) * 2),
        (PURE, 64 * (80 * 64 * 128 + (80 * 64 + 2 * 128) * 3) * 2),
    ],
)
def test_bytes_of_a_state_are_those_of_the_shapes_that_engines_keep(name, by_hand):
    """Table sources, vllm-2025-states: heads x width x numbers, and taps less one of what is convolved."""
    assert sizes(name)["state_bytes"] == by_hand
    assert sizes(name, weights="int4", cache="fp8")["state_bytes"] == by_hand
    wide = cb.model(name, state={**cb.model(name).arguments["state"], "bytes": 4})
    assert sizes(wide)["state_bytes"] == 2 * by_hand
    found = cb.generate(
        name, "h100-sxm", input_len=[1000, 9000], output_len=100, batch=3, tp=8, pp=2, weights_format="int4"
    ).memory["states"]
    assert found.tolist() == [3 * by_hand / 16] * 2


def test_keys_and_values_are_kept_where_layers_attend():
    """Jamba 1.5 Large at 256K: 9 of 72 layers keep 9 GiB (published), and all states together 0.4 % of that."""
    assert sizes("jamba_1.5_large")["cache_bytes"] == 9 * 2 * 8 * 128 * 2
    kept = 262_144 * sizes("jamba_1.5_large")["cache_bytes"]
    assert kept == 9 * 2**30 and sizes("jamba_1.5_large")["state_bytes"] / kept == pytest.approx(0.004, abs=5e-4)
    assert sizes("nemotron_h_8b")["cache_bytes"] == 4 * 2 * 8 * 128 * 2 and sizes(PURE)["cache_bytes"] == 0
    assert "states" not in cb.generate("llama3_8b", "h100-sxm").memory


def test_jamba_large_serves_256k_tokens_on_eight_devices_of_80_gb():
    """Jamba 1.5, section 3.1: with 8-bit weights it does; with 16 bits its weights alone are more."""
    asked = {"input_len": 262_143, "output_len": 1, "tp": 8}
    assert cb.generate("jamba_1.5_large", "a100-sxm-80gb", weights_format="int8", **asked).fits == "yes"
    with pytest.raises(ValueError, match="do not fit 8 ×"):
        cb.generate("jamba_1.5_large", "a100-sxm-80gb", **asked)


def test_a_pattern_of_ones_own_keeps_what_its_layers_keep():
    """Qwen3-Next with one layer in eight that attends, instead of one in four."""
    sparse = cb.model("qwen3_next_80b_a3b", pattern="ME" * 7 + "*E", repeats=6)
    assert sizes(sparse)["cache_bytes"] == sizes("qwen3_next_80b_a3b")["cache_bytes"] / 2
    assert sizes(sparse)["state_bytes"] == sizes("qwen3_next_80b_a3b")["state_bytes"] * 42 / 36


def test_slots_are_what_the_weights_leave_over_a_state_and_its_tokens():
    weights, state = 2 * 8_100_852_736, 24 * (128 * 64 * 128 + 10_240 * 3) * 2
    by_hand = (0.9 * 80 * 2**30 - weights) / (np.array([0, 4096, 262_144]) * 16_384 + state)
    found = cache_slots([0, 4096, 262_144], decoder=decoder("nemotron_h_8b"), group=H100, memory_share=0.9)
    np.testing.assert_allclose(found, by_hand)
    pure = cache_slots([1, 10**6], decoder=decoder(PURE), group=H100, memory_share=0.9)
    assert pure[0] == pure[1] == pytest.approx((0.9 * 80 * 2**30 - 2 * 2_702_599_680) / sizes(PURE)["state_bytes"])


# --- time --------------------------------------------------------------------------------------------------------


def test_a_step_reads_and_writes_each_state_whatever_the_context():
    """64 states of 86 MB twice at 3.35 TB/s, 3.3 ms; of Nemotron-H besides what four layers keep."""
    given = {"group": H100, "engine": IDEAL}
    found = decode_parts(64, [1, 10**6], decoder=decoder(PURE), **given)["cache"]
    assert found[0] == found[1] == pytest.approx(64 * 2 * 85_950_464 / 3.35e12)
    part = decode_parts(64, [0, 10_000], decoder=decoder("nemotron_h_8b"), **given)["cache"]
    by_hand = 64 * (2 * sizes("nemotron_h_8b")["state_bytes"] + np.array([0, 10_000]) * 16_384) / 3.35e12
    np.testing.assert_allclose(part, by_hand)
    halves = decode_parts(64, 10_000, decoder=decoder("nemotron_h_8b"), group=H100._replace(shards=2), engine=IDEAL)
    assert float(halves["cache"]) == pytest.approx(by_hand[1] / 2)
    drafts = decode_parts(64, 0, decoder=decoder(PURE), drafted=3, **given)["cache"]
    assert float(drafts) == pytest.approx(5 / 2 * found[0])  # read once, written after each of four tokens


def test_no_context_slows_a_network_without_attention_and_little_slows_a_hybrid():
    asked = {"input_len": [100, 100_000], "output_len": 100, "batch": 2, "delay_of": "token"}
    pure, hybrid, full = (cb.generate(name, "h100-sxm", **asked).point for name in (PURE, "nemotron_h_8b", "llama3_8b"))
    assert pure[0] == pure[1]
    # Keys and values of 4 layers with 8 heads, against those of 32.
    assert hybrid[1] - hybrid[0] == pytest.approx((full[1] - full[0]) / 8)


def test_prompts_cost_a_network_without_attention_in_proportion():
    given = {"group": H100, "engine": IDEAL}
    short, long = (float(prefill_parts(each, decoder=decoder(PURE), **given)["attention"]) for each in (4096, 8192))
    once = 2 * 85_950_464 / 3.35e12  # a pass reads and writes the state once
    assert short - once == pytest.approx(4096 * sizes(PURE)["state_flop"] / 989e12)
    assert long - once == pytest.approx(2 * (short - once))
    found = float(prefill_parts(8192, decoder=decoder("nemotron_h_8b"), **given)["attention"])
    state = sizes("nemotron_h_8b")
    by_hand = (4 * 4 * 4096 * 8192**2 / 2 + 8192 * state["state_flop"]) / 989e12 + 2 * state["state_bytes"] / 3.35e12
    assert found == pytest.approx(by_hand)


# --- the same as before where nothing keeps a state ----------------------------------------------------------------

LLAMA = sequence.hybrid(128_256, 4096, "*-", 32, heads=32, kv_heads=8, hidden=14_336)


@pytest.fixture(scope="module")
def attention_alone():
    """Llama 3 8B as a hybrid all of whose layers attend."""
    arguments = {
        "vocab": 128_256,
        "width": 4096,
        "pattern": "*-",
        "repeats": 32,
        "recurrent": "",
        "state": None,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "hidden": 14_336,
        "gated": True,
    }
    return replace(cb.model("nemotron_h_8b"), ops=LLAMA, arguments=arguments, seq=cb.model("llama3_8b").seq)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"delay_of": "first token"},
        {"delay_of": "token"},
        {"prefix_hit": 0.5},
        {"delay_of": "token", "request_rate": 0.05},
        {"request_rate": np.inf},
    ],
)
def test_attention_alone_answers_to_the_digit_as_before(attention_alone, asked):
    one, other = (
        cb.generate(each, "h100-sxm", input_len=[100, 3000], output_len=1000, **asked)
        for each in (attention_alone, "llama3_8b")
    )
    assert one.point.tolist() == other.point.tolist() and one.low80.tolist() == other.low80.tolist()
    assert {name: part.tolist() for name, part in one.memory.items()} == {
        name: part.tolist() for name, part in other.memory.items()
    }


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_attention_alone_is_served_to_the_digit_as_before(attention_alone, policy, simulated):
    asked = {
        "rate": 3,
        "devices": 2,
        "policy": policy,
        "simulated": simulated,
        "input_len": [300] * 100,
        "output_len": [100] * 100,
    }
    one, other = (cb.serve(each, "h100-sxm", **asked).rows[0] for each in (attention_alone, "llama3_8b"))
    assert {name: value for name, value in one.items() if value == value} == {
        name: value for name, value in other.items() if value == value
    }


# --- services ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nemotron_h_8b", PURE, "granite_4.0_h_tiny"])
def test_iterations_of_a_service_take_what_generate_says(name):
    costs = engine_costs(name, "h100-sxm")
    said = cb.generate(name, "h100-sxm", input_len=3999, output_len=2, batch=16, delay_of="token").point
    assert float(costs.decode(16, 4000)) == pytest.approx(said, rel=1e-3)
    first = cb.generate(name, "h100-sxm", input_len=2048, output_len=2, delay_of="first token").point
    assert float(costs.prefill(2048, 1024)) == pytest.approx(first, rel=0.02)
    step = decode_step_seconds(64, 0, decoder=decoder(name), group=H100, engine=IDEAL)
    still = decode_step_seconds(64, 0, decoder=decoder(name)._replace(state_bytes=0.0), group=H100, engine=IDEAL)
    assert costs.state_seconds > float(step - still) / 64 > 0  # an engine does not reach the whole bandwidth


def test_room_of_an_engine_is_that_of_its_requests():
    costs, known = engine_costs("nemotron_h_8b", "h100-sxm"), sizes("nemotron_h_8b")
    assert costs.state == pytest.approx(known["state_bytes"] / known["cache_bytes"])
    assert costs.held(1000) == pytest.approx(1000 + costs.state)
    pure = engine_costs(PURE, "h100-sxm")
    assert pure.held([1, 10, 10**6]).tolist() == [1, 1, 1] and pure.longest(2.0) == np.inf
    assert pure.kv_tokens == pytest.approx(
        costs.kv_tokens
        * known["cache_bytes"]
        / sizes(PURE)["state_bytes"]
        * (1 + 2 * (8_100_852_736 - 2_702_599_680) / costs.kv_tokens / known["cache_bytes"])
    )


def flat(**changes):
    known = {
        "decode": lambda batch, seen: 0.01 + 0 * np.asarray(batch) * seen,
        "prefill": lambda tokens, seen: 0.01 + 0 * np.asarray(tokens) * seen,
        "kv_tokens": 1000,
    }
    return StepCosts(**{**known, **changes})


@pytest.mark.parametrize("policy", POLICIES)
def test_states_take_room_of_requests(policy):
    """Room for 1,000 tokens: five requests of 100 with a state of 100, instead of ten."""
    most = []
    for state in (0, 100):
        found = simulate(flat(state=state), [90] * 200, [10] * 200, concurrency=50, policy=policy)
        most.append(found.batch)
        assert 0.5 < found.kv_share <= 1 and found.requests["finish"].notna().all()
    assert most[0] > 1.6 * most[1] and most[1] <= 5
    alone = simulate(flat(state=900, window=1, windowed=1), [90], [10], concurrency=1, policy=policy)
    assert alone.requests["e2e"].iloc[0] == pytest.approx(0.01 * 10, rel=0.01)
    with pytest.raises(ValueError, match="larger than the room"):
        simulate(flat(state=901), [90], [10], concurrency=1, policy=policy)


def test_what_is_given_back_is_what_was_taken():
    """Though many were preempted: who comes after a long pause is answered as fast as on an engine never used."""
    costs = flat(kv_tokens=3000, state=150)
    load = (lengths(200, 400, 0.5, 1), lengths(300, 400, 0.5, 2, most=1_500))
    late = simulate(costs, *(np.append(each, 600) for each in load), arrival=[0.0] * 400 + [1e5])
    assert late.requests["preempted"].sum() > 0 and 0 < late.kv_share <= 1
    alone = simulate(costs, [600], [600], arrival=[0.0])
    assert late.requests["e2e"].iloc[-1] == pytest.approx(alone.requests["e2e"].iloc[0], rel=1e-9)


@pytest.mark.parametrize("policy", [CHUNKED, FIRST])
@pytest.mark.parametrize(("state", "window", "windowed"), [(4_000, np.inf, 0.0), (0, 1, 1.0)])
def test_steady_state_agrees_with_the_simulation_where_states_are_kept(policy, state, window, windowed):
    """Room for 16 requests of 3,000 tokens or states; without states there would be more or fewer."""
    costs = StepCosts(
        lambda batch, seen: 0.012 + 2e-5 * np.asarray(batch) + 4e-8 * np.asarray(batch) * seen,
        lambda tokens, seen: np.hypot(0.012, 2.5e-5 * np.asarray(tokens)) + 1e-9 * np.asarray(tokens) * seen,
        90_000 if state else 16,
        256,
        2048,
        window=window,
        windowed=windowed,
        state=state,
    )
    count, rate, spread = 6_000, 3.0, {"prompt_spread": 0.5, "answer_spread": 0.5}
    came = arrivals(rate, count, 1, 3)
    seen = simulate(costs, lengths(1500, count, 0.5, 1), lengths(150, count, 0.5, 2), arrival=came, policy=policy)
    solved = service_latencies(
        costs.decode,
        costs.prefill,
        prompt=1500,
        answer=150,
        kv_tokens=costs.kv_tokens,
        max_sequences=256,
        chunk=2048,
        prefill_first=policy == FIRST,
        rate=count / came[-1],
        window=window,
        windowed=windowed,
        state=state,
        **spread,
    )
    solved["requests_per_second"] = solved["rate"]
    for name, limit in {"requests_per_second": 0.04, "tpot_p50": 0.08, "ttft_p50": 0.2, "ttft_p95": 0.25}.items():
        assert solved[name] == pytest.approx(seen.to_dict()[name], rel=limit), name


@pytest.mark.parametrize(("state", "most"), [(0, (3000 - 54.5) / 155), (100, (3000 - 54.5 - 100) / 255)])
def test_as_many_are_decoded_as_have_room_beside_their_states(state, most):
    """Prompts of 100 tokens and answers of 101, spread by 0.3: 155 are kept on average, 54.5 while a prompt is read."""
    costs = flat()
    found = service_latencies(
        costs.decode,
        costs.prefill,
        prompt=100,
        answer=101,
        prompt_spread=0.3,
        answer_spread=0.3,
        kv_tokens=3000,
        max_sequences=256,
        chunk=2048,
        clients=500,
        state=state,
    )
    assert 0.95 * most < found["batch"] <= most * (1 + 1e-3)


@pytest.mark.parametrize("simulated", [False, True])
def test_states_limit_how_many_are_served_at_once(simulated):
    """Of Nemotron-H 8B on 48 GB: 225 tokens are kept on average, and a state that takes the room of 3,162."""
    costs = engine_costs("nemotron_h_8b", "l40s")
    most = costs.kv_tokens / (100 + 200 * 1.25 / 2 + 3162)
    assert costs.state == pytest.approx(3162) and most < 600 < costs.max_sequences
    row = cb.serve(
        "nemotron_h_8b", "l40s", concurrency=1200, input_len=100, output_len=200, devices=1, simulated=simulated
    ).rows[0]
    assert 0.85 * most < row["batch"] <= most and row["kv_share"] <= 1
    apart = cb.serve(
        "nemotron_h_8b",
        "l40s",
        rate=1,
        input_len=100,
        output_len=200,
        devices=17,
        prefill_engines=16,
        policy="disaggregated",
    ).rows[0]
    assert apart["capacity"] == pytest.approx(most / (199 * float(costs.decode(most, 225))), rel=1e-3)


@pytest.mark.parametrize("name", HYBRIDS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_hybrid_is_served(name, policy):
    row = cb.serve(
        name,
        "h200-sxm",
        rate=0.2,
        input_len=1000,
        output_len=100,
        tp=8,
        pp=2,
        policy=policy,
        devices=16 * (2 if policy == POLICIES[2] else 1),
    ).rows[0]
    assert 0 < row["ttft_p50"] <= row["ttft_p95"] and row["tpot_p50"] > 0 and 0 < row["kv_share"] < 1


def test_long_contexts_cost_a_network_without_attention_its_prompts_alone():
    asked = {"rate": 0.05, "output_len": 300, "devices": 1, "input_spread": 0}
    short, long = (cb.serve(PURE, "h100-sxm", input_len=each, **asked).rows[0] for each in (8_000, 60_000))
    assert long["kv_share"] / long["batch"] == pytest.approx(short["kv_share"] / short["batch"], rel=1e-6)
    assert long["ttft_p50"] == pytest.approx(7.5 * short["ttft_p50"], rel=0.25)
    full = cb.serve(PURE, "h100-sxm", concurrency=500, input_len=16, output_len=1000, devices=1).rows[0]
    assert full["binds"] == "memory bandwidth (states)"


def test_a_simulated_service_says_the_same():
    asked = {"rate": 6, "input_len": 1500, "output_len": 200, "devices": 1}
    for name in ("nemotron_h_8b", PURE):
        solved, seen = (cb.serve(name, "h100-sxm", simulated=each, **asked).rows[0] for each in (False, True))
        for what, limit in (("requests_per_second", 0.04), ("tpot_p50", 0.08), ("ttft_p50", 0.2)):
            assert solved[what] == pytest.approx(seen[what], rel=limit), (name, what)


def test_answers_say_that_states_have_no_constants_of_their_own():
    assert "no constants of their own" in str(cb.generate(PURE, "h100-sxm").assumed)
    assert "no constants of their own" not in str(cb.generate("mistral_7b", "h100-sxm").assumed)
    told = [cb.serve(name, "h100-sxm", rate=1, devices=1).assumed for name in (PURE, "mistral_7b")]
    assert ["no constants of their own" in str(each) for each in told] == [True, False]


def test_the_panel_offers_hybrids_and_names_what_is_read():
    panel = cb.panels.serving(model=PURE, users=200)
    assert "Mamba-2 2.7B" in panel.answer and "KV cache and states read" in str(panel._view.parts)
    assert "states" not in str(cb.panels.serving(users=200)._view.parts)


# --- training, and what cannot be ----------------------------------------------------------------------------------


def test_hybrids_train_with_data_parallelism_and_say_why_with_no_other():
    step = cb.train_step(PURE, "h100-sxm", {"devices": 8, "batch": 1}, seq=[2048, 4096])
    assert step.point[1] / step.point[0] == pytest.approx(2, rel=0.25)  # linear in the sequence
    with pytest.raises(ValueError, match=r"tp = 8: .* data parallelism alone .* keep a state"):
        cb.train_step("jamba_1.5_large", "h100-sxm", {"devices": 8, "tp": 8})
    with pytest.raises(ValueError, match="keep a state"):
        cb.finetune("nemotron_h_8b", "h100-sxm")
    table = pd.DataFrame(
        {
            "model": ["Jamba 1.5 Mini", "llama3_8b"],
            "accelerator": "h100-sxm",
            "devices": 8,
            "micro_batch": 1,
            "global_batch": 8,
            "seq_len": 4096,
        }
    )
    told = answer(table, "training_transformer")
    assert told["reason"].tolist()[0] == "network-not-split" and told["predicted"].notna().tolist() == [False, True]
    assert answer(table, "training_classic")["predicted"].notna().all()


GOOD = {
    "vocab": 100,
    "width": 64,
    "pattern": "M-*-",
    "recurrent": "lightning",
    "heads": 4,
    "hidden": 128,
    "state": {"heads": 4, "head_dim": 16, "chunk": 8},
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recurrent": "rwkv"}, r"recurrent = 'rwkv' is not one of mamba, mamba2, lightning, gated delta"),
        (
            {"state": {"heads": -4, "head_dim": 16, "chunk": 8}},
            r"state: heads = -4 is outside its range; give a whole number from 1",
        ),
        ({"state": {"heads": 4, "head_dim": 0.5, "chunk": 8}}, r"head_dim = 0.5 is outside its range"),
        ({"state": {"heads": 4, "head_dim": 16}}, "state lacks 'chunk': lightning takes heads, head_dim, chunk"),
        ({"state": {"heads": 4, "head_dim": 16, "chunk": 8, "rank": 1}}, "state has no entry 'rank'"),
        ({"state": None}, "state lacks 'heads'"),
        ({"pattern": "MA"}, "pattern = 'MA' must be of the letters M"),
        ({"pattern": "M-" * 501}, "1,002 branches; write at most 1,000"),
        ({"pattern": ""}, "pattern = '' must be"),
        ({"pattern": "--"}, "sees no other tokens"),
        ({"heads": None}, r"branches '\*': give heads"),
        ({"hidden": None}, "branches '-': give hidden"),
        ({"pattern": "ME"}, "branches 'E': give experts"),
        ({"experts": {"number": -1}}, "number = -1 is outside its range"),
    ],
)
def test_what_no_network_can_have_is_refused(changes, words):
    assert sequence.hybrid(**GOOD).parameter_count > 0
    with pytest.raises(ValueError, match=words):
        sequence.hybrid(**{**GOOD, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"recurrent": "rwkv"},
        {"state": {"state": -1}},
        {"state": 3},
        {"repeats": 0},
        {"pattern": "X"},
        {"window": 512},
        {"state": {"state": 16, "kernel": 4, "expand": 2, "rank": float("nan")}},
    ],
)
def test_changes_that_cannot_be_are_refused_by_name(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        cb.model("jamba_1.5_mini", **changes)


@pytest.mark.parametrize("changes", [{"state": -1}, {"state": np.nan}, {"state_seconds": -1e-3}, {"state": "big"}])
def test_costs_refuse_states_that_cannot_be(changes):
    with pytest.raises(ValueError, match="state"):
        flat(**changes)


def test_a_request_beyond_the_room_says_how_long_one_may_be():
    with pytest.raises(ValueError, match=r"more than the keys and values that fit, [\d,]+ tokens"):
        cb.serve("nemotron_h_8b", "h100-sxm", rate=0.001, input_len=10**7, output_len=10, devices=1)
