"""The decision of recipe 06 follows from its tables of cores, cards, memory and worth, and changes with them."""

import re
from typing import Any

import pandas as pd
import pytest
from records import decision, table, words

SERVERS, GPUS, YEARS, HOURS, SHARES = 8, 8, 4, 8766, {"cores": 0.25, "cards": 0.5}


def three(text: str) -> list[float]:
    """Return point, low and high of a text such as "8,000 (0 to 57,000)"."""
    return [float(figure.replace(",", "")) for figure in re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text).groups()]


def page() -> dict[str, Any]:
    """Return what the stored page shows: tables, the price per GPU hour, and the record."""
    shown = {cell: table("06", cell) for cell in ("utilised", "cards", "memory", "table")}
    price = float(re.search(r"\$([\d.]+) per GPU hour", words("06", "price"))[1])
    return shown | {"price": price, "record": decision("06")}


def follows(page: dict[str, Any]) -> bool:
    """Whether each step is worth its waiting, and the record orders, prices or leaves open what the worths say."""
    busy = {name: three(text)[0] for name, text in page["utilised"].iloc[:, 1].items()}
    step = {name: three(text)[0] for name, text in page["cards"].iloc[:, 1].items()}
    ordered, left = [], []
    for name, row in page["table"].iterrows():
        new, what, old = re.fullmatch(r"(\d+) (\w+) instead of (\d+)", name).groups()
        saved = 1 - (busy[old] / busy[new] if what == "cores" else step[new] / step[old])
        point, low, high = three(row.iloc[1])
        exact = page["price"] * GPUS * YEARS * HOURS * SHARES[what] * saved
        if abs(point - exact) > 0.05 * exact + 3000 or not low <= point <= high:
            return False
        ordered += [f"{name} at a price below ${low:,.0f}"] if low > 0 else []
        left += [f"{name}, worth ${row.iloc[1]}"] if low <= 0 < high else []
    need = [float(each.replace(",", "")) for each in page["memory"].iloc[:, 0]]
    size = next(size for size in (512, 1024, 2048) if size >= need[-1])
    return (
        abs(sum(need[:-1]) - need[-1]) <= 2
        and page["record"]["Choice"] == "; ".join([*ordered, f"{size:,} GB of memory"])
        and page["record"]["Open"] == ("; ".join(left) or "nothing")
        and f"${page['price']:.2f} per GPU hour" in page["record"]["Price"]
        and re.search(r"20\d\d-\d\d to 20\d\d-\d\d", page["record"]["Price"]) is not None
    )


def test_the_record_follows_from_the_page():
    assert follows(page())


def changed(frame: pd.DataFrame, place: tuple[str, int], text: str) -> None:
    frame.iloc[frame.index.get_loc(place[0]), place[1]] = text


@pytest.mark.parametrize(
    ("cell", "place", "text"),
    [
        ("table", ("192 cores instead of 112", 1), "8,000 (2,000 to 57,000)"),  # no longer open
        ("table", ("8 cards instead of 4", 1), "23,000 (28,000 to 19,000)"),  # ends swapped
        ("table", ("112 cores instead of 64", 1), "25,000 (25,000 to 92,000)"),  # point moved to the low end
        ("utilised", ("112", 1), "72 (60 to 96)"),
        ("cards", ("8", 1), "10.6 (8.7 to 13.0)"),  # eight cards as slow as one
        ("memory", ("all at once", 0), "838"),
    ],
)
def test_another_table_gives_another_record(cell, place, text):
    other = page()
    changed(other[cell], place, text)
    assert not follows(other)


def test_another_price_gives_another_worth():
    assert not follows(page() | {"price": 1.49})
