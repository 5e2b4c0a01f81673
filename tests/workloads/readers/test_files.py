"""Models that people bring as files: headers of checkpoints, prototxt, tables of layers, and whatever lies about."""

import json
import math
import os
import re
import struct

import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.workloads.readers import tensors

LLAMA = {
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "tie_word_embeddings": False,
}
# 2 x 320 x 64 of embedding and head; each layer 64 x 64 + 2 x 64 x 32 + 64 x 64, 3 x 64 x 160 and two norms; one norm.
LLAMA_PARAMETERS = 2 * 320 * 64 + 2 * (4096 + 4096 + 4096 + 30720 + 128) + 64


def llama_tensors(names=("model.embed_tokens", "lm_head", "model.norm", "model.layers.{}."), gguf=False):
    """Names and shapes of the tensors of that network, as either format writes them."""
    layer = {
        "self_attn.q_proj": (64, 64),
        "self_attn.k_proj": (32, 64),
        "self_attn.v_proj": (32, 64),
        "self_attn.o_proj": (64, 64),
        "mlp.gate_proj": (160, 64),
        "mlp.up_proj": (160, 64),
        "mlp.down_proj": (64, 160),
        "input_layernorm": (64,),
        "post_attention_layernorm": (64,),
    }
    found = {f"{names[0]}.weight": (320, 64), f"{names[1]}.weight": (320, 64), f"{names[2]}.weight": (64,)}
    for number in range(2):
        found |= {f"{names[3].format(number)}{name}.weight": shape for name, shape in layer.items()}
    return {name: shape[::-1] for name, shape in found.items()} if gguf else found


def safetensors(shapes, dtype="BF16", bytes_each=2):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = math.prod(shape) * bytes_each
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def text(words):
    return struct.pack("<Q", len(words.encode())) + words.encode()


def value(each):
    if isinstance(each, str):
        return struct.pack("<I", 8) + text(each)
    if isinstance(each, float):
        return struct.pack("<If", 6, each)
    if isinstance(each, list):
        inner = (
            b"".join(text(one) for one in each) if isinstance(each[0], str) else struct.pack(f"<{len(each)}I", *each)
        )
        return struct.pack("<IIQ", 9, 8 if isinstance(each[0], str) else 4, len(each)) + inner
    return struct.pack("<II", 4, each)


def gguf(metadata, shapes, kinds=None):
    """A GGUF file of version 3; `kinds`: number of ggml's type by tensor, F16 unless given."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    out += b"".join(text(key) + value(each) for key, each in metadata.items())
    for name, shape in shapes.items():
        out += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", (kinds or {}).get(name, 0 if len(shape) == 1 else 1), 0)
    return out


METADATA = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 160,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 2048,
    "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.tokens": [f"t{n}" for n in range(320)],
    "tokenizer.ggml.token_type": list(range(320)),
}
GGUF_TENSORS = llama_tensors(("token_embd", "output", "output_norm", "blk.{}."), gguf=True)


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_gguf_header_is_a_network_and_its_formats():
    """All matrices in Q4_K: 4.5 bits; 320 + 5 x 64 numbers of norms in F32."""
    quantised = {name: 12 for name, shape in GGUF_TENSORS.items() if len(shape) == 2}
    model = cb.model(gguf(METADATA, GGUF_TENSORS, quantised))
    assert model.title == "Tiny" and model.ops.parameter_count == LLAMA_PARAMETERS and model.arguments["kv_heads"] == 2
    assert dict(model.stored) == {"Q4_K": LLAMA_PARAMETERS - 5 * 64, "F32": 5 * 64}
    bits = (4.5 * (LLAMA_PARAMETERS - 320) + 32 * 320) / LLAMA_PARAMETERS
    assert f"stored at {bits:.2f} bits a weight (Q4_K, F32)" in repr(model)


def test_gguf_tells_what_a_configuration_would():
    """No output matrix: tied; biases of queries and a norm of heads by their tensors' names and the family."""
    tied = {name: shape for name, shape in GGUF_TENSORS.items() if name != "output.weight"}
    assert cb.model(gguf(METADATA, tied)).arguments["tied"] is True
    expert = METADATA | {"llama.expert_count": 4, "llama.expert_used_count": 2}
    assert dict(cb.model(gguf(expert, {})).arguments["experts"])["number"] == 4
    latent = {"general.architecture": "deepseek2"} | {
        key.replace("llama", "deepseek2"): each for key, each in METADATA.items()
    }
    latent |= {
        "general.architecture": "deepseek2",
        "deepseek2.attention.kv_lora_rank": 16,
        "deepseek2.attention.key_length": 24,
        "deepseek2.attention.value_length": 16,
        "deepseek2.rope.dimension_count": 8,
    }
    found = dict(cb.model(gguf(latent, {})).arguments["latent"])
    assert (found["nope_dim"], found["rope_dim"], found["v_dim"], found["kv_rank"]) == (16, 8, 16, 16)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("expert_count", "many", "num_experts = 'many' is not a number; give a whole number"),
        ("expert_count", ["a", "b"], "llama.expert_count of the GGUF header is a list of 2 and must"),
        ("expert_count", 2.5, "num_experts = 2.5 is not whole; give a whole number"),
        ("block_count", ["two"], "llama.block_count of the GGUF header is a list of 1 and must"),
        ("attention.head_count", "4", "num_attention_heads = '4' is not a number; give a whole number"),
        ("moe_latent_size", 8, "moe_latent_size = 8 is not known here"),
        ("attention.indexer.top_k", 2048, "attention_indexer_top_k = 2048 is not known here"),
        ("ssm.state_size", 16, "ssm_state_size = 16 is not known here"),
    ],
)
def test_figures_of_a_gguf_are_checked_as_those_of_a_configuration(key, value, words):
    """A text or a list where a number belongs, and keys that change counts."""
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.model(gguf(METADATA | {f"llama.{key}": value}, GGUF_TENSORS))


def test_keys_of_a_gguf_that_change_no_count_are_not_refused():
    quiet = {"llama.expert_weights_scale": 2.5, "llama.expert_gating_func": 2, "llama.expert_group_count": 8}
    assert cb.model(gguf(METADATA | quiet, GGUF_TENSORS)).ops.parameter_count == LLAMA_PARAMETERS


def test_a_checkpoint_whose_parameters_differ_says_so():
    short = {name: shape for name, shape in GGUF_TENSORS.items() if "mlp.up" not in name}
    assert "elements, -" in repr(cb.model(gguf(METADATA, short)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:30], "the GGUF header ends early"),
        (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "is of version 1"),
        (lambda data: data[:8] + struct.pack("<Q", 2**60) + data[16:], "tensors; at most 200,000 are read"),
        (lambda data: data[:16] + struct.pack("<Q", 2**60) + data[24:], "pairs of metadata; at most 4,096 are read"),
        (lambda data: data[:24] + struct.pack("<Q", 2**60) + data[32:], "letters in one text"),
        (
            lambda data: data.replace(text("general.architecture"), text("general.architectural")),
            "names no general.architecture",
        ),
    ],
)
def test_a_damaged_gguf_is_told(damage, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.model(damage(gguf(METADATA, GGUF_TENSORS)))


def test_lists_without_end_are_refused(within):
    """A list of four thousand million members, and lists in lists without end."""
    begin = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a")
    with within(3):
        for rest in (
            struct.pack("<IIQ", 9, 0, 2**32),
            struct.pack("<IIQ", 9, 9, 2) * 50,
            struct.pack("<II", 9, 77) + bytes(80),
        ):
            with pytest.raises(ValueError, match="GGUF header"):
                cb.model(begin + rest)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors").write_bytes(safetensors(llama_tensors()))
    return tmp_path


def test_a_checkpoint_is_read_with_the_configuration_beside_it(checkpoint):
    for source in (checkpoint, checkpoint / "model.safetensors", str(checkpoint / "config.json"), str(checkpoint)):
        model = cb.model(source)
        assert model.ops.parameter_count == LLAMA_PARAMETERS and dict(model.stored) == {"BF16": LLAMA_PARAMETERS}
        assert any("stored at 16.00 bits a weight (BF16)" in each for each in model.assumed)
        assert model.title == checkpoint.name[:100]


def test_a_checkpoint_without_a_configuration_says_what_is_in_it(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(safetensors(llama_tensors()))
    words = f"the checkpoint has 21 tensors of {LLAMA_PARAMETERS:,} elements (BF16"
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.model(path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": 3}))
    assert any("the checkpoint holds" in each for each in cb.model(path).assumed)


def test_an_index_gives_the_size_where_it_has_no_more(tmp_path):
    """Two bytes for each of the parameters are 16 bits."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": LLAMA_PARAMETERS * 2}, "weight_map": {"a": "b"}}))
    assert any("16.00 bits for each parameter counted here" in each for each in cb.model(tmp_path).assumed)


def test_an_index_gives_the_total_where_it_has_one(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_parameters": LLAMA_PARAMETERS * 2}, "weight_map": {"a": "b"}}))
    for source in (index, tmp_path):
        assert any(f"holds {2 * LLAMA_PARAMETERS:,} elements, +100.0 %" in each for each in cb.model(source).assumed)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack("<Q", 50) + b"{" + b" " * 60, "the safetensors header is not valid JSON"),
        (struct.pack("<Q", 15) + b'{"a": {"x": 1}}' + bytes(20), "tensor 'a' of the safetensors header has no shape"),
        (safetensors({"a": (2, 3)}).replace(b"[2, 3]", b"[2,-3]"), "tensor 'a' of the safetensors header has no shape"),
    ],
)
def test_damaged_safetensors_are_told(data, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        cb.model(data)


def test_tensors_are_counted_by_format():
    data = safetensors({"a": (2, 3), "b": (4,)}) + b""
    import io

    header = tensors.safetensors_header(io.BytesIO(data), len(data))
    assert header.stored == {"BF16": 10.0} and header.bits_a_weight() == 16


# ---- prototxt -------------------------------------------------------------------------------------------------------


def prototxt(*layers, side=224):
    """A network as Caffe writes it; a layer is (type, name, bottom, top, fields)."""
    words = [f'name: "net" input: "data" input_shape {{ dim: 1 dim: 3 dim: {side} dim: {side} }}']
    words += [
        f'layer {{ name: "{name}" type: "{kind}" '
        + " ".join(f'bottom: "{each}"' for each in bottom.split())
        + f' top: "{top}" {fields} }}'
        for kind, name, bottom, top, fields in layers
    ]
    return "\n".join(words)


def vgg16():
    layers, x = [], "data"
    for stage, (width, times) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for number in range(times):
            name = f"conv{stage}_{number}"
            fields = f"convolution_param {{ num_output: {width} kernel_size: 3 pad: 1 }}"
            layers += [("Convolution", name, x, name, fields), ("ReLU", f"relu_{name}", name, name, "")]
            x = name
        layers.append(
            ("Pooling", f"pool{stage}", x, f"pool{stage}", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
        )
        x = f"pool{stage}"
    for name, width in (("fc6", 4096), ("fc7", 4096), ("fc8", 1000)):
        layers.append(("InnerProduct", name, x, name, f"inner_product_param {{ num_output: {width} }}"))
        x = name
    return prototxt(*layers, ("Softmax", "prob", x, "prob", ""))


def resnet50():
    """With the stride on the first convolution of a block, and a norm and a scale after each (He et al., 2015)."""
    layers = []

    def conv(x, name, width, kernel, stride=1, relu=True):
        sizes = f"num_output: {width} kernel_size: {kernel} stride: {stride} pad: {kernel // 2}"
        fields = f"convolution_param {{ {sizes} bias_term: false }}"
        layers.extend(
            [
                ("Convolution", name, x, name, fields),
                ("BatchNorm", f"bn_{name}", name, name, ""),
                ("Scale", f"scale_{name}", name, name, "scale_param { bias_term: true }"),
            ]
        )
        if relu:
            layers.append(("ReLU", f"relu_{name}", name, name, ""))
        return name

    x = conv("data", "conv1", 64, 7, 2)
    layers.append(("Pooling", "pool1", x, "pool1", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"))
    x = "pool1"
    for stage, times in enumerate((3, 4, 6, 3)):
        for number in range(times):
            name, stride = f"s{stage}b{number}", 2 if stage and not number else 1
            y = conv(x, f"{name}_1", 64 * 2**stage, 1, stride)
            y = conv(conv(y, f"{name}_2", 64 * 2**stage, 3), f"{name}_3", 256 * 2**stage, 1, relu=False)
            short = x if number else conv(x, f"{name}_0", 256 * 2**stage, 1, stride, relu=False)
            layers.extend(
                [
                    ("Eltwise", f"{name}_add", f"{short} {y}", f"{name}_add", ""),
                    ("ReLU", f"{name}_relu", f"{name}_add", f"{name}_add", ""),
                ]
            )
            x = f"{name}_add"
    layers.append(("Pooling", "pool5", x, "pool5", "pooling_param { pool: AVE global_pooling: true }"))
    layers.append(("InnerProduct", "fc", "pool5", "fc", "inner_product_param { num_output: 1000 }"))
    return prototxt(*layers)


@pytest.mark.parametrize(("words", "name"), [(vgg16(), "vgg16"), (resnet50(), "resnet50")])
def test_a_prototxt_is_the_network_of_the_zoo(words, name):
    """Parameters equal, FLOP within 1 %."""
    mine, zoo = cb.model(words), cb.model(name)
    assert mine.ops.parameter_count == zoo.ops.parameter_count and mine.title == "net"
    assert float(mine.ops.total("macs")) == pytest.approx(float(zoo.ops.total("macs")), rel=0.01)


def test_the_first_version_of_the_format_is_read_too():
    """3 x 8 x 3 x 3 and 8 of the convolution; 8 x 4 x 4 x 5 and 5 of the product."""
    words = """name: "old" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8   # a comment
    layers { name: "c" type: CONVOLUTION bottom: "data" top: "c"
             convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 } }
    layers { name: "r" type: RELU bottom: "c" top: "c" }
    layers { name: "f" type: INNER_PRODUCT bottom: "c" top: "f" inner_product_param { num_output: 5 } }"""
    model = cb.model(words)
    assert model.ops.parameter_count == 3 * 8 * 9 + 8 + 8 * 16 * 5 + 5
    assert float(model.ops.total("macs")) == 16 * 8 * 27 + 8 * 16 * 5


def test_the_input_of_a_prototxt_may_be_given_or_stand_in_its_data_layer():
    sizes = "convolution_param { num_output: 2 kernel_size: 1 }"
    conv = f'layer {{ name: "c" type: "Convolution" bottom: "data" top: "c" {sizes} }}'
    data = 'layer { name: "data" type: "Data" top: "data" top: "label" transform_param { crop_size: 10 } }'
    shape = "shape { dim: __BATCH__ dim: 3 dim: 5 dim: 5 }"
    template = f'#synthetic layer {{ type: "Input" top: "data" input_param {{ {shape} }} }}\n'
    assert float(cb.model(data + conv).ops.total("macs")) == 600
    assert float(cb.model(template + conv).ops.total("macs")) == 150
    bare = 'layer { name: "data" type: "Data" top: "data" }' + conv
    assert float(cb.model(bare, shape=(3, 4, 4)).ops.total("macs")) == 96
    with pytest.raises(ValueError, match=r"the shape of input 'data' is not in the prototxt; give shape="):
        cb.model(bare)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("layer { " * 20, "nested deeper than 16"),
        ('layer { name: "a" }}', "closes a message that was not opened"),
        ('layer { name: "a', "ends within a text"),
        ('layer { name: "a" ', "ends within a message"),
        ('layer { name: "a" type: "ReLU" bottom: "x" top: "y" }', "the prototxt has no input"),
        (
            prototxt(("ReLU", "r", "nothing", "r", "")),
            "layer 'r' of the prototxt needs 'nothing', which no layer makes",
        ),
        (
            prototxt(("Convolution", "c", "data", "c", "")),
            "layer 'c' (Convolution) of the prototxt: num_output is missing",
        ),
        (
            prototxt(("Convolution", "c", "data", "c", "convolution_param { num_output: 4 kernel_size: 9 }"), side=4),
            "does not fit",
        ),
    ],
)
def test_a_prototxt_that_cannot_be_is_told(words, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        cb.model(words)


def test_layers_of_unknown_work_are_named():
    words = prototxt(
        ("InnerProduct", "f", "data", "f", "inner_product_param { num_output: 2 }"),
        ("Wonder", "w", "f", "w", ""),
        side=2,
    )
    assert "layers left out, since their work is not known: Wonder" in cb.model(words).assumed[0]


# ---- tables of layers, and the door ---------------------------------------------------------------------------------


def test_a_table_of_layers_is_reached_by_the_same_door(tmp_path):
    """The same network as a list, as JSON with its input, as CSV and as CSV with semicolons."""
    rows = [
        {"layer": "conv", "out": 8, "kernel": 3, "padding": 1, "bias": False},
        {"layer": "flatten"},
        {"layer": "linear", "out": 10},
    ]
    path = tmp_path / "layers.csv"
    path.write_text("layer,out,kernel,padding,bias\nconv,8,3,1,false\nflatten,,,,\nlinear,10,,,\n")
    found = [
        cb.model(rows, input=(3, 8, 8)),
        cb.model(json.dumps({"layers": rows, "input": [3, 8, 8], "title": "Mine"})),
        cb.model(path, input=(3, 8, 8)),
        cb.model(path.read_bytes().replace(b",", b";"), input=(3, 8, 8)),
    ]
    assert {each.ops.parameter_count for each in found} == {3 * 8 * 9 + 8 * 64 * 10 + 10}
    assert (
        found[1].title == "Mine"
        and found[0].ops.parameter_count == cb.layers(rows, input=(3, 8, 8)).ops.parameter_count
    )
    with pytest.raises(ValueError, match="a table of layers has no argument 'batch'; it has input, title"):
        cb.model(rows, batch=3)


def test_a_name_of_the_zoo_wins_over_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resnet50").write_text("{")
    assert cb.model("resnet50").name == "resnet50"
    with pytest.raises(catalog.UnknownName, match="resnet5000"):
        cb.model("resnet5000")


def test_what_is_in_a_file_counts_and_not_its_name(tmp_path):
    path = tmp_path / "thing.onnx"
    path.write_text("\ufeff " + json.dumps(LLAMA), encoding="utf-8")
    assert cb.model(path).ops.parameter_count == LLAMA_PARAMETERS
    assert cb.model(json.dumps(LLAMA)).title == "llama" and cb.model(LLAMA, title="Mine").title == "Mine"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no/such/config.json", "model = 'no/such/config.json': there is no such file"),
        ("missing.gguf", "model = 'missing.gguf': there is no such file"),
        (b"", "the file is empty"),
        (b"\x80\x04\x95abc", "a pickle, which runs code when it is opened"),
        (b"PK\x03\x04abc", "a zip archive, as PyTorch, Keras and torch.export write them"),
        (b"\x89HDF\r\n", "an HDF5 file"),
        (b"\x1f\x8b\x08", "a compressed file"),
        (b"\0\1\2\3" * 9, "is of no known format; give a config.json"),
        (b"\xff\xfe\xfd abc", "is of no known format"),
        ("hello\nworld", "is of no known format"),
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "the layer table must be a list with at least one layer"),
        (7, "model = 7 is no name, path, configuration, table of layers or PyTorch module"),
        (None, "model = None is no name"),
        ("x\0y", "x"),
    ],
)
def test_what_cannot_be_a_model_is_told(source, words):
    with pytest.raises((ValueError, KeyError), match=re.escape(words)):
        cb.model(source)


def test_folders_and_strange_files_are_told(tmp_path):
    with pytest.raises(ValueError, match=r"the folder has no config.json"):
        cb.model(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is no ordinary file"):
        cb.model(tmp_path / "pipe")
    (tmp_path / "large.json").write_text("{" + " " * 9_000_000)
    with pytest.raises(ValueError, match=r"has 9,000,001 bytes of text; at most 8,388,608 are read"):
        cb.model(tmp_path / "large.json")


def test_a_network_is_no_source():
    with pytest.raises(ValueError, match=r"cb.model takes a name, a file or a module"):
        cb.model(cb.model("resnet50"))


@pytest.mark.parametrize(
    ("folder", "file", "config", "title"),
    [
        ("", "config.json", {}, "llama"),
        ("", "config.json", {"_name_or_path": "org/Tiny"}, "org/Tiny"),
        ("", "config.json", {"_name_or_path": "/srv/run"}, "llama"),
        ("", "my-7b.json", {}, "my-7b"),
        ("Tiny-1B", "config.json", {}, "Tiny-1B"),
        ("Downloads", "config.json", {}, "llama"),
        ("models--org--Tiny-1B/snapshots/0a1b", "config.json", {}, "Tiny-1B"),
        ("", "config.json", {"model_type": "", "architectures": ["TinyForCausalLM"]}, "TinyForCausalLM"),
        ("", "config.json", {"model_type": ""}, "Your model"),
    ],
)
def test_a_model_is_called_what_its_file_says_and_not_where_it_lies(folder, file, config, title, tmp_path, monkeypatch):
    """`tmp_path` stands for the folder of temporary files of a machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(LLAMA | config))
    assert cb.model(path).title == title
    scratch = tmp_path / "tmpq1w2e3"
    scratch.mkdir()
    (scratch / "config.json").write_text(json.dumps(LLAMA))
    assert cb.model(scratch).title == "llama"


def test_a_file_that_says_no_name_has_its_own(tmp_path, monkeypatch):
    """A prototxt in the folder of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "model.prototxt"
    path.write_text("""
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 2 } }""")
    assert cb.model(path).title == "model"
