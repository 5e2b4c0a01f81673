"""Networks that forecast time series: the temporal fusion transformer (Lim et al., arXiv:1912.09363)."""

from __future__ import annotations

from .layers import Trace
from .ops import Ops
from .shapes import Shape


def tft(history: int = 168, future: int = 24, hidden: int = 128, heads: int = 4, known: int = 3, observed: int = 0,
        series: int = 369, quantiles: int = 3) -> Ops:  # fmt: skip
    """Temporal fusion transformer as NVIDIA trains it on hourly electricity (369 series) or traffic (963).

    Parameters
    ----------
    history, future : int
        Steps seen and steps forecast.
    hidden, heads : int
        Width and attention heads; the heads share one set of values.
    known, observed, series : int
        Numbers known in advance at each step, numbers only seen, and rows of the table of series.
    """
    t = Trace()
    static = t.embedding((), series, hidden, name="series")
    for name, inputs in (("known", known), ("observed", observed), ("target", 1)):
        t.parameter(2 * inputs * hidden, f"{name}.embedding")
    static = _select(t, static, 1, hidden, "static", None)
    contexts = [_gated(t, static, hidden, name=f"context{number}") for number in range(4)]
    parts = []
    for name, steps, inputs in (("history", history, known + observed + 1), ("future", future, known)):
        chosen = _select(t, t.tokens(steps, hidden * inputs), inputs, hidden, name, contexts[0])
        parts.append((chosen, t.recurrent(chosen, hidden, name=f"{name}.lstm")))
    x = t.tokens(history + future, hidden)
    x = _gate_add_norm(t, x, x.with_channels(hidden), hidden, "input_gate")
    x = _gated(t, x, hidden, context=contexts[1], name="enrichment")
    # Only the forecast steps leave the attention.
    late = t.tokens(future, hidden)
    y = _gate_add_norm(t, _attention(t, x, hidden, heads).with_channels(hidden), late, hidden, "attention_gate", future)
    y = _gated(t, y, hidden, name="positionwise")
    y = _gate_add_norm(t, y, late, hidden, "decoder_gate")
    t.loss(t.linear(y, quantiles, name="quantiles"))
    return t.ops()


def _gated(t: Trace, x: Shape, hidden: int, out: int = 0, context: Shape | None = None, name: str = "") -> Shape:
    """Gated residual network: two linear layers with ELU, a gated linear unit, a shortcut, a norm."""
    y = t.linear(x, hidden, name=f"{name}.a")
    if context is not None:
        y = t.add(y, t.linear(context, hidden, bias=False, name=f"{name}.context"), name=f"{name}.add")
    y = t.dropout(t.linear(t.act(y, "elu"), hidden, name=f"{name}.i"))
    shortcut = t.linear(x, out, name=f"{name}.shortcut") if out else x
    return _glu(t, y, shortcut, out or hidden, name)


def _glu(t: Trace, x: Shape, shortcut: Shape, out: int, name: str) -> Shape:
    y = t.linear(x, 2 * out, name=f"{name}.glu")
    y = t.multiply(y.with_channels(out), t.act(y.with_channels(out), "sigmoid"), name=f"{name}.gate")
    y = t.add(y, shortcut, name=f"{name}.residual")
    return t.norm(y, "layer", name=f"{name}.norm") if out > 1 else y


def _gate_add_norm(t: Trace, x: Shape, shortcut: Shape, hidden: int, name: str, steps: int = 0) -> Shape:
    return _glu(t, t.tokens(steps, hidden) if steps else x, shortcut, hidden, name)


def _select(t: Trace, x: Shape, inputs: int, hidden: int, name: str, context: Shape | None) -> Shape:
    """Variable selection: a network for each input, weighted by a softmax that another network computes from all."""
    if context is None:
        # The source builds the layer for a context, and leaves it unused for static inputs.
        t.parameter(hidden * hidden, f"{name}.unused_context")
    weights = t.softmax(_gated(t, x, hidden, inputs, context, f"{name}.joint"), f"{name}.weights")
    with t.block(f"{name}.inputs", repeat=inputs):
        _gated(t, x.with_channels(hidden), hidden, name=f"{name}.input")
    y = t.multiply(x.with_channels(hidden * inputs), weights, name=f"{name}.weighted")
    return y.with_channels(hidden)


def _attention(t: Trace, x: Shape, hidden: int, heads: int) -> Shape:
    """Causal attention whose heads share the values and are averaged before the output layer."""
    width = hidden // heads
    qkv = t.linear(x, (2 * heads + 1) * width, bias=False, name="attention.qkv")
    y = t.attention(qkv.with_channels(hidden), heads, causal=True, flash=False)
    y = t.linear(y.with_channels(width), hidden, bias=False, name="attention.out")
    return t.dropout(y)
