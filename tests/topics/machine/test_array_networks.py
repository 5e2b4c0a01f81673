"""Networks in NumPy: weights counted as the zoo does, gradients beside differences, decoding beside the whole."""

import math

import numpy as np
import pytest

import cookbook as cb
from cookbook.topics.machine import array_layers as layers
from cookbook.topics.machine import array_networks as networks
from cookbook.topics.machine.array_layers import Maker, Parameter

DECODER = {
    "vocab": 11,
    "width": 12,
    "depth": 2,
    "heads": 3,
    "hidden": 20,
    "positions": 9,
    "norm": "layer",
    "gated": False,
    "act": "gelu",
    "bias": True,
    "tied": True,
}
BLOCK = {"width": 12, "heads": 3, "hidden": 20}
ENCODER = {"vocab": 11, "width": 12, "depth": 3, "heads": 3, "hidden": 20, "positions": 8}


@pytest.mark.parametrize("name", [*networks.NETWORKS, networks.DECODED])
def test_networks_have_the_parameters_of_the_zoo(name):
    layer, record = networks.network(name)
    assert sum(each.value.size for each in layer.all_parameters()) == record.ops.parameter_count


def exact(make, seed=5):
    """Layers in 64 bits whose weights are all different and whose dropout is off."""
    maker = Maker(np.float64)
    layer = make(maker)
    random = np.random.default_rng(seed)
    for each in layer.all_parameters():
        each.value[...] = random.normal(0, 0.5, each.value.shape)
    for each in layer.layers():
        if isinstance(each, layers.Dropout):
            each.dropped = 0
    return layer


def slope(value, place, loss, step=1e-6):
    """Central difference of a loss by one number of an array."""
    kept = value[place]
    found = []
    for moved in (kept + step, kept - step):
        value[place] = moved
        found.append(loss())
    value[place] = kept
    return (found[0] - found[1]) / (2 * step)


LAYERS = {
    "linear": (lambda make: layers.Linear(make, 6, 4), (3, 2, 6)),
    "relu": (lambda make: layers.Relu(), (3, 5)),
    "gelu": (lambda make: layers.Gelu(), (3, 5)),
    "tanh": (lambda make: layers.Tanh(), (3, 5)),
    "layer norm": (lambda make: layers.LayerNorm(make, 6), (2, 3, 6)),
    "batch norm": (lambda make: layers.BatchNorm(make, 3), (2, 3, 4, 5)),
    "convolution": (lambda make: layers.Convolution(make, 3, 4, 3, 1, 1), (2, 3, 5, 6)),
    "convolution with a stride": (lambda make: layers.Convolution(make, 4, 6, 3, 2, 1), (2, 4, 7, 6)),
    "convolution of single pixels": (lambda make: layers.Convolution(make, 3, 4, 1, 2, bias=False), (2, 3, 5, 5)),
    "largest of windows": (lambda make: layers.MaxPool(3, 2, 1), (2, 3, 6, 7)),
    "mean of channels": (lambda make: layers.MeanPool(), (2, 3, 4, 4)),
    "flat": (lambda make: layers.Flat(), (2, 3, 2, 2)),
    "attention": (lambda make: layers.Attention(make, 12, 3, False), (2, 5, 12)),
    "causal attention": (lambda make: layers.Attention(make, 12, 3, True), (2, 5, 12)),
    "residual": (lambda make: layers.Residual(layers.Linear(make, 4, 4)), (3, 4)),
    "projected residual": (lambda make: layers.Residual(layers.Linear(make, 4, 6), layers.Linear(make, 4, 6)), (3, 4)),
    "block of an encoder": (lambda make: networks._encoder_block(make, **BLOCK), (2, 5, 12)),
    "block of a decoder": (lambda make: networks._decoder_block(make, **BLOCK), (2, 5, 12)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_differences(name):
    """Of the input and of every weight of each layer, in 64 bits, for a loss that weighs outputs at random."""
    make, shape = LAYERS[name]
    layer, random = exact(make), np.random.default_rng(1)
    x = random.normal(0, 1, shape)
    weights = random.normal(0, 1, layer.forward(x, True).shape)

    def loss():
        return float(np.sum(weights * layer.forward(x, True)))

    loss()
    dx = layer.backward(weights.copy())
    assert dx.shape == x.shape
    pairs = [(x, dx), *((each.value, each.gradient) for each in layer.all_parameters())]
    for value, gradient in pairs:
        assert gradient.shape == value.shape
        for at in random.choice(value.size, min(value.size, 12), replace=False):
            place = np.unravel_index(at, value.shape)
            assert gradient[place] == pytest.approx(slope(value, place, loss), rel=1e-5, abs=1e-7), (name, place)


WHOLE = {
    "decoder": ("gpt2", DECODER, (2, 6)),
    "encoder of shared layers": ("albert_base", {**ENCODER, "embedding_width": 5}, (2, 5)),
    "encoder without a pooler": ("electra_small", {**ENCODER, "embedding_width": 5}, (2, 5)),
    "stack": ("eng_acoustic_model", {"inputs": 7, "hidden": 9, "layers": 2, "classes": 5}, (3, None)),
}


def small(name, kind=np.float64):
    """A small network of the zoo's own builder, in 64 bits, with a batch for it."""
    model, sizes, (batch, seq) = WHOLE[name]
    layer, record = networks.network(model, kind, **sizes)
    made = exact(lambda make: layer)
    return made, record, networks.sample(record, batch, seq or 0, kind)


@pytest.mark.parametrize("name", WHOLE)
def test_gradients_of_whole_networks_are_those_of_differences(name):
    layer, record, x = small(name)
    networks.learned(record, layer, x)
    gradients = [each.gradient.copy() for each in layer.all_parameters()]
    random = np.random.default_rng(2)

    def loss():
        return networks.learned(record, layer, x)

    for each, gradient in zip(layer.all_parameters(), gradients, strict=True):
        assert gradient.shape == each.value.shape
        for at in random.choice(each.value.size, min(each.value.size, 4), replace=False):
            place = np.unravel_index(at, each.value.shape)
            assert gradient[place] == pytest.approx(slope(each.value, place, loss), rel=1e-4, abs=1e-8)
    assert sum(each.value.size for each in layer.all_parameters()) == record.ops.parameter_count


def test_dropout_keeps_the_mean_and_its_mask_goes_back():
    """Of 256 units 26 are left out; the others grow by 256 / 230, so that a sum stays about what it was."""
    layer, ones = layers.Dropout(), np.ones((400, 256))
    y = layer.forward(ones, True)
    assert sorted(np.unique(y)) == pytest.approx([0, 256 / 230])
    assert np.mean(y == 0) == pytest.approx(26 / 256, abs=0.01) and y.mean() == pytest.approx(1, abs=0.01)
    assert (layer.backward(ones) == y).all()
    assert layer.forward(ones, False) is ones and layer.backward(ones) is ones


def test_a_batch_norm_that_does_not_train_takes_what_it_has_seen():
    layer = layers.BatchNorm(Maker(np.float64), 2)
    layer.mean[:], layer.variance[:] = [1.0, 2.0], [4.0, 9.0]
    layer.scale.value[:], layer.shift.value[:] = [3.0, 5.0], [0.5, 0.0]
    y = layer.forward(np.array([3.0, 8.0]).reshape(1, 2, 1, 1), False)
    assert y.reshape(-1) == pytest.approx([(3 - 1) / 2 * 3 + 0.5, (8 - 2) / 3 * 5], rel=1e-4)


def test_a_convolution_is_the_sum_over_its_window():
    """Three by three ones over a picture of ones, padded by zeros: nine inside, six on an edge, four in a corner."""
    layer = layers.Convolution(Maker(np.float64), 1, 1, 3, 1, 1)
    layer.weight.value[:] = 1.0
    y = layer.forward(np.ones((1, 1, 3, 4)), False)
    assert y[0, 0].tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]]


def test_updates_are_those_of_the_papers():
    """Two steps by hand: momentum as v = 0.9 v + g; Adam's first step moves by the rate, whatever the gradient."""
    one = Parameter(np.array([1.0, 2.0]))
    for gradient in ([1.0, -2.0], [3.0, 0.0]):
        one.gradient = np.array(gradient)
        networks.update([one], adam=False)
    assert one.value - [1.0, 2.0] == pytest.approx([-1e-6 * (1 + 0.9 + 3), -1e-6 * (-2 - 1.8)], rel=1e-6)
    other = Parameter(np.array([1.0, 2.0]))
    other.gradient = np.array([0.5, -4.0])
    networks.update([other], adam=True)
    first, second = 0.1 * other.gradient, 0.001 * other.gradient**2
    moved = -1e-6 * first / (np.sqrt(second) + 1e-8) - 1e-6 * 0.01 * np.array([1.0, 2.0])
    assert other.value - [1.0, 2.0] == pytest.approx(moved, rel=1e-5)


def test_shared_layers_have_one_set_of_weights_and_each_its_own_memory():
    layer, record, _ = small("encoder of shared layers")
    blocks = [each for each in layer.body.parts if isinstance(each, layers.Chain)]
    assert len(blocks) == 3 and blocks[0] is not blocks[1]
    assert [id(each) for each in blocks[0].all_parameters()] == [id(each) for each in blocks[2].all_parameters()]
    assert record.arguments["share_layers"]


def test_a_decoding_step_gives_what_the_whole_sequence_gives():
    """Keys and values of five tokens in the cache, then the sixth: the same logits as of all six at once."""
    layer, _, x = small("decoder")
    whole = layer.forward(x, False)
    attentions = layer.attentions()
    store = [np.zeros((2, 2, 3, 6, 4)) for _ in attentions]
    for length in range(1, 7):
        for each, kept in zip(attentions, store, strict=True):
            each.cache = (kept[0][:, :, :length], kept[1][:, :, :length])
        stepped = layer.forward(x[:, length - 1 : length], False)
    assert np.allclose(stepped[:, -1], whole[:, -1], rtol=1e-9)
    for each in attentions:
        each.cache = None
    layer.last = True
    assert np.allclose(layer.forward(x, False), whole[:, -1:])


def test_a_causal_model_does_not_look_ahead_and_an_encoder_does():
    decoder, _, x = small("decoder")
    before = decoder.forward(x, False)
    x[:, 4] = (x[:, 4] + 1) % 11
    after = decoder.forward(x, False)
    assert np.allclose(before[:, :4], after[:, :4]) and not np.allclose(before[:, 4:], after[:, 4:])
    encoder, _, y = small("encoder without a pooler")
    before = encoder.forward(y, False)
    y[:, 4] = (y[:, 4] + 1) % 11
    assert not np.allclose(before[:, 0], encoder.forward(y, False)[:, 0])


def test_updates_bring_the_loss_down(monkeypatch):
    """Forty steps with a rate that moves weights: the network learns the batch that it sees."""
    monkeypatch.setattr(networks, "RATE", 0.02)
    layer, record, x = small("decoder")
    found = []
    for _ in range(40):
        found.append(networks.learned(record, layer, x))
        networks.update(layer.all_parameters(), adam=True)
    assert found[-1] < found[0] / 2 and math.isfinite(found[-1])


def test_what_cannot_fit_says_so(monkeypatch):
    monkeypatch.setattr(networks, "free_memory", lambda: 1e9)
    case = next(
        each
        for each in networks.cases("macro", False, 1e11)
        if each.told["model"] == "gpt2" and each.benchmark == "training step"
    )
    with pytest.raises(ValueError, match=r"take 1\.85 GiB, more than half of the 954 MiB that are free"):
        case.prepare()


def test_what_takes_longer_than_is_left_is_told_and_left_out(monkeypatch):
    """At a million FLOP/s a step of 13 GFLOP takes hours, so no case of a network begins."""
    monkeypatch.setattr(networks, "STEP_SLOWDOWN", 1e9)
    found = cb.measure.run(quick=True, suites="macro", seconds=30)
    assert found.state == "complete" and not len(found)
    why = {each["why"] for each in found.skipped if each["benchmark"] == "training step"}
    assert why and all("give more seconds" in each for each in why)
