"""Models that people bring as a PyTorch module, an exported program or an ONNX graph; each part needs its library."""

import importlib.util
import io
import warnings

import pytest

import cookbook as cb
from cookbook.workloads.readers import onnx as importer

HAS = {name: importlib.util.find_spec(name) is not None for name in ("onnx", "torch", "torchvision")}
needs_onnx = pytest.mark.skipif(not HAS["onnx"], reason="the extra `onnx` is not installed")
needs_torch = pytest.mark.skipif(not HAS["torch"], reason="the extra `torch` is not installed")
needs_vision = pytest.mark.skipif(not HAS["torchvision"], reason="torchvision is not installed")
VISION = {
    "resnet50_v1.5": "resnet50",
    "vgg16": "vgg16",
    "densenet121": "densenet121",
    "mobilenet_v2": "mobilenet_v2",
    "vit_b_16": "vit_b_16",
    "swin_t": "swin_t",
    "efficientnet_b0": "efficientnet_b0",
    "convnext_tiny": "convnext_tiny",
}


def same(imported, zoo, seq=None, parameters=0.0):
    assert imported.ops.parameter_count == pytest.approx(zoo.ops.parameter_count, rel=parameters, abs=0)
    flop = float(zoo.ops.total("macs", 1, seq))
    assert float(imported.ops.total("macs")) == pytest.approx(flop, rel=0.01)


def test_without_onnx_the_install_line_is_said(monkeypatch):
    monkeypatch.setattr(importer, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"python -m pip install 'dl-cookbook\[onnx\]', or python -m pip install onnx"):
        cb.model(b"\x08\x08\x12\x07pytorch")


# ---- PyTorch --------------------------------------------------------------------------------------------------------


@needs_vision
@pytest.mark.parametrize("name", VISION)
def test_a_module_is_the_network_of_the_zoo(name):
    """Parameters equal, FLOP of a forward pass within 1 %; no weights are needed."""
    import torch
    import torchvision

    with torch.device("meta"):
        module = getattr(torchvision.models, VISION[name])()
    same(cb.model(module, shape=(3, 224, 224)), cb.model(name))


@needs_torch
@pytest.mark.parametrize("name", ["gpt2", "bert_base", "llama3.2_1b"])
def test_a_module_of_transformers_is_the_network_of_the_zoo(name):
    import torch

    from cookbook.topics.machine import networks

    with torch.device("meta"):
        module, zoo = networks.network(torch, name)
    same(cb.model(module, shape=(128,)), zoo, 128)


def small_network():
    """3 x 8 x 3 x 3 and 8; 2 x 8 of the norm; 8 x 10 and 10 of the classifier."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


SMALL = (3 * 8 * 9 + 8 + 16 + 80 + 10, 8 * 27 * 32 * 32 + 80)


@needs_torch
def test_a_module_is_not_changed():
    module = small_network()
    before = {name: (each.device.type, each.requires_grad) for name, each in module.named_parameters()}
    model = cb.model(module, shape=(3, 32, 32), title="Mine")
    assert (model.ops.parameter_count, float(model.ops.total("macs"))) == SMALL and model.title == "Mine"
    assert module.training and {n: (e.device.type, e.requires_grad) for n, e in module.named_parameters()} == before


@needs_torch
def test_an_exported_program_is_the_same_as_its_module():
    """For a batch of two, of which one sample is counted."""
    import torch

    program = torch.export.export(small_network().eval(), (torch.zeros(2, 3, 32, 32),))
    model = cb.model(program)
    assert (model.ops.parameter_count, float(model.ops.total("macs"))) == SMALL
    assert "the program is for 2 samples; counts are of one" in model.assumed


@needs_torch
def test_an_exported_program_counts_tied_weights_once():
    import torch
    from torch import nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            return self.head(self.table(x))

    program = torch.export.export(Tied(), (torch.zeros(1, 6, dtype=torch.long),))
    for model in (cb.model(program), cb.model(Tied(), shape=(6,))):
        assert model.ops.parameter_count == 400 and float(model.ops.total("macs")) == 6 * 400


@needs_torch
def test_modules_that_cannot_be_counted_are_told():
    from torch import nn

    class Values(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x) if float(x.sum()) > 0 else x

    with pytest.raises(ValueError, match=r"shape = None: give the shape of one sample of Values without the batch"):
        cb.model(Values())
    with pytest.raises(ValueError, match=r"the forward pass of Values fails on shapes alone"):
        cb.model(Values(), shape=(4,))
    with pytest.raises(ValueError, match=r"the forward pass of Linear fails on shapes alone"):
        cb.model(nn.Linear(4, 4), shape=(5,))
    with pytest.raises(ValueError, match=r"a PyTorch module has no argument 'batch'; it has shape, title"):
        cb.model(nn.Linear(4, 4), batch=5)


@needs_torch
def test_attention_counts_the_half_that_is_causal():
    """4 heads of 8 over 16 positions: 136 pairs, scores and values."""
    import torch
    from torch import nn

    class Core(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(32, 96, bias=False)

        def forward(self, x):
            q, k, v = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    wanted = 16 * 32 * 96 + 4 * 136 * 16
    assert float(cb.model(Core(), shape=(16, 32)).ops.total("macs")) == wanted
    assert float(cb.model(torch.export.export(Core(), (torch.zeros(1, 16, 32),))).ops.total("macs")) == wanted


# ---- ONNX -----------------------------------------------------------------------------------------------------------


def graph(nodes, inputs, outputs, weights):
    """The bytes of an ONNX model; an axis that is a word is open."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    def named(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    tensors = [numpy_helper.from_array(np.zeros(shape, dtype), name) for name, (shape, dtype) in weights.items()]
    made = helper.make_graph(
        [helper.make_node(kind, ins, outs, **more) for kind, ins, outs, more in nodes],
        "small",
        [named(*each) for each in inputs],
        [named(*each) for each in outputs],
        tensors,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def small_graph(batch="batch", side=32):
    nodes = [
        ("Conv", ["x", "w", "b"], ["y"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["y", "s", "o", "mean", "var"], ["n"], {}),
        ("Relu", ["n"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["p"], {}),
        ("Flatten", ["p"], ["f"], {}),
        ("Gemm", ["f", "fw", "fb"], ["out"], {"transB": 1}),
    ]
    weights = {"w": ((8, 3, 3, 3), "f4"), "b": ((8,), "f4"), "fw": ((10, 8), "f4"), "fb": ((10,), "f4")}
    weights |= {name: ((8,), "f4") for name in ("s", "o", "mean", "var")}
    return graph(nodes, [("x", [batch, 3, side, side])], [("out", [batch, 10])], weights)


@needs_onnx
def test_a_graph_counts_as_its_module_does():
    for data in (small_graph(), small_graph(4)):
        model = cb.model(data)
        assert (model.ops.parameter_count, float(model.ops.total("macs"))) == SMALL and model.title == "small"
    assert "the graph is for 4 samples; counts are of one" in cb.model(small_graph(4)).assumed


@needs_onnx
def test_open_axes_are_asked_for():
    with pytest.raises(
        ValueError, match=r"input 'x' of the ONNX graph has open axes \(batch, 3, side, side\); give shape="
    ):
        cb.model(small_graph(side="side"))
    for shape in ((3, 32, 32), {"x": (3, 32, 32)}):
        assert float(cb.model(small_graph(side="side"), shape=shape).ops.total("macs")) == SMALL[1]
    with pytest.raises(ValueError, match=r"shape = \(4, 32, 32\) does not fit input 'x'"):
        cb.model(small_graph(side="side"), shape={"x": (4, 32, 32)})


@needs_onnx
def test_products_embeddings_and_what_is_unknown():
    """12 tokens of 50 x 16, a product with 16 x 4 weights, and one of two activations, 4 x 12 x 4."""
    nodes = [
        ("Gather", ["table", "ids"], ["e"], {}),
        ("MatMul", ["e", "w"], ["h"], {}),
        ("Transpose", ["h"], ["t"], {"perm": [0, 2, 1]}),
        ("MatMul", ["t", "h"], ["s"], {}),
        ("Softmax", ["s"], ["p"], {}),
        ("Det", ["p"], ["d"], {}),
    ]
    weights = {"table": ((50, 16), "f4"), "w": ((16, 4), "f4")}
    model = cb.model(graph(nodes, [("ids", ["batch", 12], 7)], [("d", ["batch"])], weights))
    assert model.ops.parameter_count == 50 * 16 + 16 * 4
    assert float(model.ops.total("macs")) == 12 * 16 * 4 + 4 * 12 * 4
    assert "nodes counted as element by element: Det x1" in model.assumed


@needs_onnx
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x08\x08\x12\x07pytorch" + b"\xff" * 50, "cannot be parsed"),
        (b"\x08\x08\x12\x07pytorch", "the ONNX graph has no inputs"),
    ],
)
def test_damaged_graphs_are_told(data, words):
    with pytest.raises(ValueError, match=words):
        cb.model(data)


@needs_onnx
def test_control_flow_and_lost_shapes_are_refused():
    """The length of what NonZero finds is not known, so neither is what two such lists make."""
    lost = [
        ("NonZero", ["x"], ["i"], {}),
        ("Cast", ["i"], ["f"], {"to": 1}),
        ("Transpose", ["f"], ["t"], {}),
        ("MatMul", ["t", "f"], ["y"], {}),
    ]
    with pytest.raises(ValueError, match=r"the shape of MatMul number 4 of 4 cannot be inferred; export the graph"):
        cb.model(graph(lost, [("x", [1, 4])], [("y", ["a", "b"])], {"w": ((9, 4), "f4")}))
    from onnx import helper

    inner = helper.make_graph([], "inner", [], [])
    nodes = [("If", ["c"], ["y"], {"then_branch": inner, "else_branch": inner})]
    with pytest.raises(ValueError, match=r"the ONNX graph has If, whose work depends on values"):
        cb.model(graph(nodes, [("c", [1], 9)], [("y", [1])], {}))


@needs_onnx
@needs_vision
@pytest.mark.all
def test_an_exported_graph_is_the_network_of_the_zoo():
    """Weights drawn at random: the exporter writes equal ones, such as ones of norms, only once."""
    import torch
    import torchvision

    module = torchvision.models.mobilenet_v2().eval()
    with torch.no_grad():
        for each in (*module.parameters(), *(one for one in module.buffers() if one.is_floating_point())):
            each.uniform_(0.5, 1.5)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(1, 3, 224, 224),),
            file,
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            opset_version=17,
        )
    same(cb.model(file.getvalue()), cb.model("mobilenet_v2"))


# ---- configurations, against the library that writes them -----------------------------------------------------------

FAMILIES = (
    "llama",
    "mistral",
    "mixtral",
    "phi3",
    "granite",
    "granitemoe",
    "smollm3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4",
    "glm4_moe_lite",
    "ernie4_5",
    "ernie4_5_moe",
    "seed_oss",
    "exaone4",
    "olmo2",
    "olmo3",
    "olmoe",
    "gpt_oss",
    "llama4_text",
    "arcee",
    "stablelm",
    "phimoe",
    "cohere",
    "cohere2",
    "starcoder2",
    "gpt2",
    "gpt_bigcode",
    "gptj",
    "gpt_neox",
    "phi",
    "opt",
    "bloom",
    "falcon",
    "mpt",
    "distilbert",
    "albert",
    "t5",
    "mt5",
    "mamba",
    "mamba2",
    "jamba",
    "minimax",
    "qwen3_next",
    "granitemoehybrid",
    "nemotron_h",
)


@pytest.mark.all
@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="transformers is not installed")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_default_configuration_has_as_many_parameters_as_the_library_makes(family):
    """Offsets of experts' scores are no parameters there, and are counted here as the zoo does."""
    import json

    import torch
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    if family not in CONFIG_MAPPING:
        pytest.skip("this version of the library does not have it")
    config = CONFIG_MAPPING[family]()
    with torch.device("meta"):
        make = AutoModelForCausalLM if type(config) in AutoModelForCausalLM._model_mapping else AutoModel
        module = make.from_config(config)
    theirs = sum({id(each): each.numel() for each in module.parameters()}.values())
    mine = cb.model(json.loads(json.dumps(config.to_dict(), default=str)))
    offsets = {"glm4_moe_lite": 46 * 64}.get(family, 0)
    assert mine.ops.parameter_count - offsets == theirs
