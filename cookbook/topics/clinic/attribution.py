"""Attribution of a step's time: every instant counts once, for the first of `TERMS` that claims it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cookbook.topics.clinic.reading import TERMS, Reading, Spans

# Terms of an attribution in the order of charts; logs contain steps alone, so their usual time is the steady part.
CHART_ORDER = (
    "steady",
    "compute",
    "memory traffic",
    "launch",
    "communication",
    "input",
    "checkpoint",
    "slowdown",
    "idle",
)
# With an accelerator, what its kernels do comes first: the host may wait meanwhile, and costs nothing. On a processor
# a checkpoint or a wait for input is work of the step itself, whatever operations it is made of.
ON_DEVICE = ("compute", "memory traffic", "communication", "checkpoint", "input", "launch")
ON_PROCESSOR = ("checkpoint", "input", "compute", "memory traffic", "communication", "launch")
# A step is slow if it takes half as long again as its neighbours, or more; saving is a slow step that recurs after
# at least five others, three of four times at the same distance; a slowdown is a fifth more from one step to the end.
SLOW_FACTORS, MEDIAN_WINDOW, NEAREST, EVEN, LATER, MARGIN = (1.5, 2.0, 3.0, 5.0, 8.0), 11, 5, 0.75, 1.2, 0.1


class Attribution(NamedTuple):
    """Seconds of each step by term, facts about them, and the number of stretches into which the run is divided."""

    terms: tuple[str, ...]
    seconds: np.ndarray
    facts: dict[str, float]
    stretches: int = 5

    @property
    def steps(self) -> np.ndarray:
        """Return the time of each step [s]."""
        return np.asarray(self.seconds.sum(axis=1))


def attribute(reading: Reading) -> Attribution:
    """Attribute the time of each step of a trace or a log to terms."""
    if reading.spans is not None:
        return _attribute_spans(reading.steps, reading.spans)
    return _attribute_log(reading)


def union_by(starts: np.ndarray, ends: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the stretches between sorted `points` that some interval covers; overlaps count once.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 3.0])
    >>> union_by(np.array([0.0, 0.0]), np.array([1.0, 2.0]), points)
    array([ True,  True, False])
    """
    change = np.zeros(len(points), dtype=int)
    np.add.at(change, np.searchsorted(points, starts), 1)
    np.add.at(change, np.searchsorted(points, ends), -1)
    return np.cumsum(change)[:-1] > 0


def _attribute_spans(steps: np.ndarray, spans: Spans) -> Attribution:
    order = ON_DEVICE if spans.device else ON_PROCESSOR
    points = np.unique(np.concatenate([spans.start, spans.end, steps.ravel()]))
    lengths, middles = np.diff(points), (points[:-1] + points[1:]) / 2
    chosen = np.full(len(lengths), len(order))
    for place, term in reversed(list(enumerate(order))):
        own = spans.term == TERMS.index(term)
        chosen[union_by(spans.start[own], spans.end[own], points)] = place
    step = np.searchsorted(steps[:, 0], middles, side="right") - 1
    in_step = (step >= 0) & (middles < steps[np.maximum(step, 0), 1])
    seconds = np.zeros((len(steps), len(order) + 1))
    np.add.at(seconds, (step[in_step], chosen[in_step]), lengths[in_step])
    terms = (*order, "idle")
    terms_in_order = tuple(term_name for term_name in CHART_ORDER if term_name in terms)
    facts = dict(spans.facts)
    facts["operations"] = facts.get("operations", 0.0) / max(len(steps), 1)
    return Attribution(terms_in_order, seconds[:, [terms.index(term_name) for term_name in terms_in_order]], facts)


def _attribute_log(reading: Reading) -> Attribution:
    """Attribute a log's steps: usual time, periodic and lasting slowdowns, and occasional slow steps."""
    times = reading.steps[:, 1] - reading.steps[:, 0]
    attributed = np.zeros(len(times))
    seconds: dict[str, np.ndarray] = {}
    for term, column in reading.columns.items():
        seconds[term] = np.minimum(column, times - attributed)
        attributed = attributed + seconds[term]
    rest = times - attributed
    usual = _running_median(rest)
    saved, period = _periodic(rest, usual)
    saving = np.zeros(len(times))
    saving[saved] = (rest - usual)[saved]
    facts = {"every": period}
    if period:
        seconds["checkpoint"] = seconds.get("checkpoint", np.zeros(len(times))) + saving
    rest = rest - saving
    shift, after = _shift(rest)
    if shift:
        late = np.where(np.arange(len(times)) >= shift, np.maximum(rest - float(np.mean(rest[:shift])), 0.0), 0.0)
        seconds["slowdown"] = late
        facts |= {"slower from": float(shift + 1), "times slower": after}
    else:
        seconds["idle"] = np.where(rest > SLOW_FACTORS[0] * usual, rest - usual, 0.0)
    seconds["steady"] = np.maximum(times - sum(seconds.values()), 0.0)
    facts["spread"] = float((np.quantile(times, 0.9) - np.quantile(times, 0.1)) / np.median(times))
    terms = tuple(term_name for term_name in CHART_ORDER if term_name in seconds)
    return Attribution(terms, np.stack([seconds[term_name] for term_name in terms], axis=1), facts)


def _running_median(times: np.ndarray) -> np.ndarray:
    """Return the median of each step and its neighbours."""
    wide = min(MEDIAN_WINDOW, len(times))
    padded = np.pad(times, wide // 2, mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, wide)[: len(times)], axis=1)


def _periodic(rest: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, float]:
    """Return slow steps that recur at equal distances, and the distance; none and 0 where there are none.

    On a machine with other work single steps are occasionally slow, so sets of ever slower steps are compared; the one
    that explains most time is returned.
    """
    best, period, most = np.empty(0, dtype=int), 0.0, 0.0
    for times in SLOW_FACTORS:
        slow = np.flatnonzero(rest > times * usual)
        gaps = np.diff(slow)
        if len(gaps) < 2 or len(slow) > len(rest) / NEAREST:
            continue
        middle = float(np.median(gaps))
        even = float((np.abs(gaps - middle) <= 1).mean())
        gained = float((rest - usual)[slow].sum())
        if middle >= NEAREST and even >= EVEN and gained > most:
            best, period, most = slow, middle, gained
    return best, period


def _shift(times: np.ndarray) -> tuple[int, float]:
    """Return the step from which all are slower, and the factor; (0, 1) where none are."""
    count = len(times)
    edge = max(int(np.ceil(MARGIN * count)), 5)
    if count < 2 * edge:
        return 0, 1.0
    # The change point that explains most of the variance of the logarithms, in which single slow steps weigh little.
    logs = np.log(np.maximum(times, 1e-12))
    sums, places = np.cumsum(logs), np.arange(edge, count - edge + 1)
    before, after = sums[places - 1] / places, (sums[-1] - sums[places - 1]) / (count - places)
    gain = places * (count - places) / count * (after - before) ** 2 * (after > before)
    best = int(np.argmax(gain))
    place = int(places[best])
    ratio = float(np.mean(times[place:]) / np.mean(times[:place]))
    # Both halves of the rest must be slower, since a bad minute is not a slowdown.
    halves = np.array_split(times[place:], 2)
    lasting = all(np.mean(half) >= LATER * np.mean(times[:place]) for half in halves)
    return (place, ratio) if ratio >= LATER and lasting else (0, 1.0)
