"""Volumes that lend speed: a bucket of credits fills at the baseline rate, and reading above it empties the bucket.

Credits may count bytes or operations; the docstrings say bytes.
"""

import numpy as np
from numpy.typing import ArrayLike

from cookbook.performance._arguments import Array, non_negative, positive


def credit_seconds(credit: ArrayLike, draw: ArrayLike, refill: ArrayLike) -> Array:
    r"""Time until reading above the baseline has used up the credits.

    .. math:: t = \frac{C}{r - b}, \quad r > b; \quad t = \infty, \; r \le b

    Parameters
    ----------
    credit : array_like
        Credits in the bucket, C; infinite where nothing is counted [B].
    draw : array_like
        Rate of reading while there are credits, r [B/s].
    refill : array_like
        Baseline, at which credits come back, b [B/s].

    Returns
    -------
    numpy.ndarray
        Time [s]; infinite where they never run out.

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986 (the bucket); Amazon, EBS volume types (I/O credits).

    Examples
    --------
    5.4 million operations, 3,000 a second read and 100 a second given back, last 31 minutes:

    >>> round(float(credit_seconds(5.4e6, 3000, 100)) / 60)
    31
    """
    have, taken, given = np.broadcast_arrays(
        non_negative("credit", credit), non_negative("draw", draw), positive("refill", refill)
    )
    above = taken > given
    with np.errstate(invalid="ignore"):
        return np.where(above, have / np.where(above, taken - given, 1), np.inf)


def credit_left(credit: ArrayLike, draw: ArrayLike, refill: ArrayLike, seconds: ArrayLike) -> Array:
    r"""Credits after reading for a while from a full bucket, which holds no more than it did.

    .. math:: C' = \min(C, \max(0, C - (r - b) t))

    Parameters
    ----------
    credit : array_like
        Credits of a full bucket, C [B].
    draw : array_like
        Mean rate of reading, r [B/s].
    refill : array_like
        Baseline, b [B/s].
    seconds : array_like
        Time, t [s].

    Returns
    -------
    numpy.ndarray
        Credits [B].

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986.

    Examples
    --------
    >>> [float(credit_left(1000.0, draw, 50.0, 4.0)) for draw in (100.0, 20.0, 900.0)]
    [800.0, 1000.0, 0.0]
    """
    have, taken = non_negative("credit", credit), non_negative("draw", draw)
    given, time = positive("refill", refill), non_negative("seconds", seconds)
    with np.errstate(invalid="ignore"):
        spent = np.where(taken > given, (taken - given) * time, 0)
    return np.where(np.isinf(have), have, np.maximum(have - np.where(np.isinf(have), 0, spent), 0))


def bursting_seconds(volume: ArrayLike, burst_rate: ArrayLike, later_rate: ArrayLike, credits: ArrayLike) -> Array:
    r"""Time for a volume at a higher rate while credits last, and at a lower one after them.

    .. math:: t = \min\left(\frac{V}{r_b}, t_c\right) + \frac{\max(0, V - r_b t_c)}{r_l}

    Where the volume alone is read, with burst rate r, baseline b and C credits, this is max(V / r, (V - C) / b).

    Parameters
    ----------
    volume : array_like
        What is to be done, V [B].
    burst_rate : array_like
        Rate with credits, r_b [B/s].
    later_rate : array_like
        Rate without, r_l [B/s].
    credits : array_like
        How long they last, t_c; may be infinite [s].

    Returns
    -------
    numpy.ndarray
        Time [s].

    References
    ----------
    Turner, IEEE Communications Magazine 24(10), 1986.

    Examples
    --------
    148 GB at 105 MB/s for ten minutes, then at 52 MB/s:

    >>> round(float(bursting_seconds(148e9, 105e6, 52e6, 600)))
    2235
    """
    whole, fast = non_negative("volume", volume), positive("burst_rate", burst_rate)
    slow, lasting = positive("later_rate", later_rate), non_negative("credits", credits)
    time = np.minimum(whole / fast, lasting)
    return time + np.maximum(whole - fast * time, 0) / slow
