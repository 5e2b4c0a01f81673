"""Language models whose layers attend in several ways: counts worked out by hand, what they keep, and limits."""

import pytest

import cookbook as cb
from cookbook.formulas.generation import Decoder, Engine, Group, prefill_parts
from cookbook.prediction.kinds.generation import sizes
from cookbook.workloads.builders import sequence

WIDTH = 64
REST = 2 * 100 * WIDTH + WIDTH  # embedding, output matrix and the last norm
# Sizes of a branch, and its parameters with the norm before it.
BY_HAND = {
    "attention": (
        {"heads": 4, "kv_heads": 2, "head_dim": 32, "v_dim": 16, "window": 8, "qk_norm": 1, "head_gate": 1, "sinks": 1},
        # queries, keys, values, two norms, sinks, one gate a head, output
        WIDTH * (4 * 32 + 2 * 32 + 2 * 16) + 2 * 32 + 4 + WIDTH * 4 + 4 * 16 * WIDTH,
    ),
    "latent": (
        {"heads": 4, "q_rank": 24, "kv_rank": 16, "nope_dim": 32, "rope_dim": 8, "v_dim": 32, "gate": 1},
        # queries down, norm, up; keys and values down, norm, up; output; gate
        WIDTH * 24 + 24 + 24 * 4 * 40 + WIDTH * (16 + 8) + 16 + 16 * 4 * 64 + 4 * 32 * WIDTH + WIDTH * 4 * 32,
    ),
    "delta": (
        {"heads": 2, "head_dim": 32, "kernel": 4, "chunk": 8, "gate_rank": 32},
        # queries, keys, values; their taps; forget factors through 32; rates; steps, factors and norm; gate; output
        3 * WIDTH * 64 + 3 * 64 * 4 + 2 * (WIDTH * 32 + 32 * 64) + WIDTH * 2 + 64 + 2 + 32 + 64 * WIDTH,
    ),
    "convolution": ({"kernel": 3}, WIDTH * 3 * WIDTH + 3 * WIDTH + WIDTH * WIDTH),
    "compressed": (
        {"heads": 4, "head_dim": 32, "q_rank": 24, "out_groups": 2, "out_rank": 8, "window": 8, "ratio": 4}
        | {"index": {"heads": 2, "dim": 16, "top": 4}},
        # queries down, norm, up; keys, norm, sinks; two matrices twice as wide, positions, norm
        WIDTH * 24
        + 24
        + 24 * 4 * 32
        + WIDTH * 32
        + 32
        + 4
        + 2 * WIDTH * 64
        + 4 * 64
        + 32
        # the index: queries, weights of its heads, its own compression; output through two groups
        + (24 * 32 + WIDTH * 2 + 2 * WIDTH * 32 + 4 * 32 + 16)
        + 2 * 8 * 64
        + 2 * 8 * WIDTH,
    ),
}


def network(kind, sizes_of_branch, pattern="X", **more):
    branches = {"X": {"kind": kind, **sizes_of_branch}}
    return sequence.hybrid(100, WIDTH, pattern, branches=branches, **more)


@pytest.mark.parametrize("kind", BY_HAND)
def test_parameters_of_a_branch_by_hand(kind):
    sizes_of_branch, by_hand = BY_HAND[kind]
    assert network(kind, sizes_of_branch).parameter_count == REST + WIDTH + by_hand


def test_a_branch_of_mlp_and_the_letter_for_it_are_one():
    attention = {"A": {"kind": "attention", "heads": 4, "head_dim": 16}}
    own = sequence.hybrid(100, WIDTH, "AX", branches={**attention, "X": {"kind": "mlp", "hidden": 200}})
    assert own.parameter_count == sequence.hybrid(100, WIDTH, "A-", branches=attention, hidden=200).parameter_count


def test_what_mixes_branches_has_its_parameters():
    plain = network("convolution", {"kernel": 3}).parameter_count
    after = network("convolution", {"kernel": 3}, norms_after=True).parameter_count
    streams = network("convolution", {"kernel": 3}, streams=4).parameter_count
    weighted = network("convolution", {"kernel": 3}, weighted_residuals=True).parameter_count
    assert after - plain == WIDTH
    # 4 x 6 numbers of four streams, their offsets and three factors; at the end 4, and one factor
    assert streams - plain == 4 * WIDTH * 24 + 24 + 3 + 4 * WIDTH * 4 + 4 + 1
    assert weighted - plain == 2 * (WIDTH + WIDTH)


@pytest.mark.parametrize(
    ("name", "cached", "windowed", "scores"),
    [
        # 50 layers of 16 heads of 256 within 1,024 tokens, 10 of 4 of 512; of 32 query heads each
        ("gemma4_31b", 2 * (50 * 16 * 256 + 10 * 4 * 512), 50 * 16 / (50 * 16 + 10 * 8), 50 / (50 + 10 * 2)),
        # of 35 layers 15 keep anything; 12 of them, and 28 of all, within 512 tokens
        ("gemma4_e2b", 2 * (12 * 256 + 3 * 512), 12 / (12 + 3 * 2), 28 / (28 + 7 * 2)),
        ("mimo_v2_flash", 320 * (39 * 8 + 9 * 4), 39 * 8 / (39 * 8 + 9 * 4), 39 / 48),
        ("step_3.5_flash", 2 * 8 * 128 * 45, 33 / 45, 33 * 96 / (33 * 96 + 12 * 64)),
        ("kimi_linear_48b_a3b", 7 * (512 + 64), 0, 0),
        ("lfm2_1.2b", 6 * 2 * 8 * 64, 0, 0),
    ],
)
def test_layers_keep_what_their_own_heads_have(name, cached, windowed, scores):
    found = sizes(name)
    assert found["cache_bytes"] == 2 * cached
    assert found["windowed"] == pytest.approx(windowed) and found["windowed_scores"] == pytest.approx(scores)


def test_states_and_compressed_keys_of_each_kind():
    """Kimi Linear: squares of 32 heads and three inputs of each convolution; DeepSeek-V4: the window of each layer."""
    assert sizes("kimi_linear_48b_a3b")["state_bytes"] == 2 * 20 * (32 * 128**2 + 3 * 32 * 128 * 3)
    found = sizes("deepseek_v4_flash")
    assert found["state_bytes"] == 2 * 43 * 128 * 512
    assert found["cache_bytes"] == 2 * (21 * (512 + 128) / 4 + 20 * 512 / 128)
    assert found["queries"] == 1 and sizes("gemma4_31b")["queries"] == 8


def test_a_second_embedding_is_looked_up_and_not_read():
    found, plain = sizes("gemma4_e4b"), cb.model("gemma4_e4b")
    assert found["embedded_bytes"] == 2 * 262_144 * 42 * 256
    total = found["weight_bytes"] + found["embedded_bytes"] + found["expert_bytes"]
    assert total == pytest.approx(2 * plain.ops.parameter_count)


@pytest.mark.parametrize("length", [512, 8192, 65536])
def test_prompts_cost_the_scores_of_each_layer(length):
    """Gemma 4 31B by hand: 50 layers of 32 heads of 256 within 1,024 tokens, and 10 of 32 heads of 512 without."""
    known = sizes("gemma4_31b")
    decoder = Decoder(**{name: known[name] for name in Decoder._fields})
    one, ideal = Group(1, 1, 3.35e12, 80e9, 989e12, 989e12, 450e9), Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    near, far = (sum(min(token, reach) for token in range(length)) for reach in (1024, length))
    by_hand = 4 * 32 * (50 * 256 * near + 10 * 512 * far)  # a product with keys and one with values, 2 FLOP a MAC
    parts = prefill_parts(length, decoder=decoder, group=one, engine=ideal)
    assert float(parts["attention"]) * 989e12 == pytest.approx(by_hand, rel=3e-3)


@pytest.mark.parametrize("length", [2048, 32768])
@pytest.mark.parametrize(
    ("name", "tp"),
    [
        ("mistral_7b", 1),
        ("gemma3_27b", 1),
        ("gemma4_31b", 1),
        ("mimo_v2_flash", 8),
        ("step_3.5_flash", 8),
        ("deepseek_v4_flash", 8),
    ],
)
def test_iterations_of_a_service_attend_as_generate_does(name, tp, length):
    """Windows, and heads of several sizes: an iteration of requests of one length takes what a static batch takes."""
    asked = {"tp": tp, "input_len": length}
    costs = cb.planning.engine_costs(name, "h200", **asked)
    step = cb.generate(name, "h200", batch=8, output_len=2, delay_of="token", **asked).point
    assert float(costs.decode(8, float(costs.kept(length + 1)))) == pytest.approx(step, rel=1e-9)
    first = cb.generate(name, "h200", batch=1, output_len=1, delay_of="first token", **asked).point
    reach = float(costs.attended(length / 2, length))
    assert float(costs.prefill(length, reach)) == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize(
    ("branch", "words"),
    [
        ({"kind": "convolution"}, "kernel"),
        ({"kind": "convolution", "kernel": 3, "heads": 2}, "heads"),
        ({"kind": "magic", "kernel": 3}, "kind"),
        ({"heads": 4, "head_dim": 8}, "kind"),
    ],
)
def test_a_branch_of_wrong_sizes_is_refused_with_those_it_takes(branch, words):
    with pytest.raises(ValueError, match=rf"branches = {words!r} is wrong or missing for 'X', which takes kind"):
        sequence.hybrid(100, WIDTH, "X", branches={"X": branch})


def test_a_pattern_needs_its_letters_and_one_that_attends():
    with pytest.raises(ValueError, match="pattern"):
        sequence.hybrid(100, WIDTH, "Y")
    with pytest.raises(ValueError, match="sees no other tokens"):
        sequence.hybrid(100, WIDTH, "X", branches={"X": {"kind": "mlp", "hidden": 8}})


def test_layers_that_differ_are_not_split_and_say_so():
    with pytest.raises(ValueError, match=r"tp = 8: .* data parallelism alone .* its layers differ"):
        cb.train_step("gemma4_31b", "h100-sxm", {"devices": 8, "tp": 8})
