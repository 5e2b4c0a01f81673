"""State-space models: Mamba."""

from __future__ import annotations

import math

from .layers import S, Trace
from .ops import Ops


def mamba(width: int = 768, layers: int = 24, vocab: int = 50280, state: int = 16, kernel: int = 4,
          expand: int = 2) -> Ops:  # fmt: skip
    """Mamba language model (Gu & Dao, arXiv:2312.00752): gated selective scans, tied embeddings.

    Parameters
    ----------
    width, layers : int
        Features of the residual stream; number of blocks.
    vocab : int
        Vocabulary, padded to a multiple of 8.
    state, kernel, expand : int
        State of the scan for each feature; taps of the causal convolution; inner width over outer width.
    """
    t = Trace()
    inner, rank = expand * width, math.ceil(width / 16)
    x = t.embedding(S, vocab, width)
    with t.block("blocks", repeat=layers):
        y = t.norm(x, "rms")
        t.linear(y, 2 * inner, bias=False, name="in_proj")
        u, gate = y.with_channels(inner), y.with_channels(inner)
        u = t.act(t.conv(u, inner, kernel, padding="same", groups=inner, name="conv1d"), "silu")
        t.linear(u, rank + 2 * state, bias=False, name="x_proj")
        t.act(t.linear(u.with_channels(rank), inner, name="dt_proj"), "softplus")
        t.parameter(inner * state + inner, "a_and_d")
        u = t.multiply(t.scan(u, state), t.act(gate, "silu", "gate.silu"), name="gate")
        x = t.add(x, t.linear(u, width, bias=False, name="out_proj"), name="residual")
    x = t.norm(x, "rms", name="final_norm")
    t.loss(t.linear(x, vocab, bias=False, name="lm_head", shared=True))
    return t.ops()
