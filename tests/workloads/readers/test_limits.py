"""Files that ask for too much: each is refused by name, within little time and memory, and strange fields in words."""

import copy
import importlib.util
import io
import itertools
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import cookbook as cb
from cookbook.catalog import UnknownName
from cookbook.workloads import limits
from cookbook.workloads.readers import tables

needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="the extra `onnx` is not installed")
MEMORY = 100e6
EVERY = 13  # of strange fields, one in so many is tried with each change


def of(name):
    """A test module beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES, CONFIGURATIONS = of("test_files"), of("test_configurations")


@pytest.fixture
def refused(within):
    """The sentence in which a source is refused, soon."""

    def check(source, counts=4):
        with within(counts), pytest.raises(ValueError) as problem:
            cb.model(source)
        return str(problem.value)

    return check


# ---- sizes beyond every network --------------------------------------------------------------------------------------

WIDE = {
    "vocab_size": 10**9,
    "hidden_size": 10**9,
    "num_hidden_layers": 1000,
    "num_attention_heads": 1,
    "intermediate_size": 10**9,
}


@pytest.mark.parametrize(
    "source",
    [
        WIDE | {"model_type": "llama"},
        WIDE | {"model_type": "mixtral", "num_local_experts": 10**9, "num_experts_per_tok": 1},
        [{"layer": "conv", "out": 10**9, "kernel": [10**6, 10**6]}],
        CONFIGURATIONS.LLAMA | {"hidden_size": 10**8, "intermediate_size": 10**8},
        "".join(
            (
                'name: "n" input: "data" input_shape { dim: 1 dim: 1000000 dim: 1000 dim: 1000 } ',
                'layer { name: "f" type: "InnerProduct" bottom: "data" top: "f" ',
                "inner_product_param { num_output: 1000000000 } }",
            )
        ),
        {
            "class_name": "Sequential",
            "config": {
                "layers": [
                    {"class_name": "InputLayer", "config": {"batch_shape": [None, 10**6]}},
                    {"class_name": "Dense", "config": {"units": 10**9}},
                    {"class_name": "Dense", "config": {"units": 10**9}},
                ]
            },
        },
    ],
)
def test_a_network_beyond_every_other_is_not_believed(source):
    """From 1e18 parameters to 3e30; the largest networks of today have some 1e12."""
    changes = {"input": (10**9, 10**6, 10**6)} if isinstance(source, list) else {}
    with pytest.raises(ValueError, match=r"the network would have .*e\+\d+ parameters; networks of up to 1e\+15"):
        cb.model(source, **changes)


def test_changes_of_the_zoo_have_the_same_limits():
    with pytest.raises(ValueError, match=r"parameters; networks of up to 1e\+15"):
        cb.model("llama3_70b", width=10**9, vocab=10**9, heads=1, kv_heads=1)
    with pytest.raises(ValueError, match=r"one sample would need .* elements and multiplications"):
        cb.layers([{"layer": "conv", "out": 1000, "kernel": 3, "padding": 1}], input=(1000, 10**9, 10**9))


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": [' + "[]," * 2_500_000 + "[]]}", "lists and groups; at most 600,000 are read"),
        ('{"a": [' + "1," * 4_100_000 + "1]}", "values; at most 4,000,000 are read"),
        ('{"a": ' * 90_000, "is not valid JSON: it is nested too deeply"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "a number of too many digits"),
        (json.dumps({"model_type": "llama", **{f"f{n}": 2 for n in range(60_000)}}), "fields; at most 50,000 are read"),
    ],
)
def test_json_is_measured_before_it_is_read(refused, text, words):
    assert words in refused(text.encode())
    if text.startswith('{"a": [['):
        header = struct.pack("<Q", len(text)) + text.encode()
        assert "the safetensors header has 2,500,003 lists and groups" in refused(header)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [
                {"layer": "embedding", "vocab": 9, "features": 4},
                {"layer": "transformer_block", "heads": 2, "hidden": [1, 2]},
            ],
            "layer 2 (transformer_block): hidden = [1, 2] is not a number; give a whole number",
        ),
        ([{"layer": 10**5000}], "layer 1 (a number of 5,001 digits)"),
    ],
)
def test_tables_of_layers_are_refused_in_words(rows, words):
    with pytest.raises(ValueError) as problem:
        cb.model(rows, **({} if rows[0].get("vocab") else {"input": (3,)}))
    assert words in str(problem.value)


# ---- Keras -----------------------------------------------------------------------------------------------------------


def functional(layers, last):
    first = {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [None, 8]}, "inbound_nodes": []}
    config = {"layers": [first, *layers], "input_layers": [["i", 0, 0]], "output_layers": [[last, 0, 0]]}
    return {"class_name": "Functional", "config": config}


def taking(kind, name, needs, **config):
    return {"class_name": kind, "config": {"name": name, **config}, "inbound_nodes": [needs]}


def test_layers_in_any_order_are_read_in_one_pass(within):
    """4,000 layers, the last of them first in the file: the time grows as their number."""
    times = 4000
    layers = [taking("Dense", f"d{n}", [[f"d{n - 1}" if n else "i", 0, 0, {}]], units=8) for n in range(times)]
    with within(6):
        assert cb.model(functional(layers[::-1], f"d{times - 1}")).ops.parameter_count == times * 72


@pytest.mark.parametrize("which", [-5, -1, 0, 7, 10**400])
def test_a_tensor_of_any_number_is_one_of_those_that_there_are(which):
    layers = [taking("Dense", "d", [["i", 0, which, {}]], units=2)]
    assert cb.model(functional(layers, "d")).ops.parameter_count == 18


@pytest.mark.parametrize("share", [True, False])
def test_references_of_keras_are_counted(refused, share):
    """300 layers that each take 1,000 tensors; and one list within itself six deep, a million in all."""
    needs = [["i", 0, 0, {}]] * 1000
    layers = [taking("Add", f"a{n}", needs) for n in range(300)]
    if share:
        needs = [["i", 0, 0, {}]] * 10
        for _ in range(5):
            needs = [needs] * 10
        layers = [taking("Add", "a299", needs)]
    assert "refer to each other more than 250,000 times" in refused(functional(layers, "a299"))


def test_a_model_within_a_model_is_counted_each_time(refused):
    """Eight layers of eight of eight of eight of eight, each a reference to the same."""
    inner = {"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense", "config": {"units": 8}}]}}
    for _ in range(5):
        inner = {"class_name": "Sequential", "config": {"layers": [inner] * 8}}
    first = {"class_name": "InputLayer", "config": {"batch_shape": [None, 8]}}
    words = refused({"class_name": "Sequential", "config": {"layers": [first, inner]}})
    assert "more than 5,000 layers" in words


def archive(method=zipfile.ZIP_DEFLATED, others=0, name="config.json"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        file.writestr("metadata.json", "{}")
        file.writestr(name, json.dumps(functional([taking("Dense", "d", [["i", 0, 0, {}]], units=2)], "d")))
        for number in range(others):
            file.writestr(f"{number:0100}", "")
    return stream.getvalue()


def test_archives_are_opened_for_one_file_alone(refused):
    """Nothing is unpacked to a path; other methods of packing may ask for gigabytes before they give a byte."""
    assert cb.model(archive(others=10)).ops.parameter_count == 18
    for wrong in (
        archive(zipfile.ZIP_LZMA),
        archive(zipfile.ZIP_BZIP2),
        archive(name="../config.json"),
        archive(others=30_000),
    ):
        assert "a zip archive" in refused(wrong)


@pytest.mark.all
def test_what_is_refused_takes_little_memory():
    """References of Keras, lists of JSON and fields of protobuf by the hundred thousand; the text itself has 2 MB."""
    needs = [["i", 0, 0, {}]] * 1000
    sources = [
        functional([taking("Add", f"a{n}", needs) for n in range(300)], "a299"),
        b'{"a": [' + b"[]," * 700_000 + b"[]]}",
    ]
    tracemalloc.start()
    try:
        for source in sources:
            with pytest.raises(ValueError, match=r"at most|more than"):
                cb.model(source)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


# ---- ONNX ------------------------------------------------------------------------------------------------------------


def graph(nodes, functions=()):
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1, 1, 4])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_graph([helper.make_node(*each[:3], **each[3]) for each in nodes], "g", inputs, outputs)
    return helper.make_model(made, functions=functions, opset_imports=opsets).SerializeToString()


@needs_onnx
@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("LSTM", 3),
        ("GRU", 3),
        ("RNN", 3),
        ("Gemm", 2),
        ("Conv", 2),
        ("MatMul", 2),
        ("BatchNormalization", 5),
        ("Gather", 2),
        ("QLinearConv", 8),
        ("MaxPool", 1),
        ("Softmax", 1),
        ("Relu", 1),
    ],
)
def test_a_node_of_too_few_inputs_is_named(kind, needed):
    for few in range(needed):
        with pytest.raises(
            ValueError,
            match=f"{kind} number 1 of 1 nodes of the ONNX graph has {few} inputs and "
            f"needs {needed}; export the graph again",
        ):
            cb.model(graph([(kind, ["x"] * few, ["y"], {"hidden_size": 4})]))


@needs_onnx
def test_graphs_without_end_are_refused(refused):
    """Many nodes, many inputs of few nodes, and more than a million empty nodes in three megabytes."""
    chain = [("Relu", [f"x{n}" if n else "x"], [f"x{n + 1}"], {}) for n in range(limits.MAX_NODES + 1)]
    assert "the ONNX graph has 50,001 nodes" in refused(graph(chain), 12)
    wide = [("Sum", ["x"] * 3000, [f"y{n}"], {}) for n in range(100)]
    assert "the nodes of the ONNX graph have 300,000 inputs" in refused(graph(wide), 12)
    empty = b"\x0a\x00" * 1_600_000
    length = len(empty)
    size = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14 & 127 | 128, length >> 21])
    assert "the ONNX file has more than 1,500,000 fields" in refused(b"\x08\x08\x3a" + size + empty, 12)


@needs_onnx
def test_functions_that_call_each_other_twice_are_refused(refused):
    """Forty of them in three kilobytes are 2 to the power of 40 nodes."""
    from onnx import helper

    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    functions = [helper.make_function("own", "f0", ["a"], ["b"], body, opsets)]
    for number in range(1, 40):
        call = f"f{number - 1}"
        body = [helper.make_node(call, ["a"], ["c"], domain="own"), helper.make_node(call, ["c"], ["b"], domain="own")]
        functions.append(helper.make_function("own", f"f{number}", ["a"], ["b"], body, opsets))
    data = graph([("f39", ["x"], ["y"], {"domain": "own"})], functions)
    assert "has 40 functions of its own" in refused(data)


@needs_onnx
@pytest.mark.parametrize("dims", [[2**40, 2**40], [3] * 40, [-1, 4]])
def test_tensors_that_cannot_be_are_named(dims):
    from onnx import TensorProto, helper, load_model_from_string

    model = load_model_from_string(graph([("Relu", ["x"], ["y"], {})]))
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [0], []))
    model.graph.initializer[0].dims[:] = dims
    with pytest.raises(ValueError, match=r"tensor 'w' of the ONNX graph has the shape .*, which cannot be"):
        cb.model(model.SerializeToString())


@needs_onnx
def test_names_that_are_no_text_are_told():
    """The library's own words of such a graph hold the bytes as they are."""
    data = graph([("Reshape", ["x"], ["y"], {"name": "unlikely"})])
    with pytest.raises(ValueError, match="the ONNX graph has a name that is no text; the file is damaged"):
        cb.model(data.replace(b"unlikely", b"\xff\xfelikely"))


# ---- every field of every format, with what does not belong there ----------------------------------------------------

STRANGE = (None, True, -1, 0, 10**9, 2**62, 1.5, "", "x", "3", [], {}, [1, 2], ["a"], [[1]], {"a": 1}, [None] * 50)


def encoded(value):
    """A value as GGUF has it: type and content."""
    if value is None or isinstance(value, str):
        return struct.pack("<I", 8) + FILES.text(value or "")
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<Id", 12, value)
    if isinstance(value, int):
        return struct.pack("<Iq", 11, value)
    members = [encoded(each) for each in value] or [encoded(1)]
    return (
        struct.pack("<I", 9) + members[0][:4] + struct.pack("<Q", len(members)) + b"".join(each[4:] for each in members)
    )


def of_gguf():
    """A header with each of its keys changed, those of experts and of latent attention too."""
    keys = [f"llama.{key}" for key in tables.gguf_names("key")]
    full = FILES.METADATA | {key: 8 for key in keys if key not in FILES.METADATA}
    for (key, value), base in itertools.product(itertools.product(full, STRANGE), (FILES.METADATA, full)):
        metadata = base | {key: value}
        data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata))
        yield data + b"".join(FILES.text(name) + encoded(each) for name, each in metadata.items())


def of_safetensors():
    for field, value in itertools.product(("dtype", "shape", "data_offsets", "a", "__metadata__"), STRANGE):
        header = {"a": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}}
        (header if field in ("a", "__metadata__") else header["a"])[field] = value
        text = json.dumps(header).encode()
        yield struct.pack("<Q", len(text)) + text + bytes(12)


def of_configurations():
    for config in (*CONFIGURATIONS.OTHERS.values(), CONFIGURATIONS.NEMOTRON, CONFIGURATIONS.QWEN):
        for field, value in itertools.product(config, STRANGE):
            yield config | {field: value}


def of_keras():
    """Each class of layer with each of the fields that any layer has."""
    fields = (
        "units",
        "filters",
        "kernel_size",
        "strides",
        "padding",
        "groups",
        "dilation_rate",
        "pool_size",
        "axis",
        "activation",
        "target_shape",
        "dims",
        "n",
        "size",
        "cropping",
        "shared_axes",
        "layer",
        "num_heads",
        "key_dim",
        "input_dim",
        "rate",
        "merge_mode",
        "name",
        "inbound_nodes",
    )
    usual = {
        "units": 4,
        "filters": 4,
        "kernel_size": 3,
        "num_heads": 2,
        "key_dim": 4,
        "input_dim": 9,
        "output_dim": 4,
        "target_shape": [-1],
        "dims": [1],
        "n": 2,
        "padding": "same",
        "height": 4,
        "width": 4,
    }
    for kind, field, value in itertools.product(tables.operations("keras"), fields, STRANGE):
        layer = {"class_name": kind, "config": usual | {field: value}}
        first = {"class_name": "InputLayer", "config": {"batch_shape": [None, 8, 8, 3]}}
        yield {"class_name": "Sequential", "config": {"layers": [first, layer]}}


def of_caffe():
    """Each class of layer with each of its parameters."""
    groups = {
        "convolution_param": ("num_output", "kernel_size", "stride", "pad", "group", "dilation", "bias_term"),
        "pooling_param": ("pool", "kernel_size", "global_pooling"),
        "inner_product_param": ("num_output",),
        "concat_param": ("axis",),
        "eltwise_param": ("operation",),
        "recurrent_param": ("num_output",),
        "scale_param": ("bias_term",),
        "slice_param": ("slice_point",),
    }
    words = ("-1", "0", "1.5", "1e400", "nan", "true", '"x"', "{ a: 1 }", "9" * 30, "MAX", "")
    for kind, (group, names), word in itertools.product(tables.operations("caffe"), groups.items(), words):
        for name in names:
            fields = f"{group} {{ {name} {word if word.startswith('{') else ': ' + word} }}"
            yield FILES.prototxt((kind, "l", "data", "l", fields), (kind, "m", "", "m", fields), side=4)


def of_archives():
    whole = archive()
    for at in range(0, len(whole), 3):
        yield whole[:at] + b"\xff\xff\x7f" + whole[at + 3 :]
        yield whole[:at]


FORMATS = {
    "gguf": of_gguf,
    "safetensors": of_safetensors,
    "configuration": of_configurations,
    "keras": of_keras,
    "caffe": of_caffe,
    "archive": of_archives,
}
# What Python says of a mistake of ours.
RAW = (
    "unpack",
    "object is not",
    "unsupported operand",
    "invalid literal",
    "could not convert",
    "set_int_max",
    "out of range",
    "broadcast",
    "object has no",
    "takes no",
    "not subscriptable",
)


def wrong(source):
    """What goes wrong with a source, "" where it gives a network or a refusal in words."""
    try:
        assert cb.model(copy.deepcopy(source)).ops.parameter_count <= limits.MAX_PARAMETERS
    except (ValueError, UnknownName) as problem:
        words = str(problem)
        return words if any(each in words for each in RAW) or not 8 <= len(words) <= 900 else ""
    except Exception as problem:  # what a reader should never see
        return f"{type(problem).__name__}: {problem}"
    return ""


@pytest.mark.parametrize("kind", FORMATS)
def test_a_strange_field_gives_a_network_or_a_sentence(kind, within):
    """One in thirteen of them; thirteen is no divisor of the number of strange values."""
    with within(60):
        assert not {words for words in map(wrong, itertools.islice(FORMATS[kind](), 0, None, EVERY)) if words}


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_every_strange_field_gives_a_network_or_a_sentence(kind, within):
    with within(600):
        assert not {words for words in map(wrong, FORMATS[kind]()) if words}
