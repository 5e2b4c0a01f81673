"""Models from `config.json` as Hugging Face's libraries write it, without downloads or running others' code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cookbook.catalog import UnknownName
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads.readers import decoders, encoders, hybrids, tables
from cookbook.workloads.readers.fields import Fields, built, listed
from cookbook.workloads.zoo import DECODER, Workload

USUAL_LENGTH = 4096
# Parts of a larger model; only the language model is counted.
LANGUAGE_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "language_model")
OTHER_PARTS = ("vision_config", "audio_config", "vit_config", "speech_config", "vision_tower")
DEPTH = 4
READERS = encoders.READERS | hybrids.READERS
PREDICTION_HEADS = ("mtp_", "num_mtp", "nextn_")
# Words in the names of fields that change counts, at the beginning of one of their parts, and what they may change.
COUNTING = (
    (("latent", "lora"), "the width at which experts or attention work"),
    (("expert", "moe", "router"), "the number of experts or their size"),
    (("spars", "indexer", "compress", "dsa", "nsa"), "the tokens that attention reads, and what chooses them"),
    (("hybrid", "mamba", "ssm", "rwkv", "recurrent", "kda", "gdn"), "which layers keep a state in place of attention"),
    (("hyper", "mhc", "hc", "engram", "altup", "laurel"), "the connections between layers"),
    (("global",), "the heads of some of the layers"),
)
BEGINNING = {
    "index_": COUNTING[2][1],
    "linear_": COUNTING[3][1],
    **dict.fromkeys(("attention_k_eq_v", "num_kv_shared"), "the keys and values of some of the layers"),
    "use_double_wide": "the width of some of the layers",
}


def read(config: Mapping[str, Any], changes: Mapping[str, Any], title: str = "") -> Workload:
    """Read a network from the fields of a configuration.

    Parameters
    ----------
    config : mapping
        The content of `config.json`.
    changes : mapping
        Arguments of our builder to change; ``title``, ``seq``.
    title : str
        Printed name where the file has none.

    Returns
    -------
    Workload
        Its `assumed` names what was not stated and all unread fields.

    Raises
    ------
    ValueError
        If a field is missing or invalid, or the kind of model is unsupported; the message lists the fields concerned.
    """
    whole, outer, assumed = config, _family_of(config), list[str]()
    for _ in range(DEPTH):
        part = next((name for name in LANGUAGE_PARTS if isinstance(config.get(name), Mapping)), "")
        if not part:
            break
        others = [name for name in OTHER_PARTS if isinstance(config.get(name), Mapping)]
        assumed.append(f"the language model alone, of {part}" + (f"; {listed(others)} left out" if others else ""))
        config = {**{name: config[name] for name in ("tie_word_embeddings",) if name in config}, **config[part]}
    stated = _family_of(config) or outer
    family = next((name for name in (stated, f"{stated}_text") if name in tables.families()), stated)
    title = title or _name_in(whole) or family or _architecture(whole)
    f = Fields(config, family or "a model of no stated type", family)
    f.assumed += assumed
    try:
        reader = tables.families().get(family, tables.Family()).reader
        if reader in READERS:
            network = READERS[reader](f)
            _note_unread(f, familiar=True)
            return built(**network, changes=changes, title=title, assumed=f.assumed)
        return _language_model(f, family, changes, title)
    except (ArithmeticError, TypeError, IndexError, KeyError, AttributeError) as problem:
        if isinstance(problem, UnknownName):
            raise
        raise ValueError(f"no network can be built of this configuration of {f.family}; check its sizes") from None


def _name_in(config: Mapping[str, Any]) -> str:
    """Return the repository's name if the file states one; local paths are not used."""
    name = config.get("_name_or_path")
    return name if isinstance(name, str) and 0 < len(name) <= 100 and not name.startswith(("/", ".")) else ""


def _architecture(config: Mapping[str, Any]) -> str:
    """Return the class that the file names."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else ""
    return name[:60] if isinstance(name, str) and name.strip() else "Your model"


def _family_of(config: Mapping[str, Any]) -> str:
    """Return the file's name for its kind of model: of the Transformers, Diffusers or timm library."""
    for name in ("model_type", "_class_name", "architecture"):
        stated = config.get(name)
        if isinstance(stated, str) and 0 < len(stated) <= 60:
            return stated
    return ""


def _language_model(f: Fields, family: str, changes: Mapping[str, Any], title: str) -> Workload:
    familiar = family in tables.families()
    if not familiar and not _looks_like_a_decoder(f.given):
        fields = listed([str(name)[:40] for name in f.given]) or "none"
        raise refused(
            "model_type",
            family,
            f"is not known here, and its fields ({fields}) are not those "
            "of a language "
            "model; give its layers (cb.layers) or an ONNX file",
        )
    strange = [] if familiar else [name for name in _strange(f) if name not in decoders.READ]
    try:
        arguments = decoders.decoder_arguments(f, family)
    except ValueError as problem:
        more = f"; and these of its fields are not understood here: {listed(strange)}; give its layers (cb.layers)"
        raise ValueError(str(problem) + (more if strange else "")) from None
    predict_ahead = f.whole("num_nextn_predict_layers", "num_mtp_modules", least=0, needed=False)
    if predict_ahead:
        f.assume(
            f"{predict_ahead} layer(s) that predict further ahead are left out; "
            f"predict_ahead={predict_ahead} counts them"
        )
    if not familiar:
        f.assume(
            f"model_type {family or '(none)'} is not known here: counted as a model of Llama's kind (norm "
            "before attention "
            "and gated MLP, no other parameters)"
        )
    _note_unread(f, familiar)
    if isinstance(f.given.get("quantization_config"), Mapping):
        f.assume("weights are quantised in the file; counts are of the network, and precision= says in what it runs")
    longest = f.whole(
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", needed=False, default=USUAL_LENGTH
    )
    seq = float(min(longest, USUAL_LENGTH))
    if "seq" not in changes:
        f.assume(f"sequences of {seq:,.0f} tokens, of {longest:,} at most; seq= says otherwise")
    kind = "moe" if arguments.get("experts") else "transformer"
    return built(
        DECODER,
        arguments,
        changes,
        title=title,
        assumed=f.assumed,
        seq=seq,
        family=kind,
        task="language modelling",
        data_kind="text",
        sample="sequence",
    )


def _looks_like_a_decoder(config: Mapping[str, Any]) -> bool:
    needed = (
        ("hidden_size", "n_embd", "d_model"),
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        ("num_attention_heads", "n_head", "n_heads", "num_heads"),
        ("vocab_size", "padded_vocab_size"),
    )
    return all(any(name in config for name in names) for names in needed) and not config.get("is_encoder_decoder")


def _note_unread(f: Fields, familiar: bool) -> None:
    """Note the fields that were not read; refuse those that point to unknown parts."""
    unread = [name for name in f.unread() if _may_matter(name)]
    reviewed = tables.fields("reviewed")
    telling = [
        name for name in unread if any(word in name for word in decoders.CHANGING_WORDS) and name not in reviewed
    ]
    telling = list(dict.fromkeys([*telling, *_strange(f)]))
    if telling and not familiar:
        raise refused(
            "model_type",
            f.family,
            "is not known here, and these of its fields are not "
            "understood: "
            f"{listed(telling)}; give its layers (cb.layers), or a model of the zoo that is alike",
        )
    _refuse_counting(f)
    if unread:
        f.assume(f"fields not read, as if they changed no count: {listed(unread)}")


def _may_matter(name: str) -> bool:
    """Return True if a field may affect counts."""
    return name not in tables.fields("silent")


def _strange(f: Fields) -> list[str]:
    """Return the stated fields that no reader used and whose names suggest that they change counts."""
    return [
        str(name)[:60]
        for name, value in f.given.items()
        if f.passed(name)
        and _may_matter(str(name))
        and may_change(str(name))
        and value not in (None, False, 0, "", [], {})
    ]


def _refuse_counting(f: Fields) -> None:
    """Refuse an unread field whose name suggests that it changes counts, alone or in a group of fields."""
    stated = [(str(name), value) for name, value in f.given.items() if f.passed(name) and _may_matter(str(name))]
    groups = [
        (f"{name}.{inner}", member)
        for name, value in stated
        if isinstance(value, Mapping) and name not in (*OTHER_PARTS, "quantization")
        for inner, member in value.items()
        if _may_matter(str(inner))
    ]
    for name, value in (*stated, *groups):
        quantity = may_change(name.rpartition(".")[2])
        if quantity and value is not None and value not in (False, 0, "", [], {}):
            raise ValueError(
                f"{name[:60]} = {shown(value)} is not known here, and it may change {quantity}: counts "
                "without it could be wrong several times over. Give the network's layers (cb.layers) or "
                "an ONNX file; if the field changes neither parameters nor work, set it to null"
            )


def may_change(name: str) -> str:
    """Return the quantity that a field of this name may change, "" where it changes no count."""
    lower = name.lower()
    if lower in tables.fields("reviewed") or lower.startswith(PREDICTION_HEADS):
        return ""
    parts = lower.replace(".", "_").split("_")
    for words, quantity in COUNTING:
        if any(
            part.startswith(word) if len(word) > 3 or word == "moe" else part == word
            for part in parts
            for word in words
        ):
            return quantity
    if "index" in parts[:-1]:  # at the end it is a place, such as that of a token
        return BEGINNING["index_"]
    return next((quantity for begin, quantity in BEGINNING.items() if lower.startswith(begin)), "")
