"""Reader of Keras architectures: the JSON of Sequential and Functional models; no code is run.

Layers and their fields follow keras.layers (https://keras.io/api/layers); versions 2 and 3 write them differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

from cookbook.catalog.reading import check_names
from cookbook.workloads.arguments import check_possible
from cookbook.workloads.limits import archived_text
from cookbook.workloads.readers.fields import titled
from cookbook.workloads.readers.keras_layers import MODELS, Network, fields_of, text_of
from cookbook.workloads.zoo import Workload

INSIDE = "config.json"  # of the archive that Keras 3 saves
GIVEN_NAMES = ("sequential", "functional", "model")  # with a number: Keras's default names


def is_architecture(found: Any) -> bool:
    """Return True if a JSON value is the architecture of a Keras model."""
    return isinstance(found, Mapping) and found.get("class_name") in MODELS and "config" in found


def is_model(source: Any) -> bool:
    """Return True if an object is a Keras model, by its methods."""
    return hasattr(source, "layers") and all(callable(getattr(source, n, None)) for n in ("to_json", "get_config"))


def of_model(source: Any, changes: Mapping[str, Any]) -> Workload:
    """Return a network from a Keras model, by the JSON that it exports."""
    try:
        architecture = json.loads(source.to_json())
    except (NotImplementedError, ValueError, TypeError, AttributeError, KeyError, RuntimeError) as problem:
        raise ValueError(
            f"the Keras model does not write its architecture: {str(problem)[:200]}; give a Sequential or "
            "Functional model, or its layers (cb.layers)"
        ) from None
    return read(architecture, changes)


def archived(file: BinaryIO) -> str:
    """Return the architecture in an archive of Keras 3; "" where it is another archive. Nothing else is unpacked."""
    return archived_text(file, INSIDE, "metadata.json")


def read(found: Any, changes: Mapping[str, Any], title: str = "") -> Workload:
    """Read a network from an architecture.

    Parameters
    ----------
    found : mapping
        The content of ``model.to_json()``, or of ``config.json`` in a ``.keras`` archive.
    changes : mapping
        ``shape`` of one sample as Keras has it, (224, 224, 3), where the model leaves it open; ``title``.
    title : str
        Printed name where the model has none of its own.

    Raises
    ------
    ValueError
        If a layer is unknown or contains code (the message names it), a shape is open, or the graph is inconsistent.
    """
    check_names(changes, ("shape", "title"), "a Keras model")
    if not is_architecture(found):
        raise ValueError("this is no architecture of a Keras model: Sequential and Functional models are read")
    network = Network(changes.get("shape"))
    network.model(found, None)
    if network.shape is not None and not network.given and tuple(network.shape) not in network.stated:
        raise network.differs(next(iter(network.stated), ()))
    if not network.trace.rows:
        raise ValueError("the Keras model has no layer that computes; nothing can be counted")
    ops = network.trace.ops()
    check_possible(ops, "the work of the Keras model cannot be counted; check its sizes")
    own = text_of(fields_of(found), "name")
    model_name = "" if own.rstrip("0123456789_") in GIVEN_NAMES else own
    pictures = network.axes == 2
    return Workload(
        "custom",
        titled(changes.get("title") or model_name or title or "Keras model"),
        ops,
        data_kind="images" if pictures else "",
        sample="image" if pictures else "sample",
        assumed=tuple(dict.fromkeys(network.assumed)),
    )
