"""The decision of recipe 11 follows from the table of its jobs."""

import re

import numpy as np
import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb
from cookbook.evidence import student_t
from cookbook.prediction.kinds import generation
from cookbook.topics.machine.fitted import KINDS_OF_FACTOR

TRIAL = " (first train for a day, with the usual programs running, and count the steps by the wall clock)"


def test_the_record_follows_from_the_jobs():
    """Each job is where its interval puts it beside the days available, and each figure is repeated."""
    plan = table("11", "forecast")
    record = decision("11")
    interval, fits = plan.columns[1], plan.columns[2]
    available = float(re.search(r"done in ([\d.]+) such days", fits)[1])
    should: dict[str, list[str]] = {"start now": [], "wait for the GPUs": [], "open": []}
    for job, text in plan[interval].items():
        point, low, high = map(float, re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups())
        assert low <= point <= high
        assert f"{job} {text}" in record["Days of processor time (80 %)"]
        should["start now" if high <= available else "wait for the GPUs" if low > available else "open"].append(job)
    choice = "; ".join(f"{what}: {', '.join(jobs) or 'none'}" for what, jobs in should.items())
    step = [float(figure) for figure in re.findall(r"\d+\.\d+", record["Step"])[:3]]
    batch = float(re.search(r"batch (\d+)", record["Setup"])[1])
    days = [float(plan.iloc[0, 0]) * 1e6 / batch * seconds / 86400 for seconds in step]
    first = [float(figure) for figure in re.findall(r"[\d.]+", plan[interval].iloc[0])]
    choice += TRIAL * bool(should["open"])
    assert "by our stored run, not by your machine: " + choice == record["Choice"]
    assert first == pytest.approx(days, rel=0.02)


def test_the_setup_names_the_processor_of_the_report():
    processor = words("11", "measured").split("\n- ")[1]
    record, run = decision("11"), cb.measure.own_run()
    version, cores = run.environment["torch"].partition("+")[0], run.environment["cores"]
    assert record["Setup"].endswith(f", fp32, PyTorch {version}, {processor}, one thread of {cores} shared cores")
    assert record["Run taken"].startswith(f"{run.created[:10]}; ") and "shared" in run.environment


def test_the_rate_of_a_single_row_is_not_called_the_rate_of_reading():
    """The text gives the rate of a single row from its bytes and time, and the best one as it is printed."""
    printed, shapes = words("11", "products"), table("11", "products")
    said = sources("11")["explain2"]
    least, most, copied = re.search(r"copy (\d+) GB/s, single rows (\d+) to (\d+) GB/s", printed).group(2, 3, 1)
    own = 4 * 4096**2 / float(shapes["measured [ms]"]["1 × 4,096 × 4,096"]) / 1e6
    assert f"We measured 3.0 ms, which is about a tenth of the rate, or {own:.0f} GB/s. Other single-row" in said
    assert f"Other single-row matmuls reach up to {most} GB/s." in said
    assert f"so its {copied} GB/s is not the rate of reading alone" in said
    assert round(own) == int(least) < int(most) < int(copied)
    assert "when it only" not in said


def test_no_interval_of_the_rates_explains_a_factor_of_two():
    """The run had two rounds, and no interval of FP32 matmuls or 3 × 3 convolutions spans a factor of two."""
    rates, rounds = table("11", "hand"), cb.measure.own_run().options["rounds"]
    said = sources("11")["explain1"]
    rows = rates[rates.index.str.contains("matmul|3x3") & rates.index.str.endswith("fp32")].astype(float)
    wide = (rows["to"] / rows["80 % from"]).max()
    assert "our run measured everything in two rounds, and the intervals of the matmuls and of the 3 × 3" in said
    assert len(rows) > 4
    assert rounds == 2
    assert wide < 1.2


def test_16_rows_reach_half_of_the_rate_and_neither_limit_explains_it():
    """16 rows reach half of the rate, which neither limit explains, and memory decides for a single row."""
    shapes = table("11", "products")
    share, arithmetic, memory, measured = shapes.astype(float).T.to_numpy()
    rows = {name.split(" × ")[0]: place for place, name in enumerate(shapes.index) if name.endswith(" × 4,096 × 4,096")}
    one, few = rows["1"], rows["16"]
    assert 45 < share[few] < 55
    assert memory[few] < arithmetic[few] < measured[few] / 1.5
    assert memory[one] > arithmetic[one]
    assert share[one] < 15


def test_a_run_of_an_hour_does_not_settle_what_is_open():
    """The report's fall in speed is larger than the margin of the open job, and the record asks for a day."""
    plan, report, record = table("11", "forecast"), words("11", "measured"), decision("11")
    available = float(re.search(r"done in ([\d.]+) such days", plan.columns[2])[1])
    spare = min(abs(available / float(days) - 1) for days in plan.loc[plan[plan.columns[2]] == "open"].iloc[:, 3])
    fallen = 1 / (int(re.search(r"ended at (\d+)%", report)[1]) / 100) - 1
    asked = TRIAL in record["Choice"] and "held for a day" in record["What would change it"]
    assert fallen > spare
    assert asked
    assert "hour" not in record["What would change it"]
    assert "Before you start such a job, train for a day" in FOLDER.joinpath(PAGE).read_text()


def test_no_condition_of_the_record_is_met_by_its_own_step():
    """Each condition of a late job is by the wall clock for a day, which no figure of the record meets."""
    plan, record = table("11", "forecast"), decision("11")
    jobs, change = plan.index[plan[plan.columns[2]] != "yes"], record["What would change it"]
    available = float(re.search(r"done in ([\d.]+) such days", plan.columns[2])[1])
    batch = float(re.search(r"batch (\d+)", record["Setup"])[1])
    most = dict(
        re.findall(r"(?:^|; )([^;]+?): at most ([\d.]+) s per step by the wall clock, held for a day(?=; |$)", change)
    )
    limits = [available * 86400 * batch / (float(plan.iloc[:, 0][job]) * 1e6) for job in jobs]
    assert list(most) == list(jobs)
    assert [float(seconds) for seconds in most.values()] == pytest.approx(limits, rel=0.005, abs=0.001)
    assert record["Step"].endswith("both in processor time")


def test_the_text_counts_the_slower_clock_that_the_report_admits():
    """The text after the table gives the days at the speed with which the processor ended its run."""
    plan, report = table("11", "forecast"), words("11", "measured")
    said = sources("11")["open4"]
    known = float(plan.loc["10 epochs"].iloc[3])
    days = known * 100 / int(re.search(r"ended at (\d+)%", report)[1])
    assert f"at half its initial speed, and at that speed the {known} days would become {days:.0f}." in said


PAGE = "11-benchmark-this-machine.ipynb"


def test_days_are_those_of_the_processor():
    """Table and record name the days of one-thread work by the clock that timed it."""
    plan, record = table("11", "forecast"), decision("11")
    assert all("days of processor time" in plan.columns[place] for place in (1, 3))
    assert "Days of processor time (80 %)" in record
    assert not {"Days (80 %)", "Days"} & set(record)
    assert "a job that gets half of a core takes twice as long" in FOLDER.joinpath(PAGE).read_text()


def test_the_panel_says_which_fit_its_step_comes_from():
    """The panel's time of the step is that of the record, and says that all networks are in its fit."""
    panel, record = words("11", "panel"), decision("11")
    told = re.search(r"ResNet-50, batch 4: ([\d.]+) s with all networks in the fit \(", panel)
    assert told is not None
    assert f"predicted {told[1]} s" in record["Step"]


def test_the_text_says_how_much_of_the_error_is_the_share_of_the_bandwidth():
    """The text repeats both bandwidths and both errors, of the first training step of the table."""
    printed, networks, best = words("11", "bandwidth"), table("11", "networks"), words("11", "products")
    said = sources("11")["explain3"]
    given, copied = re.findall(r"with ([\d.]+) GB/s .*: [\d.]+ s, ([+-]\d+) %", printed)
    first = networks[networks["run"] == "training step"]["by datasheet [%]"].iloc[0]
    known = re.search(r"copy (\d+) GB/s", best)[1]
    assert int(given[1]) == int(first)
    assert f"{float(copied[0]):.0f}" == known
    assert f"bandwidth, {given[0]} GB/s, but a single core copied {known} GB/s" in said
    assert f"would be {-int(copied[1])} % too fast instead of {int(given[1])} % too slow" in said


def test_the_text_gives_the_median_of_the_rows_shown_and_of_all():
    """The text gives the median of the held-out errors in the table, and that of all runs as it is printed."""
    networks, printed = table("11", "networks"), words("11", "errors")
    said = sources("11")["explain3"]
    shown = networks["held out [%]"].astype(float).abs().median()
    every, runs = re.search(r"held out (\d+) %\ncoverage: \d+ % of (\d+) runs", printed).groups()
    more = {7: "seven"}.get(int(runs) - len(networks))
    assert (
        f"the held-out errors of these twelve rows have a median of {shown:.0f} %. With the {more} further runs" in said
    )
    assert f"a training step with recomputation), the median is {every} %." in said
    assert len(networks) == 12
    further = cb.measure.calibrate(cb.measure.own_run()).predictions().iloc[12:]
    assert set(further.model) == {"gpt2"} and set(further.benchmark) == {"decode", "prefill", "training step"}


def test_an_interval_from_the_other_networks_contains_one_run_fewer():
    said = sources("11")["turn"]
    rows = cb.measure.calibrate(cb.measure.own_run()).predictions()
    missed = np.log(rows.left_out_s / rows.measured_s).abs()

    def inside(missed: pd.Series) -> pd.Series:
        squares = (missed**2).groupby(rows.model).mean()
        reach = {name: student_t(0.8, len(squares) - 2) * squares.drop(name).mean() ** 0.5 for name in squares.index}
        return missed <= rows.model.map(reach)

    text = (
        "If the widths for each network came only from the other five, 16 of the 19 runs would be inside their "
        "intervals, but neither run of AlexNet would."
    )
    assert text in said and inside(missed).sum() == 16 and len(missed) == 19
    assert not inside(missed)[rows.model == "alexnet"].any() and (rows.model == "alexnet").sum() == 2
    assert inside(missed.where(rows.model != "alexnet", missed / 3))[rows.model == "alexnet"].any()


def test_the_factor_of_one_network_is_admitted():
    """The text says that one network alone generates text, and gives its errors beside those of the others.

    Rates of few rows are a factor of text generation alone, and without its rows it is that of the matmuls.
    """
    cells = sources("11")
    rows = cb.measure.calibrate(cb.measure.own_run()).predictions()
    assert KINDS_OF_FACTOR["narrow"] == (generation.KIND,)
    before = cells["loop3"]
    generates, own = set(rows.model[rows.benchmark.isin(["decode", "prefill"])]), rows.model == "gpt2"
    missed = 100 * rows.left_out_error.abs()
    assert generates == {"gpt2"}
    assert "only GPT-2 generates text in our run: if it is held out, the factor for matmuls with few rows" in before
    assert "None of them belongs to one network" not in before
    assert (
        f"GPT-2, with nine of the nineteen rows and a median error of {missed[own].median():.0f} %, against "
        f"{missed[~own].median():.0f} % for the other rows." in cells["explain3"]
    )
    assert (own.sum(), len(own)) == (9, 19)


def test_the_vote_on_a_single_row_can_be_computed():
    """The vote gives the copy and the rate, and its answer is what they allow for a single row."""
    shapes, printed, asked = table("11", "products"), words("11", "products"), words("11", "q2")
    best, copied = re.search(r"best FP32 matmul (\d+) GFLOP/s, copy (\d+) GB/s", printed).groups()
    share = 2 / 4 * float(copied) / float(best)
    measured = float(shapes.loc["1 × 4,096 × 4,096"].iloc[0]) / 100
    told = f"best FP32 rate, {best} GFLOP/s, can be left? A copy moves {copied} GB/s." in asked
    assert told
    assert "Answer: c) less than a fifth:" in asked
    assert 0.15 < share < 0.2
    assert measured < share
