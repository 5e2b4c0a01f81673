"""Fits of the constants of single kernels to the tables ``kernels`` and ``kernel_tables``.

Each part has one form, a time in seconds. W are bytes, F operations, b the memory bandwidth and p the dense peak of the
data sheet in the number format, s and e shares of them, h heads, T tokens:

- ``matmul``: hypot(W / (s b), F / (e p)) + start, where W are weights and activations.
- ``prompt_attention``, ``latent_prompt``: F (1 + ramp / (batch h T)) / (e p) + W / (s b) + start, where F is the
  causal half and W are queries, keys, values and results.
- ``decode_attention``: W (1 + query_cost (h / kv heads - 1)) / (s b) + start, where W are keys and values.
- ``latent_decode``: hypot(W / (s b), F / (e p)) + start.
- ``experts``: hypot(W / (s b), F / (e p)) + start + passes 2 bytes rows hidden / b, where W are the weights of the
  experts that are hit and F is 6 hidden width (rows + hit tile_rows / 2), with even loads. ``busiest`` and
  ``busiest_small`` are the time of the busiest of 8 ranks with loads by a power law over the time with even ones, from
  2,048 tokens and at 32.
- collectives: start + rank (n - 1) + c (n - 1) / n payload / (s link), where c is 2 for an all-reduce and 1 otherwise,
  and link is the rate of one direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cookbook import catalog

ANY_FAMILY = "any"
TABLE, SOURCE = "kernel_constants", "nvidia-aic"
# Error of a row from which the loss is linear, standard deviation of the prior around the start, limits of the search.
HUBER_TURN, PULL, STEPS, ENOUGH = 0.1, 1.0, 200, 1e-11
NUDGE, MAX_DAMPING = 1e-5, 1e9
# Shares of the last cache that a kernel's keys may fill or must exceed; between the two, hits are uncertain.
CACHED = (0.1, 1.5)
# Elementwise kernels of a decoder layer that are assumed to start beside its matmuls: two norms, each with the sum
# before it, and the activation. The rotation of queries and keys is part of the projection or of attention.
ELEMENTWISE, MATMULS = 3, 4
# Spread of the logarithm of a constant of a single table.
LONE_SPREAD = 0.5
# Tokens at which the busiest rank is compared.
SMALL_TOKENS, LARGE_TOKENS = 32, 2048
# Formats of one byte: the table of number formats states what training keeps, which for fp8 is 16 bits.
STORED_AS = {"fp8": "int8", "fp8-block": "int8", "int8-weights": "int8"}
GDDR = "gddr"
ACTIVATION_BYTES = 2.0  # bytes of an activation in 16 bits
COUNT_COLUMNS = (
    "batch",
    "tokens",
    "heads",
    "kv_heads",
    "inner",
    "width",
    "chosen",
    "experts",
    "cut",
    "spread",
    "ranks",
    "payload_bytes",
    "head_dim",
    "value_dim",
    "latent_dim",
    "rotary_dim",
)
COLLECTIVES = ("engine_all_reduce", "nccl_all_reduce", "nccl_all_gather", "nccl_all_to_all")

Numbers = dict[str, np.ndarray]
Form = Callable[[Numbers, Any], np.ndarray]
Miss = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Free:
    """A constant that is searched: its name, where the search starts, bounds, unit."""

    name: str
    start: float
    low: float
    high: float
    unit: str = ""


def _hypot(x: Numbers, c: Any) -> np.ndarray:
    return np.hypot(x["bytes"] / c["bandwidth_share"], x["flops"] / c["peak_share"]) + c["start"]


def _attention(x: Numbers, c: Any) -> np.ndarray:
    computed = x["flops"] * (1 + c["ramp"] / x["head_tokens"]) / c["peak_share"]
    return computed + x["bytes"] / c["bandwidth_share"] + c["start"]


def _decode(x: Numbers, c: Any) -> np.ndarray:
    return x["bytes"] * (1 + c["query_cost"] * x["queries"]) / c["bandwidth_share"] + c["start"]


def _experts(x: Numbers, c: Any) -> np.ndarray:
    flops = x["flops"] + c["tile_rows"] / 2 * x["tile_flops"]
    return _hypot({"bytes": x["bytes"], "flops": flops}, c) + c["passes"] * x["pass"]


def _collective(x: Numbers, c: Any) -> np.ndarray:
    return c["start"] + c["rank"] * x["others"] + x["bytes"] / c["link_share"]


_SHARES = (Free("bandwidth_share", 0.8, 0.2, 1), Free("peak_share", 0.6, 0.05, 1))
_ATTENTION = (
    Free("bandwidth_share", 0.5, 0.1, 1),
    Free("peak_share", 0.6, 0.05, 1),
    Free("ramp", 1e4, 100, 3e5),
    Free("start", 1e-5, 1e-6, 1e-4, "s"),
)
_COLLECTIVE = (
    Free("start", 5e-6, 2e-7, 1e-4, "s"),
    Free("rank", 5e-7, 1e-8, 2e-5, "s"),
    Free("link_share", 0.7, 0.1, 1),
)
PARTS: dict[str, tuple[Form, tuple[Free, ...]]] = {
    "matmul": (_hypot, (*_SHARES, Free("start", 4e-6, 5e-7, 5e-5, "s"))),
    "prompt_attention": (_attention, _ATTENTION),
    "decode_attention": (
        _decode,
        (
            Free("bandwidth_share", 0.8, 0.2, 1),
            Free("query_cost", 0.005, 1e-4, 1),
            Free("start", 1e-5, 1e-6, 1e-4, "s"),
        ),
    ),
    "experts": (
        _experts,
        (*_SHARES, Free("start", 3e-5, 1e-6, 2e-4, "s"), Free("tile_rows", 80, 1, 400), Free("passes", 4, 0.1, 40)),
    ),
    "latent_prompt": (_attention, _ATTENTION),
    "latent_decode": (_hypot, (*_SHARES, Free("start", 1.5e-5, 1e-6, 1e-4, "s"))),
    **dict.fromkeys(COLLECTIVES, (_collective, _COLLECTIVE)),
}


@dataclass(frozen=True)
class Rows:
    """Measured kernels of one part: numbers of its form, seconds, and levels, each an array over rows."""

    x: Numbers
    seconds: np.ndarray
    table: np.ndarray
    engine: np.ndarray
    device: np.ndarray
    family: np.ndarray
    format: np.ndarray

    def where(self, chosen: np.ndarray) -> Rows:
        """Return the chosen rows; `chosen`: booleans, one per row."""
        levels = (self.seconds, self.table, self.engine, self.device, self.family, self.format)
        return Rows({name: values[chosen] for name, values in self.x.items()}, *(level[chosen] for level in levels))

    def weights(self, pooled: bool) -> np.ndarray:
        """Return row weights, mean 1.

        Devices weigh the same, on each the engines, of each the tables, of each the rows.

        `pooled`: families weigh the same first, then the devices of each.
        """
        count = len(self.seconds)
        paths: list[tuple[str, ...]] = [()] * count
        weight = np.ones(count)
        for level in (*([self.family] if pooled else []), self.device, self.engine, self.table, np.arange(count)):
            inner = [(*path, str(name)) for path, name in zip(paths, level, strict=True)]
            parts = Counter(path[:-1] for path in dict.fromkeys(inner))
            weight /= np.array([parts[path] for path in paths], dtype=float)
            paths = inner
        return weight * len(weight) / weight.sum()


def rows_of(part: str) -> Rows:
    """Return measured rows of a part, a key of `PARTS`, with the numbers that its form takes, in SI."""
    tables = catalog.table("kernel_tables").drop(columns=["source", "how", "rows"])
    devices = catalog.table("accelerators").add_prefix("device_")
    frame = catalog.table("kernels").merge(tables[tables["kernel"] == part], left_on="table", right_on="key")
    frame = frame.merge(devices, left_on="accelerator", right_on="device_key")
    formats = frame[_format_column(part)].replace("fp8-block", "fp8")
    levels = [
        frame["table"],
        frame["engine"],
        frame["accelerator"],
        _families(frame, devices),
        formats if part not in COLLECTIVES else formats.replace(".*", "", regex=True),
    ]
    rows = Rows(
        _numbers(part, frame),
        frame["seconds"].to_numpy(dtype=float),
        *(level.to_numpy(dtype=object) for level in levels),
    )
    return rows.where(~_is_cached(frame)) if part == "decode_attention" else rows


def _format_column(part: str) -> str:
    return "kv_format" if part in ("decode_attention", "latent_decode") else "precision"


def _families(frame: Any, devices: Any) -> Any:
    """Return generations of rows; GDDR separately where devices of the generation with HBM were measured too."""
    gddr = frame["device_memory_type"].str.startswith("GDDR")
    hbm = set(devices.loc[devices["device_memory_type"].str.startswith("HBM"), "device_generation"])
    separate = gddr & frame["device_generation"].isin(hbm)
    return frame["device_generation"].where(~separate, frame["device_generation"] + f"-{GDDR}")


def _is_cached(frame: Any) -> np.ndarray:
    """Return True for rows whose keys fit the last-level cache and are large enough to show its rate."""
    share = _cache_bytes(frame) / frame["device_cache_bytes"].to_numpy(dtype=float)
    return (share > CACHED[0]) & (share < CACHED[1])


def _cache_bytes(frame: Any) -> np.ndarray:
    """Return the bytes of keys and values of attention."""
    f = {name: frame[name].to_numpy(dtype=float) for name in ("batch", "tokens", "kv_heads", "head_dim", "value_dim")}
    return f["batch"] * f["tokens"] * f["kv_heads"] * (f["head_dim"] + f["value_dim"]) * _bytes_of(frame["kv_format"])


def _bytes_of(formats: Any) -> np.ndarray:
    """Return the bytes of one weight, or of one number of keys and values, by number format."""
    by_format = dict(catalog.table("number_formats").set_index("name")["weight_bytes"])
    by_format["int4-weights"] = catalog.constant("quantised-weight")
    return np.array([by_format[STORED_AS.get(name, name)] for name in formats], dtype=float)


def _peaks(frame: Any, formats: Any) -> np.ndarray:
    """Return the dense peak of each row's matmuls [FLOP/s]."""
    columns = {"fp8-block": "fp8", "int8-weights": "bf16", "int4-weights": "bf16"}
    names = [columns.get(format_, format_) for format_ in formats]
    values = {name: frame[f"device_peak_{name}"].to_numpy(dtype=float) for name in sorted(set(names))}
    return np.array([values[name][at] for at, name in enumerate(names)], dtype=float)


def _numbers(part: str, frame: Any) -> Numbers:
    """Return the inputs of a part's form: times of bytes and operations at the data sheet's rates, and counts."""
    f = {name: frame[name].to_numpy(dtype=float) for name in COUNT_COLUMNS}
    if part in COLLECTIVES:
        return _collectives(part, frame, f)
    memory = frame["device_mem_bandwidth"].to_numpy(dtype=float)
    peak = _peaks(frame, frame[_format_column(part)]) if part != "decode_attention" else memory
    if part == "matmul":
        traffic = f["inner"] * f["width"] * _bytes_of(frame["precision"]) + ACTIVATION_BYTES * f["tokens"] * (
            f["inner"] + f["width"]
        )
        return {"bytes": traffic / memory, "flops": 2 * f["tokens"] * f["inner"] * f["width"] / peak}
    if part == "experts":
        return _of_experts(frame, f, memory, peak)
    if part == "decode_attention":
        return {"bytes": _cache_bytes(frame) / memory, "queries": f["heads"] / f["kv_heads"] - 1}
    tokens, cache_bytes = f["batch"] * f["tokens"], _bytes_of(frame["kv_format"])
    if part == "latent_decode":
        latent = f["latent_dim"] + f["rotary_dim"]
        operations = 2 * tokens * f["heads"] * (latent + f["latent_dim"])
        return {"bytes": tokens * latent * cache_bytes / memory, "flops": operations / peak}
    kv, dims = np.where(np.isnan(f["kv_heads"]), f["heads"], f["kv_heads"]), f["head_dim"] + f["value_dim"]
    return {
        "bytes": tokens * dims * (ACTIVATION_BYTES * (f["heads"] + kv) + cache_bytes * kv) / memory,
        "flops": tokens * f["heads"] * (f["tokens"] + 1) * dims / peak,
        "head_tokens": tokens * f["heads"],
    }


def _of_experts(frame: Any, f: Numbers, memory: np.ndarray, peak: np.ndarray) -> Numbers:
    rows = f["tokens"] * f["chosen"] / f["spread"]
    hit = np.minimum(f["experts"] / f["spread"], np.maximum(rows, f["chosen"]))
    expert_weights = 3 * f["inner"] * f["width"] / f["cut"]
    shapes = zip(*(f[name] for name in ("inner", "width", "chosen", "experts", "cut", "spread", "tokens")), strict=True)
    return {
        "bytes": hit * expert_weights * _bytes_of(frame["precision"]) / memory,
        "flops": 2 * rows * expert_weights / peak,
        "tile_flops": 2 * hit * expert_weights / peak,
        "pass": ACTIVATION_BYTES * rows * f["inner"] / memory,
        "tokens": f["tokens"],
        "even": (frame["loads"] == "even").to_numpy(dtype=bool),
        "shape": np.array(["/".join(f"{size:g}" for size in shape) for shape in shapes], dtype=object),
    }


def _collectives(part: str, frame: Any, f: Numbers) -> Numbers:
    """Return the ranks beside the first, and the time of the bytes at the link's rate in one direction."""
    slots = catalog.table("interconnects").set_index("key")["bandwidth"]
    bus = frame["device_bus_key"].map(slots).to_numpy(dtype=float)
    fast = (frame["device_device_link_kind"] == "fast").to_numpy()
    link = np.where(fast, frame["device_device_link_bandwidth"].to_numpy(dtype=float) / 2, bus)
    ways = 2 if part.endswith("all_reduce") else 1
    return {"others": f["ranks"] - 1, "bytes": ways * (f["ranks"] - 1) / f["ranks"] * f["payload_bytes"] / link}


@dataclass(frozen=True)
class Found:
    """Constants of one fit, the standard error of their logarithms, and the median error of single rows."""

    values: dict[str, float]
    errors: dict[str, float]
    error: float


def search(form: Form, free: tuple[Free, ...], rows: Rows, weights: np.ndarray) -> Found:
    """Return the constants that minimise logarithmic errors of times: damped, robust Gauss-Newton steps.

    `form`, `free`: as in `PARTS`; `rows`, `weights`: measured rows and their weights, mean 1.
    """
    start, low, high = (np.log([getattr(constant, name) for constant in free]) for name in ("start", "low", "high"))
    names, measured = [constant.name for constant in free], np.log(rows.seconds)

    def miss(point: np.ndarray) -> np.ndarray:
        return np.log(form(rows.x, dict(zip(names, np.exp(point), strict=True)))) - measured

    def loss(point: np.ndarray, missed: np.ndarray) -> float:
        bent = 2 * (np.sqrt(1 + (missed / HUBER_TURN) ** 2) - 1)
        return float((weights * bent).sum() + (((point - start) / PULL) ** 2).sum())

    point, damping, step = start.copy(), 1e-3, 1.0
    missed = miss(point)
    for _ in range(STEPS):
        normal, fall = _normal(miss, point, missed, weights)
        normal, fall = normal + np.eye(len(free)) / PULL**2, fall - (point - start) / PULL**2
        loose, best, step = ~(((point <= low) & (fall < 0)) | ((point >= high) & (fall > 0))), loss(point, missed), 0.0
        while damping < MAX_DAMPING and not step:
            trial = np.clip(point + _step(normal, fall, loose, damping), low, high)
            trial_missed = miss(trial)
            if loss(trial, trial_missed) < best:
                step, point, missed = float(np.abs(trial - point).max()), trial, trial_missed
            damping = max(damping / 10, 1e-9) if step else damping * 10
        if step < ENOUGH:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(normal)))
    return Found(
        dict(zip(names, map(float, np.exp(point)), strict=True)),
        dict(zip(names, map(float, errors), strict=True)),
        float(np.median(np.abs(np.expm1(missed)))),
    )


def _normal(miss: Miss, point: np.ndarray, missed: np.ndarray, weights: np.ndarray) -> Any:
    """Return normal matrix and downhill direction; sums without BLAS, so that every processor gives the same."""
    slopes = np.stack([(miss(point + d) - miss(point - d)) / (2 * NUDGE) for d in NUDGE * np.eye(len(point))])
    firm = weights / np.sqrt(1 + (missed / HUBER_TURN) ** 2) / HUBER_TURN**2
    return (slopes[:, None] * slopes[None] * firm).sum(-1), -(slopes * (firm * missed)).sum(-1)


def _step(normal: np.ndarray, fall: np.ndarray, loose: np.ndarray, damping: float) -> np.ndarray:
    """Return a damped step of the constants that are not at a bound."""
    damped, step = normal + damping * np.diag(np.diag(normal)), np.zeros(len(fall))
    if loose.any():
        step[loose] = np.linalg.solve(damped[np.ix_(loose, loose)], fall[loose])
    return step


def fitted(part: str) -> Iterator[dict[str, Any]]:
    """Yield rows of ``kernel_constants`` for a key of `PARTS`: each family and format, and all families."""
    form, free = PARTS[part]
    all_rows = rows_of(part)
    rows = all_rows.where(all_rows.x["even"]) if part == "experts" else all_rows
    for name in sorted(set(rows.format)):
        of_format = rows.where(rows.format == name)
        between = _between(form, free, of_format)
        for family in (*sorted(set(of_format.family)), ANY_FAMILY):
            selected = of_format if family == ANY_FAMILY else of_format.where(of_format.family == family)
            result = search(form, free, selected, selected.weights(family == ANY_FAMILY))
            left = _left_out(form, free, selected, family == ANY_FAMILY)
            shared = {
                "part": part,
                "family": family,
                "format": name,
                "rows": len(selected.seconds),
                "error": result.error,
                "left_out": left,
                "devices": len(set(selected.device)),
            }
            table_spread = between.get(family, between[ANY_FAMILY])
            for constant in free:
                own = float(np.hypot(result.errors[constant.name], table_spread[constant.name]))
                if family == ANY_FAMILY and not np.isnan(left):
                    own = float(np.log1p(left))
                yield {
                    **shared,
                    "constant": constant.name,
                    "value": result.values[constant.name],
                    "unit": constant.unit,
                    "spread": own,
                }
            if part == "experts":
                whole = all_rows.where(
                    (all_rows.format == name) & ((all_rows.family == family) | (family == ANY_FAMILY))
                )
                yield from ({**shared, **line} for line in _busiest(whole))


def _between(form: Form, free: tuple[Free, ...], rows: Rows) -> dict[str, dict[str, float]]:
    """Return the standard deviation of constants' logarithms between tables, by family, and the families' mean."""
    levels: dict[str, dict[str, float]] = {}
    for family in sorted(set(rows.family)):
        family_rows = rows.where(rows.family == family)
        tables = [family_rows.where(family_rows.table == name) for name in sorted(set(family_rows.table))]
        if len(tables) > 1:
            fits = [search(form, free, table, table.weights(False)).values for table in tables]
            logs = {constant.name: np.log([fit[constant.name] for fit in fits]) for constant in free}
            levels[family] = {name: float(np.std(values, ddof=1)) for name, values in logs.items()}
    by_family = list(levels.values())
    typical = {
        constant.name: float(np.mean([spreads[constant.name] for spreads in by_family])) if by_family else LONE_SPREAD
        for constant in free
    }
    return {**levels, ANY_FAMILY: typical}


def _left_out(form: Form, free: tuple[Free, ...], rows: Rows, pooled: bool) -> float:
    """Return the mean over devices of the median error by constants of all other devices; NaN where there is one."""
    devices = sorted(set(rows.device))
    if len(devices) < 2:
        return float("nan")
    missed = []
    for device in devices:
        others, own = rows.where(rows.device != device), rows.where(rows.device == device)
        values = search(form, free, others, others.weights(pooled)).values
        missed.append(float(np.median(np.abs(form(own.x, values) / own.seconds - 1))))
    return float(np.mean(missed))


def _busiest(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the time of the busiest rank over that of even loads: geometric mean of the medians of tables."""
    lines = [*zip(rows.table, rows.x["shape"], rows.seconds, rows.x["even"], rows.x["tokens"], strict=True)]
    even = {(table, shape): seconds for table, shape, seconds, flat, _ in lines if flat}
    for constant, (least, most) in {
        "busiest_small": (SMALL_TOKENS, SMALL_TOKENS),
        "busiest": (LARGE_TOKENS, np.inf),
    }.items():
        ratios: dict[str, list[float]] = {}
        for table, shape, seconds, flat, tokens in lines:
            if not flat and least <= tokens <= most and (table, shape) in even:
                ratios.setdefault(table, []).append(float(np.log(seconds / even[table, shape])))
        if ratios:
            mean, all_of_them = (
                float(np.mean([np.median(values) for values in ratios.values()])),
                np.concatenate([*ratios.values()]),
            )
            yield {
                "constant": constant,
                "value": float(np.exp(mean)),
                "unit": "",
                "rows": len(all_of_them),
                "spread": float(np.std(all_of_them)),
                "left_out": float("nan"),
                "error": float(np.median(np.abs(np.expm1(mean - all_of_them)))),
            }


def _layers(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield start-up times of one decoder layer inside a CUDA graph, for each family and format that has matmuls.

    Four matmuls (queries with keys and values, output, gate with up, down), attention of one token (append, attention
    and sum of splits are in its start), and three elementwise kernels, each taken to start like a matmul of 16-bit
    floats. With experts the last two matmuls and the activation go, a router's matmul and the layer of experts come.
    """
    starts = {(line["part"], line["family"], line["format"]): line for line in lines if line["constant"] == "start"}
    for part, family, name in list(starts):
        if part != "matmul":
            continue
        own, plain = starts[part, family, name], starts[part, family, "bf16"]
        reads = starts["decode_attention", family, "bf16"]
        experts = starts.get(("experts", family, name)) or starts["experts", family, "bf16"]
        for constant, terms in {
            "start": [(own, MATMULS), (reads, 1), (plain, ELEMENTWISE)],
            "start_experts": [(own, MATMULS - 2), (reads, 1), (plain, ELEMENTWISE), (experts, 1)],
        }.items():
            value = sum(line["value"] * times for line, times in terms)
            spread = np.sqrt(sum((line["value"] * times * line["spread"]) ** 2 for line, times in terms)) / value
            yield {
                **own,
                "part": "layer",
                "constant": constant,
                "value": value,
                "spread": float(spread),
                "unit": "s",
                "rows": sum(line["rows"] for line, _ in terms),
                "left_out": float("nan"),
                "error": max(line["error"] for line, _ in terms),
            }


def constants() -> list[dict[str, Any]]:
    """Return all rows of the table ``kernel_constants``: equal for equal measurements, on every processor."""
    lines = [line for part in PARTS for line in fitted(part)]
    lines += list(_layers(lines))
    digits = {"value": 9, "spread": 3, "error": 3, "left_out": 3}
    return [
        {
            "key": "/".join(filter(None, (line["part"], line["constant"], line["family"], line["format"]))),
            **{name: _printed(value, digits[name]) if name in digits else value for name, value in line.items()},
            "how": "derived",
            "source": SOURCE,
        }
        for line in lines
    ]


def _printed(value: float, digits: int) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}g}"
