"""Benchmarks of this machine: timing by a clock of our own, real small runs by NumPy, and files that are not ours."""

import io
import json
import os
import platform
import shutil
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cookbook as cb
from cookbook import __main__
from cookbook.__main__ import main
from cookbook.topics.machine import environment, host, report, suite
from cookbook.topics.machine.array_layers import Convolution, Maker
from cookbook.topics.machine.device import _narrow, captured
from cookbook.topics.machine.report import FIELDS, UNITS, Report, row
from cookbook.topics.machine.timing import Stopped, Watch, timed


class Clock:
    """A clock that calls move on by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Report:
    """A real run of the quick suite by NumPy alone."""
    folder = tmp_path_factory.mktemp("drive")
    found = cb.measure.run(quick=True, suites="micro", seconds=300, folder=folder)
    assert not list(folder.iterdir()), "the scratch file was left behind"
    return found


def written(**changes) -> dict:
    """A file of one result as JSON would hold it: 2 GFLOP in a median of 4 ms."""
    one = row("matmul", 2e9, [0.004, 0.005, 0.003], 1, case="1000x1000x1000", path="numpy", device="cpu")
    document = Report("complete", "2026-01-02 03:04", {"device": "numpy"}, {"processor": "A"}, [one]).document()
    document["rows"][0] |= changes
    return document


def saved(tmp_path: Path, content) -> Path:
    path = tmp_path / "results.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# ---- timing ---------------------------------------------------------------------------------------------------------
def test_short_calls_are_timed_in_samples_of_many():
    clock = Clock()
    watch = Watch(100.0, lambda: False, samples=5, sample_s=0.02, clock=clock)
    times, calls = timed(lambda: clock.pass_(0.001), watch)
    assert calls == 20 and len(times) == 5
    assert times == pytest.approx([0.001] * 5)


def test_the_first_call_is_no_sample_and_slow_calls_get_three():
    clock, costs, warm = Clock(), iter([50.0, 1.0, 2.0, 3.0, 4.0]), []
    watch = Watch(100.0, lambda: False, case_s=2.0, clock=clock)
    times, calls = timed(lambda: clock.pass_(next(costs)), watch, warm=lambda: warm.append(clock.now))
    assert (times, calls, warm) == ([1.0, 2.0, 3.0], 1, [50.0])


def test_waiting_for_the_device_belongs_to_the_sample():
    clock = Clock()
    watch = Watch(100.0, lambda: False, samples=3, sample_s=0.01, clock=clock)
    times, calls = timed(lambda: clock.pass_(0.5), watch, wait=lambda: clock.pass_(0.25))
    assert calls == 1 and times == [0.75, 0.75, 0.75]


def test_a_watch_stops_by_time_and_by_wish():
    clock = Clock()
    watch = Watch(10.0, lambda: clock.now < 1.0, clock=clock)
    with pytest.raises(Stopped, match="cancelled"):
        watch.check()
    clock.pass_(5.0)
    watch.check()
    clock.pass_(5.1)
    with pytest.raises(Stopped, match="out of time"):
        watch.check()


def test_samples_are_told_by_a_clock_of_their_own():
    """Other programs hold the run up for 5 s a call, of which the work takes 1 s."""
    wall, work = Clock(), Clock()
    watch = Watch(100.0, lambda: False, samples=3, clock=wall)
    watch.timer = work
    times, _ = timed(lambda: (wall.pass_(5.0), work.pass_(1.0)), watch)
    assert times == [1.0, 1.0, 1.0] and wall.now == 20.0


def test_a_row_has_the_median_and_quartiles_of_one_call():
    rate = row("matmul", 10.0, [5.0, 1.0, 3.0, 2.0, 4.0], 7, case="x", path="numpy", device="cpu")
    assert [rate[name] for name in report.TIMES] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (rate["value"], rate["unit"], rate["samples"], rate["calls"]) == (3.33333, "FLOP/s", 5, 7)
    delay = row("launch", 100.0, [0.002, 0.001], 1, case="x", path="torch", device="cuda")
    assert (delay["value"], delay["unit"]) == (1.5e-05, "s"), "100 launches in a median of 1.5 ms are 15 µs each"


# ---- a run ----------------------------------------------------------------------------------------------------------
def test_numpy_alone_measures_operations_memory_launches_and_the_drive(measured):
    assert measured.state == "complete"
    frame = measured.frame()
    assert {"matmul", "convolution", "memory", "launch", "disk sequential", "disk random"} <= set(frame["benchmark"])
    assert {"fp32", "fp64"} <= set(frame.loc[frame["benchmark"] == "matmul", "number_format"])
    assert (frame["samples"] >= 3).all() and (frame["low_s"] <= frame["median_s"]).all()
    product = frame[frame["case"] == "1024x1024x1024"].iloc[0]
    assert product["work"] == 2 * 1024**3
    add = frame[frame["case"].str.startswith("add")].iloc[0]
    assert add["work"] == 3 * 8 * 2**22, "an addition reads two arrays and writes one"
    assert {each["benchmark"] for each in measured.skipped} >= {"host copy", "all-reduce"}


def test_a_report_tells_the_machine_but_not_whose_it_is(measured):
    told = measured.environment
    assert told["cores"] >= 1 and told["python"] == platform.python_version() and 0 < told["speed_at_end"] < 100
    text = json.dumps(measured.document())
    for secret in (platform.node(), str(Path.home()), str(Path.cwd()), "cookbook-measure-"):
        assert len(secret) < 3 or secret not in text


@pytest.mark.skipif(find_spec("psutil") is None, reason="no psutil, so no memory of the device")
def test_a_real_run_gives_constants_of_this_machine(measured):
    found = cb.measure.calibrate(measured)
    frame = found.frame()
    assert np.isfinite(frame[["value", "low80", "high80"]]).all(axis=None) and (frame["low80"] > 0).all()
    assert {"matmul of 1024x1024x1024", "start of an operation, addition of one element"} <= set(frame["constant"])
    assert found.accelerator.mem_bandwidth > 0 and found.accelerator.calibrated is None
    assert cb.train_step("resnet50", found.accelerator, precision="fp32").point > 0
    assert found.before.kind == "cpu" and "single operations alone" in found.summary()


def test_clocks_are_the_range_seen_and_every_reason():
    assert environment.clocks([]) == {}
    seen = environment.clocks([(2e9, 4), (1e9, 0), (3e9, 8)])
    assert seen == {"clock_low_hz": 1e9, "clock_high_hz": 3e9, "gpu_throttle_reasons": "0xc"}


def test_the_cache_state_of_each_read_is_told(measured):
    reads = measured.frame().query("benchmark.str.startswith('disk')", engine="python")
    assert len(reads) == 2 and reads["method"].str.contains("cache").all()


def test_reads_cover_the_file_in_the_order_asked(tmp_path, monkeypatch):
    places = []
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, views, at: places.append(at) or real(file, views, at))
    with suite.ExitStack() as files:
        path = files.enter_context(host.scratch(tmp_path, 2**24))
        assert path.stat().st_size == 2**24
        sequential, random = (case.prepare() for case in host.drive(path, 2**24, files))
        sequential()
        assert places == [number * 2**20 for number in range(16)]
        places.clear()
        for _ in range(64):
            random()
    assert sorted(places) == [number * 4096 for number in range(4096)] and places != sorted(places)


@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_fio_reads_with_many_requests_at_once(tmp_path):
    with host.scratch(tmp_path, 2**24) as path:
        try:
            rows = host.by_fio(path, Watch(60.0, lambda: False))
        except ValueError as problem:
            pytest.skip(f"this folder cannot be read past the cache: {problem}")
        assert [(each["benchmark"], each["samples"], each["path"]) for each in rows] == [
            ("disk sequential", 3, "fio"),
            ("disk random", 3, "fio"),
        ]
        assert rows[0]["work"] == 2**20 and rows[1]["work"] == 1 and rows[1]["note"] == "32 requests at once"
        with pytest.raises(Stopped, match="cancelled"):
            host.by_fio(path, Watch(60.0, lambda: True))


def test_what_fio_writes_is_read_or_refused(monkeypatch, tmp_path):
    text = 'note: both iodepth >= 1\n{"fio version": "fio-3.33", "jobs": [{"read": {"iops": 250.5, "total_ios": 501}}]}'
    assert host.read_fio(text) == (250.5, 501)
    for broken in ("", "{", "[]", '{"jobs": []}', text.replace("250.5", "0"), text.replace("501", "null")):
        with pytest.raises(ValueError, match="past the page cache"):
            host.read_fio(broken)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="fio is not installed"):
        host.by_fio(tmp_path, Watch(1.0, lambda: False))


def test_a_convolution_by_windows_is_a_convolution():
    out = host.convolution(1, 2, 3, 4).prepare()()
    image = host.generator().random((1, 2, 6, 6)).astype(np.float32)
    weights = Convolution(Maker(), 2, 3, 3).weight.value
    by_hand = sum(
        image[0, c, 2 + i, 1 + j] * weights[1, c * 9 + i * 3 + j] for c in range(2) for i in range(3) for j in range(3)
    )
    assert out.shape == (1, 3, 4, 4) and out[0, 1, 2, 1] == pytest.approx(by_hand, rel=1e-5)


def test_products_of_a_language_model_are_those_of_its_layers():
    assert suite.layers_of("llama3_8b") == [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096)]


def test_rounds_add_samples_to_the_rows_that_are_there(monkeypatch):
    calls = []
    case = suite.Case("launch", "x", 1.0, lambda: lambda: calls.append(1), {"number_format": "fp32"})
    broken = suite.Case("memory", "y", 1.0, lambda: float("none"), {})
    monkeypatch.setattr(suite._Run, "_cases", lambda *given: iter([case, broken]))
    monkeypatch.setattr(suite._Run, "_rest", lambda *given: None)
    found = cb.measure.run(quick=True, suites="micro", seconds=300, rounds=3)
    assert [each["case"] for each in found.rows] == ["x"] and found.options["rounds"] == 3
    assert [each["case"] for each in found.skipped] == ["y"], "told once, not once a round"
    assert 9 <= found.rows[0]["samples"] <= 15, "three rounds of three to five samples"


@pytest.mark.parametrize("rounds", [0, 21, 1.5, True, "2"])
def test_rounds_that_cannot_be_are_refused(rounds):
    with pytest.raises(ValueError, match="whole number from 1 to 20"):
        cb.measure.run(rounds=rounds)


def test_progress_is_a_line_a_case_where_there_is_no_screen(capsys):
    cb.measure.progress_bar(2, 9, "matmul 256x256x256")
    assert capsys.readouterr().err == "[2/9] matmul 256x256x256\n"


def test_one_thread_is_timed_by_its_processor(monkeypatch):
    for name in environment.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(suite, "cores", lambda: 2)
    assert not suite.one_thread(None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert suite.one_thread(None)
    torch = SimpleNamespace(get_num_threads=lambda: 1)
    assert suite.one_thread(SimpleNamespace(name="cpu", torch=torch))
    assert not suite.one_thread(SimpleNamespace(name="cuda", torch=torch))


def test_cancelling_keeps_what_was_measured():
    begun = []
    found = cb.measure.run(
        quick=True,
        suites="micro",
        progress=lambda number, count, name: begun.append(name),
        cancelled=lambda: len(begun) > 1,
    )
    assert (found.state, len(found.rows)) == ("cancelled", 1) and begun[0] == "matmul 256x256x256"


def test_an_interrupt_from_the_keyboard_keeps_what_was_measured():
    def progress(number, count, name):
        if number == 2:
            raise KeyboardInterrupt

    found = cb.measure.run(quick=True, suites=["micro"], progress=progress)
    assert (found.state, len(found.rows)) == ("cancelled", 1)


def test_a_run_out_of_time_says_so():
    assert cb.measure.run(quick=True, seconds=1e-6).state == "out of time"


def test_without_torch_a_sentence_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name in ("torch", "PIL") else find_spec(name))
    with pytest.raises(ValueError, match=r"torch is not installed.*pip install 'dl-cookbook\[measure\]'"):
        cb.measure.run("cuda")
    found = cb.measure.run(None, quick=True, seconds=0.5)
    assert found.options["device"] == "numpy"
    found = cb.measure.run(quick=True, suites="micro", seconds=60)
    whys = {each["benchmark"]: each["why"] for each in found.skipped}
    assert found.state == "complete" and "dl-cookbook[measure]" in whys["all-reduce"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"folder": "no/such/folder"}, "no folder"),
    ],
)
def test_bad_questions_are_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        cb.measure.run(**asked)


def test_the_command_writes_a_file_that_can_be_read(tmp_path, capsys):
    target = tmp_path / "mine.json"
    main(["measure", "--device", "numpy", "--quick", "--suite", "micro", "--seconds", "2", "--out", str(target)])
    said = capsys.readouterr()
    assert "nothing was sent anywhere" in said.out and "[1/" in said.err
    assert cb.measure.read(target).options["device"] == "numpy"


def test_messages_of_libraries_lose_folders_and_names():
    assert environment.without_names(f"no file {Path.home() / 'x'}\n  here") == "no file .../x here"


def test_a_graph_keeps_what_it_works_on():
    """A graph holds addresses alone: were its tensors given back, it would read what others write there."""
    made = []
    graph = SimpleNamespace(replay=lambda: made.append("replayed"))
    stream = SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        Stream=lambda: stream,
        current_stream=lambda: stream,
        stream=nullcontext,
        CUDAGraph=lambda: graph,
        graph=nullcontext,
    )

    def call():
        made.append("called")

    held = ref(call)
    replay = captured(SimpleNamespace(torch=SimpleNamespace(cuda=cuda)), call)
    del call
    replay()
    assert made == ["called"] * 4 + ["replayed"] and held() is not None
    del replay
    assert held() is None


# ---- the file -------------------------------------------------------------------------------------------------------
def test_a_file_comes_back_as_it_was_written(measured, tmp_path):
    path = measured.write(tmp_path / "results.json")
    again = cb.measure.read(path)
    assert again == measured
    pd.testing.assert_frame_equal(again.frame(), measured.frame())
    assert list(again.frame().columns) == list(FIELDS)


def test_units_are_those_of_the_catalogue():
    for unit in set(UNITS.values()):
        assert cb.si(1.0) == 1.0 and cb.si(f"1 {unit}") == 1.0, unit


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": "GFLOP/s"}, "a matmul is given in FLOP/s"),
        ({"value": 500.0}, "work and median time give 5e"),
        ({"median_s": 4.0, "q1_s": 3.0}, "in this order, in seconds"),
        ({"low_s": -1.0}, "must be above 0"),
        ({"work": 0}, "must be above 0"),
        ({"work": "2 GFLOP"}, "a number without a unit"),
        ({"samples": 2.5}, "whole number"),
        ({"samples": True}, "a number without a unit"),
        ({"benchmark": "linpack"}, "must be one of matmul"),
        ({"speed": 1}, "a result has no field 'speed'"),
        ({"case": ""}, "text of 1 to"),
        ({"value": 1e40}, "beyond any measurement"),
        ({"median_s": None}, "median_s is missing"),
        ({"benchmark": "decode", "unit": "tokens/s", "model": "gpt2", "batch": 1}, "seq is missing"),
    ],
)
def test_a_row_that_cannot_be_is_named(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words) as told:
        cb.measure.read(saved(tmp_path, written(**changes)))
    assert "results.json: row 1" in str(told.value) and str(tmp_path) not in str(told.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("{", "truncated"),
        ('{"a": [1, 2', "truncated"),
        ('{"a": "b', "truncated"),
        ("{'a': 1}", "is not JSON"),
        ("[1, 2]", "another JSON file"),
        ("3", "another JSON file"),
        ('{"traceEvents": []}', "profiler trace"),
        ('{"fio version": "fio-3.36"}', "result of fio"),
        ('{"architectures": ["X"]}', "configuration of a model"),
        ("[" * 200_000, "nested too deeply"),
        ('{"schema": NaN}', "NaN is no figure"),
        ('{"a": ' + "9" * 5000 + "}", "5,000 digits"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        (b"\x80\x04\x95", "not UTF-8"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(tmp_path, content, words):
    with pytest.raises(ValueError, match=words):
        cb.measure.read(saved(tmp_path, content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "later cookbook"),
        ({"version": "1"}, "whole number"),
        ({"version": True}, "whole number"),
        ({"state": "done"}, "complete, cancelled"),
        ({"rows": {}}, "rows = .* must be a list"),
        ({"rows": [1]}, "row 1: 1 must be an object"),
        ({"environment": [1]}, "must be an object"),
        ({"environment": {"a": "x" * 3000}}, "3,000 letters"),
        ({"options": {"a": 1e300}}, "beyond any measurement"),
        ({"skipped": [[[[[[[[[[1]]]]]]]]]]}, "nested too deeply"),
        ({"rows": [{}] * 10_001}, "more than 10,000 rows"),
    ],
)
def test_a_document_that_cannot_be_is_refused(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        cb.measure.read(saved(tmp_path, written() | change))


def test_a_missing_or_large_file_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"gone.json cannot be read"):
        cb.measure.read(tmp_path / "gone.json")
    with pytest.raises(ValueError, match="give the path"):
        cb.measure.read(3)
    monkeypatch.setattr(report, "MAX_FILE_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10"):
        cb.measure.read(saved(tmp_path, written()))


@pytest.mark.parametrize("kept", range(1, 20))
def test_every_truncation_is_told(tmp_path, kept):
    text = json.dumps(written(), indent=1)
    with pytest.raises(ValueError, match=r"truncated|not JSON"):
        cb.measure.read(saved(tmp_path, text[: len(text) * kept // 20]))


@given(place=st.integers(0, 5000), change=st.binary(min_size=0, max_size=4), cut=st.integers(0, 40))
def test_mutated_files_are_read_or_refused_in_a_sentence(tmp_path_factory, place, change, cut):
    data = json.dumps(written()).encode()
    at = place % len(data)
    path = saved(tmp_path_factory.mktemp("mutated"), data[:at] + change + data[at + cut :])
    try:
        assert isinstance(cb.measure.read(path), Report)
    except ValueError as problem:
        assert 10 < len(str(problem)) < 600


# ---- beside predictions ---------------------------------------------------------------------------------------------
def network_report(seconds: float, **more) -> Report:
    told = {
        "case": "resnet50, batch 128",
        "path": "torch",
        "device": "cuda",
        "model": "resnet50",
        "batch": 128,
        "number_format": "bf16",
        "method": "eager",
    }
    rows = [row("training step", 128.0, [seconds] * 3, 1, **(told | more))]
    rows.append(row("matmul", 2e9, [1e-3], 1, case="x", path="torch", device="cuda", number_format="bf16"))
    rows.append(row("matmul", 2e9, [4e-3], 1, case="x", path="torch", device="cuda", number_format="bf16"))
    rows.append(row("memory", 1e9, [1e-3], 1, case="x", path="torch", device="cuda", number_format="fp32"))
    return Report("complete", "2026-01-02 03:04", {}, {"device_name": "A", "device_memory_bytes": 2**34}, rows)


def test_a_measured_step_stands_beside_its_prediction():
    step = cb.train_step("resnet50", "h100-sxm", micro_batch=128, precision="bf16", software="PyTorch")
    same = cb.measure.beside(network_report(float(step.point)), "h100-sxm")
    assert len(same) == 1 and same["ratio"][0] == pytest.approx(1.0, rel=1e-5) and same["inside80"][0]
    slow = cb.measure.beside(network_report(10 * float(step.point)), "h100-sxm")
    assert slow["ratio"][0] == pytest.approx(0.1, rel=1e-5) and not slow["inside80"][0]
    line = cb.measure.summary(slow).iloc[0]
    assert (line["rows"], line["predicted"], line["inside80"]) == (1, 1, 0.0)
    assert line["median_error"] == pytest.approx(0.9, rel=1e-5)


def test_what_cannot_be_predicted_says_why():
    device = cb.measure.measured_device(network_report(1.0))
    found = cb.measure.beside(network_report(0.1, number_format="fp16"), device)
    assert "fp16" in found["why"][0] and pd.isna(found["ratio"][0])


def test_a_network_that_the_zoo_lacks_says_why():
    found = cb.measure.beside(network_report(0.1, model="my_own_network"), "h100-sxm")
    assert "my_own_network" in found["why"][0] and pd.isna(found["ratio"][0])
    with pytest.raises(KeyError, match="no-such-gpu"):
        cb.measure.beside(network_report(0.1), "no-such-gpu")


def test_the_record_of_a_device_has_its_best_rates():
    device = cb.measure.measured_device(network_report(1.0), "mine")
    assert (device.peaks["peak_bf16"], device.mem_bandwidth, device.memory_bytes) == (2e12, 1e12, 2**34)
    empty = Report("cancelled", "2026-01-02 03:04", {}, {}, [])
    with pytest.raises(ValueError, match="no matrix product"):
        cb.measure.measured_device(empty)
    with pytest.raises(ValueError, match=r"give what cb\.measure\.run"):
        cb.measure.beside({}, "h100-sxm")


def test_a_shell_that_writes_ascii_alone_gets_codes_for_other_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", shell)
    monkeypatch.setitem(__main__.MAINTAINERS, "check-data", ("", lambda _: print("5 µs"), ()))
    main(["dev", "check-data"])
    shell.seek(0)
    assert shell.read() == "5 \\xb5s\n"


def test_a_gpu_is_not_judged_by_the_clock_of_its_processor(monkeypatch):
    """Threads of the processor may be parked at the end; of a GPU its own clocks are read."""
    for name, told in (("cpu", True), ("cuda", False)):
        times = iter([1.0, 60.0])
        monkeypatch.setattr(suite._Run, "_reference", lambda self, times=times: next(times, 60.0))
        monkeypatch.setattr(suite, "environment", lambda device: {})
        device = SimpleNamespace(name=name, torch=SimpleNamespace(get_num_threads=lambda: 2))
        found = suite._Run(device, Watch(9.0, lambda: False), True, None).whole((), None, {"rounds": 1}).environment
        assert ("throttling" in found) is told and ("speed_at_end" in found) is told


def test_narrow_products_of_few_rows_are_left_out_with_the_reason():
    with pytest.raises(ValueError, match="int8 from 17 rows on; this product has 16"):
        _narrow(SimpleNamespace(torch=None), 16, 64, 64, "int8")
