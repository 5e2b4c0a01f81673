"""Speech synthesis in parallel: FastPitch (Lancucki, arXiv:2006.06873). The sequence length s counts mel frames."""

from __future__ import annotations

from .layers import S, Trace
from .ops import Ops
from .shapes import Shape


def fastpitch(width: int = 384, hidden: int = 1536, layers: int = 6, head_dim: int = 64, characters: float = 0.17,
              symbols: int = 148, bands: int = 80, predictor: int = 256) -> Ops:  # fmt: skip
    """FastPitch in NVIDIA's configuration; the alignment that newer versions learn besides is left out.

    `characters` is the length of the text for each frame.
    """
    t = Trace()
    x = t.embedding(S * characters, symbols, width, name="symbols")
    x = _stack(t, x, "encoder", layers, hidden, head_dim)
    for name in ("duration", "pitch"):
        _predictor(t, x, predictor, name)
    pitch = t.conv(x.with_channels(1), width, 3, padding=1, name="pitch.embedding")
    x = t.add(x, pitch, name="pitch.add")
    y = t.sample(x, t.tokens(S, width), "stretch")
    y = _stack(t, y, "decoder", layers, hidden, head_dim)
    t.linear(y, bands, name="mel")
    return t.ops()


def _stack(t: Trace, x: Shape, name: str, layers: int, hidden: int, head_dim: int) -> Shape:
    """Layers of attention with one head and two convolutions of width 3, norms after each part."""
    width = int(x.channels)
    with t.block(name, repeat=layers):
        qkv = t.linear(x, 3 * head_dim, name="qkv")
        y = t.attention(qkv.with_channels(head_dim), 1, flash=False, dropout=True)
        y = t.dropout(t.linear(y, width, bias=False, name="out"))
        x = t.norm(t.add(x, y, name="residual1"), "layer", name="norm1")
        y = t.act(t.conv(x, hidden, 3, padding=1, name="conv1"), "relu")
        y = t.dropout(t.conv(y, width, 3, padding=1, name="conv2"))
        x = t.norm(t.add(x, y, name="residual2"), "layer", name="norm2")
    return x


def _predictor(t: Trace, x: Shape, width: int, name: str) -> None:
    for number in (1, 2):
        x = t.norm(t.act(t.conv(x, width, 3, padding=1, name=f"{name}.conv{number}"), "relu"), "layer")
        x = t.dropout(x)
    t.linear(x, 1, name=f"{name}.out")
