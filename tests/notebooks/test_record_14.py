"""The choices of recipe 14 follow from the table of its buyers."""

import re

import nbformat
import pandas as pd
import pytest
from records import FOLDER, decision, sources, table, words

import cookbook as cb

COST, MACHINES, TIME = "3 years [$, 80 %]", "machines (fast to slow end)", "run (80 %) or latency"
BUDGET = 20_000  # of the hospital [$]


def right_choice(rows: pd.DataFrame, tied: list[int], said: str) -> bool:
    """Whether a choice names its stacks, is open where a price is recalled, and sizes what is rented or bought."""
    names, rented = [rows["stack"].iloc[at] for at in tied], [at for at in tied if "Cloud, " in rows["stack"].iloc[at]]
    first = (rented or tied)[0]
    count = rows[MACHINES].iloc[first]
    sized = rows["stack"].iloc[first] + (f", machines: {count}" if "(" in count else "")
    if len(tied) == 1:
        recalled = rows["priced"].iloc[first].startswith("recalled")
        return said == (f"open: {sized}; get a quote first" if recalled else sized)
    recalled = any(rows["priced"].iloc[at].startswith("recalled") for at in tied)
    ask = "get quotes first" if recalled else "ask for more quotes"
    return said == f"open: {' or '.join(names)}; " + (f"start with {sized}" if rented else ask)


def test_the_record_follows_from_the_buyers():
    """Each buyer gets the stacks whose intervals overlap that of the cheapest, with its cost and machines."""
    sizes = table("14", "one-size")
    record = decision("14")
    for who, rows in table("14", "buyers").groupby(level=0, sort=False):
        spans = [[float(figure.replace(",", "")) for figure in re.findall(r"[\d,]*\d", text)] for text in rows[COST]]
        order = sorted(range(len(spans)), key=lambda at: spans[at][0])
        first = order[0]
        tied = [at for at in order if spans[at][1] <= spans[first][2]]
        name, wanted = rows["stack"].iloc[first], record.get(f"{who}: quotes to get", "")
        recalled = {rows["stack"].iloc[at] for at in tied if rows["priced"].iloc[at].startswith("recalled")}
        right = right_choice(rows, tied, record[who]) and recalled == set(
            filter(None, wanted.partition(" (price recalled")[0].split(" and "))
        )
        right &= ("the RTX 4090 is no longer made" in wanted) == any("× RTX 4090" in each for each in recalled)
        time = rows[TIME].iloc[first]
        run, slow = record.get(f"{who}: run", ""), record.get(f"{who}: latency", "")
        right &= (run or slow).startswith(f"{time} on {name} (limit ") and bool(run) != bool(slow)
        right &= "without an interval" in slow if time.endswith(" ms") else time.endswith(" h") and bool(run)
        others = tied[1:] if "at most $" in record[f"{who}: asked"] else []
        right &= record[f"{who}: cost"].split("; ")[1:] == [
            f"{rows['stack'].iloc[at]} ${rows[COST].iloc[at]}"
            + ", whose top exceeds the budget" * (spans[at][2] > BUDGET)
            for at in others
        ]
        price = rows["priced"].iloc[first]
        assert right
        assert f"{name} ${rows[COST].iloc[first]}" in record[f"{who}: cost"]
        assert price in record[f"{who}: cost"]
    pairs = [name for name in sizes.index if " and " in name]
    mean = next(name for name in sizes if "on average" in name)
    best = min(pairs, key=lambda name: float(sizes[mean][name]))
    told = f"{best}: ×{sizes[mean][best]} on average, ×{sizes['at most'][best]} at most"
    single = cb.planning.hourly_usd("mi300x").rows == 1 and "MI300X" in best
    two = record.get("Two sizes (by the medians)", "")
    assert "One size (by the medians)" in record
    assert two.startswith(told)
    assert single and "the MI300X has a single list price" in two


def test_the_record_gives_the_price_of_an_api_to_whoever_may_use_one():
    """The price of an API is that per thousand requests of section 6, times the requests of three years."""
    market, record = table("14", "market"), decision("14")
    asked, said = record["start-up: asked"], record["start-up: or an API"]
    rate, hours = (
        float(each.replace(",", ""))
        for each in re.search(r"([\d,.]+) requests/s.*, ([\d.]+) h per day", asked).groups()
    )
    thousands = rate * 3 * 365.25 * 3600 * hours / 1000
    usd = [float(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", said.partition(")")[0])]
    row = next(row for label, row in market.iterrows() if label.startswith("list prices of services: "))
    close = [
        abs(one / thousands - float(row[end])) <= 0.0006
        for one, end in zip(usd, ("median", "low", "high"), strict=True)
    ]
    assert all(close)
    assert "with no guarantee of latency" in said
    assert bool(re.search(r"list prices of \d{4}-\d\d", said))
    assert {label for label in record if label.endswith("or an API")} == {"start-up: or an API"}


def request(wanted) -> str:
    """Return the words of the record on a request to a language model: tokens, limit per token and precision."""
    if not wanted.tpot:
        return ""
    load = dict(rate=wanted.rate, input_len=wanted.prompt, output_len=wanted.answer, tpot=wanted.tpot)
    assumed = cb.serve(wanted.model, "a100-sxm-80gb", **load).assumed
    precision = next(text.removeprefix("precision = ") for text in assumed if text.startswith("precision = "))
    limit = f"at most {1e3 * wanted.tpot:.0f} ms per token after the first"
    return f" of {wanted.prompt:.0f} + {wanted.answer:.0f} tokens (prompt + answer; {limit}), {precision}"


def test_the_record_says_what_was_asked():
    """The record says what each buyer asked for, as `pick_stack` understood it."""
    record = decision("14")
    of = {"hospital": ("image", "fine-tune"), "start-up": ("chat", "serve"), "factory": ("sensor", "serve")}
    for who, (application, task) in of.items():
        wanted = cb.planning.pick_stack(
            application, task, **({"rate": 10, "hours": 10} if who == "start-up" else {})
        ).wanted
        said = record.get(f"{who}: asked", "")
        amount = (
            f"{wanted.rate:,.0f} requests/s{request(wanted)}, {wanted.hours:g} h per day"
            if task == "serve"
            else f"{wanted.samples:,.0f} samples × {wanted.epochs:g} epochs, {wanted.runs:g} runs per month"
        )
        assert said.startswith(f"{task} {wanted.model}, {amount}")
        assert ("in house" in said) == (who == "hospital")
    assert "at most $20,000" in record["hospital: asked"]


def extra(sizes: pd.DataFrame) -> list[int]:
    """Return by how many tenths the pairs that cover all cases cost more than the best, on average."""
    mean = next(name for name in sizes if "on average" in name)
    return [round(10 * (float(text) - 1)) for name, text in sizes[mean].items() if " and " in name]


def test_the_text_says_what_both_pairs_cost_on_average():
    sizes, text = table("14", "one-size"), (FOLDER / "14-pick-a-stack.ipynb").read_text()
    assert extra(sizes) == [1, 3]
    assert "the best pair costs about a tenth more" in text and "the second-best pair three tenths more" in text


def test_the_record_says_what_one_core_answers():
    """The record gives what one core answers, which is several times what arrives, and what to do first."""
    printed, record = words("14", "processor"), decision("14")
    page = (FOLDER / "14-pick-a-stack.ipynb").read_text()
    macs, rate, flop = re.search(
        r"([\d.]+) million MACs per reading: ([\d,]+) readings/s are (\d+) GFLOP", printed
    ).groups()
    able, least, most = re.search(r"answer ([\d,]+) readings/s .*\(80 %: ([\d,]+) to ([\d,]+)\)", printed).groups()
    arrive = float(rate.replace(",", ""))
    said = record.get("Not compared", "")
    assert float(flop) == pytest.approx(2e-3 * float(macs) * arrive, abs=0.5)
    assert float(least.replace(",", "")) > 3 * arrive
    assert said.startswith("CPU-only machines and edge devices; ")
    assert f"answer {able} readings/s ({least} to {most}), and {rate} arrive at the factory" in said
    assert "on its own computer before you get a quote" in said
    assert "answers several times as many readings as arrive" in page


def test_a_batch_that_cannot_fill_within_the_limit_is_not_waited_for():
    """A batch that would take longer to arrive than the limit is called a limit that must not wait to fill."""
    said = sources("14")["loop2"]
    record = decision("14")
    rate = float(re.search(r"([\d,]+) requests/s", record["factory: asked"])[1].replace(",", ""))
    slow = record["factory: latency"]
    batch = float(re.search(r"([\d,]+) in a batch|batch [\d,]+", slow)[0].strip("batch in").replace(",", ""))
    fills = 1e3 * batch / rate  # [ms]
    warned = f"at most {batch:,.0f} in a batch, which must not wait to fill" in slow
    upper = "The batch is an upper limit: the engine answers whatever is waiting, up to $b$ requests, and never" in said
    assert upper
    assert warned or fills <= float(re.search(r"limit ([\d.]+) ms", slow)[1])


def value_and_now(text: str, best: str) -> tuple[str, str]:
    """Return the value of a turning point in the words of the record, and today's."""
    if price := re.search(rf" if the price of {re.escape(best)} is ([\d.]+) times as high \(\$[\d.,]+\)$", text):
        return price[1], "1"
    other = re.search(r" if .* ([\d.,]+) \S.* \(now ([\d.,]+)\)$", text)
    return (other[1], other[2]) if other else ("nan", "nan")


def test_the_record_says_at_which_value_another_stack_leads():
    """Each buyer is told which stack leads at which value, and what the value is now."""
    record = decision("14")
    for who, key, more in (
        ("hospital", ("image", "fine-tune"), {"private": "in house", "budget": 20000}),
        ("start-up", ("chat", "serve"), {"rate": 10, "hours": 10}),
        ("factory", ("sensor", "serve"), {}),
    ):
        found = cb.planning.pick_stack(*key, **more)
        said = record.get(f"{who}: another stack leads by the medians", "").split("; ")
        rows = [*found.changes().head(2).itertuples()]
        best = found.frame().query("will_do").sort_values("usd", kind="stable")["name"].iloc[0]
        for row, text in zip(rows, said, strict=True):
            scale = 3600 if row.input == "deadline" else 1
            at, now = (float(each.replace(",", "")) for each in value_and_now(text, best))
            assert text.startswith(f"{row.name} if ")
            assert at == pytest.approx(row.at / scale, rel=0.01)
            assert now == pytest.approx(row.now / scale, rel=0.01)


def test_the_record_gives_the_prices_that_it_rests_on():
    """The record gives the prices that its decisions rest on, and those at which another stack leads."""
    record, hour = decision("14"), cb.planning.hourly_usd("a100-sxm-80gb", "on demand").median
    machine = cb.table("systems").set_index("key").loc["gaming-desktop-rtx-4090", "price_usd"]
    cost, turn = record["start-up: cost"], record["start-up: another stack leads by the medians"]
    factor, price = re.search(r"is ([\d.]+) times as high \(\$([\d.]+)\)", turn).groups()
    assert f"over 3 years, price: ${hour:.2f} per hour, 20" in cost
    assert f"over 3 years, price: ${machine:,.0f} to buy, recalled" in record["factory: cost"]
    assert float(price) == pytest.approx(hour * float(factor), rel=0.005)


def test_the_round_trip_that_decides_for_the_factory_is_told():
    """The page names the round trips that it assumes [ms], and what a nearer one changes for the factory."""
    said = sources("14")["loop2"]
    trips = cb.table("constants").set_index("name").value
    house, elsewhere = trips["stack-round-trip-house"], trips["stack-round-trip-elsewhere"]
    record = decision("14")
    offers = [
        cb.planning.pick_stack("sensor", "serve", **more).frame().query("will_do").sort_values("usd", kind="stable")
        for more in ({}, {"away": "8 ms"})
    ]
    rented = offers[1].query("way == 'on demand'").iloc[0]
    assert f"a round trip of {elsewhere:g} ms to a rented or colocated machine and of {house:g} ms to one" in said
    assert not (offers[0]["way"] == "on demand").any()
    assert rented["usd_low"] <= offers[0]["usd_high"].iloc[0]
    assert (
        record["factory: with a round trip of 8 ms"]
        == f"{rented['name']} is feasible at ${rented.usd:,.0f} ({rented.usd_low:,.0f} to {rented.usd_high:,.0f}), and "
        f"the factory can start by renting (assumed to a rented machine: {elsewhere:g} ms)"
    )
    assert f"of which {house:g} ms are an assumed round trip" in record["factory: latency"]
    assert f"of which {elsewhere:g} ms are an assumed round trip" in record["start-up: latency"]


def test_the_record_says_which_stack_is_cheapest_at_other_rates():
    """The record names the start-up's cheapest stack at half, 0.8, 1.2 times and twice its rate.

    The search for turning points leaves out the rate of a language model, where the start-up's nearest one is.
    """
    record, said = decision("14"), sources("14")
    label = "start-up: at other rates"
    found = [
        cb.planning.pick_stack("chat", "serve", rate=rate, hours=10).frame().query("will_do").iloc[0]
        for rate in (5, 8, 12, 20)
    ]
    lines = [
        f"{row['name']}, machines: {row.machines}, at {rate} requests/s"
        for row, rate in zip(found, (5, 8, 12, 20), strict=True)
    ]
    others = {label for label in record if label.endswith("at other rates")}
    assert record.get("start-up: at other rates") == "; ".join(lines)
    assert others == {"start-up: at other rates"}
    assert f"{record[label]}." in words("14", "rates")
    ahead = (
        "another stack is ahead of the A100 at half the rate, at double the rate and at two rates close to the guess"
    )
    assert ahead in said["explain6"] and record["start-up"].split("open: ")[1].startswith("Cloud, 1 × A100")
    assert "A100" not in record[label] and record["What would change it"].startswith("longer prompts or answers, ")


def test_the_search_of_turning_points_says_what_it_leaves_out():
    """Cheapest stacks around the clock at 8 and 4 requests per second, which the search of section 3 does not list."""
    said = sources("14")["explain3"]
    assert "the search leaves out many: for a chat, the rate of requests, the length of" in said
    served = {rate: cb.planning.pick_stack("chat", "serve", rate=rate, hours=24) for rate in (4, 8, 10)}
    assert "volume" not in set(served[10].changes()["input"])
    first = {rate: found.frame().query("will_do").iloc[0] for rate, found in served.items()}
    names = {rate: (row["name"], row.machines) for rate, row in first.items()}
    at = "one rented L40S is the cheapest by the medians; at 4, it is one workstation with one GPU"
    at = f"at 8 requests per second, {at}"
    assert at in said and names[8] == ("Cloud, 1 × L40S", 1) and names[4] == ("Workstation, 1 × RTX 4090", 1)
    assert names[10][0] not in (names[8][0], names[4][0])


def test_longer_prompts_need_more_gpus():
    """The printed numbers of A100s for two lengths of prompts are those of the package and of the text."""
    said, printed = sources("14"), words("14", "served")
    wanted = cb.planning.pick_stack("chat", "serve", rate=10).wanted
    assert (
        "A request has a prompt of 512 tokens and an answer of 256. Each token after the first may take at most 100 ms"
        in said["loop2"]
    )
    assert (wanted.prompt, wanted.answer, wanted.tpot, wanted.latency - wanted.away) == (512, 256, 0.1, 0.97)
    load = dict(rate=10, output_len=256, ttft=0.97, tpot=0.1)
    count = {
        tokens: cb.serve("llama3_8b", "a100-sxm-80gb", input_len=tokens, **load).best["devices"]
        for tokens in (512, 2048)
    }
    lines = [f"prompts of {tokens:,} tokens: {devices:.0f} × A100" for tokens, devices in count.items()]
    named = {1: "one", 2: "two", 4: "four"}
    told = f"four times as many tokens per prompt, it takes {named[count[2048]]} A100s instead of {named[count[512]]}."
    assert printed.splitlines()[:2] == lines
    assert told in said["explain2"]


def test_the_machine_of_a_stack_is_not_called_the_one_that_is_priced():
    """The text names the one provider that lists the MI300X, and its listing of a single GPU."""
    said, prices = sources("14"), cb.table("cloud_prices")
    text = next(source for source in said.values() if "DigitalOcean" in source)
    listed = prices[prices["accelerator_key"].eq("mi300x") & prices["usd_per_hour"].gt(0)]
    assert listed["provider"].tolist() == ["digitalocean"]
    assert listed["devices"].tolist() == [1]
    assert (
        "rests on *one* list price, which DigitalOcean quotes for a single GPU, although the machine resembles one"
        in text
    )


def test_nobody_wins_whom_the_rule_of_the_record_does_not_choose():
    """Columns by the medians alone, or with a recalled price, name the cheapest, and no winner."""
    page = nbformat.read(FOLDER / "14-pick-a-stack.ipynb", as_version=4)
    assert not [cell.id for cell in page.cells if re.search(r"\b(our|a|the) winner\b|Winners:|winner:", str(cell))]
    assert "stacks cost least by the medians in the 8 serving applications" in str(page)
