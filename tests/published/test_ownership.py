"""Cost of ownership: two published calculations from their inputs, to within 10 %."""

import pytest

from cookbook import catalog
from cookbook.topics.costs.cost import annuity_usd, break_even_hours, ownership_usd

EXAMPLES = catalog.table("worked_examples").set_index(["example", "quantity"])["value"]
ROLES = catalog.table("worked_examples").set_index(["example", "quantity"])["role"]


def given(example, quantity):
    assert ROLES[example, quantity] == "input"
    return float(EXAMPLES[example, quantity])


def published(example, quantity, **tolerance):
    assert ROLES[example, quantity] == "outcome"
    return pytest.approx(float(EXAMPLES[example, quantity]), **(tolerance or {"rel": 0.1}))


def lenovo(quantity):
    return given("lenovo-2025", quantity)


def warehouse(quantity):
    return given("warehouse-2011", quantity)


def test_the_seller_s_example_breaks_even_where_it_says():
    hours = break_even_hours(lenovo("hardware"), lenovo("running"), lenovo("rent"))
    assert hours == published("lenovo-2025", "break-even", rel=1e-3)


def test_the_seller_s_five_years():
    years, hours = lenovo("horizon"), 8760
    owned = ownership_usd(
        lenovo("hardware"), years, life_years=years, staff_usd_per_year=lenovo("running") * hours
    )  # what runs, as one sum a year
    assert owned.total == published("lenovo-2025", "on premises", rel=1e-3)
    assert lenovo("rent") * hours * years == published("lenovo-2025", "cloud", rel=1e-3)


def monthly(part):
    price, years = warehouse(part), warehouse(f"life of {part}")
    return annuity_usd(price, years, warehouse("cost of money")) / 12


@pytest.mark.parametrize("part", ["servers", "network", "facility"])
def test_the_warehouse_by_part(part):
    assert monthly(part) == published("warehouse-2011", f"{part} a month")


def bills():
    return ownership_usd(
        0,
        1 / 12,
        life_years=1,
        watts=warehouse("critical load") * warehouse("average use of power"),
        pue=warehouse("power usage effectiveness"),
        usd_per_kwh=warehouse("tariff"),
        staff_usd_per_year=12 * warehouse("people"),
    )


def test_the_warehouse_s_power():
    parts = bills().parts
    assert parts["electricity"] + parts["cooling"] == published("warehouse-2011", "power a month")


def test_the_warehouse_as_a_whole():
    total = sum(monthly(part) for part in ("servers", "network", "facility")) + bills().total
    assert total == published("warehouse-2011", "total a month")


@pytest.mark.parametrize(("part", "share"), [("servers", "share of servers"), ("network", "share of network")])
def test_the_shares_that_were_reported_of_an_earlier_state_of_that_example(part, share):
    """Of 3.5 million USD a month; the facility differs, servers and network do not."""
    whole = float(EXAMPLES["hamilton-2010", "total a month"])
    assert monthly(part) / whole == published("hamilton-2010", share)
