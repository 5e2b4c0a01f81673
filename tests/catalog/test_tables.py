"""The facts that ship: every row has its source, every key leads somewhere, every recalled figure says so."""

import math
import re
import shutil

import pytest

from cookbook import catalog, hardware, units
from cookbook.catalog import reading, tables
from cookbook.catalog.reading import schema

DATA = catalog.data_directory()
NAMES = catalog.table_names()


def records(name):
    return list(tables.raw(name, DATA).records())


def test_the_catalogue_is_sound():
    assert [str(error) for error in catalog.validate_all()] == []


def test_every_table_has_a_schema_and_the_reverse():
    files = {path.stem for path in DATA.glob("*.csv")}
    assert files == set(NAMES)


def test_the_readme_is_what_the_schemas_say():
    written = (DATA / "README.md").read_text(encoding="utf-8")
    assert written == catalog.describe_tables(), "run: python -m cookbook dev data-readme"


@pytest.mark.parametrize("name", NAMES)
def test_every_table_and_column_is_described(name):
    described = {row["table"] for row in reading.read(DATA / "schema" / "_tables.csv").records()}
    assert name in described
    assert tables.row_counts(DATA)[name] == len(records(name)), "run: make data-readme"
    assert all(column.description for column in schema(name, DATA).columns)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sources"])
def test_every_row_cites_a_source(name):
    known = {row["key"] for row in records("sources")}
    for row in records(name):
        assert row["source"], row
        assert set(row["source"].split(";")) <= known


def test_every_source_is_cited():
    cited = set()
    for name in NAMES:
        for row in records(name):
            for column, cell in row.items():
                if column == "source" or column.endswith("_source"):
                    cited |= set(cell.split(";"))
    unused = {row["key"] for row in records("sources")} - cited
    assert not unused, "remove these sources, or cite them"


@pytest.mark.parametrize("name", NAMES)
def test_what_rests_on_memory_says_so(name):
    unseen = {row["key"] for row in records("sources") if row["seen"] == "no"}
    for row in records(name):
        if (
            name != "sources"
            and unseen & set(row["source"].split(";"))
            and "recalled" in schema(name, DATA)["how"].type
        ):
            assert row["how"] in ("recalled", "mixed"), row
            if "recalled_fields" in row:
                assert row["recalled_fields"], row


def test_every_figure_of_an_accelerator_has_one_used_statement_of_equal_value():
    used = {}
    for row in records("accelerator_provenance"):
        if row["status"] == "used":
            assert (row["accelerator"], row["field"]) not in used
            used[row["accelerator"], row["field"]] = row
    columns = [column for column in schema("accelerators", DATA).columns if column.numeric]
    figures = 0
    for row in records("accelerators"):
        for column in columns:
            statement = used.get((row["key"], column.name))
            if row[column.name]:
                figures += 1
                assert statement is not None, (row["key"], column.name)
                assert float(statement["value"]) == float(row[column.name])
                assert statement["unit"] == column.unit
                assert (statement["how"] == "recalled") == (column.name in row["recalled_fields"].split(";"))
                assert (statement["how"] == "derived") == (column.name in row["derived_fields"].split(";"))
                assert statement["source"] in row["source"].split(";")
            else:
                assert statement is None, (row["key"], column.name)
    assert figures > 1500


def test_a_wrong_figure_in_the_provenance_is_found(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    file = tmp_path / "data" / "accelerators.csv"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(",HBM3,3350,", ",HBM3,3360,", 1), encoding="utf-8")
    errors = catalog.validate_all(tmp_path / "data")
    assert [(error.file, error.column) for error in errors] == [("data/accelerators.csv", "mem_bandwidth")]


@pytest.mark.parametrize(("name", "kept"), [("accelerators", 100), ("matmul", 1), ("sources", 200)])
def test_a_table_cut_at_the_end_of_a_line_is_refused(tmp_path, name, kept):
    shutil.copytree(DATA, tmp_path / "data")
    file = tmp_path / "data" / f"{name}.csv"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:kept]), encoding="utf-8")
    with pytest.raises(catalog.CatalogError, match="truncated: restore it"):
        catalog.table(name, tmp_path / "data")
    assert len(catalog.validate_all(tmp_path / "data")) == 1


def test_a_constant_must_have_a_known_unit(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    file = tmp_path / "data" / "constants.csv"
    file.write_text(file.read_text(encoding="utf-8").replace(",MiB,", ",Mib4,"), encoding="utf-8")
    with pytest.raises(catalog.CatalogError, match="unknown unit 'Mib4'"):
        catalog.table("constants", tmp_path / "data")


def test_provenance_values_read_in_si_equal_the_table():
    frame = catalog.table("accelerators").set_index("key")
    for key, field in [("h100-sxm", "peak_fp64"), ("a100-sxm-80gb", "memory_bytes"), ("l4", "boost_clock")]:
        assert catalog.provenance(key, field).value == frame.loc[key, field]


def test_peaks_are_dense_and_in_a_plausible_order():
    """Half the bits double the rate on every shipped NVIDIA GPU: a sparse figure among dense ones would stand out."""
    frame = catalog.table("accelerators")
    gpus = frame[(frame["kind"] == "gpu") & (frame["vendor"] == "NVIDIA") & ~frame["name"].str.contains("announced")]
    for narrow, wide in [
        ("peak_fp8", "peak_fp16"),
        ("peak_fp16", "peak_tf32"),
        ("peak_fp8_fp32acc", "peak_fp16_fp32acc"),
    ]:
        ratio = (gpus[narrow] / gpus[wide]).dropna()
        ratio = ratio[~gpus["name"].str.startswith("GeForce") | (narrow != "peak_fp16")]
        assert ratio.between(1.9, 2.1).all(), narrow
    accumulate = (gpus["peak_fp16_fp32acc"] / gpus["peak_fp16"]).dropna()
    assert accumulate.between(0.49, 0.51).all()


def test_bandwidth_and_memory_lie_between_bounds_of_physics():
    frame = catalog.table("accelerators")
    frame = frame[~frame["memory_type"].str.contains("SRAM")]
    ridge = (frame["peak_fp32"] / frame["mem_bandwidth"]).dropna()
    assert ridge.between(1, 1000).all()
    bandwidth = frame["mem_bandwidth"].dropna()
    assert bandwidth.between(1e9, 30e12).all()


def test_geforce_cards_with_tensor_cores_have_the_rate_with_32_bit_accumulation():
    frame = catalog.table("accelerators")
    geforce = frame[frame["name"].str.startswith("GeForce") & frame["peak_fp16"].notna()]
    assert len(geforce) >= 7
    assert geforce["peak_fp16_fp32acc"].notna().all()


def test_number_formats_name_columns_of_accelerators_and_bytes_of_mixed_precision():
    """Micikevicius et al. 2018 and Rajbhandari et al. 2020: 2 + 2 + 4 bytes beside Adam's 8 make 16."""
    frame = catalog.table("number_formats").set_index("name")
    columns = catalog.table("accelerators").columns
    assert all(set(cell.split(";")) <= set(columns) for cell in frame["peak_columns"])
    states = catalog.table("optimisers").set_index("name").loc["adam", "state_elements"] * 4
    for name in ("fp16", "bf16"):
        row = frame.loc[name]
        assert row["weight_bytes"] + row["gradient_bytes"] + row["master_bytes"] + states == 16
    fp32 = frame.loc["fp32"]
    assert fp32["weight_bytes"] + fp32["gradient_bytes"] + fp32["master_bytes"] + states == 16
    assert frame.loc["fp16", "peak_columns"].split(";")[0] == "peak_fp16_fp32acc"


def test_optimisers_move_the_bytes_of_their_update_rules():
    """Elements touched a step: SGD 3, momentum 5, Adam 7, LAMB 10; at 4 bytes 12, 20, 28, 40."""
    frame = catalog.table("optimisers").set_index("name")
    moved = frame["update_reads"] + frame["update_writes"]
    assert moved[["sgd", "momentum", "adam", "lamb"]].tolist() == [3, 5, 7, 10]
    assert frame.loc[["sgd", "momentum", "adam", "lamb"], "state_elements"].tolist() == [0, 1, 2, 2]


def test_prices_are_dated_and_no_spot_price_exceeds_the_list_price():
    prices = catalog.table("cloud_prices")
    both = prices.dropna(subset=["usd_per_hour", "usd_per_hour_spot"])
    assert (both["usd_per_hour_spot"] <= both["usd_per_hour"] * 1.0001).all()
    assert not prices["note"].str.contains("SUSPECT").any()
    assert (catalog.table("cloud_price_history")["date"] != "").all()
    assert (catalog.table("hardware_prices")["date"] != "").all()
    undated = prices[prices["date"] == ""]
    assert undated["note"].str.contains("date not visible|catalog v8").all()


def test_two_dies_are_twice_one():
    """A board that holds two of a device has twice its peak and memory, and a source that says otherwise is named."""
    board, die = (hardware.accelerator(key) for key in ("k80-board", "k80-die"))
    assert board.peaks["peak_fp32"] == pytest.approx(2 * die.peaks["peak_fp32"], rel=0.003)
    said = catalog.provenance("k80-board", "peak_fp32")
    assert [round(each.value / 1e12, 3) for each in said.rejected] == [8.126]


def test_carbon_intensities_lie_between_water_and_coal():
    """Two regions of Azure were a million times too high in a copy of their source."""
    rows = catalog.table("tco").query("category == 'carbon_intensity'").dropna(subset=["value"])
    assert rows["value"].between(1, 1200).all()


def test_instance_price_is_the_price_of_its_devices():
    prices = catalog.table("cloud_prices").dropna(subset=["usd_per_hour", "usd_per_device_hour", "devices"])
    ratio = prices["usd_per_hour"] / prices["devices"] / prices["usd_per_device_hour"]
    assert ratio.between(0.99, 1.01).mean() > 0.98


def test_matmul_efficiency_is_achieved_over_peak():
    frame = catalog.table("matmul")
    assert len(frame) == 30
    for row in frame.itertuples():
        assert math.isclose(row.achieved_flops / row.peak_flops, row.efficiency, abs_tol=6e-4), row


def test_no_address_is_malformed():
    for row in records("sources"):
        assert not row["url"] or re.fullmatch(r"https?://[\w.-]+(/\S*)?", row["url"]), row


def test_units_of_all_schemas_are_known():
    for name in NAMES:
        for column in schema(name, DATA).columns:
            assert units.scale(column.unit) > 0


def test_a_constant_is_one_number_in_si():
    assert catalog.constant("runtime-memory") == 1343 * 2**20
    assert catalog.constant("no such constant", 3.0) == 3.0
    with pytest.raises(catalog.UnknownName, match="runtime-memory"):
        catalog.constant("runtime-memry")


def test_a_row_is_read_by_any_spelling():
    assert catalog.row("number_formats", "bfloat16")["name"] == "bf16"
    assert catalog.row("accelerators", "H100 SXM5")["key"] == "h100-sxm"
    with pytest.raises(catalog.UnknownName, match="momentum"):
        catalog.row("optimisers", "momentun")
