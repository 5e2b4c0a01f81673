"""Networks of the reader's own: what prints, and what is refused."""

import re

import pytest

import cookbook as cb

LINEAR = {"layer": "linear", "out": 10}
CONV = {"layer": "conv", "out": 8, "kernel": 3}


def test_a_sequence_network_prints_without_a_length():
    """100 x 8 of the embedding, 8 x 10 and 10 of the layer."""
    mine = cb.layers([{"layer": "embedding", "vocab": 100, "features": 8}, LINEAR])
    assert repr(mine) == "<Your network: 890 parameters, GMAC depends on the sequence length, unverified>"
    fixed = cb.layers([LINEAR], input=(8,))
    assert repr(fixed) == "<Your network: 90 parameters, 8e-08 GMAC for one sample, unverified>"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "input = () must be (channels, positions, ...)"),
        (5, "input = 5 must be (channels, positions, ...)"),
        ("abc", "input = 'abc' must be (channels"),
        (("s",), "input channels = 's'"),
        ((-3, 4), "input channels = -3 must be a whole number of 1 or more"),
        ((0,), "input channels = 0"),
        ((True,), "input channels = True"),
        ((3, 2.5), "input = 2.5"),
        ((3, -4), "input = -4"),
    ],
)
def test_inputs_that_cannot_be(given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.layers([LINEAR], input=given)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"layer": "linear"}, "layer 2 (linear): needs 'out'"),
        ({"layer": "conv"}, "layer 2 (conv): needs 'out' and 'kernel'"),
        (LINEAR | {"repeat": 2.7}, "repeat = 2.7 must be a whole number"),
        (LINEAR | {"repeat": 0}, "repeat = 0"),
        (CONV | {"dilation": 0}, "dilation = 0"),
        (CONV | {"kernel": [3, 0]}, "kernel = 0"),
        (CONV | {"padding": "x"}, "layer 2 (conv): nothing can be computed with out = 8, kernel = 3, padding = 'x'"),
        (LINEAR | {"units": 3}, "unknown argument 'units'; it takes out, bias, shared"),
        ({"layer": "transformer_block", "heads": 2, "hidden": 8, "colour": 1}, "unknown argument 'colour'"),
        ({"layer": "embedding", "vocab": 9, "features": 4}, "an embedding must be the first layer"),
    ],
)
def test_layers_that_cannot_be_are_named_without_words_of_python(layer, words):
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        cb.layers([CONV | {"padding": 1}, layer], input=(4, 8, 8))
    assert not re.search(r"positional|Trace\.|\(\) |NoneType|unsupported", str(error.value))


def test_a_block_still_takes_the_arguments_of_its_attention():
    block = {"layer": "transformer_block", "heads": 2, "hidden": 8, "causal": True, "head_dim": 4}
    assert cb.layers([block], input=(8, "s")).ops.parameter_count > 0


@pytest.mark.parametrize(
    ("change", "words"), [({"image": "x"}, "image = x; by default image = 224"), ({"depth": None}, "depth")]
)
def test_a_change_that_the_builder_cannot_take(change, words):
    with pytest.raises(ValueError, match=words):
        cb.model("resnet50", **change)
