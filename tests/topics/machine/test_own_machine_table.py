"""Tables of a reader whose rows are of the machine that was measured: `python -m cookbook predict --machine`."""

import csv

import pytest

import cookbook as cb
from cookbook.__main__ import main


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return cb.measure.own_run().write(tmp_path_factory.mktemp("measured") / "measured.json")


def predicted(tmp_path, text, *options):
    source, target = tmp_path / "asked.csv", tmp_path / "answers.csv"
    source.write_text(text, encoding="utf-8")
    main(["predict", str(source), str(target), *options])
    with target.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_rows_of_this_machine_and_rows_without_one_are_predicted_for_it(tmp_path, measured):
    text = (
        "id,model,gpu,batch,precision\na,resnet101,this machine,4,fp32\nb,resnet101,,4,fp32\n"
        "c,resnet101,h100-sxm,4,fp32\nd,resnet101,no such thing,4,fp32\n"
    )
    rows = predicted(tmp_path, text, "--kind", "training_classic", "--machine", str(measured))
    device = cb.measure.calibrate(measured).accelerator
    step = cb.train_step("resnet101", device, micro_batch=4, precision="fp32")
    for key in "ab":
        assert rows[key]["tier"] == "measured here"
        assert float(rows[key]["predicted"]) == pytest.approx(4 / step.point, rel=1e-5)
        assert float(rows[key]["low80"]) == pytest.approx(4 / step.high80, rel=1e-5)
    assert "accelerator = this machine" in rows["b"]["assumed"] and "this machine" not in rows["a"]["assumed"]
    plain = predicted(tmp_path, text, "--kind", "training_classic")
    assert rows["c"] == plain["c"] and rows["d"]["why"] == plain["d"]["why"] != ""
    assert plain["a"]["predicted"] == plain["b"]["predicted"] == ""


def test_a_table_without_the_column_is_of_this_machine(tmp_path, measured):
    text = "id,model,input_len,output_len,batch,precision\na,gpt2,64,8,1,fp32\n"
    rows = predicted(tmp_path, text, "--kind", "inference", "--machine", str(measured))
    device = cb.measure.calibrate(measured).accelerator
    found = cb.generate("gpt2", device, input_len=64, output_len=8, batch=1, precision="fp32")
    assert rows["a"]["tier"] == "measured here" and found.tier == "measured here"
    text = "id,model,devices,micro_batch,seq,precision\na,gpt2,1,1,128,fp32\n"
    rows = predicted(tmp_path, text, "--kind", "training_transformer", "--machine", str(measured))
    assert rows["a"]["tier"] == "measured here" and float(rows["a"]["predicted"]) > 0


@pytest.mark.parametrize(
    ("file", "kind", "words"),
    [
        ("gone.json", "training_classic", "gone.json cannot be read"),
        (None, "storage", "--machine goes with networks"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, measured, file, kind, words):
    path = tmp_path / file if file else measured
    with pytest.raises(SystemExit, match=words):
        predicted(tmp_path, "id,model\na,resnet50\n", "--kind", kind, "--machine", str(path))
