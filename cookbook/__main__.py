"""The few commands that a shell needs: `python -m cookbook --help`."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cookbook.hardware import Machine

KINDS = ("training_classic", "training_transformer", "inference")


def main(arguments: list[str] | None = None) -> None:
    """Run one command line; a failure ends with one plain sentence and exit status 1."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a shell of few letters gets codes for the others, not an error
            stream.reconfigure(errors="backslashreplace")
    try:
        options.run(options)
    except ModuleNotFoundError as error:
        raise SystemExit(f"this needs {error.name}: install the extra `test`, or use make, which does") from error
    except (ValueError, KeyError, OSError) as error:
        raise SystemExit(str(error.args[0] if isinstance(error, KeyError) and error.args else error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cookbook", description="Deep Learning Cookbook, from a shell.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, words in (
        ("notebooks", _notebooks, "run the notebooks again and store them normalised"),
        ("student", _student, "write copies without solutions to build/student"),
        ("site", _site, "write static pages that open offline to build/site"),
        ("app", _app, "serve all panels to a browser, of this machine alone unless --bind says otherwise"),
        ("lint-notebooks", _lint, "check the notebooks against the page budgets"),
        ("binder-links", _binder_links, "write launch links pinned to a tag into README.md"),
        ("data-readme", _data_readme, "count the rows of every table, write data/README.md from the schemas"),
        ("check-data", _check_data, "validate every table in data/"),
        ("refresh-prices", _refresh_prices, "read public price catalogues and date the price rows (needs the network)"),
        ("calibrate", _calibrate, "fit the constants and intervals of predictions anew and write them to data/"),
        ("validate", _validate, "judge predictions by measurements that were left out"),
        ("judge-storage", _judge_storage, "judge predictions of storage by measurements that were left out"),
        ("judge-exchanges", _judge_exchanges, "judge times of collectives by measurements that were left out"),
        ("predict", _predict, "predict every row of a CSV file"),
        ("report", _report, "write what a panel says as one page that opens offline, for a manager"),
        ("measure", _measure, "benchmark this machine and write a JSON file; nothing is sent anywhere"),
    ):
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        if name in ("notebooks", "student", "lint-notebooks"):
            command.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all)")
        if name in ("student", "site"):
            command.add_argument("--out", default=f"build/{name}", help="folder to write (default: %(default)s)")
        if name == "binder-links":
            command.add_argument("repo", metavar="REPO", help="owner/name")
            command.add_argument("tag", metavar="TAG", help="v0.1.0")
        _more_options(name, command)
    return parser


def _more_options(name: str, command: argparse.ArgumentParser) -> None:
    if name == "validate":
        command.add_argument("--table", choices=KINDS, help="one kind (default: all)")
        command.add_argument("--leave-out", choices=("source", "accelerator", "family"), help="default: all")
        command.add_argument("--json", type=Path, help="write the report as JSON to this file as well")
        command.add_argument("--markdown", type=Path, help="write the report to this file, not to the screen")
        command.add_argument("--write", action="store_true", help="write data/validation*.csv and README.md")
        command.add_argument("--baseline", action="store_true", help="with --write: set the baseline of tests")
    if name == "app":
        command.add_argument(
            "--bind",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="listen here; beyond this machine a token is needed and made (default: %(default)s)",
        )
        command.add_argument("--port", type=int, default=8866, help="default: %(default)s")
        command.add_argument("--token", help="what readers need to get in (default: COOKBOOK_TOKEN of the environment)")
        command.add_argument("--spare", type=int, default=2, help="processes ready for readers (default: %(default)s)")
        command.add_argument("--most", type=int, default=30, help="pages open at once (default: %(default)s)")
        command.add_argument(
            "--memory",
            type=float,
            default=1.0,
            metavar="GB",
            help="what the process of one page may allocate (default: %(default)s)",
        )
    if name == "refresh-prices":
        command.add_argument("catalogues", nargs="*", metavar="CATALOGUE", help="azure, aws (default: both)")
    if name == "measure":
        command.add_argument("--device", help="numpy, cpu, cuda or mps (default: the fastest there is)")
        command.add_argument("--quick", action="store_true", help="fewer and smaller cases")
        command.add_argument(
            "--suite",
            action="append",
            choices=("micro", "macro", "language"),
            help="operations, networks, language models (default: the first two)",
        )
        command.add_argument("--seconds", type=float, help="stop after this time")
        command.add_argument("--folder", type=Path, help="on the drive to measure (default: that of temporary files)")
        command.add_argument("--out", type=Path, default=Path("measured.json"), help="default: %(default)s")
        command.add_argument("--rounds", type=int, default=1, help="go so often through all (default: %(default)s)")
        command.add_argument("--beside", metavar="DEVICE", help="predict the networks for a device of the catalogue")
        command.add_argument(
            "--calibrate",
            action="store_true",
            help="tell the constants of this machine, and how well networks are predicted by them",
        )
    if name == "report":
        command.add_argument("panel", metavar="PANEL", help="a panel of cb.panels, such as stack")
        command.add_argument(
            "--set",
            dest="state",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a control of the panel; again for each",
        )
        command.add_argument("--out", type=Path, default=Path("report.html"), help="default: %(default)s")
        command.add_argument("--question", default="", help="title: what is to be decided")
        command.add_argument("--note", default="", help="your own words")
        command.add_argument("--pdf", action="store_true", help="print it to PDF too, by a Chromium of this machine")
    if name == "calibrate":
        command.add_argument("--kernels", action="store_true", help="only the constants of single kernels")
    if name == "judge-storage":
        command.add_argument("--write", action="store_true", help="write data/validation_storage_rows.csv instead")
    if name == "predict":
        command.add_argument("input", metavar="INPUT.csv", type=Path)
        command.add_argument("output", metavar="OUTPUT.csv", type=Path)
        command.add_argument("--kind", required=True, choices=(*KINDS, "storage"))
        command.add_argument("--strict", action="store_true", help="refuse a table with columns that are not known")
        command.add_argument(
            "--machine",
            metavar="MEASURED.json",
            type=Path,
            help="a file of the command measure: "
            "rows without an accelerator, or of 'this machine', are of that machine",
        )
        command.add_argument("--no-neighbours", action="store_true", help="do not correct by similar measurements")


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


def _site(options: argparse.Namespace) -> None:
    from cookbook.publish.site import site

    print(f"open {site('notebooks', options.out) / 'index.html'}")


def _app(options: argparse.Namespace) -> None:
    from cookbook.publish.dashboard import serve

    serve(options.bind, options.port, options.token, options.spare, options.most, 1e9 * options.memory)


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
    others = (
        ""
        if given == rows
        else "; the column why says what the other lacks"
        if rows - given == 1
        else ("; the column why says what the others lack" if given else "; the column why says what they lack")
    )
    print(f"{options.output}: {given:,} of {rows:,} rows predicted{others}")
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

    state = read_state(options.state)
    for path in report(options.panel, options.out, state, options.question, options.note, options.pdf):
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def _measure(options: argparse.Namespace) -> None:
    from cookbook import measure
    from cookbook.catalog.files import check_target
    from cookbook.hardware import machine

    check_target(options.out)
    system = machine(options.beside) if options.beside else None
    report = measure.run(
        options.device,
        quick=options.quick,
        suites=options.suite or ("micro", "macro"),
        seconds=options.seconds,
        folder=options.folder,
        rounds=options.rounds,
        progress=measure.progress_bar,
    )
    print(*report.lines(), sep="\n")
    for each in report.skipped:
        print(f"left out: {each['benchmark']}, {each['case']}: {each['why']}")
    for note in ("shared", "throttling"):
        if note in report.environment:
            print(report.environment[note])
    if system:
        compared = measure.summary(measure.beside(report, system))
        print(compared.to_string(index=False) if len(compared) else "no network was measured: nothing to predict")
    if options.calibrate:
        print(*measure.calibrate(report).lines(), sep="\n")
    print(f"{report.write(options.out)}: {report.summary()}; nothing was sent anywhere")


if __name__ == "__main__":
    main()
