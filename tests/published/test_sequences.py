"""Recurrent layers, speech, recommenders, diffusion and state-space networks: counts worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cookbook.workloads.builders import diffusion, sequence, speech
from cookbook.workloads.layers import S, Shape, Trace

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _recurrent(**arguments):
    t = Trace()
    y = t.recurrent(t.tokens(S, 48), 64, **arguments)
    return t.ops(), y


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("biases", [0, 1, 2])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_parameters_and_macs(cell, biases, directions):
    ops, y = _recurrent(cell=cell, biases=biases, bidirectional=directions == 2)
    weights = directions * GATES[cell] * 64 * (48 + 64)
    assert ops.parameter_count == weights + directions * GATES[cell] * 64 * biases
    assert ops.total("macs", batch=3, seq=10) == 3 * 10 * weights
    assert y.channels == 64 * directions


def test_stacked_bidirectional_layers_read_both_directions():
    ops, _ = _recurrent(layers=2, bidirectional=True)
    first, second = 2 * 4 * 64 * (48 + 64 + 2), 2 * 4 * 64 * (128 + 64 + 2)
    assert list(ops.parameters) == [first, second]


def test_lstm_with_projection_feeds_back_the_projected_state():
    ops, y = _recurrent(projection=16)
    assert ops.parameter_count == 4 * 64 * (48 + 16) + 16 * 64 + 2 * 4 * 64
    assert y.channels == 16


@pytest.mark.parametrize(("seq", "layers"), [(1, 1), (27, 3)])
def test_recurrence_takes_one_step_a_position_whatever_the_batch(seq, layers):
    ops, _ = _recurrent(layers=layers, bidirectional=True)
    assert ops.column("steps", batch=[1, 64], seq=seq).tolist() == [[seq, seq]] * layers


def test_deep_speech_2_halves_time_before_its_recurrence():
    ops = speech.deep_speech2_paper()
    steps = ops.column("steps", 1, 1000)[ops.kind == "recurrent"]
    assert set(steps) == {500}


def test_shared_input_weights_leave_the_recurrence_only_its_own():
    ops = speech.deep_speech2_paper(hidden=100, layers=1)
    assert ops.parameters[ops.kind == "recurrent"].tolist() == [2 * 100 * 100]


def test_embedding_computes_no_macs_and_moves_only_its_rows():
    t = Trace()
    t.embedding(S, 50_000, 128)
    ops = t.ops()
    assert ops.parameter_count == 50_000 * 128
    assert ops.total("macs", 4, 7) == 0
    assert ops.total("reads", 4, 7) == 4 * 7 * 128


def test_acoustic_model_of_the_founding_table():
    ops = sequence.dense_stack()
    macs = 540 * 2048 + 4 * 2048 * 2048 + 2048 * 8192
    assert ops.total("macs") == macs
    assert ops.parameter_count == macs + 5 * 2048 + 8192 == 34_678_784


def test_gnmt_parameters_by_hand():
    h, vocab = 1024, 32320
    lstm = {k: 4 * h * (k * h + h + 2) for k in (1, 2)}
    encoder = 2 * lstm[1] + lstm[2] + 2 * lstm[1]
    decoder = lstm[1] + 3 * lstm[2]
    attention = 2 * h * h + 2 * h + 1
    assert sequence.gnmt().parameter_count == vocab * h + encoder + decoder + attention + vocab * (h + 1) == 160_671_297


def test_translation_attends_causally_in_the_decoder_and_fully_across():
    ops = sequence.transformer(vocab=100, width=64, hidden=128, heads=4, layers=1)
    cores = ops.column("macs", 1, 10)[ops.kind == "attention"]
    assert cores.tolist() == [2 * 100 * 64, 2 * 55 * 64, 2 * 100 * 64]


def test_transformer_xl_attends_to_memory_and_twice_scores_it():
    ops = sequence.transformer_xl(
        width=32, heads=2, head_dim=16, hidden=64, layers=1, tokens=6, memory=4, vocab=500, cutoffs=(50, 100)
    )
    macs = {str(k): float(v) for k, v in zip(ops.name, ops.column("macs"), strict=True)}
    assert macs["attention"] == 2 * 6 * 10 * 32
    assert macs["relative_scores"] == 6 * 10 * 32
    assert macs["qkv"] == 10 * 32 * 3 * 32
    assert macs["softmax.head"] == 6 * 32 * 52


@pytest.mark.parametrize("frames", [100, 1300])
def test_speech_convolutions_shorten_time_by_their_strides(frames):
    ops = speech.jasper()
    first = ops.column("macs", 1, frames)[ops.name == "conv1"]
    assert first == frames / 2 * 64 * 256 * 11
    assert ops.total("macs", 1, 2 * frames) == pytest.approx(2 * ops.total("macs", 1, frames))


def test_jasper_adds_every_earlier_block():
    ops = speech.jasper()
    paths = [n for n in ops.name if ".from" in n and not n.endswith(".norm")]
    assert len(paths) == sum(range(1, 11))


def test_quartznet_separable_convolutions():
    ops = speech.quartznet()
    depthwise = ops.kind == "conv1d"
    names = {n: p for n, p in zip(ops.name[depthwise], ops.parameters[depthwise], strict=True)}
    assert names["block0.0.depthwise"] == 256 * 33
    assert names["block0.0.pointwise"] == 256 * 256


def test_wav2vec2_turns_20_ms_of_samples_into_one_position():
    ops = speech.wav2vec2()
    first = ops.column("macs", 1, 50)[ops.name == "features0"]
    assert first == 50 * 320 / 5 * 512 * 10
    assert ops.column("macs", 1, 50)[ops.name == "projection"] == 50 * 512 * 768


def test_whisper_encoder_does_not_grow_with_the_text():
    ops = speech.whisper()
    encoder = ops.block == "encoder"
    work = ops.column("macs", 1, [1, 448])[encoder]
    assert np.array_equal(work[:, 0], work[:, 1])
    cross = ops.column("macs", 1, [1, 448])[ops.name == "cross.core"]
    assert cross.ravel().tolist() == [4 * 2 * 1500 * 384 * tokens for tokens in (1, 448)]


def test_joint_network_of_a_transducer_covers_all_pairs():
    ops = speech.rnn_t(characters=9)
    out = ops.column("macs", 1, 40)[ops.name == "joint.out"]
    assert out == 20 * 10 * 512 * 1024


def test_dlrm_tables_and_interaction():
    ops = sequence.dlrm(tables=(10, 20, 30), width=8, bottom=(16, 8), top=(4,))
    vectors = 4
    assert ops.column("macs")[ops.name == "interaction"] == vectors * vectors * 8
    assert ops.parameters[ops.name == "top0"] == 4 * (8 + vectors * (vectors - 1) / 2 + 1)
    assert ops.parameters[ops.kind == "embedding"].sum() == 60 * 8


def test_dlrm_criteo_reads_26_rows_of_24_billion_numbers():
    ops = sequence.dlrm()
    assert ops.parameters[ops.kind == "embedding"].sum() == sum(sequence.CRITEO_40M) * 128 == 24_034_227_072
    assert ops.by("kind", "reads")["embedding"] == 26 * 128


def test_ncf_by_hand():
    tables = (138_493 + 26_744) * (64 + 128)
    dense = 256 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + (64 + 64) + 1
    assert sequence.ncf().parameter_count == tables + dense == 31_832_577


def test_cross_attention_of_the_diffusion_unet_reads_the_prompt():
    ops = diffusion.stable_diffusion_unet()
    cross = (ops.name == "cross.core") & (ops.m[:, 0, 0] == 64 * 64)
    assert set(ops.column("macs")[cross]) == {2 * 64 * 64 * 77 * 320}
    assert set(ops.parameters[(ops.name == "cross.k") & (ops.block == "down0.0.attention")]) == {768 * 320}


def test_unet_attends_at_the_levels_it_says():
    ops = diffusion.stable_diffusion_unet(
        image=1024,
        multipliers=(1, 2, 4),
        depths=(0, 2, 10),
        middle_depth=10,
        context=2048,
        heads=None,
        linear=True,
        pooled=2816,
    )
    blocks = {b: ops.count[ops.block == b].max() for b in ops.block if b}
    assert len(blocks) == 2 + 2 + 1 + 3 + 3
    assert sorted(set(blocks.values())) == [2, 10]
    assert ops.column("count")[ops.name == "self.core"].sum() == 2 * 2 + 2 * 10 + 10 + 3 * 10 + 3 * 2


def test_dit_work_per_block_by_hand():
    ops = diffusion.dit(depth=1, width=384, heads=6)
    block = ops.column("macs")[ops.block == "blocks"].sum()
    assert block == 256 * 12 * 384**2 + 2 * 256**2 * 384 + 6 * 384**2


@pytest.mark.parametrize(("size", "gflops"), [((12, 384, 6), 6.06), ((12, 768, 12), 23.01), ((28, 1152, 16), 118.64)])
def test_dit_gflops_of_the_paper_are_multiply_accumulates(size, gflops):
    assert float(diffusion.dit(*size).total("macs")) / 1e9 == pytest.approx(gflops, rel=2e-3)


def test_mamba_block_by_hand():
    d, inner, rank, state = 768, 1536, 48, 16
    projections = 2 * d * inner + inner * (rank + 2 * state) + rank * inner + inner + inner * d
    block = projections + inner * (4 + 1) + inner * (state + 1) + d
    assert sequence.mamba(layers=3).parameter_count == 50280 * d + 3 * block + d


def test_scan_is_elementwise_work_linear_in_the_sequence():
    t = Trace()
    t.scan(t.tokens(S, 128), 16)
    ops = t.ops()
    assert ops.total("macs", 1, 100) == 0
    assert ops.total("vector_flop", 2, 200) == 4 * ops.total("vector_flop", 1, 100)


def test_conv_over_a_symbolic_axis_keeps_the_other_axis():
    t = Trace()
    y = t.conv(Shape(1, (S, 161)), 32, (11, 41), (3, 2), (5, 20))
    assert y.space[1] == 81
    assert t.ops().total("macs", 1, 300) == 100 * 81 * 32 * 11 * 41
