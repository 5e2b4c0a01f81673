"""The insides of machines: the graphs are whole, and what they say of concurrent traffic is computed by hand here."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cookbook as cb
from cookbook import catalog, topology
from cookbook.hardware.topology import FORWARDS, ROWS, Link, Node, Topology

KEYS = list(catalog.table("system_topologies")["key"])
LINKS, NODES = catalog.table("system_links"), catalog.table("system_nodes")
GB = 1e9
# PCIe 3.0 x16, one direction.
X16 = 15.75 * GB
each_machine = pytest.mark.parametrize("key", KEYS)


def rounded(rates):
    return np.round(np.asarray(rates) / GB, 3).tolist()


@each_machine
def test_links_join_nodes_that_exist_once(key):
    names = list(NODES.loc[NODES["system"] == key, "node"])
    links = LINKS[LINKS["system"] == key]
    assert len(names) == len(set(names))
    assert set(links["from"]) | set(links["to"]) == set(names), "a link leads nowhere, or a node hangs on nothing"
    pairs = [frozenset(pair) for pair in zip(links["from"], links["to"], strict=True)]
    assert len(pairs) == len(set(pairs)) and all(len(pair) == 2 for pair in pairs)


def test_every_link_has_one_rate():
    """A kind of link, or a rate that stands there: never both, never neither."""
    assert ((LINKS["link"] != "") ^ LINKS["bandwidth"].notna()).all()
    assert (LINKS["count"] >= 1).all()
    for key in KEYS:
        assert all(link.bandwidth > 0 for link in topology(key).links)


@each_machine
def test_the_graph_is_in_one_piece_and_accelerators_reach_memory_and_each_other(key):
    box = topology(key)
    devices = box.named("accelerator")
    for device in devices:
        for memory in box.named("memory"):
            assert box.bandwidth(memory, device) > 0
    for source in ("storage", "network"):
        assert len(box.input_flows(source)) == len(devices)
    for a, b in combinations(devices, 2):
        assert box.bandwidth(a, b) == box.bandwidth(b, a) > 0


@each_machine
def test_a_machine_has_the_accelerators_and_processors_of_its_row_in_systems(key):
    about = catalog.table("system_topologies").set_index("key").loc[key]
    box = topology(key)
    assert box.accelerator in set(catalog.table("accelerators")["key"])
    if about["system"]:
        row = catalog.table("systems").set_index("key").loc[about["system"]]
        assert len(box.named("accelerator")) == row["devices"]
        assert row["cpu_sockets"] in (len(box.named("socket")), 0)


@each_machine
def test_root_is_the_number_of_processors_that_accelerators_hang_on(key):
    box = topology(key)
    nearest = set()
    for memory, device in box.input_flows():
        nearest.add(next(name for name in box.path(device, memory) if name.startswith("socket")))
    assert len(nearest) == {"single root": 1, "dual root": 2}[box.root]


@each_machine
def test_no_link_carries_more_than_it_can_and_every_path_is_a_path(key):
    box = topology(key)
    kinds = {node.name: node.kind for node in box.nodes}
    flows = box.input_flows() + box.input_flows("network") + box.ring_flows()
    traffic = box.traffic(flows)
    assert (traffic["share"] <= 1 + 1e-9).all()
    assert traffic["share"].max() == pytest.approx(1)
    for flow in flows:
        assert all(kinds[name] in FORWARDS for name in box.path(*flow)[1:-1])


@pytest.mark.parametrize(("key", "links"), [("dgx-1-p100", 4), ("dgx-1-v100", 6), ("apollo-6500-gen10-sxm2", 6)])
def test_the_hybrid_cube_mesh_uses_every_nvlink_of_every_device(key, links):
    rows = LINKS[(LINKS["system"] == key) & LINKS["link"].str.contains("nvlink")]
    used = Counter()
    for row in rows.to_dict("records"):
        used.update({row["from"]: row["count"], row["to"]: row["count"]})
    assert set(used.values()) == {links} and len(used) == 8


def test_dgx_1_has_a_ring_of_nvlinks_and_pairs_without_one():
    """P100: 16 of 28 pairs share one link of 20 GB/s. V100: 8 pairs have one of 25 GB/s, 8 have two; the others take
    PCIe through switches and processors. The widest ring of the V100 uses the eight double links alone."""
    for key, expected in (("dgx-1-p100", {20: 16, 15.75: 12}), ("dgx-1-v100", {50: 8, 25: 8, 15.75: 12})):
        box = topology(key)
        found = Counter(box.bandwidth(a, b) / GB for a, b in combinations(box.named("accelerator"), 2))
        assert found == expected
    ring = box.rings()[0]
    assert {box.bandwidth(*flow) for flow in ring} == {50 * GB}
    assert rounded(box.concurrent(ring)) == [50] * 8
    assert [a for a, _ in ring] == [f"gpu{i}" for i in (0, 3, 2, 1, 5, 6, 7, 4)]


@pytest.mark.parametrize(("key", "rate"), [("dgx-1-p100", 4 * 20), ("dgx-1-v100", 6 * 25)])
def test_rings_use_every_nvlink_of_the_hybrid_cube_mesh(key, rate):
    """Two rings, each both ways, of single links (P100: 2 x 2 x 20) or a double and a single one (V100: 2 x (50 + 25));
    input over PCIe beside them takes nothing from them. In the order of numbers a ring leaves the mesh at 3 to 4 and
    goes at the pace of PCIe."""
    box = topology(key)
    assert len(box.rings()) == 4
    assert box.ring_bandwidth() == box.ring_bandwidth(box.input_flows()) == rate * GB
    assert all(len(box.path(*flow)) == 2 for flow in box.ring_flows())
    assert box.ring_bandwidth(order=box.named("accelerator")) == X16


def test_measured_all_reduce_is_the_same_part_of_what_rings_could_carry_in_each_machine():
    """Three graphs, a mesh of links and two kinds of switch: benchmarks reach 0.75 to 0.85 of the rings' nominal rate.

    Without the second pair of rings the mesh would show 122 of 100 GB/s. H200 has the links of H100; in-network sums
    (NVLS, SHARP) are no rings.
    """
    rows = catalog.table("collectives")
    rows = rows[(rows["nodes"] == 1) & (rows["per_node"] == 8) & (rows["collective"] == "all_reduce")]
    words = rows["intra_node_link"] + rows["algorithm"]
    rows = rows[words.str.contains("Ring") | ~words.str.contains("NVLS|SHARP")]
    shares = {}
    for device, key in (("v100-sxm2-16gb", "dgx-1-v100"), ("a100-sxm-80gb", "hgx-a100"), ("h200-sxm", "hgx-h100")):
        best = rows.loc[rows["accelerator"] == device, "bus_bandwidth"].max()
        shares[key] = best / topology(key).ring_bandwidth()
    assert len(shares) == 3 and all(0.75 < share < 0.85 for share in shares.values()), shares


@each_machine
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_company_never_widens_a_path_and_nobody_starves(key, data):
    box = topology(key)
    ends = [node.name for node in box.nodes if node.kind not in FORWARDS]
    pairs = [(a, b) for a in ends for b in ends if a != b]
    flows = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12))
    rates = box.concurrent(flows)
    for flow, rate in zip(flows, rates, strict=True):
        alone = box.bandwidth(*flow)
        assert alone / len(flows) * (1 - 1e-9) <= rate <= alone * (1 + 1e-9)


def test_single_root_is_for_peers_and_dual_root_for_input():
    """Four cards of PCIe 3.0 x16. One root: the cards share one x16 for input, 15.75 / 4 = 3.94 GB/s each, but copies
    between them stay in the switch. Two roots: each card has its own x16, and input and copies share it."""
    one, two = topology("workstation-single-root"), topology("workstation-dual-root")
    assert rounded(one.concurrent(one.input_flows())) == [3.938] * 4
    assert rounded(two.concurrent(two.input_flows())) == [15.75] * 4
    for box in (one, two):
        assert rounded(box.concurrent(box.ring_flows())) == [15.75] * 4
    for box, each_input, each_peer in ((one, X16 / 4, X16 * 3 / 4), (two, X16 / 2, X16 / 2)):
        rates = box.concurrent(box.input_flows() + box.ring_flows())
        assert rates == pytest.approx([each_input] * 4 + [each_peer] * 4)
    assert len(one.path("gpu0", "gpu3")) == 3 and two.path("gpu0", "gpu3") == ("gpu0", "socket0", "socket1", "gpu3")
    assert one.latency("gpu0", "gpu3") < two.latency("gpu0", "gpu3")
    assert one.ring_bandwidth(one.input_flows()) == X16 * 3 / 4 > two.ring_bandwidth(two.input_flows()) == X16 / 2


def test_apollo_with_four_and_eight_behind_one_root():
    """Eight cards, four to a switch, each switch with one x16 upwards: 15.75 / 4 for each card's input either way. The
    two cards of the ring whose predecessor is on the other switch share that x16 with four inputs: 15.75 / 5 = 3.15;
    the other six copies take what input leaves of a card's own link, 12.6. Between the switches 4:1 crosses the sockets
    and 8:1 does not, which shows in latency."""
    for ratio in ("4:1", "8:1"):
        box = topology(f"Apollo 6500 {ratio}")
        assert rounded(box.concurrent(box.input_flows())) == [3.938] * 8
        rates = rounded(box.concurrent(box.input_flows() + box.ring_flows()))
        assert rates[:8] == [3.15] * 8
        assert rates[8:] == [12.6, 12.6, 12.6, 3.15] * 2
    four, eight = topology("apollo-6500-gen9-4to1"), topology("apollo-6500-gen9-8to1")
    assert "socket1" in four.path("gpu0", "gpu7") and "socket1" not in eight.path("gpu0", "gpu7")
    assert eight.latency("gpu0", "gpu7") < four.latency("gpu0", "gpu7")


def test_switches_in_cascade_starve_input_but_not_peers():
    """One x16 for eight cards: 15.75 / 8. Two of them: twice that. SR-AI has one for sixteen. Peers keep theirs."""
    machines = (("supermicro-4029gp-trt3", 8, 1), ("supermicro-4029gp-trt2", 8, 2), ("inspur-sr-ai", 16, 1))
    for key, cards, links in machines:
        box = topology(key)
        assert box.concurrent(box.input_flows()) == pytest.approx([X16 * links / cards] * cards)
        assert box.concurrent(box.ring_flows()) == pytest.approx([X16] * cards)


def test_nvlink_to_the_processor_feeds_data_larger_than_device_memory():
    """All accelerators read host memory at once. Minsky: 2 x 20 GB/s each, 80 of the 115 GB/s of its memory. AC922:
    3 x 25 GB/s. The same P100 and V100 in DGX-1 share one PCIe 3.0 x16 by twos: 15.75 / 2 = 7.875 GB/s."""
    minsky, ac922 = topology("Minsky"), topology("AC922")
    assert rounded(minsky.concurrent(minsky.input_flows())) == [40] * 4
    assert rounded(ac922.concurrent(ac922.input_flows())) == [75] * 4
    for key, box in (("dgx-1-p100", minsky), ("dgx-1-v100", ac922)):
        rival = topology(key)
        assert rounded(rival.concurrent(rival.input_flows())) == [7.875] * 8
        alone = [machine.bandwidth("memory0", "gpu0") for machine in (box, rival)]
        assert alone[0] / alone[1] == pytest.approx({"dgx-1-p100": 40 / 15.75, "dgx-1-v100": 75 / 15.75}[key])


def test_memory_limits_ac922_where_both_its_accelerators_read_from_one_socket():
    """All read from memory0: the two across fill the socket link at 64 / 2 = 32 each; the near ones could take 75, but
    divide the 170.7 - 64 = 106.7 GB/s that its memory has left into 53.35 each."""
    box = topology("AC922")
    assert rounded(box.concurrent(box.input_flows("memory0"))) == [53.35, 53.35, 32, 32]


@pytest.mark.parametrize(("key", "peer"), [("hgx-a100", 300), ("hgx-h100", 450)])
def test_nvswitch_leaves_no_contention_among_peers(key, peer):
    """Whatever pairs talk, each gets what it gets alone, and host input beside it does not slow it."""
    box = topology(key)
    devices = box.named("accelerator")
    pairs = [(a, devices[(i + 3) % 8]) for i, a in enumerate(devices)]
    assert rounded(box.concurrent(pairs)) == rounded([box.bandwidth(*pair) for pair in pairs]) == [peer] * 8
    rates = box.concurrent(pairs + box.input_flows())
    assert rounded(rates[:8]) == [peer] * 8
    assert rounded(rates[8:]) == rounded(box.concurrent(box.input_flows()))
    assert {len(box.path(a, b)) for a, b in combinations(devices, 2)} == {3}


def test_coherent_link_to_the_processor_is_limited_by_neither_pcie_nor_memory():
    box = topology("GH200")
    assert box.bandwidth("memory0", "gpu0") == 450 * GB
    assert box.ring_flows() == [] and np.isnan(box.ring_bandwidth())


def test_directions_do_not_share():
    """What runs one way leaves the other way untouched."""
    box = topology("workstation-dual-root")
    assert rounded(box.concurrent([("memory0", "gpu0"), ("gpu0", "memory0")])) == [15.75, 15.75]
    assert rounded(box.concurrent([("memory0", "gpu0")] * 2)) == [7.875, 7.875]


def test_a_flow_that_asks_for_less_leaves_the_rest():
    box = topology("workstation-single-root")
    rates = box.concurrent(box.input_flows(), demands=[1 * GB, 1 * GB, np.inf, np.inf])
    assert rounded(rates) == [1, 1, 6.875, 6.875]


def test_traffic_adds_up():
    box = topology("workstation-single-root")
    traffic = box.traffic(box.input_flows()).set_index(["from", "to"])
    assert traffic.at[("socket0", "switch0"), "used"] == pytest.approx(X16)
    assert traffic.at[("socket0", "switch0"), "flows"] == 4
    assert traffic.at[("switch0", "socket0"), "used"] == 0
    assert traffic.at[("switch0", "gpu2"), "share"] == pytest.approx(1 / 4)


@each_machine
def test_the_frame_places_every_node_and_ends_links_on_nodes(key):
    box = topology(key)
    frame = box.frame()
    nodes, links = frame[frame["part"] == "node"], frame[frame["part"] == "link"]
    assert (len(nodes), len(links)) == (len(box.nodes), len(box.links))
    assert frame[["x", "y"]].stack().between(0, 1).all()
    assert not nodes.duplicated(["x", "y"]).any()
    assert nodes.groupby("kind")["y"].nunique().eq(1).all()
    heights = nodes.drop_duplicates("kind").set_index("kind")["y"]
    assert list(heights.sort_values(ascending=False).index) == [kind for kind in ROWS if kind in heights.index]
    at = nodes.set_index("name")
    for row in links.to_dict("records"):
        assert (row["x"], row["y"]) == tuple(at.loc[row["start"], ["x", "y"]])
        assert (row["x2"], row["y2"]) == tuple(at.loc[row["end"], ["x", "y"]])


def test_a_machine_of_ones_own():
    """Two cards on one processor through a link of 8 GB/s each, and two such links between the cards."""
    kinds = {"m": "memory", "s": "socket", "a": "accelerator", "b": "accelerator"}
    nodes = tuple(Node(name, kind) for name, kind in kinds.items())
    rates = (("m", "s", 12.0), ("s", "a", 8.0), ("s", "b", 8.0), ("a", "b", 8.0), ("b", "a", 8.0))
    links = tuple(Link(start, end, rate) for start, end, rate in rates)
    box = topology(Topology("own", "Mine", "single root", "", nodes, links))
    assert box.bandwidth("a", "b") == 16
    assert box.concurrent(box.input_flows()).tolist() == [6, 6]


def test_errors_teach():
    box = topology("hgx-a100")
    with pytest.raises(catalog.UnknownName, match="nearest names"):
        topology("dgx-7")
    with pytest.raises(ValueError, match=r"no node 'gpu9'; nearest: gpu"):
        box.bandwidth("gpu9", "gpu0")
    with pytest.raises(ValueError, match="to itself"):
        box.concurrent([("gpu0", "gpu0")])
    with pytest.raises(ValueError, match="kind is 'gpu'"):
        box.named("gpu")
    with pytest.raises(ValueError, match="demands = -1"):
        box.concurrent([("gpu0", "gpu1")], demands=-1)
    nodes = (Node("m", "memory"), Node("s", "socket"), Node("a", "accelerator"))
    apart = Topology("own", "Mine", "single root", "", nodes, (Link("m", "s", 1.0),))
    with pytest.raises(ValueError, match="no path leads from m to a in Mine"):
        apart.bandwidth("m", "a")


def test_a_machine_is_read_only_and_prints_itself():
    box = topology("hgx-h100")
    assert repr(box) == "<HGX H100 (8 GPUs): 8 accelerators, dual root, 38 nodes, 51 links>"
    assert "--jp-" in box._repr_html_() and "&lt;" in Topology("own", "<b>", "one", "", (), ())._repr_html_()
    assert box.to_dict()["processor"] == "xeon-sapphire-rapids" and box.spoken("gpu3") == "accelerator 3"
    with pytest.raises(AttributeError):
        box.nodes = ()


@pytest.mark.parametrize(
    "call",
    [
        lambda box: box.concurrent([("memory0", "gpu0")], demands=float("nan")),
        lambda box: box.concurrent([("memory0", "gpu0")], demands=10**400),
        lambda box: box.concurrent("gpu0"),
        lambda box: box.concurrent([("memory0", "gpu0")], demands="much"),
        lambda box: box.concurrent(5),
        lambda box: box.concurrent([("memory0", "gpu0")], demands=[1.0, 2.0]),
        lambda box: box.rings("gpu0"),
        lambda box: box.path([], {}),
        lambda box: box.input_flows([]),
        lambda box: box.named(["memory"]),
        lambda box: topology(None),
        lambda box: topology(["hgx-h100"]),
        lambda box: Topology("own", "Mine", "single root", "", (Node("a", "memory"), Node("a", "socket")), ()),
        lambda box: Topology("own", "Mine", "single root", "", (Node("a", "toaster"),), ()),
        lambda box: Topology("own", "Mine", "single root", "", (Node("a", "memory"),), (Link("a", "b", 1.0),)),
        lambda box: Topology(
            "own", "Mine", "", "", (Node("a", "memory"), Node("b", "socket")), (Link("a", "b", -1.0),)
        ),
    ],
)
def test_graphs_and_flows_that_cannot_be_are_refused(call):
    with pytest.raises((ValueError, TypeError)) as told:
        call(topology("workstation-single-root"))
    assert len(str(told.value)) < 400 and "unhashable" not in str(told.value)


def test_lanes_by_hand_and_never_more_than_processors_have():
    """DGX-1: eight x16 accelerators and four x16 adapters behind four x16 of the 80 lanes of two processors."""
    frame = cb.planning.lane_budget(list(catalog.table("system_topologies")["key"]))
    own = frame.loc["DGX-1 (V100)"]
    assert own[["accelerators", "adapters", "asked", "taken", "offered", "left"]].tolist() == [128, 64, 192, 64, 80, 16]
    known = frame.dropna(subset="offered")
    assert len(known) >= 8 and (known["taken"] <= known["offered"]).all()
    assert (frame["asked"] >= frame["taken"] - 1e-9).all() or (frame["sharing"] > 0).all()


def test_a_platform_is_sized_phase_by_phase():
    one, eight = (cb.planning.size_platform("hgx-h100", "resnet50", "imagenet-1k", n) for n in (1, 8))
    for column in ("samples_per_s", "cores", "bytes_in"):
        assert eight[column].tolist() == pytest.approx((8 * one[column]).tolist())
    assert (eight["host_link"] - eight["gradients"]).tolist() == pytest.approx(one["host_link"].tolist())
    # By hand: 25.56 million parameters in 2 B, 2 x 7/8 of them sent by each machine in each step of 64 samples a GPU.
    steps = eight["samples_per_s"].iloc[1] / 64 / 64
    assert eight["gradients"].tolist() == pytest.approx([0, *2 * [2 * 7 / 8 * 25.557e6 * 2 * steps], 0], rel=1e-3)
    assert one["gradients"].tolist() == [0, 0, 0, 0]
    assert eight["ethernet"].tolist() == ["Ethernet 25G", "Ethernet 100G", "Ethernet 100G", "Ethernet 100G"]
    card = catalog.table("data_sets").set_index("key").loc["imagenet-1k"]
    whole = eight.loc["pre-processing"]
    assert whole["bytes_out"] / whole["bytes_in"] == pytest.approx(
        card["decoded_bytes"] * card["samples"] / card["stored_bytes"]
    )
    with pytest.raises(ValueError, match="machines"):
        cb.planning.size_platform("hgx-h100", "resnet50", "imagenet-1k", 0)


def test_stores_are_counted_as_the_match_counts_them():
    """So many nodes as asked feed the samples, and one fewer does not."""
    sample, rate = 115_440.0, 50_000.0
    stores = ["hdfs-datanode-12-disks", "nfs-server-10-gbe"]
    need = cb.planning.nodes_needed(rate, sample, stores)
    for layout in need:
        for store in stores:
            count = need.loc[store, layout]
            card = {"samples": 1e6, "stored_bytes": 1e6 * sample, "layout": layout}
            tiers = [{"storage": store, "drives": count}, {"storage": store, "drives": max(count - 1, 1)}]
            fed = cb.match_storage(1e-6, "h100-sxm", tiers, card, workers=4096).stages["storage"]
            assert fed[0] >= rate > fed[1]
