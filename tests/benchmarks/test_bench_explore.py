"""Speed of the explorer, against a reference run beside it in the same run, never against absolute seconds."""

from functools import partial

from stopwatch import seconds

import cookbook as cb
from cookbook.evidence import measurements
from cookbook.topics.accuracy.measurements_panel import _asked

fastest = partial(seconds, of=min)


def test_a_question_costs_little_of_making_the_frame():
    everything = fastest(measurements.everything.__wrapped__, 3)
    question = fastest(lambda: cb.measurements(kind="training", framework=["PyTorch", "MXNet"], devices=(2, 64)))
    assert question < everything / 5, f"{everything / question:.1f} questions a frame"


def test_a_picture_of_everything_costs_less_than_the_frame():
    """Filtering, places of all marks and words; what is kept of former questions is thrown away."""
    panel = cb.panels.measurements(kind="", y="value", unit="all", x="year")
    last = {"x": "year", "by": "generation", "several": "no"}
    states = ({"x": "framework"}, {"by": "kind"}, {"several": "yes"}, last)

    def ask():
        _asked.cache_clear()
        for state in states:
            panel.update(**state)

    everything = fastest(measurements.everything.__wrapped__, 3)
    each = fastest(ask, 3) / len(states)
    assert len(panel.columns["x"]) > 8000 and each < everything, f"{everything / each:.1f} pictures a frame"
