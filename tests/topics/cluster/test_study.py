"""The shared cluster: theory it must agree with, sums that must close, policies by hand, and what cannot be."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook.topics.cluster import jobs as drawn
from cookbook.topics.cluster.policies import PLACEMENTS, POLICIES
from cookbook.topics.cluster.scheduler import Cluster, Job, Rules

HOUR, DAY, WEEK = 3600.0, 86400.0, 7 * 86400.0
QUIET: dict[str, Any] = {"progress": False}


def run(policy: Any, jobs: list[tuple[Any, ...]], **more: Any) -> Any:
    """Jobs as (arrival, gpus, hours, team, urgent), all times in hours."""
    names = ("arrival", "gpus", "hours", "team", "urgent")
    return cb.planning.cluster(policy, jobs=[dict(zip(names, job, strict=False)) for job in jobs], **QUIET, **more)


def starts(found: Any) -> list[float]:
    return [round(float(at) / HOUR, 3) for at in found.jobs["start"]]


# Theory


@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (4, 0.8), (8, 0.7)])
def test_waits_are_those_of_erlang(servers: int, load: float) -> None:
    """M/M/c: 40,000 jobs of one GPU that come and last at random, against the closed formula.

    The standard error of a mean wait is that of 20 stretches of the run; four of them are allowed, and with the seed
    fixed the test says the same each time.
    """
    random, count, hours = np.random.default_rng(servers), 40_000, 1.0
    arrival = np.cumsum(random.exponential(hours / (servers * load), count))
    table = pd.DataFrame({"arrival": arrival, "gpus": 1, "hours": random.exponential(hours, count)})
    found = cb.planning.cluster("fifo", nodes=1, per_node=servers, jobs=table, log=False, **QUIET)
    waits = found.jobs["wait"].to_numpy() / HOUR
    means = waits.reshape(20, -1).mean(axis=1)
    expected = cb.planning.erlang_wait_seconds(servers, servers * load / HOUR, hours * HOUR) / HOUR
    assert abs(waits.mean() - expected) < 4 * means.std(ddof=1) / math.sqrt(20), (waits.mean(), expected)
    assert abs(waits.mean() / expected - 1) < 0.2


def test_erlang_by_hand() -> None:
    """One server: rho / (1 - rho) services; two at a = 1: C = 1/3, over a free rate of 1 a second."""
    erlang = cb.planning.erlang_wait_seconds
    assert erlang(1, 0.8, 1.0) == pytest.approx(4.0)
    assert erlang(2, 1.0, 1.0) == pytest.approx(1 / 3)
    assert erlang(3, 3.0, 1.0) == math.inf


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_sums_close(policy: str) -> None:
    """Little's law and conservation, exactly: both sides are summed up on their own, by the clock and by the job."""
    found = cb.planning.cluster(policy, load=1.1, mtbf_days=50, seed=3, **QUIET)
    each = found.jobs
    assert found.sums["jobs"] == pytest.approx((each["end"] - each["arrival"]).sum(), rel=1e-9)
    assert found.sums["busy"] == pytest.approx(each["granted"].sum(), rel=1e-9)
    assert found.sums["waiting"] == pytest.approx(each["wait"].sum(), rel=1e-9)  # after each stop, too
    stays = found.timeline
    assert (stays["end"] - stays["start"]).sum() == pytest.approx(each["granted"].sum(), rel=1e-9)
    stays = stays[stays["end"] > stays["start"]].sort_values(["node", "lane", "start"])
    later = stays.groupby(["node", "lane"])["start"].shift(-1)
    assert not (later < stays["end"] - 1e-6).any(), "a GPU was given to two jobs at once"
    assert stays["lane"].between(0, 7).all() and stays["node"].between(0, 7).all()
    assert (each["wait"] >= 0).all() and (each["end"] > each["start"]).all()


def test_links_are_shared_as_by_hand() -> None:
    """Bertsekas & Gallager's way: the tightest link first. Flows a: 0, b: 0 and 1, c: 1, d: 2.

    Link 1 (4) gives b and c 2 each; link 0 (10) leaves a 8; d has link 2 (3) alone.
    """
    assert cb.planning.max_min_rates([[0], [0, 1], [1], [2]], [10.0, 4.0, 3.0]).tolist() == [8.0, 2.0, 2.0, 3.0]
    # Four nodes of 12.5 GB/s behind an uplink that takes half of what they send.
    assert drawn.share_across(12.5e9, 2.0, 4) == pytest.approx(6.25e9)
    assert drawn.share_across(12.5e9, 1.0, 4) == pytest.approx(12.5e9)


def test_rates_scale_with_their_unit() -> None:
    routes = [[0], [0, 1], [1, 2], [2], [0, 2]]
    once, thousand = (
        cb.planning.max_min_rates(routes, [unit * size for size in (10.0, 4.0, 7.0)]) for unit in (1, 1e3)
    )
    assert thousand == pytest.approx(1e3 * once)
    used = [sum(once[flow] for flow, links in enumerate(routes) if link in links) for link in range(3)]
    assert all(each <= size + 1e-9 for each, size in zip(used, (10, 4, 7), strict=True))
    assert cb.planning.drf_tasks([900, 18e9], [[100, 4e9], [300, 1e9]]) == [3, 2]  # each resource in a unit of its own


def test_dominant_resources_as_published() -> None:
    """Ghodsi et al., NSDI 2011, section 4.1: 9 CPUs and 18 GB; tasks of 1 CPU, 4 GB and of 3 CPUs, 1 GB: 3 and 2."""
    assert cb.planning.drf_tasks([9, 18], [[1, 4], [3, 1]]) == [3, 2]
    assert cb.planning.drf_tasks([8], [[1], [1]]) == [4, 4]  # one resource: max-min
    assert cb.planning.drf_tasks([1000.0], [[0.1]]) == [10_000]  # though a tenth is no sum of binary fractions


def test_fairness_by_hand() -> None:
    assert cb.planning.jain_index([1, 2, 3]) == pytest.approx(36 / 42)
    assert math.isnan(cb.planning.jain_index([0, 0]))


# Policies by hand: eight GPUs, times in hours


def test_nobody_overtakes_under_fifo() -> None:
    jobs = [(0, 6, 2), (0.5, 8, 1), (1, 2, 1)]
    assert starts(run("fifo", jobs, nodes=1)) == [0, 2, 3]


def test_backfill_lets_the_short_one_pass_and_not_the_long_one() -> None:
    """The job of 8 is due at 2; beside it there are 2 GPUs, for an hour from 1."""
    assert starts(run("backfill", [(0, 6, 2), (0.5, 8, 1), (1, 2, 1)], nodes=1)) == [0, 2, 1]
    assert starts(run("backfill", [(0, 6, 2), (0.5, 8, 1), (1, 2, 1.5)], nodes=1)) == [0, 2, 3]
    # A job of 7 that waits until 2 leaves one GPU over, which a long job may have.
    assert starts(run("backfill", [(0, 6, 2), (0.5, 7, 1), (1, 1, 9), (1, 1, 9)], nodes=1)) == [0, 2, 1, 3]


def test_a_team_keeps_to_its_part_under_static() -> None:
    jobs = [(0, 4, 2, "A"), (0, 4, 2, "A"), (1, 4, 1, "B")]
    assert starts(run("static", jobs, nodes=1)) == [0, 2, 1]
    assert starts(run("fifo", jobs, nodes=1)) == [0, 0, 2]
    assert starts(run("static", jobs, nodes=1, quota={"A": 4, "B": 4})) == [0, 2, 1]


def test_the_team_that_holds_less_goes_first_under_fair() -> None:
    """A fills the node until 1; of what waits then, B has nothing and goes first, and the rest is shared 4 to 4."""
    jobs = [(0, 8, 1, "A"), (0.1, 4, 1, "A"), (0.2, 4, 1, "A"), (0.3, 4, 1, "B")]
    assert starts(run("fair", jobs, nodes=1)) == [0, 1, 2, 1]
    assert starts(run("fifo", jobs, nodes=1)) == [0, 1, 1, 2]


def test_an_urgent_job_stops_another_which_pays_for_it() -> None:
    """Stopped at 1 with an hour to go; it comes back at 2 and pays two restarts, for saving and loading."""
    found = run("priority", [(0, 8, 2, "A", False), (1, 8, 1, "A", True)], nodes=1)
    assert starts(found) == [0, 1] and found.jobs["stops"].tolist() == [1, 0]
    restart = cb.table("constants").set_index("name").loc["cluster-restart", "value"] * 60
    assert found.jobs["end"][0] == pytest.approx(3 * HOUR + 2 * restart)
    assert starts(run("fifo", [(0, 8, 2, "A", False), (1, 8, 1, "A", True)], nodes=1)) == [0, 2]


def test_a_job_that_was_stopped_waits_again() -> None:
    """Stopped at 1 by an urgent job of 10 h: it starts at 0 and waits from 1 to 11."""
    found = run("priority", [(0, 8, 2, "A", False), (1, 8, 10, "A", True)], nodes=1)
    assert (found.jobs["wait"] / HOUR).tolist() == pytest.approx([10, 0])
    assert found.measures["wait_mean"] == pytest.approx(5 * HOUR)


def test_a_size_that_cannot_be_leaves_a_job_where_it_is() -> None:
    """Two nodes of 2; the job of 2 has node 1 when a place refuses it 4, and 1 is below the least."""
    tried: list[Any] = []

    def policy(cluster: Any) -> None:
        for job in cluster.waiting():
            cluster.start(job)
        for job, gpus in itertools.product(cluster.running, (4, 1)):
            before, epoch = list(job.lanes), job.epoch
            tried.append((cluster.resize(job, gpus), job.lanes == before, job.epoch - epoch))

    job = Job(0, "own", "A", 0.0, HOUR, 2, 2, 4, False, 1.0, HOUR, None, 0.5)
    there = Cluster(Rules(2, 2, 2), {"A": 4}, policy, lambda free, gpus, *_: [(1, gpus)] if gpus <= 2 else [])
    there.run([job])
    assert tried == 2 * [(False, True, 0)] and job.ended == HOUR and job.granted == 2 * HOUR


def test_failures_cost_what_they_should() -> None:
    """Poisson counts of failures at their mean rate; each costs half an interval and a restart."""
    from cookbook.topics.cluster.scheduler import _failures

    lucks = (np.arange(10_000) + 0.5) / 10_000
    for mean in (0.01, 0.7, 5.0):
        assert np.mean([_failures(float(luck), mean) for luck in lucks]) == pytest.approx(mean, rel=0.01)
    calm, rough = (cb.planning.cluster("fifo", load=0.6, mtbf_days=days, **QUIET) for days in (math.inf, 5.0))
    assert rough.measures["goodput"] < calm.measures["goodput"]


# Placement


def test_placements_by_hand() -> None:
    """Free GPUs of four nodes of 8, two behind each switch."""
    pack, same, spread = (PLACEMENTS[name] for name in ("pack", "same node", "spread"))
    assert pack([8, 3, 5, 0], 3, 8, 2) == [(1, 3)]  # the fullest that has room
    assert pack([8, 3, 5, 0], 8, 8, 2) == [(0, 8)]
    assert pack([4, 4, 6, 6], 8, 8, 2) == [(0, 4), (1, 4)]  # no node has room; the fullest switch that has
    assert same([4, 4, 6, 6], 8, 8, 2) == []
    assert spread([8, 3, 5, 0], 3, 8, 2) == [(0, 1), (2, 1), (1, 1)]
    assert pack([1, 1, 0, 0], 3, 8, 2) == [] and spread([1, 1, 0, 0], 3, 8, 2) == []


def test_lying_apart_never_helps_and_crossing_costs() -> None:
    place = ("a100-sxm-80gb", 8, 12.5e9, 6.25e9)
    for row in drawn.classes("mixed"):
        speeds, spread = drawn.speeds_of(row["model"], row["micro_batch"], int(row["gpus"]), int(row["most"]), *place)
        gpus, packed = int(row["gpus"]), min(8, int(row["gpus"]))
        assert speeds[gpus, packed, False] == 1 and 0 < spread < 1
        assert all(speed <= speeds[count, min(8, count), False] + 1e-12 for (count, _, _), speed in speeds.items())
    apart, _ = drawn.speeds_of("bert_large", 16, 8, 16, *place)
    assert apart[8, 1, True] < apart[8, 1, False] < apart[8, 8, False]
    assert 1 < apart[16, 8, False] <= 2 and 0.5 <= apart[4, 4, False] < 1


def test_packed_jobs_do_more_than_spread_ones() -> None:
    packed, spread = (
        cb.planning.cluster("backfill", load=0.9, mix="large", place=place, seed=1, **QUIET).measures
        for place in ("pack", "spread")
    )
    assert packed["goodput"] > spread["goodput"]


def test_a_placement_of_ones_own_is_read_as_one_of_the_list() -> None:
    named, own = (
        cb.planning.cluster("fifo", load=0.7, place=place, seed=1, **QUIET)
        for place in ("pack", lambda *asked: cb.planning.PLACEMENTS["pack"](*asked))
    )
    assert own.measures == named.measures


@pytest.mark.parametrize(
    "given",
    [
        ValueError(),
        5,
        True,
        "abc",
        [5],
        [(0, 1), (0, 1)],
        [(0, 999)],
        [(0, 0)],
        [(-1, 1)],
        [(10**6, 1)],
        [(0, 0.5)],
    ],
    ids=str,
)
def test_a_placement_where_nothing_is_free_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"place returned .* for a job of \d+ GPUs; return pairs of a node and"):
        cb.planning.cluster("fifo", load=0.7, place=lambda *asked: given, seed=1, **QUIET)


# What is drawn


def test_what_arrives_is_what_was_asked() -> None:
    """Twenty weeks of 512 GPUs: GPU time asked over that there is, the shares of classes and teams, and the rhythm."""
    place = ("a100-sxm-80gb", 8, 12.5e9, 6.25e9)
    seconds = 20 * WEEK
    sent = drawn.generate("research", 512, 0.7, seconds, {"A": 0.75, "B": 0.25}, 1.0, 5, place)
    asked = sum(job.work * job.gpus for job in sent) / (512 * seconds)
    assert asked == pytest.approx(0.7, rel=0.05)
    kinds = pd.Series([job.kind for job in sent]).value_counts(normalize=True)
    for row in drawn.classes("research"):
        assert kinds[row["key"]] == pytest.approx(row["share"], abs=4 * math.sqrt(row["share"] / len(sent)))
    assert np.mean([job.team == "A" for job in sent]) == pytest.approx(0.75, abs=0.02)
    hours = np.array([job.arrival / HOUR for job in sent])
    afternoon, night = (np.sum((hours % 24 >= at) & (hours % 24 < at + 4)) for at in (13, 1))
    assert afternoon > 2 * night
    weekend = np.mean((hours // 24 + 6) % 7 >= 5)
    assert weekend == pytest.approx(0.8 / 5.8, abs=0.02)  # two days of 0.4 among five of 1; time begins on a Sunday


def test_a_week_of_arrivals_has_mean_one() -> None:
    for rhythm in (0.0, 0.5, 1.0):
        assert drawn.intensity(np.arange(168), rhythm).mean() == pytest.approx(1)
    assert np.ptp(drawn.intensity(np.arange(168), 0.0)) == 0


def test_the_same_seed_gives_the_same_jobs_whatever_the_policy() -> None:
    one, other = (cb.planning.cluster(policy, seed=4, **QUIET) for policy in ("static", "fair"))
    same = ["kind", "team", "gpus", "arrival"]
    assert one.jobs[same].equals(other.jobs[same])
    again = cb.planning.cluster("fair", seed=4, **QUIET)
    assert again.measures == other.measures
    assert not cb.planning.cluster("fair", seed=5, **QUIET).jobs[same].equals(other.jobs[same])


# Sharing a GPU, and a service beside


def test_small_jobs_share_a_gpu() -> None:
    """A node of one GPU: five notebooks that each keep a fifth of it busy run together where five may share it."""
    alone, shared = (
        cb.planning.cluster("fifo", load=0.9, mix="research", seed=2, share=share, **QUIET) for share in (1, 5)
    )
    assert shared.sums["work"] == pytest.approx(alone.sums["work"], rel=1e-9)
    assert shared.sums["waiting"] < alone.sums["waiting"]  # the same work, and more room for other jobs
    weeks = {
        share: [
            cb.planning.cluster("fifo", load=0.9, mix="research", seed=seed, share=share, **QUIET) for seed in range(6)
        ]
        for share in (1, 5)
    }
    busy = {share: sum(week.sums["busy"] for week in found) for share, found in weeks.items()}
    assert busy[5] < 0.99 * busy[1]  # on fewer GPUs over some weeks; one week also differs in where its jobs are put
    overlaps = []
    for found in (shared, alone):
        stays = found.timeline.sort_values(["start", "end"])
        overlaps.append((stays.groupby(["node", "lane"])["start"].shift(-1) < stays["end"] - 1e-6).any())
    assert overlaps == [True, False]
    assert shared.sums["busy"] >= shared.jobs["granted"].sum() > 0  # a GPU that is shared in part counts as a whole


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_parts_of_a_gpu_are_filled(policy: str) -> None:
    """One GPU for five: notebooks that keep a fifth of it busy all start when they come; the sixth waits for 2 h."""
    sent = [{"arrival": at / 10, "gpus": 1, "hours": 2, "use": 0.2} for at in range(6)]
    found = cb.planning.cluster(policy, nodes=1, per_node=1, share=5, jobs=sent, **QUIET)
    assert starts(found) == [0, 0.1, 0.2, 0.3, 0.4, 2]
    # Five begin half an hour apart in all; the GPU is held from 0 to 4, with 6 x 2 h x 0.2 of work.
    assert found.measures["utilisation"] == pytest.approx(1) and found.measures["goodput"] == pytest.approx(2.4 / 4)
    whole = cb.planning.cluster(policy, nodes=1, per_node=1, share=5, jobs=[{**row, "use": 1} for row in sent], **QUIET)
    assert starts(whole) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_weeks_end_where_small_jobs_share(policy: str) -> None:
    """Nothing drifts: all jobs are started, and all that was held is given back."""
    held: dict[str, float] = {}

    def watched(cluster: Any) -> None:
        POLICIES[policy](cluster)
        held.update(cluster.used)

    cb.planning.cluster(policy, share=5, log=False, **QUIET)
    cb.planning.cluster(watched, share=5, mix="research", log=False, **QUIET)
    assert held == dict.fromkeys("ABCD", 0)


def test_teams_with_parts_of_their_own_share_no_gpu() -> None:
    """Two GPUs, one each: two notebooks of A and one of B are on two GPUs under static, on one under FIFO."""
    sent = [{"arrival": 0, "gpus": 1, "hours": 1, "use": 0.2, "team": team} for team in "ABA"]
    lanes = {
        policy: cb.planning.cluster(policy, nodes=1, per_node=2, share=5, jobs=sent, **QUIET).timeline
        for policy in ("static", "fifo")
    }
    assert lanes["static"].groupby("team")["lane"].nunique().to_dict() == {"A": 1, "B": 1}
    assert lanes["static"]["lane"].nunique() == 2 and lanes["fifo"]["lane"].nunique() == 1


def test_a_service_lasts_as_long_as_jobs() -> None:
    """48 of 64 GPUs are a service's: four jobs of 16 GPUs for 10 h run one after the other, for 40 h."""
    sent = [{"arrival": 5, "gpus": 16, "hours": 10}] * 4
    found = cb.planning.cluster("fifo", nodes=8, service=48, beside=False, jobs=sent, **QUIET)
    assert starts(found) == [5, 15, 25, 35]
    assert found.measures["service"] == pytest.approx(48 / 64) and found.measures["makespan"] == 40 * HOUR
    assert found.measures["utilisation"] == pytest.approx(16 / 64)


def test_static_parts_are_of_what_a_service_leaves() -> None:
    """(64 - 16) / 2 teams: 24 GPUs each, so two jobs of 16 of one team run one after the other."""
    sent = [{"arrival": 0, "gpus": 16, "hours": 1, "team": team} for team in "AAB"]
    assert starts(cb.planning.cluster("static", service=16, beside=False, jobs=sent, **QUIET)) == [0, 1, 0]
    with pytest.raises(ValueError, match="owns 12; add nodes"):
        cb.planning.cluster("static", service=16, **QUIET)


def test_a_service_leaves_its_nights_to_training() -> None:
    night = cb.table("constants").set_index("name").loc["cluster-service-night", "value"]
    kept, lent = (
        cb.planning.cluster("backfill", load=0.7, service=24, beside=beside, seed=1, **QUIET).measures
        for beside in (False, True)
    )
    assert kept["service"] == pytest.approx(24 / 64, abs=1e-3)
    # A day is a cosine: on average half way between the night's and the peak; whole GPUs, so up to one more.
    mean = 24 * (night + (1 - night) / 2)
    assert mean / 64 <= lent["service"] <= (mean + 1) / 64
    assert lent["wait_mean"] < kept["wait_mean"]


def test_idle_while_somebody_waits_by_hand() -> None:
    """Six of eight GPUs for two hours; from 0.5 to 2 a job of 8 waits before two idle GPUs; then it has all for one."""
    found = run("fifo", [(0, 6, 2), (0.5, 8, 1)], nodes=1)
    assert found.measures["idle_waiting"] == pytest.approx(2 * 1.5 / (8 * 3))
    assert found.measures["utilisation"] == pytest.approx((12 + 8) / 24)


def test_time_begins_with_the_first_job() -> None:
    """Eight GPUs for an hour from 10 to 11: all in use, one hour paid; the same as from 0 to 1."""
    late, early = (run("fifo", [(at, 8, 1)], nodes=1) for at in (10, 0))
    assert late.window == (10 * HOUR, 11 * HOUR) and late.measures == early.measures
    assert late.measures["utilisation"] == 1 and late.measures["makespan"] == HOUR
    hours = late.drawn().query("what == 'hour'").set_index("start")["text"]
    assert hours[10].startswith("8 of 8 GPUs") and hours[9].startswith("0 of 8 GPUs")


def test_words_of_a_table_mean_what_they_say() -> None:
    """ "no" and an empty cell are not urgent; a team that is missing is A."""
    words = [True, False, np.True_, np.False_, "yes", "no", None, math.nan, pd.NA]
    sent = drawn.read([{"arrival": 0, "gpus": 1, "hours": 1, "urgent": word, "team": math.nan} for word in words])
    assert [job.urgent for job in sent] == [True, False, True, False, True, False, False, False, False]
    assert {job.team for job in sent} == {"A"}


def test_a_run_without_a_log_draws_nothing() -> None:
    found = run("fifo", [(0, 8, 1)], nodes=1, log=False)
    assert found.timeline.empty
    with pytest.raises(ValueError, match="simulate with log=True"):
        found.drawn()


def test_teams_of_any_name_have_colours() -> None:
    """Beside A, two of other names get what A leaves, the second colour and the third; all are in the legend."""
    found = run("fifo", [(0, 2, 1, "physics"), (0, 2, 1, "A"), (0, 2, 1, "biology")], nodes=1)
    spec = cb.charts.timeline(found.drawn()).to_dict()
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert [colours[name] for name in ("A", "biology", "physics")] == list(cb.charts.look.PALETTE[:3])
    shown = next(each["value"] for each in spec["params"] if each["name"] == "teams")
    assert sorted(shown) == ["A", "biology", "physics"]


# What cannot be


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": 1}, ["nodes x per_node = 8 GPUs", "16", "pretraining", "more nodes"]),
        ({"load": 1e-3, "nodes": 2, "mix": "large"}, ["load", "no job arrives"]),
        ({"jobs": []}, ["jobs is empty", "nothing arrives"]),
        ({"jobs": [{"arrival": 0, "gpus": 65, "hours": 1}]}, ["gpus = 65", "64 that exist"]),
        ({"jobs": [{"arrival": 0, "gpus": 0, "hours": 1}]}, ["row 0", "gpus = 0"]),
        ({"jobs": [{"arrival": -1, "gpus": 1, "hours": 1}]}, ["row 0", "arrival = -1", "give 0 to"]),
        ({"jobs": [{"arrival": 0, "gpus": 1, "hours": 1, "urgent": "maybe"}]}, ["row 0", "urgent = 'maybe'", "True"]),
        ({"jobs": [{"arrival": 0, "gpus": 1, "hours": 1, "use": 0}]}, ["row 0", "use = 0", "up to 1"]),
        ({"jobs": [{"arrival": 0, "gpus": 1}]}, ["row 0", "must have arrival [h], gpus and hours"]),
        ({"quota": [65, 1, 1, 1]}, ["quota of team A = 65", "64 GPUs", "lower"]),
        ({"quota": [40, 40, 1, 1]}, ["sums to 82", "64"]),
        ({"quota": [16, 16]}, ["quota", "A, B, C, D"]),
        (
            {"policy": "static", "quota": [8, 16, 16, 16]},
            ["policy = 'static'", "16 GPUs", "contradict", "owns 8", "quota"],
        ),
        ({"service": 64}, ["service = 64", "no job can run"]),
        ({"service": 60, "beside": False}, ["service = 60", "16 GPUs contradict"]),
        ({"policy": lambda cluster: None}, ["never starts", "let it start"]),
    ],
)
def test_what_cannot_be_is_told(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as told:
        cb.planning.cluster(**{"policy": "fifo", **QUIET, **change})
    assert all(word in str(told.value) for word in words), str(told.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cb.planning.max_min_rates([[2]], [1.0]), "number links from 0 to 0"),
        (lambda: cb.planning.max_min_rates(5, [1.0]), "routes"),
        (lambda: cb.planning.drf_tasks([9, 18], [[1], [3]]), "demands"),
        (lambda: cb.planning.drf_tasks([1e9], [[1e-3]]), "tasks"),
        (lambda: cb.planning.erlang_wait_seconds(10**9, 1.0, 1.0), "servers"),
        (lambda: cb.planning.erlang_wait_seconds(0, 1.0, 1.0), "servers = 0"),
        (lambda: cb.planning.erlang_wait_seconds(2.5, 1.0, 1.0), "servers = 2.5"),  # type: ignore[arg-type]
        (lambda: cb.planning.cluster_weeks([]), "policies"),
        (lambda: cb.planning.cluster_gains(pd.DataFrame({"a": [1]})), "cluster_weeks"),
    ],
)
def test_formulas_refuse_what_cannot_be(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("[", "\\[")):
        call()


# Comparison


def test_gains_by_hand() -> None:
    """Two weeks: 0.5 to 0.6 and 0.5 to 0.7 are gains of 20 and 40 %; of jobs 100 to 120 and 100 to 140 the same."""
    rows = [
        (week, policy, use, done, wait)
        for week, *both in (
            (0, ("a", 0.5, 100, 4.0), ("b", 0.6, 120, 2.0)),
            (1, ("a", 0.5, 100, 4.0), ("b", 0.7, 140, 1.0)),
        )
        for policy, use, done, wait in both
    ]
    table = pd.DataFrame(rows, columns=["week", "policy", "utilisation", "finished", "wait_mean"])
    (row,) = cb.planning.cluster_gains(table.assign(load=1.0, mix="x"), "a").to_dict("records")
    assert row["utilisation"] == pytest.approx(0.3) and row["finished"] == pytest.approx(0.3)
    assert row["utilisation_claim"] == 1 and row["finished_claim"] == 0.5 and row["both"] == 0.5
    assert row["wait"] == pytest.approx(0.375) and row["sooner"] == 1
    assert 0.199 < row["utilisation_low"] <= row["utilisation_high"] < 0.401
    # Of two weeks drawn again each fourth time both are the first, or both the second: 0.5 and 0.25 are the ends.
    assert (row["wait_low"], row["wait_high"]) == pytest.approx((0.25, 0.5))


def test_gains_take_each_week_once() -> None:
    """A week that static has not is left out; two mixes under one load must be told apart."""
    rows = [
        {
            "load": 1.0,
            "mix": mix,
            "week": week,
            "policy": policy,
            "utilisation": use,
            "finished": 100 * use,
            "wait_mean": 1.0,
        }
        for mix in "xy"
        for week, policy, use in ((0, "a", 0.5), (0, "b", 0.6), (1, "b", 0.9), (2, "a", 0.5), (2, "b", 0.7))
    ]
    table = pd.DataFrame(rows)
    found = cb.planning.cluster_gains(table, "a")
    assert found["weeks"].tolist() == [2, 2] and found["utilisation"].tolist() == pytest.approx([0.3, 0.3])
    with pytest.raises(ValueError, match=r"by = \['load'\] leaves several rows of week 0"):
        cb.planning.cluster_gains(table, "a", by=["load"])


def test_the_claim_is_that_of_the_slides() -> None:
    from cookbook.topics.cluster.study import claimed

    assert claimed() == {"utilisation": 0.2, "finished": 0.3}


def test_a_reader_can_swap_a_policy() -> None:
    """Shortest first: of three that wait, the shortest starts when the node is free."""

    def shortest(cluster: Any) -> None:
        for job in sorted(cluster.waiting(), key=lambda job: job.expected):
            cluster.start(job)

    assert starts(run(shortest, [(0, 8, 1), (0.1, 8, 3), (0.2, 8, 2), (0.3, 8, 1)], nodes=1)) == [0, 4, 2, 1]


def test_a_hundred_thousand_jobs_are_not_many(within: Any) -> None:
    """A tenth of them here; the policies that look at most."""
    cb.planning.cluster("fifo", **QUIET)
    for policy, counts in (("backfill", 12), ("elastic", 20)):
        with within(counts):
            found = cb.planning.cluster(policy, nodes=64, load=0.9, weeks=4, log=False, **QUIET)
        assert len(found.jobs) > 8_000


@pytest.mark.parametrize("seed", range(3))
def test_more_load_is_more_of_the_same_jobs_and_never_less_utilisation(seed: int) -> None:
    """Loads differ in how soon the same jobs come: the first are equal, and utilisation under FIFO never falls."""
    weeks = [cb.planning.cluster(policy="fifo", load=load, seed=seed, **QUIET) for load in (0.4, 0.6, 0.8, 1.0)]
    for lighter, fuller in itertools.pairwise(weeks):
        used = [week.frame().set_index("measure").loc["utilisation", "value"] for week in (lighter, fuller)]
        assert used[0] <= used[1] + 0.01
        few = min(len(lighter.jobs), 50)
        same = ["kind", "team", "gpus"]
        assert lighter.jobs[same].head(few).equals(fuller.jobs[same].head(few))
        assert (fuller.jobs["arrival"].head(few) <= lighter.jobs["arrival"].head(few)).all()


# The weeks that are stored


def test_stored_weeks_are_pairs() -> None:
    """540 weeks, each under six policies, which met the same jobs."""
    rows = cb.table("cluster_weeks")
    groups = rows.groupby(["load", "mix", "week"])
    assert len(groups) == 540 and (groups["policy"].nunique() == 6).all() and (groups["jobs"].nunique() == 1).all()
    assert (rows["utilisation"] + rows["idle_waiting"] <= 1 + 1e-6).all()


def test_stored_weeks_are_those_of_today() -> None:
    """Two weeks simulated now give the stored rows again, to their rounding; one job may end with the week."""
    now = cb.planning.cluster_weeks(list(POLICIES), load=0.9, mix="mixed", weeks=2, progress=False)
    stored = cb.table("cluster_weeks").query("load == 0.9 and mix == 'mixed' and week <= 1")
    keys = ["load", "mix", "week", "policy"]
    both = now.merge(stored, on=keys, suffixes=("", "_stored"))
    assert len(both) == 12
    for names, within in (
        (("utilisation", "effective", "idle_waiting", "fairness"), 1e-4),
        (("jobs", "finished"), 1),
        (("wait_mean", "wait_p95"), 2.0),
    ):
        for name in names:
            assert (both[name] - both[f"{name}_stored"]).abs().max() <= within, name


def test_what_the_recipe_concludes_of_the_claim() -> None:
    """Few weeks gain both at a load of 0.7; utilisation gains a fifth from 0.8; over FIFO next to nothing is left."""
    rows = cb.table("cluster_weeks")
    gains = cb.planning.cluster_gains(rows).query("policy == 'fair'").set_index("load")
    assert (gains.loc[[0.5, 0.7], "both"] < 0.25).all() and (gains["both"] < 0.75).all()
    assert (gains.loc[[0.9, 1.0, 1.2], "utilisation"] > 0.15).all() and (gains.loc[0.5, "utilisation"] < 0.15).all()
    over = cb.planning.cluster_gains(rows, against="fifo").query("policy == 'backfill'")
    assert (over["utilisation"].abs() < 0.05).all() and (over.query("load >= 0.7")["sooner"] > 0.9).all()


def test_what_the_recipe_concludes_of_each_policy() -> None:
    """Of jobs done, pooling alone gives most up to 0.9, not at 1.2; waits over FIFO are in an order that is no luck."""
    rows = cb.table("cluster_weeks").query("mix == 'mixed'")
    done = cb.planning.cluster_gains(rows).pivot(index="load", columns="policy", values="finished")
    assert (done["fifo"] > 0.5 * done["fair"])[done.index <= 0.9].all() and done["fifo"].max() < 0.3
    assert (done.drop(index=[1.0, 1.2]) < 0.3).all(axis=None) and done.loc[1.0, "fair"] > 0.3
    assert done.loc[1.2, ["fifo", "fair"]].round(2).tolist() == [0.12, 0.52]
    over = cb.planning.cluster_gains(rows, against="fifo").set_index(["load", "policy"])
    assert over.loc[(1.2, "fair"), "finished"] > 0.2
    order = over.loc[0.9].drop(index="static").sort_values("wait")
    assert (order["wait_high"].iloc[:-1].to_numpy() < order["wait_low"].iloc[1:].to_numpy()).all()
    parts = rows.query("load == 0.7 and policy == 'static'")
    assert (parts["finished"] / parts["jobs"]).mean() == pytest.approx(0.87, abs=0.03)


@pytest.mark.parametrize("case", [{}, {"share": 5, "mix": "research"}, {"service": 16, "policy": "priority"}])
def test_each_hour_is_told_as_the_timeline_has_it(case: dict[str, Any]) -> None:
    """GPUs in use, counted once however many share one, and jobs that are inside and have none."""
    found = cb.planning.cluster(**{"policy": "backfill", "seed": 6, **QUIET, **case})
    hours = found.drawn().query("what == 'hour'").set_index("start")
    stays, each, begin = found.timeline, found.jobs, found.window[0]
    for hour in range(0, 169, 6):
        at = begin + hour * HOUR
        on = stays[(stays["start"] <= at) & (at < stays["end"])]
        used = len(on[["node", "lane"]].drop_duplicates())
        inside = int(((each["arrival"] <= at) & (at < each["end"])).sum())
        waiting = inside - on.loc[on["job"] >= 0, "job"].nunique()
        assert (hours["idle"][hour], hours["waiting"][hour]) == (64 - used, waiting)
        assert hours["text"][hour].startswith(f"{used} of 64 GPUs in use, {waiting} job")
