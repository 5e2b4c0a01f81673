"""Matching storage with accelerators: the rate of each stage, the bottleneck, and what to change first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as entries
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from cookbook import units
from cookbook.catalog.fields import Amounts, Field, Names, checked, columns
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import Refused, refused
from cookbook.formulas import storage_rates
from cookbook.hardware import Accelerator, Machine, Systems
from cookbook.prediction.engine import Estimate, estimate_rows, prepare
from cookbook.prediction.kinds import input_pipeline_arguments as arguments
from cookbook.prediction.kinds.input_pipeline import (
    KIND,
    STAGES,
    Change,
    chain,
    changes_of,
    most_accelerators,
    ranges,
    resolve,
)
from cookbook.prediction.scenario import Scenario, fields, scenario
from cookbook.result import Result, plain, short
from cookbook.workloads.zoo import Workload

DAY = 86400.0
# Figures of a scenario that a frame has a column for: all but stages, ranges and words.
_FIGURES = (
    "samples_per_s",
    "first_samples_per_s",
    "utilisation",
    "first_utilisation",
    "bottleneck",
    "fits",
    "largest_accelerators",
    "hit_rate",
    "credit_seconds",
    "warm_up_seconds",
    "first_epoch_seconds",
    "later_epoch_seconds",
    "total_seconds",
    "checkpoint_bytes",
    "checkpoint_stall",
    "idle_share",
    "usd_per_hour",
    "idle_usd_per_hour",
    "endurance_needed",
    "endurance_bought",
    "drive_years",
    "usd_per_read_rate",
    "why",
)


@dataclass(frozen=True, eq=False, repr=False)
class StorageMatch(Result):
    """A match of an input chain with its accelerators: numbers for one scenario, arrays for several.

    Attributes
    ----------
    stages : mapping of str to numpy.ndarray
        Samples per second that each stage could do for all accelerators: storage, network, reading (both with the page
        cache, later epochs), decoding, copying, accelerators.
    latency : mapping of str to numpy.ndarray
        Seconds of one sample in a stage; of one step for the accelerators.
    bottleneck : numpy.ndarray of str
        Slowest stage in later epochs: storage, network, decoding, copying or accelerators.
    credit_seconds : numpy.ndarray
        Time until burst credits of the storage are used up; infinite where they never are, or where there are none.
        Later epochs are what holds after them; the first epoch, and the time of all, count what they lend.
    samples_per_s, first_samples_per_s : numpy.ndarray
        Trained samples per second in later epochs and in the first one, checkpoints included.
    utilisation, first_utilisation : numpy.ndarray
        Part of the time that accelerators compute, checkpoints apart, later epochs and first.
    samples_range, utilisation_range : tuple of numpy.ndarray
        80 % intervals in later epochs, low and high: of the predicted step, of decoding and of storage together; a step
        that was given has none.
    largest_accelerators : numpy.ndarray
        Most accelerators on the same hosts and storage that keep `bar`, later epochs.
    bar : float
        Utilisation to keep.
    hit_rate : numpy.ndarray
        Reads of later epochs that the page cache serves.
    warm_up_seconds, first_epoch_seconds, later_epoch_seconds, total_seconds : numpy.ndarray
        Time to the first batch, of the first and of a later epoch, and of all.
    checkpoint_bytes, checkpoint_stall : numpy.ndarray
        Size of a checkpoint [B], and share of the time for which training waits for it.
    idle_share : numpy.ndarray
        Part of the time that accelerators wait, for input or checkpoints.
    usd_per_hour, idle_usd_per_hour, price_basis
        An hour of all accelerators and of their waiting, NaN where no price is known; what the price rests on.
    endurance_needed, endurance_bought, drive_years : numpy.ndarray
        Drive writes per day by checkpoints and one fill per run, at most one fill per day; those of the datasheet;
        years until they are used up.
    usd_per_read_rate : numpy.ndarray
        Price of a drive over its read bandwidth [USD s/B]; NaN where price or capacity are not known.
    changes : tuple of Change
        What to change first, best first.
    assumed : numpy.ndarray of str
        Fields that were not given, with the value taken.
    remark : numpy.ndarray of str
        What to mind about the figures.
    why : numpy.ndarray of str
        Why a scenario has no numbers; "" where it has.
    """

    _class_in_repr = False
    stages: Mapping[str, Any] = field(repr=False)
    latency: Mapping[str, Any] = field(repr=False)
    bottleneck: Any
    credit_seconds: Any
    samples_per_s: Any
    first_samples_per_s: Any
    utilisation: Any
    first_utilisation: Any
    samples_range: Any
    utilisation_range: Any
    largest_accelerators: Any
    bar: float
    hit_rate: Any
    warm_up_seconds: Any
    first_epoch_seconds: Any
    later_epoch_seconds: Any
    total_seconds: Any
    checkpoint_bytes: Any
    checkpoint_stall: Any
    idle_share: Any
    usd_per_hour: Any
    idle_usd_per_hour: Any
    price_basis: str
    endurance_needed: Any
    endurance_bought: Any
    drive_years: Any
    usd_per_read_rate: Any
    changes: tuple[Change, ...] = ()
    assumed: Any = ""
    remark: Any = ""
    why: Any = ""

    def summary(self) -> str:
        """Return rate, utilisation, bottleneck and busy accelerators in words; of several, how many keep `bar`."""
        bar = units.percent(self.bar)
        if np.ndim(self.samples_per_s):
            passing = f"{int(np.sum(self.fits)):,} of them keep {bar} utilisation"
            return f"{np.size(self.samples_per_s):,} matches of storage, {passing}"
        used = units.percent(float(self.utilisation))
        return (
            f"{self._rate} samples per second, {used} utilisation, bottleneck: {self.bottleneck}; "
            f"up to {self.largest_accelerators:,.0f} accelerators at {bar}"
        )

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return several matches as printed; of a single one no table, but `facts`."""
        names = ["samples_per_s", "utilisation", "bottleneck", "fits", "largest_accelerators", "why"]
        return {"Matches": self.frame()[names].map(short)} if np.ndim(self.samples_per_s) else {}

    def facts(self) -> dict[str, str]:
        """Return rate, utilisation, the slowest stage and what to change first of a single match, by label."""
        if np.ndim(self.samples_per_s):
            return {}
        low, high = self.samples_range
        used, bar = units.percent(float(self.utilisation)), units.percent(self.bar)
        return {
            "Samples per second": f"{self._rate} (80 % interval {low:,.3g} to {high:,.3g})",
            "Utilisation": f"{used}, {'kept' if self.fits else 'not kept'} at {bar}",
            "Slowest stage": str(self.bottleneck),
            "Accelerators that it keeps": f"{self.largest_accelerators:,.0f}",
            "All epochs": units.human(self.total_seconds, "s"),
            "Change first": self.changes[0].name if self.changes else "nothing that gains half a per cent",
            "Assumed": "; ".join(filter(None, (self.assumed, self.remark))) or "nothing",
        }

    @property
    def _rate(self) -> str:
        rate = self.samples_per_s
        return units.human(rate, "1/s").split(" ")[0] if rate < 1000 else f"{rate:,.0f}"

    @property
    def fits(self) -> Any:
        """True where storage keeps the utilisation `bar` in later epochs; False where a scenario has no numbers."""
        passing = np.asarray(self.utilisation) >= self.bar
        return passing if np.ndim(passing) else bool(passing)

    def frame(self) -> pd.DataFrame:
        """Return one row per scenario: figures, rates of stages as ``storage_per_s`` ... , ends of 80 % intervals."""
        columns = {name: np.atleast_1d(np.asarray(getattr(self, name), dtype=object)) for name in _FIGURES}
        columns |= {f"{name}_per_s": np.atleast_1d(rate) for name, rate in self.stages.items()}
        ends = {"samples": self.samples_range, "utilisation": self.utilisation_range}
        columns |= {
            f"{name}_{end}80": np.atleast_1d(values)
            for name, pair in ends.items()
            for end, values in zip(("low", "high"), pair, strict=True)
        }
        return pd.DataFrame(columns).infer_objects()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values; None where a figure is missing or infinite."""
        return plain({name: getattr(self, name) for name in (*(item.name for item in entries(self)), "fits")})


class Run(TypedDict, total=False):
    """Hosts, input and training of `match_storage`; what is left out is the default of the schema."""

    batch: Amounts | None
    accelerators: Amounts | None
    hosts: Amounts | None
    workers: Amounts | None
    cores: Amounts | None
    memory: Amounts | None
    processor: Names | None
    network: Amounts | None
    link: Names | None
    sharers: Amounts | None
    pinned: bool | Amounts | None
    remote: Amounts | None
    prefetch: Amounts | None
    variation: Amounts | None
    serial: Amounts | None
    shuffled: Amounts | None
    epochs: Amounts | None
    checkpoint_interval: Amounts | None
    checkpoint_bytes: Amounts | None
    asynchronous: Amounts | None
    bar: Amounts | None
    precision: Names | None
    software: Names | None


@checked(
    workload=Field.named("models", Workload, Estimate, int, float, optional=True, kept=True, later=True),
    system=Field.named("accelerators", Accelerator, Machine, optional=True, kept=True, later=True),
    storage=Field.named("storage", Mapping, many=True, kept=True),
    data=Field.named("data_sets", Mapping, int, float, optional=True, many=True, kept=True),
    **columns(KIND, *Run.__annotations__),
)
def match_storage(
    workload: Workload | Estimate | Amounts | Sequence[Workload] | None,
    system: Systems | None,
    storage: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    data: str | float | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None = None,
    **run: Unpack[Run],
) -> StorageMatch:
    """Match storage, host and accelerators: stages, bottleneck, utilisation, idle money, and what to change first.

    Arguments may be lists or arrays, which are taken together entry by entry and give arrays; text with a unit is
    understood ("25 Gb/s"). Ranges and defaults are in ``data/schema/scenario.csv``; `assumed` reports what was taken.

    Parameters
    ----------
    workload : str, Workload, float or Estimate
        A network of the zoo or of the reader's own, "mlperf/" and a workload of the table ``storage_workloads``, the
        seconds of one step, or what `cookbook.train_step` gave.
    system : str, Accelerator or Machine
        An accelerator, server or cloud instance of the catalogue, or the reader's own record.
    storage : str or mapping
        A tier of the table ``storage``, or a mapping of its columns ("storage" to start from a row, "drives",
        "capacity" of one drive, "local" 1 for drives in every host); or a list of these.
    data : str, float or mapping, optional
        A card of the table ``data_sets`` of the kind of data that the network takes (frames of a clip are so many
        images of a network), a mapping of its columns ("card" to start from one), or the bytes of one
        sample, of which there are a million then; or a list of cards and mappings; needed unless the workload is a
        storage benchmark.
    batch : int, optional
        Samples of one step of one accelerator; that of a benchmark by default, else 1.
    accelerators, hosts : int, optional
        In all; one by default.
    workers, cores, memory : float, optional
        Loader processes of one accelerator, by default 8; physical cores and memory of one host [B]: those of a server
        of the catalogue, else cores do not limit and no page cache is counted.
    processor : str
        Words that name the processor, such as "AMD EPYC 9654"; that of a server, else the mean of those measured.
    network : float, optional
        Network of one host [B/s] on the way to shared storage; unlimited by default.
    link, sharers, pinned
        Host link, a key of ``interconnects`` (by default that of the device), accelerators that share it, and whether
        copies come from pinned memory, as they do by default.
    remote : float
        Share of the workers on the socket away from their data, 0 to 1: 0 where each is bound to its own, 0.5 where
        they are not bound in a host of two sockets. What that costs is ``remote_loss`` in ``pipeline_constants``.
    prefetch, variation : float, optional
        Batches that may wait, 2 by default, and standard deviation of their times over the mean (by default as fitted
        to benchmarks).
    serial : float
        Work of a host for one sample beside the step [s]: 0 where the step was taken from training on real
        data, as most rows behind predicted steps were; ``host_seconds`` in the table ``pipeline_constants`` is what
        images cost beside synthetic data.
    shuffled : float
        1 for a new order in each epoch, as by default, 0 for always the same.
    epochs : int, optional
        Epochs, 10 by default.
    checkpoint_interval : float, optional
        Seconds of training between checkpoints; without it none are written.
    checkpoint_bytes : float, optional
        One checkpoint; by default weights and optimiser states of the network.
    asynchronous : float
        1 where checkpoints are written behind the training.
    bar : float
        Utilisation to keep, 0.9 by default.
    precision, software
        As for `cookbook.train_step`.

    Raises
    ------
    cookbook.catalog.UnknownName
        A name that the catalogue does not have.
    ValueError
        One impossible scenario: the argument, its value, the range and the remedy. Among several it gets NaN and a
        reason.

    Examples
    --------
    One drive keeps two H100 busy in U-Net 3D, as its makers measured:

    >>> found = match_storage("mlperf/unet3d", "h100-sxm", "micron-9400-7-68tb-gen4", accelerators=2, prefetch=8)
    >>> found.largest_accelerators, found.bottleneck
    (2.0, 'accelerators')
    """
    check_names(run, tuple(Run.__annotations__), "match_storage")
    request = scenario(KIND, {**run, **arguments.columns_of(workload, system, storage, data)}, arguments.ARGUMENT_NAMES)
    bar = request.number("bar")
    if bar.ndim:
        raise refused("bar", run["bar"], "is a list: give one utilisation to keep")
    step = estimate_rows(prepare(KIND, resolve(request)), neighbours=False)
    if not request.several and step.why[0]:
        raise Refused(step.why[0])
    return _matched(request, step, float(fields(KIND)["bar"].default if np.isnan(bar) else bar))


def _matched(request: Scenario, step: Estimate, bar: float) -> StorageMatch:
    """Return the match of a whole run from the estimate of a step: other epochs, utilisation, money, changes."""
    figures, constants = step.rows.values, arguments.committed()
    words = request.words("storage").map(arguments.catalogued)
    date = np.where(np.isnan(request.number("price_usd_per_tb")), words.each(itemgetter(2), object), "as given")
    per = words.each(itemgetter(1), object)[()]
    tier = {"price_usd_per_tb": figures["price"], "price_per": per, "price_date": date}
    counted = figures["batch"] * figures["accelerators"]
    with np.errstate(all="ignore"):
        outcome = chain(figures, constants)
        most = most_accelerators(figures, constants, bar)
        record = _record(request, figures, outcome, tier, most, bar, constants)
        low, high = ranges(figures, outcome["utilisation"], constants, "utilisation")
        record = replace(
            record,
            samples_per_s=step.rate,
            utilisation_range=(low, np.minimum(high, 1)),
            samples_range=(counted / step.high80, counted / step.low80),
        )
        changes = changes_of(figures, outcome, tier, constants)
    record = _each(record, lambda value: np.where(step.why == "", value, "" if value.dtype == object else np.nan))
    record = replace(record, changes=changes, assumed=step.assumed, remark=step.remark, why=step.why)
    return _each(record, _locked if request.several else lambda value: value.tolist()[0])


def _record(
    request: Scenario,
    figures: Mapping[str, np.ndarray],
    outcome: Mapping[str, Any],
    tier: Mapping[str, Any],
    most: np.ndarray,
    bar: float,
    constants: Mapping[str, float],
) -> StorageMatch:
    money = request.words("accelerator").map(
        lambda machine: arguments.hour_price(machine.accelerator.key if machine else "")
    )
    idle = 1 - outcome["utilisation"] * (1 - outcome["stall"])
    hour = figures["accelerators"] * money.part(0)
    size, every = figures["checkpoint_bytes"], figures["checkpoint_interval"]
    drives = figures["drives"] * np.where(figures["local"] > 0, figures["hosts"], 1)
    fill = np.where(figures["local"] > 0, figures["stored"], 0) / np.maximum(outcome["total_seconds"] / DAY, 1)
    needed = storage_rates.drive_writes_per_day(fill + size * DAY / every, 1, figures["capacity"] * drives)
    bought = figures["endurance"]
    paid = np.where(np.equal(tier["price_per"], "purchase"), figures["price"], np.nan)
    basis = "; ".join(
        dict.fromkeys(
            words if np.isnan(usd) else "{} per hour, {} to {}: {}".format(*map(units.dollars, (usd, low, high)), words)
            for usd, low, high, words in money.levels
        )
    )
    return StorageMatch(
        stages=outcome["stages"],
        latency=outcome["latency"],
        bottleneck=_bottleneck(outcome["stages"]),
        credit_seconds=outcome["credit_seconds"],
        samples_per_s=(),
        first_samples_per_s=outcome["first"],
        utilisation=outcome["utilisation"],
        first_utilisation=outcome["first_utilisation"],
        samples_range=(),
        utilisation_range=(),
        largest_accelerators=most,
        bar=bar,
        hit_rate=outcome["hit_rate"],
        warm_up_seconds=outcome["warm_up"],
        first_epoch_seconds=outcome["first_seconds"],
        later_epoch_seconds=outcome["later_seconds"],
        total_seconds=outcome["total_seconds"],
        checkpoint_bytes=size,
        checkpoint_stall=outcome["stall"],
        idle_share=idle,
        usd_per_hour=hour,
        idle_usd_per_hour=hour * idle,
        price_basis=basis,
        endurance_needed=needed,
        endurance_bought=bought,
        drive_years=storage_rates.drive_life_years(needed, bought, constants["rated_years"]),
        usd_per_read_rate=paid * figures["capacity"] / 1e12 / figures["bandwidth"],
    )


def _bottleneck(stages: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the slowest stage; reading is the tier or the network, whichever is slower."""
    below = {name: stages[name] for name in ("reading", "decoding", "copying", "accelerators")}
    first = np.argmin(np.array(np.broadcast_arrays(*below.values())), axis=0)
    reader = np.where(stages["network"] < stages["storage"], STAGES[1], STAGES[0])
    return np.where(first == 0, reader, np.array(list(below))[first]).astype(object)


def _each(record: StorageMatch, change: Callable[[np.ndarray], Any]) -> StorageMatch:
    """Return a record with every array in it changed."""

    def changed(value: Any) -> Any:
        if isinstance(value, Mapping):
            return MappingProxyType({key: changed(entry) for key, entry in value.items()})
        if isinstance(value, tuple):
            return tuple(changed(entry) for entry in value)
        return change(value) if isinstance(value, np.ndarray) else value

    return replace(record, **{item.name: changed(getattr(record, item.name)) for item in entries(record)})


def _locked(value: np.ndarray) -> np.ndarray:
    value = value.copy()
    value.flags.writeable = False
    return value
