"""Constants of single kernels of inference engines, by family of devices and number format."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from cookbook import catalog
from cookbook.units import shown

ANY, USUAL = "any", "bf16"
GDDR = "gddr"


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
