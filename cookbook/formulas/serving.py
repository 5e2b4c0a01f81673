"""Latency and throughput of a language model service in a steady state, without simulating single requests.

Answers share the iterations of an engine (Yu et al., Orca, OSDI 2022), so that their number is that of a
processor-sharing queue whose rate depends on the number (Cohen 1979; lengths of answers count by their mean alone).
Prompts wait from one iteration to the next: the tokens waiting are a Markov chain, embedded at the
starts of iterations (as in Neuts, A general class of bulk queues with Poisson input, 1967). Both are solved together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from cookbook.formulas._arguments import Array, NonNegative, Positive, checked, positive
from cookbook.formulas.generation import attended_tokens

__all__ = ["batch_shares", "bulk_queue", "held_tokens", "mixed_seconds", "service_latencies"]
Cost = Callable[[Any, Any], Any]
# Points of the final quadrature and of the fixed-point iterations, states of the chain of waiting tokens, the mean
# below which counts are computed exactly, iterations, and tolerances.
POINTS, FIXED_POINT_POINTS, STATES, MAX_SMALL_COUNT, ROUNDS, TINY, TOLERANCE = 2048, 256, 96, 25, 12, 1e-9, 1e-3
# Variance left of a process that decorrelates as requests come and go, averaged over the stay of one: 2 / e.
VARIANCE_LEFT = 0.74
# Number of mean gaps between arrivals within which most of a cluster arrives, as simulated.
CLUSTER_GAPS = 0.2
# Largest load at which a queue is computed although larger passes would shorten it.
MAX_LOAD = 0.97
# Share of an iteration's room that prompts fill where they crowd out others.
CROWDED = 0.98
DIMENSIONS = 9
LOAD_FIELDS = ("prompt", "answer", "prompt_spread", "answer_spread", "window", "windowed", "windowed_scores")
PERCENTILES = (50, 95, 99)


@checked
def batch_shares(rate: NonNegative, answer: NonNegative, step_seconds: Positive, peakedness: Positive = 1.0) -> Array:
    r"""Return the shares of time with 0, 1, 2 ... requests decoded: processor sharing with a state-dependent rate.

    .. math:: \pi_n \propto \prod_{i=1}^{n} \lambda\, o\, \frac{\tau_i}{i}
              \left(\frac{1}{z} + \left(1 - \frac{1}{z}\right) \frac{i - 1}{\lambda o \tau_i}\right)

    Clustered requests (z > 1) are counted as if each request present brought others along (negative binomial), regular
    ones (z < 1) as slots that are taken or free (binomial); the number of slots follows from z, rounded up to an
    integer of at least one, since nothing is more regular than one slot. Beyond the last batch given, requests wait and
    the service continues at that batch's rate; the shares of all larger counts are summed in the last share.

    Parameters
    ----------
    rate : array_like
        Arrival rate of requests, lambda [1/s].
    answer : array_like
        Iterations of a request, o: tokens of its answer but the first [-].
    step_seconds : array_like
        Time of an iteration with 1, 2 ... requests, tau [s].
    peakedness : array_like
        Variance over mean of the number of requests if all times were equal, z: 1 for a Poisson process [-].

    Returns
    -------
    numpy.ndarray
        Shares, one more than there are times [-].

    References
    ----------
    Cohen, The multiple phase service network with generalized processor sharing, Acta Informatica 12, 1979.

    Examples
    --------
    Iterations that take the same time for every batch: a Poisson distribution with the mean of Little's law.

    >>> shares = batch_shares(2.0, 100, [0.01] * 40)
    >>> round(float(shares @ range(41)), 6)
    2.0
    """
    seconds = np.atleast_1d(step_seconds).ravel()
    work = float(np.ravel(rate)[0] * np.ravel(answer)[0])
    batch = np.arange(1, len(seconds) + 1)
    peak, alone = float(np.ravel(peakedness)[0]), float(work * seconds[0])
    if peak < 1:
        peak = max(peak, 1 - alone / max(np.ceil(alone / (1 - peak) - TINY), 1.0))
    births = np.maximum(work * seconds / peak + (1 - 1 / peak) * (batch - 1), 0.0)
    with np.errstate(divide="ignore"):
        logs = np.concatenate([[0.0], np.cumsum(np.log(births / batch))])
    weights = np.exp(logs - logs.max())
    load = work * seconds[-1] / batch[-1]
    if load < 1:  # at more, requests wait without end, and all that is there is the largest batch
        weights[-1] /= 1 - load
        return np.asarray(weights / weights.sum())
    return np.asarray(np.eye(len(weights))[-1])


@checked
def mixed_seconds(decode_seconds: NonNegative, prefill_seconds: NonNegative, idle_seconds: NonNegative) -> Array:
    r"""Return the time of an iteration that decodes tokens and processes prompts, with shared work counted once.

    .. math:: t = \max(t_d, t_p, t_d + t_p - t_0)

    Parameters
    ----------
    decode_seconds : array_like
        Time of an iteration without prompts [s].
    prefill_seconds : array_like
        Time of a pass over the prompt tokens alone [s].
    idle_seconds : array_like
        Time of a nearly empty iteration: weights are read, kernels are launched [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Agrawal et al., Taming throughput-latency tradeoff in LLM inference with Sarathi-Serve, OSDI 2024, section 4.

    Examples
    --------
    >>> mixed_seconds(0.02, 0.05, 0.01).round(3).tolist()
    0.06
    """
    longer = np.maximum(decode_seconds, prefill_seconds)
    return np.asarray(np.maximum(longer, decode_seconds + prefill_seconds - idle_seconds))


@checked
def bulk_queue(mean_arrivals: NonNegative, sizes: Any, served: NonNegative) -> Array:
    r"""Return the shares of iterations that start with 0, 1, 2 ... units waiting.

    .. math:: Q' = Q - s(Q) + \sum_{i=1}^{N} X_i, \quad N \sim \mathrm{Poisson}(a(Q))

    Parameters
    ----------
    mean_arrivals : array_like
        Requests that arrive on average in an iteration that finds Q units, a [-].
    sizes : array_like
        Shares of requests of 0, 1, 2 ... units, X; they are divided by their sum [-].
    served : array_like
        Units served of Q, at most Q, s; between two integers one of both, so that it is s on average [-].

    Returns
    -------
    numpy.ndarray
        Shares, one for each entry of `served`; more units than those are counted as the last [-].

    References
    ----------
    Neuts, A general class of bulk queues with Poisson input, Annals of Mathematical Statistics 38, 1967.

    Examples
    --------
    One request of one unit served an iteration, half a request arriving: the shares of M/D/1 at departures.

    >>> bulk_queue([0.5] * 40, [0, 1], [0, *[1] * 39])[:2].round(3).tolist()
    [0.5, 0.324]
    """
    units = np.atleast_1d(served).ravel()
    out = np.floor(units + TINY).astype(int)
    mean = np.broadcast_to(np.atleast_1d(mean_arrivals).ravel(), out.shape)
    share = np.atleast_1d(positive("sizes", np.asarray(sizes, dtype=float) + TINY**2)).ravel()
    count = len(out)
    wide = 1 << int(np.ceil(np.log2(2 * max(count, len(share)))))
    wave = np.fft.rfft(share / share.sum(), wide)
    means, inverse = np.unique(mean, return_inverse=True)  # full passes take alike, whatever waits behind them
    arrivals = np.fft.irfft(np.exp(means[:, None] * (wave - 1)), wide, axis=1)
    arrivals = np.hstack([np.zeros((len(means), count)), np.maximum(arrivals[:, :count], 0.0)])
    left = np.clip(np.arange(count) - out, 0, count - 1)[:, None]
    at_zero = inverse[:, None] * (2 * count) + np.arange(count) + count  # entries of `arrivals`, read in one piece
    matrix = arrivals.take(at_zero - left)
    part = np.maximum(units - out, 0.0)[:, None]
    if part.max() > TINY:
        matrix += part * (arrivals.take(at_zero - np.maximum(left - 1, 0)) - matrix)
    matrix[:, -1] += np.maximum(1 - matrix.sum(1), 0.0)
    system = np.vstack([(matrix / matrix.sum(1, keepdims=True)).T - np.eye(count), np.ones(count)])
    solution = np.linalg.lstsq(system, np.eye(count + 1)[-1], rcond=None)[0] if count < 3 else _stationary(system)
    return np.asarray(np.maximum(solution, 0.0) / np.maximum(solution, 0.0).sum())


def _stationary(system: Array) -> Array:
    """Return the solution of balance equations of which one is redundant."""
    square = system[:-1].copy()
    square[-1] = system[-1]
    return np.linalg.solve(square, np.eye(len(square))[-1])


def _points() -> tuple[Array, Array]:
    """Return points that fill a unit cube evenly (Roberts' R-sequence), also as standard normal values."""
    root = 1.0
    for _ in range(64):  # the root of x^(d + 1) = x + 1
        root = (1 + root) ** (1 / (DIMENSIONS + 1))
    steps = (1 / root ** np.arange(1, DIMENSIONS + 1)) % 1
    uniform = (0.5 + np.arange(1, POINTS + 1)[:, None] * steps) % 1
    grid = np.array([NormalDist().inv_cdf((at + 0.5) / POINTS) for at in range(POINTS)])
    return uniform, grid[np.minimum((uniform * POINTS).astype(int), POINTS - 1)]


UNIFORM, NORMAL = _points()


def _lognormal(mean: float, spread: float, normal: Array) -> Array:
    scale = np.sqrt(np.log1p(spread**2))
    return mean * np.exp(scale * normal - scale**2 / 2)


def _poisson(mean: Array, share: Array) -> Array:
    """Return the quantiles of Poisson distributions at `share`."""
    count, term = np.zeros_like(mean), np.exp(-mean)
    below = term.copy()
    for number in range(1, int(mean.max() + 8 * np.sqrt(mean.max()) + 12)):
        above = share > below
        if not above.any():
            break
        count += above
        term = term * mean / number
        below = below + term
    return count


def _branching(mean: Array, part: float, share: Array) -> Array:
    """Return the quantiles of generalised Poisson distributions (Consul, 1989) at `share`.

    Each arrival prolongs the period, in which a further `part` of an arrival follows.
    """
    scale = np.log1p(1 / (1 - part) ** 2 / np.maximum(mean, 1.0))
    counts, few = mean * np.exp(np.sqrt(scale) * NORMAL[:, 2] - scale / 2), np.flatnonzero(mean < MAX_SMALL_COUNT)
    first, share = np.maximum(mean[few] * (1 - part), TINY), share[few]
    count, below, factorial = np.zeros_like(first), np.exp(-first), 0.0
    for number in range(1, 4 * MAX_SMALL_COUNT):
        above = share > below
        if not above.any():
            break
        count += above
        total, factorial = first + number * part, factorial + np.log(number)  # of which the logarithm
        below = below + first * np.exp((number - 1) * np.log(total) - total - factorial)
    counts[few] = count
    return counts


def held_tokens(
    prompt: float,
    answer: float,
    prompt_spread: float = 0.0,
    answer_spread: float = 0.0,
    window: float = np.inf,
    windowed: float = 0.0,
    windowed_scores: float | None = None,
) -> Array:
    r"""Return the tokens that a request caches and reads in decoding, and those that a prompt token attends to.

    Means over time, so that long answers count as often as they have tokens; of prompts, over their tokens.

    .. math:: \frac{E[\int_0^O a(S + x) \, dx]}{E[O]}, \quad \frac{E[\int_0^S a(x) \, dx]}{E[S]}

    Parameters
    ----------
    prompt : float
        Mean tokens of a prompt, S [-].
    answer : float
        Mean tokens of an answer, O [-].
    prompt_spread : float
        Standard deviation of the lengths of prompts over their mean, log-normal [-].
    answer_spread : float
        Standard deviation of the lengths of answers over their mean, log-normal [-].
    window : float
        Sliding window, as of `attended_tokens` [-].
    windowed : float
        Share of the layers that attend within it; 0 to 1 [-].
    windowed_scores : float, optional
        Share of the work on scores within it, where layers have heads of several sizes; by default `windowed` [-].

    Returns
    -------
    numpy.ndarray
        Both means, averaged over layers, and the squared coefficient of variation of the first [-].

    References
    ----------
    Cox, Renewal theory, 1962, section 5.4 (length-biased sampling).

    Examples
    --------
    >>> held_tokens(3000, 1000)[:2].tolist(), held_tokens(3000, 1000, window=1000, windowed=1)[:2].round().tolist()
    ([3500.0, 1500.0], [1000.0, 833.0])
    """
    if windowed == 1 and window <= 1:  # one token (or a state in its place), however many there were
        return np.array([window, window, 0.0])
    near = windowed if windowed_scores is None else windowed_scores
    context = prompt + answer * (1 + answer_spread**2) / 2
    attended = prompt * (1 + prompt_spread**2) / 2
    progress = answer**2 * (1 + answer_spread**2) ** 3 / 3
    square = prompt**2 * (1 + prompt_spread**2) + 2 * prompt * (context - prompt) + progress
    if prompt_spread == answer_spread == 0:
        return np.array(
            [
                *(
                    float(attended_tokens(tokens, window, share, span))
                    for tokens, share, span in ((context, windowed, answer), (attended, near, prompt))
                ),
                max(square / context**2 - 1, 0.0),
            ]
        )
    if windowed > 0 and np.isfinite(window):  # what windows cut off has no closed form
        prompts = _lognormal(prompt, prompt_spread, NORMAL[:, 0])
        answers = _lognormal(answer, answer_spread, NORMAL[:, 8])
        length = prompts + UNIFORM[:, 2] * answers
        less = length - attended_tokens(length, window, windowed)
        unattended = prompts / 2 - attended_tokens(prompts / 2, window, near, prompts)
        context -= float(np.average(less, weights=answers))
        attended -= float(np.average(unattended, weights=prompts))
        square -= float(np.average((2 * length - less) * less, weights=answers))
    return np.array([context, attended, max(square / context**2 - 1, 0.0)])


class _Service:
    """One engine with its load: iterations by batch and waiting tokens, and what requests see."""

    def __init__(self, decode: Cost, prefill: Cost, load: Mapping[str, Any]) -> None:
        self.decode, self.prefill = decode, prefill
        for name in ("prompt", "answer", "prompt_spread", "answer_spread", "chunk", "burstiness", "first"):
            setattr(self, name, load[name])
        self.steps = max(self.answer - 1, TINY)
        self.context, self.attended, self.uneven = held_tokens(**{name: load[name] for name in LOAD_FIELDS}).tolist()
        self.idle = min(float(decode(1.0, 0.0)), float(prefill(1.0, 0.0)))
        self.packed = self._packed() if self.first else 0.0
        self.drawn = _lognormal(self.prompt, self.prompt_spread, NORMAL[:, 0])
        slot_tokens = self.context + load["state"]
        self.uneven *= (self.context / slot_tokens) ** 2  # states are alike
        self.kv_slots = max((load["kv_tokens"] - self.attended - load["state"]) / slot_tokens, 1.0)
        self.slots = max(min(load["max_sequences"], self.kv_slots), 1.0)

    prompt: float
    answer: float
    prompt_spread: float
    answer_spread: float
    chunk: float
    slots: float
    burstiness: float
    first: bool

    def step(self, batch: Any) -> Any:
        """Return the seconds of an iteration without prompts."""
        return self.decode(batch, self.context)

    def room(self, batch: float) -> float:
        """Return the largest number of prompt tokens in one iteration; the mean where prompts are processed whole."""
        return self.packed if self.first else max(self.chunk - batch, 1.0)

    def _packed(self) -> float:
        if self.prompt_spread == 0:
            return max(float(np.floor(self.chunk / self.prompt)), 1.0) * self.prompt
        passes, left = 0, 0.0
        lengths = _lognormal(self.prompt, self.prompt_spread, np.random.default_rng(0).standard_normal(POINTS))
        for length in lengths.tolist():
            passes, left = (passes + 1, self.chunk - length) if length > left else (passes, left - length)
        return float(lengths.sum()) / passes

    def iteration(self, tokens: Any, batch: float) -> Array:
        """Return the seconds of an iteration with this number of prompt tokens."""
        tokens = np.asarray(tokens, dtype=float)
        alone = self.prefill(np.maximum(tokens, 1.0), self.attended)
        step = float(self.step(max(batch, 1.0))) * (1.0 if batch > TINY else TINY)
        # As `mixed_seconds`, without its checks.
        if not self.first and batch > TINY:
            alone = np.maximum(np.maximum(step, alone), step + alone - self.idle)
        return np.where(tokens > 0, alone, step)

    def burst(self, rate: float, batch: float) -> float:
        """Return the number of requests that arrive together: of a cluster, those within the pass over one prompt."""
        if self.burstiness <= 1 or not rate > 0:
            return 1.0
        arrivals = rate * float(self.iteration(min(self.prompt, self.room(batch)), batch))
        return 1 + (self.burstiness - 1) / 2 * float(-np.expm1(-arrivals / CLUSTER_GAPS))

    def chain(self, rate: float, batch: float, closed: bool, share: float = 1.0) -> tuple[Array, Array, Array, float]:
        """Return shares, seconds and arrivals by units waiting at an iteration's start, and the tokens of a unit."""
        room = self.room(batch)
        full = float(self.iteration(room, batch))
        load = min((share * batch / self.steps if closed else rate * full) * self.prompt / room, 0.97)
        mean = self.prompt * (1 + self.prompt_spread**2)
        burst = self.burst(rate, batch)
        around = rate * self.prompt * float(self.iteration(min(room, mean), batch)) * burst
        top = (4 * mean + 8 * around) * burst + 5 * mean * burst / (1 - load)
        whole = min(self.prompt, room)  # of this, units are whole parts
        unit = whole / max(np.ceil(whole * STATES / top), 1.0)
        tokens = np.arange(STATES) * unit
        drawn = np.clip(self.drawn / unit + TINY, 0.5, STATES - 2)
        sizes = np.bincount(drawn.astype(int), 1 - drawn % 1, STATES) + np.bincount(
            drawn.astype(int) + 1, drawn % 1, STATES
        )
        served = np.minimum(tokens, max(room, unit))
        seconds = self.iteration(served, batch)
        if not closed:
            arrivals = rate * seconds
        else:
            arrivals = np.full(len(tokens), share * batch / (max(self.steps, 1.0) if self.first else self.steps))
            arrivals = np.where((tokens > 0) & self.first, 0.0, arrivals)
        return bulk_queue(arrivals, sizes, served / unit), seconds, arrivals, unit

    def waits(
        self,
        rate: float,
        batch: float,
        closed: bool,
        share: float = 1.0,
        points: int = FIXED_POINT_POINTS,
        chain: tuple[Any, ...] | None = None,
    ) -> tuple[Array, float, Array]:
        """Return the times to first token at quadrature points, and the mean time between tokens of an answer.

        Prompts queued behind a request are processed while it is decoded; they are more than on average.
        """
        shares, seconds, arrivals, unit = chain or self.chain(rate, batch, closed, share)
        uniform, normal = UNIFORM[:points], NORMAL[:points]
        room = max(self.room(batch), unit)
        weight = shares * (arrivals if closed else seconds)
        weight = weight / weight.sum() if weight.sum() > 0 else np.eye(len(shares))[0]
        state = np.minimum(np.searchsorted(np.cumsum(weight), uniform[:, 0]), len(shares) - 1)
        lasts, now = seconds[state], np.minimum(state * unit, room)
        passed = np.ones(points) if closed else uniform[:, 1]
        burst = self.burst(rate, batch)
        mates = 1 - 1 / burst
        per = arrivals[state] if closed else rate * lasts
        before = _poisson(per * (uniform[:, 1] if closed else passed), uniform[:, 2])
        after = _poisson(per * (1 - uniform[:, 1]), uniform[:, 3])
        if mates > 0:
            before = before * burst + np.floor(np.log(1 - uniform[:, 4]) / np.log(mates))
            after = after * burst + np.floor(np.log(uniform[:, 4]) / np.log(mates))
        own = _lognormal(self.prompt, self.prompt_spread, normal[:, 5])
        queued_tokens = state * unit - now + self._sum(before, normal[:, 6]) + own
        passes = np.ceil(queued_tokens / room - TINY) - 1
        if self.first:  # whole prompts: one that does not fit beside those before it waits for the next pass
            passes = np.floor((queued_tokens - own) / room + TINY)
            late = (queued_tokens - passes * room > np.maximum(self.chunk, own)) & (
                passes * room < queued_tokens - own - TINY
            )
            passes, queued_tokens = passes + late, np.where(late, (passes + 1) * room + own, queued_tokens)
        full = float(self.iteration(room, batch))
        later = self._sum(after, normal[:, 7]) + (0 if closed else rate * self.prompt * passes * full)
        last = np.minimum(queued_tokens - passes * room + later, room if not self.first else np.maximum(room, own))
        last = np.where((own >= self.chunk) & self.first, own, last)
        spent = (1 - passed) * lasts + passes * full + self.iteration(last, batch)
        between = float(shares @ seconds) / max(float(shares[0]) if self.first else 1.0, TINY)
        step = float(seconds[0])
        stretch = max(between / step, 1.0)
        a_token = max(full - (0.0 if self.first else step), 0.0) / room
        usual = (between - step) / stretch if self.first else float(shares @ np.arange(len(shares))) * unit * a_token
        behind = 0.0 if closed else max(rate * float(spent.mean()) * self.prompt * a_token - usual, 0.0)
        return spent, between + behind * stretch / max(self.steps, 1.0), passes

    def pauses(self, inside: float) -> float:
        """Return the seconds of prompts before the next iteration, where each request ends in its own iteration.

        The first prompt takes a pass, each further one a pass divided by the prompts per pass.
        """
        mean = inside / max(self.steps, 1.0)
        count = np.arange(1.0, 2 * MAX_SMALL_COUNT + 2 * mean)
        shares = np.exp(count * np.log(mean) - mean - np.cumsum(np.log(count)))
        passes = 1 + (count - 1) * self.prompt / self.packed
        return float(shares @ (passes * self.iteration(count * self.prompt / passes, 0.0)))

    def _sum(self, counts: Array, normal: Array) -> Array:
        """Return the total tokens of this number of prompts."""
        spread = self.prompt_spread / np.sqrt(np.maximum(counts, 1.0))
        return counts * np.exp(np.sqrt(np.log1p(spread**2)) * normal - np.log1p(spread**2) / 2) * self.prompt

    def answers(self) -> Array:
        """Return the tokens of answers except the first, at the points of the quadrature."""
        return np.maximum(_lognormal(self.answer, self.answer_spread, NORMAL[:, 8]) - 1, 0.0)

    def slowed(self, shares: Array, stretch: float, between: float, rate: float, closed: bool = False) -> Array:
        """Return the mean time between tokens of single answers, at the points of the quadrature."""
        batch = np.arange(len(shares))
        steps = stretch * np.asarray(self.step(np.maximum(batch, 1)))
        weight = shares * batch
        weight = weight / weight.sum() if weight.sum() > 0 else np.eye(len(shares))[-1]
        mean = float(weight @ steps)
        spread = VARIANCE_LEFT * max(float(weight @ (steps - mean) ** 2), 0.0)  # averaged over as long as it lasts
        # Prompts that arrive meanwhile, and those that arrive during their processing: a branching process.
        least = float(self.step(1.0))
        count, mean_batch = np.maximum(self.answers(), 1.0), float(weight @ batch)
        plain, room = between / stretch, self.room(mean_batch)
        alone = float(self.iteration(min(self.prompt, room), mean_batch)) - (0.0 if self.first else plain)
        pause = max(alone, TINY) * max(self.prompt / room, 1.0)
        most = np.inf if self.first else float(self.iteration(room, mean_batch))
        part = 0.0 if closed else max(min(rate * pause, 1 - 1 / stretch, MAX_LOAD), 0.0)
        # Long prompts cause more arrivals than short ones; the total is as if each caused this share of an arrival.
        part = 1 - ((1 + self.prompt_spread**2) / (1 - part) ** 2 - self.prompt_spread**2) ** -0.5
        more = _branching((between - plain) / pause * count, part, UNIFORM[:, 2])
        excess = max(plain - least, TINY * between)
        scale = np.log1p(min(spread / stretch**2, max(plain * (most - plain), 0.0)) / excess**2)
        steps = least + excess * np.exp(np.sqrt(scale) * NORMAL[:, 4] - scale / 2)
        return np.minimum(steps + self._sum(more, NORMAL[:, 7]) / self.prompt * pause / count, most)


def _open(service: _Service, rate: float) -> dict[str, Any]:
    """Return the steady state for requests that arrive at a rate, independent of the service."""
    most = max(int(service.slots), 1)
    steps = np.asarray(service.step(np.arange(1, most + 1)), dtype=float)
    stretch, slope, last, shares, batch, chain, usual = 1.0, -1.0, (0.0, 0.0), np.ones(1), 1.0, None, 1.0
    low, high = 1.0, np.inf
    # A full engine starts one prompt per answer that ends; if that is not enough, several at once, which is cheaper.
    loads, ends = [], most / service.steps
    for prompt_tokens in (min(ends / -np.expm1(-ends) * service.prompt, service.room(most)), service.room(most)):
        more = (
            max(float(service.iteration(prompt_tokens, most)) - (0.0 if service.first else steps[-1]), 0.0)
            / prompt_tokens
        )
        loads.append(rate * (more * service.prompt + service.steps * steps[-1] / most))
    load = max(min(loads[0], MAX_LOAD), loads[1])
    for _ in range(ROUNDS):
        slow = np.append(stretch * steps[:-1], load * most / (rate * service.steps))
        uneven = 1 + ((1 - 1 / max(stretch, 1.0)) * service.prompt_spread) ** 2
        peak = 1 + (min(stretch, usual) ** 2 * uneven * service.burstiness - 1) / (1 + service.answer_spread**2)
        shares = batch_shares(rate, service.steps, slow, max(peak, 0.2))
        batch = max(float(shares @ np.arange(most + 1)) / max(1 - shares[0], TINY), 1.0)
        chain = service.chain(rate, batch, False)
        waiting, seconds = chain[
            :2
        ]  # as much longer as prompts make iterations in all, without those that it waited for
        usual = float(waiting @ seconds) / max(float(waiting[0]) if service.first else 1.0, TINY) / float(seconds[0])
        update = service.waits(rate, batch, False, chain=chain)[1] / float(service.step(batch))
        if abs(update / stretch - 1) < TOLERANCE:
            break
        if last[0] not in (0.0, stretch):
            slope = min(max((update - last[1]) / (stretch - last[0]), -3.0), 0.75)
        low, high = (stretch, high) if update > stretch else (low, stretch)
        last, stretch = (stretch, update), stretch + (update - stretch) / (1 - slope)
        stretch = stretch if low < stretch < high else float(np.sqrt(low * high))
    waits = alone = service.waits(rate, batch, False, points=POINTS, chain=chain)[0]
    if shares[0] > TOLERANCE:
        alone = service.waits(rate, 0.0, False, points=POINTS)[0]
    uniform = UNIFORM
    first = np.where(uniform[:, 3] < shares[0], alone, waits)
    by_memory = service.uneven if service.kv_slots < 2 * most else 0.0
    full = batch_shares(rate, service.steps, slow, max(peak + by_memory, 0.2))
    queued = full[-1] if load < 1 else 1.0
    slot = slow[-1] * service.steps / most / max(1 - load, TINY) * (1 + service.answer_spread**2) / 2
    first = first + np.where(
        uniform[:, 5] > 1 - queued, slot * -np.log(np.maximum((1 - uniform[:, 5]) / max(queued, TINY), TINY)), 0.0
    )
    batch = float(shares @ np.arange(most + 1))
    between = batch / (rate * service.steps)
    return {
        "rate": rate,
        "first": first,
        "token": service.slowed(shares, stretch, between, rate),
        "batch": batch,
        "busy": 1 - shares[0] * (1 - min(rate * float(alone.mean()), 1.0)),
        "between": between,
        "stable": load < 1,
    }


def _closed(service: _Service, clients: float) -> dict[str, Any]:
    """Return the steady state for this number of clients, each of which sends its next request once it is answered."""
    active = min(clients, service.slots)
    per_step = service.prompt / service.steps
    # Up to this number of requests that are decoded, iterations have room for the prompts of those that follow.
    uncrowded = CROWDED * max(service.chunk / (per_step + CROWDED), 1 / per_step)
    low, high = 0.0, 1.0 if service.first else min(1.0, uncrowded / max(active - 1, TINY))
    share, last = high, (0.0, 0.0)
    for _ in range(ROUNDS):  # share of its iterations in which a request is decoded: secants within a bracket
        others = (active - 1) * share
        chain = service.chain(0.0, others, True)
        if service.first:  # prompts go first: where answers have iterations, none waits
            break
        passes = float(service.waits(0.0, others, True, chain=chain)[2].mean())
        more = service.steps / (passes + 1 + service.steps) - share
        if abs(more) < TOLERANCE / 2 or high - low < TOLERANCE / 2 or (more > 0 and share == high):
            break
        low, high = (share, high) if more > 0 else (low, share)
        # At first as if passes did not depend on the share.
        slope = min((more - last[1]) / (share - last[0]), -TINY) if last[0] else -1.0
        last, share = (share, more), share - more / slope
        share = share if low < share < high else (low + high) / 2
    between = service.waits(0.0, 1 + others, True, others / (1 + others))[1]
    waits = service.waits(0.0, others, True, points=POINTS, chain=chain)[0]
    batch = active * share
    if not service.first and others * service.prompt / service.steps > MAX_LOAD * service.room(others):
        # Prompts fill all iterations, and wait for the rest of the cycle.
        room = service.room(batch)
        between = float(service.iteration(room, batch))
        lacking = active * service.prompt / room * between - service.steps * between - float(waits.mean())
        waits = waits + max(lacking, 0.0)
    if service.first:  # a cycle has a step for each token of an answer, and after each the prompts of whom it answered
        step = float(service.step(active))
        between = max(step + service.pauses(active) - float(waits.mean()) / service.steps, step)
    rate = active / (float(waits.mean()) + service.steps * between)
    stretch = between / float(service.step(max(batch, 1.0)))
    shares = np.eye(int(np.ceil(max(batch, 1))) + 1)[-1]
    queue = (clients - active) / rate
    token = service.slowed(shares, stretch, between, rate, True)
    return {
        "rate": rate,
        "first": waits + queue,
        "token": token,
        "batch": batch,
        "busy": 1.0,
        "between": between,
        "stable": True,
    }


def _alone(service: _Service, clients: float) -> dict[str, Any]:
    """Return the steady state of one answer at a time: no prompt shares an iteration with the answer of another."""
    first, token = float(service.prefill(service.prompt, service.attended)), float(service.step(1.0))
    cycle = first + token * service.steps
    return {
        "rate": 1 / cycle,
        "first": np.full(POINTS, first + (clients - 1) * cycle),
        "token": np.full(POINTS, token),
        "batch": token * service.steps / cycle,
        "busy": 1.0,
        "between": token,
        "stable": True,
    }


def _together(service: _Service, clients: float) -> dict[str, Any]:
    """Return the steady state of a closed loop of equally long answers.

    Requests prefilled together end and return together. Of a mean that is no integer, some engines have one more.
    """
    whole = np.floor(clients)
    if whole < clients < service.slots + 1:
        fewer, more = (_together(service, each) for each in (whole, whole + 1))
        mean = {name: value + (clients - whole) * (more[name] - value) for name, value in fewer.items()}
        return mean | {"stable": True}
    active = np.floor(min(clients, service.slots))
    if active <= 1 and service.prompt_spread == 0:
        return _alone(service, clients)
    room = service.room(active)
    if service.first:
        passes = np.ceil(active * service.prompt / room - TINY)
        tokens = np.minimum(np.arange(1, passes + 1) * room, active * service.prompt)
        ends = np.cumsum(service.iteration(np.diff(tokens, prepend=0.0), 1.0))
        cycle = ends[-1] + service.steps * float(service.step(active))
        place = np.minimum((UNIFORM[:, 1] * active).astype(int) * service.prompt // room, passes - 1).astype(int)
        first = ends[place]
        token = (cycle - first) / service.steps
        return {
            "rate": active / cycle,
            "first": first + (clients - active) * cycle / active,
            "token": token,
            "batch": active * float(token.mean()) * service.steps / cycle,
            "busy": 1.0,
            "between": float(token.mean()),
            "stable": True,
        }
    spent, own, passes, crowd, cycle = float(active), np.zeros(1), 1.0, 1.0, 1.0
    for _ in range(ROUNDS):
        room = service.room(spent)
        parts = np.ceil(service.prompt / room - TINY)
        # Crowds split where their prompts are too long for one iteration, and never merge: two deviations fit.
        spread = service.prompt_spread
        crowd = (np.sqrt(spread**2 + room / service.prompt) - spread) ** 2
        crowd = min(max(crowd if spread else np.floor(crowd + TINY), 1.0), active)
        # A cycle has at least the iterations that all prompts fill.
        rounds = max(service.steps + parts, active * service.prompt / room)
        passes = rounds - service.steps
        # Iterations with a prompt, of all those of a cycle; the others only decode.
        filled = min(active / crowd * parts, rounds)
        own = service.iteration(min(active * service.prompt / filled, room), spent)
        cycle = filled * float(own) + (rounds - filled) * float(service.step(max(spent, 1.0)))
        spent = (spent + active * service.steps / rounds) / 2
    first, between = passes * float(own), (cycle - passes * float(own)) / service.steps
    mixed_iteration = service.iteration(np.minimum(service._sum(np.full(POINTS, crowd), NORMAL[:, 6]), room), spent)
    waits = passes * mixed_iteration if service.prompt_spread else np.full(POINTS, first)
    return {
        "rate": active / cycle,
        "first": waits + (clients - active) * cycle / active,
        "token": np.full(POINTS, between),
        "batch": spent,
        "busy": 1.0,
        "between": between,
        "stable": True,
    }


def service_latencies(
    decode: Cost,
    prefill: Cost,
    *,
    prompt: float,
    answer: float,
    kv_tokens: float,
    max_sequences: float,
    chunk: float,
    rate: float = np.nan,
    clients: float = np.nan,
    prefill_first: bool = False,
    prompt_spread: float = 0.0,
    answer_spread: float = 0.0,
    burstiness: float = 1.0,
    window: float = np.inf,
    windowed: float = 0.0,
    windowed_scores: float | None = None,
    state: float = 0.0,
) -> dict[str, Any]:
    r"""Return throughput and latency percentiles of one engine in a steady state.

    For one service whose lengths and arrivals spread, in some hundredths of a second; means of thousands of services
    of fixed lengths at once are those of `cookbook.formulas.generation.steady_service`.

    .. math:: n = \lambda (t_{first} + (o - 1)\, t_{token})

    Parameters
    ----------
    decode : callable
        Time of an iteration [s] of a batch [-] of sequences that read the keys and values of a number of tokens, on
        average also over layers [-].
    prefill : callable
        Time of a pass [s] over tokens of prompts [-] that attend to a number of tokens each, on average over layers
        [-].
    prompt, answer : float
        Mean tokens of a prompt and of an answer [-].
    kv_tokens : float
        Tokens whose keys and values, in all layers, fit in memory [-].
    max_sequences : float
        Largest number of sequences per iteration [-].
    chunk : float
        Largest number of tokens per iteration [-].
    rate : float
        Arrival rate of requests [1/s]; the alternative is `clients`.
    clients : float
        Clients, each of which sends its next request once it is answered [-].
    prefill_first : bool
        Whether prompts go before answers, instead of chunks beside them [-].
    prompt_spread, answer_spread : float
        Standard deviation of the lengths over their mean, log-normal [-].
    burstiness : float
        Variance of the gaps between arrivals over their squared mean [-].
    window, windowed : float
        Sliding window, and the share of the layers that attend within it, as of `attended_tokens` [-].
    windowed_scores : float, optional
        Share of the work on scores within it, where layers have heads of several sizes; by default `windowed` [-].
    state : float
        Tokens whose keys and values take the memory of one sequence's state in layers that do not attend [-].

    Returns
    -------
    dict
        rate [1/s]; ttft, tpot and e2e, each as mean, _p50, _p95 and _p99 [s]; batch, the sequences that are decoded
        [-]; busy, the share of time in which the engine computes [-]; stable, whether it keeps up.

    References
    ----------
    Little, A proof for the queuing formula L = lambda W, Operations Research 9, 1961; and those of this module.

    Examples
    --------
    One client, 10 ms a token and 50 ms a prompt:

    >>> alone = service_latencies(lambda batch, seen: 0.01 + 0 * batch, lambda tokens, seen: 0.05 + 0 * tokens,
    ...                        prompt=100, answer=11, kv_tokens=1e5, max_sequences=64, chunk=2048, clients=1)
    >>> round(alone["e2e"], 3), round(alone["rate"], 3)
    (0.15, 6.667)
    """
    load = {
        "prompt": float(prompt),
        "answer": float(answer),
        "kv_tokens": float(kv_tokens),
        "max_sequences": float(max_sequences),
        "chunk": float(chunk),
        "first": bool(prefill_first),
        "prompt_spread": float(prompt_spread),
        "answer_spread": float(answer_spread),
        "burstiness": float(burstiness),
        "window": float(window),
        "windowed": float(windowed),
        "windowed_scores": windowed_scores,
        "state": float(state),
    }
    service = _Service(decode, prefill, load)
    if np.isnan(clients):
        steady = _open(service, float(rate))
    elif service.answer <= 1 or (
        service.answer_spread == 0 and (service.first or service.prompt_spread == 0 or 2 * prompt <= chunk)
    ):
        steady = _together(service, float(clients))
    else:
        steady = _closed(service, float(clients))
    whole = steady["first"] + steady["token"] * service.answers()
    summary = {name: steady[name] for name in ("rate", "batch", "busy", "stable")}
    summary["rate"], summary["batch"] = float(summary["rate"]), float(summary["batch"])
    for name, values in (("ttft", steady["first"]), ("tpot", steady["token"]), ("e2e", whole)):
        summary[name] = float(values.mean())
        summary |= {
            f"{name}_p{at}": float(end) for at, end in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)
        }
    return summary
