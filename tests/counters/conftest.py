"""Says at the end of a run that the comparison with independent counters did not take place, where it did not."""

from importlib.util import find_spec

NOT_RUN = """The independent counters (PyTorch, fvcore) are not installed, so the tests in tests/counters did not run.
To run them: pip install 'dl-cookbook[counters]', then python -m pytest tests/counters"""


def pytest_terminal_summary(terminalreporter):
    if not (find_spec("torch") and find_spec("fvcore")):
        terminalreporter.section("counter tests did not run")
        terminalreporter.line(NOT_RUN)
