"""Two batches in turn: one computes while the other's tokens are on their way. By hand, and in services."""

import numpy as np
import pytest

import cookbook as cb
from cookbook.formulas.generation import Decoder, Engine, Group, decode_parts, decode_step_seconds, prefill_parts
from cookbook.planning import engine_costs

# A layer whose halves are easy: no host time, no attention, experts that every pass reads in whole.
MODEL = Decoder(4e9, 60e9, 8, 8, 30e9, 1e9, 50, 8000, 64, 128, 0.0, 1, 1)
EIGHT = Group(1, 1, 4e12, 80e9, 1000e12, 1000e12, 50e9, replicas=8, spread=8)
PLAIN = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
TURNS = PLAIN._replace(in_turn=1.0)
GIVEN = {"decoder": MODEL, "group": EIGHT}


def test_a_step_of_two_halves_by_hand():
    """512 sequences: 64 a device. Each half reads 4 GB and an eighth of 60 GB at 4 TB/s, 2.875 ms, which the products
    of 32 sequences nearly last; its tokens, of 16 kB, go to as many of seven others as eight choices meet, and back, in
    all 50 layers."""
    reading, work = (4e9 + 60e9 / 8) / 4e12, 2 * (30e9 + 1e9) * 32 / 1000e12
    busy = 2 * np.hypot(reading, work)
    sent = 2 * 50 * 2 * 32 * 8000 * 2 * 7 * (1 - (7 / 8) ** 8) / 50e9
    assert sent > 1.2 * busy  # the network is what takes longer
    found = decode_parts(512, 0, **GIVEN, engine=TURNS)
    assert float(found["weights"] + found["products"]) == pytest.approx(busy, rel=0.01)
    assert float(found["weights"] + found["products"] + found["tensor_exchange"]) == pytest.approx(sent, rel=0.01)
    fast = {"decoder": MODEL, "group": EIGHT._replace(link=20e12)}
    assert float(decode_parts(512, 0, **fast, engine=TURNS)["tensor_exchange"]) == 0
    plain = decode_parts(512, 0, **GIVEN, engine=PLAIN)
    assert float(plain["tensor_exchange"]) == pytest.approx(sent, rel=0.01)


@pytest.mark.parametrize("link", [1e10, 2e11, 1e13])
@pytest.mark.parametrize("batch", [16, 100, 5000])
def test_a_pass_takes_the_longer_of_what_two_halves_compute_and_send(batch, link):
    given = {"decoder": MODEL, "group": EIGHT._replace(link=link)}
    for whole, half in (
        (decode_parts(batch, 500, **given, engine=TURNS), decode_parts(batch / 2, 500, **given, engine=PLAIN)),
        (
            prefill_parts(900, **given, engine=TURNS, prompts=batch),
            prefill_parts(900, **given, engine=PLAIN, prompts=batch / 2),
        ),
    ):
        sent = float(half.pop("tensor_exchange"))
        assert float(sum(whole.values())) == pytest.approx(2 * max(sent, float(sum(half.values()))))


def test_one_sequence_of_a_device_has_no_halves():
    for batch in (1, 8, 15):
        one, other = (decode_parts(batch, 500, **GIVEN, engine=each) for each in (PLAIN, TURNS))
        assert {name: float(part) for name, part in one.items()} == {name: float(part) for name, part in other.items()}


def test_nothing_is_hidden_twice():
    batch = np.array([16, 64, 512, 4096])
    plain, turns = (decode_step_seconds(batch, 500, **GIVEN, engine=each) for each in (PLAIN, TURNS))
    assert np.all(turns >= plain / 2)
    slow = {"decoder": MODEL, "group": EIGHT._replace(link=1e16)}  # nothing to hide: weights are read twice in vain
    plain, turns = (decode_step_seconds(batch, 500, **slow, engine=each) for each in (PLAIN, TURNS))
    assert np.all(turns > plain) and np.all(turns <= 2 * plain * (1 + 1e-9))


ASKED = {
    "ep": 32,
    "tp": 1,
    "devices": 32,
    "precision": "fp8",
    "software": "sglang",
    "input_len": 2000,
    "output_len": 100,
}


def test_a_service_tells_what_two_batches_change():
    one, two = (cb.serve("deepseek_v3", "h100-sxm", rate=20, two_batches=each, **ASKED) for each in (False, True))
    gain = two.rows[0]["capacity"] / one.rows[0]["capacity"]
    assert gain > 1.2 and f"two batches in turn hide what is sent: {gain:.2f}× the capacity" in two.assumed
    assert not any("two batches" in each for each in one.assumed)
    seen = cb.serve("deepseek_v3", "h100-sxm", rate=20, two_batches=True, simulated=True, **ASKED).rows[0]
    assert two.rows[0]["ttft_p50"] == pytest.approx(seen["ttft_p50"], rel=0.2)


def test_costs_of_two_batches_are_lower_where_there_is_much_to_send():
    stack = {"ep": 32, "precision": "fp8", "software": "sglang", "input_len": 2000}
    one, two = (engine_costs("deepseek_v3", "h100-sxm", two_batches=each, **stack) for each in (False, True))
    assert float(two.prefill(32 * 8192, 1000)) < 0.8 * float(one.prefill(32 * 8192, 1000))
    assert float(two.decode(32, 2000)) == pytest.approx(float(one.decode(32, 2000)), rel=1e-2)
    assert two.kv_tokens == one.kv_tokens and two.chunk == one.chunk


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"two_batches": True}, "two_batches = True: .* give ep above tp"),
        ({"two_batches": True, "ep": 8, "tp": 8}, "give ep above tp"),
        ({"two_batches": "yes", "ep": 16}, "two_batches"),
    ],
)
def test_two_batches_need_groups_of_their_own(asked, words):
    with pytest.raises(ValueError, match=words):
        cb.serve("deepseek_v3", "h200-sxm", rate=1, **asked)
