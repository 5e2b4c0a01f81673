"""The order of recipe 10 follows from its table of offers."""

import re

import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb

SAID = sources("10")

HOUR, COUNT, PRICED = "service at the slow end [$ per hour]", "GPUs (slow end)", "priced by"


def costs(offers: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Dollars of each offer, low and high ends included; a single price is its own range."""
    found = {}
    for name, text in offers[HOUR].items():
        ends = [float(figure) for figure in re.findall(r"[\d.]+", text)]
        if ends:
            found[name] = (ends[0], *(ends[1:] or ends * 2))
    return found


def test_the_record_follows_from_the_offers():
    """The choice is every offer that the best known price does not beat, in GPUs of the slow end."""
    offers = table("10", "offers")
    apis = table("10", "apis")
    record = decision("10")
    usd, numbers = costs(offers), {}
    for name in usd:
        point, slow = map(int, re.fullmatch(r"(\d+) \((\d+)\)", offers[COUNT][name]).groups())
        numbers[name] = slow
        rate = float(offers["price [$ per hour]"][name])
        assert slow >= point
        assert usd[name][0] == pytest.approx(slow * rate, rel=5e-3)
    known = [name for name in usd if not offers[PRICED][name].startswith("1 list price,")]
    most = usd[min(known, key=lambda name: usd[name][0])][2]
    tied = {f"{numbers[name]} × {name}" for name, (_, low, _) in usd.items() if low <= most}
    named = set(re.findall(r"\d+ × [\w.-]+", record["Choice"]))
    said = dict(re.findall(r"(\w+) \$([\d.]+) per hour", record["Or an API"]))
    hosted = {name: float(usd) for name, usd in said.items()} == pytest.approx(
        {name: float(usd) for name, usd in apis["API [$ per hour]"].items()}, abs=0.051
    )
    quoted = all(
        f"{numbers[name]} × {name} ${offers[HOUR][name]}" in record["Dollars per hour (quartiles)"]
        and f"{name} ${offers['price [$ per hour]'][name]} ({offers[PRICED][name]})" in record["Price per GPU"]
        for name in usd
    )
    cheap = [
        name
        for names in re.findall(r"the API of (.+) costs less than every offer", record["Choice"])
        for name in names.split(" or ")
    ]
    least = min(low for _, low, _ in usd.values())
    below = [
        name for name, row in apis.iterrows() if row["cheaper"] == "api" and float(row["API [$ per hour]"]) < least
    ]
    opened = (len(tied) == 1) != record["Choice"].startswith("open:")
    assert named == tied
    assert opened
    assert quoted
    assert hosted
    assert cheap == below


def test_the_number_of_the_record_keeps_the_limit_at_the_slow_end():
    """The interval beside the choice ends below the limit, and that of the median number above it."""
    spans = re.findall(r"(\d+) × h100-sxm (\d+) ms \((\d+) to (\d+)\)", decision("10")["Median TPOT (80 %)"])
    few, enough = ([int(figure) for figure in span] for span in spans)
    limit = int(re.search(r"TPOT (\d+) ms", decision("10")["Stack"])[1])
    assert few[0] < enough[0] and enough[3] < limit < few[3]


def test_the_api_serves_other_weights_of_the_same_shape():
    """The page and the record say that the APIs serve a later model of the shape of ours."""
    rows = cb.table("api_prices").query("model == 'llama3_8b'")
    text, record = SAID["sizingtext"], decision("10")
    assert sorted(rows.provider) == sorted(table("10", "apis").index) and len(rows) == 2
    assert all(re.search(r"3\.1.8b", name, re.I) for name in rows.offer)
    assert "open model of the same shape" in text
    assert "Both prices below are for Llama 3.1 8B, which needs the same arithmetic as Llama 3 8B" in text
    assert record["Or an API"].endswith("; the API's version of the model may differ")


def test_the_mean_over_publishers_falls_a_little_short():
    """The mean over publishers that is printed is as far from 80 % as the text says."""
    printed = words("10", "reality")
    mean = int(re.search(r"mean over all \d+ publishers: (\d+) % inside", printed)[1])
    assert f"the mean over publishers. That mean, {mean} %, falls a little short." in SAID["realitytext"]
    assert 70 < mean < 80


SHARES = r"For dense models, (\d+) % of the rows are inside; for mixtures of experts, (\d+) % are."


def test_dense_models_and_mixtures_are_told_apart():
    """The text gives the shares of rows inside for dense models and for mixtures, as the rows show them."""
    text = SAID["realitytext"]
    facts = cb.table("inference").set_index("id")[["parameters", "active_parameters"]]
    rows = cb.table("validation_generation_rows").set_index("id").join(facts)
    inside = rows["full"].astype(float).abs() <= rows["half_80"].astype(float)
    sparse = rows["active_parameters"].astype(float) < rows["parameters"].astype(float)
    shares = [round(100 * inside[kind].mean()) for kind in (~sparse, sparse)]
    assert [int(share) for share in re.search(SHARES, text).groups()] == shares


def test_the_record_counts_published_services_as_the_page_on_accuracy_does():
    """The record counts rates of published services as the page on accuracy does."""
    entry = decision("10")["Load test most like yours"]
    page = " ".join((FOLDER.parent / "docs" / "accuracy.md").read_text(encoding="utf-8").split())
    inside, rates, dense = re.search(
        r"services, (\d+) of (\d+) are inside, among them all (\d+) of a dense model", entry
    ).groups()
    wide = re.search(r"if its KV cache stores 16 bits, (\d+) of (\d+)\)", entry).groups()
    assert wide == (str(int(dense) - 1), dense)
    assert "with 16, the rate of 100 clients would be 3 % above the interval" in page
    assert f"Of {rates} rates, {inside} are inside our interval" in page
    assert f"All {dense} rates of Llama 3 70B are inside" in page


OWN, FROM = "own GPUs [$ per hour]", "own pays from [requests/s]"


def loads() -> tuple[float, float]:
    """Return the load of the users and the most that the GPUs of the slow end carry [requests/s]."""
    load, most = re.search(r"(\d+) requests/s; the GPUs carry (\d+) at most", words("10", "apis")).groups()
    return float(load), float(most)


def test_owning_never_pays_where_the_gpus_do_not_carry_the_load():
    """Owning pays from the load at which the hours cost the same, and never where the GPUs do not carry it."""
    apis, (load, most) = table("10", "apis"), loads()
    for _, row in apis.iterrows():
        even = load * float(row[OWN].split()[0]) / float(row["API [$ per hour]"])
        assert row[FROM] == "never" or float(row[FROM]) == pytest.approx(even, rel=0.01)
        assert (row[FROM] == "never") == (even > most)
    assert list(apis[FROM]).count("never") == 1
    one = float(re.search(r"([\d.]+) requests/s", words("10", "loads"))[1])
    assert most == pytest.approx(
        one * int(re.search(r"\((\d+)\)", table("10", "offers")[COUNT]["h100-sxm"])[1]), rel=0.01
    )


RIVALS = "Run the same on each GPU that is still open, with its share of the load, and then compare quotes"


def test_the_load_test_is_that_of_the_order():
    """One engine is sent its share of what users ask at the slow end, and all open GPUs are tested.

    Users who wait `slow` milliseconds for each further token come back later than those of a faster engine."""
    record, offers = decision("10"), table("10", "offers")
    test, stack, choice = record["Load test to run"], record["Stack"], record["Choice"]
    slow = float(re.search(r"\d+ to (\d+)\)$", record["Median TPOT (80 %)"])[1])
    assert choice.startswith("open: ")
    prompt, reply = re.search(r"(\d+) \+ (\d+) tokens", stack).groups()
    users, pause = float(re.search(r"([\d,]+) users", stack)[1].replace(",", "")), 30
    many = int(re.search(r"\((\d+)\)", offers[COUNT]["h100-sxm"])[1])
    places, limit = re.search(r"([\d,]+) requests per iteration", stack)[1], re.search(r"TPOT (\d+) ms", stack)[1]
    flags = dict(re.findall(r"--([\w-]+) ([\w.]+)", test))
    assert (flags["random-input-len"], flags["random-output-len"]) == (prompt, reply)
    assert flags["max-num-seqs"] == places.replace(",", "")
    assert float(flags["request-rate"]) * int(flags["tensor-parallel-size"]) == pytest.approx(
        users / (pause + int(reply) * slow / 1e3) / many, rel=0.02
    )
    assert f"{users:,.0f} / (30 s + TTFT + {int(reply) - 1} TPOT) / {many} requests/s" in test
    seconds = float(flags["num-prompts"]) / float(flags["request-rate"])
    assert 5 * 60 < seconds < 15 * 60  # longer than ramp-up and drain
    assert flags["metric-percentiles"] == re.search(r"at p(\d+)", stack)[1]
    assert f"checkpoint of {stack.split(',')[0]}" in test
    assert f"{many} × h100-sxm are enough if" in test
    assert "order" not in test
    assert " or " not in choice.partition(";")[0] or RIVALS in test
    assert f"TPOT below {limit} ms" in test


def test_the_price_of_output_tokens_says_that_prompts_are_charged_separately():
    """The price of a million output tokens is below all that is paid for them, as its heading says."""
    sizes, (load, _) = table("10", "slo"), loads()
    reply = int(re.search(r"\+ (\d+) tokens", decision("10")["Stack"])[1])
    price = next(name for name in sizes if "per million output tokens" in name)
    paid = [float(usd) / (3600 * load * reply / 1e6) for usd in sizes["price [$ per hour]"]]
    assert all(float(each) < 0.8 * whole for each, whole in zip(sizes[price], paid, strict=True))
    assert "prompts extra" in price
