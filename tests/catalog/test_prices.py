"""Price catalogues, read from small samples made up here in the catalogues' form; no network."""

import shutil

import pytest

from cookbook import catalog
from cookbook.publish import refresh as prices

AZURE = {
    "Items": [
        {
            "armSkuName": "Standard_ND40rs_v2",
            "skuName": "ND40rs v2",
            "productName": "NDrs Series",
            "type": "Consumption",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 20.5,
        },
        {
            "armSkuName": "Standard_ND40rs_v2",
            "skuName": "ND40rs v2 Spot",
            "productName": "NDrs Series",
            "type": "Consumption",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 5.0,
        },
        {
            "armSkuName": "Standard_ND40rs_v2",
            "skuName": "ND40rs v2",
            "productName": "NDrs Series Windows",
            "type": "Consumption",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 99.0,
        },
        {
            "armSkuName": "Standard_ND40rs_v2",
            "skuName": "ND40rs v2",
            "productName": "NDrs Series",
            "type": "Reservation",
            "reservationTerm": "1 Year",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 87600.0,
        },
    ],
    "NextPageLink": "second page",
}
SECOND = {
    "Items": [
        {
            "armSkuName": "Standard_D2_v5",
            "skuName": "D2 v5",
            "productName": "Dv5",
            "type": "Consumption",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 0.1,
        },
        {
            "armSkuName": "Standard_NC9999_v9",
            "skuName": "NC9999 v9",
            "productName": "NC",
            "type": "Consumption",
            "currencyCode": "USD",
            "unitOfMeasure": "1 Hour",
            "retailPrice": 7.0,
        },
    ],
    "NextPageLink": None,
}
LINUX = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
AWS = {
    "products": {
        "a": {"attributes": {**LINUX, "instanceType": "p5.48xlarge"}},
        "b": {"attributes": {**LINUX, "instanceType": "p5.48xlarge", "operatingSystem": "Windows"}},
    },
    "terms": {
        "OnDemand": {
            "a": {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": "40.0"}}}}},
            "b": {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": "80.0"}}}}},
        }
    },
}


def read(url):
    return SECOND if url == "second page" else AWS if "aws" in url else AZURE


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(catalog.data_directory(), tmp_path / "data")
    return tmp_path / "data"


def test_azure_pages_are_read_to_the_end_without_windows_and_processors():
    found = prices.azure_prices("first page", read)
    assert found["ND40rs v2"] == pytest.approx(
        {"usd_per_hour": 20.5, "usd_per_hour_spot": 5.0, "usd_per_hour_reserved_1y": 10.0}
    )
    assert set(found) == {"ND40rs v2", "NC9999 v9"}


def test_aws_offers_give_linux_on_shared_hosts():
    assert prices.aws_prices("https://aws", read) == {"p5.48xlarge": {"usd_per_hour": 40.0}}


def test_a_refresh_dates_rows_keeps_what_they_said_and_leaves_the_others(folder):
    before, past = catalog.table("cloud_prices", folder), catalog.table("cloud_price_history", folder)
    old = before[(before["instance"] == "p5.48xlarge") & (before["region"] == "us-east-1")].sort_values("date").iloc[-1]
    changes = prices.refresh_prices(folder=folder, read=read, today="2026-11-21")
    catalog.count_rows(folder)
    assert not catalog.validate_all(folder)
    after, now = catalog.table("cloud_prices", folder), catalog.table("cloud_price_history", folder)
    row = after[(after["source"] == "aws-price-list")].iloc[0]
    assert (row["instance"], row["usd_per_hour"], row["usd_per_device_hour"], row["date"]) == (
        "p5.48xlarge",
        40.0,
        5.0,
        "2026-11-21",
    )
    assert len(now) == len(past) + 1
    assert now.iloc[-1]["usd_per_device_hour"] == pytest.approx(old["usd_per_device_hour"])
    assert changes["aws"].updated == 1 and changes["azure"].added == 1 and "ND40rs v2" not in changes["azure"].unknown
    assert len(after) == len(before) + 1
    kept = after[~after["source"].isin(["aws-price-list", "azure-retail-prices"])]
    assert len(kept) == len(before) - 1


@pytest.mark.parametrize("answer", [[], {"error": "busy"}])
def test_another_form_writes_nothing(folder, answer):
    text = (folder / "cloud_prices.csv").read_text()
    for name in prices.CATALOGUES:
        with pytest.raises(ValueError, match="is not a"):
            prices.refresh_prices([name], folder, lambda url: answer)
    with pytest.raises(ValueError, match="no catalogue called 'ibm'"):
        prices.refresh_prices(["ibm"], folder, read)
    assert (folder / "cloud_prices.csv").read_text() == text


@pytest.mark.all
@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_refresh_that_is_killed_between_two_tables_loses_no_price(folder, monkeypatch, written):
    """The second run finds what the first left: each old price is kept, once, whatever was written before."""
    plain, left = prices._Table.write, [written]

    def killed(table):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        plain(table)

    past = catalog.table("cloud_price_history", folder)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(prices._Table, "write", killed)
        prices.refresh_prices(folder=folder, read=read, today="2026-11-20")
    prices.refresh_prices(folder=folder, read=read, today="2026-11-20")
    catalog.count_rows(folder)
    assert not catalog.validate_all(folder)
    assert len(catalog.table("cloud_price_history", folder)) == len(past) + 1
