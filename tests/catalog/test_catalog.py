"""The catalogue refuses what breaks its schema, and says where and what to do."""

import csv
import io
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import catalog
from cookbook.catalog import CatalogError, UnknownName, names, tables

SCHEMA = """column,type,unit,required,description
key,key,,yes,Name
name,text,,yes,Printed name
aliases,names,,no,Spellings
memory_bytes,number,GB,no,Memory
cores,integer,,no,Cores
kind,choice:gpu|cpu,,yes,Kind
seen_on,date,,no,Day
options,json,,no,Options
how,choice:seen|recalled|mixed,,yes,How
recalled_fields,names,,no,Recalled columns
source,keys:sources,,yes,Sources
"""
SOURCES_SCHEMA = """column,type,unit,required,description
key,key,,yes,Name
title,text,,yes,Title
url,text,,no,Address
licence,text,,no,Licence
seen,choice:yes|no,,yes,Opened
"""
SOURCES = "key,title,url,licence,seen\npaper,A paper,https://example.org,MIT,yes\nmemory,Recalled,,,no\n"
HEADER = "key,name,aliases,memory_bytes,cores,kind,seen_on,options,how,recalled_fields,source\n"
GOOD = 'fast-1,Fast 1,F1;One,80,4,gpu,2024-09,"{""a"": 1}",seen,,paper\n'


@pytest.fixture
def write(tmp_path):
    """Write a small catalogue with the given rows and hand back its directory."""

    def write(rows=GOOD, header=HEADER, schema=SCHEMA, sources=SOURCES):
        (tmp_path / "schema").mkdir(exist_ok=True)
        (tmp_path / "schema" / "things.csv").write_text(schema, encoding="utf-8")
        (tmp_path / "schema" / "sources.csv").write_text(SOURCES_SCHEMA, encoding="utf-8")
        (tmp_path / "sources.csv").write_text(sources, encoding="utf-8")
        text = header + rows
        (tmp_path / "things.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return write


def refused(directory):
    with pytest.raises(CatalogError) as caught:
        catalog.table("things", directory)
    assert any(str(error) == str(caught.value) for error in catalog.validate_all(directory))
    return caught.value


def test_good_rows_are_read_in_si_with_nan_for_blanks(write):
    frame = catalog.table("things", write(GOOD + "slow-2,Slow 2,,,,cpu,,,seen,,paper\n"))
    assert list(frame["memory_bytes"][:1]) == [80e9]
    assert frame["memory_bytes"].isna().tolist() == [False, True]
    assert frame["seen_on"].tolist() == ["2024-09", ""]
    assert isinstance(frame.index, pd.RangeIndex)


def test_byte_order_mark_and_windows_line_ends_are_tolerated(write):
    directory = write()
    text = (directory / "things.csv").read_bytes().replace(b"\n", b"\r\n")
    (directory / "things.csv").write_bytes(b"\xef\xbb\xbf" + text)
    assert catalog.table("things", directory)["key"].tolist() == ["fast-1"]


def test_a_cell_may_hold_commas_quotes_and_line_ends(write):
    rows = 'fast-1,"Fast, ""the"" one\nin two lines",,80,4,gpu,,,seen,,paper\nbad-2,Bad,,many,4,gpu,,,seen,,paper\n'
    assert refused(write(rows)).row == 4


@pytest.mark.parametrize(
    ("rows", "row", "column", "expected"),
    [
        ("fast-1,Fast 1,,lots,4,gpu,,,seen,,paper\n", 2, "memory_bytes", "a number in GB, not negative"),
        ("fast-1,Fast 1,,80 GB,4,gpu,,,seen,,paper\n", 2, "memory_bytes", "without unit"),
        ("fast-1,Fast 1,,-80,4,gpu,,,seen,,paper\n", 2, "memory_bytes", "not negative"),
        ("fast-1,Fast 1,,nan,4,gpu,,,seen,,paper\n", 2, "memory_bytes", "a number"),
        ("fast-1,Fast 1,,1e999,4,gpu,,,seen,,paper\n", 2, "memory_bytes", "a number"),
        ("fast-1,Fast 1,,80,4.5,gpu,,,seen,,paper\n", 2, "cores", "a whole number"),
        ("fast-1,Fast 1,,80,4,tpu,,,seen,,paper\n", 2, "kind", "one of gpu, cpu"),
        ("fast-1,Fast 1,,80,4,gpu,2024-13,,seen,,paper\n", 2, "seen_on", "a date such as"),
        ("fast-1,Fast 1,,80,4,gpu,,[1],seen,,paper\n", 2, "options", "a JSON object"),
        ("fast-1,Fast 1,,80,4,gpu,,,seen,,\n", 2, "source", "a value"),
        (",Fast 1,,80,4,gpu,,,seen,,paper\n", 2, "key", "a value"),
        ("fast 1,Fast 1,,80,4,gpu,,,seen,,paper\n", 2, "key", "without spaces"),
        (GOOD + GOOD.replace("Fast 1", "Again"), 3, "key", "row 2 has it too"),
        ("fast-1,Fast 1,,80,4,gpu,,,seen,,paperr\n", 2, "source", "nearest: paper"),
        ("fast-1,Fast 1,,80,4,gpu,,,seen,,paper;nothing\n", 2, "source", "'nothing' is not one"),
        ("fast-1,Fast 1,,80,4,gpu,,,mixed,,paper\n", 2, "recalled_fields", "the columns that are recalled"),
        ("fast-1,Fast 1,,80,4,gpu,,,seen,cores,paper\n", 2, "how", "recalled or mixed"),
        ("fast-1,Fast 1,,80,4,gpu,,,seen,,memory\n", 2, "how", "a source was not opened"),
        ("fast-1,Fast 1,,80,4,gpu,,,recalled,all,paper\n", 2, "source", "seen = no"),
        ("fast-1,Fast 1,,80,4,gpu,,,mixed,corse,paper\n", 2, "recalled_fields", "nearest: cores"),
        (GOOD + "fast-2,Fast 2,,80,4\n", 3, "kind", "11 cells, not 5"),
        (GOOD + "fast-2,Fast, 2,,80,4,gpu,,,seen,,paper\n", 3, "source", "11 cells, not 12"),
    ],
)
def test_a_bad_cell_is_named_by_row_and_column(write, rows, row, column, expected):
    error = refused(write(rows))
    assert (error.file, error.row, error.column) == ("data/things.csv", row, column)
    assert expected in str(error)


@pytest.mark.parametrize("unit", ["GB", "B", ""])
@pytest.mark.parametrize(
    ("cell", "bytes_"),
    [("1e-400", None), ("0.001e-350", None), ("٣", None), ("8" * 201, None), ("0e5", 0.0), ("-0.0", 0.0)],
)
def test_a_number_is_read_alike_whatever_its_unit(write, unit, cell, bytes_):
    rows = GOOD.replace(",80,", f",{cell},")
    directory = write(rows, schema=SCHEMA.replace("memory_bytes,number,GB", f"memory_bytes,number,{unit}"))
    if bytes_ is None:
        assert refused(directory).column == "memory_bytes"
    else:
        assert catalog.table("things", directory)["memory_bytes"].tolist() == [bytes_]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("cores", "coers"), "nearest: cores"),
        (HEADER.replace("cores,", ""), "a column cores"),
        (HEADER.replace("cores", "kind"), "all different"),
        ("", "column names that are all different"),
    ],
)
def test_a_bad_header_is_refused(write, header, message):
    error = refused(write(header=header))
    assert error.file == "data/things.csv"
    assert message in str(error)


@pytest.mark.parametrize("cut", range(1, len(GOOD)))
def test_a_file_cut_off_anywhere_in_its_last_row_is_refused(write, cut):
    directory = write(GOOD + GOOD.replace("fast-1", "fast-2").replace("Fast 1", "Fast 2")[:-cut])
    if (directory / "things.csv").read_text().endswith("\n"):
        assert cut == len(GOOD)
    else:
        error = refused(directory)
        assert error.row == 3
        assert "truncated" in str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a header line"),
        (b"\xff\xfe\x00k", "UTF-8"),
        (HEADER.encode() + b'fast-1,"Fast\n', "a quote is not closed"),
    ],
)
def test_what_is_not_a_csv_file_is_refused(write, content, message):
    directory = write()
    (directory / "things.csv").write_bytes(content)
    assert message in str(refused(directory))


def test_a_missing_file_is_refused(write):
    directory = write()
    (directory / "things.csv").unlink()
    assert "restore it" in str(refused(directory))


WITH_MEMORY = SCHEMA.replace("cores,integer,,no", "cores,integer,,with memory_bytes")


def test_a_column_may_be_required_where_another_is_stated(write):
    error = refused(write(GOOD.replace(",80,4,", ",80,,"), schema=WITH_MEMORY))
    assert (error.column, error.row) == ("cores", 2) and "a value, as memory_bytes is stated: Cores" in str(error)


@pytest.mark.parametrize("cells", [",80,4,", ",,,", ",,4,"])
def test_elsewhere_such_a_column_may_be_blank(write, cells):
    assert len(catalog.table("things", write(GOOD.replace(",80,4,", cells), schema=WITH_MEMORY))) == 1


@pytest.mark.parametrize(
    ("old", "new", "column", "expected"),
    [
        ("memory_bytes,number,GB", "memory_bytes,number,GBps", "unit", "a known unit"),
        ("name,text,,yes", "name,text,GB,yes", "unit", "blank, as the column holds no numbers"),
        ("cores,integer", "cores,count", "type", "integer"),
        ("cores,integer,,no", "cores,integer,,maybe", "required", "yes, no, or with"),
        ("cores,integer,,no", "cores,integer,,with nothing", "required", "a column of this schema"),
        ("cores,integer", "name,integer", "name", "each column once"),
        ("source,keys:sources,,yes,Sources\n", "", "", "how and source"),
    ],
)
def test_a_bad_schema_is_refused(write, old, new, column, expected):
    error = refused(write(schema=SCHEMA.replace(old, new)))
    assert (error.file, error.column) == ("data/schema/things.csv", column)
    assert expected in str(error)


def test_every_error_of_a_file_is_found_at_once(write):
    rows = "a,A,,x,4,gpu,,,seen,,paper\nb,B,,80,y,gpu,,,seen,,paper\nc,C,,80,4,gpu,,,seen,,nowhere\n"
    errors = catalog.validate_all(write(rows))
    assert [(error.row, error.column) for error in errors] == [(2, "memory_bytes"), (3, "cores"), (4, "source")]


def test_an_alias_of_two_rows_is_found(write):
    rows = GOOD + "fast-2,Fast 2,f-1,80,4,gpu,,,seen,,paper\n"
    assert [error.value for error in catalog.validate_all(write(rows))] == ["f-1"]


def test_a_table_is_a_copy():
    frame = catalog.table("accelerators")
    frame["mem_bandwidth"] = 0.0
    assert (catalog.table("accelerators")["mem_bandwidth"] != 0.0).all()


WRITES = {
    "one cell": lambda frame: frame.loc.__setitem__((0, "mem_bandwidth"), 1.0),
    "one name": lambda frame: frame.iloc.__setitem__((0, 0), "mine"),
    "a column": lambda frame: frame.__setitem__("key", "mine"),
    "values": lambda frame: frame["mem_bandwidth"].to_numpy().__setitem__(0, 1.0),
    "array": lambda frame: frame["mem_bandwidth"].array.__setitem__(0, 1.0),
    "text": lambda frame: frame["key"].array.__setitem__(0, "mine"),
    "in place": lambda frame: frame.update(frame[["mem_bandwidth"]] * 2),
    "headings": lambda frame: setattr(frame, "columns", range(frame.shape[1])),
}


@pytest.mark.parametrize("write_to", WRITES.values(), ids=WRITES)
def test_nothing_done_to_a_table_changes_what_others_read(write_to):
    before = catalog.table("accelerators").copy()
    try:
        write_to(catalog.table("accelerators"))
    except ValueError as refused:
        assert "read-only" in str(refused)
    pd.testing.assert_frame_equal(catalog.table("accelerators"), before)


def test_a_table_is_handed_out_without_copying_its_cells():
    one, other = catalog.table("accelerators"), catalog.table("accelerators")
    assert np.shares_memory(one["mem_bandwidth"], other["mem_bandwidth"])


def test_another_directory_may_be_given_as_text(write):
    directory = str(write())
    assert catalog.table("things", directory)["key"].tolist() == ["fast-1"]
    assert catalog.lookup("things", "FAST 1", directory) == "fast-1" and not catalog.validate_all(directory)


@pytest.mark.parametrize("bad", ["nowhere", 5, [], "a\0b", object()])
def test_what_is_no_data_directory_is_refused(bad):
    for ask in (lambda: catalog.table("accelerators", bad), lambda: catalog.lookup("accelerators", "t4", bad)):
        with pytest.raises(ValueError, match=r"^directory = "):
            ask()


@pytest.mark.parametrize("bad", [None, 5, [], {}, True, np.zeros((2, 2))])
def test_what_is_no_name_of_a_table_is_refused(bad):
    with pytest.raises(ValueError, match=r"^name = "):
        catalog.table(bad)


def test_an_unknown_table_names_the_nearest():
    with pytest.raises(UnknownName, match="accelerators"):
        catalog.table("acelerators")


def test_a_thousand_unknown_names_are_told_soon(within):
    names = [f"{chr(97 + n % 26)}{n}-net {n * n % 977}" for n in range(1000)]
    catalog.lookup("models", "resnet50")
    with within(4):
        for name in names:
            with pytest.raises(UnknownName):
                catalog.lookup("models", name)


@pytest.mark.parametrize("name", ["x" * 50_000, "llama 3 " * 10_000, "1 - " * 20_000, "\n" * 9999, "é" * 500])
def test_a_long_name_is_refused_briefly_in_speech_and_time(name, within):
    with within(0.5), pytest.raises(UnknownName) as caught:
        catalog.lookup("models", name)
    assert len(str(caught.value)) < 220


def test_a_short_name_that_several_rows_share_is_refused_with_all_of_them():
    for name in ("A100", "nvidia a100"):
        with pytest.raises(UnknownName, match=r"stands for 4 accelerators: .*a100-sxm-80gb") as caught:
            catalog.lookup("accelerators", name)
        assert caught.value.shared and len(caught.value.nearest) == 4


def test_no_short_name_of_several_rows_is_a_spelling_of_one():
    folder = catalog.data_directory()
    assert not set(names.shared("accelerators", folder)) & set(names.index("accelerators", folder))
    assert all(len(keys) > 1 for keys in names.shared("accelerators", folder).values())


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("h100-sxm", "h100-sxm"),
        ("H100 SXM5 80GB", "h100-sxm"),
        ("nvidia_a100-SXM4-80gb", "a100-sxm-80gb"),
        ("V100", "v100-sxm2-16gb"),
        ("  tpu V4 ", "tpu-v4"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("radeon-8060s", "strix-halo"),
        ("AMD Radeon(TM) 8060S Graphics", "strix-halo"),
        ("tt-wormhole-n150", "wormhole-n150"),
        ("Tenstorrent n300", "wormhole-n300"),
        ("tenstorrent wormhole", "wormhole-n300"),
        ("TT p150", "blackhole-p150"),
        ("Intel(R) Arc Pro(R) B50", "arc-pro-b50"),
        ("intel_b580", "arc-b580"),
        ("Intel GPU Max 1550", "data-center-gpu-max-1550"),
        ("Huawei 910B", "ascend-910b"),
        ("Amazon Trainium2", "trainium2"),
        ("radeon 7900 xtx", "radeon-rx-7900-xtx"),
        ("NVIDIA GH200 144GB", "gh200-144gb"),
        ("GH200", "gh200-96gb"),
    ],
)
def test_lookup_reads_usual_spellings(written, key):
    assert catalog.lookup("accelerators", written) == key


@pytest.mark.parametrize("written", ["Radeon", "AMD", "Intel GPU", "910", "RTX 6000", "Tenstorrent", "p1000"])
def test_a_maker_a_number_or_a_shared_name_is_no_device(written):
    with pytest.raises(UnknownName):
        catalog.lookup("accelerators", written)


def test_no_maker_before_a_name_changes_the_device():
    rows = catalog.table("accelerators")
    for key, maker in zip(rows["key"], rows["vendor"], strict=True):
        for written in (f"{maker} {key}", f"{maker}-{key.replace('-', '_')}", f"{maker}(R) {key.upper()}"):
            assert catalog.lookup("accelerators", written) == key


@given(st.data())
def test_lookup_finds_every_key_however_it_is_spelt(data):
    key = data.draw(st.sampled_from(catalog.table("accelerators")["key"].tolist()))
    for separator in ("-", "_", " ", " - "):
        assert catalog.lookup("accelerators", key.upper().replace("-", separator)) == key


@pytest.mark.parametrize(
    ("kind", "wrong", "near"),
    [
        ("accelerators", "h100 smx", "h100-sxm"),
        ("accelerators", "rtx 4090 ti", "rtx-4090"),
        ("accelerators", "mi300", "mi300x"),
        ("optimisers", "adamm", "adam"),
        ("number_formats", "fp17", "fp16"),
    ],
)
def test_an_unknown_name_comes_with_three_nearest(kind, wrong, near):
    with pytest.raises(UnknownName) as caught:
        catalog.lookup(kind, wrong)
    assert isinstance(caught.value, KeyError)
    assert near in caught.value.nearest
    assert len(caught.value.nearest) == 3
    assert all(name in str(caught.value) for name in [wrong, *caught.value.nearest])


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("A100", ["a100-", "a100-", "a100-"]), ("k80", ["k80-", "k80-"]), ("h100", ["h100-", "h100-", "h100-"])],
)
def test_names_that_begin_with_what_was_written_come_first(wrong, near):
    known = tables.keys("accelerators", catalog.data_directory())
    found = names.Similar({names.normalise(key): key for key in known}).alike(wrong, 3)
    assert all(key.startswith(start) for key, start in zip(found, near, strict=False))


def test_an_unknown_name_says_how_to_list_all():
    with pytest.raises(UnknownName, match=r'list all with cb\.table\("models"\)'):
        catalog.lookup("models", "resnet51")


@pytest.mark.parametrize("bad", [None, 5, ["paper"]])
def test_cite_refuses_what_is_no_text(bad):
    with pytest.raises(ValueError, match="must be text"):
        catalog.cite(bad)


ABOUT = "table,rows,description\nthings,{things},Things\nsources,2,Sources\n"


@pytest.fixture
def counted(write):
    """A catalogue of two things that says so; nothing of it is read yet."""
    directory = write(GOOD + GOOD.replace("fast-1", "fast-2").replace("Fast 1,F1;One", "Fast 2,"))
    (directory / "schema" / "_tables.csv").write_text(ABOUT.format(things=2), encoding="utf-8")
    return directory


def test_a_file_as_long_as_noted_is_read(counted):
    assert len(catalog.table("things", counted)) == 2 and not catalog.validate_all(counted)


def test_a_file_cut_off_between_two_rows_is_refused(counted):
    file = counted / "things.csv"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    error = refused(counted)
    assert (error.value, error.expected) == ("1 rows", "2, as noted in data/schema/_tables.csv")
    assert "make data-readme" in error.remedy and "restore it" in error.remedy


def test_counting_again_takes_an_added_row(counted):
    with (counted / "things.csv").open("a", encoding="utf-8") as file:
        file.write(GOOD.replace("fast-1", "fast-3").replace("Fast 1,F1;One", "Fast 3,"))
    assert "3 rows" in str(refused(counted))
    assert catalog.count_rows(counted) == {"things": ("2", 3)}
    assert len(catalog.table("things", counted)) == 3
    assert (counted / "schema" / "_tables.csv").read_text(encoding="utf-8") == ABOUT.format(things=3)
    assert catalog.count_rows(counted) == {}


def test_after_counting_tables_and_names_agree(counted):
    assert catalog.lookup("things", "fast 2", counted) == "fast-2"
    file = counted / "things.csv"
    file.write_text(file.read_text(encoding="utf-8").replace("fast-2,Fast 2", "slow-2,Slow 2"), encoding="utf-8")
    catalog.count_rows(counted)
    assert catalog.table("things", counted)["key"].tolist() == ["fast-1", "slow-2"]
    assert catalog.lookup("things", "slow 2", counted) == "slow-2"
    with pytest.raises(UnknownName):
        catalog.lookup("things", "fast 2", counted)


def test_a_count_that_is_no_number_is_refused(counted):
    (counted / "schema" / "_tables.csv").write_text(ABOUT.format(things="two"), encoding="utf-8")
    assert "a whole number of rows" in str(refused(counted))


def test_a_header_alone_is_refused(write):
    error = refused(write(rows=""))
    assert (error.value, error.expected) == ("a header alone", "at least one row")


@pytest.mark.parametrize("bad", ["", "?", None, 7])
def test_nothing_is_not_a_name(bad):
    with pytest.raises((UnknownName, ValueError)):
        catalog.lookup("accelerators", bad)


def test_lookup_refuses_an_unknown_kind():
    with pytest.raises(ValueError, match="no table whose rows have names; nearest: "):
        catalog.lookup("gpus", "h100-sxm")


def test_provenance_of_the_h100_bandwidth_names_source_and_what_was_rejected():
    found = catalog.provenance("H100 SXM5", "mem_bandwidth")
    assert (found.value, found.unit, found.source) == (3.35e12, "B/s", "stas00-ml-engineering")
    assert [statement.value for statement in found.alternatives] == [3.35e12]
    assert [(statement.value, statement.source) for statement in found.rejected] == [(3.36e12, "techpowerup")]
    assert "rejected: 3.36 TB/s (seen; techpowerup; https" in repr(found)


def test_provenance_says_when_a_figure_is_recalled_or_derived():
    assert catalog.provenance("l4", "core_count").how == "recalled"
    assert catalog.provenance("rtx-2080-ti", "peak_fp16_fp32acc").how == "derived"


def test_provenance_of_other_tables_is_that_of_the_row():
    found = catalog.provenance("adam", "state_elements", "optimisers")
    assert (found.value, found.how) == (2.0, "derived")
    assert "kingma-2014-adam" in found.source


def test_provenance_refuses_unknown_fields_and_blanks():
    with pytest.raises(ValueError, match="Nearest: mem_bandwidth"):
        catalog.provenance("h100-sxm", "mem_bandwith")
    with pytest.raises(ValueError, match="has no figure"):
        catalog.provenance("h100-sxm", "peak_fp4")


def test_a_figure_that_only_rejected_statements_have_shows_them():
    found = catalog.provenance("apple-m1", "peak_int8")
    assert (found.value, found.source) == ("", "")
    assert found.rejected


def test_cite_gives_title_address_and_licence():
    text = catalog.cite("stas00-ml-engineering;recalled-vendor")
    assert "https://github.com/stas00/ml-engineering. CC BY-SA 4.0 | " in text
    assert text.endswith("recalled, not opened")
    with pytest.raises(UnknownName):
        catalog.cite("nobody-1999")


def test_the_three_tables_of_the_first_recipe_load_quickly():
    catalog.table("accelerators")
    for cached in (tables.raw, tables.keys, tables.contents, tables.frame):
        cached.cache_clear()
    names = ("accelerators", "models", "sources")
    files = [catalog.data_directory() / f"{name}.csv" for name in names]
    begun = time.process_time()
    texts = [list(csv.reader(io.StringIO(file.read_text("utf-8")))) for file in files]
    plain, begun = time.process_time() - begun, time.process_time()
    for name in names:
        catalog.table(name)
    # Every cell is checked and converted: that may cost some tens of times what splitting the text costs.
    assert len(texts) == 3 and time.process_time() - begun < 60 * plain
