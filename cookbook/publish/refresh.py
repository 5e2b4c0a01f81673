"""Maintenance commands: prices from public catalogues (which need the network), and parts of README between marks.

No notebook and no test uses the network. Values that no catalogue states are kept: a row of another cloud, region or
way to rent stays as it is.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pandas as pd

from cookbook import catalog
from cookbook.catalog.files import write_csv, write_text

Read = Callable[[str], Any]
Row = dict[str, str]
PRICE_COLUMNS = ("usd_per_hour", "usd_per_hour_spot", "usd_per_hour_reserved_1y", "usd_per_hour_reserved_3y")
TIMEOUT, HOURS_A_YEAR, MAX_PAGES = 120, 8760, 500
RESERVED_TERMS = {"1 Year": ("usd_per_hour_reserved_1y", 1), "3 Years": ("usd_per_hour_reserved_3y", 3)}
AZURE_SERIES = re.compile(r"^standard_n", re.IGNORECASE)


@dataclass(frozen=True)
class Catalogue:
    """A public price catalogue.

    Attributes
    ----------
    provider, region, source : str
        Cloud and region, as in `cloud_prices`.
    title, url : str
        Title of the row in `sources`, and the address at which reading starts.
    find : callable
        Called with the address and a reader; returns {instance: {column: USD per hour}}.
    """

    provider: str
    region: str
    source: str
    title: str
    url: str
    find: Callable[[str, Read], dict[str, dict[str, float]]] = field(repr=False)


@dataclass(frozen=True)
class Change:
    """The changes of a refresh: rows rewritten, rows added, and instances missing from the catalogue."""

    updated: int
    added: int
    unknown: tuple[str, ...]


def read_json(url: str) -> Any:
    """Read the JSON at `url`."""
    with urlopen(url, timeout=TIMEOUT) as answer:
        return json.load(answer)


def azure_prices(url: str, read: Read = read_json) -> dict[str, dict[str, float]]:
    """Return Linux prices of accelerated virtual machines from Azure's retail prices, page by page.

    Parameters
    ----------
    url : str
        First page.
    read : callable
        Called with an address; returns its content.

    Returns
    -------
    dict
        Mapping from the instance, as `cloud_prices` writes it, to {column: USD per hour}.

    Raises
    ------
    ValueError
        If a page does not have the known form, so that nothing wrong is written.
    """
    prices: dict[str, dict[str, float]] = {}
    for _ in range(MAX_PAGES):
        page = read(url)
        if not isinstance(page, Mapping) or "Items" not in page:
            raise ValueError(f"{url} is not a page of Azure's retail prices: it has no Items")
        for item in page["Items"]:
            column, price = _azure_item(item)
            if column:
                name = str(item["armSkuName"]).partition("_")[2].replace("_", " ")
                prices.setdefault(name, {})[column] = price
        url = page.get("NextPageLink") or ""
        if not url:
            break
    return prices


def _azure_item(item: Mapping[str, Any]) -> tuple[str, float]:
    """Return column and USD per hour of one item; no column where the table does not include it."""
    name, kind, price = str(item.get("armSkuName", "")), item.get("type"), float(item.get("retailPrice") or 0)
    sort = str(item.get("skuName", ""))
    other = "Windows" in str(item.get("productName", "")) or "Low Priority" in sort
    if not AZURE_SERIES.match(name) or other or price <= 0 or item.get("currencyCode") != "USD":
        return "", 0.0
    if kind == "Reservation" and item.get("reservationTerm") in RESERVED_TERMS:
        column, years = RESERVED_TERMS[str(item["reservationTerm"])]
        return column, price / (years * HOURS_A_YEAR)
    if kind == "Consumption" and item.get("unitOfMeasure") == "1 Hour":
        return ("usd_per_hour_spot" if "Spot" in sort else "usd_per_hour"), price
    return "", 0.0


def aws_prices(url: str, read: Read = read_json) -> dict[str, dict[str, float]]:
    """Return Linux on-demand prices of one region from the price list of AWS; the file is large.

    Parameters
    ----------
    url, read
        As in `azure_prices`.

    Raises
    ------
    ValueError
        If the file does not have the known form.
    """
    offers = read(url)
    if not isinstance(offers, Mapping) or not {"products", "terms"} <= set(offers):
        raise ValueError(f"{url} is not a price list of AWS: it has no products and terms")
    attributes = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    by_instance: dict[str, dict[str, float]] = {}
    for sku, product in offers["products"].items():
        facts = product.get("attributes", {})
        if any(facts.get(name) != value for name, value in attributes.items()):
            continue
        prices = [
            float(part["pricePerUnit"]["USD"])
            for term in offers["terms"].get("OnDemand", {}).get(sku, {}).values()
            for part in term["priceDimensions"].values()
            if part.get("unit") == "Hrs" and "USD" in part["pricePerUnit"]
        ]
        if prices and max(prices) > 0:
            by_instance[facts["instanceType"]] = {"usd_per_hour": max(prices)}
    return by_instance


_AZURE = "https://prices.azure.com/api/retail/prices?$filter=" + quote(
    "serviceName eq 'Virtual Machines' and armRegionName eq 'eastus' and startswith(armSkuName, 'Standard_N')"
)
_AWS = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.json"
CATALOGUES = {
    "azure": Catalogue("Azure", "eastus", "azure-retail-prices", "Azure Retail Prices API", _AZURE, azure_prices),
    "aws": Catalogue("AWS", "us-east-1", "aws-price-list", "AWS Price List, Amazon EC2, us-east-1", _AWS, aws_prices),
}


def refresh_prices(
    names: Iterable[str] = tuple(CATALOGUES),
    folder: Path | None = None,
    read: Read = read_json,
    today: str = "",
) -> dict[str, Change]:
    """Write today's catalogue prices into `cloud_prices`; the rows' earlier content goes to `cloud_price_history`.

    A row of the same cloud, instance and region is rewritten; an instance known from another region gets a row.
    Instances without a row are left out: a person has to determine their accelerator.

    Parameters
    ----------
    names : iterable of str
        Names of catalogues in `CATALOGUES`.
    folder : Path, optional
        Folder of the tables; `data/` by default.
    read : callable
        Called with an address; returns its content.
    today : str
        Date of the prices; today by default.

    Returns
    -------
    dict of str to Change
        Changes by catalogue.

    Raises
    ------
    ValueError
        If a catalogue is unknown, or answers in another form; then nothing is written.
    """
    folder, today = folder or catalog.data_directory(), today or date.today().isoformat()
    unknown = [name for name in names if name not in CATALOGUES]
    if unknown:
        raise ValueError(f"no catalogue called {unknown[0]!r}; take some of {', '.join(CATALOGUES)}")
    tables = {name: _Table.read(folder / f"{name}.csv") for name in ("cloud_prices", "cloud_price_history", "sources")}
    by_catalogue = {name: CATALOGUES[name].find(CATALOGUES[name].url, read) for name in names}
    changes = {name: _merge(CATALOGUES[name], prices, tables, today) for name, prices in by_catalogue.items()}
    for name in ("sources", "cloud_price_history", "cloud_prices"):  # the history is stored before the rows change
        tables[name].write()
    return changes


def _merge(
    catalogue: Catalogue, prices: Mapping[str, Mapping[str, float]], tables: Mapping[str, _Table], today: str
) -> Change:
    """Merge one catalogue's prices into the rows."""
    rows, history, updated, added = tables["cloud_prices"].rows, tables["cloud_price_history"], 0, 0
    provider_rows = [row for row in rows if row["provider"] == catalogue.provider]
    latest = {row["instance"]: row for row in sorted(provider_rows, key=lambda row: row["date"])}
    for instance, pattern in latest.items():
        if instance not in prices:
            continue
        region_rows = [
            row for row in provider_rows if row["instance"] == instance and row["region"] == catalogue.region
        ]
        new = _priced(pattern, catalogue, prices[instance], today)
        if region_rows:
            old = max(region_rows, key=lambda row: row["date"])
            history.rows += [row for row in _earlier(old, history.columns) if row not in history.rows]
            rows[rows.index(old)] = new
            updated += 1
        else:
            rows.append(new)
            added += 1
    source_keys = {row["key"] for row in tables["sources"].rows}
    if (updated or added) and catalogue.source not in source_keys:
        tables["sources"].rows.append(
            dict.fromkeys(tables["sources"].columns, "")
            | {
                "key": catalogue.source,
                "source_group": catalogue.provider.lower(),
                "title": catalogue.title,
                "url": catalogue.url,
                "seen": "yes",
                "note": "Read by `python -m cookbook dev refresh-prices`",
            }
        )
    return Change(updated, added, tuple(sorted(name for name in latest if name not in prices)))


def _priced(row: Row, catalogue: Catalogue, prices: Mapping[str, float], today: str) -> Row:
    """Return the row with today's prices; rental terms that the catalogue does not state are blank, not old."""
    new = row | {way: f"{prices[way]:.6g}" if way in prices else "" for way in PRICE_COLUMNS}
    unit_price = f"{prices['usd_per_hour'] / float(row['devices']):.6g}" if "usd_per_hour" in prices else ""
    return new | {
        "region": catalogue.region,
        "usd_per_device_hour": unit_price,
        "date": today,
        "date_from": "",
        "how": "seen",
        "note": "",
        "locator": "refresh-prices",
        "source": catalogue.source,
    }


def _earlier(row: Row, columns: list[str]) -> list[Row]:
    """Return the row as history, for each accelerator; none where it had no date or no price on demand."""
    if not (row["date"] and row["usd_per_device_hour"]):
        return []
    count = float(row["devices"])
    past = {name: row.get(name, "") for name in columns}
    for years in (1, 3):
        price = row[f"usd_per_hour_reserved_{years}y"]
        past[f"usd_per_device_hour_reserved_{years}y"] = f"{float(price) / count:.6g}" if price else ""
    return [past]


@dataclass
class _Table:
    """A table as text, cell by cell, so that rows which do not change stay as they are."""

    path: Path
    columns: list[str]
    rows: list[Row]

    @classmethod
    def read(cls, path: Path) -> _Table:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
        return cls(path, list(reader.fieldnames or []), list(reader))

    def write(self) -> None:
        write_csv(self.path, self.columns, self.rows)


ACCURACY, BINDER = "accuracy", "binder-links"
KINDS = {
    "training_classic": "training of convolutional, recurrent and other classic networks",
    "training_transformer": "training of transformers",
    "inference": "one forward pass",
    "generation": "language models that answer token by token",
}
MODEL, BASELINE = "full", "constant utilisation"
HEADINGS = (
    "predicted",
    "publishers",
    "rows",
    "median error",
    "mean of publishers' medians",
    "mean of publishers' means",
    "baseline: mean of publishers' medians",
    "80 % interval covers: mean of publishers",
    "publishers in band",
    "interval reaches",
)


def accuracy_section(report: pd.DataFrame | None = None) -> str:
    """Return Markdown: one row per kind, errors and intervals with each publisher held out in turn, and the baseline.

    Parameters
    ----------
    report : pandas.DataFrame, optional
        Rows like those of the table ``validation``, which is the default.
    """
    table = catalog.table("validation") if report is None else report
    outer = table[(table["leave_out"] == "source") & (table["by"] == "all")].set_index(["kind", "model"])
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for kind, words in KINDS.items():
        row, baseline = outer.loc[(kind, MODEL)], outer.loc[(kind, BASELINE)]
        shares = (row.median_error, row.mean_of_medians, row.mean_of_publishers, baseline.mean_of_medians)
        cells = (
            words,
            f"{row.publishers:.0f}",
            f"{row.rows:,.0f}",
            *(f"{100 * share:.1f} %" for share in shares),
            f"{100 * row.publishers_covered_80:.0f} %",
            f"{100 * row.publishers_in_band:.0f} %",
            f"{row.factor_80:.2f}×",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_accuracy(path: str | Path, report: pd.DataFrame | None = None) -> Path:
    """Write the section into a page, between its two marks.

    Parameters
    ----------
    path : str or Path
        The page.
    report : pandas.DataFrame, optional
        As in `accuracy_section`.

    Raises
    ------
    ValueError
        If the page lacks the marks.
    """
    return put(path, ACCURACY, accuracy_section(report))


def links(repo: str, tag: str, notebooks: list[Path]) -> str:
    """Return a Markdown list of launch links: one per notebook of `notebooks`, for the GitHub `repo` at `tag`.

    Raises ValueError for a `repo` that is not owner/name or a `tag` that is not a version such as v0.1.0.

    >>> print(links("owner/name", "v0.1.0", [Path("notebooks/00-start-here.ipynb")]))
    - [00-start-here](https://mybinder.org/v2/gh/owner/name/v0.1.0?urlpath=lab%2Ftree%2Fnotebooks%2F00-start-here.ipynb)
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise ValueError(f"REPO is {repo!r}; write it as owner/name")
    if not re.fullmatch(r"v\d+(\.\d+)*[\w.-]*", tag):
        raise ValueError(f"TAG is {tag!r}; write a version tag such as v0.1.0 (a branch would move under the reader)")
    base = f"https://mybinder.org/v2/gh/{repo}/{tag}?urlpath="
    return "\n".join(
        f"- [{path.stem}]({base}{quote(f'lab/tree/notebooks/{path.name}', safe='')})" for path in notebooks
    )


def write_links(readme: str | Path, repo: str, tag: str) -> Path:
    """Write launch links for every notebook beside `readme` into it; pinned to a tag, a link opens the same next year.

    Raises ValueError if the marks are missing, or as `links` does for a bad `repo` or `tag`.
    """
    notebooks = sorted((Path(readme).parent / "notebooks").glob("[0-9][0-9]-*.ipynb"))
    return put(readme, BINDER, links(repo, tag, notebooks) + "\n")


def marks(part: str) -> tuple[str, str]:
    """Return the two lines between which a command writes the `part` of a page."""
    return f"<!-- {part}: start -->", f"<!-- {part}: end -->"


def put(path: str | Path, part: str, text: str) -> Path:
    """Write `text` between the marks of a `part` of the page at `path`; raises ValueError where it lacks them."""
    start, end = marks(part)
    before, opened, rest = Path(path).read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"{path} lacks the marks {start} and {end}; put them where the part belongs")
    return write_text(path, f"{before}{start}\n{text}{end}{after}")
