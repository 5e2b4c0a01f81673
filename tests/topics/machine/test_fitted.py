"""Calibration to one machine: an artificial one whose constants are known, and reports that are none."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import cookbook as cb
from cookbook.hardware import Calibrated, accelerator
from cookbook.prediction.constants import HERE
from cookbook.topics.machine import fitted, rates
from cookbook.topics.machine.comparison import PREDICTORS
from cookbook.topics.machine.report import TIMES, Report, row

RATE, START, COPY = 2e11, 5e-6, 3e10
ASKS = [
    (benchmark, model, batch, seq)
    for model, batch, seq in (
        ("resnet50", 4, None),
        ("vgg16", 2, None),
        ("alexnet", 16, None),
        ("eng_acoustic_model", 256, None),
        ("bert_base", 4, 128),
        ("gpt2", 2, 256),
    )
    for benchmark in ("training step", "forward pass")
]
ASKS += [("decode", "gpt2", 1, 512), ("decode", "gpt2", 8, 512), ("decode", "opt_125m", 4, 128)]
ENVIRONMENT = {"processor": "AMD EPYC 9755 128-Core Processor", "cores": 2, "memory_bytes": 32e9}
# What the artificial machine does beside what single operations say of it.
KNOWN = {"compute": 0.8, "convolution": 1.2, "memory": 0.6, "host": 2.0}


def single(noise) -> list[dict]:
    """Products that take START and their work at RATE, a copy, and the start of an operation."""
    rows = [
        timed(
            "matmul",
            2.0 * size**3,
            START + 2.0 * size**3 / RATE,
            noise,
            case=f"{size}x{size}x{size}",
            number_format="fp32",
        )
        for size in (128, 256, 512, 1024, 2048)
    ]
    rows.append(timed("memory", 1e9, 1e9 / COPY, noise, case="copy 64 MiB", number_format="fp32"))
    rows.append(timed("launch", 1.0, 2e-6, noise, case="addition of one element", number_format="fp32"))
    return rows


def timed(benchmark, work, seconds, noise, **told) -> dict:
    taken = seconds * math.exp(noise())
    return row(
        benchmark, work, [taken * 0.99, taken, taken, taken * 1.01, taken * 1.04], 1, path="torch", device="cpu", **told
    )


def artificial(seed=0, spread=0.03, known=KNOWN, asks=ASKS, environment=ENVIRONMENT) -> Report:
    """A report of a machine of known constants, each time off by a normal error of its logarithm."""
    rng = np.random.default_rng(seed)

    def noise():
        return rng.normal(0, spread)

    rows = single(noise)
    plain = Report("complete", "2026-01-02 03:04", {}, dict(environment), rows)
    device = cb.measure.measured_device(plain)
    told = fitted.expected(plain, device)
    factors = {name: told.get(name, 1.0) * known.get(name, 1.0) for name in {**told, **known}}
    device = replace(device, calibrated=Calibrated(tuple(factors.items())))
    for benchmark, model, batch, seq in asks:
        asked = {"benchmark": benchmark, "model": model, "batch": batch, "seq": seq, "number_format": "fp32"}
        seconds = float(np.ravel(PREDICTORS[benchmark](asked, device).point)[0])
        rows.append(
            timed(
                benchmark,
                float(batch),
                seconds,
                noise,
                case=f"{model}, batch {batch}",
                model=model,
                batch=batch,
                seq=seq,
                number_format="fp32",
                method="eager",
            )
        )
    return Report("complete", "2026-01-02 03:04", {}, dict(environment), rows)


@pytest.fixture(scope="module")
def calibration():
    return cb.measure.calibrate(artificial())


def test_a_line_through_times_has_their_start_and_rate():
    work = np.array([1e6, 1e7, 1e8, 1e9])
    found, error, freedom = rates.line(work, 3e-6 + work / 5e10)
    assert found[0] == pytest.approx(3e-6) and 1 / found[1] == pytest.approx(5e10) and freedom == 2
    assert (error > 0).all(), "times that lie on a line by chance are not known without error"


def test_a_line_without_a_start_is_a_rate():
    work = np.array([1e6, 1e7, 1e8])
    found, _, _ = rates.line(work, np.array([1e-5, 1e-4, 1.2e-3]))
    assert found[0] == 0 and 1 / found[1] == pytest.approx((1e11 * 1e11 * (1e8 / 1.2e-3)) ** (1 / 3))


def test_the_middle_of_five_samples():
    """Of 1 to 5 s, the tenth lies at 1.4 s and the ninetieth at 4.6 s."""
    found = rates.spread_of(row("launch", 1.0, [1.0, 2.0, 3.0, 4.0, 5.0], 1, case="x", path="torch", device="cpu"))
    assert found == pytest.approx((1.4, 4.6))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, 2.0),
        ({"shared": "others ran"}, 1.0),
        ({"shared": "others ran", "clock": rates.ONE_THREAD}, 2.0),
    ],
)
def test_the_fastest_sample_counts_where_others_ran_beside(told, expected):
    one = row("launch", 1.0, [1.0, 2.0, 3.0, 4.0, 5.0], 1, case="x", path="torch", device="cpu")
    assert rates.seconds_of(Report("complete", "2026-01-02 03:04", {}, told, [one]), one) == expected


def test_single_operations_give_constants_with_intervals(calibration):
    found = calibration.frame().set_index(["constant", "number_format"])
    sustained = found.loc[("matmul, sustained", "fp32")]
    assert sustained["value"] == pytest.approx(RATE, rel=0.1)
    assert found.loc[("matmul, time beside the arithmetic", "fp32"), "value"] == pytest.approx(START, rel=0.3)
    assert found.loc[("memory bandwidth, copy 64 MiB", "fp32"), "value"] == pytest.approx(COPY, rel=0.1)
    assert ((found["low80"] <= found["value"]) & (found["value"] <= found["high80"])).all()
    assert set(found["tier"]) == {HERE}


def test_intervals_of_the_asymptote_cover_it():
    """Of 40 machines, four in five lie within; with a spread of 6 per cent no fewer than 26 and not all."""
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = single(lambda rng=rng: rng.normal(0, 0.06))
        best = rates.figures(Report("complete", "2026-01-02 03:04", {}, {}, rows))[0]
        inside += best.low80 <= RATE <= best.high80
    assert 26 <= inside <= 39


def test_the_constants_of_an_artificial_machine_come_back(calibration):
    known, told = calibration.accelerator.calibrated, fitted.expected(artificial(), calibration.accelerator)
    for kind in ("training_classic", "inference", "training_transformer", "generation"):
        truth = KNOWN["compute"] * told[f"compute/{kind}"]
        assert known.of("compute", kind) == pytest.approx(truth, rel=0.12), kind
    assert known.of("convolution", "inference") == pytest.approx(1.2, rel=0.15)
    assert known.of("memory", "training_classic") == pytest.approx(0.6, rel=0.35)


@pytest.mark.all
def test_the_intervals_of_factors_cover():
    """Over three machines and six factors that networks can tell, at least two in three lie within their 80 %."""
    inside, count = 0, 0
    for seed in range(3):
        found = cb.measure.calibrate(artificial(seed)).frame().set_index("constant")
        truths = {f"compute, {kind}": 0.8 for kind in ("training classic", "inference", "training transformer")}
        truths |= {"convolution, inference": 1.2, "memory, training classic": 0.6, "memory, inference": 0.6}
        for name, truth in truths.items():
            inside += found.loc[name, "low80"] <= truth <= found.loc[name, "high80"]
            count += 1
    assert inside >= 2 * count / 3, f"{inside} of {count}"


def test_a_model_that_is_left_out_is_predicted_from_the_others(calibration):
    errors, rows = calibration.errors(), calibration.predictions()
    assert errors["models"] == 7 and errors["rows"] == len(rows) == 15
    assert errors["after"] < 0.05 and errors["left_out"] < 0.1 < errors["before"]
    # A model's own time says nothing of its prediction: gpt2 ten times as slow leaves it where it was, nearly.
    report = artificial()
    slow = [
        {**each, **{name: each[name] * 10 for name in TIMES}, "value": each["value"] / 10}
        if each.get("model") == "vgg16"
        else each
        for each in report.rows
    ]
    moved = cb.measure.calibrate(replace(report, rows=slow)).predictions()
    own = moved["model"] == "vgg16"
    assert (moved["left_out_s"] / rows["left_out_s"])[own].to_numpy() == pytest.approx(1.0, abs=0.05)
    assert not moved.loc[own, "inside80"].any()


def test_a_real_machine_is_predicted_with_each_model_left_out():
    """The cookbook's own run: six networks; the worst is AlexNet, whose norms are slow."""
    found = cb.measure.calibrate(cb.measure.own_run())
    errors = found.errors()
    assert (errors["models"], errors["rows"]) == (6, 19) and not found.left
    assert errors["left_out"] <= 0.15 < errors["before"] and errors["after"] < errors["left_out"]
    assert 0.6 <= errors["inside80"] <= 0.95
    off = found.predictions().groupby("model")["left_out_error"].median().abs()
    assert off.idxmax() == "alexnet" and off.median() <= 0.15


def test_every_door_takes_the_device(calibration):
    device = calibration.accelerator
    step = cb.train_step("resnet50", device, micro_batch=8, precision="fp32")
    plain = cb.train_step("resnet50", replace(device, calibrated=None), micro_batch=8, precision="fp32")
    assert step.tier == HERE and plain.tier == "datasheet only" and step.point != plain.point
    reach = dict(device.calibrated.spreads)
    assert step.high80 / step.point == pytest.approx(reach[80]) and step.point / step.low90 == pytest.approx(reach[90])
    assert cb.forward_pass("bert_base", device, precision="fp32", software="eager", seq=128).tier == HERE
    assert cb.generate("gpt2", device, input_len=64, output_len=8, precision="fp32").tier == HERE
    text = cb.train_step("gpt2", device, micro_batch=2, seq=256, precision="fp32")
    assert text.tier == HERE
    several = cb.train_step("resnet50", [device, "h100-sxm"], micro_batch=8, precision="fp32")
    assert several.tier[0] == HERE != several.tier[1] and several.point[0] == pytest.approx(step.point)
    alone = cb.train_step("resnet50", "h100-sxm", micro_batch=8, precision="fp32").point
    assert several.point[1] == pytest.approx(alone, rel=1e-12)
    swept = cb.sweep("train_step", model="gpt2", accelerator=[device], micro_batch=2, seq=256, precision="fp32")
    assert swept["seconds"].iloc[0] == pytest.approx(text.point) and swept["tier"].iloc[0] == HERE


def test_a_device_with_other_figures_was_not_measured(calibration):
    faster = accelerator("twice the memory rate", like=calibration.accelerator, mem_bandwidth=2 * COPY)
    step = cb.train_step("resnet50", faster, micro_batch=8, precision="fp32")
    assert step.tier == "datasheet only"
    same = cb.train_step("resnet50", calibration.accelerator, micro_batch=8, precision="fp32")
    assert step.point < same.point and step.high80 / step.point > same.high80 / same.point


def test_a_kind_that_was_not_measured_keeps_its_own_interval():
    device = cb.measure.calibrate(artificial(asks=[each for each in ASKS if each[0] == "training step"])).accelerator
    assert cb.train_step("vgg16", device, micro_batch=2, precision="fp32").tier == HERE
    assert cb.forward_pass("vgg16", device, precision="fp32").tier == "datasheet only"


def test_a_report_of_single_operations_alone_gives_a_device_that_is_not_calibrated():
    found = cb.measure.calibrate(artificial(asks=[]))
    assert found.accelerator.calibrated is None and not found.judged and math.isnan(found.errors()["left_out"])
    assert "no network was measured" in found.summary()
    one = cb.measure.calibrate(artificial(asks=ASKS[:2]))
    assert one.accelerator.calibrated is None and "calibrating takes 2 networks" in one.left[0]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"processor": "AMD EPYC 9755 128-Core Processor", "cores": 2}, "EPYC 9755 (Turin), 2 of 128 cores"),
        (
            {"processor": "AMD EPYC 9755 128-Core Processor", "cores": 2, "torch_threads": 1},
            "EPYC 9755 (Turin), 1 of 128 cores",
        ),
        ({"processor": "Intel(R) Xeon(R) Platinum 8480+", "cores": 56}, "Xeon Platinum 8480+ (Sapphire Rapids)"),
        ({"processor": "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", "cores": 4}, "Core i7-1165G7 (laptop)"),
        ({"device_name": "NVIDIA H100 80GB HBM3"}, "H100 SXM5 80GB"),
    ],
)
def test_the_datasheet_is_that_of_the_machine_named(told, name):
    found, _ = fitted.sheet(Report("complete", "2026-01-02 03:04", {}, {"memory_bytes": 32e9, **told}, []))
    assert found.name.removesuffix(", changed") == name
    if told.get("cores") == 2:
        row, part = cb.accelerator("epyc-9755"), told.get("torch_threads", 2) / 128
        assert found.mem_bandwidth == pytest.approx(row.mem_bandwidth * part)
        assert found.peaks["peak_fp32"] == pytest.approx(row.peaks["peak_fp32"] * part)


@pytest.mark.parametrize("name", ["NVIDIA H100X Special", "EPYC 9755 GPU", "Xeon", "?"])
def test_a_gpu_that_the_catalogue_lacks_is_compared_with_a_gpu(name):
    report = Report("complete", "2026-01-02 03:04", {}, {"memory_bytes": 32e9, "device_name": name}, [])
    found, lacks = fitted.sheet(report)
    assert found.kind != "cpu" and lacks == name
    found, lacks = fitted.sheet(report, "h100-sxm")
    assert lacks == "" and found.name == "H100 SXM5 80GB"
    known = replace(report, environment={**report.environment, "device_name": "NVIDIA H100 80GB HBM3"})
    assert fitted.sheet(known)[1] == ""


def test_a_summary_names_the_gpu_that_stands_for_another():
    found = cb.measure.calibrate(artificial())
    assert found.summary().endswith("by the datasheet") and found.lacks == ""
    before = replace(found.before, name="H100 SXM5 80GB")
    told = replace(found, before=before, lacks="NVIDIA H100X").summary()
    assert told.endswith("by the datasheet of H100 SXM5 80GB (the catalogue has no NVIDIA H100X: give like=)")


@pytest.mark.all
def test_several_reports_of_one_machine_count_as_one(tmp_path):
    whole = artificial()
    apart = [
        replace(whole, rows=[each for each in whole.rows if ("model" in each) is network]) for network in (False, True)
    ]
    path = apart[1].write(tmp_path / "networks.json")
    assert cb.measure.calibrate([apart[0], path]).errors() == cb.measure.calibrate(whole.document()).errors()
    other = replace(whole, environment={**ENVIRONMENT, "processor": "Intel(R) Xeon(R) Gold 6148"})
    with pytest.raises(ValueError, match=r"one is of processor = .*9755.*, another of .*6148.*each machine by itself"):
        cb.measure.calibrate([whole, other])


def test_what_is_no_report_is_refused(tmp_path):
    whole = artificial().document()
    (tmp_path / "cut.json").write_text(json.dumps(whole, indent=1)[:3000])
    for bad, words in (
        (tmp_path / "cut.json", "cut.json ends in the middle"),
        (tmp_path / "gone.json", "gone.json cannot be read"),
        ({"architectures": ["GPT2"]}, "report is the configuration of a model"),
        (3, "report = 3 is no report; give what"),
        ([], "report = .* is empty"),
        ({**whole, "rows": [{**whole["rows"][0], "low_s": -1.0}]}, "low_s = -1.0 must be"),
        ({**whole, "rows": whole["rows"][-2:]}, "no matrix product or no memory bandwidth"),
    ):
        with pytest.raises(ValueError, match=words):
            cb.measure.calibrate(bad)
    with pytest.raises(KeyError, match="no-such-processor"):
        cb.measure.calibrate(whole, like="no-such-processor")


def test_a_network_that_cannot_be_predicted_is_told():
    report = artificial()
    other = [{**each, "model": "my_own_network"} if each.get("model") == "alexnet" else each for each in report.rows]
    found = cb.measure.calibrate(replace(report, rows=other))
    assert len(found.left) == 2 and all("my_own_network" in each for each in found.left)
    assert found.errors()["models"] == 6


def test_the_calibration_tells_itself(calibration):
    assert repr(calibration).startswith("<Calibration: this machine: median error ")
    assert calibration.lines()[-1] == calibration.summary() and "GFLOP/s" in " ".join(calibration.lines())
    assert "<table" in calibration._repr_html_()


def test_networks_in_numpy_and_in_pytorch_are_not_mixed():
    """Each is predicted as its library runs it; single operations of one may stand beside networks of the other."""
    whole = artificial(asks=ASKS[:4])
    numpy = [{**each, "path": "numpy"} if "model" in each else each for each in whole.rows]
    with pytest.raises(ValueError, match="of one ran in NumPy, of another in PyTorch"):
        cb.measure.calibrate([whole, replace(whole, rows=numpy)])
    found = cb.measure.calibrate(replace(whole, rows=numpy))
    assert set(found.predictions()["path"]) == {"numpy"} and found.errors()["models"] == 2
    step = cb.train_step("vgg16", found.before, micro_batch=2, precision="fp32", software="native")
    told = found.predictions().query("benchmark == 'training step' and model == 'vgg16'")
    assert told["before_s"].item() == pytest.approx(step.point), "convolutions as matrix products"
