"""Readers of checkpoint headers: names, shapes and formats of tensors, without reading one of them.

safetensors (https://github.com/huggingface/safetensors) and GGUF (https://github.com/ggml-org/ggml, docs/gguf.md).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from cookbook.units import human, shown
from cookbook.workloads.limits import LARGEST_TENSOR, MAX_HEADER_BYTES, MAX_TENSORS, parsed_json
from cookbook.workloads.readers import huggingface, tables
from cookbook.workloads.zoo import Workload

MAX_PAIRS, MAX_DIMENSIONS = 4096, 8
MAX_ITEMS, MAX_DEPTH, LONGEST_TEXT = 2_000_000, 2, 4 * 2**20
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


@dataclass(frozen=True)
class Header:
    """The content of a checkpoint's header.

    Attributes
    ----------
    tensors : mapping
        Name of each tensor to its shape and format.
    bits : mapping
        Format to bits of one element, scales included [bit].
    metadata : mapping
        Everything else that the header states.
    total : float or None
        Parameters, where no tensors are listed but their number is.
    """

    tensors: Mapping[str, tuple[tuple[int, ...], str]]
    bits: Mapping[str, float]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    total: float | None = None

    @property
    def stored(self) -> dict[str, float]:
        """Return the elements by format, most first."""
        elements: dict[str, float] = {}
        for shape, kind in self.tensors.values():
            elements[kind] = elements.get(kind, 0.0) + math.prod(shape)
        return dict(sorted(elements.items(), key=lambda item: -item[1]))

    def summary(self) -> str:
        """Return the number of tensors, parameters and formats in words."""
        formats = ", ".join(f"{kind} {human(number)}" for kind, number in list(self.stored.items())[:4])
        elements = sum(self.stored.values())
        return f"{len(self.tensors):,} tensors of {elements:,.0f} elements ({formats or 'formats not listed'})"

    def bits_a_weight(self) -> float:
        """Return the mean size of an element [bit]."""
        stored = self.stored
        return sum(number * self.bits.get(kind, 16) for kind, number in stored.items()) / max(sum(stored.values()), 1)


def is_safetensors(head: bytes, size: int) -> bool:
    """Return True if a file begins as safetensors do: length of the header, then a JSON object."""
    if len(head) < 10 or head[8:9] != b"{":
        return False
    return 2 <= int(struct.unpack("<Q", head[:8])[0]) <= max(size, 0)


def safetensors_header(file: BinaryIO, size: int) -> Header:
    """Return the header of a safetensors file; ValueError where it is damaged or too large."""
    (length,) = struct.unpack("<Q", _exactly(file, 8, "safetensors"))
    if length > min(size - 8, MAX_HEADER_BYTES):
        raise ValueError(
            f"the safetensors header says it has {length:,} bytes, of a file of {size:,}; the file is damaged"
        )
    text = _exactly(file, int(length), "safetensors").decode("utf-8", "replace")
    entries = parsed_json(text, "the safetensors header", groups=3 * MAX_TENSORS)
    if not isinstance(entries, dict) or len(entries) > MAX_TENSORS:
        raise ValueError(f"the safetensors header must list at most {MAX_TENSORS:,} tensors")
    tensors = {str(name): _tensor(name, entry) for name, entry in entries.items() if name != "__metadata__"}
    metadata = entries.get("__metadata__")
    return Header(tensors, tables.formats("safetensors"), metadata if isinstance(metadata, dict) else {})


def _tensor(name: Any, entry: Any) -> tuple[tuple[int, ...], str]:
    shape, kind = (entry.get("shape"), entry.get("dtype")) if isinstance(entry, dict) else (None, None)
    whole = isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS and all(type(n) is int and n >= 0 for n in shape)
    if not whole or not isinstance(kind, str) or math.prod(shape) > LARGEST_TENSOR:  # type: ignore[arg-type]
        raise ValueError(
            f"tensor {shown(name)} of the safetensors header has no shape and dtype that can be; the file is damaged"
        )
    return tuple(shape), kind[:20]  # type: ignore[arg-type]


def is_index(found: Any) -> bool:
    """Return True if a JSON object is the index of a checkpoint in several files."""
    return isinstance(found, dict) and isinstance(found.get("weight_map"), dict)


def index_header(found: Mapping[str, Any]) -> Header:
    """Return the names of tensors, and the total where the index has one; shapes are in the files themselves."""
    metadata = found.get("metadata")
    stated = metadata if isinstance(metadata, dict) else {}
    total = stated.get("total_parameters")
    total = float(total) if type(total) is int and 0 < total < LARGEST_TENSOR else None
    return Header({}, tables.formats("safetensors"), stated, total)


def index_of(file: BinaryIO, size: int) -> Header:
    """Return the header of an open file; an empty one where it cannot be read."""
    try:
        index = parsed_json(file.read(min(size, MAX_HEADER_BYTES)).decode("utf-8"), "the index")
    except ValueError:
        index = None
    return index_header(index if is_index(index) else {})


def checked(workload: Workload, header: Header) -> Workload:
    """Return the network compared with its checkpoint: formats and differences of parameters noted."""
    notes, stored = list(workload.assumed), header.stored
    stated = header.total if header.total is not None else sum(stored.values()) if stored else None
    if stated is not None:
        counted = workload.ops.parameter_count
        if abs(stated - counted) > 0.005 * counted:
            differs = (
                f"the checkpoint holds {stated:,.0f} elements, {100 * (stated / counted - 1):+.1f} % against the "
                f"{counted:,.0f} parameters counted here: parts left out, scales of quantised weights, or a "
                "family that differs"
            )
            notes += [differs] * (differs not in notes)
    if stored:
        kinds = ", ".join(list(stored)[:3])
        notes.append(f"stored at {header.bits_a_weight():.2f} bits a weight ({kinds}); precision= says in what it runs")
    size = header.metadata.get("total_size")
    if not stored and type(size) is int and 0 < size < LARGEST_TENSOR:
        bits = 8 * size / workload.ops.parameter_count
        notes.append(
            f"the checkpoint has {human(size, 'B')}, {bits:.2f} bits for each parameter counted here; "
            "precision= says in what it runs"
        )
    return replace(workload, assumed=tuple(notes), stored=stored)


# ---- GGUF ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Numbers and texts of a GGUF header, refused where the file ends early or requests too much."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.left, self.items = file, min(size, MAX_HEADER_BYTES), 0

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("the GGUF header ends early or is too large; the file is damaged")
        self.left -= count
        return _exactly(self.file, count, "GGUF")

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def count(self, form: str, most: int, what: str) -> int:
        number = int(self.number(form))
        if number > most:
            raise ValueError(f"the GGUF header says it has {number:,} {what}; at most {most:,} are read")
        return number

    def text(self) -> str:
        return self.take(self.count("Q", LONGEST_TEXT, "letters in one text")).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Return a value; of a list its members where they are few numbers, else their number."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _LIST or depth > MAX_DEPTH:
            raise ValueError(f"the GGUF header has a value of the unknown type {kind}; the file is damaged")
        inner, length = int(self.number("I")), self.count("Q", MAX_ITEMS, "members in one list")
        self.items += length
        if self.items > MAX_ITEMS:
            raise ValueError(f"the GGUF header has more than {MAX_ITEMS:,} members in its lists")
        if inner in _NUMBERS:
            data = self.take(length * struct.calcsize(f"<{_NUMBERS[inner]}"))
            return list(struct.unpack(f"<{length}{_NUMBERS[inner]}", data)) if length <= MAX_PAIRS else range(length)
        if inner == _TEXT:
            for _ in range(length):
                self.take(self.count("Q", LONGEST_TEXT, "letters in one text"))
            return range(length)
        return [self.value(inner, depth + 1) for _ in range(length)]


def gguf_header(file: BinaryIO, size: int) -> Header:
    """Return the header of a GGUF file (version 2 or 3): metadata and tensors; ValueError where it is damaged."""
    reader = _Reader(file, size)
    reader.take(4)
    version = reader.number("I")
    if version not in (2, 3):
        raise ValueError(f"the GGUF file is of version {version}; versions 2 and 3 (little-endian) can be read")
    number, pairs = reader.count("Q", MAX_TENSORS, "tensors"), reader.count("Q", MAX_PAIRS, "pairs of metadata")
    metadata = {}
    for _ in range(pairs):
        key = reader.text()
        metadata[key] = reader.value(int(reader.number("I")))
    tensors = {}
    for _ in range(number):
        name = reader.text()
        shape = tuple(reader.number("Q") for _ in range(reader.count("I", MAX_DIMENSIONS, "dimensions of one tensor")))
        kind = tables.gguf_formats().get(int(reader.number("I")))
        reader.take(8)
        if kind is None or math.prod(shape) > LARGEST_TENSOR:
            raise ValueError(
                f"tensor {shown(name)} of the GGUF header has a shape or type that cannot be; the file is damaged"
            )
        tensors[name] = (shape, kind)
    return Header(tensors, tables.formats("gguf"), metadata)


def read_gguf(file: BinaryIO, size: int, changes: Mapping[str, Any], title: str = "") -> Workload:
    """Read a network from the header of a GGUF file: metadata are a configuration, tensors complete it."""
    header = gguf_header(file, size)
    config = _configuration(header)
    name = header.metadata.get("general.name")
    title = title or (name if isinstance(name, str) and name.strip() else "")
    return checked(huggingface.read(config, changes, title), header)


def _configuration(header: Header) -> dict[str, Any]:
    """Return a configuration as Hugging Face writes it, from GGUF's keys and the names of its tensors."""
    family, tensors = header.metadata.get("general.architecture"), header.tensors
    if not isinstance(family, str) or not 0 < len(family) <= 40:
        raise ValueError("the GGUF header names no general.architecture; the file is damaged")
    config: dict[str, Any] = {"model_type": tables.gguf_names("architecture").get(family, family)}
    keys = tables.gguf_names("key")
    for key, target in keys.items():
        value = header.metadata.get(f"{family}.{key}")
        if isinstance(value, list) and value and all(type(number) is int for number in value):
            value = max(value)  # one a layer: our builder takes equal layers
        if isinstance(value, list | range):
            raise ValueError(
                f"{family}.{key} of the GGUF header is a list of {len(value):,} and must be a whole "
                "number, or one for each layer; the file is damaged"
            )
        if value is not None:
            config[target] = value
    for key, value in header.metadata.items():  # what else may change counts is read, or refused, by its name
        inner = key.removeprefix(f"{family}.").replace(".", "_")
        if key.startswith(f"{family}.") and key[len(family) + 1 :] not in keys and huggingface.may_change(inner):
            config[inner] = value
    embedding = tensors.get("token_embd.weight")
    if embedding is not None and len(embedding[0]) == 2:
        config["vocab_size"] = embedding[0][1]
    elif "vocab_size" not in config and isinstance(header.metadata.get("tokenizer.ggml.tokens"), list | range):
        config["vocab_size"] = len(header.metadata["tokenizer.ggml.tokens"])
    config["tie_word_embeddings"] = not tensors or "output.weight" not in tensors
    if tensors and config["model_type"] in ("llama", "mistral", "granite", "gpt_oss", "glm4", "glm4_moe", "seed_oss"):
        config["attention_bias"] = any(name.endswith("attn_q.bias") for name in tensors)
    experts = config.get("num_experts")
    if family == "llama" and type(experts) is int and experts > 1:
        config["model_type"] = "mixtral"
    _latent(config)
    config.pop("rope_dim", None)
    return {
        name: value
        for name, value in config.items()
        if name != "value_length"
        and not (name == "num_experts" and value == 0)
        and not (name == "intermediate_size" and value == 0)
    }


def _latent(config: dict[str, Any]) -> None:
    """Convert the widths of latent attention: GGUF gives those of the whole key and of its rotated part."""
    key, value = config.pop("key_mla", config.get("head_dim")), config.pop("value_mla", config.get("value_length"))
    if "kv_lora_rank" not in config:
        return
    turned = config.get("rope_dim")
    if not all(type(size) is int for size in (key, value, turned)) or key <= turned:
        raise ValueError(
            "the GGUF header has attention.kv_lora_rank without the widths of its keys and values; the file is damaged"
        )
    config |= {"qk_nope_head_dim": key - turned, "qk_rope_head_dim": turned, "v_head_dim": value}
    for name in ("head_dim", "num_key_value_heads"):
        config.pop(name, None)


def _exactly(file: BinaryIO, count: int, what: str) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise ValueError(f"the {what} header ends early; the file is damaged")
    return data
