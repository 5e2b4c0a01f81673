"""Architectures as Keras writes them: parameters as published, shared layers once, and no code run."""

import io
import json
import zipfile

import pytest

import cookbook as cb

# Parameters of Keras Applications, https://keras.io/api/applications/ (column Parameters, in millions, all of them):
# those that train, and the two moving statistics that each channel of a batch norm has beside them.
PUBLISHED = {"vgg16": 138.4, "resnet50": 25.6, "mobilenetv2": 3.5}


class Builder:
    """Writes a Functional model in the words of Keras 3, or of Keras 2."""

    def __init__(self, shape, version=3):
        self.version, self.layers, self.count = version, [], 0
        self.normed = 0
        self.last = self.put("InputLayer", [], batch_shape=[None, *shape], name="input")

    def put(self, kind, inputs, name=None, **config):
        name = name or f"{kind.lower()}_{len(self.layers)}"
        tensors = [
            {"class_name": "__keras_tensor__", "config": {"shape": [None], "keras_history": [each, 0, 0]}}
            for each in inputs
        ]
        nodes = [{"args": tensors if len(tensors) == 1 else [tensors], "kwargs": {}}]
        if self.version == 2:
            nodes = [[[each, 0, 0, {}] for each in inputs]]
            config = {("batch_input_shape" if key == "batch_shape" else key): value for key, value in config.items()}
        self.layers.append(
            {
                "class_name": kind,
                "name": name,
                "config": {"name": name, **config},
                "inbound_nodes": nodes if inputs else [],
            }
        )
        self.last = name
        return name

    def conv(self, x, filters, kernel=1, stride=1, bias=False, kind="Conv2D", **more):
        sizes = {"kernel_size": [kernel, kernel], "strides": [stride, stride], "padding": "same", "use_bias": bias}
        return self.put(kind, [x], **sizes, **({} if kind.startswith("Depth") else {"filters": filters}), **more)

    def normed_conv(self, x, filters, kernel=1, stride=1, act="relu", bias=False, kind="Conv2D"):
        x = self.put("BatchNormalization", [self.conv(x, filters, kernel, stride, bias, kind)])
        self.normed += filters
        return (
            self.put("ReLU", [x], max_value=6.0)
            if act == "relu6"
            else self.put("Activation", [x], activation=act)
            if act
            else x
        )

    def model(self, name):
        ends = [["input", 0, 0]], [[self.last, 0, 0]]
        config = {"name": name, "layers": self.layers, "input_layers": ends[0], "output_layers": ends[1]}
        return {"class_name": "Functional" if self.version == 3 else "Model", "config": config, "keras_version": "x"}


def vgg16(version=3):
    """Simonyan and Zisserman 2014, configuration D, a bias in each layer."""
    b = Builder((224, 224, 3), version)
    for filters, times in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(times):
            b.conv(b.last, filters, 3, bias=True, activation="relu")
        b.put("MaxPooling2D", [b.last], pool_size=[2, 2], strides=[2, 2], padding="valid")
    b.put("Flatten", [b.last])
    for units, act in ((4096, "relu"), (4096, "relu"), (1000, "softmax")):
        b.put("Dense", [b.last], units=units, activation=act, use_bias=True)
    return b.model("vgg16"), b.normed


def resnet50(version=3):
    """He et al. 2015 as Keras has it: a bias in each convolution, the stride in the first one of a block."""
    b = Builder((224, 224, 3), version)
    b.put("ZeroPadding2D", ["input"], padding=[[3, 3], [3, 3]])
    b.conv(b.last, 64, 7, 2, True)
    b.layers[-1]["config"]["padding"] = "valid"
    b.put("BatchNormalization", [b.last])
    b.normed += 64
    x = b.put("Activation", [b.last], activation="relu")
    b.put("ZeroPadding2D", [x], padding=[[1, 1], [1, 1]])
    x = b.put("MaxPooling2D", [b.last], pool_size=[3, 3], strides=[2, 2], padding="valid")
    for filters, times, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(times):
            step = stride if at == 0 else 1
            side = b.normed_conv(x, 4 * filters, 1, step, None, True) if at == 0 else x
            y = b.normed_conv(b.normed_conv(x, filters, 1, step, "relu", True), filters, 3, 1, "relu", True)
            x = b.put(
                "Activation", [b.put("Add", [side, b.normed_conv(y, 4 * filters, 1, 1, None, True)])], activation="relu"
            )
    b.put("Dense", [b.put("GlobalAveragePooling2D", [x], keepdims=False)], units=1000, activation="softmax")
    return b.model("resnet50"), b.normed


def mobilenetv2(version=3):
    """Sandler et al. 2018, table 2."""
    b = Builder((224, 224, 3), version)
    x, width = b.normed_conv("input", 32, 3, 2, "relu6"), 32
    for factor, out, times, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for at in range(times):
            wide = factor * width
            y = b.normed_conv(x, wide, 1, 1, "relu6") if factor > 1 else x
            y = b.normed_conv(y, wide, 3, stride if at == 0 else 1, "relu6", kind="DepthwiseConv2D")
            y = b.normed_conv(y, out, 1, 1, None)
            x, width = (b.put("Add", [x, y]) if at else y), out
    x = b.normed_conv(x, 1280, 1, 1, "relu6")
    b.put("Dense", [b.put("GlobalAveragePooling2D", [x])], units=1000, activation="softmax")
    return b.model("mobilenetv2_1.00_224"), b.normed


BUILT = {"vgg16": vgg16, "resnet50": resnet50, "mobilenetv2": mobilenetv2}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_keras_applications(name, version):
    found, normed = BUILT[name](version)
    model = cb.model(found)
    assert round((model.ops.parameter_count + 2 * normed) / 1e6, 1) == PUBLISHED[name]
    assert model.title == found["config"]["name"] and model.data_kind == "images" and not model.assumed


@pytest.mark.parametrize(("name", "zoo"), [("vgg16", "vgg16"), ("mobilenetv2", "mobilenet_v2")])
def test_work_is_that_of_the_same_network_of_the_zoo(name, zoo):
    ours, known = cb.model(BUILT[name]()[0]), cb.model(zoo)
    assert ours.ops.parameter_count == known.ops.parameter_count
    assert float(ours.ops.total("macs", 1, None)) == pytest.approx(float(known.ops.total("macs", 1, None)), rel=1e-3)


def sequential(*layers, shape=(8,), name="sequential_1"):
    rows = [{"class_name": "InputLayer", "config": {"name": "in", "batch_shape": [None, *shape]}}] if shape else []
    rows += [
        {"class_name": kind, "config": {"name": f"{kind.lower()}_{at}", **config}}
        for at, (kind, config) in enumerate(layers)
    ]
    return {"class_name": "Sequential", "config": {"name": name, "layers": rows}}


@pytest.mark.parametrize(
    ("shape", "layers", "parameters"),
    [
        ((10,), [("Dense", {"units": 4})], 44),
        ((10, 6), [("LSTM", {"units": 5})], 4 * 5 * (6 + 5 + 1)),
        ((10, 6), [("GRU", {"units": 5})], 3 * 5 * (6 + 5 + 2)),
        ((10, 6), [("GRU", {"units": 5, "reset_after": False})], 3 * 5 * (6 + 5 + 1)),
        ((10, 6), [("SimpleRNN", {"units": 5, "use_bias": False})], 5 * (6 + 5)),
        (
            (10, 6),
            [("Bidirectional", {"layer": {"class_name": "LSTM", "config": {"units": 5}}}), ("Dense", {"units": 2})],
            2 * 4 * 5 * 12 + 10 * 2 + 2,
        ),
        ((10, 6), [("TimeDistributed", {"layer": {"class_name": "Dense", "config": {"units": 3}}})], 21),
        ((10, 6), [("MultiHeadAttention", {"num_heads": 2, "key_dim": 4})], 3 * (6 * 8 + 8) + 8 * 6 + 6),
        ((10, 6), [("LayerNormalization", {})], 12),
        ((10, 6), [("LayerNormalization", {"center": False})], 6),
        ((8, 8, 6), [("BatchNormalization", {"scale": False})], 6),
        (
            (20,),
            [("Embedding", {"input_dim": 50, "output_dim": 4}), ("Flatten", {}), ("Dense", {"units": 1})],
            200 + 80 + 1,
        ),
        ((8, 8, 6), [("SeparableConv2D", {"filters": 10, "kernel_size": 3})], 9 * 6 + 6 * 10 + 10),
        ((8, 8, 6), [("DepthwiseConv2D", {"kernel_size": [3, 3], "depth_multiplier": 2})], 9 * 12 + 12),
        ((8, 8, 6), [("Conv2D", {"filters": 4, "kernel_size": [3, 3], "groups": 2})], 9 * 3 * 4 + 4),
        ((8, 8, 6), [("Conv2DTranspose", {"filters": 4, "kernel_size": 2, "strides": 2})], 4 * 6 * 4 + 4),
        ((8, 8, 6), [("PReLU", {"shared_axes": [1, 2]})], 6),
        ((8, 8, 6), [("PReLU", {})], 384),
        ((8, 8, 6), [("Reshape", {"target_shape": [-1, 12]}), ("Dense", {"units": 1})], 13),
        ((8, 6), [("Permute", {"dims": [2, 1]}), ("Dense", {"units": 1})], 9),
        ((8, 8, 6), [("Cropping2D", {"cropping": [[1, 1], [2, 2]]}), ("Flatten", {}), ("Dense", {"units": 1})], 145),
        ((8, 8, 6), [("UpSampling2D", {"size": [2, 2]}), ("Flatten", {}), ("Dense", {"units": 1})], 1537),
    ],
)
def test_parameters_of_layers_by_hand(shape, layers, parameters):
    assert (
        cb.model(
            sequential(*layers, ("Activation", {"activation": "linear"}), ("Softmax", {}), shape=shape)
        ).ops.parameter_count
        == parameters
    )


def test_a_layer_used_twice_has_its_parameters_once():
    b = Builder((16,))
    first = b.put("Dense", ["input"], name="shared", units=16, activation={"class_name": "function", "config": "relu"})
    again = {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": [first, 0, 0]}}], "kwargs": {}}
    b.layers[-1]["inbound_nodes"].append(again)
    b.put("Dense", ["shared"], units=2)
    b.layers[-1]["inbound_nodes"][0]["args"][0]["config"]["keras_history"] = ["shared", 1, 0]
    model = cb.model(b.model("twice"))
    assert model.ops.parameter_count == 16 * 16 + 16 + 16 * 2 + 2
    assert float(model.ops.total("macs", 1, None)) == 2 * 16 * 16 + 32


def test_a_model_within_a_model_and_its_sizes():
    inner = vgg16()[0]
    outer = {
        "class_name": "Sequential",
        "config": {
            "name": "tuned",
            "layers": [
                {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 224, 224, 3]}},
                inner,
                {"class_name": "Dense", "config": {"units": 10}},
            ],
        },
    }
    assert cb.model(outer).ops.parameter_count == 138_357_544 + 10_010


def test_what_is_open_is_asked_for():
    flexible = sequential(("Conv2D", {"filters": 4, "kernel_size": 3}), shape=(None, None, 3))
    with pytest.raises(ValueError, match=r"has no size; give shape= of one sample, such as \(224, 224, 3\)"):
        cb.model(flexible)
    assert cb.model(flexible, shape=(32, 32, 3)).ops.parameter_count == 9 * 3 * 4 + 4
    with pytest.raises(ValueError, match="a Keras model has no argument 'depth'; it has shape, title"):
        cb.model(flexible, depth=3)


def test_a_shape_fills_what_is_open_and_changes_nothing_that_is_stated():
    """8 x 4 weights and 4 offsets; the sizes of two open inputs cannot be told by one shape."""
    stated = sequential(("Dense", {"units": 4}))
    assert cb.model(stated, shape=(8,)).ops.parameter_count == 36
    with pytest.raises(ValueError, match=r"shape = \(16,\) but the model states \(8,\)"):
        cb.model(stated, shape=(16,))
    flexible = sequential(("Conv2D", {"filters": 4, "kernel_size": 3}), shape=(None, None, 3))
    for shape in ((32, 32, 1), (32, 32)):
        with pytest.raises(ValueError, match=r"but the model states \(None, None, 3\)"):
            cb.model(flexible, shape=shape)
    two = Builder((8,))
    two.put("InputLayer", [], batch_shape=[None, None], name="other")
    two.put("Concatenate", ["input", "other"])
    two.put("Dense", [two.last], units=1)
    assert cb.model(two.model("two"), shape=(5,)).ops.parameter_count == 8 + 5 + 1
    two.layers[0]["config"]["batch_shape"] = [None, None]
    with pytest.raises(ValueError, match="several inputs of the Keras model are open: save the model with their sizes"):
        cb.model(two.model("two"), shape=(5,))


@pytest.mark.parametrize("version", [2, 3])
def test_a_mask_is_no_key(version):
    """Three projections of 16 to 2 x 8 with 16 offsets, and one back: 4 x (256 + 16) = 1,088."""
    b = Builder((10, 16), version)
    b.put("InputLayer", [], batch_shape=[None, 10, 10], name="mask")
    b.put("MultiHeadAttention", ["input", "input"], num_heads=2, key_dim=8)
    node = b.layers[-1]["inbound_nodes"][0]
    if version == 3:
        mask = {"class_name": "__keras_tensor__", "config": {"keras_history": ["mask", 0, 0]}}
        node["args"], node["kwargs"] = node["args"][0], {"attention_mask": mask}
    else:
        node[:] = [["input", 0, 0, {"value": ["input", 0, 0], "attention_mask": ["mask", 0, 0]}]]
    assert cb.model(b.model("masked")).ops.parameter_count == 1088


def test_a_norm_is_along_the_last_axis():
    """A factor and an offset for each of 16 features; along the steps it would be 10 of each, which is not read."""
    for axis in (-1, 2, [2], [-1]):
        assert cb.model(sequential(("LayerNormalization", {"axis": axis}), shape=(10, 16))).ops.parameter_count == 32
    inner = {"class_name": "LayerNormalization", "config": {"axis": [1]}}
    steps = sequential(("TimeDistributed", {"layer": inner}), shape=(10, 16))
    assert cb.model(steps).ops.parameter_count == 32
    for kind, axis in (("BatchNormalization", 1), ("LayerNormalization", [1, 2]), ("BatchNormalization", "x")):
        with pytest.raises(ValueError, match=r"axis = .* cannot be read; only the last axis"):
            cb.model(sequential((kind, {"axis": axis}), shape=(10, 16)))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([("Lambda", {"function": {"class_name": "__lambda__", "config": {"code": "4wEA"}}})], "'lambda_0' .* is code"),
        ([("Dense", {"units": 2, "activation": {"class_name": "__lambda__", "config": {}}})], "its activation is code"),
        ([("MyLayer", {})], "'mylayer_0' .* class MyLayer, which is not known here; give the network as ONNX"),
        ([("Dense", {"units": 2, "activation": "wobble"})], "activation 'wobble' is not known here"),
        ([("Dense", {})], "units is missing"),
        ([("Dense", {"units": -3})], "units = -3"),
        ([("Add", {})], "two inputs"),
        ([("LSTM", {"units": 3})], "must be a sequence"),
        ([("Conv2D", {"filters": 2, "kernel_size": 3, "data_format": "channels_first"})], "channels_last"),
        ([], "no layer that computes"),
    ],
)
def test_what_cannot_be_read_is_named(layers, words):
    with pytest.raises(ValueError, match=words):
        cb.model(sequential(*layers))


def archive(found, **files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in {"metadata.json": "{}", "config.json": json.dumps(found), **files}.items():
            file.writestr(name, text)
    return stream.getvalue()


def test_the_archive_of_keras_is_read_for_its_architecture_alone(tmp_path):
    """A file that is no archive of Keras is refused as before; a huge one is not unpacked."""
    found, path = sequential(("Dense", {"units": 4})), tmp_path / "small.keras"
    path.write_bytes(archive(found, **{"model.weights.h5": "no weights are read"}))
    assert cb.model(path).ops.parameter_count == 36 and cb.model(path).title == "small"
    assert cb.model(json.dumps(found)).ops.parameter_count == cb.model(path.read_bytes()).ops.parameter_count == 36
    for wrong in (archive(found)[:60], archive({"a": "x" * 9_000_000})):
        with pytest.raises(ValueError, match="zip archive"):
            cb.model(wrong)


class Twin:
    """Stands for a Keras model: it has layers, and writes its architecture."""

    layers = ()

    def __init__(self, found):
        self.found = found

    def get_config(self):
        return self.found["config"]

    def to_json(self):
        if self.found is None:
            raise NotImplementedError("subclassed")
        return json.dumps(self.found)


def test_a_model_at_hand_is_read_by_what_it_writes():
    assert cb.model(Twin(sequential(("Dense", {"units": 4}), name="mine"))).title == "mine"
    with pytest.raises(ValueError, match="does not write its architecture: subclassed"):
        cb.model(Twin(None))


def test_an_architecture_is_pasted_in_a_panel():
    panel = cb.panels.accelerators(accelerators=["h100-sxm", "t4"])
    panel.update(model={"custom": json.dumps(sequential(("Dense", {"units": 4}), name="mine"))})
    assert not panel.shown["error"] and " for mine at batch 32" in panel.answer
