"""Rows about storage: what words mean, what is refused by name, and that nothing is above what machines can carry."""

import numpy as np
import pandas as pd
import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.prediction.answer import answer
from cookbook.prediction.kinds.input_pipeline_arguments import committed
from cookbook.prediction.parsing.columns import unknown
from cookbook.prediction.parsing.drives import named_system, nearest_stores
from cookbook.prediction.parsing.storage import read
from cookbook.prediction.storage import resolve, storage_table

RUN = {"kind": "mlperf", "workload": "unet3d", "accelerator": "h100-sxm", "accelerators": "64", "hosts": "1"}
DRIVE = "1x Micron 9400 7.68TB"
WORST = (
    None,
    "",
    "0",
    "-1",
    "abc",
    "1e12",
    "1e400",
    "nan",
    "inf",
    "8k",
    "8-16",
    "8+8",
    "2.5",
    "1,024",
    "1,02",
    "0x10",
    "٦٤",
    "8 GPUs",
    "x" * 5000,
    True,
    1e308,
    float("nan"),
    [1],
    {},
    "140 MB",
    "140 apples",
    "7 GiB",
    "=1+1",
    "-5 kB",
)
SYSTEMS = (
    DRIVE,
    "4x Micron 9400 7.68TB",
    "Micron 9400 x2",
    "samsung-860-evo-1tb",
    "floppy disk",
    "Acme",
    "",
    "USB stick",
    "Micron: Micron_9550_Gen5_Performance_NVMe/unet3d/h100",
    "DDN: AI400X2T_24x14TiB_nvme_8xNDR200_16clients",
    "NFS over 10 GbE",
    "unknown SSD 3.5 GB/s",
    "Amazon EFS, elastic throughput",
    "0x Micron 9400",
    "HDD array of tapes",
    "7.2k rpm nearline HDD (Seagate Exos X18 class)",
    "8 x Solidigm D7-PS1010 per host",
)


def one(**changes):
    return storage_table(pd.DataFrame([{**RUN, "system": DRIVE} | changes])).iloc[0]


def carried(system, hosts):
    """Most that a system of these words can deliver [B/s], read here from the tables by hand."""
    rates = catalog.table("storage").set_index("key")["read_bandwidth"]
    drives = {
        DRIVE: 7e9,
        "4x Micron 9400 7.68TB": 28e9,
        "Micron 9400 x2": 14e9,
        "unknown SSD 3.5 GB/s": 3.5e9 * hosts,
        "samsung-860-evo-1tb": rates["samsung-860-evo-1tb"] * hosts,
        "NFS over 10 GbE": 1.25e9,
        "Micron: Micron_9550_Gen5_Performance_NVMe/unet3d/h100": 14e9 * hosts,
        "Amazon EFS, elastic throughput": 21.47e9,
        "DDN: AI400X2T_24x14TiB_nvme_8xNDR200_16clients": 200e9,
        "7.2k rpm nearline HDD (Seagate Exos X18 class)": 0.27e9 * hosts,
        "8 x Solidigm D7-PS1010 per host": 8 * 14.5e9 * hosts,
    }
    return drives.get(str(system), 50e9 * hosts)


def test_one_drive_reads_no_more_than_its_datasheet():
    """It was 1,244 samples a second, 182 GB/s, "system described"."""
    found = one()
    assert found["read_GBps"] <= 7 and found["tier"] == "system described"
    assert found["accelerator_utilisation"] == pytest.approx(7 / 203.3, rel=0.02)
    assert one(system="4x Micron 9400 7.68TB")["read_GBps"] == pytest.approx(4 * found["read_GBps"], rel=0.01)
    assert one(system="Micron 9400", hosts="4")["read_GBps"] == pytest.approx(4 * found["read_GBps"], rel=0.01)


@pytest.mark.parametrize("system", ["floppy disk", "Acme NVMe SSD", "Samsung 9100 PRO", "USB stick", "tape library"])
def test_an_unknown_drive_is_refused_by_name(system):
    found = one(system=system)
    assert np.isnan(found["predicted"]) and repr(system) in found["why"] and "nearest" in found["why"]
    assert len(found["why"]) <= 200


def test_a_stated_rate_answers_for_an_unknown_drive_at_a_wider_tier():
    found, known = one(system="unknown SSD 7.0 GB/s"), one()
    assert found["predicted"] == pytest.approx(known["predicted"]) and found["tier"] == "datasheet only"
    assert found["predicted"] / found["low80"] > known["predicted"] / known["low80"]


def test_links_and_hosts_bound_what_is_not_described():
    assert one(system="NFS over 10 GbE")["read_GBps"] <= 1.25
    assert one(system="Vast: Universal_4xHDR200_8hosts")["read_GBps"] <= 100
    alone, eight = (one(system="Acme", hosts=count)["read_GBps"] for count in ("1", "8"))
    assert alone <= 50 and eight <= 400


def test_intervals_widen_as_less_is_known():
    few = {"accelerators": "2"}
    rows = [one(system=name, **few) for name in (DRIVE, "Vendor: array_4nodes", "Acme", "")]
    width = [row["predicted"] / row["low80"] for row in rows]
    assert width[0] < width[1] < width[2] == width[3]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch": "abc"}, "batch = 'abc'"),
        ({"batch": "0"}, "batch = '0'"),
        ({"batch": "1.5"}, "batch"),
        ({"accelerators": "1e12"}, "accelerators = '1e12'"),
        ({"accelerators": "8+8"}, "accelerators"),
        ({"hosts": "1e9"}, "hosts"),
        ({"hosts": "65"}, "hosts"),
        ({"sample_bytes": "140 apples"}, "sample_bytes"),
        ({"sample_bytes": "140 mb"}, "sample_bytes"),
        ({"sample_bytes": "1e30"}, "sample_bytes"),
        ({"unit": "bananas"}, "'bananas'"),
        ({"unit": "tokens/s"}, "tokens/s"),
        ({"unit": "hours"}, "hours"),
        ({"metric": "requests"}, "'requests'"),
        ({"metric": "utilisation", "unit": "GB/s"}, "GB/s"),
        ({"metric": "latency"}, "latency"),
        ({"system": "0x Micron 9400"}, "0 of them"),
        ({"system": "9999999x Micron 9400"}, "cannot be"),
        ({"system": "-1"}, "names nothing"),
        ({"workers": "-1"}, "workers"),
        ({"accelerator": "z" * 50000}, "no step"),
        ({"workload": "z" * 50000}, "no step"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(change, says):
    found = one(**change)
    assert np.isnan(found["predicted"]) and says in found["why"] and len(found["why"]) <= 200


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"sample_bytes": "140 MB"}, {"sample_bytes": "140e6"}),
        ({"sample_bytes": "0.5 GiB"}, {"sample_bytes": 2**29}),
        ({"sample_bytes": "1,000,000"}, {"sample_bytes": 1e6}),
        ({"accelerators": "2k"}, {"accelerators": 2000}),
        ({"accelerators": "64 GPUs"}, {"accelerators": "64"}),
        ({"batch": "7.0"}, {"batch": "7"}),
        ({"system": "Micron 9400"}, {"system": "micron_9400_pro"}),
        ({"hosts": ""}, {"hosts": "1"}),
    ],
)
def test_what_is_plain_is_understood(written, meant):
    found = one(**written)["predicted"]
    assert found > 0 and found == pytest.approx(one(**meant)["predicted"])


@pytest.mark.parametrize(
    ("change", "column", "times"),
    [
        ({"unit": "GB/s"}, "read_GBps", 1),
        ({"unit": "MB/s"}, "read_GBps", 1e3),
        ({"unit": "Gb/s"}, "read_GBps", 8),
        ({"unit": "images/s"}, "samples_per_s", 1),
        ({"unit": "samples/min"}, "samples_per_s", 60),
        ({"metric": "utilisation"}, "accelerator_utilisation", 1),
        ({"unit": "%"}, "accelerator_utilisation", 100),
        ({"metric": "read_bandwidth"}, "read_GBps", 1),
    ],
)
def test_the_figure_and_the_unit_that_are_asked_for(change, column, times):
    found = one(**change)
    assert found["predicted"] == pytest.approx(times * found[column]) and found["low80"] <= found["predicted"]
    assert found["unit"] == change.get("unit", {"read_bandwidth": "GB/s"}.get(change.get("metric"), ""))


def test_thousands_of_hostile_rows_are_answered_within_bounds_or_refused():
    rng = np.random.default_rng(11)
    pick = lambda words: words[rng.integers(len(words))]  # noqa: E731
    rows = []
    for _ in range(3000):
        row = {
            "kind": "mlperf",
            "workload": pick(("unet3d", "resnet50", "cosmoflow", "bert")),
            "system": pick(SYSTEMS),
            "accelerator": pick(("h100-sxm", "a100-sxm-80gb", "v100-sxm2-16gb", "b200-sxm")),
            "accelerators": str(int(10 ** rng.uniform(0, 5))),
            "hosts": str(int(10 ** rng.uniform(0, 2))),
            "sample_bytes": pick(("", "", "1", "114660", "140 MB", 5e9)),
        }
        if rng.random() < 0.5:
            name = pick(("accelerators", "hosts", "batch", "sample_bytes", "workers", "unit", "metric", "system"))
            row[name] = pick(WORST)
        rows.append(row)
    frame = pd.DataFrame(rows)
    found, rows_read = storage_table(frame), resolve(read(frame))
    answered = found["predicted"].notna()
    assert 0.3 < answered.mean() < 0.95 and ((found["why"] == "") == answered).all()
    assert found["why"].str.len().max() <= 200
    good = found[answered]
    numbers = good[["low90", "low80", "predicted", "high80", "high90"]].to_numpy()
    assert (numbers > 0).all() and np.isfinite(numbers).all() and (np.diff(numbers) >= -1e-9 * numbers[:, 1:]).all()
    assert good["accelerator_utilisation"].between(0, 1).all()
    most = np.array([carried(row["system"], rows_read.hosts[at]) for at, row in enumerate(rows)])
    reads = good["read_GBps"] * 1e9
    assert (reads <= most[answered] * (1 + 1e-9)).all()
    never_waits = (rows_read.accelerators * rows_read.batch / rows_read.step)[answered]
    assert (good["samples_per_s"] <= never_waits * (1 + 1e-9)).all()
    assert (reads / good["samples_per_s"]).to_numpy() == pytest.approx(rows_read.sample_bytes[answered])


@pytest.mark.parametrize("kind", ["decode", "object_store", "fio", "metadata", "checkpoint", "cooking"])
def test_hostile_rows_of_other_kinds_are_answered_above_zero_or_refused(kind):
    rng = np.random.default_rng(5)
    names = ("workload", "system", "framework", "workers", "cpu", "hosts", "batch", "unit", "note")
    words = (*WORST, *SYSTEMS, "bs=4k", "bs=0k", "open file", "EC2 c5n.18xlarge", "0 Gb/s", "AMD EPYC 9B45", "opencv")
    frame = pd.DataFrame(
        [{"kind": kind, **{name: words[rng.integers(len(words))] for name in names}} for _ in range(600)]
    )
    found = storage_table(frame)
    answered = found["predicted"].notna()
    assert ((found["why"] == "") == answered).all() and found["why"].str.len().max() <= 200
    assert (found.loc[answered, ["low90", "predicted", "high90"]] > 0).all(axis=None)


def test_more_of_everything_never_reads_less():
    rng = np.random.default_rng(3)
    count = rng.integers(1, 500, 200)
    base = pd.DataFrame([{**RUN, "accelerators": str(number), "system": "Micron 9400"} for number in count])
    plain = storage_table(base)["samples_per_s"]
    for better in ({"system": "2x Micron 9400"}, {"system": "4x Micron 9400 7.68TB"}):
        assert (storage_table(base.assign(**better))["samples_per_s"] >= plain * (1 - 1e-9)).all()
    more = storage_table(base.assign(accelerators=(count * 2).astype(str)))["samples_per_s"]
    assert (more >= plain * (1 - 1e-9)).all()


def test_rows_in_any_number_and_order_are_answered_alike():
    rows = pd.DataFrame(
        [{**RUN, "system": system, "accelerators": str(number)} for system in SYSTEMS for number in (1, 64)]
    )
    whole, back = storage_table(rows), storage_table(rows.iloc[::-1]).iloc[::-1].reset_index(drop=True)
    pd.testing.assert_frame_equal(whole, back)
    pd.testing.assert_frame_equal(whole.iloc[[5]].reset_index(drop=True), storage_table(rows.iloc[[5]]))
    typed = rows.assign(accelerators=rows["accelerators"].astype(int), hosts=1.0)
    pd.testing.assert_frame_equal(whole, storage_table(typed))
    assert len(storage_table(rows.iloc[:0])) == 0
    assert storage_table(pd.DataFrame({"x": [1, 2]}))["why"].str.startswith("kind").all()


def test_units_reach_the_table_of_answers():
    found = answer(pd.DataFrame([{**RUN, "system": DRIVE, "unit": "GB/s"}]), "storage").iloc[0]
    assert found["unit"] == "GB/s" and found["predicted"] == pytest.approx(found["read_GBps"])
    assert 0 < found["predicted"] <= 7


@pytest.mark.parametrize(
    ("words", "rate", "count", "line"),
    [
        ("2 x Micron 9400", 7e9, 2, np.inf),
        ("Micron 9400 PCIe4 x4 NVMe", 7e9, 1, np.inf),
        ("24 x Samsung PM9A3 7.68TB per host over 100GbE", 6.9e9, 24, 12.5e9),
        ("Acme 2x100 Gb/s", np.nan, 1, 25e9),
        ("Cray_C500_4xHDR200_1host", np.nan, 1, 100e9),
        ("Micron 9400 at 5 GB/s", 5e9, 1, np.inf),
        ("FSx for Lustre Persistent_2 SSD 125 MB/s/TiB", 0.125e9, 1, np.inf),
    ],
)
def test_words_of_systems(words, rate, count, line):
    found = named_system(words)
    np.testing.assert_equal([found.rate, found.number, found.line], [rate, count, line])


def test_figures_with_commas_and_stated_operations_are_read():
    found = named_system("EBS gp3 750 GB, 16,000 IOPS, 1,000 MiB/s")
    assert (found.rate, found.iops, found.why) == (1000 * 2**20, 16000, "")


def chain(**cells: str) -> pd.Series:
    return storage_table(pd.DataFrame([cells])).iloc[0]


def weights(system: str, **cells: str) -> pd.Series:
    return chain(**{"kind": "model-load", "workload": "weights of Llama 3 8B", "system": system} | cells)


def test_weights_are_read_as_fast_as_volume_instance_and_readers_allow():
    gp3, io2 = "EBS gp3, 16,000 IOPS, 1,000 MiB/s", "EBS io2, 100000 IOPS, 4000 MiB/s"
    one_reader = committed()["volume_reader_rate"] / 1e9
    assert weights(gp3)["predicted"] == pytest.approx(1.048576)
    assert weights(io2)["predicted"] == pytest.approx(4.194304)
    assert weights(f"{io2}, g5.12xlarge")["predicted"] == pytest.approx(16 / 8)  # 16 Gb/s to volumes
    assert weights(gp3, workers="1")["predicted"] == pytest.approx(one_reader)
    assert weights(gp3, note="concurrency/readers 2")["predicted"] == pytest.approx(2 * one_reader)
    assert weights(gp3, framework="HuggingFace Safetensors loader")["predicted"] == pytest.approx(one_reader)


def test_readers_that_are_not_stated_may_be_one():
    stated, open_ = (weights("EBS gp3, 1000 MiB/s, g5.12xlarge", workers=count) for count in ("16", ""))
    assert open_["predicted"] == stated["predicted"] and open_["high80"] == stated["high80"]
    assert open_["low80"] < committed()["volume_reader_rate"] / 1e9 < stated["low80"]
    assert "readers" in open_["assumed"] and stated["assumed"] == ""


def test_weights_from_object_stores_come_over_so_many_connections():
    found = weights("Amazon S3 -> g5.12xlarge", workers="4")
    assert found["predicted"] == pytest.approx(4 * committed()["connection_rate"] / 1e9)
    assert weights("Amazon S3 -> g5.12xlarge")["predicted"] == pytest.approx(5 * committed()["network_share"])


def test_an_engine_starts_after_its_weights_are_read():
    row = {"kind": "model-load", "workload": "vLLM start to ready", "sample_bytes": "15 GB"}
    found = chain(**row, system="EBS gp3, 1000 MiB/s")
    assert found["unit"] == "us"
    assert found["predicted"] == pytest.approx(1e6 * (15e9 / 1.048576e9 + committed()["engine_start"]))
    assert found["low90"] < found["low80"] < found["predicted"] < found["high80"] < found["high90"]
    assert chain(**row, system="somewhere")["why"]


LOADED = {
    "kind": "dataloader",
    "workload": "ImageNet, FFCV 512px JPEG 90% -> RandomResizedCrop 224",
    "framework": "FFCV",
    "sample_bytes": "50000",
}


def test_a_loader_from_memory_decodes_on_all_cores_of_its_server():
    known = committed()
    found = chain(**LOADED, system="AWS p3dn.24xlarge, RAM")  # 96 virtual processors of 48 cores, rated 1950
    core = known["core_rate"] * 1950
    cores = 48 * (1 + known["second_thread"])
    assert found["samples_per_s"] == pytest.approx(cores * core / (1 + known["crop_work"]))
    assert found["read_GBps"] == pytest.approx(found["samples_per_s"] * 50000 / 1e9)
    raw = chain(**LOADED | {"workload": "ImageNet, FFCV 256px RAW, cropped to 224"}, system="AWS p3dn.24xlarge, RAM")
    assert raw["samples_per_s"] == pytest.approx(cores * core / known["crop_work"])
    small = chain(**LOADED | {"workload": "ImageNet, FFCV 250px JPEG, cropped to 224"}, system="AWS p3dn.24xlarge, RAM")
    assert small["samples_per_s"] == pytest.approx(cores * core / (0.25 + known["crop_work"]))
    two = chain(**LOADED, system="AWS p3dn.24xlarge, RAM", workers="2")
    assert two["samples_per_s"] == pytest.approx(2 * core / (1 + known["crop_work"]))


def test_a_loader_from_volumes_of_no_named_kind_has_their_range():
    found = chain(**LOADED | {"sample_bytes": "500000", "workload": "FFCV 512px RAW"}, system="AWS p3dn.24xlarge, EBS")
    assert found["samples_per_s"] == pytest.approx(1.049e9 / 500000)  # of gp2, gp3, io1 and io2 the middle
    assert found["low80"] < 0.262e9 / 500000 and found["high80"] > 19e9 / 8 / 500000
    named = chain(**LOADED | {"sample_bytes": "500000"}, system="AWS p3dn.24xlarge, EBS gp2")
    assert named["samples_per_s"] == pytest.approx(0.262e9 / 500000)


RAN = {
    "kind": "training",
    "workload": "ResNet-50 on ImageNet, 160 to 192 pixels",
    "accelerator": "a100-sxm-40gb",
    "accelerators": "8",
    "framework": "PyTorch + FFCV (amp)",
}


def test_a_run_on_real_data_is_as_fast_as_the_slower_of_step_and_host():
    known = committed()
    fast = chain(**RAN, system="AWS p4d.24xlarge, RAM")
    slow = chain(**RAN, system="RAM", cpu="4 cores, Xeon Platinum 8275L")
    assert slow["samples_per_s"] == pytest.approx(
        4 * (1 + known["second_thread"]) * known["core_rate"] * 2150 / (1 + known["crop_work"])
    )
    assert fast["samples_per_s"] > 5 * slow["samples_per_s"] and fast["tier"] == "system described"
    drive = chain(**RAN, system="AWS p4d.24xlarge, EBS gp2", sample_bytes="100 kB")
    assert drive["samples_per_s"] == pytest.approx(2620)
    assert "names no network" in chain(**RAN | {"workload": "ImageNet"}, system="AWS p4d.24xlarge, RAM")["why"]


def test_a_machine_that_is_not_stated_widens_the_interval():
    stated = chain(**RAN, system="AWS p4d.24xlarge, RAM")
    unstated = chain(
        kind="dataloader", workload="ImageNet + ResNet-50 training", system="not stated", framework="StreamingDataset"
    )
    assert "machine" in unstated["assumed"] and "machine" not in stated["assumed"]
    assert unstated["high80"] / unstated["low80"] > 2 * stated["high80"] / stated["low80"]
    assert unstated["low90"] < unstated["low80"] < unstated["predicted"] < unstated["high80"] < unstated["high90"]
    assert unstated["tier"] != "system described"


def test_accelerators_without_a_core_of_their_own_share_those_that_there_are():
    known, core = committed(), 2150 * committed()["core_rate"]
    cores = 4 * (1 + known["second_thread"])
    row = LOADED | {
        "framework": "PyTorch",
        "system": "RAM",
        "cpu": "4 cores, Xeon Platinum 8275L",
        "accelerators": "64",
    }
    pooled, row = chain(**row | {"framework": "FFCV"}), row | {"workload": "ImageNet, cropped to 224"}
    found, many = chain(**row), chain(**row, workers="1000")
    assert found["samples_per_s"] == many["samples_per_s"]
    assert found["samples_per_s"] < cores * core / (1 + known["crop_work"])
    assert pooled["samples_per_s"] == pytest.approx(cores * core / (1 + known["crop_work"]))


def test_large_blocks_are_read_ahead_and_small_ones_one_by_one():
    disk = {"kind": "fio", "system": "7.2k rpm nearline HDD (Seagate Exos X18 class)", "unit": "MB/s"}
    assert chain(**disk, workload="bs=1m")["predicted"] == pytest.approx(270)
    assert chain(**disk, workload="bs=4k")["predicted"] == pytest.approx(170 * 4096 / 1e6)
    assert chain(kind="fio", workload="bs=1m", system="an array of 3.5 GB/s")["predicted"] == pytest.approx(3.5)


def test_no_drives_at_all_and_no_rate_give_no_number():
    for system in ("0x Micron 9400", "0 GB/s", "0 readers, 0 GB/s, EBS", "m5.0xlarge"):
        for kind, words in (("weights", "Llama 3 8B"), ("weights", "vLLM start"), ("loader", "ImageNet, 224 pixels")):
            found = chain(kind=kind, workload=words, system=system, sample_bytes="1 GB", accelerators="8")
            assert not found["predicted"] <= 0 and (found["why"] == "") == np.isfinite(found["predicted"])


def test_an_engine_that_starts_has_a_latency_and_no_read_rate():
    found = chain(kind="model-load", workload="vLLM start", system="EBS gp3, 1000 MiB/s", sample_bytes="15 GB")
    assert found["latency_us"] == found["predicted"] and np.isnan(found["read_GBps"]) and np.isnan(found["iops"])


def test_a_report_and_a_call_are_answered_by_one_chain():
    """A decoder of a report is a stage of a match, and so are a download, a drive and its blocks."""
    store = {"storage": {"read_bandwidth": 1e18}, "system": "a100-sxm-80gb", "workload": 1e-9}
    known, image = committed(), {"samples": 1, "stored_bytes": 1, "decoded_bytes": committed()["benchmark_image_bytes"]}
    for decoder, workers in (("opencv", 0), ("pillow", 4), ("simplejpeg", 16)):
        row = chain(kind="decode", workload="jpeg_loader", cpu="AMD EPYC 9654", framework=decoder, workers=str(workers))
        work = image | {"decode_work": 1 / known[f"decoder/{decoder}"]}
        call = cb.match_storage(**store, data=work, processor="AMD EPYC 9654", workers=workers)
        assert row["predicted"] == pytest.approx(call.stages["decoding"], rel=1e-9)
    drive = {"storage": "micron-9400-7-68tb-gen4", "local": 0, "latency": 0}
    blocks = chain(kind="fio", workload="bs=4k", system="2x Micron 9400 7.68TB", unit="IOPS")
    card = {"samples": 1, "stored_bytes": 4096, "layout": "small files"}
    call = cb.match_storage(1e-9, "a100-sxm-80gb", drive | {"drives": 2}, card)
    assert blocks["predicted"] == pytest.approx(call.stages["storage"], rel=1e-9)
    run = one(accelerators="2", batch="7")
    call = cb.match_storage(
        "mlperf/unet3d", "h100-sxm", drive, accelerators=2, workers=0, prefetch=known["buffer"], variation=1, batch=7
    )
    assert run["accelerator_utilisation"] == pytest.approx(call.utilisation, rel=1e-9)


def test_sizes_of_data_sets_are_given_not_predicted():
    assert "sample_bytes" in chain(kind="dataset-size", workload="ImageNet JPEG", sample_bytes="7204")["why"]


def test_unknown_names_are_answered_in_bounded_time(within):
    frame = pd.DataFrame([{**RUN, "system": f"nameless ssd {at}", "accelerator": f"gpu-{at}"} for at in range(5000)])
    frame.loc[0, "system"] = "ssd " * 20000
    with within(30):
        assert storage_table(frame)["why"].ne("").all()
    assert nearest_stores("samsung 980 pro")[0].startswith("Samsung 980 PRO")


def test_columns_under_other_names_are_read_and_unknown_ones_are_named():
    theirs = {
        "Kind": "mlperf",
        "Model": "unet3d",
        "GPU": "h100-sxm",
        "GPUs": "64",
        "num hosts": "1",
        "Storage": DRIVE,
        "batch_size": "7",
    }
    found, ours = storage_table(pd.DataFrame([theirs])).iloc[0], one(batch="7")
    assert found["predicted"] == ours["predicted"] and found["read_GBps"] == ours["read_GBps"]
    assert unknown("storage", [*theirs, "id", "read_bandwidth", "wrokers", "samples_per_s"]) == [("wrokers", "workers")]


def test_what_was_not_given_is_told_with_its_value():
    given = {name: RUN[name] for name in ("kind", "workload", "accelerator", "accelerators")}
    found = storage_table(pd.DataFrame([given]))
    told = found["assumed"].iloc[0]
    for words in ("hosts 1", "batch 7", "sample_bytes 146,600,628 B", "keeps the required utilisation"):
        assert words in told
    assert one(batch="7", sample_bytes="146600628")["assumed"] == ""


def test_categories_are_read_as_their_words():
    rows = pd.DataFrame(
        [{**RUN, "system": system, "accelerators": str(number)} for system in SYSTEMS for number in (1, 64)]
    )
    pd.testing.assert_frame_equal(storage_table(rows), storage_table(rows.astype("category")))
