"""Meanings of words about machines: drives and stores of the catalogue, rates, links, processors, capacities."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from cookbook import catalog, units
from cookbook.catalog.names import MAKERS, index, normalise
from cookbook.catalog.reading import data_directory
from cookbook.units import shown

DRIVES = ("NVMe SSD", "SATA SSD", "SCM SSD", "HDD")
LOCAL = (*DRIVES, "DRAM / page cache / tmpfs", "interface")
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
GIGABIT = r"(?:Gb/s|Gbit/s|Gbps|GbE)\b"
# The number of a drive, and its size, as words of a name.
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # 1,000 MiB/s
MODEL = re.compile(r"[a-z]{0,3}\d{3,4}[a-z0-9]?|[a-z]{2}\d(?:[a-z]\d?)?")
SIZE = re.compile(r"\d+tb|gen\d")
WORDS = re.compile(r"[\W_]+")
RATE = re.compile(rf"{NUMBER}\s*([kMGT]i?B)(?:/s|ps)(?![/\w])")
OPERATIONS = re.compile(rf"{NUMBER}\s*IOPS\b", re.I)
LINKS = re.compile(
    rf"(?:(?<![\w.])|(?<=_))(?:(\d{{1,4}})\s*[x×]\s*)?"
    rf"(?:(?i:NDR|HDR|EDR|XDR|SlingShot)[\s-]?(\d{{2,4}})|{NUMBER}\s*{GIGABIT})",
    re.A,
)
# How many there are: before the words, or behind the number of a drive, its size and the like; lanes are not drives.
COUNT_BEFORE = re.compile(
    r"(?<![\w.])(\d{1,7})\s*[x×*]\s*(?=[a-z])|^\s*(\d{1,7})\s+(?=[a-z])"
    r"|(?<![\w.])(\d{1,7})\s+(?:drives|ssds|disks)\b",
    re.I | re.A,
)
COUNT_BEHIND = (
    r"[\s_-]*(?:(?:pro|evo|max)[\s_-]*)?(?:[\d.]+\s?tb[\s_-]*)?(?:\(\w+\)[\s_-]*)?"
    r"x(\d{1,4})(?![\w.])(?!\s*(?:lanes?|pcie|nvme))"
)
EACH_HOST = re.compile(r"\b(?:per|each|every|a|in each)\s+(?:host|node|client|server)\b", re.I)
EACH_DRIVE = re.compile(r"\b(?:per|each|every|a)\s+(?:drive|disk|ssd)\b|\beach\b", re.I)
# A submitter and its system, or how many nodes and clients there are: the form in which runs are published.
SUBMITTED = re.compile(r"^[^:/]{2,40}:\s*\S|\d+[\s_-]?(?:nodes?|hosts?|clients?)(?![a-z])", re.I)
DEVICE_WORDS = frozenset(
    ("disk", "disks", "disc", "drive", "drives", "hdd", "hdds", "ssd", "ssds", "stick", "thumb", "emmc")
)
NO_STORE = frozenset(
    ("floppy", "floppies", "diskette", "tape", "tapes", "punch", "punched", "cassette", "usb", "dvd", "cd", "zip")
)
SYSTEM_WORDS = frozenset(
    (
        "node",
        "nodes",
        "host",
        "hosts",
        "client",
        "clients",
        "server",
        "servers",
        "cluster",
        "storage",
        "array",
        "system",
        "filesystem",
        "lustre",
        "gpfs",
        "nas",
        "cloud",
        "distributed",
        "shared",
        "cache",
        "unified",
        "enclosure",
        "parallel",
    )
)
# Clouds: instances, their networks and volumes; loaders: where samples lie, how they are stored, who reads them.
INSTANCE = re.compile(r"\b([a-z]\d\w*)\.(\w+)\b")
LINE_RATE = re.compile(rf"{NUMBER}\s*{GIGABIT}")
CLOUD_SIZE = re.compile(r"(\d*)x?(large|medium|small|micro|nano|metal)")
WHOLE_MACHINE = 96.0
OBJECTS = re.compile(r"\bs3\b|object|\bgcs\b|\bblob\b|bucket|\br2\b", re.I)
MEMORY = re.compile(r"\bram\b|\bin[- ]memory\b|page cache|\bcached\b|tmpfs|/dev/shm", re.I)
VOLUMES = re.compile(r"\bEBS\b[\s:]*(gp[23]|io[12])?|\b(gp[23]|io[12])\b", re.I)
PROCESSORS = re.compile(r"(\d{1,4})\s*(?:v-?CPUs?|virtual processors?|(cores?))\b", re.I)
POOLED = re.compile(r"ffcv|dali|tensorflow|tf\.?data|tfrecord|mxnet", re.I)
NETWORKS = re.compile(r"\b[a-z]{3,}(?:[\s-]?v?\d+[a-z\d_.]*)", re.I)
SIDE = re.compile(r"(?:(\d{2,4})\s*(?:px|pixels)?\s*(?:-+>|to|-)\s*)?(\d{2,4})\s*(?:px|pixels)\b", re.I)
CROPPED = re.compile(r"crop\w*\D{0,8}(\d{2,4})\b", re.I)
PART_JPEG = re.compile(r"(\d{1,3})\s*%\s*(?:of\s*)?jpe?g", re.I)
READERS = re.compile(r"\b(?:readers|connections|streams) (\d{1,4})\b|\b(\d{1,4}) (?:readers|connections|streams)", re.I)
CAPACITY = re.compile(r"(\d+(?:\.\d+)?)\s?TB", re.I)
VOLUME = re.compile(r", (\d+ [GT]iB)$")
HOST_LINK = re.compile(r"PCIe\s?(\d)\s?x(\d+)")
MAX_READ, MAX_SHOWN, MAX_DRIVES = 400, 40, 1e5


class NamedSystem(NamedTuple):
    """A storage system that words describe; rates in B/s, infinite or NaN where the words give none.

    Attributes
    ----------
    rate, most : float
        Read bandwidth of one as the catalogue first states it, and the most that any of its rows states.
    iops : float
        Operations per second of one.
    number, in_each_host : float
        How many there are, and whether in each host.
    local : float
        1 for drives inside the hosts.
    line, client : float
        All network links together, and the most that one host reads.
    submitted, stands_in : float
        1 for the form of a published run; 1 where only a stated rate is known.
    why : str
        Why a system of that name is unknown.
    """

    rate: float = math.nan
    most: float = math.nan
    iops: float = math.nan
    number: float = 1.0
    in_each_host: float = 0.0
    local: float = 0.0
    line: float = math.inf
    client: float = math.inf
    submitted: float = 0.0
    stands_in: float = 0.0
    why: str = ""


@lru_cache(maxsize=1)
def _models() -> dict[str, dict[str, list[Any]]]:
    """Return rows of the catalogue about a drive, by its number and its maker."""
    models: dict[str, dict[str, list[Any]]] = {}
    rows = catalog.table("storage")
    for row in rows[rows["category"].isin(DRIVES)].itertuples(index=False):
        name = [word for word in WORDS.split(row.name.casefold()) if not SIZE.fullmatch(word)]
        model = next((word for word in name[1:] if MODEL.fullmatch(word)), "")
        if model and "measured" not in name:
            models.setdefault(model, {}).setdefault(name[0], []).append(row)
    return models


@lru_cache(maxsize=1)
def _drive_makers() -> frozenset[str]:
    return frozenset(maker for makers in _models().values() for maker in makers)


@lru_cache(maxsize=1)
def _stores() -> tuple[dict[str, Any], dict[str, float]]:
    """Return rows of the catalogue by key, and the most that one host reads of some of them."""
    limits = catalog.table("storage_limits")
    most = dict(zip(limits["storage"], limits["client_bandwidth"], strict=True))
    return {row.key: row for row in catalog.table("storage").itertuples(index=False)}, most


def key_of(table: str, name: str) -> str:
    """Return the key of a row from any usual spelling; "" where none has it. Quick, as nothing near is looked for."""
    keys, wanted = index(table, data_directory()), normalise(name)
    return keys.get(wanted, "") or keys.get(MAKERS.sub("", wanted), "")


@lru_cache(maxsize=4096)
def named_system(words: str) -> NamedSystem:
    """Return the storage system that words describe.

    Parameters
    ----------
    words : str
        A cell: a drive by maker and number, a row of the catalogue, a stated rate, links, or a submitter's name.

    Examples
    --------
    >>> found = named_system("4x Micron 9400 7.68TB")
    >>> found.rate, found.number
    (7000000000.0, 4.0)
    >>> named_system("HPE: Cray_ClusterStor_E1000_10xHDR200_1host").line
    250000000000.0
    """
    text = THOUSANDS.sub("", words[:MAX_READ])
    catalogued = _catalogued(text)
    stated = [units.si(f"{number} {prefix}/s") for number, prefix in RATE.findall(text)]
    if stated:
        per_drive = bool(EACH_DRIVE.search(text)) or catalogued.rate > 0
        stated_rate = stated[0] / (1.0 if per_drive else max(catalogued.number, 1.0))
        least = min(stated_rate, catalogued.most) if catalogued.rate > 0 else stated_rate
        inside = catalogued.local > 0 or not DEVICE_WORDS.isdisjoint(WORDS.split(text.casefold()))
        catalogued = catalogued._replace(
            rate=min(least, catalogued.rate) if catalogued.rate > 0 else stated_rate,
            most=least,
            stands_in=float(not catalogued.rate > 0),
            local=float(inside),
        )
    operations = OPERATIONS.search(text)
    if operations and math.isnan(catalogued.iops):
        catalogued = catalogued._replace(iops=float(operations[1]))
    links = [float(many or 1) * float(named or plain) * 1e9 / 8 for many, named, plain in LINKS.findall(text)]
    catalogued = catalogued._replace(submitted=float(bool(SUBMITTED.search(text))), line=min(links, default=math.inf))
    return catalogued._replace(why=_unknown(text, catalogued))


def _catalogued(text: str) -> NamedSystem:
    """Return the drive or store of the catalogue that the words name, and the number of it."""
    words = WORDS.split(text.casefold())
    there = set(words)
    for model in words:
        for maker, rows in _models().get(model, {}).items():
            if maker in there:
                rates = [row.read_bandwidth for row in rows]
                system = NamedSystem(rates[0], max(rates), rows[0].read_iops, local=1.0)
                return _counted(system, text, rf"{re.escape(model)}{COUNT_BEHIND}")
    key = key_of("storage", text) or key_of("storage", COUNT_BEFORE.sub("", text, count=1).strip())
    stores, clients = _stores()
    if key and stores[key].read_bandwidth > 0:
        row, client = stores[key], clients.get(key, math.nan)
        system = NamedSystem(
            row.read_bandwidth,
            row.read_bandwidth,
            row.read_iops,
            local=float(row.category in LOCAL),
            client=client if client > 0 else math.inf,
        )
        return _counted(system, text if key != key_of("storage", text) else "", "")
    return _counted(NamedSystem(), text, "")


def _counted(system: NamedSystem, text: str, behind: str) -> NamedSystem:
    """Return a system with the number in the words; a drive without a number is in each host."""
    after = re.search(behind, text, re.I | re.A) if behind else None
    before = COUNT_BEFORE.search(text)
    count = after[1] if after else next(filter(None, before.groups()), None) if before else None
    per_host = bool(EACH_HOST.search(text)) or (count is None and system.local > 0)
    return system._replace(number=float(count or 1), in_each_host=float(per_host))


def _unknown(text: str, system: NamedSystem) -> str:
    """Return why the storage system in words is unknown: no such drive, or none of it; "" where it is known."""
    named = f"system = {shown(text, MAX_SHOWN)}"
    if text and not any(letter.isalpha() for letter in text):
        return f"{named} names nothing; name a drive, a store or its maker"
    if not 1 <= system.number <= MAX_DRIVES:
        return f"{named}: {system.number:g} of them cannot be; give 1 to {MAX_DRIVES:,.0f}"
    if system.rate == 0 or system.line == 0:
        return f"{named}: a rate of zero reads nothing; state one above zero"
    if system.rate > 0:
        return ""
    words = set(WORDS.split(text.casefold()))
    bare = bool(words & (DEVICE_WORDS | _drive_makers())) and not words & SYSTEM_WORDS and not system.submitted
    if not bare and not words & NO_STORE:
        return ""
    near = ", ".join(shown(name, 28) for name in nearest_stores(text))
    return f"{named}: the catalogue has no such drive; nearest: {near}. Name one, or state a rate such as 3.5 GB/s"


@lru_cache(maxsize=4096)
def nearest_stores(text: str, count: int = 2) -> tuple[str, ...]:
    """Return names of the stores of the catalogue that are most alike, by pairs of letters."""
    wanted = _pairs(text[:80])
    alike = sorted(_pairs_of_stores(), key=lambda pair: -2 * len(wanted & pair[1]) / (len(wanted) + len(pair[1]) or 1))
    return tuple(name for name, _ in alike[:count])


@lru_cache(maxsize=1)
def _pairs_of_stores() -> list[tuple[str, frozenset[str]]]:
    rows = catalog.table("storage")
    return [(name, _pairs(name)) for name in rows.loc[rows["read_bandwidth"] > 0, "name"]]


def _pairs(text: str) -> frozenset[str]:
    letters = normalise(text)
    return frozenset(letters[at : at + 2] for at in range(len(letters) - 1))


def cloud_network(system: str) -> tuple[float, float, str]:
    """Return the network of a cloud instance [B/s], its virtual processors, and its word where there is no number."""
    stated, instance = LINE_RATE.search(system[:MAX_READ]), INSTANCE.search(system[:MAX_READ])
    size = CLOUD_SIZE.fullmatch(instance[2]) if instance else None
    processors = _virtual_processors(size) if size else math.nan
    if stated:
        return float(stated[1]) * 1e9 / 8, processors, ""
    row = _instances().get((instance[1], instance[2])) if instance else None
    return (row[0], processors, row[1]) if row else (math.nan, processors, "")


@lru_cache(maxsize=1)
def _instances() -> dict[tuple[str, str], tuple[float, str, float]]:
    """Return networks of cloud instances by family and size, in figures or as a word, and the rate of their volumes."""
    by_name: dict[tuple[str, str], tuple[float, str, float]] = {}
    for row in catalog.table("cloud_networks").itertuples(index=False):
        for family in row.families.split(";"):
            for size in row.sizes.split(";"):
                by_name.setdefault((family, size), (float(row.network), row.network_class, float(row.volumes)))
    return by_name


def _virtual_processors(size: re.Match[str]) -> float:
    if size[2] == "metal":
        return WHOLE_MACHINE
    return 4.0 * float(size[1] or 1) if "x" in size[0] and size[2] == "large" else 2.0


class NamedChain(NamedTuple):
    """A loader, a run on real data or a reading of weights that words describe; NaN and "" where they give nothing.

    Attributes
    ----------
    model, accelerator, software, precision : str
        Network that is trained, and on what.
    side, stored_side, jpeg : float
        Side of the images handed over and stored [pixels], and the part of them that is compressed.
    server : str
        Key of the machine in the table ``systems``.
    cores, speed, threads : float
        Physical cores of the host, their single-thread speed, and threads of each.
    pooled : bool
        Whether threads write into the batch, so that no process collects it.
    store : {"memory", "object", "volume", "drive", ""}
        Where it is read from.
    least, middle, most : float
        Read rate of that [B/s]: apart where the words leave open which it is.
    readers : float
        Threads or connections that read at a time.
    """

    model: str = ""
    accelerator: str = ""
    software: str = ""
    precision: str = ""
    side: float = math.nan
    stored_side: float = math.nan
    jpeg: float = 1.0
    server: str = ""
    cores: float = math.nan
    speed: float = math.nan
    threads: float = math.nan
    pooled: bool = False
    store: str = ""
    least: float = math.nan
    middle: float = math.nan
    most: float = math.nan
    readers: float = math.nan


@lru_cache(maxsize=4096)
def named_chain(workload: str, system: str, accelerator: str, cpu: str, framework: str, note: str) -> NamedChain:
    """Return the chain that the words of a row describe.

    Examples
    --------
    >>> found = named_chain("ResNet-50 on ImageNet, 160 to 192 pixels", "AWS p4d.24xlarge, RAM", "", "", "FFCV", "")
    >>> found.model, found.side, found.cores, found.store
    ('resnet50', 176.0, 48.0, 'memory')
    """
    workload, system, cpu, framework = (cell[:MAX_READ] for cell in (workload, system, cpu, framework))
    model = next(filter(None, (key_of("models", word) for word in NETWORKS.findall(workload))), "")
    sides, crop, part = SIDE.search(workload), CROPPED.search(workload), PART_JPEG.search(workload)
    side = (float(sides[1] or sides[2]) + float(sides[2])) / 2 if sides else math.nan
    raw = re.search(r"\braw\b", workload, re.I)
    server, cores, speed, threads = _host(system, cpu)
    readers = READERS.search(note[:MAX_READ])
    alone = 1.0 if re.search(r"safetensors", framework, re.I) else math.nan
    return NamedChain(
        model,
        key_of("accelerators", accelerator) or accelerator,
        framework,
        "fp16" if re.search(r"\bamp\b|mixed", framework, re.I) else "",
        float(crop[1]) if crop else side if model else math.nan,
        math.nan if model and not crop else side,
        0.0 if raw else float(part[1]) / 100 if part else 1.0,
        server,
        cores,
        speed,
        threads,
        bool(POOLED.search(f"{framework} {workload}")),
        *_read_from(f"{workload}, {system}", system),
        float(readers[1] or readers[2]) if readers else alone,
    )


def _host(system: str, cpu: str) -> tuple[str, float, float, float]:
    """Return the key, physical cores, single-thread speed and threads per core of the server that words name."""
    instance, servers = INSTANCE.search(system), catalog.table("systems").set_index("key")
    names = [f"aws-{instance[1]}-{instance[2]}"] if instance else re.split(r"[,;>]", system)
    key = next(filter(None, (key_of("systems", name.strip()) for name in names)), "")
    row = servers.loc[key].to_dict() if key else {}
    speed, threads = processor_of(str(row.get("cpu", "")), cpu)
    counted, cloud = PROCESSORS.search(cpu) or PROCESSORS.search(system), cloud_network(system)[1]
    virtual = float(counted[1]) if counted and not counted[2] else row.get("vcpus", math.nan)
    virtual = cloud if math.isnan(virtual) else virtual
    physical = float(counted[1]) if counted and counted[2] else row.get("cores", math.nan)
    cores = virtual / (threads if threads > 0 else 2.0) if math.isnan(physical) else physical
    return key, float(cores), speed, threads


def _read_from(words: str, system: str) -> tuple[str, float, float, float]:
    """Return the store that samples or weights are read from, with its least, middle and highest rate [B/s]."""
    if MEMORY.search(words):
        return "memory", math.inf, math.inf, math.inf
    if OBJECTS.search(system):
        return "object", math.nan, math.nan, math.nan
    store, volume = named_system(system), VOLUMES.search(system)
    rate = store.rate * store.number
    if not volume:
        return "drive" if rate > 0 else "", rate, rate, rate
    instance, kind = INSTANCE.search(system), (volume[1] or volume[2] or "").casefold()
    row = _instances().get((instance[1], instance[2])) if instance else None
    most = row[2] if row and row[2] > 0 else math.inf
    rates = sorted(_volumes(kind)) if not rate > 0 else [rate]
    middle = (rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2
    return "volume", min(rates[0], most), min(middle, most), min(rates[-1], most)


def _volumes(kind: str) -> list[float]:
    """Return the most that one volume of each kind of flash delivers [B/s], or of the kind that is named."""
    rows = catalog.table("storage")
    names = rows["name"]
    flash = names.str.startswith("Amazon EBS") & ~names.str.contains("HDD|,") & (rows["read_bandwidth"] > 0)
    named = flash & names.str.contains(kind, case=False)
    return [float(rate) for rate in rows.loc[named if named.any() else flash, "read_bandwidth"]]


@lru_cache(maxsize=1)
def _processors() -> list[tuple[re.Pattern[str], float, float]]:
    rows = catalog.table("processors")
    return [
        (re.compile(row.pattern, re.I), float(row.single_thread), float(row.threads_per_core))
        for row in rows.itertuples(index=False)
    ]


@lru_cache(maxsize=4096)
def processor_of(system: str, cpu: str) -> tuple[float, float]:
    """Return single-thread speed and threads per core of the processor that words name; NaN where none is known.

    Parameters
    ----------
    system, cpu : str
        Words about the system and about its processor; the latter count first.
    """
    for words in (cpu[:MAX_READ], system[:MAX_READ]):
        for pattern, speed, threads in _processors() if words else ():
            if pattern.search(words):
                return speed, threads
    return math.nan, math.nan


def capacity_in(name: str) -> float:
    """Return the capacity in the name of a store [B]; NaN where it contains none.

    >>> capacity_in("Micron 9400 7.68TB (Gen4)"), capacity_in("Amazon EBS gp2, 200 GiB")
    (7680000000000.0, 214748364800.0)
    """
    volume, size = VOLUME.search(name), CAPACITY.search(name)
    return units.si(volume[1], "B") if volume else float(size[1]) * 1e12 if size else math.nan


def bus_in(words: str) -> str:
    """Return the key of the host link that words of the catalogue name; "" where they name none.

    >>> bus_in("PCIe 5 x16"), bus_in("NVLink-C2C")
    ('pcie-5-0-x16', 'nvlink-c2c-grace-hopper-blackwell')
    """
    bus = HOST_LINK.search(words)
    return f"pcie-{bus[1]}-0-x{bus[2]}" if bus else "nvlink-c2c-grace-hopper-blackwell" * ("C2C" in words)
