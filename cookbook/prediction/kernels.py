"""Measurements of single kernels: constants by family of devices and format, and matrix products of devices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import pandas as pd

from cookbook import catalog, hardware
from cookbook.hardware.accelerator import catalogue_row
from cookbook.hardware.machine import link_shares
from cookbook.prediction.precision import stored_bytes
from cookbook.units import shown

ANY, USUAL = "any", "bf16"
GDDR = "gddr"
# Formats of the table ``kernel_constants``; every other one is computed in 16 bits. Devices without a fast link sum
# over PCIe, which was timed on one family.
KERNEL_FORMATS, OVER_PCIE = ("fp8", "int8", "fp4"), "blackwell-gddr"
# Of the ideal, whose kernels start at once and reach the datasheet.
IDEAL_KERNELS = {
    **dict.fromkeys(
        (
            "weight_share",
            "product_share",
            "cache_share",
            "attention_share",
            "expert_pace",
            "expert_reading",
            "sum_link",
        ),
        1.0,
    ),
    **dict.fromkeys(
        (
            "attention_ramp",
            "layer_start",
            "latent_start",
            "expert_start",
            "expert_tile",
            "expert_passes",
            "query_cost",
            "sum_start",
            "sum_rank",
        ),
        0.0,
    ),
}
# Shortest side of a product that fills an accelerator.
MIN_SIDE = 1024


class KernelConstant(NamedTuple):
    """One constant of a kernel: its value, how sure it is, and whether the family was measured in the format.

    Attributes
    ----------
    value : float
        In SI: seconds, or a pure number.
    spread : float
        Standard deviation of the value's logarithm, between engines and devices of the family.
    measured : bool
        False where other families or the 16-bit kernel are used instead.
    """

    value: float
    spread: float
    measured: bool


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """Return value and spread by part, constant, family and format."""
    rows = catalog.table("kernel_constants")
    names = zip(rows["part"], rows["constant"], rows["family"], rows["format"], strict=True)
    return {
        key: (float(value), float(spread))
        for key, value, spread in zip(names, rows["value"], rows["spread"], strict=True)
    }


@lru_cache(maxsize=1)
def kernel_families() -> frozenset[str]:
    """Return the families of devices whose kernels were measured, of the table ``kernel_constants``."""
    return frozenset(family for _, _, family, _ in _table()) - {ANY}


def kernel_family(generation: str, memory_type: str = "") -> str:
    """Return the family under which a device's kernels are listed.

    Parameters
    ----------
    generation, memory_type : str
        Of the device, as the table ``accelerators`` has them.

    Returns
    -------
    str
        The generation; with ``-gddr`` for devices without HBM where some with GDDR were measured apart.

    Examples
    --------
    >>> kernel_family("blackwell", "HBM3e"), kernel_family("blackwell", "GDDR7"), kernel_family("ada", "GDDR6")
    ('blackwell', 'blackwell-gddr', 'ada')
    """
    apart = f"{generation}-{GDDR}"
    plain = bool(memory_type) and not memory_type.upper().startswith("HBM")
    return apart if plain and apart in kernel_families() else generation


@lru_cache(maxsize=2048)
def kernel_constant(part: str, constant: str, family: str = ANY, format: str = USUAL) -> KernelConstant:
    """Return a constant of a kernel's form, or its substitute where it was not measured.

    Taken are, in this order: the family in the format, all families in the format, all families in bf16. Forms are in
    `cookbook.calibration.kernels`; times are bursts at full clock, as measured in CUDA graphs, without the host.

    Parameters
    ----------
    part : str
        Kernel: ``matmul``, ``prompt_attention``, ``decode_attention``, ``experts``, ``latent_prompt``,
        ``latent_decode``, a collective such as ``engine_all_reduce``, or ``layer``.
    constant : str
        Name in the form, such as ``bandwidth_share``, ``peak_share`` or ``start``.
    family : str
        Of the device, as `kernel_family` names it; one that was not measured takes ``any``.
    format : str
        Number format of the matmuls; of keys and values for attention of one token. Collectives have none.

    Returns
    -------
    KernelConstant
        A named tuple of three scalars: value in SI, spread of its logarithm, whether it was measured there.

    Raises
    ------
    ValueError
        The part has no such constant.

    Notes
    -----
    Fitted to NVIDIA's AIConfigurator, package aiconfigurator-core 0.12.0 (table ``kernels``).

    Examples
    --------
    >>> kernel_constant("matmul", "bandwidth_share", "hopper").measured
    True
    >>> kernel_constant("matmul", "start", "cdna3", "fp8") == kernel_constant("matmul", "start", "any", "fp8")
    True
    """
    fitted = _table()
    for among, name in ((family, format), (family, ""), (ANY, format), (ANY, ""), (ANY, USUAL)):
        if constant_row := fitted.get((part, constant, among, name)):
            return KernelConstant(*constant_row, among == family != ANY and name in (format, ""))
    raise ValueError(f"no constant {shown(constant)} of kernel {shown(part)}: {', '.join(_names())}")


def _names() -> list[str]:
    return sorted({f"{part}/{constant}" for part, constant, _, _ in _table()})


def of_kernels(row: tuple[Any, str, str]) -> dict[str, float]:
    """Return values of single kernels of a device in its formats of products and of keys and values."""
    machine, precision, cache = row
    device = machine.accelerator if machine else None
    family = kernel_family(machine.generation, catalogue_row(device).get("memory_type", "")) if device else ""
    form = precision if precision in KERNEL_FORMATS else USUAL
    cached = "fp8" if stored_bytes(cache or USUAL) <= 1 else USUAL

    def of(part: str, name: str, format: str = form) -> float:
        return kernel_constant(part, name, family, format).value

    fast = device is not None and device.device_link_kind not in ("", "bridge", "bus")
    joined = family if fast else OVER_PCIE
    sums = {name: kernel_constant("engine_all_reduce", name, joined).value for name in ("start", "rank", "link_share")}
    return {
        "weight_share": of("matmul", "bandwidth_share"),
        "product_share": of("matmul", "peak_share"),
        "cache_share": of("decode_attention", "bandwidth_share", cached),
        "attention_share": of("prompt_attention", "peak_share", USUAL),
        "attention_ramp": of("prompt_attention", "ramp", USUAL),
        "layer_start": of("layer", "start"),
        "expert_start": max(of("layer", "start_experts") - of("layer", "start"), 0.0),
        # Queries and results of latent attention pass three more products.
        "latent_start": of("latent_decode", "start", cached)
        - of("decode_attention", "start", cached)
        + 3 * of("matmul", "start"),
        "expert_pace": of("matmul", "peak_share") / of("experts", "peak_share"),
        "expert_reading": of("matmul", "bandwidth_share") / of("experts", "bandwidth_share"),
        "expert_tile": of("experts", "tile_rows"),
        "expert_passes": of("experts", "passes"),
        "sum_start": sums["start"],
        "sum_rank": sums["rank"],
        "sum_link": sums["link_share"] / link_shares()["nvlink"] if fast else 1.0,
    }


def observed_efficiency(matmul: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the share of the peak that measured matrix products reached, by accelerator and number format.

    Most rows of the table are the best shape of a search, so the values are those of the best kernels,
    not what a network reaches. Products too small to fill an accelerator (a side below `MIN_SIDE`) do not count.
    The share is of the peak in the table of accelerators, whatever peak the source took.

    Parameters
    ----------
    matmul : pandas.DataFrame, optional
        Rows like those of the table ``matmul``, which is the default.

    Returns
    -------
    pandas.DataFrame
        One row an accelerator and number format: key, number_format, measured (rows), observed_low and
        observed_high (10th and 90th percentile; equal where there is one row), observed_best,
        observed_sources. An accelerator without measurements has no row.
    """
    return _of_the_table().copy() if matmul is None else _observed(matmul)


@lru_cache(maxsize=1)
def _of_the_table() -> pd.DataFrame:
    return _observed(catalog.table("matmul"))


def _observed(matmul: pd.DataFrame) -> pd.DataFrame:
    devices = hardware.accelerator_table()
    matmul = matmul[~(matmul[["m", "n", "k"]] < MIN_SIDE).any(axis=1)]
    parts = []
    for precision, group in matmul.groupby("number_format", sort=False):
        peak = dict(zip(devices["key"], hardware.peak_flops(devices, str(precision)), strict=True))
        ran = group["accelerator"].map(peak).to_numpy() * group["device_fraction"].to_numpy()
        parts.append(group.assign(share=group["achieved_flops"].to_numpy() / ran))
    rows = pd.concat(parts).dropna(subset=["share"])
    grouped = rows.groupby(["accelerator", "number_format"], sort=False)
    return grouped.agg(
        measured=("share", "size"),
        observed_low=("share", lambda share: share.quantile(0.1)),
        observed_high=("share", lambda share: share.quantile(0.9)),
        observed_best=("share", "max"),
        observed_sources=("source", lambda source: ";".join(dict.fromkeys(source))),
    ).reset_index(names=["key", "number_format"])


@lru_cache(maxsize=8)
def _matmul(precision: str) -> dict[str, float]:
    """Return the best share of the peak that was measured in a number format, by accelerator."""
    rows = catalog.table("matmul")
    rows = rows[(rows["number_format"] == precision) & (rows["shape_kind"] != "sweep")]
    return {str(key): float(share) for key, share in rows.groupby("accelerator")["efficiency"].max().items()}


@lru_cache(maxsize=1024)
def matmul_share(key: str, precision: str, generation: str, vendor: str) -> float:
    """Return the best measured product over the peak: of the device, else the mean of its generation, vendor, or all.

    >>> matmul_share("h100-sxm", "bf16", "", ""), matmul_share("h100-sxm", "fp8", "", "")
    (0.803, 0.709)
    """
    measured, table = _matmul(precision), catalog.table("accelerators")
    if key in measured:
        return measured[key]
    vendors, families = (dict(zip(table["key"], table[name], strict=True)) for name in ("vendor", "generation"))
    for same in (
        [other for other in measured if generation and families.get(other) == generation],
        [other for other in measured if vendors.get(other) == vendor],
        list(measured),
    ):
        if same:
            return sum(measured[other] for other in same) / len(same)
    return math.nan


@lru_cache(maxsize=1024)
def clock_share(key: str, generation: str, watts_per_flops: float) -> float:
    """Return the clock that a device's power sustains, relative to measured devices of its generation; at most 1.

    Power grows with the cube of the clock, as voltage follows it: Horowitz et al., Low-power digital design, IEEE
    Symposium on Low Power Electronics, 1994.

    Parameters
    ----------
    key, generation : str
        The device.
    watts_per_flops : float
        Its power over its peak in 16 bits [W s].
    """
    measured, table = _matmul("bf16"), catalog.table("accelerators")
    rows = table[table["key"].isin(measured) & (table["generation"] == generation)]
    watts = (rows["tdp_watts"] / rows["peak_bf16"]).dropna()
    if not generation or key in measured or not math.isfinite(watts_per_flops) or watts.empty:
        return 1.0
    return min(1.0, float(watts_per_flops / watts.min()) ** (1 / 3))
