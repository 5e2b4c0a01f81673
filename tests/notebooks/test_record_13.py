"""The decision of recipe 13 follows from its table of options."""

import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import decision, interval, sources, table, words

import cookbook as cb

SAID = sources("13")

WAIT, UPPER, MORE = "mean wait [h], 80 % of weeks", "upper end, 90 % interval [h]", "more per week [$]"
TWICE, BOUGHT = "static, 16 nodes", "Wait relative to twice the GPUs, median week (90 % interval)"
LIMIT, WEIGHTED = "Limit kept (upper end, 90 % interval)", "Mean wait weighted by GPU time"


@cache
def recomputed(weeks: range) -> tuple[dict[str, str], dict[str, str]]:
    """Return the mean wait of jobs of 16 GPUs with each option, and that of all weighted by GPU time [h]."""
    cases = {f"{policy}, 8 nodes": (policy, 8) for policy in cb.planning.POLICIES} | {TWICE: ("static", 16)}
    found: list[dict[str, str]] = [{}, {}]
    for name, (policy, nodes) in cases.items():
        of_weeks = []
        for week in weeks:
            jobs = cb.planning.cluster(policy, nodes=nodes, load=6.4 / nodes, mix="mixed", skew=2, seed=week).jobs
            large = jobs[jobs.gpus == 16].wait.mean()
            of_weeks.append((large, sum(jobs.wait * jobs.granted) / sum(jobs.granted)))
        for texts, hours in zip(found, pd.DataFrame(of_weeks).mean() / 3600, strict=True):
            texts[name] = f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}"
    return found[0], found[1]


def payers(large: tuple[dict[str, str], ...], tied: set[str], record: dict[str, str]) -> bool:
    """Whether the record gives the wait of the largest jobs with what is left, FIFO, quarters and twice the GPUs."""
    weeks = re.search(r"(\d+) simulated weeks", record["Cluster"])[1]
    rows = (record.get(f"Who pays (mean of {weeks} weeks)", ""), record.get(WEIGHTED, ""))
    said = [dict(re.findall(r"(\w+, \d+ nodes) ([\d.]+) h", row)) for row in rows]
    named = tied | {"fifo, 8 nodes", "static, 8 nodes", TWICE}
    return said == [{name: waits[name] for name in named} for waits in large]


def kept(options: pd.DataFrame, record: dict[str, str], printed: str) -> dict[str, str]:
    """Return whether each option keeps the limit by the whole interval of its upper end; empty if the record errs."""
    accepted = float(re.search(r"of ([\d.]+) h in 9 of 10 weeks", record["Accepted"])[1])
    most, ends = re.search(r"to ([\d.]+)\) h, upper end (.+?) h;", printed).groups()
    upper = {name: (text.split(" to ")[1].strip(")"), options[UPPER][name]) for name, text in options[WAIT].items()}
    verdicts, said = {}, record[LIMIT]
    for name, (point, span) in (upper | {"fair with a reservation": (most, ends)}).items():
        low, high = map(float, span.split(" to "))
        verdict = "yes" if high <= accepted else "no" if low > accepted else "cannot be told"
        part = re.search(rf"(?:^|; ){verdict}: (.*?)(?=; cannot be told: |; no: |$)", said)
        if f"{name} {point} ({span}) h" not in part[1]:
            return {}
        verdicts[name] = verdict
    return verdicts


def follows(options: pd.DataFrame, record: dict[str, str], large: tuple[dict[str, str], ...], price: str) -> bool:
    """Whether the choice is the cheapest that keeps the accepted wait in 9 of 10 weeks, and of those the quickest."""
    hourly, ends = re.search(r"\$([\d.]+) per hour (\([\d.]+ to [\d.]+\))", price).groups()
    if f"at ${hourly} {ends} per A100" not in record["Twice the GPUs instead"]:
        return False
    accepted = float(re.search(r"of ([\d.]+) h in 9 of 10 weeks", record["Accepted"])[1])
    waits = {name: interval(text) for name, text in options[WAIT].items()}
    usd = {name: float(text.replace(",", "")) for name, text in options[MORE].items()}
    able = [name for name, (_, _, most) in waits.items() if most <= accepted]
    if not able:
        return record["Choice"].startswith("none keeps")
    first = min(able, key=lambda name: (usd[name], waits[name][0]))
    rivals = [name for name in able if usd[name] == usd[first] and name != first]
    said = record.get(f"Wait relative to {first}, median week (90 % interval)", "") if rivals else ""
    ratios = dict(re.findall(r"(\w+) × [\d.]+ \(([\d.]+) to", said))
    compared = {name.partition(",")[0] for name in rivals}
    tied = {first} | {name for name in rivals if float(ratios.get(name.partition(",")[0], "inf")) <= 1}
    named = set(re.findall(r"\w+, \d+ nodes", record["Choice"].partition("; ")[0]))
    costs = {name: text for name, text in options[MORE].items() if name in record["Mean wait (80 % of weeks)"]}
    quoted = (
        f"${max(costs.values(), key=lambda text: float(text.replace(',', '')))} more"
        in record["Twice the GPUs instead"]
    )
    repeated = all(f"{name} {options[WAIT][name]} h" in record["Mean wait (80 % of weeks)"] for name in (*tied, *costs))
    is_open = (", open: " in record["Choice"]) == (len(tied) > 1)
    can = any("elastic" in name for name in tied) == ("elastic only if your training" in record["Choice"])
    verdicts = kept(options, record, words("13", "reserved"))
    sure = [name for name in tied if verdicts.get(name) == "yes"]
    alone = f"only for {sure[0]} is the whole interval within the limit" if len(sure) == 1 < len(tied) else "; "
    others = can and payers(large, tied, record) and bool(verdicts) and alone in record["Choice"]
    others = others and record["Twice the GPUs instead"].endswith(f"; limit kept: {verdicts[TWICE]}")
    return named == tied and is_open and set(ratios) == compared and quoted and repeated and others


def page() -> list[Any]:
    """Return the table of options, the record, the waits of the largest jobs, and the printed price."""
    return [table("13", "live"), decision("13"), recomputed(range(30)), words("13", "live")]


def test_the_record_follows_from_the_options():
    options, record, large, price = page()
    assert follows(options, record, large, price)


def test_the_upper_ends_are_those_of_weeks_drawn_again():
    """Other draws by another program: an end that the weeks support is near it, and 0.9 quantiles are discrete."""
    shown, random = table("13", "live"), np.random.default_rng(1)
    for name in ("fair, 8 nodes", "priority, 8 nodes", TWICE):
        policy, nodes = name.split(", ")[0], int(name.split()[-2])
        same = dict(load=6.4 / nodes, nodes=nodes, mix="mixed", weeks=30, skew=2, progress=False)
        waits = cb.planning.cluster_weeks([policy], **same)["wait_mean"].to_numpy() / 3600
        drawn = np.quantile(waits[random.integers(0, 30, (4000, 30))], 0.9, axis=1)
        ends = [float(end) for end in shown[UPPER][name].split(" to ")]
        assert ends == pytest.approx(np.quantile(drawn, [0.05, 0.95]), rel=0.15)
        assert f"to {np.quantile(waits, 0.9):.1f})" in shown[WAIT][name]


def test_the_text_says_who_waits_longer_than_with_twice_the_gpus():
    """The text on fair share, FIFO and backfill beside twice the GPUs is that of record and table."""
    said = SAID["explain5"]
    options, record, *_ = page()
    who = next(text for label, text in record.items() if label.startswith("Who pays"))
    fair, bought = (float(re.search(rf"{name} ([\d.]+) h", who)[1]) for name in ("fair, 8 nodes", TWICE))
    jobs, used = map(int, re.search(r"they are (\d+) % of the jobs and take (\d+) % of the GPU time", who).groups())
    ratios = {
        name: [*map(float, ends)] for name, *ends in re.findall(r"(\w+) × (\S+) \((\S+) to (\S+)\)", record[BOUGHT])
    }
    waits = {name: float(text.split()[0]) for name, text in options[WAIT].items()}
    weighted = {name: float(hours) for name, hours in re.findall(r"(\w+, \d+ nodes) ([\d.]+) h", record[WEIGHTED])}
    assert (
        f"They are one job in twenty but take more than half of the GPU time, and wait about {fair:.0f} h under" in said
    )
    assert f"under fair share but {bought:.0f} h with twice the GPUs (*Who pays* in the record)" in said
    assert (jobs, used > 50) == (5, True)
    assert "Weighted by GPU time, the mean wait under fair share is hardly shorter than under FIFO." in said
    assert 0.85 < weighted["fair, 8 nodes"] / weighted["fifo, 8 nodes"] < 1
    assert "In one FIFO queue on the old GPUs, jobs wait about three times as long as with twice the GPUs" in said
    assert 2.5 < waits["fifo, 8 nodes"] / waits[TWICE] < 3.5
    assert "Backfill alone cannot be distinguished from twice the GPUs: with either, the mean wait exceeds the" in said
    assert "exceeds the accepted 8 h in more than one week in ten" in said
    assert ratios["backfill"][1] < 1 < ratios["backfill"][2]
    assert all(float(options[WAIT][name].split()[-1].strip(")")) > 8 for name in ("backfill, 8 nodes", TWICE))
    assert "Only for *fair* is the whole interval in the column *upper end* within 8 h." in said
    assert re.search(r"yes: fair, 8 nodes [\d.]+ \([^)]+\) h; cannot be told: ", record[LIMIT]) is not None
    assert ratios["fair"][2] < 1 < ratios["fifo"][1]


def test_the_waits_beside_twice_the_gpus_are_those_of_the_package():
    same = dict(mix="mixed", weeks=30, skew=2, progress=False)
    weeks = [cb.planning.cluster_weeks([name], load=0.8, nodes=8, **same) for name in ("fifo", "backfill", "fair")]
    weeks.append(cb.planning.cluster_weeks(["static"], load=0.4, nodes=16, **same).assign(load=0.8))
    for one in cb.planning.cluster_gains(pd.concat(weeks), against="static").itertuples():
        assert f"{one.policy} × {one.wait:.2f} ({one.wait_low:.2f} to {one.wait_high:.2f})" in decision("13")[BOUGHT]


def test_the_factor_of_waits_follows_from_the_variation_of_gpu_time():
    """C² of GPU time and of length are those of the week's jobs, and the factor (1 + C²) / 2 of the former."""
    printed = words("13", "policies")
    found = re.search(r"GPU time of a job = ([\d.]+), of its length alone ([\d.]+): .+ be ([\d.]+) times", printed)
    jobs = cb.planning.cluster("fifo", nodes=8, load=0.8, mix="mixed", skew=2, seed=0).jobs
    length = jobs.end - jobs.start
    squares = [float((taken.std() / taken.mean()) ** 2) for taken in (length * jobs.gpus, length)]
    assert [float(figure) for figure in found.groups()] == pytest.approx([*squares, (1 + squares[0]) / 2], abs=0.06)
    assert "gives $C^2$ for the GPU time of our jobs" in SAID["explain1"]


def test_ratios_of_waits_are_those_of_the_median_week():
    """Every printed or recorded ratio of waits says that it is that of the median week."""
    printed, record = words("13", "claim"), decision("13")
    ratios = [line for line in printed.splitlines() if " × " in line]
    keys = [label for label, text in record.items() if re.search(r"\w × [\d.]+ \([\d.]+ to", text)]
    assert bool(ratios and keys)
    assert all("median week" in text for text in (*ratios, *keys))


def test_the_record_gives_the_wait_of_the_setting_that_exists():
    """The record names the settings that exist, with the printed wait under fair share with a reservation."""
    printed, record = words("13", "reserved"), decision("13")
    wait = re.search(r"with a reservation, 8 nodes: mean wait ([\d.]+ \([\d.]+ to [\d.]+\)) h, upper", printed)[1]
    low, high = map(float, re.search(r"reservation × [\d.]+ \((\S+) to (\S+)\)", record[BOUGHT]).groups())
    than = "shorter than" if high < 1 else "longer than" if low > 1 else "about as long as"
    said, last = record.get("Setting", ""), record["What would change it"]
    assert all(name in said for name in ("sched/backfill", "PriorityWeightFairshare", "Kueue", "relatives of fair"))
    assert record["Choice"].endswith(f"fair with a reservation, as in Slurm: waits {than} with twice the GPUs")
    assert said.endswith(f"with a reservation, as Slurm makes one, the mean wait is {wait} h")
    assert last.endswith("a week of your own cluster with longer waits than those with a reservation")


def test_the_wait_with_a_reservation_is_that_of_another_program():
    """A second program for the same rule: teams in turn, the first job that does not fit keeps what it needs."""

    def fair_reserved(cluster):
        at, spare, teams = None, 0, set(cluster.teams)
        while teams:
            team = min(teams, key=lambda name: (cluster.used[name], name))
            for job in cluster.waiting(team):
                early = at is None or cluster.now + job.expected <= at
                if (early or job.gpus <= spare) and cluster.start(job):
                    spare -= 0 if early else job.gpus
                    break
                if at is None:
                    at, spare = cluster.reservation(job)
            else:
                teams.remove(team)

    same = dict(mix="mixed", weeks=30, skew=2, progress=False)
    near, more = (
        cb.planning.cluster_weeks([policy], load=load, nodes=nodes, **same)["wait_mean"] / 3600
        for policy, load, nodes in ((fair_reserved, 0.8, 8), ("static", 0.4, 16))
    )
    wait = f"{near.mean():.1f} ({near.quantile(0.1):.1f} to {near.quantile(0.9):.1f}) h"
    longer = f"longer than with twice the GPUs in {(near > more).sum()} of 30 weeks"
    assert re.search(rf"mean wait {re.escape(wait)}, upper end [\d.]+ to [\d.]+ h; {longer}", words("13", "reserved"))


def test_one_queue_gains_less_on_a_larger_cluster():
    """The gain of one queue on 256 GPUs is a third to three fifths of that on 64, as the text says."""
    printed = words("13", "claim")
    said = SAID["explain4"]
    line = printed.partition("One FIFO queue over static partitions, load 0.8")[2]
    used, done = (
        [int(gain) for gain in re.search(rf"{name} ([+\d, ]+) %", line)[1].split(", ")]
        for name in ("utilisation", "jobs")
    )
    assert "with 64, 128, 256 GPUs" in line
    assert all(0.3 < gains[2] / gains[0] < 0.6 for gains in (used, done))
    assert "The last line compares static partitions with one FIFO queue on clusters of three sizes" in said
    assert "On a cluster four times as large, the same change gains only a third to three fifths as much" in said
    assert "+21, +13 %" in printed


def test_the_exercise_takes_the_median_of_paired_weeks():
    assert "jobs wait 2, 4, 1, 12 and 3 h on average under a policy, and 4, 5, 4, 6 and 2 h" in SAID["explain6"]
    assert sorted((2 / 4, 4 / 5, 1 / 4, 12 / 6, 3 / 2))[2] == 0.8 and "Correct: 0.8" in words("13", "check2")


def test_the_text_compares_shares_of_gpu_time_with_real_clusters():
    """Shares of GPU time beside published ones are those of the table of real clusters."""
    said = SAID["explain6"]
    shown = table("13", "facts")
    shares = shown.iloc[:, :2].apply(lambda column: column.str.replace(",", "").astype(float))
    acme, single = (shares[shares.index.str.contains(what)].iloc[0] for what in ("pretraining", "time of single-GPU"))
    assert "Pretraining takes less than half the share of GPU time that it takes at Acme" in said
    assert acme.iloc[1] < acme.iloc[0] / 2
    assert f"({single.iloc[1]:.0f} % here, at most {single.iloc[0]:.0f} % at Helios)" in said
