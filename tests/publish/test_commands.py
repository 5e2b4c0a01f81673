"""The commands of a reader: options from declarations, answers as text and as data, refusals, exit codes."""

import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cookbook as cb
from cookbook.__main__ import MAINTAINERS, READERS, _parser, main
from cookbook.catalog.fields import Field, declared
from cookbook.publish.commands import COMMANDS, WIDTH, arguments_of, columned, described

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A training log under the name of the example, in the folder of the shell."""
    rows = [f"{step},{2.0 if step % 10 == 0 else 0.5}" for step in range(1, 61)]
    (tmp_path / "training.csv").write_text("\n".join(["step,step_time_s", *rows]))
    monkeypatch.chdir(tmp_path)


def ended(words: str) -> SystemExit:
    with pytest.raises(SystemExit) as problem:
        main(shlex.split(words))
    return problem.value


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_each_help_is_answered(log, capsys, name):
    assert ended(f"{name} --help").code == 0
    (example,) = re.findall(r"example: cookbook (.+)", " ".join(capsys.readouterr().out.split()))
    main(shlex.split(example))
    text = capsys.readouterr()
    assert text.out.count("\n") > 2 and not text.err
    assert max(map(len, text.out.splitlines())) <= WIDTH
    main([*shlex.split(example), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data and "refusal" not in data


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_an_option_with_words(name):
    """Options are the declared arguments, but for functions and records, which no text can give."""
    function = COMMANDS[name].function
    offered = {argument.field.name: argument for argument in arguments_of(function)}
    untold = {
        name
        for name, field in declared(function).items()
        if field.type == "function" or (field.type == "record" and not field.records)
    }
    assert {*declared(function)} - {*offered} <= untold
    needed = [n for n, p in inspect.signature(function).parameters.items() if p.default is p.empty and p.kind < 4]
    assert [each for each, argument in offered.items() if argument.required] == needed
    texts = described(inspect.getdoc(function))
    for each, argument in offered.items():
        words = texts.get(each, argument.field.description or argument.field.label)
        assert words in f"{argument.words}." or words.startswith("As for cookbook."), each
        assert "As for" not in argument.words, "a reader of the shell has no other function at hand"
        assert argument.field.allowed in argument.words


def test_options_come_from_the_function_alone():
    """A further argument of a function is a further option: there is no second list."""
    words = (ROOT / "cookbook" / "publish" / "commands.py").read_text() + (
        ROOT / "cookbook" / "__main__.py"
    ).read_text()
    assert not [each for each in ("global_batch", "input_len", "kv_format", "mtbf") if each in words]


def test_text_is_read_as_declared():
    def one(name: str, text: str, command: str = "train"):
        return next(a for a in arguments_of(COMMANDS[command].function) if a.field.name == name).read(text)

    assert one("devices", "32,64") == [32, 64] and one("devices", "64") == 64 and one("tokens", "1T") == "1T"
    assert one("zero", "1,3") == [1, 3] and one("recompute", "none,full") == ["none", "full"]
    assert one("layout", "tp=8,pp=4") == one("layout", '{"tp": 8, "pp": 4}') == {"tp": 8, "pp": 4}
    assert one("hourly", "2.5") == 2.5
    assert one("arrival", "0,1.5", "serve") == [0, 1.5] and one("input_len", "sharegpt", "serve") == "sharegpt"
    assert one("path", ["a,b.csv"], "explain") == ["a,b.csv"]


def test_a_call_from_the_shell_is_the_call_in_python(capsys):
    main(shlex.split("train llama2_7b h100-sxm 32,64 1e12 --global-batch 512 --layout tp=2 --json"))
    data = json.loads(capsys.readouterr().out)
    run = cb.plan_run("llama2_7b", "h100-sxm", [32, 64], 1e12, global_batch=512, layout={"tp": 2})
    assert data["runs"] == json.loads(json.dumps(run.to_dict()["runs"])) and data["assumed"] == list(run.assumed)
    assert data["call"] == (
        'cb.plan_run(model="llama2_7b", accelerator="h100-sxm", devices=[32, 64], tokens=1000000000000.0, '
        'global_batch=512, layout={"tp": 2})'
    )
    assert data["sources"] == list(run.sources) and data["summary"] == run.summary()


BAD = {
    "need llama3_8x": ("network-unknown", "model", "llama3_8x"),
    "compare --accelerators rtx-4909": ("accelerator-unknown", "accelerators", "rtx-4909"),
    "what-runs --on rtx-4909": ("accelerator-unknown", "accelerator", "rtx-4909"),
    "train llama2_7b h100-sxm abc 1T": ("value-not-allowed", "devices", "abc"),
    "train llama2_7b h100-sxm 64 1T --zero 7": ("not-read", "zero", "7"),
    "serve llama3_405b rtx-4090 --rate 1 --devices 1 --tp 1": ("weights-too-large", "tp", "1"),
    "finetune llama3_8b rtx-4090 --rank 0": ("value-not-allowed", "rank", "0"),
    "explain nothing.log": ("not-read", "path", ["nothing.log"]),
}


@pytest.mark.parametrize("words", BAD)
def test_a_refusal_is_one_sentence_or_the_same_as_data(capsys, words):
    problem = ended(words)
    assert isinstance(problem.code, str) and problem.code and "\n" not in problem.code, "exit status 1, on stderr"
    assert capsys.readouterr().out == ""
    assert ended(f"{words} --json").code == 1
    refusal = json.loads(capsys.readouterr().out)["refusal"]
    assert list(refusal) == ["why", "code", "field", "value", "allowed", "nearest", "remedy"]
    assert (refusal["code"], refusal["field"], refusal["value"]) == BAD[words]
    assert refusal["why"] == problem.code and refusal["remedy"] and refusal["allowed"]


def test_predictions_and_reports_are_told_as_data_too(log, capsys, tmp_path):
    (tmp_path / "in.csv").write_text("model,accelerator,batch\nresnet50,t4,8\nresnet50,,8\n")
    main(["predict", "in.csv", "out.csv", "--kind", "training_classic", "--json"])
    assert json.loads(capsys.readouterr().out) == {"output": "out.csv", "rows": 2, "predicted": 1}
    main(["report", "crossbar", "--json"])
    assert json.loads(capsys.readouterr().out) == {"files": ["report.html"]}


def test_an_unreadable_log_is_refused_by_name(log, capsys, tmp_path):
    (tmp_path / "noise.log").write_bytes(bytes(range(256)) * 8)
    assert "noise.log" in ended("explain noise.log").code
    (tmp_path / "broken.json").write_text("{")
    assert "broken.json" in ended("explain broken.json").code


@pytest.mark.parametrize("words", ["", "nothing", "need", "need llama3_8b --nothing 1", "serve llama3_8b", "notebooks"])
def test_a_wrong_command_line_ends_with_two(capsys, words):
    assert ended(words).code == 2 and "usage: cookbook" in capsys.readouterr().err


def test_a_reader_sees_no_command_of_maintainers(capsys):
    assert ended("--help").code == 0
    listed = capsys.readouterr().out
    assert all(f" {name} " in f"{listed} ".replace("\n", " ") for name in (*COMMANDS, *READERS, "dev"))
    assert not [name for name in MAINTAINERS if f" {name} " in listed]
    assert ended("dev --help").code == 0
    assert all(name in capsys.readouterr().out for name in [next(iter(MAINTAINERS))])


def test_a_reader_who_closes_the_output_sees_no_error():
    command = f"{shlex.quote(sys.executable)} -m cookbook what-runs --on rtx-4090 --json | head -c 10"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == '{\n "summary'[:10] and ended.stderr == ""


def test_every_command_of_the_pages_is_one():
    """What README and the page of the shell show can be read: commands, options and numbers of arguments."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [
        line for page in pages for line in re.findall(r"(?:`| {4}|\$ )cookbook ([a-z-]+ ?[^`\n]*)", page.read_text())
    ]
    shown = [line for line in shown if line.split()[0] in {*COMMANDS, *READERS}]
    assert len(shown) > 12
    for line in shown:
        name, *_ = words = shlex.split(line)
        parser = _parser(name)
        # A command named without what it needs is named, not shown.
        if words != [name] or name in ("what-runs", "app", "mcp"):
            parser.parse_args(words)


def test_the_script_is_the_same_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"cookbook": "cookbook.__main__:main"}


def test_a_wide_table_is_written_row_by_row():
    pandas = pytest.importorskip("pandas")
    narrow = columned(pandas.DataFrame({"a": ["1", "22"], "b": ["x", ""]}))
    assert narrow.splitlines() == ["a   b", "1   x", "22"]
    wide = columned(pandas.DataFrame({"a": ["word " * 30], "b": ["x"], "c": [""]}))
    assert wide.splitlines()[-1] == "b: x" and max(map(len, wide.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_read_no_option_of_another(name):
    """The options of one command are those of its function: nothing else is imported for it."""
    code = f"import sys; from cookbook.__main__ import _parser; _parser({name!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert not {"altair", "ipywidgets", "anywidget", "cookbook.panels", "cookbook.calibration"} & {*loaded.split()}


def test_a_field_without_words_is_still_described():
    assert described("Sum.") == {} and Field.count().allowed
