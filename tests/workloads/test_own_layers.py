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
        (("s",), "input channels = 's'"),
        ((-3, 4), "input channels = -3 is outside its range; give a whole number from 1"),
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
        (LINEAR | {"repeat": 2.7}, "repeat = 2.7 is not whole; give a whole number"),
        (LINEAR | {"repeat": 0}, "repeat = 0"),
        (CONV | {"dilation": 0}, "dilation = 0"),
        (CONV | {"kernel": [3, 0]}, "kernel = 0"),
        (CONV | {"padding": "x"}, "layer 2 (conv): nothing can be computed with out = 8, kernel = 3, padding = 'x'"),
        (LINEAR | {"units": 3}, "the layer has no argument 'units'; it has out, bias, shared"),
        ({"layer": "transformer_block", "heads": 2, "hidden": 8, "colour": 1}, "the layer has no argument 'colour'"),
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
    ("llama2_7b", {"width": -1}, "width = -1"),
    ("llama2_7b", {"depth": 0}, "depth = 0"),
    ("llama2_7b", {"heads": 33}, "heads = 33 must divide width = 4096"),
    ("llama2_7b", {"vocab": 0}, "vocab = 0"),
    ("llama2_7b", {"kv_heads": 5}, "kv_heads = 5 must divide heads = 32"),
    ("llama2_7b", {"vocab": True}, "vocab = True"),
    ("llama2_7b", {"hidden": float("nan")}, "hidden = nan"),
    ("llama2_7b", {"depth": 10**9}, "from 1 to 1,000"),
    ("llama2_7b", {"width": 10**400}, "a number of 401 digits"),
    ("llama2_7b", {"tied": "no"}, "give True or False"),
    ("llama2_7b", {"act": "bananas"}, "bananas"),
    ("llama2_7b", {"norm": "x" * 9999}, "norm"),
    ("resnet50", {"image": [224, 224]}, "image"),
    ("mixtral_8x7b", {"experts": {"number": 4, "top_k": 8}}, "top_k = 8"),
    ("resnet50", {"groups": {}}, "groups"),
    ("resnet50", {"classes": 2.5}, "classes = 2.5"),
]


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
        None,
        5,
        [],
        {},
        [1],
        [[]],
        "",
        "abc",
        "[" * 100_000,
        "{}",
        [{"layer": "linear", "out": 10**400}],
        [{"layer": []}],
        [{"layer": "linear", "out": "x" * 10**5}],
        [LINEAR | {"repeat": 1e308}],
        [LINEAR | {"bias": "no"}],
        [CONV | {"padding": -1}],
        [CONV | {"padding": float("nan")}],
        [CONV | {"kernel": [[3]]}],
        [CONV | {"groups": 1e9}],
        [{"layer": "resize", "factor": float("inf")}],
        [{"layer": "resize", "factor": -2}],
        [{"layer": "flatten", "x": 1}],
        [{"layer": "moe", "experts": 2, "top_k": 10**9, "hidden": 4}],
        [{"layer": "x" * 10**6}],
        [{3: 4}],
        [{"layer": "recurrent", "hidden": 8, "layers": 10**9}],
        [{"layer": "pool", "kernel": 0}],
        [LINEAR] * 2000,
        [{"layer": "self_attention", "heads": 3}],
        [{"layer": "self_attention", "heads": 4, "window": -1}],
        [{"layer": "self_attention", "heads": 4, "window": 0}],
    ],
    ids=lambda table: str(table)[:40],
)
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
        lambda: network.ops.weights.__setitem__(0, 1e9),
        lambda: network.ops.macs.__imul__(2),
        lambda: network.arguments.__setitem__("depth", 1),
        lambda: setattr(network, "seq", 1),
        lambda: cb.model("mixtral_8x7b").arguments["experts"].update(number=1),
    ):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            change()
    assert cb.model("llama2_7b").ops.parameter_count == before
    assert dict(cb.model("llama2_7b", depth=2).arguments)["depth"] == 2


def embedded(*blocks, vocab=32000, width=4096, out=None):
    """Blocks between an embedding and a linear head."""
    return [
        {"layer": "embedding", "vocab": vocab, "features": width},
        *blocks,
        {"layer": "norm", "kind": "rms"},
        {"layer": "linear", "out": out or vocab, "bias": False},
        {"layer": "loss"},
    ]


ATTENTION = {"layer": "self_attention", "heads": 32, "bias": False, "causal": True}
LLAMA = {
    "layer": "transformer_block",
    "heads": 32,
    "hidden": 11008,
    "norm": "rms",
    "gated": True,
    "act": "silu",
    "bias": False,
    "causal": True,
}
MLP = {"layer": "mlp", "hidden": 11008, "gated": True, "act": "silu", "bias": False}
NORM = {"layer": "norm", "kind": "rms"}


@pytest.fixture(scope="module")
def own_llama():
    return cb.layers(embedded(LLAMA | {"repeat": 32}), title="Mine")


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"devices": 64, "tp": 8},
        {"devices": 64, "tp": 8, "pp": 2, "global_batch": 256},
        {"devices": 16, "zero": 3, "recompute": "full"},
    ],
    ids=str,
)
def test_an_own_decoder_trains_like_that_of_the_zoo(own_llama, plan):
    """The same dimensions: 6.74e9 parameters, and the same step in any layout."""
    assert own_llama.ops.parameter_count == cb.model("llama2_7b").ops.parameter_count
    mine = cb.train_step(own_llama, "h100-sxm", plan, seq=4096)
    assert mine.point == pytest.approx(cb.train_step("llama2_7b", "h100-sxm", plan).point, rel=1e-12)


def test_an_own_decoder_goes_through_every_door(own_llama):
    table = cb.search(own_llama, "h100-sxm", 16, 64, seq=4096).table
    assert table.equals(cb.search("llama2_7b", "h100-sxm", 16, 64, seq=4096).table)
    runs = [cb.plan_run(model, "dgx-h100", 64, 1e11, global_batch=512, seq=4096) for model in (own_llama, "llama2_7b")]
    assert runs[0].table["days"].tolist() == runs[1].table["days"].tolist()
    answers = [cb.generate(model, "h100-sxm", devices=8, tp=8).point for model in (own_llama, "llama2_7b")]
    assert answers[0] == pytest.approx(answers[1], rel=1e-12)
    places = [
        cb.planning.where_to_run(model, "c4-en-tokens", seq=seq).frame()["usd"].fillna(-1).tolist()
        for model, seq in ((own_llama, None), ("llama2_7b", 2048))
    ]
    assert places[0] == pytest.approx(places[1])
    with pytest.raises(ValueError, match="Mine reads text; take c4-en-tokens"):
        cb.planning.where_to_run(own_llama)


def test_a_block_may_be_written_as_its_layers():
    parts = [NORM, ATTENTION, NORM, MLP]
    one, other = (cb.layers(embedded(*blocks)).arguments for blocks in (parts * 32, [LLAMA | {"repeat": 32}]))
    assert one == other and one["depth"] == 32
    plain = [
        ATTENTION,
        {"layer": "linear", "out": 16384},
        {"layer": "act", "kind": "gelu"},
        {"layer": "linear", "out": 4096},
    ]
    found = cb.layers(embedded(*plain * 2)).arguments
    assert (found["depth"], found["hidden"], found["gated"]) == (2, 16384, False)


def test_own_blocks_may_take_turns_with_and_without_a_window():
    """Every fourth of 32 blocks sees all: trained and asked like the network that says so in two numbers."""
    blocks = [LLAMA | {"window": 512, "repeat": 3}, LLAMA] * 8
    mine, same = cb.layers(embedded(*blocks)), cb.model("llama2_7b", window=512, full_every=4)
    assert (mine.arguments["window"], mine.arguments["full_every"]) == (512, 4)
    times = [cb.train_step(each, "h100-sxm", devices=8, tp=8, seq=8192).point for each in (mine, same)]
    steps = [cb.generate(each, "h100-sxm", input_len=8192, batch=16, delay_of="token").point for each in (mine, same)]
    assert times[0] == pytest.approx(times[1], rel=1e-12) and steps[0] == pytest.approx(steps[1], rel=1e-12)
    assert steps[0] < cb.generate("llama2_7b", "h100-sxm", input_len=8192, batch=16, delay_of="token").point


def test_an_own_mixture_of_experts_trains_like_that_of_the_zoo():
    moe = {"layer": "moe", "experts": 8, "top_k": 2, "hidden": 14336}
    mine = cb.layers(embedded(*[NORM, ATTENTION | {"kv_heads": 8}, NORM, moe] * 32))
    plan = {"devices": 64, "tp": 4, "ep": 8, "global_batch": 128}
    points = [cb.train_step(model, "h100-sxm", plan, seq=4096).point for model in (mine, "mixtral_8x7b")]
    assert points[0] == pytest.approx(points[1], rel=0.01)


UNSPLIT = [
    ([LINEAR], "its first layer is no embedding"),
    (embedded(LLAMA, out=9), "its last layer is not linear with the 32,000 outputs of its embedding"),
    (embedded(LLAMA | {"causal": False}), "layer 2 (transformer_block) is not causal"),
    (embedded(LLAMA, LLAMA | {"kv_heads": 8}), "its blocks are not equal: kv_heads differs between them"),
    (embedded(LLAMA, LLAMA | {"hidden": 64}), "its blocks are not equal: hidden differs between them"),
    (embedded(LLAMA | {"window": 128}, LLAMA | {"window": 64}), "their windows are 64 and 128 tokens; give one"),
    (embedded(LLAMA | {"window": 64}, LLAMA | {"repeat": 3}), "3 of its 4 blocks attend without a window"),
    (embedded(ATTENTION), "it has attention without a feed-forward layer"),
    (embedded(MLP), "layer 2 (mlp) is part of no block of attention and feed-forward"),
    (embedded(), "it has no attention"),
    (embedded(LLAMA, {"layer": "recurrent", "hidden": 4096}), "layer 3 (recurrent) is part of no block"),
]


@pytest.mark.parametrize(("table", "why"), UNSPLIT, ids=[why[:40] for _, why in UNSPLIT])
def test_layers_that_no_layout_divides_say_why_and_what_would(table, why):
    own = cb.layers(table, input=(8,) if table == [LINEAR] else None)
    remedy = "build it of an embedding, equal blocks of causal attention and feed-forward, and a linear head"
    for door in (
        lambda: cb.train_step(own, "h100-sxm", devices=64, tp=8),
        lambda: cb.search(own, "h100-sxm", 64, 512),
        lambda: cb.plan_run(own, "h100-sxm", 64, 1e9),
    ):
        with pytest.raises(ValueError, match=re.escape(why)) as error:
            door()
        assert remedy in str(error.value) and len(str(error.value)) <= 320
    assert cb.train_step(own, "h100-sxm", devices=8, seq=128 if own.ops.needs_seq else None).point > 0
