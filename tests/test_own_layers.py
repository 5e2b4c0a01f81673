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


IMPOSSIBLE = [
    ("llama2_7b", {"width": -1}, "width = -1"), ("llama2_7b", {"depth": 0}, "depth = 0"),
    ("llama2_7b", {"heads": 33}, "heads = 33 must divide width = 4096"), ("llama2_7b", {"vocab": 0}, "vocab = 0"),
    ("llama2_7b", {"kv_heads": 5}, "kv_heads = 5 must divide heads = 32"),
    ("llama2_7b", {"vocab": True}, "vocab = True"),
    ("llama2_7b", {"hidden": float("nan")}, "hidden = nan"), ("llama2_7b", {"depth": 10**9}, "from 1 to 1,000"),
    ("llama2_7b", {"width": 10**400}, "a number of 401 digits"), ("llama2_7b", {"tied": "no"}, "must be True or False"),
    ("llama2_7b", {"act": "bananas"}, "bananas"), ("llama2_7b", {"norm": "x" * 9999}, "norm"),
    ("resnet50", {"image": [224, 224]}, "image"), ("mixtral_8x7b", {"experts": {"number": 4, "top_k": 8}}, "top_k = 8"),
    ("resnet50", {"groups": {}}, "groups"), ("resnet50", {"classes": 2.5}, "classes = 2.5"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), IMPOSSIBLE, ids=[str(change)[:30] for _, change, _ in IMPOSSIBLE])
def test_a_network_that_cannot_be_is_refused_by_its_argument(name, change, words):
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        cb.model(name, **change)
    assert len(str(error.value)) < 320 and f"{name} cannot be built" in str(error.value)


def test_changes_that_can_be_are_built():
    assert cb.model("llama2_7b", depth=2).ops.parameter_count < cb.model("llama2_7b").ops.parameter_count
    assert cb.model("resnet50", image=448, stride_on="1x1").ops.parameter_count > 2e7
    assert cb.model("llama2_7b", tied=True, window=4096, kv_heads=8).how == "unverified"


@pytest.mark.parametrize(
    "table",
    [
        None, 5, [], {}, [1], [[]], "", "abc", "[" * 100_000, "{}", [{"layer": "linear", "out": 10**400}],
        [{"layer": []}],
        [{"layer": "linear", "out": "x" * 10**5}], [LINEAR | {"repeat": 1e308}], [LINEAR | {"bias": "no"}],
        [CONV | {"padding": -1}], [CONV | {"padding": float("nan")}], [CONV | {"kernel": [[3]]}],
        [CONV | {"groups": 1e9}],
        [{"layer": "resize", "factor": float("inf")}], [{"layer": "resize", "factor": -2}],
        [{"layer": "flatten", "x": 1}],
        [{"layer": "moe", "experts": 2, "top_k": 10**9, "hidden": 4}], [{"layer": "x" * 10**6}], [{3: 4}],
        [{"layer": "recurrent", "hidden": 8, "layers": 10**9}], [{"layer": "pool", "kernel": 0}], [LINEAR] * 2000,
        [{"layer": "self_attention", "heads": 3}], [{"layer": "self_attention", "heads": 4, "window": -1}],
    ],
    ids=lambda table: str(table)[:40],
)  # fmt: skip
def test_hostile_tables_of_layers_are_refused_in_words_and_at_once(table):
    with pytest.raises(ValueError) as error:
        cb.layers(table, input=(4, 8, 8))
    assert len(str(error.value)) < 400
    assert not re.search(r"positional|Trace\.|NoneType|unsupported|ufunc", str(error.value))


@pytest.mark.parametrize("title", ["", None, 5, "x" * 1000])
def test_a_title_is_a_short_text(title):
    with pytest.raises(ValueError, match=r"^title = "):
        cb.layers([LINEAR], input=(8,), title=title)


def test_what_a_network_holds_cannot_be_changed():
    before = cb.model("llama2_7b").ops.parameter_count
    network = cb.model("llama2_7b")
    for change in (
        lambda: network.ops.weights.__setitem__(0, 1e9), lambda: network.ops.macs.__imul__(2),
        lambda: network.arguments.__setitem__("depth", 1), lambda: setattr(network, "seq", 1),
        lambda: cb.model("mixtral_8x7b").arguments["experts"].update(number=1),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, AttributeError)):
            change()
    assert cb.model("llama2_7b").ops.parameter_count == before
    assert dict(cb.model("llama2_7b", depth=2).arguments)["depth"] == 2
