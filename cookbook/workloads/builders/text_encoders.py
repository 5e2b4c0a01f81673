"""Encoders of texts of newer design than BERT: rotary positions, gated MLPs, windows (Nomic Embed, ModernBERT,
EmbeddingGemma).
"""

from __future__ import annotations

from collections.abc import Sequence

from cookbook.workloads.layers import S, Shape, Trace, mlp, self_attention
from cookbook.workloads.ops import Ops


def encoder(
    vocab: int,
    width: int,
    depth: int,
    heads: int,
    hidden: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    types: int = 0,
    norm: str = "layer",
    norm_bias: bool = False,
    norms: int = 2,
    first_norm: bool = True,
    qk_norm: bool = False,
    act: str = "gelu",
    window: int | None = None,
    full: int = 0,
    embedding_norm: bool = True,
    final_norm: bool = False,
    dense: Sequence[int] = (),
) -> Ops:
    """Build a bidirectional encoder with rotary positions and gated MLPs, without biases.

    Parameters
    ----------
    vocab, width, depth, heads, hidden : int
        Rows of the embedding table, width, layers, heads, hidden units of the MLP.
    kv_heads, head_dim : int
        Key and value heads, and width of a head; by default `heads` and width / heads.
    types : int
        Rows of the segment table (0: none).
    norm, norm_bias, norms, first_norm : str, bool, int, bool
        Kind of norm, whether it has a bias, how many a layer has (2, or 4: before and after each branch), and whether
        the first layer has its first one (ModernBERT: it does not).
    qk_norm, act : bool, str
        Norm of each query and key head; activation.
    window, full : int
        Tokens of a window (None: all layers attend to all), and the layers without it, the first among them.
    embedding_norm, final_norm : bool
        Norm after the embedding; after the last layer.
    dense : sequence of int
        Features of the layers on the mean of all tokens.

    Returns
    -------
    Ops
        Symbolic in the sequence length.
    """
    t = Trace()
    x = t.embedding(S, vocab, width)
    if types:
        x = t.add(x, t.embedding(S, types, width, "segments"), name="embedding.add")
    if embedding_norm:
        x = t.norm(x, norm, bias=norm_bias, name="embedding.norm")
    full = depth if window is None else full
    block = {
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "qk_norm": qk_norm,
        "bias": False,
    }
    groups = [("first_layer", int(not first_norm), None), ("full_layer", full - (not first_norm), None)]
    for name, count, reach in (*groups, ("layer", depth - full, window)):
        if count:
            with t.block(name, repeat=count):
                y = x if name == "first_layer" else t.norm(x, norm, bias=norm_bias, name="norm1")
                y = self_attention(t, y, window=reach, **block)  # type: ignore[arg-type]
                y = t.norm(y, norm, bias=norm_bias, name="norm1.after") if norms == 4 else y
                x = t.add(x, y, name="residual1")
                y = mlp(t, t.norm(x, norm, bias=norm_bias, name="norm2"), hidden, True, act, bias=False)
                y = t.norm(y, norm, bias=norm_bias, name="norm2.after") if norms == 4 else y
                x = t.add(x, y, name="residual2")
    if final_norm:
        x = t.norm(x, norm, bias=norm_bias, name="final_norm")
    y = Shape(width)
    for at, features in enumerate(dense):
        y = t.linear(y, features, False, f"dense{at + 1}")
    return t.ops()
