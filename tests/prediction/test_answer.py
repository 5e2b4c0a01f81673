"""`python -m cookbook predict`: every row answered, in order, whatever the file looks like; never a traceback."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cookbook.__main__ import main
from cookbook.calibration.validate import KINDS
from cookbook.prediction.answer import COLUMNS, answer, answer_file, as_csv, more_columns, unknown_columns
from cookbook.prediction.parsing.tables import OUTCOMES, measured, measured_table, measurements_of, read

NUMBERS = ["predicted", "low80", "high80", "low90", "high90"]
CLASSIC = {
    "id": "a1",
    "model": "resnet50",
    "software": "PyTorch NGC 21.03",
    "accelerator": "a100-sxm-80gb",
    "devices": "8",
    "per_node": "8",
    "precision": "amp_fp16",
    "batch_per_device": "256",
    "global_batch": "2048",
    "unit": "images/s",
    "data": "synthetic",
}
TRANSFORMER = {
    "id": "t1",
    "model": "GPT-3 22B",
    "params_b": "22",
    "layers": "48",
    "hidden": "6144",
    "heads": "64",
    "kv_heads": "64",
    "head_dim": "96",
    "ffn_hidden": "24576",
    "vocab": "51200",
    "seq_len": "2048",
    "gated_mlp": "no",
    "software": "Megatron-LM",
    "accelerator": "a100-sxm-80gb",
    "devices": "8",
    "per_node": "8",
    "tp": "8",
    "pp": "1",
    "dp": "1",
    "cp": "1",
    "zero_fsdp_stage": "0",
    "sequence_parallel": "yes",
    "micro_batch": "4",
    "global_batch": "4",
    "activation_recompute": "selective",
    "attention_kernel": "no flash (fused softmax)",
    "precision": "fp16",
    "task": "pretrain",
}
STORAGE = {
    "id": "s1",
    "kind": "mlperf-storage",
    "workload": "unet3d",
    "device_or_system": "Acme: Array_9000/unet3d/h100",
    "accelerator": "h100-sxm",
    "accelerator_count": "8",
    "hosts": "2",
    "sample_bytes": "146600628",
    "batch": "7",
    "cpu_cores": "host CPU AMD EPYC 9654",
    "framework": "PyTorch",
    "notes": "Closed division",
    "date": "2025-08",
}
INFERENCE = {
    "id": "i1",
    "model": "resnet50",
    "accelerator": "t4",
    "devices": "2",
    "precision": "int8",
    "batch": "64",
    "software": "TensorRT 7.2",
    "scenario": "static",
    "metric": "images/s",
    "input_len": "224x224",
}
ROWS = {
    "training_classic": CLASSIC,
    "training_transformer": TRANSFORMER,
    "storage": STORAGE,
    "inference": INFERENCE,
}
TABLES = {"storage": "storage_measured"}
each_kind = pytest.mark.parametrize("kind", list(ROWS))
each_training = pytest.mark.parametrize("kind", list(KINDS))


def table(rows, newline="\n", delimiter=",", columns=None) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns or list(rows[0]), delimiter=delimiter, lineterminator=newline, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def predicted(tmp_path: Path, content: str | bytes, kind: str) -> pd.DataFrame:
    """Through the shell's front door, in this process; it ends with status 1 where no row could be predicted."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    status = 0
    try:
        main(["predict", str(source), str(target), "--kind", kind])
    except SystemExit as ended:
        status = int(ended.code or 0)
    found = pd.read_csv(target, dtype={"id": str, "why": str, "tier": str, "unit": str}, keep_default_na=True)
    assert status == int(not found["predicted"].notna().any())
    return found


def check(found: pd.DataFrame, rows: int, kind: str) -> None:
    """Every row has either positive ordered numbers or a reason, never both and never neither."""
    assert list(found) == [*COLUMNS, *more_columns(kind)]
    assert len(found) == rows
    why = found["why"].fillna("")
    for at, row in found.iterrows():
        numbers = row[["low90", "low80", "predicted", "high80", "high90"]].to_numpy(dtype=float)
        if why[at]:
            assert np.all(np.isnan(numbers)), row
        else:
            assert np.all(np.isfinite(numbers)) and np.all(numbers > 0) and np.all(np.diff(numbers) >= 0), row
            assert row["tier"]


@each_kind
def test_a_good_row_is_predicted(tmp_path, kind):
    found = predicted(tmp_path, table([ROWS[kind]]), kind)
    check(found, 1, kind)
    assert found["predicted"].notna().all() and found["id"].tolist() == [ROWS[kind]["id"]]


@each_kind
def test_order_and_ids_are_kept(tmp_path, kind):
    names = [f"row-{at}" for at in (5, 3, 9, 3, 0)]
    found = predicted(tmp_path, table([ROWS[kind] | {"id": name} for name in names]), kind)
    assert found["id"].tolist() == names


ENCODINGS, NEWLINES, DELIMITERS = ("utf-8", "utf-8-sig", "utf-16", "cp1252"), ("\n", "\r\n", "\r"), (",", ";", "\t")
# Every pair of an encoding, a line end and a delimiter stands in one of the twelve whose places add up so.
FORMS = [
    pytest.param(encoding, newline, delimiter, marks=() if (place + ends) % 3 == marks else pytest.mark.all)
    for place, encoding in enumerate(ENCODINGS)
    for ends, newline in enumerate(NEWLINES)
    for marks, delimiter in enumerate(DELIMITERS)
]


@each_kind
@pytest.mark.parametrize(("encoding", "newline", "delimiter"), FORMS)
def test_encodings_line_ends_and_delimiters_change_nothing(tmp_path, kind, encoding, newline, delimiter):
    rows = [ROWS[kind], ROWS[kind] | {"id": "déjà vu"}]
    plain = predicted(tmp_path, table(rows), kind)
    found = predicted(tmp_path, table(rows, newline, delimiter).encode(encoding), kind)
    pd.testing.assert_frame_equal(found, plain)


@each_kind
def test_quoting_as_spreadsheets_do_changes_nothing(tmp_path, kind):
    row = ROWS[kind] | {"notes": 'eight devices, "fast",\nin two lines'}
    plain = predicted(tmp_path, table([row, row]), kind)
    quoted = [",".join(f'"{cell}"' for cell in row)]
    for _ in range(2):
        cells = [cell.replace('"', '""') for cell in row.values()]
        quoted.append(",".join(f'"=""{cell}"""' if cell.isdigit() else f'"{cell}"' for cell in cells))
    pd.testing.assert_frame_equal(predicted(tmp_path, "\r\n".join(quoted) + "\r\n", kind), plain)


@each_kind
@pytest.mark.parametrize("content", ["", "\n", "\ufeff", "id,model", "id,model\n", "   \n  \n", "\0\0"])
def test_files_without_rows_give_a_header(tmp_path, kind, content):
    found = predicted(tmp_path, content, kind)
    assert len(found) == 0 and list(found)[: len(COLUMNS)] == list(COLUMNS)


@each_kind
@pytest.mark.parametrize("content", [b"\x89PNG\r\n\0\r", b"id,model\n\xff\xfe\xfd,\xc3\n", b"a\nb\n"])
def test_what_is_no_table_of_scenarios_is_answered_too(tmp_path, kind, content):
    found = predicted(tmp_path, content, kind)
    assert found["predicted"].isna().all() and (found["why"].fillna("") != "").all()


@each_kind
def test_each_column_may_be_missing(tmp_path, kind):
    for column in ROWS[kind]:
        row = {name: cell for name, cell in ROWS[kind].items() if name != column}
        check(predicted(tmp_path, table([row, row]), kind), 2, kind)


@each_kind
@pytest.mark.parametrize(
    "cell",
    [
        "",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "abc",
        "1e400",
        "8 GPUs",
        "1,024",
        "١٢",
        "None",
        "=SUM(A1:A9)",
        "3.7",
        "#REF!",
        "0x10",
        "1" * 400,
        "--",
    ],
)
def test_any_cell_may_hold_anything(tmp_path, kind, cell):
    rows = [ROWS[kind] | {"id": column, column: cell} for column in ROWS[kind] if column != "id"]
    good = ROWS[kind] | {"id": "good"}
    found = predicted(tmp_path, table([good, *rows, good]), kind)
    check(found, len(rows) + 2, kind)
    expected = answer(pd.DataFrame([good]), kind)["predicted"].iloc[0]
    assert found["predicted"].iloc[[0, -1]].to_numpy() == pytest.approx(expected, rel=1e-5), "a neighbour spoilt it"


@each_kind
@pytest.mark.parametrize(
    "cell",
    [
        "0",
        "-8",
        "eight",
        "inf",
        "2.5",
        "0x8",
        "8,5",
        "1e99",
        "64-128",
        "64/128",
        "8 or 16",
        "8 nodes",
        "2 per node of 8",
    ],
)
def test_an_impossible_number_of_devices_is_refused(kind, cell):
    name = "accelerator_count" if kind == "storage" else "devices"
    found = answer(pd.DataFrame([ROWS[kind] | {name: cell}]), kind).iloc[0]
    assert np.isnan(found["predicted"]) and found["why"]


@pytest.mark.parametrize("change", [{"tp": "4"}, {"pp": "3"}, {"dp": "2"}, {"devices": "16"}, {"tp": "0"}, {"tp": "x"}])
def test_a_layout_that_does_not_make_up_the_devices_is_refused(change):
    found = answer(pd.DataFrame([TRANSFORMER | change]), "training_transformer").iloc[0]
    assert np.isnan(found["predicted"]) and found["why"]


@pytest.mark.parametrize(
    "change, named",
    [
        ({"activation_recompute": "bananas"}, "bananas"),
        ({"attention_kernel": "bananas"}, "bananas"),
        ({"zero_fsdp_stage": "7"}, "'7'"),
        ({"accelerator": "a100-sxm-80gb", "precision": "fp8"}, "precision"),
        ({"layers": "4", "pp": "8", "tp": "1", "dp": "1", "devices": "8"}, "layers"),
        ({"precision": "nvfp16x"}, "nvfp16x"),
        ({"heads": "4", "kv_heads": "8", "tp": "1", "pp": "1", "dp": "8", "global_batch": "32"}, "kv_heads"),
        ({"dp": "8", "tp": "1", "pp": "1", "global_batch": "3"}, "global_batch"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(change, named):
    found = answer(pd.DataFrame([TRANSFORMER | {"devices": "8"} | change]), "training_transformer").iloc[0]
    assert np.isnan(found["predicted"]) and named in found["why"]


def test_dimensions_and_name_of_a_mixture_give_the_same():
    layout = {
        "accelerator": "h100-sxm",
        "precision": "bf16",
        "devices": "64",
        "ep": "8",
        "seq_len": "4096",
        "micro_batch": "1",
        "global_batch": "256",
        "software": "NeMo",
    }
    shape = {
        "layers": "32",
        "hidden": "4096",
        "heads": "32",
        "kv_heads": "8",
        "head_dim": "128",
        "ffn_hidden": "14336",
        "vocab": "32000",
        "experts": "8",
        "experts_per_token": "2",
        "moe_ffn_hidden": "14336",
    }
    rows = [layout | {"model": "mixtral_8x7b"}, layout | {"model": "mine"} | shape]
    found = answer(pd.DataFrame(rows).fillna(""), "training_transformer")
    assert found["predicted"][1] == pytest.approx(found["predicted"][0], rel=0.01)


@each_kind
@pytest.mark.parametrize("change", [{"accelerator": "gtx-9999"}, {"accelerator": ""}, {"precision": "fp3"}])
def test_unknown_names_are_refused_with_a_reason(kind, change):
    if kind == "storage" and "precision" in change:
        # A column that storage has no use for is named as unknown, whatever stands in it.
        assert unknown_columns(kind, list(change))
        return
    found = answer(pd.DataFrame([ROWS[kind] | change]), kind).iloc[0]
    assert np.isnan(found["predicted"]) and found["why"]


def test_an_unknown_network_is_refused_with_a_reason():
    found = answer(pd.DataFrame([CLASSIC | {"model": "my_secret_net"}]), "training_classic").iloc[0]
    assert np.isnan(found["predicted"]) and "my_secret_net" in found["why"]


@pytest.mark.parametrize("name", ["resnet50_v1.5", "ResNet-50 v1.5", "RESNET50 V1.5"])
def test_other_spellings_of_a_name_mean_the_same(name):
    found = answer(pd.DataFrame([CLASSIC | {"model": each} for each in (name, "resnet50_v1.5")]), "training_classic")
    assert found["predicted"].notna().all() and found["predicted"].nunique() == 1


def test_a_transformer_of_the_zoo_needs_its_name_alone():
    sizes = ("params_b", "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "gated_mlp")
    rows = [
        {k: v for k, v in TRANSFORMER.items() if k not in sizes} | {"model": name}
        for name in ("llama3-8b", "LLaMA 3 8B")
    ]
    found = answer(pd.DataFrame(rows), "training_transformer")
    assert found["predicted"].notna().all() and found["predicted"].nunique() == 1


@each_kind
def test_short_and_long_rows_are_refused_and_spoil_no_other(tmp_path, kind):
    lines = table([ROWS[kind]] * 4).splitlines()
    lines[2] = lines[2].rsplit(",", 3)[0]
    lines[3] += ",surplus"
    found = predicted(tmp_path, "\n".join(lines) + "\n", kind)
    check(found, 4, kind)
    assert found["predicted"].notna().tolist() == [True, False, False, True]
    assert found["why"].iloc[1:3].str.contains("cells").all()


@each_kind
def test_a_column_that_stands_twice_is_refused(tmp_path, kind):
    lines = table([ROWS[kind]]).splitlines()
    name = "devices" if "devices" in ROWS[kind] else "hosts"
    found = predicted(tmp_path, f"{lines[0]},{name}\n{lines[1]},16\n", kind)
    assert found["predicted"].isna().all() and found["why"].str.contains("twice").all()


@each_kind
def test_outcomes_are_never_looked_at(kind):
    frame = measured_table(TABLES.get(kind, kind)).iloc[::7].copy()
    plain = answer(frame, kind)
    for column in set(OUTCOMES) & set(frame):
        frame[column] = "12345.678"
    pd.testing.assert_frame_equal(answer(frame, kind), plain)
    without = frame.drop(columns=list(set(OUTCOMES) & set(frame)))
    pd.testing.assert_frame_equal(answer(without, kind), plain)


@each_kind
def test_a_row_does_not_depend_on_its_company(kind):
    frame = measured_table(TABLES.get(kind, kind)).iloc[::97]
    together = answer(frame, kind)
    for at in range(len(frame)):
        alone = answer(frame.iloc[[at]], kind).iloc[0]
        assert alone["why"] == together["why"].iloc[at]
        expected = together[NUMBERS].iloc[at].to_numpy(float)
        np.testing.assert_allclose(alone[NUMBERS].to_numpy(float), expected, rtol=1e-9)


@each_training
def test_almost_every_measured_row_gets_a_number(kind):
    frame = measured_table(TABLES.get(kind, kind))
    wanted = {
        "training_classic": ("use", ("core",)),
        "training_transformer": ("task", ("pretrain",)),
        "inference": ("how", ("measured", "mixed")),
        "generation": ("how", ("measured", "mixed")),
    }
    column, values = wanted[kind]
    clear = frame[frame[column].isin(values)]
    assert answer(clear, measurements_of(kind))["predicted"].notna().mean() >= 0.95


@pytest.mark.all
@each_kind
def test_hundred_thousand_rows(tmp_path, kind):
    frame = measured_table(TABLES.get(kind, kind))
    many = pd.concat([frame] * (100_000 // len(frame) + 1)).iloc[:100_000]
    found = answer(many, kind)
    assert len(found) == 100_000
    first, again = found.iloc[: len(frame)], found.iloc[len(frame) : 2 * len(frame)]
    np.testing.assert_allclose(first["predicted"], again["predicted"].to_numpy(), rtol=1e-9)


def test_what_takes_many_passes_says_so(tmp_path):
    content = "id,model,accelerator,metric,scenario\na,gnmt,t4,samples/s,offline\nb,Stable Diffusion 1.5,t4,,\n"
    found = predicted(tmp_path, content, "inference")
    assert found["id"].tolist() == ["a", "b"] and found["why"].str.contains("many passes").all()
    assert found[NUMBERS].isna().all(axis=None)


def test_an_unknown_kind_is_refused_with_the_choices(capsys):
    with pytest.raises(SystemExit):
        main(["predict", "in.csv", "out.csv", "--kind", "cooking"])
    assert "training_classic" in capsys.readouterr().err


def test_a_missing_file_is_one_sentence(tmp_path):
    command = [sys.executable, "-m", "cookbook", "predict", "no.csv", "out.csv", "--kind", "training_classic"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "Traceback" not in result.stderr and "no.csv" in result.stderr


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400), kind=st.sampled_from(list(ROWS)))
def test_any_bytes_at_all(tmp_path, content, kind):
    (tmp_path / "any.csv").write_bytes(content)
    try:
        found = answer_file(tmp_path / "any.csv", kind)
    except ValueError as refused:
        assert "any.csv" in str(refused)
        return
    assert (found["predicted"].notna() | (found["why"] != "")).all()


def test_columns_of_our_tables_and_of_scenarios_are_both_understood():
    ours = pd.DataFrame([{"parameters": "64.9e9", "zero_stage": "3", "shard_group": "64", "step_seconds": "2"}])
    theirs = pd.DataFrame([{"params_b": "64.9", "zero_fsdp_stage": "FSDP (shard group 64)", "step_time_s": "2"}])
    for rows in (read("training_transformer", frame) for frame in (ours, theirs)):
        assert rows.number("parameters")[0] == pytest.approx(64.9e9)
        assert rows.number("zero")[0] == 3 and rows.number("shard")[0] == 64
    assert [measured("training_transformer", frame).tolist() for frame in (ours, theirs)] == [[2.0], [2.0]]


def test_numbers_are_written_as_six_digits_of_python():
    rng = np.random.default_rng(0)
    ends = np.array([0.0, -0.0, -1.5, np.inf, -np.inf, 1e-4, 9.99999499e-5, 999999.5, 999999.49, 99999.95, 1e15, 1e300])
    numbers = np.concatenate(
        [
            10 ** rng.uniform(-8, 20, 20_000),
            np.round(10 ** rng.uniform(-4, 9, 20_000), 3),
            ends,
            10.0 ** np.arange(-10, 20),
            np.nextafter(10.0 ** np.arange(-10, 20), 0),
        ]
    )
    frame = pd.DataFrame({"a": numbers, "b": np.where(numbers > 1, np.nan, numbers), "c": "x, y"})
    told = [f'{a:.6g},{"" if b != b else format(b, ".6g")},"x, y"' for a, b in zip(frame["a"], frame["b"], strict=True)]
    assert as_csv(frame) == "a,b,c\n" + "\n".join(told) + "\n"
    assert as_csv(frame.head(0)) == "a,b,c\n" and as_csv(frame.head(1), header=False) == told[0] + "\n"


def test_words_of_serving_benchmarks():
    usual = {
        "model": "Llama-3.1-8B",
        "accelerator": "h100-sxm",
        "input_len": "1024",
        "output_len": "256",
        "software": "vLLM 0.9",
        "metric": "output tokens/s",
    }
    rows = [
        {"max_concurrency": "32"},
        {"max_concurrency": "32", "acceptance_rate": "0.7", "num_speculative_tokens": "3"},
        {"max_concurrency": "32", "prefix_hit_rate": "0.9"},
        {"qps": "2"},
        {"qps": "5000"},
        {"max_concurrency": "32", "schedule": "lifo"},
        {"max_concurrency": "32", "schedule": "Chunked-Prefill"},
        {"max_concurrency": "32", "acceptance_rate": "0.7"},
        {"qps": "2", "scenario": "offline"},
    ]
    found = answer(pd.DataFrame([usual | each for each in rows]).fillna(""), "inference")
    value = found["predicted"]
    assert value[1] > value[0] and value[2] > value[0] and value[3] == pytest.approx(512) and value[6] > 0
    assert found["reason"].tolist() == [
        "",
        "",
        "",
        "",
        "load-above-capacity",
        "not-read",
        "",
        "fields-apart",
        "fields-apart",
    ]
    assert "chunked prefill, prefill first" in found["why"][5] and "acceptance_rate" not in found["why"][6]


# Headers as people write them.

PER_DEVICE = (
    "Batch/GPU",
    "Batch per GPU",
    "batch_per_gpu",
    "Per-GPU batch",
    "Per GPU batch size",
    "Batch size (per GPU)",
    "Batch size per device",
    "local batch",
    "Batch [per accelerator]",
)


@pytest.mark.parametrize("header", PER_DEVICE)
def test_a_batch_per_device_is_read_under_any_of_its_names(header):
    """Eight GPUs at 128 each: unread, the batch would be what fills the device, and the answer another."""
    rows = pd.DataFrame([CLASSIC | {"global_batch": ""}]).drop(columns="batch_per_device")
    (right,), (other,), (said,) = (
        answer(rows.assign(**{name: "128"}), "training_classic")["predicted"]
        for name in ("batch_per_device", "batches", header)
    )
    assert said == right != other
    assert unknown_columns("training_classic", [header]) == []


@pytest.mark.parametrize(
    ("kind", "row", "rate"),
    [("training_classic", CLASSIC, "InfiniBand 100 Gb/s"), ("training_transformer", TRANSFORMER, "12.5e9")],
)
def test_network_is_the_model_where_its_cells_are_models(kind, row, rate):
    """Its cells decide: rates are the interconnect, and of neither the row says so, never a silent guess."""
    frame = pd.DataFrame([{key: value for key, value in row.items() if key != "model"}])
    model = {"training_classic": "ResNet-50", "training_transformer": "GPT-3 22B"}[kind]
    (right,) = answer(frame.assign(model=model), kind).itertuples()
    (found,) = answer(frame.assign(Network=model), kind).itertuples()
    assert found.predicted == right.predicted and "Network = model" in found.assumed
    (rated,) = answer(frame.assign(model=model, Network=rate), kind).itertuples()
    assert "Network = model" not in rated.assumed and rated.predicted > 0
    (neither,) = answer(frame.assign(model=model, Network="no such thing"), kind).itertuples()
    assert np.isnan(neither.predicted) and "no such thing" in neither.why


def test_rows_keep_their_names_and_are_counted_where_they_have_none(tmp_path):
    rows = pd.DataFrame([CLASSIC, CLASSIC | {"model": "no such"}]).drop(columns="id")
    assert answer(rows, "training_classic")["id"].tolist() == ["1", "2"]
    assert answer(rows.assign(ID=["x", ""]), "training_classic")["id"].tolist() == ["x", ""]
    assert answer(pd.DataFrame([STORAGE]).drop(columns="id"), "storage")["id"].tolist() == ["1"]


def test_only_a_name_much_like_another_is_offered_for_it():
    told = unknown_columns("training_classic", ["Run", "Img per sec", "devises", "acclerator"])
    assert [" nearest: " in each for each in told] == [False, False, True, True]
    assert "nearest: devices" in told[2] and "nearest: accelerator" in told[3]
    assert "nearest" not in unknown_columns("storage", ["Run"])[0]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (["resnet50", "resnet50"], "2 of 2 rows predicted\n"),
        (["resnet50", "no such"], "1 of 2 rows predicted; the column why says what the other lacks\n"),
        (["no such", "no such"], "0 of 2 rows predicted; the column why says what they lack\n"),
    ],
)
def test_the_last_line_says_what_became_of_the_rows(tmp_path, capsys, models, words):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    pd.DataFrame([CLASSIC | {"model": model} for model in models]).to_csv(source, index=False)
    try:
        main(["predict", str(source), str(target), "--kind", "training_classic"])
    except SystemExit as status:
        assert status.code == 1 and words.startswith("0")
    assert capsys.readouterr().out.endswith(words)


def test_a_report_without_the_bundle_ends_in_one_sentence(tmp_path, monkeypatch):
    from cookbook.charts import live

    monkeypatch.setattr("cookbook.publish.report.report", lambda *_: live.bundle_source(tmp_path / "none.js"))
    with pytest.raises(SystemExit, match="install the package"):
        main(["report", "stack"])
