"""Benchmarks by PyTorch: its networks are those of the zoo, and a small run on the processor measures them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `measure` is not installed")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import cookbook as cb  # noqa: E402
from cookbook.topics.machine import networks, steps  # noqa: E402
from cookbook.topics.machine.device import device_named, product  # noqa: E402

pytestmark = pytest.mark.counters
NETWORKS = (
    "alexnet",
    "vgg16",
    "resnet50",
    "resnet50_v1.5",
    "bert_base",
    "gpt2",
    "eng_acoustic_model",
    "llama3.2_1b",
    "llama3_8b",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_those_of_the_zoo(name):
    """Parameters equal; FLOP of a forward pass within 1 %."""
    with torch.device("meta"):
        module, record = networks.network(torch, name)
        module.eval()
        assert sum(each.numel() for each in module.parameters()) == record.ops.parameter_count
        x = networks.sample(torch, record, 1, 128, "meta", torch.float32)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(x)
    ours = 2 * float(record.ops.total("macs", 1, 128 if record.ops.needs_seq else None))
    assert counter.get_total_flops() == pytest.approx(ours, rel=0.01)


def test_a_network_without_a_module_is_refused():
    with pytest.raises(ValueError, match="has no module here"):
        networks.network(torch, "inception_v3")
    with pytest.raises(ValueError, match="experts has no module here"):
        networks.network(torch, "mixtral_8x7b")


def small_decoder(**changes):
    torch.manual_seed(0)
    sizes = {"vocab": 50, "width": 32, "depth": 2, "heads": 4, "hidden": 48, "kv_heads": 2, "tied": True} | changes
    return networks._decoder(torch, sizes).eval()


@pytest.mark.parametrize("changes", [{}, {"positions": 16, "norm": "layer", "gated": False, "bias": True}])
def test_a_decoding_step_gives_what_the_whole_sequence_gives(changes):
    """Keys and values of seven tokens in the cache, then the eighth: the same logits as of all eight at once."""
    module = small_decoder(**changes)
    x = torch.randint(0, 50, (3, 8))
    caches = [torch.zeros(2, 3, 2, 8, 8) for _ in module.layers]
    with torch.no_grad():
        for length in range(1, 9):
            part = [cache[:, :, :, :length] for cache in caches]
            stepped = module(x[:, length - 1 : length], part)
        torch.testing.assert_close(stepped[:, -1], module(x)[:, -1], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(module(x, last=True), module(x)[:, -1:])


def test_recomputation_changes_no_gradient():
    gradients = []
    for recompute in (False, True):
        module = small_decoder().train()
        module.recompute = recompute
        module(torch.arange(8).view(1, 8)).square().mean().backward()
        gradients.append([each.grad.clone() for each in module.parameters()])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, again)


def test_adapters_alone_are_trained():
    module = networks.adapted(torch, small_decoder(), 4)
    trained = sum(each.numel() for each in module.parameters() if each.requires_grad)
    linear = 2 * [(32, 64), (32, 32), (32, 96), (48, 32)]
    assert trained == sum(4 * (inputs + outputs) for inputs, outputs in linear)


def test_a_step_that_cannot_fit_says_so(monkeypatch):
    device = device_named("cpu")
    monkeypatch.setattr(type(device), "free", lambda self: 1e9)
    with pytest.raises(ValueError, match=r"124 M parameters take 1\.85 GiB"):
        steps.training(device, "gpt2", steps.Training(1, 16)).prepare()


@pytest.mark.parametrize(("number_format", "kind"), [("fp8", torch.bfloat16), ("int8", torch.int32)])
def test_products_of_narrow_formats_run(number_format, kind):
    case = product(device_named("cpu"), 32, 64, 128, number_format)
    out = case.prepare()()
    assert case.work == 2 * 32 * 64 * 128 and out.shape == (32, 64) and out.dtype == kind


@pytest.mark.parametrize("rank", [0, 4])
def test_a_step_in_16_bits_moves_the_weights(rank, monkeypatch):
    module, record = small_decoder(tied=False), cb.model("gpt2")
    before = {name: each.clone() for name, each in module.named_parameters()}
    monkeypatch.setattr(networks, "network", lambda torch, name: (module, record))
    monkeypatch.setattr(networks, "sample", lambda *given: torch.arange(8).view(1, 8))
    steps.training(device_named("cpu"), "gpt2", steps.Training(1, 8, "bf16", True, rank)).prepare()()
    moved = {name for name, each in module.named_parameters() if name in before and not each.equal(before[name])}
    assert moved == (set() if rank else set(before))


def test_a_small_run_on_the_processor(monkeypatch):
    monkeypatch.setattr(steps, "NETWORKS", {"eng_acoustic_model": (8, 8, 8, 0)})
    found = cb.measure.run("cpu", quick=True, seconds=300)
    frame = found.frame().set_index("benchmark")
    assert found.state == "complete", found.skipped
    assert {
        "matmul",
        "convolution",
        "memory",
        "launch",
        "training step",
        "forward pass",
        "decode",
        "all-reduce",
    } <= set(frame.index)
    assert set(frame.loc["matmul", "number_format"]) == {"fp32", "bf16"}
    assert frame.loc["training step", "model"] == "eng_acoustic_model"
    assert found.environment["torch"] == str(torch.__version__)
    compared = cb.measure.beside(found, cb.measure.measured_device(found))
    assert set(compared["benchmark"]) == {"training step", "forward pass", "decode"} and compared["ratio"].notna().all()
    mine = cb.measure.calibrate(found)
    errors = mine.errors()
    assert errors["models"] == 2 and all(np.isfinite(each) for each in errors.values()), mine.left
    assert errors["after"] < errors["before"] + 0.5, "calibrated to these very rows, it is no worse by a wide margin"
    assert cb.train_step("vgg16", mine.accelerator, micro_batch=2, precision="fp32").tier == "measured here"


def test_a_device_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="sees no such device"):
        cb.measure.run("cuda")
