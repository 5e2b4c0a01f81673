"""The verdicts on the slide of "Ten years of accelerators" follow from its tables."""

import re

import pandas as pd
from records import decision, table

HAND = ["traps", "rates", "claims"]


def figures(text: str) -> list[float]:
    return [float(figure) for figure in re.findall(r"\d[\d,]*\.?\d*", text.replace(",", ""))]


def stored() -> dict[str, pd.DataFrame]:
    return {name: table("ten", name) for name in HAND}


def test_the_verdicts_follow_from_the_tables():
    """Each verdict is what intervals and ratios of the tables say, with their figures."""
    record = decision("ten")
    traps, rates, energy = (stored()[name] for name in HAND)
    ratio, joules = traps["new over old"], energy.columns[2]
    rows = ("old device at its base clock", "FP32 outside matrix units", "matrix units and 16 bits")
    printed, plain, dense = (ratio[row] for row in rows)
    mixed = f"not as printed: {printed} mixes precision, sparsity and clocks"
    peaks = f"{mixed}; {plain} in FP32 outside matrix units, {dense} dense in 16 bits"
    first, _, high = map(float, rates.loc["memory bandwidth"].iloc[:3])
    second, low, _ = map(float, rates.loc["FLOP/s, 16 bits or wider"].iloc[:3])
    apart = "arithmetic outgrew memory" if low > high else "open"
    small, large = energy.index[-1], energy.columns[3].removeprefix("than ")
    one, one_low, one_high = figures(energy.loc[small, joules])
    other, other_low, other_high = figures(energy.loc[large, joules])
    verdict = "no" if one_low > other_high else "yes" if one_high < other_low else "open"
    growth, saves = record["Growth per year (80 %)"], record["A small chip saves energy"]
    assert peaks in record.values()
    assert f"FLOP/s {second:.2f} ({low:.2f} to" in growth
    assert f"bandwidth {first:.2f} (" in growth
    assert f"to {high:.2f}): {apart}" in growth
    assert saves.startswith(verdict)
    assert re.search(r"per prompt of \w+, batch 1, fp16, rated power$", saves) is not None
    assert f"{small} {one:.0f} ({one_low:.0f} to {one_high:.0f}) J" in saves
    assert f"{large} {other:.0f} ({other_low:.0f} to {other_high:.0f}) J" in saves
