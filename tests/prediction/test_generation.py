"""Language models token by token: figures worked out by hand, limits, directions, and what cannot be asked."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.formulas.generation import (
    Decoder,
    Engine,
    Group,
    accepted_tokens,
    attended_tokens,
    cache_slots,
    decode_parts,
    decode_step_seconds,
    open_service,
    prefill_parts,
    prefill_seconds,
    steady_service,
)
from cookbook.formulas.transformer_training import mean_context
from cookbook.prediction.answer import answer
from cookbook.prediction.api import answers
from cookbook.prediction.constants import Constant, Fitted, value_at
from cookbook.prediction.kernels import kernel_constant
from cookbook.prediction.kinds.generation import CONSTANTS, engine_of, resolve, sizes
from cookbook.prediction.parsing.words import stack
from cookbook.prediction.request_sets import within
from cookbook.prediction.software import engines

# Nothing but the rates of the datasheet: weights and cache at the full bandwidth, products at the peak.
IDEAL = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
REAL = Engine(0.8, 0.75, 0.6, 0.55, 0.3, 0.2, 12, 1e-4, 1e-3, 1e-5, 1e-5)
A100 = Group(1, 1, 2.039e12, 80 * 2**30, 312e12, 312e12, 225e9)


def decoder(name, **formats):
    found = sizes(name, **formats)
    return Decoder(**{name: found[name] for name in Decoder._fields})


LLAMA = decoder("llama3_8b")
GIVEN = {"decoder": LLAMA, "group": A100}


def test_one_token_of_llama_3_8b_on_an_a100_takes_the_time_to_read_its_weights():
    """8.03 G parameters in two bytes less the table of 128,256 x 4,096 that is only looked up, at 2.039 TB/s."""
    by_hand = 2 * (8_030_261_248 - 128_256 * 4096) / 2.039e12
    found = float(decode_step_seconds(1, 0, engine=IDEAL, **GIVEN))
    assert found == pytest.approx(by_hand, rel=2e-4) and found == pytest.approx(7.36e-3, rel=2e-3)


@pytest.mark.parametrize(
    ("model", "by_hand"),
    [
        ("llama2_7b", 2 * 32 * 32 * 128 * 2),  # every head keeps its own
        ("llama3_8b", 2 * 32 * 8 * 128 * 2),  # eight groups
        ("llama3_70b", 2 * 80 * 8 * 128 * 2),
        ("falcon_7b", 2 * 32 * 1 * 64 * 2),  # one head for all queries
        ("deepseek_v3", 61 * (512 + 64) * 2),  # one latent vector and one rotated key a layer
    ],
)
def test_keys_and_values_of_a_token_are_those_of_the_papers(model, by_hand):
    assert sizes(model)["cache_bytes"] == by_hand
    assert sizes(model, cache="fp8")["cache_bytes"] == by_hand / 2


def test_a_prompt_takes_two_operations_a_weight_and_token_and_four_a_pair_of_tokens():
    """2,048 tokens: 2 x 6.98 G weights each, and half of 2,048 squared pairs in 32 layers of 4,096 wide."""
    weights = 8_030_261_248 - 2 * 128_256 * 4096
    flop = 2 * (weights * 2048 + 128_256 * 4096) + 4 * 32 * 4096 * 2048**2 / 2
    reading = 2 * (weights + 128_256 * 4096) / 2.039e12
    products = (flop - 2 * 32 * 4096 * 2048**2) / 312e12
    by_hand = np.hypot(products, reading) + 2 * 32 * 4096 * 2048**2 / 312e12
    assert float(prefill_seconds(2048, engine=IDEAL, **GIVEN)) == pytest.approx(by_hand, rel=1e-3)


def test_slots_are_what_the_weights_leave_over_what_a_sequence_keeps():
    weights = 2 * 8_030_261_248
    by_hand = (0.9 * 80 * 2**30 - weights) / (4096 * 131072)
    assert float(cache_slots(4096, memory_share=0.9, **GIVEN)) == pytest.approx(by_hand, rel=1e-3)
    small = A100._replace(memory_bytes=12 * 2**30)
    assert cache_slots(4096, decoder=LLAMA, group=small, memory_share=0.9) == 0


def test_few_sequences_wait_for_weights_and_many_for_products():
    one, two, many, more = decode_step_seconds([1, 2, 4e4, 8e4], 0, engine=IDEAL, **GIVEN)
    assert two == pytest.approx(one, rel=1e-3) and more == pytest.approx(2 * many, rel=1e-3)


@pytest.mark.parametrize("engine", [IDEAL, REAL])
def test_more_work_takes_longer_and_more_sequences_give_more_tokens(engine):
    steps = [decode_step_seconds(batch, [128, 1024, 8192], engine=engine, **GIVEN) for batch in (1, 8, 64)]
    assert np.all(np.diff(steps, axis=0) > 0) and np.all(np.diff(steps, axis=1) > 0)
    assert np.all(np.diff([batch / step for batch, step in zip((1, 8, 64), steps, strict=True)], axis=0) > 0)
    assert np.all(np.diff(prefill_seconds([16, 512, 4096], engine=engine, **GIVEN)) > 0)
    kept = prefill_seconds(4096, cached=np.array([0, 0.5, 0.9]), engine=engine, **GIVEN)
    assert np.all(np.diff(kept) < 0)


def test_shards_are_faster_until_they_wait_for_each_other():
    found = [decode_step_seconds(8, 1024, decoder=LLAMA, group=A100._replace(shards=n), engine=REAL) for n in (1, 2, 4)]
    assert np.all(np.diff(found) < 0) and found[0] / found[2] < 4
    slow = A100._replace(shards=4, link=1e8)
    assert decode_step_seconds(8, 1024, decoder=LLAMA, group=slow, engine=REAL) > found[0]


def test_heads_of_keys_that_are_fewer_than_shards_are_kept_twice():
    falcon, ideal = decoder("falcon_7b"), {"decoder": decoder("falcon_7b"), "engine": IDEAL}
    one, two = (
        float(
            decode_step_seconds(64, 2048, group=A100._replace(shards=n, link=1e30), **ideal)
            - decode_step_seconds(64, 0, group=A100._replace(shards=n, link=1e30), **ideal)
        )
        for n in (1, 2)
    )
    assert one == pytest.approx(64 * 2048 * float(falcon.cache_bytes) / 2.039e12) and two == pytest.approx(one)


def test_stages_take_turns_with_parts_of_a_batch():
    two = A100._replace(stages=2)
    whole, halves = decode_step_seconds([4, 8], 512, decoder=LLAMA, group=two, engine=IDEAL)
    assert halves > whole
    assert halves == pytest.approx(decode_step_seconds(4, 512, engine=IDEAL, **GIVEN), rel=1e-2)
    prompts = [prefill_seconds(512, prompts=each, decoder=LLAMA, group=two, engine=IDEAL) for each in (1, 2)]
    assert prompts[1] / prompts[0] == pytest.approx(1.5, rel=0.1)


def test_a_mixture_reads_the_experts_that_its_tokens_are_sent_to():
    mixture = decoder("mixtral_8x7b")
    one, many = decode_step_seconds([1, 512], 0, decoder=mixture, group=A100, engine=IDEAL)
    held = float(mixture.weight_bytes + mixture.expert_bytes)
    assert one == pytest.approx((held - 0.75 * float(mixture.expert_bytes)) / 2.039e12, rel=1e-3)
    assert many > held / 2.039e12


MISTRAL, FULL = decoder("mistral_7b"), decoder("mistral_7b_v0.2")


@pytest.mark.parametrize(("window", "share"), [(100, 1.0), (100, 0.5), (1000, 5 / 6), (np.inf, 0.5), (1, 1.0)])
@pytest.mark.parametrize(("start", "end"), [(0, 50), (0, 150), (90, 110), (100, 100), (400, 2000)])
def test_a_window_attends_to_what_one_counts_token_by_token(window, share, start, end):
    lengths = np.linspace(start, end, 100_001)
    counted = np.mean(share * np.minimum(lengths, window) + (1 - share) * lengths)
    found = attended_tokens((start + end) / 2, window, share, end - start)
    assert found == pytest.approx(counted, rel=1e-4, abs=1e-3)
    if start == 0 and end > 0:  # of whole tokens, each of which sees itself, as training counts them
        whole = share * mean_context(end, window) + (1 - share) * mean_context(end)
        assert found == pytest.approx(float(whole), abs=0.51)


def test_layers_with_a_window_read_and_keep_it_and_no_more():
    """Of Mistral 7B 4,096 tokens in each layer; of Gemma 3 12B 40 layers keep 1,024, and 8 of them all."""
    given = {"decoder": MISTRAL, "group": A100, "engine": IDEAL}
    seconds = [float(decode_parts(4, each, **given)["cache"]) for each in (4096, 32768)]
    assert seconds[0] == seconds[1] == pytest.approx(4 * 4096 * 131072 / 2.039e12)
    gemma = cb.generate("gemma3_12b", "h100-sxm", input_len=32767, output_len=1).memory["cache"]
    assert gemma == pytest.approx(2 * 8 * 256 * 2 * (8 * 32768 + 40 * 1024))
    slots = [float(cache_slots(32768, decoder=each, group=A100, memory_share=0.9)) for each in (MISTRAL, FULL)]
    assert slots[0] == pytest.approx(8 * slots[1])


def test_scores_of_a_prompt_end_at_the_window():
    """32,768 tokens look at 4,096 each, the first of them at what is there: half a square less."""
    parts = prefill_parts(32768, decoder=MISTRAL, group=A100, engine=IDEAL)
    by_hand = 4 * 32 * 4096 * (32768 * 4096 - 4096**2 / 2) / 312e12
    assert float(parts["attention"]) == pytest.approx(by_hand)
    rest = prefill_parts(32768, decoder=MISTRAL, group=A100, engine=IDEAL, cached=0.5)
    assert float(rest["attention"]) == pytest.approx(4 * 32 * 4096 * 16384 * 4096 / 312e12)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"delay_of": "first token"},
        {"delay_of": "token"},
        {"delay_of": "token", "request_rate": 0.05},
        {"request_rate": np.inf},
    ],
)
def test_a_window_that_nothing_outgrows_changes_nothing(asked):
    models = (cb.model("llama3_8b", window=4096), cb.model("llama3_8b", window=10**6, full_every=4), "llama3_8b")
    points = [cb.generate(each, "h100-sxm", input_len=[100, 3000], output_len=1000, **asked).point for each in models]
    assert points[0].tolist() == points[1].tolist() == points[2].tolist()


@pytest.mark.parametrize(
    "asked", [{"batch": 16}, {"batch": 16, "delay_of": "token"}, {"delay_of": "token", "request_rate": 0.05}]
)
def test_the_narrower_the_window_the_faster_a_long_context(asked):
    """Windows of all layers are the least; without one it is the most."""
    ways = ({"window": 1024}, {"window": 4096}, {"window": 4096, "full_every": 2}, {})
    points = [
        cb.generate(cb.model("llama3_8b", **way), "h100-sxm", input_len=30000, output_len=500, **asked).point
        for way in ways
    ]
    assert np.all(np.diff(points) > 0)


@pytest.mark.parametrize("window", [0, -1, float("nan"), 0.5, "4k", True])
def test_a_window_is_a_number_of_tokens(window):
    with pytest.raises(ValueError, match=r"window = .*; give a whole number"):
        cb.generate(cb.model("llama3_8b", window=window), "h100-sxm")


def test_nobody_waits_where_one_request_is_there_at_a_time():
    found = steady_service(1, 512, 256, slots=64, chunk=8192, engine=REAL, **GIVEN)
    first = float(prefill_seconds(512, engine=REAL, **GIVEN))
    step = float(decode_step_seconds(1, 640, engine=REAL, **GIVEN))
    assert float(found.requests_per_second) == pytest.approx(1 / (first + 256 * step), rel=0.05)
    assert float(found.first_token_seconds) == pytest.approx(first, rel=1.1)
    assert float(found.token_seconds) == pytest.approx(step, rel=0.05)


@pytest.mark.parametrize("first", [False, True])
def test_more_requests_at_once_give_more_tokens_and_longer_waits(first):
    many = np.array([1, 4, 16, 64, 256])
    found = steady_service(many, 512, 256, slots=128, chunk=8192, prefill_first=first, engine=REAL, **GIVEN)
    assert np.all(np.diff(found.requests_per_second)[:3] > 0) and np.all(np.diff(found.first_token_seconds) > 0)
    assert found.requests_per_second[4] == pytest.approx(found.requests_per_second[3], rel=0.3)
    # Requests that are there are those that arrive in the time that one takes (Little's law).
    np.testing.assert_allclose(found.request_seconds * found.requests_per_second, many, rtol=1e-9)


def test_how_prompts_take_turns_changes_delays_and_hardly_the_rate():
    mixed, first = (
        steady_service(64, 2048, 256, slots=128, chunk=2048, prefill_first=each, engine=REAL, **GIVEN)
        for each in (False, True)
    )
    assert float(mixed.requests_per_second / first.requests_per_second) == pytest.approx(1, abs=0.15)
    assert first.token_seconds < mixed.token_seconds and first.first_token_seconds < mixed.first_token_seconds


def test_drafted_tokens_pay_where_they_are_taken():
    """Four drafted, four of five taken: (1 - 0.8^5) / 0.2 = 3.36 tokens a step (Leviathan 2023, equation 1)."""
    assert float(accepted_tokens(0.8, 4)) == pytest.approx(3.3616)
    assert accepted_tokens([0, 1], 4).tolist() == [1, 5]
    plain = float(decode_step_seconds(1, 512, engine=IDEAL, **GIVEN))
    assert decode_step_seconds(1, 512, drafted=4, engine=IDEAL, **GIVEN) / accepted_tokens(0.8, 4) < 0.5 * plain
    with pytest.raises(ValueError, match=r"acceptance = 1.2 .* from 0 to 1"):
        accepted_tokens(1.2, 4)
    with pytest.raises(ValueError, match=r"drafted = -1 .* 0 tokens or more"):
        accepted_tokens(0.5, -1)


@pytest.mark.parametrize("first", [False, True])
def test_drafts_and_kept_prompts_save_a_service_time(first):
    same = {"slots": 128, "chunk": 8192, "prefill_first": first, "engine": REAL, **GIVEN}
    plain = steady_service(16, 2048, 256, **same)
    drafted = steady_service(16, 2048, 256, drafted=[0, 4, 4], acceptance=[0.8, 0, 0.8], **same)
    rates = drafted.requests_per_second / plain.requests_per_second
    assert rates[0] == 1 and rates[1] < 1 < rates[2] < accepted_tokens(0.8, 4)
    kept = steady_service(16, 2048, 256, cached=np.array([0, 0.5, 1]), **same)
    assert np.all(np.diff(kept.requests_per_second) > 0) and kept.requests_per_second[0] == plain.requests_per_second


def test_prompts_that_arrive_at_random_wait_as_in_m_d_1():
    """Answers of no cost: Pollaczek and Khinchine, with as much work for each prompt."""
    still = decoder("llama3_8b")._replace(weight_bytes=0.0, expert_bytes=0.0, cache_bytes=0.0)
    same = {"decoder": still, "group": A100, "engine": IDEAL}
    work = float(prefill_seconds(4096, **same))
    load = np.array([0.3, 0.6, 0.8])
    found = open_service(load / work, 4096, 1, slots=1e6, chunk=1, prefill_first=True, **same)
    np.testing.assert_allclose(found.first_token_seconds, work * (1 + load / 2 / (1 - load)), rtol=1e-2)


@pytest.mark.parametrize("first", [False, True])
def test_requests_at_a_rate_wait_longer_until_the_capacity(first):
    same = {"slots": 64, "chunk": 8192, "prefill_first": first, "engine": REAL, **GIVEN}
    most = float(open_service(1e6, 512, 256, **same).requests_per_second)
    found = open_service(most * np.array([0.01, 0.3, 0.6, 0.9, 1.01]), 512, 256, **same)
    for delay in (found.first_token_seconds, found.token_seconds, found.request_seconds):
        assert np.all(np.diff(delay)[:3] > 0) and np.isnan(delay[4])
    closed = float(steady_service(64, 512, 256, **same).requests_per_second)
    assert most == pytest.approx(closed, rel=0.15) == found.requests_per_second[4]
    assert found.decoding[2] == pytest.approx(found.requests_per_second[2] * 256 * found.token_seconds[2], rel=1e-3)


@pytest.mark.all
def test_a_million_steps_take_as_long_as_counting_to_forty_million(within):
    batch, context = np.random.default_rng(0).uniform([[1], [64]], [[256], [8192]], (2, 10**6))
    with within(4):
        decode_step_seconds(batch, context, engine=REAL, **GIVEN)


ROW = {
    "model": "Llama-3.1-70B",
    "accelerator": "h100-sxm",
    "devices": "4",
    "tp": "4",
    "precision": "fp8/fp8/fp8",
    "input_len": "1024",
    "output_len": "512",
    "batch": "32",
    "software": "vLLM 0.9",
    "scenario": "server",
    "metric": "output tokens/s",
}


def told(**changes):
    lists = {name: values for name, values in changes.items() if isinstance(values, list)}
    count = len(next(iter(lists.values()))) if lists else 1
    rows = [ROW | {n: v[at] if n in lists else v for n, v in changes.items()} for at in range(count)]
    return answer(pd.DataFrame(rows), "inference")


def test_rates_of_one_service_agree_with_each_other():
    names = [
        "output tokens/s",
        "total tokens/s",
        "requests/s",
        "output tokens/s/GPU",
        "latency s avg",
        "TTFT ms p50",
        "TPOT ms p50",
    ]
    found = told(metric=names)
    assert not found["why"].any()
    rate = dict(zip(names, found["predicted"], strict=True))
    assert rate["output tokens/s"] == pytest.approx(512 * rate["requests/s"], rel=1e-5)
    assert rate["total tokens/s"] == pytest.approx(1536 * rate["requests/s"], rel=1e-5)
    assert rate["output tokens/s/GPU"] == pytest.approx(rate["output tokens/s"] / 4, rel=1e-5)
    assert rate["latency s avg"] * rate["requests/s"] == pytest.approx(32, rel=1e-5)
    assert rate["TTFT ms p50"] > rate["TPOT ms p50"] > 0
    assert (found["low80"] < found["predicted"]).all() and (found["predicted"] < found["high80"]).all()


def test_engines_are_read_from_the_words_of_reports():
    names = [
        "vLLM (mid-2024)",
        "TensorRT-LLM 0.9.0",
        "TensorRT-LLM 1.0 (pytorch backend)",
        "SGLang 0.4",
        "LMDeploy",
        "Text Generation Inference",
        "an engine of ours",
    ]
    found = told(software=names, scenario="offline", batch="")
    assert not found["why"].any() and found["predicted"].nunique() > 4


def test_a_model_that_does_not_fit_says_what_would():
    with pytest.raises(ValueError, match=r"weights of 141 GB do not fit 1 × 77\.3 GB; give tp = 2 or more, or weigh"):
        cb.generate("llama3_70b", "h100-sxm", tp=1)
    assert cb.generate("llama3_70b", "h100-sxm", tp=1, weights_format="int4").point > 0
    with pytest.raises(ValueError, match=r"weights of 16\.1 GB do not fit 1 × 222 MB; give tp = 128 or more"):
        cb.generate("llama3_8b", "groq-lpu", tp=1)


@pytest.mark.parametrize(
    "given",
    [
        {"tp": 2, "batch": 32},
        {"pp": 2, "batch": 4},
        {"delay_of": "token"},
        {"delay_of": "first token"},
        {"request_rate": 0.5},
    ],
)
def test_no_part_of_an_answer_is_left_out_of_what_charts_show(given):
    found = cb.generate("llama3_8b", "h100-sxm", input_len=8192, output_len=512, **given)
    assert sum(found.by_part.values()) == pytest.approx(sum(found.parts.values()), rel=1e-12)
    assert sum(found.by_part.values()) == pytest.approx(found.point, rel=1e-6)
    read = sum(found.parts.get(name, 0.0) for name in ("weights", "cache", "elementwise"))
    assert found.by_part["memory traffic"] == pytest.approx(read, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"input_len": -5}, r"input_len = -5 is outside its range"),
        ({"output_len": 0}, r"output_len = 0: an answer has 1 token or more"),
        ({"batch": 0}, r"batch = 0 is outside its range"),
        ({"tp": 4, "devices": 2}, r"tp x pp = 4 is more than devices = 2"),
        ({"software": "no engine"}, r"no software called 'no engine'"),
        ({"acceptance": 1.2, "drafted": 4}, r"acceptance = 1.2 is outside its range; give 0 to 1"),
        ({"drafted": 4}, r"drafted = 4 without acceptance: give the share"),
        ({"acceptance": 0.5}, r"acceptance = 0.5 without drafted: give the tokens"),
        ({"prefix_hit": 1.1}, r"prefix_hit = 1.1 is outside its range; give 0 to 1"),
        (
            {"request_rate": 1e5},
            r"request_rate = 1e\+05 requests/s is above the capacity, .* give fewer, or more devices",
        ),
        ({"ep": 8}, r"ep = 8: the model has no experts; leave ep out"),
        ({"schedule": "fifo"}, r"schedule = 'fifo' is not a choice; .* chunked prefill, prefill first"),
        ({"chunk": 0}, r"chunk = 0 is outside its range"),
    ],
)
def test_what_cannot_be_is_told_with_its_remedy(given, words):
    with pytest.raises((ValueError, LookupError), match=words):
        cb.generate("llama2_7b", "h100-sxm", **given)


def test_an_answer_longer_than_the_model_has_positions_for():
    with pytest.raises(ValueError, match=r"input_len \+ output_len = 1,500 tokens, but GPT-2 .* 1,024; give fewer"):
        cb.generate("gpt2", "h100-sxm", input_len=1000, output_len=500)


def test_policies_of_an_engine_through_the_door():
    asked = {"input_len": 1024, "output_len": 128, "batch": 8}
    plain, drafted, kept = (
        cb.generate("llama3_8b", "h100-sxm", **asked, **more)
        for more in ({}, {"drafted": 4, "acceptance": 0.7}, {"prefix_hit": 0.9})
    )
    assert drafted.point < plain.point and kept.point < plain.point and "seconds of drafting = 0" in drafted.assumed
    rates = cb.generate("llama3_8b", "h100-sxm", request_rate=[1, 8, 1000])
    assert rates.point[0] < rates.point[1] and rates.reason.tolist() == ["", "", "load-above-capacity"]
    late = [
        cb.generate("llama3_8b", "h100-sxm", request_rate=8, delay_of="token", schedule=each).point
        for each in ("chunked prefill", "prefill first")
    ]
    assert late[0] < late[1]


def test_a_prompt_beyond_the_table_is_taken_and_told():
    short, long = (cb.generate("llama3_8b", "h100-sxm", input_len=each) for each in (4096, 16384))
    assert "more than the 8,192 tokens" in long.assumed and "8,192" not in short.assumed


@pytest.mark.parametrize("policy", ["chunked prefill", "prefill first"])
@pytest.mark.parametrize("rate", [1, 8])
def test_rates_agree_with_the_steady_state_of_single_requests(policy, rate):
    lengths = {"input_len": 1024, "output_len": 128}
    row = cb.serve(
        "llama3_8b", "h100-sxm", rate=rate, devices=1, policy=policy, input_spread=0, output_spread=0, **lengths
    ).table.iloc[0]
    for delay, name in (("token", "tpot_p50"), ("pass", "e2e_p50")):
        found = cb.generate("llama3_8b", "h100-sxm", request_rate=rate, schedule=policy, delay_of=delay, **lengths)
        assert found.point == pytest.approx(row[name], rel=0.1)


@pytest.mark.parametrize("unit", [1e-3, 7.0])
def test_with_another_unit_of_time_every_time_and_rate_changes_with_it(unit):
    """Rates of the devices, host times and arrivals in other seconds: results too, and numbers of sequences not."""
    rates = ("mem_bandwidth", "peak", "wide_peak", "link")
    group = A100._replace(**{name: getattr(A100, name) / unit for name in rates})
    host = ("layer_seconds", "step_seconds", "sequence_seconds", "start_seconds")
    other = {"decoder": LLAMA, "group": group, "engine": REAL._replace(**{n: getattr(REAL, n) * unit for n in host})}
    same, queue = {**GIVEN, "engine": REAL}, {"slots": 40.0, "chunk": 512.0}
    assert decode_step_seconds(8, 900, **other) == pytest.approx(unit * decode_step_seconds(8, 900, **same))
    assert prefill_seconds(700, **other) == pytest.approx(unit * prefill_seconds(700, **same))
    for parts, *given in ((decode_parts, 8, 900), (prefill_parts, 700)):
        before, after = parts(*given, **same), parts(*given, **other)
        assert before and all(after[name] == pytest.approx(unit * each) for name, each in before.items())
    before, after = steady_service(16, 700, 200, **same, **queue), steady_service(16, 700, 200, **other, **queue)
    opened, later = open_service(2, 700, 200, **same, **queue), open_service(2 / unit, 700, 200, **other, **queue)
    for one, two in ((before, after), (opened, later)):
        assert two.decoding == pytest.approx(one.decoding) and two.requests_per_second * unit == pytest.approx(
            one.requests_per_second
        )
        for name in ("first_token_seconds", "token_seconds", "request_seconds"):
            assert getattr(two, name) == pytest.approx(unit * getattr(one, name), rel=1e-4)


def test_with_another_unit_of_memory_as_many_sequences_fit():
    held = ("weight_bytes", "expert_bytes", "cache_bytes", "embedded_bytes")
    small = {name: getattr(LLAMA, name) / 1e9 for name in held}
    group = A100._replace(memory_bytes=A100.memory_bytes / 1e9)
    before = cache_slots(4096, **GIVEN, memory_share=0.9, reserved_bytes=1e9)
    after = cache_slots(4096, decoder=LLAMA._replace(**small), group=group, memory_share=0.9, reserved_bytes=1.0)
    assert after == pytest.approx(before) and before > 0


ASKED = {
    "model": "Llama-3.1-8B",
    "accelerator": "h100-sxm",
    "devices": "2",
    "tp": "1",
    "input_len": "1024",
    "output_len": "128",
    "software": "vLLM",
    "precision": "bf16",
}


def test_an_infinite_rate_of_requests_is_offline_work_or_as_many_at_a_time_as_are_let_in():
    """The default of vLLM's own benchmark; all slots are full, so an answer takes slots over requests/s (Little)."""
    rows = [
        {"scenario": "offline"},
        {"request_rate": "inf"},
        {"request_rate": np.inf, "scenario": "server"},
        {"request_rate": "inf", "metric": "requests/s"},
        {"request_rate": "inf", "metric": "latency s avg"},
        {"request_rate": "inf", "batch": "64", "scenario": "server"},
        {"batch": "64", "scenario": "server"},
        {"request_rate": 5, "scenario": "offline"},
    ]
    found = answer(pd.DataFrame([ASKED | {"metric": "output tokens/s"} | row for row in rows]), "inference")
    full, inf, server, requests, late, let_in, closed, wrong = found["predicted"]
    assert full == inf == server == pytest.approx(128 * requests) and let_in == closed < full and np.isnan(wrong)
    slots = float(found["assumed"][1].rsplit("batch = ", 1)[1])
    # What 0.9 x 80 GiB leave beside the weights, over the keys and values of a request halfway through its answer.
    by_hand = (0.9 * 80 * 2**30 - 2 * 8_030_261_248) / ((1024 + 64) * 131072)
    assert slots == int(by_hand) and late == pytest.approx(2 * slots / requests)
    one = cb.generate("llama3_8b", "h100-sxm", request_rate=np.inf, software="vLLM", input_len=1024, output_len=128)
    assert one.point == pytest.approx(late, rel=1e-3) and not one.why


def test_rows_and_the_door_say_the_same_of_lengths_that_the_model_is_not_known_for():
    rows = [{"input_len": each} for each in ("4096", "16384")] + [{"model": "gpt2", "input_len": "1000"}]
    found = answer(pd.DataFrame([ASKED | {"metric": "output tokens/s"} | row for row in rows]), "inference")
    said = "context = more than the 8,192 tokens of the table models"
    assert said not in found["assumed"][0] and said in found["assumed"][1]
    assert said in cb.generate("llama3_8b", "h100-sxm", input_len=16384).assumed
    assert found["why"][2] == "input_len + output_len = 1,128 tokens, but GPT-2 has positions for 1,024; give fewer"
    assert found["reason"][2] == "positions-exceeded"


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("vLLM 0.9.1", "vllm"),
        ("vLLM 0.5.4", "vllm-2024"),
        ("SGLang 0.4", "sglang"),
        ("TensorRT-LLM 0.9.0", "tensorrt-llm-2024"),
        ("TensorRT-LLM 1.0 (pytorch backend)", "tensorrt-llm"),
        ("NVIDIA NIM 1.8.0 (TensorRT-LLM)", "tensorrt-llm"),
        ("LMDeploy TurboMind", "lmdeploy"),
        ("Text Generation Inference 2.0", "tgi"),
        ("FasterTransformer 5.3", "fastertransformer"),
        ("DeepSpeed-MII", "deepspeed-mii"),
        ("llama.cpp b3000", "llama.cpp-2024"),
        ("llama.cpp (CUDA)", "llama.cpp"),
        ("llama.cpp b3000, Metal", "llama.cpp-2024"),
        ("mlx-lm 0.28", "mlx"),
        ("ExLlamaV3", "exllama"),
        ("llama.cpp ROCm 6", "llama.cpp-rocm"),
        ("llama-bench, HIP", "llama.cpp-rocm"),
        ("Vulkan llama.cpp", "llama.cpp-vulkan"),
        ("Ollama 0.3", "ollama"),
        ("Hugging Face Transformers eager", "transformers"),
        ("Transformers NeuronX", "neuron"),
        ("optimum-habana", "habana"),
        ("MLPerf v4.1 submission", "submission"),
    ],
)
def test_every_engine_of_reports_has_a_level_and_answers(said, level):
    assert stack("generation", said, "") == level and level in engines("generation")
    own = {"llama.cpp-rocm": "mi300x", "neuron": "trainium2", "habana": "gaudi2", "mlx": "apple-m2-ultra"}
    device = own.get(level, "a100-sxm-80gb")
    row = {
        "model": "Llama-2-7B",
        "accelerator": device,
        "devices": "1",
        "input_len": "128",
        "batch": "1",
        "output_len": "128",
        "software": said,
        "metric": "output tokens/s",
    }
    found = answer(pd.DataFrame([row]), "inference").iloc[0]
    fastest = cb.accelerator(device).mem_bandwidth / (6.6e9 / 2)  # int4 weights at the full bandwidth
    assert found["why"] == "" and 1 < found["predicted"] < fastest


def test_what_was_not_measured_takes_after_its_product_before_others_of_the_maker():
    """Levels of "vllm" and "vllm-2024" share a product: the mean of their logarithms; of others, that of the maker."""
    time = Constant("engine_time", 1.0, 0.1, 10.0, "engine")
    measured = {"vllm-2024": 0.5, "vllm-2025": 2.0, "llama.cpp": 3.0}
    fitted = Fitted({"engine_time": measured}, {level: frozenset({"NVIDIA"}) for level in measured})
    found = [value_at(fitted, time, level, "NVIDIA") for level in ("vllm", "llama.cpp-rocm", "sglang", "llama.cpp")]
    assert found == pytest.approx([1.0, 3.0, 3 ** (1 / 3), 3.0])
    assert value_at(fitted, time, "llama.cpp-vulkan", "AMD") == pytest.approx(3)
    assert value_at(fitted, time, "tgi", "AMD") == 1


DEEPSEEK = decoder("deepseek_v3", precision="fp8")
EIGHT = A100._replace(shards=8, spread=8.0)
APART = A100._replace(shards=1, replicas=8.0, spread=8.0)


def test_replicas_of_the_attention_keep_their_own_keys_and_all_of_its_weights():
    """A latent cache lies on every shard; of 64 requests each of eight replicas reads the keys of eight."""
    shared, own = (decode_parts(64, 4096, decoder=DEEPSEEK, group=each, engine=IDEAL) for each in (EIGHT, APART))
    by_hand = 64 * 4096 * 61 * (512 + 64) * 2 / 2.039e12
    assert float(shared["cache"]) == pytest.approx(by_hand) and float(own["cache"]) == pytest.approx(by_hand / 8)
    held = float(DEEPSEEK.weight_bytes + DEEPSEEK.embedded_bytes), float(DEEPSEEK.expert_bytes)
    room = 8 * 0.9 * 180 * 2**30 - 8 * held[0] - held[1]
    found = cache_slots(4096, decoder=DEEPSEEK, group=APART._replace(memory_bytes=180 * 2**30), memory_share=0.9)
    assert float(found) == pytest.approx(room / (4096 * 61 * (512 + 64) * 2))


def test_the_busiest_device_of_a_few_tokens_reads_more_experts_than_the_mean():
    """One token and 8 of 256 experts on 8 devices: one each, and 1 + sqrt(2 ln 8 x 31/32) = 3.007 on the busiest."""
    body, experts = float(DEEPSEEK.weight_bytes), float(DEEPSEEK.expert_bytes)
    fast = IDEAL._replace(decode_share=1e9)
    found, even = (
        float(decode_parts(1, 0, decoder=DEEPSEEK, group=each, engine=fast)["weights"])
        for each in (EIGHT, EIGHT._replace(spread=1.0))
    )
    assert even == pytest.approx((body + experts / 32) / 8 / 2.039e12)
    assert found == pytest.approx((body + 3.007 * experts / 32) / 8 / 2.039e12, rel=1e-3)
    many = [
        float(decode_step_seconds(1e5, 0, decoder=DEEPSEEK, group=EIGHT._replace(spread=each), engine=IDEAL))
        for each in (1.0, 8.0)
    ]
    assert many[0] == pytest.approx(many[1])


def test_tokens_travel_to_the_devices_of_their_experts_and_back():
    """Eight experts sit on 8 x (1 - (7/8)^8) = 5.25 devices, seven eighths of them others; 7168 wide, 61 layers."""
    found = decode_parts(64, 0, decoder=DEEPSEEK, group=APART, engine=IDEAL)["tensor_exchange"]
    assert float(found) == pytest.approx(61 * 2 * 5.251 * 7 / 8 * 8 * 7168 * 2 / 225e9, rel=1e-3)
    ring = decode_parts(64, 0, decoder=DEEPSEEK, group=EIGHT, engine=IDEAL)["tensor_exchange"]
    assert float(ring) == pytest.approx(61 * 2 * 2 * 7 / 8 * 64 * 7168 * 2 / 225e9)


def test_one_prompt_is_the_work_of_one_replica_and_of_the_devices_of_all_experts():
    one, eight = (float(prefill_seconds(4096, prompts=n, decoder=DEEPSEEK, group=APART, engine=IDEAL)) for n in (1, 8))
    assert one < eight < 8 * one
    dense = [
        float(prefill_seconds(4096, prompts=n, decoder=LLAMA, group=A100._replace(replicas=8.0), engine=IDEAL))
        for n in (1, 8)
    ]
    assert dense[0] == pytest.approx(dense[1])


def test_experts_that_are_spread_out_are_read_from_rows_and_taken_by_the_door():
    row = {
        "model": "DeepSeek-V3",
        "accelerator": "h200-sxm",
        "devices": "8",
        "tp": "1",
        "precision": "fp8",
        "batch": "64",
        "input_len": "1024",
        "output_len": "128",
        "software": "SGLang",
        "metric": "output tokens/s",
    }
    rows = [
        {"ep": "8"},
        {"note": "data and expert parallel over 8"},
        {"tp": "8", "note": "tensor and expert parallel over 8"},
        {"tp": "8", "ep": "8"},
        {"tp": "8"},
        {},
    ]
    found = answer(pd.DataFrame([row | each for each in rows]), "inference")
    assert not found["why"].any()
    apart, said, tensor, stated, split, blank = found["predicted"]
    assert apart == said == blank and tensor == stated < split and apart != tensor
    assert "ep = 8" in found["assumed"][5] and "ep = " not in found["assumed"][0]
    times = [
        cb.generate("deepseek_v3", "h200-sxm", ep=8, tp=each, precision="fp8", batch=64, software="SGLang").point
        for each in (1, 8)
    ]
    assert [64 * 128 / each for each in times] == pytest.approx([apart, stated], rel=1e-3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ep": 16}, r"ep = 16 is more than experts = 8; give at most as many"),
        ({"ep": 6, "tp": 4}, r"ep = 6 is no multiple of tp = 4, and tp none of ep: give one that is"),
        ({"ep": 8, "tp": 1, "devices": 12}, r"devices = 12 is not a multiple of ep x pp = 8"),
        ({"ep": 8, "tp": 1, "devices": 4}, r"devices = 4 is not a multiple of ep x pp = 8"),
    ],
)
def test_experts_that_cannot_be_spread_so_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        cb.generate("mixtral_8x7b", "h100-sxm", precision="fp8", **given)
    several = cb.generate("mixtral_8x7b", "h100-sxm", precision="fp8", batch=[1, 2], **given)
    assert set(several.reason) <= {"experts-not-divisible", "split-not-devices"}


def test_a_layer_with_experts_has_a_host_time_of_its_own():
    """So that what an engine needs of a mixture is not asked of a dense model, whose layers start fewer kernels."""
    starts = {each.name: each.start for each in CONSTANTS}
    dense, mixture = (
        resolve(answers(cb.model(name), cb.accelerator("h100-sxm"), input_len=1, output_len=2, tp=8))
        for name in ("llama3_8b", "mixtral_8x7b")
    )
    plain, routed = (float(np.ravel(engine_of(rows, starts).layer_seconds)[0]) for rows in (dense, mixture))
    experts = (kernel_constant("layer", name, "hopper").value for name in ("start_experts", "start"))
    assert routed - plain == pytest.approx(next(experts) - next(experts) + starts["router_time"]) and routed > plain
    off = engine_of(mixture, starts, {"experts": False}).layer_seconds
    assert float(np.ravel(off)[0]) == pytest.approx(plain)


def test_tokens_of_experts_on_other_nodes_go_over_the_network_of_one_device():
    """Two nodes of eight: of 8 experts, each as likely on either, some are on the other with 1 - 2^-8."""
    model = Decoder(0.0, 0.0, 256, 8, 0.0, 0.0, 1, 1000, 8, 128, 0.0, 1, 1)
    silent = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    near, far = (Group(1, 1, 1e30, 80e9, 1e30, 1e30, 400e9, 16, 16, nodes, 50e9) for nodes in (1, 2))
    seconds = [
        float(decode_parts(16, 0, decoder=model, group=group, engine=silent)["tensor_exchange"])
        for group in (near, far)
    ]
    there_and_back = 2 * 1000 * 2.0  # bytes of one token, of which each group has one
    assert seconds[0] == pytest.approx(there_and_back * 15 * (1 - (15 / 16) ** 8) / 400e9)
    assert seconds[1] - seconds[0] == pytest.approx(there_and_back * (1 - 0.5**8) / 50e9)


def test_requests_of_mlperf_have_the_lengths_of_its_data_set_where_nobody_states_them():
    row = {
        "model": "Llama 2 70B",
        "accelerator": "h100-sxm",
        "devices": "8",
        "scenario": "offline",
        "metric": "tokens/s",
    }
    rows = [
        {"software": "TensorRT-LLM 0.9 (MLPerf v4.0)"},
        {"software": "vLLM 0.9"},
        {"software": "MLPerf submission", "input_len": "1024", "output_len": "64"},
    ]
    found = answer(pd.DataFrame([row | each for each in rows]), "inference")
    assert not found["why"].any()
    assert "input_len = 222" in found["assumed"][0] and "output_len = 294" in found["assumed"][0]
    assert "input_len = 512" in found["assumed"][1] and "output_len = 256" in found["assumed"][1]
    assert "_len" not in found["assumed"][2]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_network_without_layers_beside_a_language_model_changes_nothing(order):
    row = {
        "model": "gpt3_175b",
        "accelerator": "a100-sxm-80gb",
        "devices": "8",
        "tp": "8",
        "precision": "fp16",
        "batch": "4",
        "input_len": "512",
        "output_len": "128",
        "software": "vLLM 0.6",
        "metric": "output tokens/s",
    }
    other = row | {"model": "resnet50", "metric": "prefill tokens/s", "input_len": "", "output_len": ""}
    alone = answer(pd.DataFrame([row]), "inference")["predicted"][0]
    both = answer(pd.DataFrame([[row, other][at] for at in order]), "inference")
    assert both["predicted"][order.index(0)] == alone and "does not answer" in both["why"][order.index(1)]


def test_a_data_set_of_requests_stands_for_lengths_at_every_door_and_is_told():
    named = cb.generate("llama3_8b", "h100-sxm", input_len="ShareGPT")
    assert named.point == cb.generate("llama3_8b", "h100-sxm", input_len=230, output_len=203).point
    assert "input_len = 230, the mean of sharegpt; output_len = 203, the mean of sharegpt; " in named.assumed
    assert "vllm-2025-bench-sharegpt" in named.sources
    several = cb.generate("llama3_8b", "h100-sxm", input_len=["openorca", 512], output_len=64)
    assert ["openorca" in each for each in several.assumed] == [True, False]
    assert "output_len" not in several.assumed[0]
    swept = cb.sweep("generate", model="llama3_8b", accelerator="h100-sxm", input_len=["sharegpt"])
    assert swept["seconds"][0] == named.point
    load = cb.serve("llama3_8b", "h100-sxm", rate=1, devices=1, input_len="sharegpt").load
    assert (load.prompt, load.answer) == (230, 203)


def test_a_service_refuses_data_sets_that_are_not_listed_as_a_call_does():
    with pytest.raises(ValueError, match=r"input_len = 'orca' is neither a number nor a data set .*: .*openorca"):
        cb.serve("llama3_8b", "h100-sxm", rate=1, devices=1, input_len="orca")


@pytest.mark.parametrize(
    "words, key",
    [
        ("LongBench v2", None),
        ("ShareGPT4V", None),
        ("sharegpt 90k multi-turn", None),
        ("vllm-random-2048", None),
        ("ShareGPT_V3_unfiltered_cleaned_split.json", "sharegpt"),
        ("MLPerf open-orca data set", "openorca"),
    ],
)
def test_versions_of_data_sets_are_others(words, key):
    found = within(words)
    assert (found and found.key) == key


@pytest.mark.parametrize(
    "lengths, said",
    [
        ({"input_len": "bananas"}, "neither a number nor a data set of the table 'request_sets'; nearest"),
        ({"input_len": ["sharegpt", "shargpt"]}, "input_len = 'shargpt'"),
        ({"output_len": "swe-bench-lite"}, "nobody states"),
    ],
)
def test_a_call_refuses_data_sets_that_are_not_listed(lengths, said):
    with pytest.raises(ValueError, match=said):
        cb.generate("llama3_8b", "h100-sxm", **lengths)


def test_what_nobody_states_is_told_by_calls_and_services():
    step = cb.generate("llama3_8b", "h100-sxm")
    assert step.assumed.startswith("input_len = 1024; output_len = 128; batch = 1; software = vllm (tuned); ")
    assert step.point == cb.generate("llama3_8b", "h100-sxm", input_len=1024, output_len=128, batch=1).point
    assert "output_len" not in cb.generate("llama3_8b", "h100-sxm", delay_of="first token").assumed
    load = cb.serve("llama3_8b", "h100-sxm", rate=1, devices=1)
    assert {"input_len = 512", "output_len = 256", "software = vllm (tuned)", "precision = fp16"} <= set(load.assumed)
    assert "micro_batch = 1" in cb.train_step("resnet50", "a100-sxm-80gb").assumed
    assert "micro_batch" not in cb.train_step("resnet50", "a100-sxm-80gb", batch=2).assumed
    assert cb.forward_pass("resnet50", "t4").assumed.startswith("batch = 1; ")


def test_each_entry_tells_what_was_taken_of_it():
    mixed = cb.generate("llama3_8b", "h100-sxm", input_len=["sharegpt", 512])
    assert ["output_len = 128" in each for each in mixed.assumed] == [False, True]
    delays = cb.generate("llama3_8b", "h100-sxm", delay_of=["First token", "token"])
    assert ["output_len = 128" in each for each in delays.assumed] == [False, True]


def test_a_product_that_counts_as_another_level_is_told():
    old = cb.generate("llama3_8b", "h100-sxm", software="vLLM 0.6")
    assert "level of the software = vllm-2024" in old.assumed
    assert "level of the software" not in cb.generate("llama3_8b", "h100-sxm", software="vLLM").assumed
    tuned = cb.train_step("llama2_7b", "h100-sxm", devices=8, software="unsloth", fine_tuning="lora", global_batch=64)
    assert "level of the software = torchtune" in tuned.assumed


@pytest.mark.parametrize("software", ["torchtune", "Megatron Core"])
def test_software_of_other_questions_is_refused_as_that(software):
    with pytest.raises(UnknownName, match=f"software = '{software}' is for training language models, not"):
        cb.generate("llama3_8b", "h100-sxm", software=software)


def test_one_answer_waits_for_weights_and_a_long_prompt_for_matmuls():
    one = cb.generate("llama3_8b", "h100-sxm")
    prompt = cb.generate("llama3_8b", "h100-sxm", input_len=8192, delay_of="first token")
    assert (one.bottleneck, prompt.bottleneck) == ("weights", "products")
    assert one.by_part["memory traffic"] > one.by_part["compute"]


def test_attention_apart_counts_cores_where_each_is_a_shard():
    """With latent attention, experts spread over the four cores of two chips, and over two GPUs of one core each."""
    row = {"model": "deepseek_v2_lite", "devices": "2", "scenario": "offline", "input_len": "512", "output_len": "128"}
    frame = pd.DataFrame([row | {"accelerator": "inferentia2"}, row | {"accelerator": "l4"}]).assign(
        counts="output tokens", precision="bf16"
    )
    told = answer(frame, "inference")["assumed"]
    assert ["; ep = 4;" in told[0], "; ep = 2;" in told[1]] == [True, True], told.tolist()
