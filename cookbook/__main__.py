"""The commands of a shell: `cookbook --help`, or `python -m cookbook --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cookbook.hardware import Machine
    from cookbook.publish.commands import Command

KINDS = ("training_classic", "training_transformer", "inference")
# Flags of one option, or the name of one argument, with what argparse takes for it.
Options = tuple[tuple[str, dict[str, Any]], ...]


def main(arguments: list[str] | None = None) -> None:
    """Run one command line; a failure ends with one plain sentence and exit status 1."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser(next((word for word in words if not word.startswith("-")), "")).parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a shell of few letters gets codes for the others, not an error
            stream.reconfigure(errors="backslashreplace")
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError as error:  # who reads the output has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from error
    except ModuleNotFoundError as error:
        extra = "`mcp`" if error.name in ("mcp", "anyio") else "`test`, or use make, which does"
        raise SystemExit(f"this needs {error.name}: install the extra {extra}") from error
    except (ValueError, KeyError, OSError) as error:
        raise SystemExit(str(error.args[0] if isinstance(error, KeyError) and error.args else error)) from error


def _parser(chosen: str = "") -> argparse.ArgumentParser:
    """Return the parser; options of public functions are read for the chosen command alone, which is quicker."""
    from cookbook.publish.commands import COMMANDS, add_arguments

    parser = argparse.ArgumentParser(prog="cookbook", description="Deep Learning Cookbook, from a shell.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        below = f"example: cookbook {name} {command.example}"
        added = commands.add_parser(name, help=command.words, description=f"{command.words}.", epilog=below)
        added.formatter_class = argparse.RawDescriptionHelpFormatter  # the example stays one line, to be copied
        added.set_defaults(run=partial(_answer, command))
        if name == chosen:
            add_arguments(added, command)
        added.add_argument("--json", action="store_true", help=JSON)
    _add(commands, READERS)
    words = "commands of maintainers"
    dev = commands.add_parser("dev", help=words, description=words)
    _add(dev.add_subparsers(required=True, metavar="COMMAND"), MAINTAINERS)
    return parser


def _add(commands: Any, table: Mapping[str, tuple[str, Any, Options]]) -> None:
    for name, (words, run, options) in table.items():
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        for flags, more in options:
            command.add_argument(*flags.split(), **more)


def _answer(command: Command, options: argparse.Namespace) -> None:
    """Print the answer of a public function, or with --json the reason why there is none as data."""
    from cookbook.publish import commands

    given = {name: value for name, value in vars(options).items() if name not in ("run", "json")}
    try:
        found = commands.answer(command, given)
    except (ValueError, KeyError, OSError) as problem:
        if not options.json:
            raise
        print(commands.as_json({"refusal": commands.refusal_data(problem, command, given)}))
        raise SystemExit(1) from problem
    print(commands.as_json(commands.as_data(found)) if options.json else commands.as_text(found, command.columns))


def _tell(options: argparse.Namespace, text: str, **data: Any) -> None:
    """Print what a command did: a sentence, or with --json the same as data."""
    from cookbook.publish.commands import as_json

    print(as_json(data) if options.json else text)


def _paths(options: argparse.Namespace) -> list[Path]:
    folder = Path("notebooks")
    found = options.paths or [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("history/*.ipynb"))]
    if not found:
        raise SystemExit("no notebooks found: run this in the folder that holds notebooks/")
    return found


def _notebooks(options: argparse.Namespace) -> None:
    from papermill.exceptions import PapermillExecutionError

    from cookbook.publish.notebook import execute

    for path in _paths(options):
        try:
            execute(path)
        except PapermillExecutionError as error:
            raise SystemExit(f"{path}: cell {error.exec_count} raised {error.ename}: {error.evalue}") from error
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def _student(options: argparse.Namespace) -> None:
    from cookbook.publish.notebook import student

    paths = _paths(options)
    for path in paths:
        if [other.name for other in paths].count(path.name) > 1:
            raise ValueError(f"two of the notebooks are called {path.name}: one copy would take the other's place")
    for path in paths:
        print(student(path, options.out))


def _answers(options: argparse.Namespace) -> None:
    from concurrent.futures import ProcessPoolExecutor

    from cookbook.publish.answers import answers

    with ProcessPoolExecutor() as executor:
        print(f"open {answers(options.out, executor=executor)}")


def _app(options: argparse.Namespace) -> None:
    from cookbook.publish.dashboard import serve

    serve(options.bind, options.port, options.token, options.spare, options.most, 1e9 * options.memory)


def _mcp(options: argparse.Namespace) -> None:
    from cookbook.publish.assistant import serve

    serve()


def _lint(options: argparse.Namespace) -> None:
    from cookbook.publish.notebook import lint

    problems = [f"{path}: {problem}" for path in _paths(options) for problem in lint(path)]
    print("\n".join(problems) or "every notebook keeps its budgets")
    sys.exit(1 if problems else 0)


def _binder_links(options: argparse.Namespace) -> None:
    from cookbook.publish.refresh import write_links

    print(f"launch links for {options.tag} are in {write_links('README.md', options.repo, options.tag)}")


def _data_readme(options: argparse.Namespace) -> None:
    from cookbook import catalog
    from cookbook.catalog.files import write_text

    for name, (before, found) in catalog.count_rows().items():
        print(f"{name}: {found:,} rows, {before or 'none'} noted before")
    print(write_text(catalog.data_directory() / "README.md", catalog.describe_tables()))


def _check_data(options: argparse.Namespace) -> None:
    from cookbook import catalog

    problems = catalog.validate_all()
    if problems:
        raise SystemExit("\n".join(map(str, problems)))
    for name in catalog.table_names():
        print(f"{name}: {len(catalog.table(name)):,} rows")


def _refresh_prices(options: argparse.Namespace) -> None:
    from cookbook.publish.refresh import CATALOGUES, refresh_prices

    for name, change in refresh_prices(options.catalogues or CATALOGUES).items():
        print(f"{name}: {change.updated} rows written anew, {change.added} added")
        print(f"  not in the catalogue: {', '.join(change.unknown) or 'none'}")
    _data_readme(options)


def _calibrate(options: argparse.Namespace) -> None:
    from cookbook.calibration import kernels, storage
    from cookbook.calibration.validate import write_calibration, write_table

    print(write_table(kernels.TABLE, kernels.constants()))
    if not options.kernels:
        print(*write_calibration(), write_table("pipeline_constants", storage.constants()), sep="\n")


def _judge_storage(options: argparse.Namespace) -> None:
    from cookbook.calibration import judgement as judged
    from cookbook.calibration.validate import write_table

    print(write_table(judged.TABLE, judged.judged_rows()) if options.write else judged.judgement())


def _judge_exchanges(options: argparse.Namespace) -> None:
    from cookbook.calibration.judgement import exchange_judgement

    print(exchange_judgement())


def _validate(options: argparse.Namespace) -> None:
    from cookbook.calibration import validate
    from cookbook.calibration.validate import write_row_schemas, write_validation
    from cookbook.catalog.files import check_target, write_text
    from cookbook.publish.refresh import write_accuracy

    if options.write and (options.table or options.leave_out):
        raise ValueError("--write takes the whole report: leave out --table and --leave-out")
    if options.baseline and not options.write:
        raise ValueError("--baseline goes with --write")
    for path in filter(None, (options.markdown, options.json)):
        path.parent.mkdir(parents=True, exist_ok=True)
        check_target(path)
    chosen = {"kinds": (options.table,) if options.table else validate.KINDS}
    report, tables = validate.validate(**chosen, **({"leave_out": (options.leave_out,)} if options.leave_out else {}))
    if options.markdown:
        write_text(options.markdown, validate.as_markdown(report))
    else:
        print(validate.as_markdown(report))
    if options.json:
        write_text(options.json, validate.as_json(report))
    if options.write:
        written = [*write_row_schemas(), *write_validation(report, tables, options.baseline)]
        print(*written, write_accuracy("README.md", report), sep="\n")


def _predict(options: argparse.Namespace) -> None:
    from cookbook.catalog.files import check_target, writing
    from cookbook.prediction.answer import answer_blocks, answer_file, as_csv, unknown_columns

    check_target(options.output, options.input)
    here = _machine(options)
    rows, given, told = 0, 0, False
    with writing(options.output) as file:
        for frame, found in answer_blocks(options.input, options.kind, not options.no_neighbours, here):
            lost = [] if told else unknown_columns(options.kind, frame)
            if lost and options.strict:
                raise ValueError("; ".join(lost[:8]) + "; --strict refuses tables with unknown columns")
            for sentence in lost[:40]:
                print(sentence, file=sys.stderr)
            file.write(as_csv(found, header=not told))
            told, rows, given = True, rows + len(found), given + int(found["predicted"].notna().sum())
        if not told:
            file.write(as_csv(answer_file(options.input, options.kind)))
    if not rows:
        print(f"{options.input} has no rows below a header: write one row a scenario", file=sys.stderr)
    who = "the other lacks" if rows - given == 1 else "the others lack" if given else "they lack"
    others = f"; the column why says what {who}" if given < rows else ""
    text = f"{options.output}: {given:,} of {rows:,} rows predicted{others}"
    _tell(options, text, output=str(options.output), rows=rows, predicted=given)
    if not given:
        raise SystemExit(1)


def _machine(options: argparse.Namespace) -> Machine | None:
    """The machine that a file of measurements was calibrated to, where one is given."""
    from cookbook import measure
    from cookbook.hardware import machine

    if options.machine is None:
        return None
    if options.kind == "storage":
        raise ValueError("--machine goes with networks: storage is predicted from the drives that a row names")
    found = measure.calibrate(options.machine)
    print(f"{options.machine}: {found.summary()}", file=sys.stderr)
    return machine(found.accelerator)


def _report(options: argparse.Namespace) -> None:
    from cookbook.publish.report import read_state, report

    paths = report(options.panel, options.out, read_state(options.state), options.question, options.note, options.pdf)
    _tell(options, "\n".join(f"{path}: {path.stat().st_size / 1e3:.0f} kB" for path in paths), files=[*map(str, paths)])


def _measure(options: argparse.Namespace) -> None:
    from cookbook import measure
    from cookbook.catalog.files import check_target
    from cookbook.hardware import machine
    from cookbook.topics.machine import sharing

    check_target(options.out)
    say = partial(print, file=sys.stderr if options.json else sys.stdout)
    system = machine(options.beside) if options.beside else None
    compared_with = (system or sharing.machine_here(options.device)) if options.compare else None
    report = measure.run(
        options.device,
        quick=options.quick,
        suites=options.suite or ("micro", "macro"),
        seconds=options.seconds,
        folder=options.folder,
        rounds=options.rounds,
        progress=measure.progress_bar,
    )
    say(*report.lines(), sep="\n")
    for each in report.skipped:
        say(f"left out: {each['benchmark']}, {each['case']}: {each['why']}")
    for note in ("shared", "throttling"):
        if note in report.environment:
            say(report.environment[note])
    if system:
        compared = measure.summary(measure.beside(report, system))
        say(compared.to_string(index=False) if len(compared) else "no network was measured: nothing to predict")
    if options.calibrate:
        say(*measure.calibrate(report).lines(), sep="\n")
    text, file = report.summary(), str(report.write(options.out))
    if compared_with:
        say(
            *sharing.lines(measure.beside(report, compared_with)) or ["no network was measured: nothing to compare"],
            sep="\n",
        )
        for rows in sharing.write_rows(report, compared_with, options.out):
            say(f"{rows}: rows that a change of the tables of measured runs would add")
    _tell(options, f"{file}: {text}; nothing was sent anywhere", file=file, summary=text)


JSON = "print one JSON object"
AS_JSON = ("--json", {"action": "store_true", "help": JSON})
PATHS = ("paths", {"nargs": "*", "type": Path, "help": "notebooks (default: all)"})
SHOWN = "default: %(default)s"
READERS: dict[str, tuple[str, Any, Options]] = {
    "predict": (
        "predict every row of a CSV file",
        _predict,
        (
            ("input", {"metavar": "INPUT.csv", "type": Path}),
            ("output", {"metavar": "OUTPUT.csv", "type": Path}),
            ("--kind", {"required": True, "choices": (*KINDS, "storage")}),
            ("--strict", {"action": "store_true", "help": "refuse a table with columns that are not known"}),
            (
                "--machine",
                {
                    "metavar": "MEASURED.json",
                    "type": Path,
                    "help": "a file of the command measure: "
                    "rows without an accelerator, or of 'this machine', are of that machine",
                },
            ),
            ("--no-neighbours", {"action": "store_true", "help": "do not correct by similar measurements"}),
            AS_JSON,
        ),
    ),
    "measure": (
        "benchmark this machine and write a JSON file; nothing is sent anywhere",
        _measure,
        (
            ("--device", {"help": "numpy, cpu, cuda or mps (default: the fastest there is)"}),
            ("--quick", {"action": "store_true", "help": "fewer and smaller cases"}),
            (
                "--suite",
                {
                    "action": "append",
                    "choices": ("micro", "macro", "language"),
                    "help": "operations, networks, language models (default: the first two)",
                },
            ),
            ("--seconds", {"type": float, "help": "stop after this time"}),
            ("--folder", {"type": Path, "help": "on the drive to measure (default: that of temporary files)"}),
            ("--out", {"type": Path, "default": Path("measured.json"), "help": SHOWN}),
            ("--rounds", {"type": int, "default": 1, "help": "go so often through all (default: %(default)s)"}),
            ("--beside", {"metavar": "DEVICE", "help": "predict the networks for a device of the catalogue"}),
            (
                "--compare",
                {
                    "action": "store_true",
                    "help": "print each network beside its prediction, for the device of --beside or that of this "
                    "machine, and write the rows that a change of the tables of measured runs would add",
                },
            ),
            (
                "--calibrate",
                {
                    "action": "store_true",
                    "help": "tell the constants of this machine, and how well networks are predicted by them",
                },
            ),
            AS_JSON,
        ),
    ),
    "report": (
        "write what a panel says as one page that opens offline, for a manager",
        _report,
        (
            ("panel", {"metavar": "PANEL", "help": "a panel of cb.panels, such as stack"}),
            (
                "--set",
                {
                    "dest": "state",
                    "action": "append",
                    "default": [],
                    "metavar": "NAME=VALUE",
                    "help": "a control of the panel; again for each",
                },
            ),
            ("--out", {"type": Path, "default": Path("report.html"), "help": SHOWN}),
            ("--question", {"default": "", "help": "title: what is to be decided"}),
            ("--note", {"default": "", "help": "your own words"}),
            ("--pdf", {"action": "store_true", "help": "print it to PDF too, by a Chromium of this machine"}),
            AS_JSON,
        ),
    ),
    "app": (
        "serve all panels to a browser, of this machine alone unless --bind says otherwise",
        _app,
        (
            (
                "--bind",
                {
                    "default": "127.0.0.1",
                    "metavar": "ADDRESS",
                    "help": "listen here; beyond this machine a token is needed and made (default: %(default)s)",
                },
            ),
            ("--port", {"type": int, "default": 8866, "help": SHOWN}),
            ("--token", {"help": "what readers need to get in (default: COOKBOOK_TOKEN of the environment)"}),
            ("--spare", {"type": int, "default": 2, "help": "processes ready for readers (default: %(default)s)"}),
            ("--most", {"type": int, "default": 30, "help": "pages open at once (default: %(default)s)"}),
            (
                "--memory",
                {
                    "type": float,
                    "default": 1.0,
                    "metavar": "GB",
                    "help": "what the process of one page may allocate (default: %(default)s)",
                },
            ),
        ),
    ),
    "mcp": ("answer an assistant over standard input and output (Model Context Protocol)", _mcp, ()),
}
MAINTAINERS: dict[str, tuple[str, Any, Options]] = {
    "notebooks": ("run the notebooks again and store them normalised", _notebooks, (PATHS,)),
    "student": (
        "write copies without solutions to build/student",
        _student,
        (PATHS, ("--out", {"default": "build/student", "help": f"folder to write ({SHOWN})"})),
    ),
    "answers": (
        "write a page that answers without a kernel to build/site/answers",
        _answers,
        (("--out", {"default": "build/site/answers", "help": f"folder to write ({SHOWN})"}),),
    ),
    "lint-notebooks": ("check the notebooks against the page budgets", _lint, (PATHS,)),
    "binder-links": (
        "write launch links pinned to a tag into README.md",
        _binder_links,
        (("repo", {"metavar": "REPO", "help": "owner/name"}), ("tag", {"metavar": "TAG", "help": "v0.1.0"})),
    ),
    "data-readme": ("count the rows of every table, write data/README.md from the schemas", _data_readme, ()),
    "check-data": ("validate every table in data/", _check_data, ()),
    "refresh-prices": (
        "read public price catalogues and date the price rows (needs the network)",
        _refresh_prices,
        (("catalogues", {"nargs": "*", "metavar": "CATALOGUE", "help": "azure, aws (default: both)"}),),
    ),
    "calibrate": (
        "fit the constants and intervals of predictions anew and write them to data/",
        _calibrate,
        (("--kernels", {"action": "store_true", "help": "only the constants of single kernels"}),),
    ),
    "validate": (
        "evaluate predictions by measurements that were left out",
        _validate,
        (
            ("--table", {"choices": KINDS, "help": "one kind (default: all)"}),
            ("--leave-out", {"choices": ("source", "accelerator", "family"), "help": "default: all"}),
            ("--json", {"type": Path, "help": "write the report as JSON to this file as well"}),
            ("--markdown", {"type": Path, "help": "write the report to this file, not to the screen"}),
            ("--write", {"action": "store_true", "help": "write data/validation*.csv and README.md"}),
            ("--baseline", {"action": "store_true", "help": "with --write: set the baseline of tests"}),
        ),
    ),
    "judge-storage": (
        "evaluate predictions of storage by measurements that were left out",
        _judge_storage,
        (("--write", {"action": "store_true", "help": "write data/validation_storage_rows.csv instead"}),),
    ),
    "judge-exchanges": (
        "evaluate times of collectives by measurements that were left out",
        _judge_exchanges,
        (),
    ),
}


if __name__ == "__main__":
    main()
