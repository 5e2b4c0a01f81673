"""``cb.model``: a network of the zoo by name, or a user's model, recognised by its content and not by its name."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from cookbook import catalog
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.limits import MAX_TEXT_BYTES, parsed_json
from cookbook.workloads.readers import caffe, encoders, huggingface, keras, onnx, tensors, torch
from cookbook.workloads.readers.fields import built, titled

LONGEST_PATH = 4096
HEAD_BYTES = 4096
# File names common to all models, folders that are not named for a model, and the depth from which they may be.
GENERIC_NAMES = ("config", "model", "model_index")
GENERIC_FOLDERS = frozenset(
    ("tmp", "temp", "downloads", "desktop", "documents", "home", "root", "data", "models", "uploads")
)
OUTERMOST = 3  # "/", a folder of the system, and one in it
# Endings that a zoo name never has, so that a file is meant.
SUFFIXES = (
    ".json",
    ".gguf",
    ".safetensors",
    ".onnx",
    ".prototxt",
    ".csv",
    ".pt",
    ".pth",
    ".bin",
    ".pt2",
    ".keras",
    ".h5",
)
# Formats that run code when they are opened, or that hold no description of a network.
REFUSED = (
    (
        b"PK\x03\x04",
        "a zip archive, as PyTorch, Keras and torch.export write them; opening one may run code that is in it. Load it "
        "yourself and give the module (cb.model(module, shape=...)), or give its config.json",
    ),
    *(
        (
            b"\x80" + bytes([version]),
            "a pickle, which runs code when it is opened; give the module itself, its config.json or safetensors",
        )
        for version in (2, 3, 4, 5)
    ),
    (
        b"\x89HDF",
        "an HDF5 file, as Keras writes it; give what model.to_json() writes, an ONNX file, or its layers (cb.layers)",
    ),
    (b"\x1f\x8b", "a compressed file; unpack it first"),
)


def model(source: Any, **changes: Any) -> zoo.Workload:
    """Return a network of the zoo by name, or one from a file or an object of the reader's.

    Parameters
    ----------
    source : str, path, dict, list, bytes, torch.nn.Module or Keras model
        A name of the zoo in any usual spelling, which wins over everything else. Else a path (also of a folder with a
        ``config.json``), or the text or bytes themselves, of: a Hugging Face configuration (Transformers, Diffusers,
        timm), the header of a safetensors or GGUF checkpoint, an ONNX graph, the architecture of a Keras model
        (``.keras``, or the JSON of ``to_json()``), a Caffe prototxt, or a table of layers as JSON or CSV (see
        `cb.layers`). A dict is a configuration, a list a table of layers. Also a PyTorch module, a program of
        ``torch.export`` or a Keras model. Nothing is downloaded, and no code that came with a file is run.
    **changes
        Arguments of the network's builder to change, such as ``image=448``; the result is no longer verified. Of what
        is imported also ``title``, ``seq`` (usual length), ``input`` (of a table of layers) and ``shape`` (of one
        sample, for a module, dynamic axes of ONNX and open sizes of Keras).

    Returns
    -------
    Workload
        Its `assumed` lists what the source did not state, and is printed with it.

    Raises
    ------
    UnknownName
        No such network and no such file; the message gives the three nearest names.
    ValueError
        If the builder does not know a change; if a file is too large, damaged, of an unknown kind, or contains
        an unsupported model: the message names it.

    Examples
    --------
    >>> model("ResNet-50 v1.5")
    <ResNet-50 v1.5: 25,557,032 parameters, 4.089 GMAC for one image, verified>
    >>> model({"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048, "num_hidden_layers": 22,
    ...        "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 5632}, seq=2048)
    <llama: 1,100,048,384 parameters, 2,308 GMAC for one sequence at 2,048 tokens, unverified>
    """
    if isinstance(source, zoo.Workload):
        raise ValueError("model = a network already; cb.model takes a name, a file or a module")
    if isinstance(source, Mapping):
        return keras.read(source, changes) if keras.is_architecture(source) else _configuration(source, changes)
    if isinstance(source, list | tuple):
        return _table(source, changes)
    if isinstance(source, bytes | bytearray | memoryview):
        return _read_content(io.BytesIO(bytes(source)), len(source), None, changes)
    if isinstance(source, os.PathLike):
        return _read_file(Path(source), changes)
    if isinstance(source, str):
        return _by_name(source, changes)
    if torch.is_program(source) or torch.is_module(source):
        return torch.read(source, changes)
    if keras.is_model(source):
        return keras.of_model(source, changes)
    raise refused(
        "model", source, "is no name, path, configuration, table of layers or PyTorch module, and no Keras model"
    )


def _by_name(source: str, changes: Mapping[str, Any]) -> zoo.Workload:
    """Return the network for a zoo name, a file's path or a file's text.

    An existing file precedes a checkpoint's name.
    """
    if ("/" in source or source.lower().endswith(SUFFIXES)) and _is_path(source) and _exists(Path(source)):
        return _read_file(Path(source), changes)
    try:
        name = catalog.lookup("models", source)
    except catalog.UnknownName:
        if source.lstrip()[:1] == "[" or "{" in source or "\n" in source:
            return _read_content(io.BytesIO(source.encode("utf-8", "replace")), len(source), None, changes)
        path = Path(source) if _is_path(source) else None
        if path is not None and _exists(path):
            return _read_file(path, changes)
        if path is not None and ("/" in source or "\\" in source or source.lower().endswith(SUFFIXES)):
            raise refused(
                "model", source, f": there is no such file; check the path, from {shown(str(Path.cwd()))}"
            ) from None
        raise
    return zoo.model(name, **changes)


def _is_path(source: str) -> bool:
    return 0 < len(source) <= LONGEST_PATH and "\0" not in source and "\n" not in source


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long for a file
        return False


def _read_file(path: Path, changes: Mapping[str, Any]) -> zoo.Workload:
    """Read a file, or a folder in Hugging Face's layout."""
    if not _exists(path):
        raise refused("model", str(path), ": there is no such file")
    if path.is_dir():
        config = next((path / name for name in ("config.json", "model_index.json") if (path / name).is_file()), None)
        if config is None:
            raise refused("model", str(path), ": the folder has no config.json")
        path = config
    if not path.is_file():
        raise refused("model", str(path), "is no ordinary file")
    try:
        with path.open("rb") as file:
            return _read_content(file, path.stat().st_size, path, changes)
    except OSError as problem:
        raise refused("model", str(path), f"cannot be read: {problem.strerror or problem}") from None


def _read_content(file: BinaryIO, size: int, path: Path | None, changes: Mapping[str, Any]) -> zoo.Workload:
    """Read any file by its first bytes."""
    head, label = file.read(HEAD_BYTES), "the file" if path is None else shown(path.name)
    file.seek(0)
    if head.startswith(b"PK\x03\x04") and (words := keras.archived(file)):
        return _read_text(words, label, path, changes)
    file.seek(0)
    for magic, kind in REFUSED:
        if head.startswith(magic):
            raise ValueError(f"{label} is {kind}")
    if head.startswith(b"GGUF"):
        return tensors.read_gguf(file, size, changes, _title(path, always=True))
    if tensors.is_safetensors(head, size):
        return _checkpoint(tensors.safetensors_header(file, size), path, changes)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if onnx.is_graph(head) and text[:1] not in (b"{", b"["):
        return onnx.read(file, size, changes, _title(path, always=True))
    if b"\0" in head or not text:
        raise ValueError(f"{label} is {'empty' if not text else 'of no known format'}; {FORMATS}")
    if size > MAX_TEXT_BYTES:
        raise ValueError(f"{label} has {size:,} bytes of text; at most {MAX_TEXT_BYTES:,} are read")
    try:
        words = file.read(MAX_TEXT_BYTES + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{label} is of no known format; {FORMATS}") from None
    return _read_text(words, label, path, changes)


FORMATS = "give a config.json, safetensors, GGUF, ONNX, Keras, Caffe prototxt, or a table of layers as JSON or CSV"


def _read_text(words: str, label: str, path: Path | None, changes: Mapping[str, Any]) -> zoo.Workload:
    """Read a text: JSON, a prototxt or a table as CSV."""
    if words.lstrip()[:1] in ("{", "["):
        content = parsed_json(words, label)
        if isinstance(content, list):
            return _table(content, changes)
        if keras.is_architecture(content):
            return keras.read(content, changes, _title(path, always=True))
        if tensors.is_index(content):
            return _checkpoint(tensors.index_header(content), path, changes)
        if "layers" in content and isinstance(content["layers"], list) and "model_type" not in content:
            options = {name: content[name] for name in ("input", "title") if name in content}
            return _table(content["layers"], {**options, **changes})
        return _with_tensors(_configuration(content, changes, _title(path)), path)
    if caffe.is_prototxt(words):
        return caffe.read(words, changes, _title(path, always=True))
    first = words.lstrip().split("\n", 1)[0].replace(";", ",").replace("\t", ",")
    if "layer" in [cell.strip().strip('"').lower() for cell in first.split(",")]:
        return _table(_csv(words), changes)
    raise ValueError(f"{label} is of no known format; {FORMATS}")


def _configuration(config: Mapping[str, Any], changes: Mapping[str, Any], title: str = "") -> zoo.Workload:
    if encoders.is_timm(config):
        return built(**encoders.timm(config), changes=changes, title=title or config["architecture"])
    return huggingface.read(config, changes, title)


def _table(rows: Sequence[Any], changes: Mapping[str, Any]) -> zoo.Workload:
    """Read a table of layers; its JSON names input and title itself."""
    check_names(changes, ("input", "title"), "a table of layers")
    options = dict(changes)
    if "title" in options:
        options["title"] = titled(options["title"])
    return zoo.layers(list(rows), **options)


def _csv(words: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV table of layers: empty cells left out, numbers and yes or no parsed as in JSON."""
    begin = words[:HEAD_BYTES]
    between = max(",;\t", key=begin.split("\n", 1)[0].count)
    try:
        return [
            {
                key.strip().lower(): _cell(cell)
                for key, cell in row.items()
                if isinstance(key, str) and isinstance(cell, str) and cell.strip()
            }
            for row in csv.DictReader(io.StringIO(words), delimiter=between)
        ]
    except csv.Error as problem:
        raise ValueError(f"the table of layers is no valid CSV: {problem}") from None


def _cell(cell: str) -> Any:
    text = cell.strip()
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return text


def _checkpoint(header: tensors.Header, path: Path | None, changes: Mapping[str, Any]) -> zoo.Workload:
    """Read the configuration beside a checkpoint, which itself only reports how many parameters there are."""
    config_path = None if path is None else path.with_name("config.json")
    if config_path is None or not config_path.is_file():
        raise ValueError(
            f"the checkpoint has {header.summary()}; which network they are its config.json says: put "
            "it beside the "
            "file, or give that instead"
        )
    return tensors.checked(_read_file(config_path, changes), header)


def _with_tensors(workload: zoo.Workload, path: Path | None) -> zoo.Workload:
    """Compare a configuration with the checkpoint beside it, and return it with notes."""
    if path is None or path.name != "config.json" or workload.stored:
        return workload
    for name in ("model.safetensors.index.json", "model.safetensors"):
        checkpoint_path = path.with_name(name)
        if checkpoint_path.is_file():
            with checkpoint_path.open("rb") as file:
                size = checkpoint_path.stat().st_size
                header = (
                    tensors.index_of(file, size) if name.endswith("json") else tensors.safetensors_header(file, size)
                )
            return tensors.checked(workload, header)
    return workload


def _title(path: Path | None, always: bool = False) -> str:
    """Return the printed name of a file: its own, or its folder's where it has a generic name.

    "" where the folder does not name the model either, or with `always` the file's own name.
    """
    if path is None:
        return ""
    name = (
        path.stem
        if path.stem not in GENERIC_NAMES
        else _repository(path.resolve().parent) or (path.stem if always else "")
    )
    return "".join(letter for letter in name if letter.isprintable())[:100]


def _repository(folder: Path) -> str:
    """Return the name of a folder with one model, including one in a cache of Hugging Face; "" for any other folder."""
    if folder.parent.name == "snapshots":
        folder = folder.parent.parent
    temporary = Path(tempfile.gettempdir()).resolve()
    if folder in (temporary, Path(os.path.expanduser("~")), Path.cwd(), Path("/")) or len(folder.parts) < OUTERMOST:
        return ""
    name = folder.name.rpartition("--")[2]
    made_up = folder.parent == temporary and name.startswith(tempfile.gettempprefix())
    return "" if made_up or name.casefold() in GENERIC_FOLDERS else name
