"""A reader's own table, however it was saved: read as meant, or told what is wrong with it and where."""

import csv
import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cookbook.__main__ import main
from cookbook.prediction.parsing import reading
from cookbook.prediction.parsing.reading import read_blocks

HEADER = ["id", "model", "software"]
ROWS = [["007", "resnet50", "PyTorch 2.1, cuDNN 8"], ["b", "bert_large", 'called "x"'], ["c", "ünet", ""]]


def text(rows=ROWS, delimiter=",", newline="\n", header=HEADER, quoting=csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerows([header, *rows])
    return out.getvalue()


def whole(path) -> tuple[pd.DataFrame, list[str]]:
    """All blocks of a file: its cells, and why each row cannot be trusted."""
    blocks = [*read_blocks(path)]
    frames = [frame.astype(object) for frame, _ in blocks] or [pd.DataFrame()]
    return pd.concat(frames, ignore_index=True), [reason for _, why in blocks for reason in why.tolist()]


@pytest.fixture
def read(tmp_path):
    """Read a file of the given content: its rows and why they cannot be trusted."""

    def read(content):
        path = tmp_path / "x.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        frame, why = whole(path)
        return frame.to_numpy().tolist(), why

    return read


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_encodings_delimiters_line_ends_and_quotes_change_nothing(read, encoding, newline, delimiter, quoting):
    rows, why = read(text(ROWS, delimiter, newline, quoting=quoting).encode(encoding))
    assert rows == ROWS and why == [""] * 3


@pytest.mark.parametrize(
    "before", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n', "# of a spreadsheet; twice\n", "\n  \n", "# a\nsep=;\n\n# b\n"]
)
def test_what_stands_before_the_header_is_understood(read, before):
    rows, why = read(before + text(delimiter=";"))
    assert rows == ROWS and why == [""] * 3


def test_the_note_of_the_delimiter_rules_what_the_header_suggests(read):
    assert read("sep=|\na,b|c\n1|2\n")[0] == [["1", "2"]]
    assert read("sep=\t\nid\tmodel\n1\t2\n")[0] == [["1", "2"]]


def test_cells_are_made_plain(read):
    rows, _ = read('id,model\n  1 ,"=""0012"""\n" 2\u00a0", x\n="3",\t y\n')
    assert rows == [["1", "0012"], ["2", "x"], ["3", "y"]]


def test_rows_without_anything_are_left_out_and_columns_without_a_name(read):
    rows, why = read("id,model,\na,b,\n,,\n\n   \n , ,\nc,d,e\n,,\n")
    assert rows == [["a", "b"], ["c", "d"]] and why == ["", ""]


def test_a_row_with_too_few_or_too_many_cells_says_so(read):
    rows, why = read("id,model,batch\na,b,1\nc\nd,e,1,2\nf,g,3\n")
    assert [row[0] for row in rows] == ["a", "c", "d", "f"]
    assert why[0] == why[3] == "" and "1 cells, the header 3" in why[1] and "4 cells, the header 3" in why[2]


@pytest.mark.parametrize(
    "body",
    ['a,"b,1\nc,d,2\ne,f,3\n', 'a,"b,1\nc,d,2\ne,f",3\n', 'a,"b,1\nc,d,2\ne,"f",3\n', 'a,"b"b,1\nc,d,2\ne,f,3\n'],
)
def test_an_unclosed_quote_is_told_and_swallows_no_row(read, body):
    rows, why = read("id,model,batch\n" + body)
    assert [row[0] for row in rows] == ["a", "c", "e"]
    assert "a quote in line 2 is not closed" in why[0] and why[1] == ""


def test_a_cell_may_go_over_several_lines(read):
    rows, why = read('id,model,note\na,b,"first\nsecond ""x"""\nc,"d\ne",f\n')
    assert rows == [["a", "b", 'first\nsecond "x"'], ["c", "d\ne", "f"]] and why == ["", ""]


def test_a_quote_within_a_cell_stays(read):
    assert read('id,model\na,3.5" drive\nb,c\n') == ([["a", '3.5" drive'], ["b", "c"]], ["", ""])


def test_damaged_rows_are_told_by_their_line(read):
    rows, why = read(b"id,model\na,b\nc,d\0e\n" + b"f," + b"g" * 200_000 + b"\nh,i\n")
    assert [bool(reason) for reason in why] == [False, True, True, False] and rows[3] == ["h", "i"]
    assert "line 3 holds NUL" in why[1] and "line 4 has 200,002 characters" in why[2]


def workbook() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("xl/workbook.xml", "<x/>")
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(text().encode()), "gunzip"),
        (workbook(), "save the sheet as CSV"),
        (b"PAR1xxxx", "Parquet"),
        (b'[{"id": 1}]', "JSON"),
        (b"<html><table>", "HTML"),
        (b"%PDF-1.7", "PDF"),
        (b"1,resnet50,32\n2,bert,64\n", "no header: line 1 holds the number '1'"),
        (b",,\n1,2,3\n", "no header: line 1 holds no names"),
        (bytes(range(1, 256)) * 9, "is no CSV file"),
    ],
)
def test_what_is_no_table_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.csv") as refused:
        whole(path)
    assert words in str(refused.value) and len(str(refused.value)) < 300


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "# only words\n", "id,model\n", "id,model\n,\n\n", "\0\0"])
def test_a_file_without_rows_gives_none_and_the_command_says_so(tmp_path, capsys, content):
    (tmp_path / "x.csv").write_text(content, encoding="utf-8")
    assert len(whole(tmp_path / "x.csv")[0]) == 0
    with pytest.raises(SystemExit, match="1"):
        main(["predict", str(tmp_path / "x.csv"), str(tmp_path / "out.csv"), "--kind", "training_classic"])
    assert "x.csv has no rows" in capsys.readouterr().err


def test_a_column_that_stands_twice_makes_every_row_doubtful(read):
    rows, why = read("id,model,id\n1,2,3\n4,5\n")
    assert rows == [["1", "2"], ["4", "5"]] and "column id twice" in why[0] and "2 cells" in why[1]


def test_the_command_refuses_what_is_no_table_with_status_1(tmp_path):
    (tmp_path / "x.csv").write_bytes(gzip.compress(b"id,model\n1,2\n"))
    command = [sys.executable, "-m", "cookbook", "predict", tmp_path / "x.csv", tmp_path / "out.csv"]
    result = subprocess.run([*command, "--kind", "training_classic"], capture_output=True, text=True)
    assert result.returncode == 1 and "gunzip" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_reading_leaves_the_limits_of_csv_alone(read):
    before = csv.field_size_limit()
    read("id,model\na," + "x" * 99_000 + '\nb,"y\nz"\n')
    assert csv.field_size_limit() == before


CELL = st.text(st.sampled_from('ab ,;"\n\r\t|=é#-1'), max_size=8)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8), delimiter=st.sampled_from(",;\t|"))
@example(rows=[("", "", "\t")], delimiter="\t")
def test_what_was_written_by_csv_is_read_back_or_told(tmp_path, rows, delimiter):
    meant = [[reading._bare(cell.replace("\r\n", "\n").replace("\r", "\n")) for cell in row] for row in rows]
    meant = [row for row in meant if any(row)]
    path = tmp_path / "x.csv"
    path.write_text(text(rows, delimiter, quoting=csv.QUOTE_ALL), encoding="utf-8", newline="")
    try:
        frame, why = whole(path)
    except ValueError:
        pytest.fail("it is a table")
    found = [row for row, reason in zip(frame.to_numpy().tolist(), why, strict=True) if not reason]
    assert found == meant or any(why)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), header=st.sampled_from([b"", b"id,model\n", b"\xff\xfe", b"a;b\r\n"]))
def test_any_bytes_are_read_or_refused(tmp_path, content, header):
    (tmp_path / "x.csv").write_bytes(header + content)
    try:
        frame, why = whole(tmp_path / "x.csv")
    except ValueError as refused:
        assert "x.csv" in str(refused) and len(str(refused)) < 400
    else:
        assert len(frame) == len(why)


def test_quick_and_careful_reading_agree(tmp_path, monkeypatch):
    rng = np.random.default_rng(7)
    words = ["a", " b", "c d ", "", '="5"', "x, y", 'in "quotes"', "é"]
    rows = [[str(n), *(words[k] for k in rng.integers(len(words), size=4))] for n in range(500)]
    (tmp_path / "x.csv").write_text(text(rows, header=["id", "a", "b", "c", "d"]), encoding="utf-8")
    quick, quick_why = whole(tmp_path / "x.csv")
    monkeypatch.setattr(reading, "_is_plain", lambda *given: False)
    careful, careful_why = whole(tmp_path / "x.csv")
    pd.testing.assert_frame_equal(quick, careful)
    assert quick_why == careful_why == [""] * 500


@pytest.mark.parametrize("size", [64, 300, 1 << 20])
def test_blocks_are_cut_between_rows(tmp_path, monkeypatch, size):
    rows = [[str(n), "x" * (n % 30), "two\nlines" if n % 11 == 5 else "p, q" if n % 7 == 3 else ""] for n in range(300)]
    (tmp_path / "x.csv").write_text(text(rows), encoding="utf-8")
    monkeypatch.setattr(reading, "BLOCK_BYTES", size)
    blocks = list(read_blocks(tmp_path / "x.csv"))
    found = pd.concat([frame.astype(object) for frame, _ in blocks])
    assert found.to_numpy().tolist() == rows and not any(reason for _, why in blocks for reason in why)


def test_columns_of_a_block_are_categories(tmp_path):
    (tmp_path / "x.csv").write_text(text([["1", "m", ""]] * 1000), encoding="utf-8")
    ((frame, why),) = read_blocks(tmp_path / "x.csv")
    assert all(isinstance(kind, pd.CategoricalDtype) for kind in frame.dtypes)
    assert len(frame["model"].cat.categories) == 1
    assert list(frame.columns) == HEADER and len(why) == 1000


def test_two_hundred_thousand_rows_of_twenty_columns_are_read_soon(tmp_path, within):
    row = ",".join(["h100-sxm", "resnet50", "128", "bf16", "PyTorch 2.1"] * 4)
    lines = [",".join(f"column_{n}" for n in range(20)), *(f"{n},{row.partition(',')[2]}" for n in range(200_000))]
    (tmp_path / "x.csv").write_text("\n".join(lines), encoding="utf-8")
    with within(8):
        assert sum(len(why) for _, why in read_blocks(tmp_path / "x.csv")) == 200_000
