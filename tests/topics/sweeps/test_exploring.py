"""Explorations: what they keep is what a table of all scenarios would tell, wherever they run and whoever dies."""

from __future__ import annotations

import importlib.util
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cookbook as cb
from cookbook.topics.sweeps import exploring
from cookbook.topics.sweeps.chunks import MAX_PENDING, RETRIES, Parts, spread
from cookbook.topics.sweeps.exploring import QUANTILE_ERROR, Explored, explore, pareto_front

AXES: dict[str, Any] = {
    "model": ["llama2_7b", "llama2_13b"],
    "accelerator": ["h100-sxm", "a100-sxm-80gb"],
    "devices": [8, 16, 32, 64, 128],
    "tp": [1, 2, 4, 8],
    "pp": [1, 2, 4],
    "zero": [0, 1, 3],
    "recompute": ["none", "full"],
    "micro_batch": [1, 2, 4],
    "global_batch": [128, 256, 384, 512],
}
ASKED: dict[str, Any] = {
    "best": {"tokens_per_s": "most"},
    "front": {"tokens_per_s": "most", "devices": "least", "memory_bytes": "least"},
    "quantiles": ("seconds", "memory_bytes", "devices"),
    "keep": 25,
    "size": 1000,
    "progress": False,
}
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Every scenario, as a sweep gives them."""
    return cb.sweep("train_step", progress=False, **AXES)


@pytest.fixture(scope="module")
def serial() -> Explored:
    """The exploration in this process."""
    return explore("train_step", **ASKED, **AXES)


def same(one: Explored, other: Explored) -> None:
    assert (one.rows, one.answered, one.fitting) == (other.rows, other.answered, other.fitting)
    for name in ("best", "front", "quantiles"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True, check_dtype=False)


# What is kept, against the table of everything.


def test_counts_and_the_best_are_those_of_the_whole_table(table: pd.DataFrame, serial: Explored) -> None:
    fits = table[table["fits"] == "yes"]
    assert (serial.rows, serial.answered, serial.fitting) == (17_280, table["seconds"].notna().sum(), len(fits))
    order = fits.sort_values("tokens_per_s", ascending=False, kind="stable").head(25)
    assert serial.best["row"].tolist() == order.index.tolist()
    for name in ("model", "devices", "global_batch", "seconds", "bottleneck", "tier"):
        expected = order[name].astype(str if name == "model" else order[name].dtype).tolist()
        assert [str(each) if name == "model" else each for each in serial.best[name]] == expected


def test_the_front_is_what_nothing_beats(table: pd.DataFrame, serial: Explored) -> None:
    """By comparing each that is not beaten yet with all, and keeping the first of equals."""
    fits = table[table["fits"] == "yes"]
    points = np.column_stack([-fits["tokens_per_s"], fits["devices"], fits["memory_bytes"]]).astype(float)
    beaten = pd.DataFrame(points).duplicated().to_numpy(copy=True)
    for at, point in enumerate(points):
        if not beaten[at]:
            beaten |= (point <= points).all(axis=1) & (point < points).any(axis=1)
    found = fits.index[~beaten].tolist()
    assert serial.front["row"].tolist() == found and 3 < len(found) < 1000


def test_quantiles_keep_their_error(table: pd.DataFrame, serial: Explored) -> None:
    fits = table[table["fits"] == "yes"]
    for name in ASKED["quantiles"]:
        exact = np.quantile(fits[name].astype(float), serial.quantiles.index, method="inverted_cdf")
        assert np.abs(serial.quantiles[name] / exact - 1).max() <= QUANTILE_ERROR + 1e-12
        assert serial.quantiles[name].iloc[[0, -1]].tolist() == [fits[name].min(), fits[name].max()]


def test_rows_that_do_not_fit_count_where_asked(table: pd.DataFrame) -> None:
    found = explore("train_step", **ASKED | {"fitting": False, "best": {"memory_bytes": "most"}}, **AXES)
    assert found.best["memory_bytes"].iloc[0] == table["memory_bytes"].max() and found.best["fits"].iloc[0] == "no"


def per_device(columns: Any) -> Any:
    """Tokens per second of one device."""
    return columns["tokens_per_s"] / columns["devices"]


def test_a_measure_may_be_a_function(table: pd.DataFrame) -> None:
    found = explore("train_step", **ASKED | {"best": {per_device: "most"}}, **AXES)
    fits = table[table["fits"] == "yes"]
    most = (fits["tokens_per_s"] / fits["devices"]).max()
    assert found.best["tokens_per_s"].iloc[0] / found.best["devices"].iloc[0] == most


@pytest.mark.parametrize("of", ["forward_pass", "generate"])
def test_other_questions_are_explored_as_they_are_swept(of: str) -> None:
    models = ["resnet50", "vgg16"] if of == "forward_pass" else ["llama2_7b", "gpt2"]
    axes = {"model": models, "accelerator": ["h100-sxm", "a100-sxm-80gb"], "batch": [1, 2, 4, 8]}
    table = cb.sweep(of, **axes)
    found = explore(of, best={"seconds": "least"}, keep=3, **axes)
    fits = table[table["fits"] == "yes"].sort_values("seconds", kind="stable").head(3)
    assert found.best["row"].tolist() == fits.index.tolist() and found.rows == 16


def test_networks_whose_memory_is_not_estimated_are_not_left_out() -> None:
    """Of ResNet-50's step no memory is estimated: it may fit, and two batches are two rows that have an answer."""
    found = explore(
        "train_step", model="resnet50", accelerator="h100-sxm", global_batch=[32, 64], best={"seconds": "least"}
    )
    assert (found.answered, found.fitting) == (2, 2) and found.best["global_batch"].tolist() == [32, 64]
    assert found.best["memory_bytes"].isna().all()


def only_of_64(columns: Any) -> Any:
    """A number of one batch alone: no other row can be ranked by it."""
    return np.where(columns["global_batch"] == 64, 1.0, np.nan)


def never(columns: Any) -> Any:
    """No number of any row."""
    return np.full(len(columns["seconds"]), np.nan)


@pytest.mark.parametrize("way", ["least", "most"])
def test_rows_without_a_number_are_not_the_best(way: str) -> None:
    axes = {"model": "resnet50", "accelerator": "h100-sxm", "global_batch": [32, 64, 128]}
    assert explore("train_step", best={only_of_64: way}, **axes).best["global_batch"].tolist() == [64]
    assert len(explore("train_step", best={never: way}, front={never: way, "seconds": way}, **axes).best) == 0


def test_a_rate_that_is_a_time_ranks_nothing() -> None:
    """Of steps of language models `rate` is seconds: "most" of it would be the slowest."""
    axes = {"model": ["resnet50", "llama2_7b"], "accelerator": "h100-sxm", "global_batch": [32, 64]}
    for asked in ({"best": {"rate": "most"}}, {"front": {"rate": "most"}}, {"quantiles": ["rate"]}):
        with pytest.raises(ValueError, match="give tokens_per_s or seconds"):
            explore("train_step", **asked, **axes)
    networks = explore("train_step", best={"rate": "most"}, **axes | {"model": "resnet50"}).best
    assert networks["rate"].iloc[0] == networks["rate"].max()


def test_where_nothing_fits_the_tables_are_empty() -> None:
    found = explore(
        "train_step",
        model="llama2_70b",
        accelerator="v100-sxm2-16gb",
        devices=1,
        tp=1,
        global_batch=8,
        front={"seconds": "least"},
    )
    assert found.fitting == 0 and len(found.best) == len(found.front) == 0 and found.quantiles.isna().all().all()


# Parts.


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(1, 60))
def test_parts_hold_every_row_once_and_in_order(sizes: list[int], most: int) -> None:
    parts, rows = Parts(sizes, most), list(itertools.product(*map(range, sizes)))
    found: list[tuple[int, ...]] = []
    for number in range(len(parts)):
        start, cuts = parts[number]
        assert start == len(found)
        held = list(itertools.product(*(range(cut.start, cut.stop) for cut in cuts)))
        assert 1 <= len(held) <= most
        found += held
    assert found == rows


points = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=40)


@given(points, st.integers(1, 3), st.integers(1, 39))
def test_a_front_of_fronts_is_the_front(given_points: list[list[int]], measures: int, cut: int) -> None:
    scores, rows = np.array(given_points, dtype=float)[:, :measures], np.arange(len(given_points))
    whole = set(pareto_front(scores, rows))
    beaten = [
        ((scores <= one).all(axis=1) & ((scores < one).any(axis=1) | (rows < row))).any()
        for row, one in zip(rows, scores, strict=True)
    ]
    assert whole == set(rows[~np.array(beaten)])
    sides = [part[pareto_front(scores[part], part)] for part in (rows[cut:], rows[:cut]) if len(part)]
    both = np.concatenate(sides)
    assert set(both[pareto_front(scores[both], both)]) == whole


# Other places to compute.


@pytest.mark.parametrize("places", [2, 3])
def test_threads_find_the_same(places: int, serial: Explored) -> None:
    with ThreadPoolExecutor(places) as pool:
        same(explore("train_step", executor=pool, **ASKED, **AXES), serial)


def test_a_sweep_in_parts_is_the_sweep(table: pd.DataFrame) -> None:
    with ThreadPoolExecutor(2) as pool:
        swept = cb.sweep("train_step", progress=False, executor=pool, **AXES)
        networks = {"model": ["resnet50", "llama2_7b"], "accelerator": ["h100-sxm"], "global_batch": [64, 128]}
        mixed = cb.sweep("train_step", executor=pool, **networks)
    pd.testing.assert_frame_equal(swept, table, check_exact=True)
    pd.testing.assert_frame_equal(mixed, cb.sweep("train_step", **networks), check_exact=True)
    with pytest.raises(ValueError, match=r"executor = .* goes with train_step"):
        cb.sweep(model="resnet50", executor=pool)


class Deadly(ProcessPoolExecutor):
    """A pool of which one process is killed when the third part is given out."""

    killed = 0
    count = 0

    def submit(self, *asked: Any, **more: Any) -> Future[Any]:
        future = super().submit(*asked, **more)
        self.count += 1
        if self.count == 3:
            self.killed = next(iter(self._processes))
            os.kill(self.killed, signal.SIGKILL)
        return future


def test_a_killed_worker_loses_nothing_that_was_kept(
    tmp_path: Path, serial: Explored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how to go on, and the same call with a new pool does."""
    monkeypatch.setattr(exploring, "CHECKPOINT_SECONDS", 0.0)
    asked = {"checkpoint": tmp_path / "kept.json", **ASKED, **AXES}
    with Deadly(2, SPAWN) as pool:
        with pytest.raises(RuntimeError, match=r"a worker died, .*fewer workers.*checkpoint"):
            explore("train_step", executor=pool, **asked)
        assert pool.killed
    with ProcessPoolExecutor(2, SPAWN) as pool:
        same(explore("train_step", executor=pool, **asked), serial)


def fatal(what: Any, number: int) -> int:
    """Dies of part 2."""
    if number == what:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_part_that_kills_its_worker_is_told() -> None:
    with ProcessPoolExecutor(1, SPAWN) as pool, pytest.raises(RuntimeError, match=r"a worker died, .*memory"):
        list(spread(fatal, 2, range(3), pool))


def wrong(what: Any, number: int) -> int:
    """Fails of part 2."""
    if number == 2:
        raise ValueError(what)
    return number


@pytest.mark.parametrize("make", [lambda: None, lambda: ThreadPoolExecutor(2)])
def test_what_the_work_itself_raises_is_raised(make: Callable[[], Executor | None]) -> None:
    pool = make()
    with pytest.raises(ValueError, match="so it is"):
        list(spread(wrong, "so it is", range(10 * MAX_PENDING), pool))
    if pool:
        pool.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers of dask on this machine, each a process."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as found:
        yield found


@pytest.mark.all
def test_dask_finds_the_same_though_a_worker_is_killed(cluster: Any, serial: Explored) -> None:
    from distributed import Client

    with Client(cluster) as client:
        workers = sorted(client.run(os.getpid).values())
        first = iter([workers[0]])

        class Killing:
            """The client's executor; a worker is killed when the third part is given out."""

            def __init__(self) -> None:
                self.inner, self.count = client.get_executor(pure=False, retries=RETRIES), 0

            def submit(self, *asked: Any) -> Any:
                future = self.inner.submit(*asked)
                self.count += 1
                if self.count == 3:
                    os.kill(next(first), signal.SIGKILL)
                return future

        same(explore("train_step", executor=Killing(), **ASKED, **AXES), serial)
        assert next(first, None) is None
        same(explore("train_step", executor=client, **ASKED, **AXES), serial)


# Going on after the process itself died.


def test_a_killed_process_goes_on_where_it_was(tmp_path: Path, serial: Explored, monkeypatch: Any) -> None:
    """It is killed right after the fourth time that it kept what it had found: at the start, and after three parts."""
    code = f"""
        import os, signal
        from cookbook.topics.sweeps import exploring
        keep, kept = exploring._save, []
        exploring.CHECKPOINT_SECONDS = 0.0
        def save(*given):
            keep(*given)
            kept.append(1)
            if len(kept) == 4:
                os.kill(os.getpid(), signal.SIGKILL)
        exploring._save = save
        exploring.explore("train_step", checkpoint="kept.json", **{ASKED!r}, **{AXES!r})
    """
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["done"] == [0, 1, 2] and kept["found"]["rows"] < 17_280
    computed, reduced = [], exploring._reduced

    def counting(question: Any, number: int) -> Any:
        computed.append(number)
        return reduced(question, number)

    monkeypatch.setattr(exploring, "_reduced", counting)
    same(explore("train_step", checkpoint=tmp_path / "kept.json", **ASKED, **AXES), serial)
    parts = len(exploring.parts_of({name: each for name, each in AXES.items()}, 1000))
    assert computed == list(range(3, parts))
    same(explore("train_step", checkpoint=tmp_path / "kept.json", **ASKED, **AXES), serial)
    assert len(computed) == parts - 3 and list(tmp_path.iterdir()) == [tmp_path / "kept.json"]
    with pytest.raises(ValueError, match="another exploration"):
        explore("train_step", checkpoint=tmp_path / "kept.json", **ASKED | {"keep": 24}, **AXES)


def written(path: Path, text: str) -> Any:
    """The function `measure` of a module whose file says it is so."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["written"] = module
    spec.loader.exec_module(module)
    return module.measure


def test_a_checkpoint_answers_no_other_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambdas of one scope have one name, and a function may be written anew under its old one."""
    axes = {"model": "llama2_7b", "accelerator": "h100-sxm", "devices": 8, "global_batch": [32, 64]}
    asked = {"checkpoint": tmp_path / "kept", **axes}
    for strange in (lambda c: c["seconds"], lambda c: -c["seconds"], partial(per_device), np.log):
        with pytest.raises(ValueError, match="functions with a name at the top of a module"):
            explore("train_step", best={strange: "least"}, **asked)
    exec("def unwritten(c):\n    return c['seconds']", space := {"__name__": "nowhere"})
    with pytest.raises(ValueError, match="unwritten: define it in a file or in a cell of a notebook"):
        explore("train_step", best={space["unwritten"]: "least"}, **asked)
    assert not list(tmp_path.iterdir())
    one = explore("train_step", best={per_device: "most"}, **asked)
    same(explore("train_step", best={per_device: "most"}, **asked), one)
    monkeypatch.setitem(sys.modules, "written", None)
    asked["checkpoint"], file = tmp_path / "other", tmp_path / "written.py"
    texts = ["def measure(c):\n    return c['seconds']\n", "def measure(c):\n    return -c['seconds']\n"]
    explore("train_step", best={written(file, texts[0]): "most"}, **asked)
    explore("train_step", best={written(file, "# Read again.\n" + texts[0]): "most"}, **asked)
    with pytest.raises(ValueError, match="another exploration"):
        explore("train_step", best={written(file, texts[1]): "most"}, **asked)
    asked["checkpoint"] = tmp_path / "kept"
    monkeypatch.setattr("cookbook.__version__", "0.0.1")
    with pytest.raises(ValueError, match="another exploration"):
        explore("train_step", best={per_device: "most"}, **asked)


def only_large(columns: Any) -> Any:
    """A number of batches from 256 alone: those of the last part."""
    return np.where(columns["global_batch"] >= 256, columns["global_batch"], np.nan)


def test_an_exploration_goes_on_after_a_part_without_a_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 rows in two parts of 1,000; batches of the second have a score, of which 256 is the least."""
    batches = [128] * 1000 + [256 + each for each in range(1000)]
    asked = {
        "model": "resnet50",
        "accelerator": "h100-sxm",
        "global_batch": batches,
        "size": 1000,
        "best": {only_large: "least"},
        "front": {only_large: "least", "seconds": "least"},
        "keep": 3,
        "checkpoint": tmp_path / "kept",
        "progress": False,
    }
    reduced = exploring._reduced

    def dies(question: Any, number: int) -> Any:
        if number == 1:
            raise KeyboardInterrupt
        return reduced(question, number)

    monkeypatch.setattr(exploring, "_reduced", dies)
    monkeypatch.setattr(exploring, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        explore("train_step", **asked)
    assert json.loads((tmp_path / "kept").read_text())["done"] == [0]
    monkeypatch.setattr(exploring, "_reduced", reduced)
    found = explore("train_step", **asked)
    assert found.rows == 2000 and found.best["global_batch"].tolist() == [256, 257, 258]
    assert found.front["global_batch"].iloc[0] == 256


def test_a_full_disk_leaves_the_checkpoint_whole(tmp_path: Path, serial: Explored) -> None:
    """A file may have 400 bytes: the checkpoint at the start fits, the one with rows does not."""
    code = f"""
        import resource
        from cookbook.topics.sweeps import exploring
        exploring.CHECKPOINT_SECONDS = 0.0
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))
        exploring.explore("train_step", checkpoint="kept.json", **{ASKED!r}, **{AXES!r})
    """
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    last = died.stderr.splitlines()[-1]
    assert last.startswith("ValueError: checkpoint = 'kept.json' cannot be written (File too large); make room"), last
    assert list(tmp_path.iterdir()) == [tmp_path / "kept.json"]
    assert json.loads((tmp_path / "kept.json").read_text())["done"] == []
    same(explore("train_step", checkpoint=tmp_path / "kept.json", **ASKED, **AXES), serial)


def test_a_checkpoint_with_one_figure_changed_is_refused(tmp_path: Path) -> None:
    """Whichever figure it is: none of them may get into an answer, or stop it without a word of the file."""
    asked = {
        "model": "llama2_7b",
        "accelerator": "h100-sxm",
        "devices": [8, 16],
        "global_batch": [32, 64],
        "best": {"tokens_per_s": "most"},
        "checkpoint": tmp_path / "kept",
    }
    explore("train_step", **asked)
    whole = (tmp_path / "kept").read_text()
    figures = [at for at, letter in enumerate(whole) if letter in "123456789"]
    for at in figures[:: len(figures) // 60]:
        (tmp_path / "kept").write_text(f"{whole[:at]}{int(whole[at]) - 1}{whole[at + 1 :]}")
        with pytest.raises(ValueError, match="or it was damaged"):
            explore("train_step", **asked)
    (tmp_path / "kept").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="or it was damaged"):
        explore("train_step", **asked)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"question": 1}', '{"question": "", "done": 7, "found": {}}'])
def test_what_is_no_checkpoint_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match="is no checkpoint"):
        explore("train_step", checkpoint=tmp_path / "file", **ASKED, **AXES)


# What cannot be.


@pytest.mark.parametrize(
    ("wrong_argument", "words"),
    [
        ({"best": {"beauty": "most"}}, "best = 'beauty' is no measure; there are seconds"),
        ({"best": {"seconds": "fast"}}, "best = 'fast' for 'seconds': give 'least' or 'most'"),
        ({"best": {}}, "best has 0 measures"),
        ({"best": {"model": "most"}}, "best = 'model' is no measure"),
        ({"quantiles": ("recompute",)}, "quantiles = 'recompute'"),
        ({"executor": 7}, "executor = 7 takes no work"),
        ({"colour": 1}, "unknown axis 'colour'"),
        ({"tp": []}, "tp = "),
        ({"model": []}, "model"),
        ({"recompute": "perhaps"}, "recompute"),
        ({"checkpoint": "no/such/folder/file"}, "no/such/folder"),
    ],
)
def test_an_exploration_that_cannot_be_is_refused(wrong_argument: dict[str, Any], words: str) -> None:
    given_all = {"of": "train_step", **ASKED, **AXES} | wrong_argument
    with pytest.raises((ValueError, OSError)) as refused:
        explore(given_all.pop("of"), **given_all)
    assert words in str(refused.value)


def test_a_sweep_that_is_too_large_names_the_way() -> None:
    with pytest.raises(ValueError, match=r"cb\.planning\.explore"):
        cb.sweep(
            "train_step",
            model="llama2_7b",
            accelerator="h100-sxm",
            devices=list(range(1, 5001)),
            global_batch=list(range(1, 5002)),
        )


@pytest.mark.all
def test_a_million_scenarios_need_no_table() -> None:
    """Memory of one part; a table would take some hundred MB. Counted in a process of its own."""
    axes = {**AXES, "global_batch": list(range(128, 128 + 4 * 240, 4))}
    code = f"""
        import resource, cookbook as cb
        def most():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        cb.planning.explore("train_step", **{ASKED!r}, **{AXES!r})
        before = most()
        found = cb.planning.explore("train_step", **{ASKED | {"size": 65536}!r}, **{axes!r})
        assert found.rows == 1_036_800, found.rows
        print(most() - before)
    """
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 200e6
