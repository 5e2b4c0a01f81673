"""Our counts against two independent counters, and kept activations against autograd itself (extra ``counters``).

Known errors of the counters are asserted as facts, so that a release that mends one is noticed.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="the extra `counters` is not installed")
fvcore_nn = pytest.importorskip("fvcore.nn", reason="the extra `counters` is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from cookbook.workloads import layers as blocks  # noqa: E402
from cookbook.workloads.builders import resnets, sequence, transformers  # noqa: E402
from cookbook.workloads.layers import Trace  # noqa: E402

pytestmark = pytest.mark.counters
BATCH = 2
MATRIX_OPS = ("conv", "linear", "matmul", "addmm", "bmm", "einsum")


def torch_flop(module, *inputs):
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops()


def fvcore_counts(module, *inputs):
    analysis = fvcore_nn.FlopCountAnalysis(module, inputs)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    return analysis.by_operator(), analysis.unsupported_ops()


def fvcore_macs(module, *inputs):
    by_operator, _ = fvcore_counts(module, *inputs)
    return sum(count for op, count in by_operator.items() if op in MATRIX_OPS)


def kept_bytes(module, *inputs, without=()):
    """Bytes of distinct tensors that autograd keeps: weights, buffers and `without` aside."""
    own = [*module.parameters(), *module.buffers(), *without]
    skip = {tensor.untyped_storage().data_ptr() for tensor in own}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in skip:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(*inputs)
    return sum(storage.nbytes() for storage in kept.values())


def our_kept_bytes(ops, seq=None):
    return float(ops.total("saved", BATCH, seq)) * 4 + float(ops.total("mask_bytes", BATCH, seq))


def traced(layer, channels, *space):
    t = Trace()
    layer(t, t.image(channels, *space))
    return t.ops()


CONVOLUTIONS = {
    "plain": (nn.Conv2d(8, 16, 3, padding=1), (8, 12, 12), lambda t, x: t.conv(x, 16, 3, padding=1)),
    "strided": (nn.Conv2d(8, 16, 5, 2, 2, bias=False), (8, 13, 12), lambda t, x: t.conv(x, 16, 5, 2, 2, bias=False)),
    "grouped": (nn.Conv2d(8, 16, 3, groups=4), (8, 12, 12), lambda t, x: t.conv(x, 16, 3, groups=4)),
    "depthwise": (nn.Conv2d(8, 8, 3, groups=8), (8, 12, 12), lambda t, x: t.conv(x, 8, 3, groups=8)),
    "dilated": (nn.Conv2d(8, 16, 3, dilation=2), (8, 12, 12), lambda t, x: t.conv(x, 16, 3, dilation=2)),
    "rectangular": (nn.Conv2d(8, 16, (1, 7), 1, (0, 3)), (8, 9, 12), lambda t, x: t.conv(x, 16, (1, 7), 1, (0, 3))),
    "transposed": (nn.ConvTranspose2d(8, 16, 2, 2), (8, 6, 6), lambda t, x: t.conv(x, 16, 2, 2, transposed=True)),
    "one axis": (nn.Conv1d(8, 16, 5, 2, 2), (8, 20), lambda t, x: t.conv(x, 16, 5, 2, 2)),
    "three axes": (nn.Conv3d(4, 8, 3, padding=1), (4, 6, 5, 7), lambda t, x: t.conv(x, 8, 3, padding=1)),
    "linear": (nn.Linear(32, 24), (32,), lambda t, x: t.linear(x, 24)),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_matrix_layers_agree_with_both_counters_and_with_autograd(case):
    module, shape, layer = CONVOLUTIONS[case]
    ops, x = traced(layer, *shape), torch.randn(BATCH, *shape)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    assert ops.total("flop", BATCH) == torch_flop(module, x)
    assert ops.total("macs", BATCH) == fvcore_macs(module, x)
    assert our_kept_bytes(ops) == kept_bytes(module, x)


VECTOR_LAYERS = {
    **{
        name: (module, lambda t, x, n=name: t.act(x, n))
        for name, module in {
            "relu": nn.ReLU(),
            "sigmoid": nn.Sigmoid(),
            "tanh": nn.Tanh(),
            "gelu": nn.GELU(),
            "silu": nn.SiLU(),
            "hardswish": nn.Hardswish(),
            "elu": nn.ELU(),
        }.items()
    },
    "max pool": (nn.MaxPool2d(2), lambda t, x: t.pool(x, 2)),
    "global pool": (nn.AdaptiveAvgPool2d(1), lambda t, x: t.global_pool(x)),
    "softmax": (nn.Softmax(-1), lambda t, x: t.softmax(x)),
}


@pytest.mark.parametrize("case", VECTOR_LAYERS)
def test_vector_layers_keep_what_autograd_keeps(case):
    module, layer = VECTOR_LAYERS[case]
    x = torch.randn(BATCH, 8, 12, 12, requires_grad=True)
    assert our_kept_bytes(traced(layer, 8, 12, 12)) == kept_bytes(module, x)


def _norm_bytes(kind, module):
    t = Trace()
    t.norm(t.tokens(10, 32), kind)
    return our_kept_bytes(t.ops()), kept_bytes(module, torch.randn(BATCH, 10, 32, requires_grad=True))


def test_layer_norm_keeps_its_input_and_the_statistics_of_each_position():
    ours, kept = _norm_bytes("layer", nn.LayerNorm(32))
    assert ours == kept


def test_fact_rms_norm_on_a_cpu_is_not_fused_and_keeps_its_normalised_input_too():
    ours, kept = _norm_bytes("rms", nn.RMSNorm(32))
    assert kept - ours == 4 * BATCH * 10 * 32


def test_batch_norm_keeps_its_input_and_a_few_statistics_we_leave_out():
    t = Trace()
    t.norm(t.image(8, 12, 12), "batch")
    kept = kept_bytes(nn.BatchNorm2d(8), torch.randn(BATCH, 8, 12, 12, requires_grad=True))
    assert kept - our_kept_bytes(t.ops()) == 2 * 8 * 4


def test_fact_autograd_keeps_the_input_of_an_average_pool_though_it_needs_only_its_size():
    x = torch.randn(BATCH, 8, 12, 12, requires_grad=True)
    assert kept_bytes(nn.AvgPool2d(2), x) == x.nbytes
    assert our_kept_bytes(traced(lambda t, y: t.pool(y, 2, kind="average"), 8, 12, 12)) == 0


def test_fact_dropout_on_a_cpu_keeps_a_mask_of_four_bytes_not_one():
    x = torch.randn(BATCH, 8, 12, 12, requires_grad=True)
    assert kept_bytes(nn.Dropout(0.5), x) == 4 * our_kept_bytes(traced(lambda t, y: t.dropout(y), 8, 12, 12))


# ---- recurrent layers -----------------------------------------------------------------------------------------


def _recurrent(cell, **arguments):
    module = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell](16, 32, batch_first=True, **arguments)
    t = Trace()
    t.recurrent(
        t.tokens(7, 16),
        32,
        cell,
        arguments.get("num_layers", 1),
        arguments.get("bidirectional", False),
        arguments.get("proj_size"),
    )
    return module, t.ops(), torch.randn(BATCH, 7, 16)


RECURRENT = [
    ("gru", {}),
    ("gru", {"num_layers": 2, "bidirectional": True}),
    ("rnn", {}),
    ("rnn", {"bidirectional": True}),
    ("lstm", {"proj_size": 8}),
]


@pytest.mark.parametrize(("cell", "arguments"), RECURRENT)
def test_recurrent_layers_agree_with_torch(cell, arguments):
    module, ops, x = _recurrent(cell, **arguments)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    assert ops.total("flop", BATCH) == torch_flop(module, x)


@pytest.mark.parametrize("arguments", [{}, {"num_layers": 2}, {"bidirectional": True}])
def test_fact_torch_counts_nothing_for_the_fused_lstm_of_a_cpu(arguments):
    module, ops, x = _recurrent("lstm", **arguments)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    assert torch_flop(module, x) == 0
    assert ops.total("flop", BATCH) > 0


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_fact_fvcore_counts_nothing_for_recurrent_layers(cell):
    module, _, x = _recurrent(cell)
    assert fvcore_macs(module, x) == 0
    assert any(cell in op for op in fvcore_counts(module, x)[1])


def test_simple_recurrence_keeps_input_states_and_the_first_state():
    module, ops, x = _recurrent("rnn")
    assert kept_bytes(module, x) - our_kept_bytes(ops) == 4 * BATCH * 32


def test_lstm_of_single_cells_agrees_with_torch():
    cell, x = nn.LSTMCell(16, 32), torch.randn(BATCH, 7, 16)

    class Unrolled(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def forward(self, x):
            state = None
            for step in range(x.shape[1]):
                state = self.cell(x[:, step], state)
            return state

    _, ops, _ = _recurrent("lstm")
    assert ops.total("flop", BATCH) == torch_flop(Unrolled(), x)


# ---- attention ------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Projections and core; `fused` uses PyTorch's one call for the core."""

    def __init__(self, width, heads, kv_heads=None, bias=True, causal=False, fused=False):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads or heads, width // heads
        self.causal, self.fused = causal, fused
        self.q, self.out = nn.Linear(width, width, bias), nn.Linear(width, width, bias)
        self.k, self.v = (nn.Linear(width, self.kv_heads * self.d, bias) for _ in range(2))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (p(x).view(b, s, -1, self.d).transpose(1, 2) for p in (self.q, self.k, self.v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.kv_heads != self.heads)
        else:
            shared = self.heads // self.kv_heads
            k, v = (z.repeat_interleave(shared, 1) if shared > 1 else z for z in (k, v))
            y = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


def _attention(heads=4, kv_heads=None, causal=False, fused=False):
    t = Trace()
    blocks.self_attention(t, t.tokens(10, 32), heads, kv_heads, causal=causal, flash=fused)
    return Attention(32, heads, kv_heads, True, causal, fused), t.ops(), torch.randn(BATCH, 10, 32)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_attention_agrees_with_both_counters(kv_heads):
    module, ops, x = _attention(kv_heads=kv_heads)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    assert ops.total("flop", BATCH) == torch_flop(module, x)
    assert ops.total("macs", BATCH) == fvcore_macs(module, x)


def test_attention_keeps_what_autograd_keeps():
    for fused in (False, True):
        module, ops, x = _attention(fused=fused)
        assert our_kept_bytes(ops) == kept_bytes(module, x), fused


def test_fact_both_counters_miss_fused_attention_on_a_cpu():
    module, ops, x = _attention(fused=True)
    core = float(ops.by("kind", "macs", BATCH)["attention"])
    assert ops.total("flop", BATCH) - torch_flop(module, x) == 2 * core
    assert ops.total("macs", BATCH) - fvcore_macs(module, x) == core
    assert "aten::scaled_dot_product_attention" in fvcore_counts(module, x)[1]


def test_fact_torch_counts_the_masked_half_of_causal_attention():
    ops = _attention(causal=True, fused=True)[1]
    full = _attention(fused=True)[1]
    with torch.device("meta"):
        flop = torch_flop(Attention(32, 4, causal=True, fused=True), torch.empty(BATCH, 10, 32))
    assert flop == full.total("flop", BATCH)
    pairs = full.by("kind", "flop", BATCH)["attention"], ops.by("kind", "flop", BATCH)["attention"]
    assert float(pairs[1] / pairs[0]) == 55 / 100


# ---- whole networks -------------------------------------------------------------------------------------------


class Basic(nn.Module):
    def __init__(self, inputs, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        same = stride == 1 and inputs == out
        project = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Identity() if same else project

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


def resnet18(classes=1000):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage in range(4):
        out = 64 * 2**stage
        layers += [Basic(width, out, 1 + (stage > 0)), Basic(out, out, 1)]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def test_resnet18_agrees_with_both_counters_and_autograd():
    module, ops, x = resnet18(), resnets.resnet(18, image=64), torch.randn(BATCH, 3, 64, 64)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    assert ops.total("flop", BATCH) == torch_flop(module, x)
    assert ops.total("macs", BATCH) == fvcore_macs(module, x)
    channels = sum(m.num_features for m in module.modules() if isinstance(m, nn.BatchNorm2d))
    loss = 4 * BATCH * 1000
    assert our_kept_bytes(ops) - loss == kept_bytes(module, x) - 2 * 4 * channels


def test_fact_fvcore_calls_mac_flop_and_adds_elementwise_work():
    module, x = resnet18(), torch.randn(BATCH, 3, 64, 64)
    by_operator, unsupported = fvcore_counts(module, x)
    assert 2 * fvcore_macs(module, x) == torch_flop(module, x)
    assert by_operator["batch_norm"] > 0
    assert "aten::add" in unsupported or "aten::max_pool2d" in unsupported


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads, bias=False, causal=True, fused=True)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama(vocab=96, width=64, depth=2, heads=4, kv_heads=2, hidden=128):
    layers = [LlamaBlock(width, heads, kv_heads, hidden) for _ in range(depth)]
    return nn.Sequential(nn.Embedding(vocab, width), *layers, nn.RMSNorm(width), nn.Linear(width, vocab, bias=False))


def test_llama_agrees_with_torch_but_for_the_attention_core():
    module, ops = llama(), transformers.decoder(96, 64, 2, 4, 128, kv_heads=2)
    x = torch.zeros(BATCH, 20, dtype=torch.long)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters())
    core = float(ops.by("kind", "flop", BATCH, 20)["attention"])
    assert ops.total("flop", BATCH, 20) - core == torch_flop(module, x)


def test_llama_keeps_what_autograd_keeps():
    module, ops = llama(), transformers.decoder(96, 64, 2, 4, 128, kv_heads=2)
    logits = 4 * BATCH * 20 * 96
    unfused_norms = 5 * 4 * BATCH * 20 * 64
    kept = kept_bytes(module, torch.zeros(BATCH, 20, dtype=torch.long))
    assert our_kept_bytes(ops, 20) - logits == kept - unfused_norms


def test_acoustic_model_agrees_with_both_counters_and_autograd():
    widths = [540, *[2048] * 5]
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    module, ops, x = nn.Sequential(*layers, nn.Linear(2048, 8192)), sequence.dense_stack(), torch.randn(BATCH, 540)
    assert ops.parameter_count == sum(p.numel() for p in module.parameters()) == 34_678_784
    assert ops.total("flop", BATCH) == torch_flop(module, x)
    assert ops.total("macs", BATCH) == fvcore_macs(module, x)
    assert our_kept_bytes(ops) - 4 * BATCH * 8192 == kept_bytes(module, x)
