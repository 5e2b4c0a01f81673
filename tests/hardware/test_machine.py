"""Machines: one look-up for accelerators, servers, cloud instances and the reader's own records."""

import copy
import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cookbook import catalog
from cookbook.catalog import Refused, UnknownName
from cookbook.hardware import Accelerator, Machine, accelerator, machine
from cookbook.hardware.machine import LARGEST_NODE, generation, network_rate

SERVERS = catalog.table("systems")
INSTANCES = catalog.table("cloud_prices")
HOSTILE = [
    None,
    math.nan,
    math.inf,
    -1,
    0,
    1e308,
    10**400,
    10**5000,
    b"h100",
    "",
    "abc",
    [],
    {},
    object(),
    True,
    [["h100-sxm"]],
    ("h100-sxm",),
    float,
    "h" * 100_000,
    " " * 100_000,
    "-" * 100_000,
]


def own(**changes):
    figures = {"memory_bytes": "64 GB", "mem_bandwidth": "2 TB/s", "peak_bf16": "300 TFLOP/s"}
    return accelerator("My chip", **{**figures, **changes})


@pytest.mark.parametrize(
    ("name", "devices", "link", "network"),
    [
        # DGX H100 datasheet: NVLink 900 GB/s both directions, 8 ConnectX-7 of 400 Gb/s for 8 GPUs.
        ("dgx-h100", 8, 450e9, 50e9),
        # DGX-1 whitepaper: 300 GB/s both directions, 4 EDR InfiniBand of 100 Gb/s for 8 GPUs.
        ("dgx-1-v100", 8, 150e9, 6.25e9),
        # DGX-2 datasheet: 16 GPUs, 8 EDR InfiniBand.
        ("dgx-2", 16, 150e9, 6.25e9),
        # Amazon EC2: p4d 400 Gb/s of the instance, p5 3,200 Gb/s, p3.16xlarge 25 Gb/s, trn1.32xlarge 800 Gb/s.
        ("p4d.24xlarge", 8, 300e9, 6.25e9),
        ("AWS p5.48xlarge", 8, 450e9, 50e9),
        ("p3.16xlarge", 8, 150e9, 25e9 / 8 / 8),
        ("trn1.32xlarge", 16, 206e9, 6.25e9),
        # Azure: 8 NDR InfiniBand of 400 Gb/s.
        ("ND96isr H100 v5", 8, 450e9, 50e9),
        # GB200 NVL72: 18 trays of 4 GPUs with 4 ConnectX-7 of 400 Gb/s.
        ("gb200-nvl72", 72, 900e9, 50e9),
    ],
)
def test_published_links_and_networks(name, devices, link, network):
    found = machine(name)
    assert (found.per_node, found.link, found.network) == (devices, link, pytest.approx(network))
    assert found.network_stated
    assert found.server


def test_published_domains_of_the_fast_link():
    """NVL72 joins 72 GPUs, the switches of DGX-2 and of a2-megagpu-16g join 16, a TPU v4 pod 4,096 chips."""
    domains = {name: machine(name).domain for name in ("gb200-nvl72", "dgx-2", "gcp-a2-megagpu-16g", "tpu-v4")}
    assert domains == {"gb200-nvl72": 72, "dgx-2": 16, "gcp-a2-megagpu-16g": 16, "tpu-v4": 4096}
    assert math.isnan(machine("rtx-4090").domain)


def test_published_all_reduce_in_a_node_reaches_three_quarters_of_nvlink():
    """NCCL on 8 A100 reaches 0.75 to 0.8 of the nominal 300 GB/s; a card without link crosses half a PCIe slot."""
    assert machine("dgx-a100-80gb").ring_link == 225e9
    assert machine("a10").ring_link == pytest.approx(31.5e9 / 2)
    # The same card in slots of an older generation.
    assert machine("supermicro-sys-4029gp-trt-dual-root").ring_link == pytest.approx(15.75e9 / 2)


@pytest.mark.parametrize("key", catalog.table("accelerators")["key"])
def test_every_accelerator_makes_a_machine(key):
    found, device = machine(key), accelerator(key)
    assert found.accelerator is device
    assert found == machine(device)
    assert (found.server, found.instance, found.per_node) == ("", "", 8)
    assert found.generation == generation(key) == device.generation != ""
    assert not found.network_stated and not found.network_shared
    assert found.network == network_rate(device) > 0
    # Copies between cards cross a whole slot, also on boards whose own link to the host is narrower.
    assert 0 < found.ring_link <= max(found.link, 63e9)
    assert 0 < found.ring_network < found.network
    assert math.isnan(found.host_link) or 0 < found.host_link < device.host_link
    assert math.isnan(found.domain) or found.domain >= 1
    assert found.cores in (1, 2)
    assert set(found.sources) == set(device.sources)


@pytest.mark.parametrize("row", SERVERS.to_dict("records"), ids=lambda row: row["key"])
def test_every_server_makes_a_machine(row):
    found = machine(row["key"])
    assert (found.server, found.name, found.per_node) == (row["key"], row["name"], row["devices"])
    assert found.accelerator.key == row["accelerator_key"]
    assert found.network_stated == math.isfinite(row["network_bandwidth"])
    if found.network_stated:
        assert found.network * found.per_node == pytest.approx(row["network_bandwidth"])
        assert found.network_shared == (row["network_ports"] % row["devices"] != 0)
    assert set(row["source"].split(";")) <= set(found.sources)
    assert hash(found) == hash(machine(row["key"]))


def test_every_cloud_instance_makes_a_machine_or_says_why_not():
    refused = {}
    for row in INSTANCES.to_dict("records"):
        if row["instance"] in ("", "(per chip)"):
            continue
        try:
            found = machine(row["instance"])
        except ValueError as error:
            refused[row["instance"]] = (row, str(error))
        else:
            assert (found.accelerator.key, found.per_node) == (row["accelerator_key"], row["devices"]), row
            assert found.instance == row["instance"] or not found.server
    for row, why in refused.values():
        assert not row["accelerator_key"] or row["devices"] != round(row["devices"]), why
        assert row["accelerator_as_printed"] in why
    assert len(refused) < 80


def test_an_instance_that_is_a_server_of_the_catalogue_has_its_network():
    for name in ("p4d.24xlarge", "ND96amsr A100 v4", "trn2.48xlarge"):
        found = machine(name)
        assert found.server and found.instance == name
        assert dataclasses.replace(found, instance="") == machine(found.server)
    alone = machine("runpod-h100-sxm-secure")
    assert (alone.server, alone.per_node, alone.network_stated) == ("", 1, False)


def test_the_usual_network_is_the_median_of_the_systems_that_count_their_ports():
    rows = SERVERS[(SERVERS["accelerator_key"] == "h100-sxm") & (SERVERS["network_ports"] > 0)]
    rows = rows[rows["devices"].between(2, LARGEST_NODE)]
    rates = sorted(rows["network_bandwidth"] / rows["devices"])
    assert machine("h100-sxm").network == rates[len(rates) // 2] == 50e9
    # No system with an H100 PCIe is listed: that of its generation.
    assert machine("h100-pcie").network == 50e9


def test_fewer_devices_of_a_node_share_its_ports_and_keep_their_own():
    assert machine("dgx-1-v100", per_node=4).network == 2 * machine("dgx-1-v100").network
    assert machine("dgx-1-v100", per_node=4).ring_network == 2 * machine("dgx-1-v100").ring_network
    for name in ("dgx-h100", "aws-p5-48xlarge", "h100-sxm"):
        assert machine(name, per_node=4).network == machine(name).network
        assert machine(name, per_node=4).per_node == 4
    whole = machine("dgx-1-v100")
    assert machine(machine(whole, per_node=2), per_node=2) == machine("dgx-1-v100", per_node=2)
    assert machine(whole) is whole
    assert machine("h100-sxm", per_node=16).per_node == 16
    changed = dataclasses.replace(whole, network=1e9)
    assert machine(changed, per_node=4).network == 2e9
    with pytest.raises(ValueError, match="DGX H100 has 8 accelerators; give that or fewer"):
        machine("dgx-h100", per_node=16)


def test_the_key_of_a_server_wins_over_another_name_of_an_accelerator():
    assert machine("gb200-nvl72").server == "gb200-nvl72"
    assert machine("gb200").server == ""
    assert machine("h100-sxm").server == ""


def test_an_accelerator_of_ones_own_makes_a_machine_without_the_catalogue():
    bare = machine(own())
    assert bare.link == 16e9  # PCIe 3.0 x16, the link where none is known
    assert bare.ring_link == pytest.approx(15.75e9 / 2)
    assert math.isnan(bare.domain) and math.isnan(bare.host_link)
    assert (bare.generation, bare.cores, bare.per_node, bare.sources) == ("", 1, 8, ())
    assert bare.network > 0 and not bare.network_stated
    full = machine(own(device_link="400 GB/s", scale_up_devices=32, host_link="63 GB/s", generation="hopper"))
    assert (full.link, full.ring_link, full.domain) == (400e9, 300e9, 32)
    assert full.host_link == pytest.approx(63e9 * 0.85)
    assert full.network == machine("h100-sxm").network
    assert machine(own(host_link="63 GB/s")).ring_link == pytest.approx(63e9 / 2)
    assert machine(own(device_link="50 GB/s", device_link_kind="bridge")).ring_link == pytest.approx(15.75e9 / 2)


def test_a_changed_accelerator_keeps_what_was_not_changed():
    base, faster = machine("h100-sxm"), machine(accelerator(like="h100-sxm", device_link="900 GB/s"))
    assert (faster.link, faster.ring_link) == (2 * base.link, 2 * base.ring_link)
    assert (faster.network, faster.host_link, faster.generation) == (base.network, base.host_link, base.generation)
    assert machine(accelerator(like="rtx-4090", device_link="50 GB/s")).ring_link == 37.5e9
    assert machine(accelerator(like="trainium1", tdp_watts=500)).cores == 2
    slot = machine(accelerator(like="rtx-4090", host_link="63 GB/s"))
    assert slot.ring_link == 2 * machine("rtx-4090").ring_link


@given(st.floats(1e9, 1e13), st.floats(1.0, 4.0))
def test_a_faster_link_makes_a_faster_ring(rate, more):
    slow, fast = (machine(own(device_link=value)) for value in (rate, rate * more))
    assert slow.ring_link <= fast.ring_link <= fast.link


@pytest.mark.parametrize("name", ["dgx-h10", "p5.48xlarg", "h100-smx", "abc", "x" * 100_000, "dgx-h100" + "-" * 90])
def test_an_unknown_name_gives_the_nearest_three_of_all_tables(name, within):
    with within(6), pytest.raises(UnknownName) as refused:
        machine(name)
    assert len(refused.value.nearest) == 3
    assert "server or cloud instance" in str(refused.value)
    assert len(str(refused.value)) <= 300
    for near in refused.value.nearest:
        try:
            assert isinstance(machine(near), Machine)
        except ValueError as known_but_not_whole:
            assert near in str(known_but_not_whole)


def test_nearest_names_come_from_each_table():
    for wrong, right in {"dgx-h10": "dgx-h100", "p5.48xlarg": "p5.48xlarge", "h100-smx": "h100-sxm"}.items():
        with pytest.raises(KeyError, match=right.replace(".", r"\.")) as refused:
            machine(wrong)
        assert refused.value.nearest[0] == right


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_hostile_arguments_are_refused_in_words(value):
    calls = [lambda: machine(value), lambda: machine("h100-sxm", per_node=value)]
    for call in calls[: 1 if value is None else 2]:
        with pytest.raises((ValueError, TypeError, KeyError)) as refused:
            call()
        assert type(refused.value) in (ValueError, TypeError, KeyError, Refused, UnknownName)
        assert len(str(refused.value)) <= 300


@pytest.mark.parametrize("per_node", [0, -1, 1.5, "8", 1e7])
def test_an_impossible_node_is_refused(per_node):
    with pytest.raises(ValueError, match=r"per_node = .*; give a whole number from 1"):
        machine("h100-sxm", per_node=per_node)


def test_a_machine_is_read_only_and_travels_between_processes():
    for found in (machine("dgx-h100"), machine(own(device_link=1e11))):
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.network = 1.0
        for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert other == found and hash(other) == hash(found)
        assert isinstance(found.accelerator, Accelerator)
        assert len(repr(found)) < 120
