"""Time of language models that generate token by token: one decoding step, a prompt, and requests that share steps.

All quantities are in SI: arrays of one shape, or numbers that apply to all. A step reads the weights once for all
sequences and the keys and values of each; a prompt is one pass over all its tokens.

References: Pope et al., Efficiently scaling transformer inference, MLSys 2023; Yu et al., Orca, OSDI 2022 (steps that
sequences join and leave); Agrawal et al., Sarathi-Serve, OSDI 2024 (prompts in chunks); Leviathan et al., Fast
inference from transformers via speculative decoding, ICML 2023.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Decoder",
    "Engine",
    "Group",
    "Steady",
    "accepted_tokens",
    "attended_tokens",
    "cache_slots",
    "decode_parts",
    "decode_step_seconds",
    "experts_read",
    "open_service",
    "prefill_parts",
    "prefill_seconds",
    "steady_service",
]
# Bytes of an activation, all-reduces of a layer over its shards, iterations of the fixed point and of bisection, and
# the smallest share of a prompt's time that remains when it shares a step.
ACTIVATION, SUMS, ROUNDS, HALVINGS, LEAST, BUSIEST = 2.0, 2, 24, 40, 0.05, 0.98


class Decoder(NamedTuple):
    """The sizes of a language model: what it stores and multiplies.

    Attributes
    ----------
    weight_bytes : numpy.ndarray
        Weights that every pass reads, the output layer among them [B].
    expert_bytes : numpy.ndarray
        Weights of all routed experts; 0 without experts [B].
    experts, experts_per_token : numpy.ndarray
        Experts per layer, and experts per token; 1 and 1 without experts [-].
    active : numpy.ndarray
        Weights that one token is multiplied with, without the output layer [-].
    head : numpy.ndarray
        Weights of the output layer, which only the last token of a prompt needs [-].
    layers, hidden, heads, head_dim : numpy.ndarray
        Layers, width, query heads and their width [-].
    cache_bytes : numpy.ndarray
        Size of one token's keys and values in all layers together [B].
    cache_heads : numpy.ndarray
        Heads over which keys and values can be sharded; 1 for a latent cache [-].
    queries : numpy.ndarray
        Query heads that read one such head separately [-].
    embedded_bytes : numpy.ndarray
        Weights that are looked up by row, not read as a whole [B].
    window, windowed : numpy.ndarray
        Sliding window, and the share of the layers that attend within it, as of `attended_tokens` [-].
    attending : numpy.ndarray
        Share of the layers that attend; the others keep a state of fixed size (linear attention, state space) [-].
    state_bytes : numpy.ndarray
        State per sequence of the layers without attention, whatever its length [B].
    state_flop : numpy.ndarray
        Operations of those layers on the state per token of a prompt, processed in chunks [FLOP].
    windowed_scores : numpy.ndarray
        Share of the scores' work that is within the window, where layers have heads of several sizes; NaN: `windowed`
        [-].
    """

    weight_bytes: Any
    expert_bytes: Any
    experts: Any
    experts_per_token: Any
    active: Any
    head: Any
    layers: Any
    hidden: Any
    heads: Any
    head_dim: Any
    cache_bytes: Any
    cache_heads: Any
    queries: Any
    embedded_bytes: Any = 0.0
    window: Any = np.inf
    windowed: Any = 0.0
    attending: Any = 1.0
    state_bytes: Any = 0.0
    state_flop: Any = 0.0
    windowed_scores: Any = np.nan


class Group(NamedTuple):
    """The devices that hold one copy of the weights.

    Attributes
    ----------
    shards, stages : numpy.ndarray
        Devices that share every layer (tensor parallel), and pipeline stages (pipeline parallel) [-].
    mem_bandwidth, memory_bytes : numpy.ndarray
        Memory bandwidth [B/s] and capacity [B] of one device.
    peak, wide_peak : numpy.ndarray
        Peak of one device in the number format of products, and in that of attention [FLOP/s].
    link : numpy.ndarray
        Bandwidth of one device in all-reduces over shards, each direction [B/s].
    replicas : numpy.ndarray
        Groups of `shards` that each attend to sequences of their own, and share only the experts (attention data
        parallel) [-].
    spread : numpy.ndarray
        Devices over which whole experts are distributed (expert parallel); 1 where each expert is split [-].
    nodes : numpy.ndarray
        Nodes over which `replicas` are distributed [-].
    network : numpy.ndarray
        Bandwidth of one device to other nodes, each direction [B/s].
    """

    shards: Any
    stages: Any
    mem_bandwidth: Any
    memory_bytes: Any
    peak: Any
    wide_peak: Any
    link: Any
    replicas: Any = 1.0
    spread: Any = 1.0
    nodes: Any = 1.0
    network: Any = np.inf


class Engine(NamedTuple):
    """The shares of the devices' peaks and the overheads that serving software reaches.

    Attributes
    ----------
    weight_share, cache_share : numpy.ndarray
        Shares of the memory bandwidth at which weights, and keys and values, are read [-].
    decode_share, prompt_share, attention_share : numpy.ndarray
        Shares of the peak in products of a step, in those of a prompt, and in attention over a prompt [-].
    query_cost : numpy.ndarray
        Extra reading time per further query head that reads the same keys [-].
    touches : numpy.ndarray
        Activations of a layer that are read or written for each token, in widths of the model [-].
    layer_seconds, step_seconds, sequence_seconds : numpy.ndarray
        Host time for a layer, for a step, and for each sequence of a step [s].
    start_seconds, rank_seconds : numpy.ndarray
        Latency of one all-reduce over shards, and its increase with each shard beyond the first [s].
    attention_ramp : numpy.ndarray
        Tokens times heads of a prompt at which attention reaches half of its share of the peak: the last tiles of a
        small one leave multiprocessors idle [-].
    request_seconds : numpy.ndarray
        Time of a request before and after the engine: HTTP, tokeniser [s].
    piece : numpy.ndarray
        Tokens of a prompt that pipeline stages pass on together [-].
    score_bytes : numpy.ndarray
        Traffic per attention score of a prompt where kernels write scores to memory; 0 where they do not [B].
    prompt_seconds : numpy.ndarray
        Host time for a layer of a pass over prompts, whose kernels are started one by one while the device works off
        those before; it shows where it is longer than the work [s].
    expert_pace, expert_reading : numpy.ndarray
        Time of a product of experts over that of another, and of reading their weights over reading others [-].
    expert_tile, expert_passes : numpy.ndarray
        Tokens per tile of the experts' kernel, and how often rows are read or written outside the products [-].
    in_turn : numpy.ndarray
        Whether halves of a batch take turns, so that one computes while the other communicates, each of one sequence
        or prompt of a replica at least; 1 or 0 [-].
    """

    weight_share: Any
    cache_share: Any
    decode_share: Any
    prompt_share: Any
    attention_share: Any
    query_cost: Any
    touches: Any
    layer_seconds: Any
    step_seconds: Any
    sequence_seconds: Any
    start_seconds: Any
    piece: Any = np.inf
    score_bytes: Any = 0.0
    in_turn: Any = 0.0
    rank_seconds: Any = 0.0
    attention_ramp: Any = 0.0
    prompt_seconds: Any = 0.0
    request_seconds: Any = 0.0
    expert_pace: Any = 1.0
    expert_reading: Any = 1.0
    expert_tile: Any = 0.0
    expert_passes: Any = 0.0


class Steady(NamedTuple):
    """The steady state of a server, in which requests leave at the rate at which they arrive.

    Attributes
    ----------
    requests_per_second : numpy.ndarray
        Rate at which one copy of the weights answers requests [1/s].
    first_token_seconds, token_seconds, request_seconds : numpy.ndarray
        Typical time to first token and time between tokens, and mean time to the last token [s].
    decoding : numpy.ndarray
        Sequences of one step [-].
    """

    requests_per_second: np.ndarray
    first_token_seconds: np.ndarray
    token_seconds: np.ndarray
    request_seconds: np.ndarray
    decoding: np.ndarray


def _overlapped(one: Any, other: Any) -> np.ndarray:
    """Return the time of two activities that overlap, unless both take equally long."""
    return np.asarray(np.hypot(one, other))


def experts_read(tokens: Any, experts: Any, experts_per_token: Any) -> np.ndarray:
    """Return the share of a layer's experts that at least one token is routed to, if all are equally likely.

    .. math:: 1 - (1 - k / E)^T

    Parameters
    ----------
    tokens : float or numpy.ndarray
        Tokens of a pass, T [-].
    experts : float or numpy.ndarray
        Experts of a layer, E [-].
    experts_per_token : float or numpy.ndarray
        Experts per token, k [-].

    Returns
    -------
    numpy.ndarray
        0 to 1 [-].

    References
    ----------
    Feller, An introduction to probability theory and its applications, 1968, chapter II.5.

    Examples
    --------
    >>> experts_read([1, 4, 1000], 8, 2).round(3).tolist()
    [0.25, 0.684, 1.0]
    """
    tokens = np.asarray(tokens, dtype=float)
    missed = np.maximum(1 - np.asarray(experts_per_token, dtype=float) / np.asarray(experts, dtype=float), 0.0)
    if not np.any(missed):
        return np.asarray(np.where(tokens + missed > 0, 1.0, 0.0))
    return np.asarray(1 - missed ** np.maximum(tokens, 0.0))


def attended_tokens(context: Any, window: Any = np.inf, windowed: Any = 0.0, span: Any = 0.0) -> np.ndarray:
    r"""Return the number of tokens that a layer attends to and caches, averaged over all layers.

    A share of the layers attends within a sliding window and keeps nothing that has left it; the others attend to all.
    While a sequence grows, the mean over its lengths is less than that of its mean length.

    .. math:: a = c - \frac{g}{n} \int_{c - n/2}^{c + n/2} \max(x - w, 0) \, dx

    Parameters
    ----------
    context : float or numpy.ndarray
        Mean length of the sequence while it grows, c [-].
    window : float or numpy.ndarray
        Tokens in the window, the last one included, w; infinite without a window [-].
    windowed : float or numpy.ndarray
        Share of the layers that attend within the window, g; 0 to 1 [-].
    span : float or numpy.ndarray
        Tokens by which the sequence grows, n; 0 for a fixed length [-].

    Returns
    -------
    numpy.ndarray
        `context` where no layer has a window, or the sequence is no longer than it [-].

    References
    ----------
    Beltagy, Peters & Cohan, Longformer, arXiv:2004.05150, 2020, section 3.1; Jiang et al., Mistral 7B,
    arXiv:2310.06825, 2023, section 2 (rolling buffer cache).

    Examples
    --------
    Mistral 7B keeps 4,096 tokens in each layer; of Gemma 3 every sixth layer attends to all, the others to 1,024.

    >>> attended_tokens(32768, [4096, 1024], [1, 5 / 6]).round(1).tolist()
    [4096.0, 6314.7]
    """
    middle, half = np.asarray(context, dtype=float), np.asarray(span, dtype=float) / 2
    if not np.any(windowed):
        return middle + np.zeros(np.broadcast_shapes(middle.shape, *map(np.shape, (window, windowed, span))))
    over, under = (np.maximum(middle + offset - window, 0.0) for offset in (half, -half))
    beyond = np.where(half > 0, (over - under) / np.where(half > 0, 2 * half, 1.0), over > 0)
    return np.asarray(middle - windowed * beyond * (over + under) / 2)


def _attended(context: Any, decoder: Decoder, span: Any) -> np.ndarray:
    return attended_tokens(context, decoder.window, decoder.windowed, span)


def _state_seconds(sequences: Any, times: Any, decoder: Decoder, group: Group, engine: Engine) -> np.ndarray:
    """Return the seconds in which each sequence's state is read or written this many times, sharded over devices."""
    return np.asarray(
        times * sequences * decoder.state_bytes / (group.shards * group.mem_bandwidth * engine.cache_share)
    )


def _per_replica(sequences: Any, group: Group) -> np.ndarray:
    """Return the sequences of one attention replica, of the busiest where there are fewer sequences than replicas."""
    return np.maximum(sequences / np.asarray(group.replicas, dtype=float), np.minimum(sequences, 1.0))


def _alternated(whole: dict[str, np.ndarray], half: dict[str, np.ndarray], use: Any) -> dict[str, np.ndarray]:
    """Return the parts of a pass whose halves alternate.

    Both read weights and launch kernels; communication is hidden.
    """
    sent = 2 * half["tensor_exchange"]
    left = {"tensor_exchange": np.maximum(sent - (2 * _total_seconds(half) - sent), 0.0)}
    return {name: np.where(use, left.get(name, 2 * half[name]), part) for name, part in whole.items()}


def _most_loaded(touched: Any, decoder: Decoder, group: Group) -> np.ndarray:
    """Return the routed experts of the most loaded device over the mean of all that share them.

    Expected load of the most loaded of n devices where all experts are equally likely (Raab & Steger 1998).
    """
    mean = np.maximum(decoder.experts * touched / np.asarray(group.spread, dtype=float), 1e-9)
    largest = mean + np.sqrt(2 * mean * np.log(group.spread) * (1 - touched))
    return np.asarray(np.minimum(np.minimum(largest / mean, 1 / touched), group.spread))


def _read_seconds(touched: Any, decoder: Decoder, group: Group, engine: Engine) -> np.ndarray:
    """Return the seconds in which the busiest device reads its weights, including the share of routed experts."""
    uneven = _most_loaded(touched, decoder, group) if np.any(np.greater(group.spread, 1)) else 1.0
    experts = decoder.expert_bytes * touched * uneven / group.replicas * engine.expert_reading
    return np.asarray((decoder.weight_bytes + experts) / (group.shards * group.mem_bandwidth * engine.weight_share))


def _multiplied_weights(
    tokens: Any, touched: Any, own: Any, last: Any, decoder: Decoder, group: Group, engine: Engine
) -> np.ndarray:
    """Return the weights that one device multiplies tokens with: all of its replica, and the even part of all experts'.

    An expert works on whole tiles of tokens, of which the last is half empty on average, and at a pace of its own.
    """
    sent = decoder.expert_bytes * decoder.experts_per_token / decoder.experts
    routed = decoder.active * sent / np.maximum(sent + decoder.weight_bytes, 1.0)
    filled = tokens + decoder.experts * touched / decoder.experts_per_token * engine.expert_tile / 2
    dense = (decoder.active - routed) * own + decoder.head * last
    return np.asarray((dense + engine.expert_pace * routed * filled / group.replicas) / group.shards)


def _activation_bytes(decoder: Decoder, engine: Engine) -> np.ndarray:
    """Return the bytes of activations read or written per token; rows of experts are gathered and summed."""
    sorted_out = np.where(np.asarray(decoder.experts) > 1, decoder.experts_per_token * engine.expert_passes, 0.0)
    return np.asarray(decoder.hidden * decoder.layers * (engine.touches + sorted_out) * ACTIVATION)


def _communication_seconds(tokens: Any, decoder: Decoder, group: Group, engine: Engine) -> np.ndarray:
    """Return the seconds of all-reduces over shards and transfers between stages in one pass of a replica's
    `tokens`.
    """
    shards, traffic = np.asarray(group.shards, dtype=float), tokens * decoder.hidden * ACTIVATION
    ring = _start_seconds(shards, engine) + 2 * (shards - 1) / shards * traffic / group.link
    hops = (np.asarray(group.stages, dtype=float) - 1) * (engine.start_seconds + traffic / group.link / shards)
    sent = (
        _dispatched_seconds(traffic / shards, ring, decoder, group, engine)
        if np.any(np.greater(group.replicas, 1))
        else ring
    )
    return np.asarray(SUMS / 2 * decoder.layers * (ring + sent) + hops)


def _dispatched_seconds(
    traffic: np.ndarray, ring: np.ndarray, decoder: Decoder, group: Group, engine: Engine
) -> np.ndarray:
    """Return the seconds in which tokens of replicas reach the devices of their experts and come back.

    That takes the place of the second sum of a layer: once over the network to each node that has some of the experts,
    and on within it (Zhao et al., Insights into DeepSeek-V3, 2025).
    """
    spread, nodes = (np.asarray(count, dtype=float) for count in (group.spread, group.nodes))
    others, beyond = (experts_read(decoder.experts_per_token, count, 1) * (count - 1) for count in (spread, nodes))
    away = traffic * (others / group.link + beyond / group.network)
    return np.where(np.asarray(group.replicas) > 1, 2 * (_start_seconds(spread, engine) + away), ring)


def _start_seconds(devices: np.ndarray, engine: Engine) -> np.ndarray:
    """Return the seconds until this number of devices has started communicating; none for one."""
    return np.asarray(np.where(devices > 1, engine.start_seconds + engine.rank_seconds * (devices - 1), 0.0))


def _host(sequences: Any, decoder: Decoder, engine: Engine) -> np.ndarray:
    return np.asarray(decoder.layers * engine.layer_seconds + engine.step_seconds + sequences * engine.sequence_seconds)


def decode_step_seconds(
    batch: Any, context: Any, *, decoder: Decoder, group: Group, engine: Engine, drafted: Any = 0.0, span: Any = 0.0
) -> np.ndarray:
    r"""Return the time of one decoding step, in which every sequence of a batch gets one more token.

    Weights are read once while products run, keys and values of each sequence after them; a state of fixed size, s, is
    read and written, whatever the context, which takes longer than working on it. Stages of a pipeline work on parts of
    the batch in turn: a step is one pass over all stages with one part.

    .. math:: t = \sqrt{\left(\frac{W}{n b}\right)^2 + \left(\frac{2 P B}{n p}\right)^2}
        + \frac{B (L c + 2 s)}{n b} + t_{sums} + t_{host}

    Parameters
    ----------
    batch : float or numpy.ndarray
        Sequences of one copy of the weights, B [-].
    context : float or numpy.ndarray
        Tokens of each sequence so far, on average, whose keys and values it reads as far as windows reach, L [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    drafted : float or numpy.ndarray
        Further tokens of each sequence that the step checks (speculative decoding); the state after each is written,
        since any may be the last that is taken [-].
    span : float or numpy.ndarray
        Tokens by which sequences grow in the steps that are averaged over, as of `attended_tokens` [-].

    Returns
    -------
    numpy.ndarray
        Seconds of one step [s].

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2.

    Examples
    --------
    A batch of one waits for the weights: 16 GB at 2 TB/s.

    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> ideal = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    >>> float(decode_step_seconds(1, 0, decoder=model, group=one, engine=ideal).round(5))
    0.008
    """
    return _total_seconds(_decode_parts(batch, context, decoder, group, engine, drafted, span))


def decode_parts(
    batch: Any, context: Any, *, decoder: Decoder, group: Group, engine: Engine, drafted: Any = 0.0, span: Any = 0.0
) -> dict[str, np.ndarray]:
    r"""Return the parts of `decode_step_seconds`: weights, products, cache, elementwise, tensor_exchange and launch.

    .. math:: t = \sum_i t_i

    Parameters
    ----------
    batch : float or numpy.ndarray
        Sequences of one copy of the weights, B [-].
    context : float or numpy.ndarray
        Tokens of each sequence so far, on average, whose keys and values it reads as far as windows reach, L [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    drafted : float or numpy.ndarray
        Further tokens of each sequence that the step checks (speculative decoding) [-].
    span : float or numpy.ndarray
        Tokens by which sequences grow in the steps that are averaged over, as of `attended_tokens` [-].

    Returns
    -------
    dict of str to numpy.ndarray
        Seconds by part [s].

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2.

    Examples
    --------
    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> ideal = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    >>> parts = decode_parts(64, 4096, decoder=model, group=one, engine=ideal)
    >>> round(float(parts["cache"]), 4)
    0.0172
    """
    return _separated(_decode_parts(batch, context, decoder, group, engine, drafted, span))


def _decode_parts(
    batch: Any, context: Any, decoder: Decoder, group: Group, engine: Engine, drafted: Any, span: Any
) -> dict[str, np.ndarray]:
    """Return the parts of a step, of which weights and products overlap."""
    part = np.asarray(batch, dtype=float)
    part = part / np.minimum(np.asarray(group.stages, dtype=float), np.maximum(part, 1.0))
    arguments = (context, decoder, group, engine, drafted, span)
    parts = _step_parts(part, *arguments)
    if not np.any(engine.in_turn):
        return parts
    return _alternated(
        parts, _step_parts(part / 2, *arguments), (engine.in_turn > 0) & (_per_replica(part, group) >= 2)
    )


def _step_parts(
    part: np.ndarray, context: Any, decoder: Decoder, group: Group, engine: Engine, drafted: Any, span: Any
) -> dict[str, np.ndarray]:
    """Return the parts of one pass with this number of sequences."""
    shards = np.asarray(group.shards, dtype=float)
    new, bandwidth, own = 1 + np.asarray(drafted, dtype=float), group.mem_bandwidth, _per_replica(part, group)
    tokens, routed = own * new, part * new
    touched = experts_read(routed, decoder.experts, decoder.experts_per_token)
    multiplied = _multiplied_weights(routed, touched, tokens, tokens, decoder, group, engine)
    cache = own * _attended(context, decoder, span) * decoder.cache_bytes / np.minimum(shards, decoder.cache_heads)
    return {
        "weights": _read_seconds(touched, decoder, group, engine),
        "products": np.asarray(2 * multiplied / (group.peak * engine.decode_share)),
        "cache": cache * (1 + engine.query_cost * (decoder.queries - 1)) / (bandwidth * engine.cache_share)
        + _state_seconds(own, 1 + new, decoder, group, engine),
        "elementwise": tokens * _activation_bytes(decoder, engine) / bandwidth,
        "tensor_exchange": _communication_seconds(tokens, decoder, group, engine),
        "launch": _host(own, decoder, engine),
    }


def prefill_seconds(
    tokens: Any, *, decoder: Decoder, group: Group, engine: Engine, prompts: Any = 1.0, cached: Any = 0.0
) -> np.ndarray:
    r"""Return the seconds of one pass over prompts, to the first token of their answers.

    Layers that attend compare tokens with those before them; those that keep a state take f operations per token.

    .. math:: t = \sqrt{\left(\frac{W}{n b}\right)^2 + \left(\frac{2 P B S}{n p}\right)^2}
        + \frac{2 l h B S^2 + f B S}{n p} + t_{sums} + t_{host}

    Parameters
    ----------
    tokens : float or numpy.ndarray
        Tokens of one prompt, S [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    prompts : float or numpy.ndarray
        Prompts per pass, B [-].
    cached : float or numpy.ndarray
        Share of a prompt whose keys and values are cached from an earlier request [-].

    Returns
    -------
    numpy.ndarray
        Seconds of the pass [s].

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2.

    Examples
    --------
    1,000 tokens, each multiplied with 8 G weights at 312 TFLOP/s.

    >>> model = Decoder(16e9, 0.0, 1, 1, 8e9, 0.0, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 1e15, 80e9, 312e12, 312e12, 300e9)
    >>> ideal = Engine(1, 1, 1, 1, 1e6, 0, 0, 0, 0, 0, 0)
    >>> float(prefill_seconds(1000, decoder=model, group=one, engine=ideal).round(4))
    0.0513
    """
    return _total_seconds(_prefill_parts(tokens, decoder, group, engine, prompts, cached))


def prefill_parts(
    tokens: Any, *, decoder: Decoder, group: Group, engine: Engine, prompts: Any = 1.0, cached: Any = 0.0
) -> dict[str, np.ndarray]:
    r"""Return the parts of `prefill_seconds`: weights, products, attention, elementwise, tensor_exchange and launch.

    .. math:: t = \sum_i t_i

    Parameters
    ----------
    tokens : float or numpy.ndarray
        Tokens of one prompt, S [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    prompts : float or numpy.ndarray
        Prompts per pass, B [-].
    cached : float or numpy.ndarray
        Share of a prompt whose keys and values are cached from an earlier request [-].

    Returns
    -------
    dict of str to numpy.ndarray
        Seconds by part [s].

    References
    ----------
    Pope et al., Efficiently scaling transformer inference, MLSys 2023, section 2.

    Examples
    --------
    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> ideal = Engine(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    >>> parts = prefill_parts(8192, decoder=model, group=one, engine=ideal)
    >>> round(float(parts["attention"]), 4)
    0.0564
    """
    return _separated(_prefill_parts(tokens, decoder, group, engine, prompts, cached))


def _prefill_parts(
    tokens: Any, decoder: Decoder, group: Group, engine: Engine, prompts: Any, cached: Any
) -> dict[str, np.ndarray]:
    """Return the parts of a pass over prompts, of which weights and products overlap."""
    prompts, arguments = np.asarray(prompts, dtype=float), (cached, decoder, group, engine)
    parts = _pass_parts(prompts, tokens, *arguments)
    if not np.any(engine.in_turn):
        return parts
    return _alternated(
        parts, _pass_parts(prompts / 2, tokens, *arguments), (engine.in_turn > 0) & (_per_replica(prompts, group) >= 2)
    )


def _pass_parts(
    prompts: np.ndarray, tokens: Any, cached: Any, decoder: Decoder, group: Group, engine: Engine
) -> dict[str, np.ndarray]:
    """Return the parts of one pass over this number of prompts."""
    shards, length = np.asarray(group.shards, dtype=float), np.asarray(tokens, dtype=float)
    new = np.maximum(length * (1 - np.asarray(cached, dtype=float)), 1.0)
    own = _per_replica(prompts, group)
    new_tokens, routed = own * new, prompts * new
    touched = experts_read(routed, decoder.experts, decoder.experts_per_token)
    multiplied = _multiplied_weights(routed, touched, new_tokens, own, decoder, group, engine)
    # Each new token attends to the tokens before it: half of the new ones, and all cached ones.
    near = np.where(np.isnan(decoder.windowed_scores), decoder.windowed, decoder.windowed_scores)
    context_tokens = attended_tokens(length - new / 2, decoder.window, near, new)
    attending = decoder.layers * decoder.attending
    scores = (
        4 * attending * decoder.heads * decoder.head_dim * new_tokens * context_tokens + decoder.state_flop * new_tokens
    )
    written = (
        attending * decoder.heads * new_tokens * attended_tokens(length, decoder.window, near) * engine.score_bytes
    )
    busy = 1 + engine.attention_ramp * shards / np.maximum(new_tokens * decoder.heads, 1.0)
    # Pieces of a pass fill the stages of a pipeline one after the other.
    stages = np.asarray(group.stages, dtype=float)
    pieces = np.maximum(np.maximum(new_tokens / engine.piece, np.minimum(own, stages)), 1.0)
    filled = (pieces + stages - 1) / (pieces * stages)
    parts = {
        "weights": _read_seconds(touched, decoder, group, engine) * filled,
        "products": np.asarray(2 * multiplied / (group.peak * engine.prompt_share) * filled),
        "attention": (
            scores * busy / (shards * group.wide_peak * engine.attention_share)
            + written / (shards * group.mem_bandwidth)
            + _state_seconds(own, 2.0, decoder, group, engine)
        )
        * filled,
        "elementwise": new_tokens * _activation_bytes(decoder, engine) / group.mem_bandwidth * filled,
        "tensor_exchange": _communication_seconds(new_tokens, decoder, group, engine) * filled,
    }
    work, started = _total_seconds(parts), decoder.layers * engine.prompt_seconds
    return parts | {"launch": _host(own, decoder, engine) + _overlapped(work, started) - work}


OVERLAPPING = ("weights", "products")


def _total_seconds(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Return the seconds of parts that run one after the other, except weights and products, which overlap."""
    others = [part for name, part in parts.items() if name not in OVERLAPPING]
    return np.asarray(sum(others, _overlapped(*(parts[name] for name in OVERLAPPING))))


def _separated(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return parts that add up: weights and products divide their common time by their shares of the sum of squares."""
    both = np.maximum(_overlapped(*(parts[name] for name in OVERLAPPING)), 1e-300)
    return {name: np.asarray(part**2 / both) if name in OVERLAPPING else part for name, part in parts.items()}


def cache_slots(
    tokens: Any, *, decoder: Decoder, group: Group, memory_share: Any, reserved_bytes: Any = 0.0, span: Any = 0.0
) -> np.ndarray:
    r"""Return the number of sequences that fit beside one copy of the weights; 0 where the weights do not fit.

    .. math:: \frac{n (s M - r) - W}{L c + k}

    Parameters
    ----------
    tokens : float or numpy.ndarray
        Tokens of one sequence, prompt and answer together, L [-].
    decoder : Decoder
        The model, of which a sequence keeps c bytes per token and a state of k bytes [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    memory_share : float or numpy.ndarray
        Share of the memory that the engine may use, s [-].
    reserved_bytes : float or numpy.ndarray
        Memory of the runtime and its buffers on each device, r [B].
    span : float or numpy.ndarray
        Tokens by which a sequence grows, where `tokens` is a mean, as of `attended_tokens` [-].

    Returns
    -------
    numpy.ndarray
        Sequences, not rounded [-].

    References
    ----------
    Kwon et al., Efficient memory management for large language model serving with PagedAttention, SOSP 2023.

    Examples
    --------
    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> float(cache_slots(4096, decoder=model, group=one, memory_share=0.9).round(1))
    104.3
    """
    shards = np.asarray(group.shards, dtype=float)
    devices = shards * group.stages * group.replicas
    free = devices * (memory_share * np.asarray(group.memory_bytes, dtype=float) - reserved_bytes)
    free = free - (decoder.weight_bytes + decoder.embedded_bytes) * group.replicas - decoder.expert_bytes
    copies = np.maximum(shards / decoder.cache_heads, 1.0)
    sequence_bytes = _attended(tokens, decoder, span) * decoder.cache_bytes * copies + decoder.state_bytes
    return np.asarray(np.maximum(free, 0.0) / sequence_bytes)


def accepted_tokens(acceptance: Any, drafted: Any) -> np.ndarray:
    r"""Return the mean number of tokens that one step of speculative decoding yields.

    .. math:: \frac{1 - a^{d + 1}}{1 - a}

    Parameters
    ----------
    acceptance : float or numpy.ndarray
        Probability that a drafted token is accepted, independently of the others; 0 to 1 [-].
    drafted : float or numpy.ndarray
        Tokens drafted per step [-].

    Returns
    -------
    numpy.ndarray
        Tokens, 1 to `drafted` + 1 [-].

    Raises
    ------
    ValueError
        If the acceptance is not between 0 and 1, or `drafted` is negative.

    References
    ----------
    Leviathan et al., Fast inference from transformers via speculative decoding, ICML 2023, equation 1.

    Examples
    --------
    >>> accepted_tokens([0, 0.8, 1], 4).round(2).tolist()
    [1.0, 3.36, 5.0]
    """
    probability, count = np.broadcast_arrays(np.asarray(acceptance, dtype=float), np.asarray(drafted, dtype=float))
    if not np.all((probability >= 0) & (probability <= 1)):
        raise ValueError(f"acceptance = {np.max(probability):g} is outside its range; give a share from 0 to 1")
    if not np.all(count >= 0):
        raise ValueError(f"drafted = {np.min(count):g} is outside its range; give 0 tokens or more")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(probability == 1, count + 1, (1 - probability ** (count + 1)) / (1 - probability))


def steady_service(
    concurrency: Any,
    prompt: Any,
    answer: Any,
    *,
    decoder: Decoder,
    group: Group,
    engine: Engine,
    slots: Any,
    chunk: Any,
    prefill_first: Any = False,
    cached: Any = 0.0,
    drafted: Any = 0.0,
    acceptance: Any = 0.0,
) -> Steady:
    r"""Return the state of one copy of the weights that serves a fixed number of requests in a closed loop.

    The devices never rest, so that requests per second follow from the work of one: its prompt, and its share of each
    step. How prompts and steps take turns hardly changes that; it decides how long the first and each further token
    take. Requests beyond `slots` wait. `concurrency` = `slots` is offline work whose backlog never ends.
    For means of whole tables at once; one service with its percentiles, spread lengths and random arrivals is solved by
    `cookbook.formulas.serving.service_latencies`, several thousand times as slowly.

    .. math:: x = \frac{1}{t_{prompt} + O t_{step}(B) / B}, \quad C = x \, t_{request}

    Parameters
    ----------
    concurrency : float or numpy.ndarray
        Concurrent requests per copy of the weights [-].
    prompt : float or numpy.ndarray
        Tokens of a prompt [-].
    answer : float or numpy.ndarray
        Tokens of its answer, O [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    slots : float or numpy.ndarray
        Sequences that can be decoded at once, at least 1: from `cache_slots`, or the limit of the engine [-].
    chunk : float or numpy.ndarray
        Largest number of prompt tokens in one pass [-].
    prefill_first : bool or numpy.ndarray
        Whether waiting prompts go before the next step; else each step takes a chunk of them along [-].
    cached : float or numpy.ndarray
        Share of a prompt whose keys and values are cached from an earlier request [-].
    drafted, acceptance : float or numpy.ndarray
        Further tokens of each sequence that a step checks, and the probability of accepting one, as in
        `accepted_tokens`; drafting itself takes no time [-].

    Returns
    -------
    Steady
        Rates and delays of one copy of the weights [1/s, s].

    References
    ----------
    Little, A proof for the queuing formula L = lambda W, Operations Research 9, 1961; Agrawal et al., Taming
    throughput-latency tradeoff in LLM inference with Sarathi-Serve, OSDI 2024.

    Examples
    --------
    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> half = Engine(0.8, 0.8, 0.6, 0.6, 0.3, 0.1, 12, 1e-4, 1e-3, 1e-5, 1e-5)
    >>> found = steady_service([1, 64], 512, 256, decoder=model, group=one, engine=half, slots=128, chunk=2048)
    >>> (256 * found.requests_per_second).round(0).tolist()
    [69.0, 1949.0]
    """
    prompt, answer, chunk = (np.maximum(np.asarray(value, dtype=float), 1.0) for value in (prompt, answer, chunk))
    requests, capacity = np.asarray(concurrency, dtype=float), np.maximum(np.asarray(slots, dtype=float), 1.0)
    active, new = np.minimum(requests, capacity), np.maximum(prompt * (1 - np.asarray(cached, dtype=float)), 1.0)
    present = active
    setup: dict[str, Any] = {"decoder": decoder, "group": group, "engine": engine}
    alone = prefill_seconds(prompt, **setup, cached=cached)
    first, gained = np.asarray(prefill_first, dtype=bool), accepted_tokens(acceptance, drafted)
    least, steps = np.minimum(active, 1.0), np.maximum(answer / gained, 1.0)
    decoding, context, cost = 0.8 * active, prompt + answer / 2, alone
    for _ in range(ROUNDS):
        decoding = np.maximum(decoding, least)
        step = decode_step_seconds(decoding, context, **setup, drafted=drafted, span=answer)
        # A pass takes the prompts that arrived during the previous pass and step.
        rate = 1 / (cost + steps * step / decoding)
        together = np.clip(rate * (step + alone), 1.0, np.maximum(np.minimum(chunk / new, active), 1.0))
        cost = prefill_seconds(prompt, **setup, prompts=together, cached=cached) / together
        mixed_step = step + cost * decoding / steps
        # Requests are out of step with each other: a prompt waits for the running pass, and for the prompts
        # that arrived before it as in a queue with one server, at most for all others.
        busy = np.minimum(rate * cost, BUSIEST)
        queue = np.minimum(busy / (2 * (1 - busy)), np.maximum(active - 1, 0.0) / 2) * cost
        chunk_wait = np.where(first, 0.0, np.ceil(new / chunk) * step)
        waited = alone + queue + np.clip(active - 1, 0.0, 1.0) * (step / 2 + chunk_wait)
        decoded = active - rate * np.minimum(waited, 0.9 * active / rate)
        decoding = (decoding + decoded) / 2
        # Some of the concurrent requests are on their way to the engine or back.
        active = np.clip(np.minimum(requests - rate * engine.request_seconds, present), least, present)
    # A step separates two tokens of an answer; prompts that go first interrupt few steps, each for long.
    token = np.where(first, step, mixed_step) * (steps / answer)
    outside = np.asarray(engine.request_seconds, dtype=float)
    waited = waited + outside + np.maximum(requests - active - rate * outside, 0.0) / rate
    return Steady(rate, waited, token, np.maximum(requests, least) / rate, decoding)


def open_service(
    rate: Any,
    prompt: Any,
    answer: Any,
    *,
    decoder: Decoder,
    group: Group,
    engine: Engine,
    slots: Any,
    chunk: Any,
    prefill_first: Any = False,
    cached: Any = 0.0,
    drafted: Any = 0.0,
    acceptance: Any = 0.0,
) -> Steady:
    r"""Return the state of one copy of the weights where requests arrive at random at a rate (open loop).

    Prompts take a share of the time, r, and wait for each other as in a queue with one server; answers share the rest.
    For means of whole tables at once, as `steady_service` is of a closed loop.

    .. math:: B = x O \frac{t_{step}(B)}{1 - r}, \quad
        t_{first} = t_{prompt} + \frac{t_{step}}{2} + \frac{r}{2 (1 - r)} t_{prompt}

    Parameters
    ----------
    rate : float or numpy.ndarray
        Arrival rate of requests per copy of the weights, x [1/s].
    prompt, answer : float or numpy.ndarray
        Tokens of a prompt, and of its answer, O [-].
    decoder : Decoder
        The model [B, -].
    group : Group
        The devices that hold one copy of it [B, B/s, FLOP/s].
    engine : Engine
        The software [s, -].
    slots, chunk : float or numpy.ndarray
        As in `steady_service` [-].
    prefill_first : bool or numpy.ndarray
        Whether waiting prompts go before the next step; else each chunk of them waits for a step beside it [-].
    cached, drafted, acceptance : float or numpy.ndarray
        As in `steady_service` [-].

    Returns
    -------
    Steady
        Rates and delays; in overload the rate is the capacity, and delays are NaN [1/s, s].

    References
    ----------
    Kleinrock, Queueing systems, volume 1, 1975, section 5.6 (Pollaczek and Khinchine).

    Examples
    --------
    >>> model = Decoder(16e9, 0.0, 1, 1, 7.5e9, 0.5e9, 32, 4096, 32, 128, 131072.0, 8, 4)
    >>> one = Group(1, 1, 2e12, 80e9, 312e12, 312e12, 300e9)
    >>> half = Engine(0.8, 0.8, 0.6, 0.6, 0.3, 0.1, 12, 1e-4, 1e-3, 1e-5, 1e-5)
    >>> found = open_service([1, 4, 1000], 512, 256, decoder=model, group=one, engine=half, slots=128, chunk=2048)
    >>> found.requests_per_second.round(1).tolist(), found.first_token_seconds.round(2).tolist()
    ([1.0, 4.0, 10.1], [0.06, 0.06, nan])
    """
    prompt, answer, chunk = (np.maximum(np.asarray(value, dtype=float), 1.0) for value in (prompt, answer, chunk))
    comes, most = np.asarray(rate, dtype=float), np.maximum(np.asarray(slots, dtype=float), 1.0)
    new = np.maximum(prompt * (1 - np.asarray(cached, dtype=float)), 1.0)
    steps = np.maximum(answer / accepted_tokens(acceptance, drafted), 1.0)
    setup: dict[str, Any] = {"decoder": decoder, "group": group, "engine": engine}

    def shared(batch: Any, rate: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the seconds of a step, and of one prompt among those that arrive during a step and a prompt."""
        reading: dict[str, Any] = {"context": prompt + answer / 2, "span": answer}
        step = decode_step_seconds(np.maximum(batch, 1.0), **reading, **setup, drafted=drafted)
        together = np.clip(rate * (step + alone), 1.0, np.maximum(np.minimum(chunk / new, most), 1.0))
        cost = prefill_seconds(prompt, **setup, prompts=together, cached=cached) / together
        return step, np.where(first, cost, np.maximum(cost - weights / together, LEAST * cost))

    # A chunk processed with a step reads no weights of its own.
    first, weights = np.asarray(prefill_first, dtype=bool), decode_step_seconds(1.0, 0.0, **setup)
    alone = prefill_seconds(prompt, **setup, cached=cached)
    step, cost = shared(most, np.inf)  # passes are full
    capacity = 1 / (cost + steps * step / most)
    low, high = np.zeros(np.shape(capacity)), np.broadcast_to(most, np.shape(capacity))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        step, cost = shared(middle, comes)
        less = middle * (1 - comes * cost) < comes * steps * step
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    step, cost = shared(high, comes)
    occupied = comes * cost
    chunk_wait, met = np.where(first, 0.0, np.ceil(new / chunk) * (step - weights)), np.minimum(high, 1.0)
    wait = alone + met * (chunk_wait + step / 2) + occupied * cost / (2 * (1 - occupied)) + engine.request_seconds
    token = step / (1 - occupied) * (steps / answer)
    lost = comes >= capacity
    wait, token, batch = (np.where(lost, np.nan, value) for value in (wait, token, high))
    return Steady(np.minimum(comes, capacity), wait, token, wait + (answer - 1) * token, batch)
