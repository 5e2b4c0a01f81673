"""Named networks, and predictions of exchanges against measured collectives of publishers that were left out."""

from __future__ import annotations

import numpy as np
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.calibration import judgement as judged
from cookbook.prediction.fabrics import EXCHANGES, exchange_seconds, fabric, figures


@pytest.fixture(scope="module")
def publishers() -> dict[str, np.ndarray]:
    return judged.exchanges_left_out("source")


def median(errors: np.ndarray) -> float:
    return float(np.expm1(np.median(np.abs(errors))))


def test_the_committed_constants_are_those_that_the_fit_finds() -> None:
    fitted = judged.fit_exchanges(judged.measured_exchanges())
    assert figures() == pytest.approx(fitted, rel=0.01)


def test_exchanges_of_left_out_publishers_are_predicted_within_stated_bounds(publishers: dict[str, np.ndarray]) -> None:
    """Half of the rows within 12 %, of those below 1 GB within 25 %; a constant share of the links is far worse."""
    small = publishers["payload"] < judged.LARGE_PAYLOAD
    assert len(small) > 100 and len(set(publishers["group"])) >= 4
    assert median(publishers["model"]) < 0.12 and median(publishers["model"][small]) < 0.25
    assert median(publishers["constant bandwidth"][small]) > 1
    for at in (small, ~small):
        assert median(publishers["model"][at]) < median(publishers["constant bandwidth"][at])


def test_exchanges_of_left_out_generations_are_predicted_within_stated_bounds() -> None:
    found = judged.exchanges_left_out("family")
    assert len(set(found["group"])) >= 5 and median(found["model"]) < 0.2
    assert median(found["model"]) < median(found["constant bandwidth"]) / 2


def test_measured_outcomes_are_not_inputs() -> None:
    """Other measured times leave the predictions as they are."""
    rows = judged.measured_exchanges()
    other = judged.Exchanges(**{**{n: getattr(rows, n) for n in rows.__annotations__}, "seconds": rows.seconds * 2})
    assert (judged.predicted_exchanges(rows, figures()) == judged.predicted_exchanges(other, figures())).all()


@pytest.mark.parametrize("name", catalog.table("fabrics")["key"].tolist())
@pytest.mark.parametrize("kind", EXCHANGES)
def test_every_network_gives_finite_times_that_grow(name: str, kind: str) -> None:
    network = fabric(name)
    assert exchange_seconds(kind, 1e9, 1, network) == 0
    times = [exchange_seconds(kind, payload, 64, network) for payload in (1e3, 1e6, 1e9)]
    assert 0 < times[0] < times[1] < times[2] < 10
    per_byte = [time / payload for time, payload in zip(times, (1e3, 1e6, 1e9), strict=True)]
    assert per_byte == sorted(per_byte, reverse=True)  # starts and saturation: large payloads are the cheaper ones


def test_oversubscription_is_felt_beyond_a_pod_and_by_an_all_to_all_alone() -> None:
    full, meta = fabric("dgx-superpod-h100"), fabric("meta-24k-roce")
    for devices, ratio in ((3072, 1), (6144, 7 * (1 - 3072 / 6144) / (1 - 8 / 6144)), (12288, None)):
        times = [exchange_seconds("all_to_all", 1e9, devices, network) for network in (full, meta)]
        if ratio:
            assert times[1] / times[0] == pytest.approx(ratio, rel=1e-3)
        rings = [exchange_seconds("all_reduce", 1e9, devices, network) for network in (full, meta)]
        assert rings[1] == pytest.approx(rings[0], rel=0.01)
    bisections = [network.bisection_bandwidth(6144) for network in (full, meta)]
    assert bisections[0] == pytest.approx(7 * bisections[1]) and bisections[0] == 3072 * 50e9


def test_a_rack_of_72_is_one_node() -> None:
    seconds = {name: exchange_seconds("all_to_all", 1e8, 72, fabric(name)) for name in ("NVL72", "SuperPOD H100")}
    assert seconds["NVL72"] < seconds["SuperPOD H100"] / 10
    assert fabric("NVL72").bisection_bandwidth(72) == 36 * 900e9


def test_a_whole_dragonfly_has_its_taper_in_an_all_to_all_and_half_of_it_in_a_ring() -> None:
    frontier = fabric("frontier")
    whole = 74 * 512
    (_, (*_, evenly)), (_, (*_, next_one)) = frontier.levels(whole, "all"), frontier.levels(whole, "next")
    assert evenly == pytest.approx(25e9 / 1.753)
    assert next_one == pytest.approx(evenly * 37 / 73)


def test_tori_are_as_cubic_as_their_devices_allow() -> None:
    assert fabric("tpu-v5p-pod").shape(6144) == (16, 16, 24) and fabric("tpu-v5e-pod").shape(256) == (16, 16)
    v5p = fabric("tpu-v5p-pod")
    assert v5p.bisection_bandwidth(4096) == 2 * 256 * 100e9
    assert v5p.bisection_bandwidth(8) == 4 * 100e9  # 2 x 2 x 2 is open


def test_side_by_side() -> None:
    found = cb.planning.exchange_times(256, 64e6)
    assert set(found["exchange"]) == set(EXCHANGES) and len(found) == 4 * len(catalog.table("fabrics"))
    assert (found["bus_bandwidth"] > 0).all() and (found["bisection_bandwidth"] > 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: exchange_seconds("gossip", 1, 8, fabric("NVL72")), ["gossip", "all_reduce"]),
        (lambda: exchange_seconds("all_reduce", 1, 512, fabric("tpu-v5e-pod")), ["devices = 512", "256"]),
        (lambda: exchange_seconds("all_reduce", 1, 2.5, fabric("NVL72")), ["devices = 2.5"]),
        (lambda: fabric("superpods"), ["dgx-superpod-h100"]),
    ],
)
def test_bad_input_is_told(call, words) -> None:
    with pytest.raises((ValueError, KeyError)) as problem:
        call()
    assert all(word in str(problem.value) for word in words), problem.value
