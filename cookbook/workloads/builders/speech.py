"""Networks for speech: recognition (Deep Speech 2, Jasper, QuartzNet, wav2vec 2.0, Conformer, RNN-T, Whisper) and
synthesis (Tacotron 2, WaveGlow, FastPitch). The sequence length s counts frames; each builder states the length of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cookbook.workloads.layers import S, Shape, Size, Trace, mlp, self_attention, transformer_block
from cookbook.workloads.ops import Ops

# ---- recognition with recurrent layers ------------------------------------------------------------------------


def deep_speech2(
    frames: int = 200, cell: str = "rnn", hidden: int = 2048, layers: int = 3, classes: int = 842, time_stride: int = 3
) -> Ops:
    """Build Deep Speech 2 as in HPE's benchmarking suite: two 2-D convolutions, bidirectional layers, both directions
    kept.

    Frames are 10 ms with 161 frequencies.
    """
    t = Trace()
    x = t.image(1, frames, 161)
    for i, (kernel, stride, padding) in enumerate((((11, 41), (time_stride, 2), (5, 20)), ((11, 21), (1, 2), (5, 10)))):
        x = t.conv(x, 32, kernel, stride, padding, bias=False, name=f"conv{i}")
        x = t.act(t.norm(x, "batch", name=f"conv{i}.norm"), "relu")
    length, bands = x.space
    x = t.recurrent(t.reshape(x, 32 * int(bands), length), hidden, cell, layers, bidirectional=True)  # type: ignore[arg-type]
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


def deep_speech2_paper(hidden: int = 1280, layers: int = 7, classes: int = 29, frames: Size = S) -> Ops:
    """Build Deep Speech 2 (Amodei et al., arXiv:1512.02595): a 1-D convolution, summed bidirectional simple
    recurrences.

    Both directions of a layer share their input weights (section 3.2 there); one fully connected layer follows.
    """
    t = Trace()
    x = t.conv(t.tokens(frames, 161), hidden, 11, 2, "same", bias=False, name="conv")
    x = t.act(t.norm(x, "batch", name="conv.norm"), "relu6")
    for layer in range(layers):
        x = t.norm(t.linear(x, hidden, bias=False, name=f"rnn{layer}.input"), "batch", name=f"rnn{layer}.norm")
        both = t.recurrent(x.with_channels(0), hidden, "rnn", bidirectional=True, biases=0, name=f"rnn{layer}")
        x = t.add(both.with_channels(hidden), both.with_channels(hidden), name=f"rnn{layer}.sum")
    x = t.act(t.norm(t.linear(x, hidden, bias=False, name="fc"), "batch", name="fc.norm"), "relu6")
    t.loss(t.linear(x, classes, name="classifier"))
    return t.ops()


def rnn_t(
    characters: int = 100,
    vocab: int = 1024,
    features: int = 240,
    encoder: int = 1024,
    predictor: int = 512,
    joint: int = 512,
) -> Ops:
    """Build the RNN transducer of MLPerf: 5 encoder LSTMs (time halved after the second), 2 predictor LSTMs, joint
    network.

    Frames are three spliced 10 ms frames of 80 bands; `characters` is the length of the transcript in tokens.
    """
    t = Trace()
    x = t.recurrent(t.tokens(S, features), encoder, layers=2, name="encoder.pre")
    x = t.recurrent(t.tokens(S * 0.5, 2 * encoder), encoder, layers=3, name="encoder.post")
    y = t.recurrent(t.embedding(characters + 1, vocab - 1, predictor), predictor, layers=2, name="predictor")
    t.linear(x, joint, name="joint.encoder")
    t.linear(y, joint, name="joint.predictor")
    z = t.act(Shape(joint, (S * 0.5, characters + 1)), "relu")
    t.loss(t.linear(z, vocab, name="joint.out"))
    return t.ops()


# ---- recognition with convolutions ----------------------------------------------------------------------------

# Channels, kernel and dropout of each block.
_JASPER = ((256, 11, 0.2), (384, 13, 0.2), (512, 17, 0.2), (640, 21, 0.3), (768, 25, 0.3))
JASPER_BLOCKS = [block for block in _JASPER for _ in range(2)]
QUARTZNET_BLOCKS = [(c, k, 0.0) for c, k in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)) for _ in range(3)]


def _conv_norm(
    t: Trace, x: Shape, out: int, kernel: int, separable: bool, name: str, stride: int = 1, dilation: int = 1
) -> Shape:
    if separable:
        width = int(x.channels)
        x = t.conv(x, width, kernel, stride, "same", width, dilation, bias=False, name=f"{name}.depthwise")
        x = t.conv(x, out, 1, bias=False, name=f"{name}.pointwise")
    else:
        x = t.conv(x, out, kernel, stride, "same", 1, dilation, bias=False, name=name)
    return t.norm(x, "batch", name=f"{name}.norm")


def _activate(t: Trace, x: Shape, dropout: float) -> Shape:
    x = t.act(x, "relu")
    return t.dropout(x) if dropout else x


def _residual_block(
    t: Trace,
    x: Shape,
    sources: Sequence[Shape],
    out: int,
    kernel: int,
    dropout: float,
    separable: bool,
    repeats: int,
    name: str,
) -> Shape:
    """Write `repeats` convolutions; 1 x 1 convolutions of all `sources` are added before the last activation."""
    for i in range(repeats - 1):
        x = _activate(t, _conv_norm(t, x, out, kernel, separable, f"{name}.{i}"), dropout)
    x = _conv_norm(t, x, out, kernel, separable, f"{name}.{repeats - 1}")
    paths = [_conv_norm(t, source, out, 1, False, f"{name}.from{i}") for i, source in enumerate(sources)]
    return _activate(t, t.add(x, *paths, name=f"{name}.residual"), dropout)


def jasper(repeats: int = 5, bands: int = 64, classes: int = 29) -> Ops:
    """Build Jasper DR 10x5 (Li et al., arXiv:1904.03288): every block also takes the inputs of all blocks before it.

    Frames are 10 ms.
    """
    t = Trace()
    x = _activate(t, _conv_norm(t, t.tokens(S, bands), 256, 11, False, "conv1", stride=2), 0.2)
    sources = []
    for i, (out, kernel, dropout) in enumerate(JASPER_BLOCKS):
        sources.append(x)
        x = _residual_block(t, x, sources, out, kernel, dropout, False, repeats, f"block{i}")
    x = _activate(t, _conv_norm(t, x, 896, 29, False, "conv2", dilation=2), 0.4)
    x = _activate(t, _conv_norm(t, x, 1024, 1, False, "conv3"), 0.4)
    t.loss(t.conv(x, classes, 1, name="decoder"))
    return t.ops()


def quartznet(repeats: int = 5, bands: int = 64, classes: int = 29) -> Ops:
    """Build QuartzNet 15x5 (Kriman et al., arXiv:1910.10261): Jasper of separable convolutions. Frames are 10 ms."""
    t = Trace()
    x = _activate(t, _conv_norm(t, t.tokens(S, bands), 256, 33, True, "conv1", stride=2), 0)
    for i, (out, kernel, dropout) in enumerate(QUARTZNET_BLOCKS):
        x = _residual_block(t, x, [x], out, kernel, dropout, True, repeats, f"block{i}")
    x = _activate(t, _conv_norm(t, x, 512, 87, True, "conv2", dilation=2), 0)
    x = _activate(t, _conv_norm(t, x, 1024, 1, False, "conv3"), 0)
    t.loss(t.conv(x, classes, 1, name="decoder"))
    return t.ops()


# ---- recognition with attention -------------------------------------------------------------------------------


def wav2vec2(
    width: int = 768,
    layers: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    code_width: int = 256,
    codes: int = 320,
    groups: int = 2,
    pretraining: bool = True,
) -> Ops:
    """Build wav2vec 2.0 (Baevski et al., arXiv:2006.11477): convolutions on the wave form at 16 kHz, then a
    transformer.

    Frames are 20 ms (320 samples). With the quantiser and projections of pre-training, which the published counts
    include, unless `pretraining` is false.
    """
    t = Trace()
    x = t.tokens(S * 320, 1)
    for i, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        x = t.conv(x, 512, kernel, stride, bias=False, name=f"features{i}")
        x = t.act(t.norm(x, "group", name="features0.norm") if i == 0 else x, "gelu")
    features = t.norm(x, "layer", name="features.norm")
    t.parameter(width, "mask_embedding")
    x = t.dropout(t.linear(features, width, name="projection"))
    positions = t.act(t.conv(x, width, 128, 1, "same", 16, name="positions"), "gelu")
    t.parameter(128, "positions.weight_norm")
    x = t.norm(t.add(x, positions), "layer", name="encoder.norm")
    with t.block("encoder", repeat=layers):
        x = transformer_block(t, x, heads, hidden, dropout=True)
    if pretraining:
        t.linear(features, codes * groups, name="quantiser.scores")
        t.parameter(codes * code_width, "quantiser.codes")
        t.linear(t.tokens(S, code_width), code_width, name="quantiser.projection")
        t.linear(x, code_width, name="context.projection")
    return t.ops()


def conformer(
    width: int = 144,
    layers: int = 16,
    heads: int = 4,
    kernel: int = 32,
    predictor: int = 320,
    vocab: int = 1024,
    characters: int = 50,
) -> Ops:
    """Build a Conformer transducer (Gulati et al., arXiv:2005.08100); frames are 10 ms, reduced fourfold.

    The paper leaves the joint network and the predictor's embedding open: as wide as the predictor here.
    """
    t = Trace()
    x = t.act(t.conv(Shape(1, (S, 80)), width, 3, 2, name="subsample0"), "relu")
    x = t.act(t.conv(x, width, 3, 2, name="subsample1"), "relu")
    length, bands = x.space
    x = t.linear(t.reshape(x, width * int(bands), length), width, name="subsample.out")  # type: ignore[arg-type]
    with t.block("encoder", repeat=layers):
        x = _conformer_block(t, x, heads, kernel)
    y = t.recurrent(t.embedding(characters + 1, vocab, predictor), predictor, name="predictor")
    t.linear(x, predictor, name="joint.encoder")
    t.linear(y, predictor, name="joint.predictor")
    z = t.act(Shape(predictor, (length, characters + 1)), "tanh")
    t.loss(t.linear(z, vocab, name="joint.out"))
    return t.ops()


def _conformer_block(t: Trace, x: Shape, heads: int, kernel: int) -> Shape:
    width = int(x.channels)
    y = t.dropout(mlp(t, t.norm(x, "layer", name="norm_mlp1"), 4 * width, act="swish", name="mlp1"))
    x = t.add(x, y, name="residual_mlp1")
    y = self_attention(t, t.norm(x, "layer", name="norm_attention"), heads, flash=False)
    t.parameter(width * width + 2 * width, "relative")
    x = t.add(x, t.dropout(y), name="residual_attention")
    y = t.conv(t.norm(x, "layer", name="norm_conv"), 2 * width, 1, name="pointwise1")
    y = t.multiply(y.with_channels(width), y.with_channels(width), name="glu")
    y = t.conv(y, width, kernel, 1, "same", width, name="depthwise")
    y = t.conv(t.act(t.norm(y, "batch", name="norm_depthwise"), "swish"), width, 1, name="pointwise2")
    x = t.add(x, t.dropout(y), name="residual_conv")
    y = t.dropout(mlp(t, t.norm(x, "layer", name="norm_mlp2"), 4 * width, act="swish", name="mlp2"))
    return t.norm(t.add(x, y, name="residual_mlp2"), "layer", name="norm_out")


def whisper(
    width: int = 384,
    layers: int = 4,
    heads: int = 6,
    decoder_layers: int | None = None,
    bands: int = 80,
    vocab: int = 51865,
    frames: int = 3000,
) -> Ops:
    """Build Whisper (Radford et al., arXiv:2212.04356): 30 s of speech in 10 ms frames; s counts tokens of text (to
    448).
    """
    t = Trace()
    x = t.act(t.conv(t.tokens(frames, bands), width, 3, 1, 1, name="conv1"), "gelu")
    x = t.act(t.conv(x, width, 3, 2, 1, name="conv2"), "gelu")
    with t.block("encoder", repeat=layers):
        x = _whisper_mlp(t, _whisper_attention(t, x, heads, None, "self"))
    x = t.norm(x, "layer", name="encoder.norm")
    y = t.embedding(S, vocab, width)
    t.parameter(448 * width, "positions")
    with t.block("decoder", repeat=decoder_layers or layers):
        y = _whisper_attention(t, y, heads, None, "self", causal=True)
        y = _whisper_mlp(t, _whisper_attention(t, y, heads, x, "cross"))
    y = t.norm(y, "layer", name="decoder.norm")
    t.loss(t.linear(y, vocab, bias=False, name="head", shared=True))
    return t.ops()


def _whisper_attention(t: Trace, x: Shape, heads: int, memory: Shape | None, name: str, causal: bool = False) -> Shape:
    """Write pre-norm attention; keys have no bias."""
    width = int(x.channels)
    y = t.norm(x, "layer", name=f"{name}.norm")
    source = memory or y
    q = t.linear(y, width, name=f"{name}.q")
    t.linear(source, width, bias=False, name=f"{name}.k")
    t.linear(source, width, name=f"{name}.v")
    y = t.linear(t.attention(q, heads, causal=causal, memory=memory, name=f"{name}.core"), width, name=f"{name}.out")
    return t.add(x, y, name=f"{name}.residual")


def _whisper_mlp(t: Trace, x: Shape) -> Shape:
    return t.add(x, mlp(t, t.norm(x, "layer", name="mlp.norm"), 4 * int(x.channels)), name="mlp.residual")


# ---- synthesis ------------------------------------------------------------------------------------------------


def tacotron2(characters: int = 100, symbols: int = 148, bands: int = 80) -> Ops:
    """Build Tacotron 2 as NVIDIA trains it (Shen et al., arXiv:1712.05884): text to mel frames, one decoder step per
    frame.
    """
    t = Trace()
    x = t.embedding(characters, symbols, 512)
    for i in range(3):
        x = t.norm(t.conv(x, 512, 5, 1, 2, name=f"encoder.conv{i}"), "batch", name=f"encoder.norm{i}")
        x = t.dropout(t.act(x, "relu"))
    memory = t.recurrent(x, 256, bidirectional=True, name="encoder.lstm")
    y = t.tokens(S, bands)
    for i in range(2):
        y = t.dropout(t.act(t.linear(y, 256, bias=False, name=f"prenet{i}"), "relu"))
    query = t.recurrent(t.tokens(S, 256 + 512), 1024, name="decoder.attention_lstm")
    context = _location_attention(t, query, memory, characters)
    z = t.recurrent(t.concat([query, context]), 1024, name="decoder.lstm")
    z = t.concat([z, context])
    mel = t.linear(z, bands, name="decoder.mel")
    t.linear(z, 1, name="decoder.gate")
    for i, out in enumerate((512, 512, 512, 512, bands)):
        mel = t.norm(t.conv(mel, out, 5, 1, 2, name=f"postnet.conv{i}"), "batch", name=f"postnet.norm{i}")
        mel = t.dropout(t.act(mel, "tanh") if i < 4 else mel)
    return t.ops()


def _location_attention(t: Trace, query: Shape, memory: Shape, characters: int) -> Shape:
    """Write location-sensitive attention: at every step, a convolution over the weights of the previous steps."""
    t.linear(query, 128, bias=False, name="attention.query")
    t.linear(memory, 128, bias=False, name="attention.memory")
    weights = t.conv(Shape(2, (S, characters)), 32, (1, 31), 1, (0, 15), bias=False, name="attention.location")
    energies = t.act(t.linear(weights, 128, bias=False, name="attention.location_dense"), "tanh")
    t.softmax(t.linear(energies, 1, bias=False, name="attention.energies"))
    macs = np.array([0.0, characters * memory.channels, 0.0])
    return t.matmul(Shape(1, (S, characters)), memory, query.with_channels(memory.channels), macs, "attention.context")


def waveglow(bands: int = 80, flows: int = 12, group: int = 8, channels: int = 512, layers: int = 8) -> Ops:
    """Build WaveGlow (Prenger, Valle & Catanzaro, arXiv:1811.00002): frames to a wave form, `group` samples at a time.

    A frame is 256 samples.
    """
    t = Trace()
    t.conv(t.tokens(S, bands), bands, 1024, 256, "same", transposed=True, name="upsample")
    steps = S * (256 / group)
    condition = t.tokens(steps, bands * group)
    for flow in range(flows):
        width = group - 2 * (flow // 4)
        t.conv(t.tokens(steps, width), width, 1, bias=False, name=f"flow{flow}.mix")
        x = t.conv(t.tokens(steps, width // 2), channels, 1, name=f"flow{flow}.start")
        for layer in range(layers):
            x = _gated_layer(t, x, condition, 2 if layer < layers - 1 else 1, 2**layer, f"flow{flow}.{layer}")
        t.conv(x, width, 1, name=f"flow{flow}.end")
        t.parameter(channels * (1 + 2 * 2 * layers + 2 * layers - 1), f"flow{flow}.weight_norm")
    return t.ops()


def _gated_layer(t: Trace, x: Shape, condition: Shape, parts: int, dilation: int, name: str) -> Shape:
    channels = int(x.channels)
    gates = t.conv(x, 2 * channels, 3, 1, "same", 1, dilation, name=f"{name}.in")
    gates = t.add(gates, t.conv(condition, 2 * channels, 1, name=f"{name}.condition"), name=f"{name}.add")
    left, right = gates.with_channels(channels), gates.with_channels(channels)
    y = t.multiply(t.act(left, "tanh"), t.act(right, "sigmoid"), name=f"{name}.gate")
    y = t.conv(y, parts * channels, 1, name=f"{name}.out")
    return t.add(x, y.with_channels(channels), name=f"{name}.residual")


def fastpitch(
    width: int = 384,
    hidden: int = 1536,
    layers: int = 6,
    head_dim: int = 64,
    characters: float = 0.17,
    symbols: int = 148,
    bands: int = 80,
    predictor: int = 256,
) -> Ops:
    """Build FastPitch in NVIDIA's configuration; the alignment that newer versions learn besides is left out.

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
    """Write layers of attention with one head and two convolutions of width 3, norms after each part."""
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
