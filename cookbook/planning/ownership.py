"""Total cost of ownership over a horizon, and when owning beats renting; every argument may be an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cookbook.catalog.prices import HOUR, LEAST, MOST, YEAR, shown
from cookbook.catalog.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

HOURS_A_YEAR = YEAR / HOUR
MONTHS = 12
KILO = 1e3


@dataclass(frozen=True, eq=False, repr=False)
class Ownership(Printed):
    """What owning costs over a horizon.

    Attributes
    ----------
    parts : dict of str to numpy.ndarray
        USD over the horizon by part: hardware, network, storage, maintenance, electricity, cooling, staff, space.
    horizon_years : numpy.ndarray
    """

    parts: Mapping[str, Any]
    horizon_years: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def summary(self) -> str:
        """Total and horizon."""
        if np.ndim(self.total):
            return f"{np.size(self.total)} totals"
        return f"{self.total:,.0f} USD over {self.horizon_years:g} year{'' if self.horizon_years == 1 else 's'}"

    def frame(self) -> pd.DataFrame:
        """A row a part: its name and USD over the horizon."""
        import pandas as pd

        rows = [{"part": name, "usd": usd} for name, usd in self.parts.items()]
        return pd.DataFrame([*rows, {"part": "total", "usd": self.total}])

    @property
    def total(self) -> Any:
        """All parts together [USD]."""
        return np.sum(np.broadcast_arrays(*self.parts.values()), axis=0)[()]

    @property
    def usd_per_year(self) -> Any:
        """Total over years [USD/year]."""
        return self.total / self.horizon_years


def figure(name: str, value: Any, low: float = 0.0, open_low: bool = False, high: float = MOST) -> np.ndarray:
    """An argument as an array of numbers within a range; NaN (not known) passes."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" and not (array.dtype.kind == "O" and array.size and _plain(array)):
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {shown(value)} is not a number; give one, or an array of numbers") from None
    bad = (array < max(low, LEAST) if open_low else array < low) | (array > high)
    if np.any(bad):
        allowed = f"above {low:g}" if open_low else f"{low:g} or more"
        most = f" and at most {high:g}"
        raise ValueError(f"{name} = {np.extract(bad, array)[0]:g} is not allowed; give {allowed}{most}")
    return array


def _one_shape(*given: Any) -> None:
    """Refuse lists of figures that cannot be taken together."""
    try:
        np.broadcast_shapes(*map(np.shape, given))
    except ValueError:
        raise ValueError("the figures are lists of different lengths; give lists of one length") from None


def _plain(array: np.ndarray) -> bool:
    return all(isinstance(each, (int, float, np.number)) and not isinstance(each, bool) for each in array.flat)


def annuity_usd(price_usd: Any, years: Any, money_rate: Any = 0.0) -> Any:
    r"""What a purchase costs a year, spread over its years of use with the cost of money, in monthly instalments.

    .. math:: A = 12 P i / (1 - (1 + i)^{-12 n}), \quad i = r / 12; \quad A = P / n \text{ where } r = 0

    Parameters
    ----------
    price_usd : array_like
        Price of purchase, P [USD].
    years : array_like
        Years of use, n [years]; nothing is left after them.
    money_rate : array_like
        Yearly cost of money, r; 0 is plain depreciation.

    Returns
    -------
    numpy.ndarray
        Cost of one year [USD/year].

    Raises
    ------
    ValueError
        A price or rate below 0, or no years.

    References
    ----------
    Hennessy & Patterson, Computer Architecture, 5th edition, 2011, section 6.4.

    Examples
    --------
    >>> round(float(annuity_usd(66.7e6, 3, 0.05)) / 12 / 1e6, 2)
    2.0
    >>> float(annuity_usd(9000, 3))
    3000.0
    """
    price = figure("price_usd", price_usd)
    _one_shape(price_usd, years, money_rate)
    months = MONTHS * figure("years", years, open_low=True)
    rate = figure("money_rate", money_rate, high=1.0) / MONTHS
    factor = np.where(rate > 0, rate / -np.expm1(-months * np.log1p(np.where(rate > 0, rate, 1.0))), 1 / months)
    return (MONTHS * price * factor)[()]


def ownership_usd(
    hardware_usd: Any,
    horizon_years: Any,
    *,
    life_years: Any,
    money_rate: Any = 0.0,
    network_share: Any = 0.0,
    storage_share: Any = 0.0,
    maintenance_share: Any = 0.0,
    watts: Any = 0.0,
    pue: Any = 1.0,
    usd_per_kwh: Any = 0.0,
    staff_usd_per_year: Any = 0.0,
    space_usd_per_year: Any = 0.0,
) -> Ownership:
    """Total cost of ownership over a horizon, by part.

    Hardware, its network and its storage are spread over their years of use; a horizon that is shorter pays its share,
    a longer one replaces them at the same price.

    Parameters
    ----------
    hardware_usd : array_like
        Price of the machines [USD].
    horizon_years : array_like
        Time over which costs are counted [years].
    life_years, money_rate : array_like
        As for `annuity_usd`.
    network_share, storage_share : array_like
        Price of switches and cables, and of shared storage, over that of the machines.
    maintenance_share : array_like
        Support and repair of one year over the price of all of it.
    watts : array_like
        Mean power drawn by the machines over the horizon, idle hours included [W].
    pue : array_like
        Power usage effectiveness of the building, 1 or more: what it draws over what the machines draw.
    usd_per_kwh : array_like
        Electricity [USD/kWh].
    staff_usd_per_year, space_usd_per_year : array_like
        Staff; rent of space and power feed, as in colocation [USD/year].

    Returns
    -------
    Ownership
        `parts`, `total`, `usd_per_year`; NaN where an argument is NaN.

    Raises
    ------
    ValueError
        A figure that cannot be, such as a horizon of 0.

    Examples
    --------
    >>> owned = ownership_usd(300e3, 3, life_years=5, watts=6e3, pue=1.5, usd_per_kwh=0.08, staff_usd_per_year=20e3)
    >>> {name: round(float(usd) / 1e3) for name, usd in owned.parts.items() if usd}
    {'hardware': 180, 'electricity': 13, 'cooling': 6, 'staff': 60}
    """
    _one_shape(
        hardware_usd, horizon_years, life_years, money_rate, network_share, storage_share, maintenance_share, watts,
        pue, usd_per_kwh, staff_usd_per_year, space_usd_per_year,
    )  # fmt: skip
    horizon = figure("horizon_years", horizon_years, open_low=True)
    price = figure("hardware_usd", hardware_usd)
    yearly = annuity_usd(1.0, life_years, money_rate) * price
    network, storage = figure("network_share", network_share), figure("storage_share", storage_share)
    whole = price * (1 + network + storage)
    power = figure("watts", watts) / KILO * HOURS_A_YEAR * figure("usd_per_kwh", usd_per_kwh)
    per_year = {
        "hardware": yearly,
        "network": yearly * network,
        "storage": yearly * storage,
        "maintenance": whole * figure("maintenance_share", maintenance_share),
        "electricity": power,
        "cooling": power * (figure("pue", pue, low=1.0) - 1),
        "staff": figure("staff_usd_per_year", staff_usd_per_year),
        "space": figure("space_usd_per_year", space_usd_per_year),
    }
    return Ownership({name: (each * horizon)[()] for name, each in per_year.items()}, horizon[()])


def break_even_hours(bought_usd: Any, running_usd_per_hour: Any, rent_usd_per_hour: Any) -> Any:
    r"""Hours of use after which a purchase has cost less than renting.

    .. math:: h = P / (c_{rent} - c_{running})

    Parameters
    ----------
    bought_usd : array_like
        What is paid at the start, P [USD].
    running_usd_per_hour : array_like
        What an hour costs the owner: power, cooling, staff [USD/h].
    rent_usd_per_hour : array_like
        What an hour costs to rent [USD/h].

    Returns
    -------
    numpy.ndarray
        Hours [h]; infinite where renting costs no more than running.

    Raises
    ------
    ValueError
        A figure below 0.

    Examples
    --------
    The published example of Lenovo, 8,556 hours:

    >>> round(float(break_even_hours(833_806, 0.87, 98.32)))
    8556
    """
    _one_shape(bought_usd, running_usd_per_hour, rent_usd_per_hour)
    gain = figure("rent_usd_per_hour", rent_usd_per_hour) - figure("running_usd_per_hour", running_usd_per_hour)
    price = figure("bought_usd", bought_usd)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0, price / gain, np.where(np.isnan(gain), np.nan, np.inf))[()]


def break_even_use(owned_usd_per_year: Any, rent_usd_per_hour: Any) -> Any:
    """Part of all hours that must be used for owning to cost no more than renting those hours.

    Parameters
    ----------
    owned_usd_per_year : array_like
        All that owning costs in a year [USD/year].
    rent_usd_per_hour : array_like
        What an hour costs to rent [USD/h].

    Returns
    -------
    numpy.ndarray
        Part of 8,766 hours; above 1: renting is cheaper however much it is used.

    Raises
    ------
    ValueError
        A cost below 0, or rent that costs nothing.

    Examples
    --------
    >>> round(float(break_even_use(100e3, 28.0)), 2)
    0.41
    """
    _one_shape(owned_usd_per_year, rent_usd_per_hour)
    rent = figure("rent_usd_per_hour", rent_usd_per_hour, open_low=True)
    return (figure("owned_usd_per_year", owned_usd_per_year) / (rent * HOURS_A_YEAR))[()]
