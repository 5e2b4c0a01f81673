"""Readers of models other than decoder-only ones: encoders, encoder-decoders, vision, diffusion, state spaces.

Each reader takes the fields of a configuration and returns one of our builders with its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from cookbook import catalog
from cookbook.catalog.refusals import refused
from cookbook.units import shown
from cookbook.workloads import zoo
from cookbook.workloads.arguments import MAX_LAYERS
from cookbook.workloads.builders import resnets
from cookbook.workloads.readers.decoders import activation
from cookbook.workloads.readers.fields import Fields
from cookbook.workloads.readers.hybrids import LANGUAGE

Found = dict[str, Any]
HEADS = {"ForSequenceClassification": "classes", "ForTokenClassification": "tokens", "ForQuestionAnswering": "tokens"}
ENCODER = {"family": "encoder", "task": "language understanding", "data_kind": "text", "sample": "sequence"}
TEXT_TO_TEXT = ENCODER | {"family": "transformer", "task": "text to text"}
VISION = {"family": "vision_transformer", "task": "classification", "data_kind": "images", "sample": "image"}
CNN = VISION | {"family": "cnn"}
DIFFUSION = {"family": "diffusion", "task": "image generation", "data_kind": "images", "sample": "image"}
USUAL_PIECE = 512


def _bert(f: Fields) -> Found:
    family = f.family
    width = f.whole("hidden_size", "dim")
    sizes: dict[str, Any] = {
        "vocab": f.whole("vocab_size"),
        "width": width,
        "depth": f.whole("num_hidden_layers", "n_layers", most=MAX_LAYERS),
        "heads": f.whole("num_attention_heads", "n_heads"),
        "hidden": f.whole("intermediate_size", "hidden_dim"),
        "positions": f.whole("max_position_embeddings"),
        "types": f.whole("type_vocab_size", default=0 if family == "distilbert" else None, least=0),
        "act": activation(f, "gelu", "hidden_act", "activation"),
    }
    narrow = f.whole("embedding_size") if family in ("albert", "electra") else width
    if narrow != width:
        sizes["embedding_width"] = narrow
    if family == "albert":
        sizes["share_layers"] = True
        if f.whole("num_hidden_groups") != 1 or f.whole("inner_group_num") != 1:
            raise ValueError("num_hidden_groups and inner_group_num must be 1: only one shared layer can be built")
    sizes["pooler"] = family not in ("distilbert", "electra")
    sizes["dropout"] = f.number("hidden_dropout_prob", "dropout") > 0
    sizes |= _bert_head(f, sizes["pooler"])
    seq = min(sizes["positions"], USUAL_PIECE)
    return {"builder": "transformers.bert", "arguments": sizes, "seq": seq, **ENCODER}


def _bert_head(f: Fields, pooler: bool) -> Found:
    names = f.members("architectures")
    name = names[0] if names and isinstance(names[0], str) else ""
    head = next((head_name for end, head_name in HEADS.items() if name.endswith(end)), "")
    if not head:
        f.assume(
            "the encoder as it gives features"
            + (f"; the head of {name[:60]} is left out" if name else "")
            + ("" if not pooler else "; its pooler is counted")
        )
        return {}
    return {
        "head": head,
        "classes": 2 if name.endswith("Answering") else _classes(f),
        "pooler": pooler and head == "classes",
    }


def _classes(f: Fields) -> int:
    labels = f.raw("id2label")
    if isinstance(labels, Mapping | list) and labels:
        return len(labels)
    classes = int(f.whole("num_labels", "num_classes"))
    if f.raw("num_labels", "num_classes") is None:
        f.assume(f"{classes:,} classes, since the file names no labels")
    return classes


def _t5(f: Fields) -> Found:
    form = f.word("feed_forward_proj", default="relu")
    depth = f.whole("num_layers", most=MAX_LAYERS)
    act = form.removeprefix("gated-")
    if act not in ("relu", "gelu", "silu"):
        f.assume(f"feed_forward_proj {form[:40]} is counted as gelu")
        act = "gelu"
    sizes = {
        "vocab": f.whole("vocab_size"),
        "width": f.whole("d_model"),
        "depth": depth,
        "heads": f.whole("num_heads"),
        "hidden": f.whole("d_ff"),
        "head_dim": f.whole("d_kv"),
        "decoder_depth": f.whole("num_decoder_layers", default=depth, most=MAX_LAYERS),
        "relative_buckets": f.whole("relative_attention_num_buckets"),
        "norm": "rms",
        "bias": False,
        "gated": form.startswith("gated"),
        "act": act,
        "tied": f.flag("tie_word_embeddings", default=True),
        "final_norm": True,
        "dropout": f.number("dropout_rate") > 0,
    }
    return _text_to_text(f, sizes, USUAL_PIECE)


def _text_to_text(f: Fields, sizes: Found, seq: int) -> Found:
    f.assume("the decoder writes as many tokens as the encoder reads; target= says how many for each")
    return {"builder": "transformers.encoder_decoder", "arguments": sizes, "seq": seq, **TEXT_TO_TEXT}


def _bart(f: Fields) -> Found:
    width, depth = f.whole("d_model"), f.whole("encoder_layers", most=MAX_LAYERS)
    heads, hidden = f.whole("encoder_attention_heads"), f.whole("encoder_ffn_dim")
    for name, value in (("decoder_attention_heads", heads), ("decoder_ffn_dim", hidden)):
        if f.whole(name, default=value) != value:
            raise ValueError(
                f"{name} = {f.given[name]} differs from the encoder's {value}: both must be alike to be built"
            )
    positions = f.whole("max_position_embeddings")
    final = f.family == "mbart" or f.flag("add_final_layer_norm")
    sizes = {
        "vocab": f.whole("vocab_size"),
        "width": width,
        "depth": depth,
        "heads": heads,
        "hidden": hidden,
        "decoder_depth": f.whole("decoder_layers", default=depth, most=MAX_LAYERS),
        "positions": positions + 2,
        "embedding_norm": f.flag("normalize_embedding", default=True),
        "final_norm": final,
        "act": activation(f, "gelu", "activation_function"),
        "tied": True,
        "dropout": f.number("dropout") > 0,
    }
    return _text_to_text(f, sizes, min(positions, USUAL_PIECE))


def _whisper(f: Fields) -> Found:
    width, layers = f.whole("d_model"), f.whole("encoder_layers", most=MAX_LAYERS)
    heads = f.whole("encoder_attention_heads")
    for name in ("encoder_ffn_dim", "decoder_ffn_dim"):
        if f.whole(name, default=4 * width) != 4 * width:
            raise ValueError(f"{name} = {f.given[name]} must be 4 x d_model = {4 * width}, as in every Whisper model")
    if f.whole("decoder_attention_heads", default=heads) != heads:
        raise ValueError("decoder_attention_heads must be encoder_attention_heads, as in every Whisper model")
    frames = 2 * f.whole("max_source_positions")
    sizes = {
        "width": width,
        "layers": layers,
        "heads": heads,
        "bands": f.whole("num_mel_bins"),
        "frames": frames,
        "decoder_layers": f.whole("decoder_layers", default=layers, most=MAX_LAYERS),
        "vocab": f.whole("vocab_size"),
    }
    return {
        "builder": "speech.whisper",
        "arguments": sizes,
        "seq": f.whole("max_target_positions"),
        "family": "speech",
        "task": "speech recognition",
        "data_kind": "speech",
        "sample": "utterance",
    }


def _vit(f: Fields) -> Found:
    beit = f.family in ("beit", "data2vec-vision")
    sizes: dict[str, Any] = {
        "image": _side(f, "image_size"),
        "patch": _side(f, "patch_size"),
        "width": f.whole("hidden_size"),
        "depth": f.whole("num_hidden_layers", most=MAX_LAYERS),
        "heads": f.whole("num_attention_heads"),
        "hidden": f.whole("intermediate_size"),
        "act": activation(f, "gelu", "hidden_act"),
        "classes": _classes(f),
        "dropout": f.number("hidden_dropout_prob") > 0,
    }
    if not f.flag("qkv_bias", default=True):
        sizes["qkv_bias"] = "none"
    if f.whole("num_channels") != f.usually("num_channels"):
        raise ValueError(f"num_channels = {f.given['num_channels']}: only images of three channels can be built")
    names = f.members("architectures")
    if f.family == "deit" and any(str(name).endswith("WithTeacher") for name in names):
        sizes |= {"tokens": 2, "heads_out": 2}
    if beit:
        absolute = f.flag("use_absolute_position_embeddings")
        sizes |= {
            "positions": absolute,
            "relative_positions": f.flag("use_relative_position_bias"),
            "layer_scale": f.number("layer_scale_init_value") > 0,
            "mean_pool": f.flag("use_mean_pooling", default=True),
            "qkv_bias": "query and value",
        }
    return {"builder": "transformers.vit", "arguments": sizes, **VISION}


def _side(f: Fields, name: str) -> int:
    value = f.raw(name)
    if isinstance(value, list | tuple) and len(value) == 2 and value[0] == value[1]:
        f = Fields({name: value[0]}, f.family)
    return int(f.whole(name))


def _swin(f: Fields) -> Found:
    version = 2 if f.family == "swinv2" else 1
    if f.number("mlp_ratio") != f.usually("mlp_ratio"):
        raise ValueError(f"mlp_ratio = {f.given['mlp_ratio']}: only 4 can be built")
    sizes = {
        "image": _side(f, "image_size"),
        "patch": _side(f, "patch_size"),
        "width": f.whole("embed_dim"),
        "depths": f.wholes("depths", most=MAX_LAYERS),
        "heads": f.wholes("num_heads"),
        "window": f.whole("window_size"),
        "version": version,
        "classes": _classes(f),
    }
    if len(sizes["depths"]) != len(sizes["heads"]):
        raise ValueError(
            f"depths has {len(sizes['depths'])} entries and num_heads {len(sizes['heads'])}: give one a stage"
        )
    return {"builder": "transformers.swin", "arguments": sizes, **VISION}


def _resnet(f: Fields) -> Found:
    depths, kind = tuple(f.wholes("depths", most=MAX_LAYERS)), f.word("layer_type", default="bottleneck")
    depth = next(
        (
            depth
            for depth, blocks in resnets.BLOCKS.items()
            if blocks == depths and kind == ("basic" if depth < 50 else "bottleneck") and depth <= 152
        ),
        None,
    )
    usual = [64, 128, 256, 512] if kind == "basic" else [256, 512, 1024, 2048]
    stem = f.whole("embedding_size") == f.usually("embedding_size")
    if depth is None or f.wholes("hidden_sizes") != usual or not stem:
        raise refused(
            "depths",
            depths,
            f"of {kind} layers and hidden_sizes = "
            f"{shown(f.given.get('hidden_sizes'))} are none "
            "of the published ResNets of 18 to 152 layers; give an ONNX file, or cb.layers",
        )
    stride = "1x1" if f.flag("downsample_in_bottleneck") else "3x3"
    arguments = {"depth": depth, "stride_on": stride, "classes": _classes(f)}
    return {"builder": "resnets.resnet", "arguments": arguments, **CNN}


def _convnext(f: Fields) -> Found:
    widths, depths = tuple(f.wholes("hidden_sizes")), tuple(f.wholes("depths"))
    size = next((size for size, stages in resnets.CONVNEXT.items() if stages == (widths, depths)), "")
    if not size:
        raise refused(
            "hidden_sizes",
            widths,
            f"and depths = {shown(depths)} are none of the published "
            "ConvNeXt sizes; "
            "give an ONNX file or its layers (cb.layers)",
        )
    arguments = {"size": size, "image": _side(f, "image_size"), "classes": _classes(f)}
    return {"builder": "resnets.convnext", "arguments": arguments, **CNN}


def _mamba(f: Fields) -> Found:
    width, expand = f.whole("hidden_size", "d_model"), f.whole("expand")
    inner = f.whole("intermediate_size", "d_inner", default=expand * width)
    if inner != expand * width:
        raise ValueError(f"intermediate_size = {inner} must be expand x hidden_size = {expand * width}")
    rank = f.raw("time_step_rank")
    if isinstance(rank, int) and rank != -(-width // 16):
        raise refused(
            "time_step_rank", rank, f"must be hidden_size / 16 = {-(-width // 16)}, as in every published Mamba"
        )
    sizes = {
        "width": width,
        "layers": f.whole("num_hidden_layers", "n_layer", most=MAX_LAYERS),
        "vocab": f.whole("vocab_size"),
        "state": f.whole("state_size"),
        "kernel": f.whole("conv_kernel"),
        "expand": expand,
    }
    f.assume("sequences of 2,048 tokens; seq= says otherwise")
    return {"builder": "sequence.mamba", "arguments": sizes, "seq": 2048, **LANGUAGE}


def _dit(f: Fields) -> Found:
    heads = f.whole("num_attention_heads")
    sizes = {
        "depth": f.whole("num_layers", most=MAX_LAYERS),
        "heads": heads,
        "width": heads * f.whole("attention_head_dim"),
        "patch": f.whole("patch_size"),
        "image": 8 * f.whole("sample_size"),
        "classes": f.whole("num_embeds_ada_norm"),
    }
    return {"builder": "diffusion.dit", "arguments": sizes, **DIFFUSION}


def _unet(f: Fields) -> Found:
    """Read Stable Diffusion's U-Nets: two residual blocks per level, transformers where the level attends to the
    prompt.
    """
    channels, blocks = f.wholes("block_out_channels"), f.members("down_block_types")
    if any(width % channels[0] for width in channels) or len(blocks) != len(channels):
        raise refused(
            "block_out_channels", channels, "must be multiples of the first, one for each of down_block_types"
        )
    stated = f.raw("transformer_layers_per_block")
    each_level = list(stated) if isinstance(stated, list | tuple) else [stated or 1] * len(blocks)
    if len(each_level) != len(blocks) or not all(type(number) is int and 0 < number <= 100 for number in each_level):
        raise refused("transformer_layers_per_block", stated, "must be a whole number up to 100, or one a level")
    depths = [
        number if str(block).startswith("CrossAttn") else 0 for block, number in zip(blocks, each_level, strict=True)
    ]
    # In the published files a number is the number of heads, and a list the heads of each level.
    sides = f.raw("attention_head_dim")
    heads = f.whole("attention_head_dim") if not isinstance(sides, list | tuple) else None
    sizes = {
        "channels": channels[0],
        "multipliers": [width // channels[0] for width in channels],
        "depths": depths,
        "middle_depth": each_level[-1],
        "context": f.whole("cross_attention_dim"),
        "heads": heads,
        "image": 8 * f.whole("sample_size"),
        "linear": f.flag("use_linear_projection"),
        "pooled": f.whole("projection_class_embeddings_input_dim", default=0, least=0),
    }
    if any(f.whole(name) != f.usually(name) for name in ("layers_per_block", "in_channels")):
        raise ValueError(
            "layers_per_block must be 2 and in_channels 4: no other U-Net can be built from a configuration"
        )
    return {"builder": "diffusion.stable_diffusion_unet", "arguments": sizes, **DIFFUSION}


def _flux(f: Fields) -> Found:
    names = ("num_layers", "num_single_layers", "num_attention_heads", "attention_head_dim")
    (deep, single, *widths), usual = [f.whole(name) for name in names], [f.usually(name) for name in names]
    stated, flux = (deep, single, math.prod(widths)), (*usual[:2], math.prod(usual[2:]))
    if stated != flux:
        raise ValueError(f"num_layers, num_single_layers and width = {stated} must be {flux}, as in FLUX.1")
    arguments = {} if f.flag("guidance_embeds") else {"guidance": False, "tokens": 256}
    return {"builder": "diffusion.flux", "arguments": arguments, **DIFFUSION}


READERS: dict[str, Callable[[Fields], Found]] = {
    "bert": _bert,
    "t5": _t5,
    "bart": _bart,
    "whisper": _whisper,
    "vit": _vit,
    "swin": _swin,
    "resnet": _resnet,
    "convnext": _convnext,
    "mamba": _mamba,
    "dit": _dit,
    "unet": _unet,
    "flux": _flux,
}


def is_timm(config: Mapping[str, Any]) -> bool:
    """Return True if a configuration is one of timm's: it names an architecture and how it was trained."""
    return isinstance(config.get("architecture"), str) and "model_type" not in config and "pretrained_cfg" in config


def timm(config: Mapping[str, Any]) -> Found:
    """Return builder and arguments of the zoo's network that a configuration of timm names; UnknownName for others."""
    f = Fields(config, "timm")
    name = f.word("architecture")
    network = zoo.model(catalog.lookup("models", name))
    f.assume(f"{network.title} of the zoo, by the name {name}")
    own = {name: getattr(network, name) for name in ("builder", "family", "task", "data_kind", "sample")}
    return {**own, "arguments": dict(network.arguments), "assumed": f.assumed}
