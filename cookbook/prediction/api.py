"""Public functions of typed questions: a training step, a forward pass, an answer of a language model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import numpy as np

from cookbook import hardware
from cookbook.catalog.fields import Amounts, Field, Names, Row, checked, columns, fields
from cookbook.catalog.reading import check_names
from cookbook.catalog.refusals import Refused, refused
from cookbook.hardware import Systems
from cookbook.prediction import request_sets
from cookbook.prediction.assumptions import Assumptions
from cookbook.prediction.engine import UNITS, Estimate, estimate
from cookbook.prediction.fabrics import fabric
from cookbook.prediction.kinds.forward import KIND as FORWARD
from cookbook.prediction.kinds.generation import KIND as GENERATION
from cookbook.prediction.kinds.networks import KIND as NETWORK
from cookbook.prediction.kinds.transformer import KIND as TRANSFORMER
from cookbook.prediction.kinds.transformer import answers_tokens, is_language_model
from cookbook.prediction.scenario import Scenario, coded, scenario, together
from cookbook.prediction.scenario import checked as column
from cookbook.workloads import zoo
from cookbook.workloads.zoo import Workload

# Tokens of a prompt where none are given, and the delay without an answer.
USUAL_PROMPT, FIRST_TOKEN = 1024, "first token"


class Plan(TypedDict, total=False):
    """Parallelism configuration of training; every field may be a list, and lists are combined entry by entry.

    What is not given, or None, is the default of ``data/schema/scenario.csv``; an estimate reports it in `assumed`.

    Attributes
    ----------
    devices, per_node : int
        Devices in all and in one node; a node is the server's, or 8.
    micro_batch : float
        Samples of one device in one pass: the micro-batch (`batch` is another name for it).
    global_batch : int
        Samples of one update of all devices.
    tp, pp, vp, cp, ep : int
        Tensor, pipeline (with `vp` chunks a stage), context and expert parallelism.
    zero : int
        States that replicas share out: 0 none, 1 optimiser, 2 also gradients, 3 also weights (FSDP).
    sequence_parallel : bool
        Whether tensor-parallel ranks split norms along the sequence.
    recompute : str or float
        Activation checkpointing: "none", "selective", "full", a share of layers, or modules such as "mlp+core_attn".
    attention : str
        Attention kernel: "eager", "fused-softmax", "flash", "flash1", "flash2" or "flash3".
    pipeline_schedule : str
        "gpipe", "1f1b", "interleaved", "zero-bubble" or "zb-v"; by default one forward, one backward, in `vp` chunks.
    shard : int
        Replicas that share one copy of what `zero` shares out (HSDP, groups of FSDP); all of them by default.
    offload : str
        "optimiser": its states in host memory, updated there; "optimiser to drives": on drives of the host;
        "weights", "activations", "optimiser and weights": in host memory, copied in time to be used. Of weights and
        activations a device holds those of two layers. Whether the host has the memory is not checked.
    capacity_factor : float
        Rows that each expert computes over its even share; by default as many as it is sent.
    fabric : str
        Network of the table ``fabrics``: its rate, domain (as `per_node`), pods and oversubscription.
    oversubscription : float
        How much less than the network of a pod's devices leaves the pod; of a node, where no fabric says otherwise.
    network : float or str
        Network rate of one device, one direction [B/s].
    fine_tuning : str
        Which weights train: "full" (all), "lora" (low-rank adapters beside frozen weights) or "qlora" (beside frozen
        weights of 4 bits).
    rank : int
        Rank of the adapters.
    target_modules : str
        Matrices that have adapters: "attention", "all linear" or "all linear and embeddings" (which train whole).
    optimiser : str
        "adam", "adam-8bit", "adafactor", "galore", "lamb", "momentum" or "sgd", beside master weights in 32 bits.
    """

    devices: Amounts | None
    per_node: Amounts | None
    micro_batch: Amounts | None
    global_batch: Amounts | None
    tp: Amounts | None
    pp: Amounts | None
    vp: Amounts | None
    cp: Amounts | None
    ep: Amounts | None
    zero: Amounts | None
    sequence_parallel: bool | Amounts | None
    recompute: Amounts | None
    attention: Names | None
    pipeline_schedule: Names | None
    shard: Amounts | None
    offload: Names | None
    capacity_factor: Amounts | None
    fabric: Names | None
    oversubscription: Amounts | None
    network: Amounts | None
    fine_tuning: Names | None
    rank: Amounts | None
    target_modules: Names | None
    optimiser: Names | None


PLAN = tuple(Plan.__annotations__)
# What data parallelism takes as it is, and what only language models may change.
DATA_PARALLEL = ("micro_batch", "global_batch", "devices", "per_node", "network")
PARALLEL = tuple(name for name in PLAN if name not in (*DATA_PARALLEL, "zero"))
# A network, and arguments that a scenario takes as its columns and checks: one value or a list each.
MODEL = Field.named("models", Workload, what="network", give="a name such as 'resnet50', or cb.layers([...])")

# Names or records of accelerators, and of a number format.
ACCELERATORS = Field.named(
    "accelerators", hardware.Accelerator, name="accelerators", many=True, entries=10_000, optional=True
)
FORMAT = Field.named("number_formats")
PLANNED = Field.record(Mapping, what="plan", give="a dict such as {'devices': 8, 'micro_batch': 64}", optional=True)
PLAN_FIELDS: dict[str, Field | Row] = {
    **columns("training_transformer", *(name for name in PLAN if name != "fabric")),
    "fabric": Field.named("fabrics", many=True, gaps=True, kept=True),
}
TRAINING = Field.choice(TRANSFORMER, NETWORK)


# Devices, one or a list of them.
SYSTEMS = Field.named(
    "accelerators",
    hardware.Accelerator,
    hardware.Machine,
    what="machine",
    give="the name of an accelerator, a server or a cloud instance, or cb.accelerator(...)",
    many=True,
    kept=True,
)


@checked(
    model=MODEL,
    plan=PLANNED,
    kind=TRAINING,
    neighbours=Field.flag(),
    accelerator=SYSTEMS,
    **columns("training_transformer", "software", "precision", "seq"),
    **PLAN_FIELDS,
)
def train_step(
    model: str | Workload,
    accelerator: Systems,
    plan: Plan | Mapping[str, Any] | None = None,
    *,
    software: Names | None = None,
    precision: Names | None = None,
    seq: Amounts | None = None,
    kind: str = "",
    neighbours: bool = True,
    **changes: Unpack[Plan],
) -> Estimate:
    """Time of one training step, with its interval, bounds, parts and what it rests on.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, such a network with changes, or one of the reader's own (`cookbook.layers`).
    accelerator : str, Accelerator or Machine
        An accelerator, a server or a cloud instance of the catalogue, or the reader's own record; or a list of these.
    plan : Plan or dict, optional
        The parallelism configuration; one device by default. Lists in it give one estimate each.
    software : str
        A product or a level of the table ``software``, such as "Megatron Core"; "plain" is the framework as it comes,
        "tuned" all that makers do about it. The usual one of the device by default: `assumed` says which of the two.
    precision : str
        "bf16", "fp16", "tf32", "fp32" ...; by default the first of these that the device has.
    seq : float, optional
        Sequence length, where the network has one [tokens].
    kind : str
        "training_transformer" or "training_classic"; by default the first for language models, else the second, which
        knows data parallelism alone.
    neighbours : bool
        Whether similar measurements correct the point.
    **changes
        Fields of the plan.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device, number format or software that the catalogue does not have.
    ValueError
        One impossible scenario: the argument, its value and the remedy. Among several it gets NaN and a reason.

    Examples
    --------
    >>> step = train_step("resnet50", "a100-sxm-80gb", micro_batch=256, precision="fp16", software="PyTorch NGC")
    >>> bool(step.low80 < step.point < step.high80), step.tier
    (True, 'device and engine measured')
    """
    network, stated = network_of(model), plan_fields(plan, changes)
    chosen = kind or kind_of(network)
    request = training_scenario(network, accelerator, stated, chosen, software, precision, seq)
    step = _told(estimate(request, neighbours), request, network)
    blank = chosen == NETWORK and not {"micro_batch", "global_batch"} & set(stated)
    return _assuming(step, _taken({"micro_batch": (1, True)})) if blank else step


def network_of(model: str | Workload) -> Workload:
    """Return a network of the zoo by name, or the reader's own as it is; ValueError for anything else."""
    model = MODEL.read(model, "model")
    return zoo.model(model) if isinstance(model, str) else model


def kind_of(network: Workload) -> str:
    """Return the kind of training that estimates a network."""
    return TRANSFORMER if is_language_model(network) else NETWORK


def plan_fields(plan: Plan | Mapping[str, Any] | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a plan that are given, by name; `changes` count before those of the plan."""
    plan = PLANNED.read(plan, "plan")
    stated = {**(plan or {}), **changes}
    columns = {"micro_batch" if name == "batch" else name: value for name, value in stated.items()}
    check_names(columns, PLAN, "the plan", "field")
    return {name: value for name, value in columns.items() if value is not None}


def training_scenario(
    network: Workload,
    system: Any,
    plan: Mapping[str, Any],
    kind: str,
    software: Any = None,
    precision: Any = None,
    seq: Any = None,
) -> Scenario:
    """Return a training step of one network as a scenario; `plan` is from `plan_fields`."""
    kind = TRAINING.read(kind, "kind")
    columns: dict[str, Any] = {
        "model": named_network(network),
        "accelerator": _machines(system),
        "software": _given(software),
        "precision": _given(precision),
    }
    if kind == TRANSFORMER:
        if not is_language_model(network):
            raise ValueError(
                f"kind = {kind!r}: {network.title} is not a language model whose layers can be split; leave kind out"
            )
        return scenario(kind, columns | _parallel(plan, columns["accelerator"]) | {"seq": seq})
    for name in PARALLEL:
        if name in plan and not is_plain(name, plan[name]):
            why, else_ = f", as {network.unsplit}", f"or build it of {zoo.DIVIDED}"
            if not network.unsplit:
                why, else_ = "", "other configurations are for language models"
            raise refused(
                name,
                plan[name],
                f": of {network.title[:80]} data parallelism alone is estimated{why}; leave {name} out, {else_}",
            )
    if seq is not None and not network.ops.needs_seq:
        raise refused("seq", seq, f": {network.title} has no sequence length; leave seq out")
    if np.nanmax(column(fields()["zero"], plan.get("zero", 0))) > 1:
        raise refused(
            "zero",
            plan["zero"],
            f": of {network.title} data parallelism alone is estimated, whose "
            "gradients and weights every replica holds; take zero = 0 or 1, or leave it out",
        )
    mine = {"batch" if name == "micro_batch" else name: plan[name] for name in DATA_PARALLEL if name in plan}
    if "batch" not in mine and "global_batch" not in mine:
        mine["batch"] = 1
    return scenario(kind, columns | mine | {"seq": seq if seq is not None else network.seq})


PLAIN: dict[str, tuple[Any, ...]] = {
    "sequence_parallel": (False, 0),
    "recompute": ("none", 0),
    "oversubscription": (1,),
    "fine_tuning": ("full", ""),
    **dict.fromkeys(("tp", "pp", "vp", "cp", "ep"), (1,)),
}


def is_plain(name: str, value: Any) -> bool:
    """Return whether a field has the value that it has in data parallelism."""
    return np.ndim(value) == 0 and not isinstance(value, np.ndarray) and value in PLAIN.get(name, ("",))


def named_network(network: Workload) -> str | Workload:
    """Return the key of an unchanged network of the zoo, else the network itself."""
    return network.name if _of_zoo(network) else network


@lru_cache(maxsize=4096)
def _of_zoo(network: Workload) -> bool:
    try:
        return zoo.model(network.name).ops is network.ops
    except KeyError:
        return False


def _machines(system: Any) -> Any:
    single = isinstance(system, (str, hardware.Accelerator, hardware.Machine)) or not isinstance(system, Iterable)
    return hardware.machine(system) if single else [hardware.machine(device) for device in system]


def _parallel(plan: Mapping[str, Any], machines: Any) -> dict[str, Any]:
    """Return fields of a parallelism configuration, a fabric turned into rates; an offload needs a known link."""
    columns = {name: value for name, value in plan.items() if name != "fabric"}
    if _is_stated(plan.get("offload")):
        pairs = together(column(fields()["offload"], plan["offload"]), coded(machines))
        for word, machine in (pairs.levels[code] for code in np.unique(pairs.codes)):
            if word not in ("", "none") and not np.isfinite(machine.host_link):
                reason = f": the catalogue does not know the host link of {machine.accelerator.key}"
                raise refused("offload", word, reason)
    return columns | (_network(plan) if _is_stated(plan.get("fabric")) else {})


def _network(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rate, domain, pod and oversubscription of the fabrics of a plan. A torus is refused."""
    names = np.ravel(np.asarray(plan["fabric"], dtype=object)).tolist()
    if not all(isinstance(name, str) for name in names):
        raise refused("fabric", plan["fabric"], "must name fabrics of the table 'fabrics'")
    fabrics = [fabric(name) if name else None for name in names]
    for record in fabrics:
        if record is not None and record.kind == "torus":
            reason = (
                "is a torus: its links join the whole slice, which the estimate for its accelerator counts already; "
                "leave fabric out"
            )
            raise refused("fabric", record.key, reason)
    read = {
        "network": lambda record: record.network_bandwidth,
        "pod": lambda record: record.group,
        "oversubscription": lambda record: record.oversubscription,
        "per_node": lambda record: record.domain,
    }
    columns: dict[str, Any] = {}
    for name, cell in read.items():
        if name not in plan:
            values = [None if record is None else cell(record) for record in fabrics]
            columns[name] = values if np.ndim(plan["fabric"]) else values[0]
    if "per_node" in columns and "devices" in plan:
        size = np.minimum(np.asarray(plan["devices"], dtype=float), np.asarray(columns["per_node"], dtype=float))
        known = [None if np.isnan(number) else number for number in np.ravel(size).tolist()]
        columns["per_node"] = known if size.ndim else known[0]
    return columns


def _told(answer: Estimate, request: Scenario, network: Workload) -> Estimate:
    """Return one estimate with its sources, or raise ValueError with the reason; several as they are."""
    machines = request.words("accelerator").levels
    sources = tuple(dict.fromkeys([*network.sources, *(key for machine in machines for key in machine.sources)]))
    if request.several:
        return replace(answer, sources=sources)
    if answer.why[0]:
        raise Refused(answer.why[0])
    return answer.one(sources=sources)


@checked(
    model=MODEL,
    neighbours=Field.flag(),
    accelerator=SYSTEMS,
    **columns("inference", "batch", "devices", "precision", "software", "seq"),
)
def forward_pass(
    model: str | Workload,
    accelerator: Systems,
    *,
    batch: Amounts | None = None,
    precision: Names | None = None,
    software: Names | None = None,
    devices: Amounts = 1,
    seq: Amounts | None = None,
    neighbours: bool = True,
) -> Estimate:
    """Time of one forward pass, with its interval, parts, memory, rate and what it rests on.

    Arguments may be lists; they are taken together entry by entry, and give one estimate each.

    Parameters
    ----------
    model : str or Workload
        A network of the zoo, such a network with changes, or one of the reader's own. Of a language model this is one
        pass over a prompt of ``seq`` tokens that keeps no cache, not an answer; its interval is that of such answers.
    accelerator : str, Accelerator or Machine
        A device of the catalogue (GPU, TPU, processor, FPGA, edge module ...), or the reader's own record.
    batch : float
        Samples of one pass on one device, 1 by default; on one core where each core of a chip runs its own network.
    precision : str
        "fp32", "tf32", "fp16", "bf16", "fp8", "fp4" or "int8"; by default the first of "fp16" and "bf16"
        (the faster of both), "tf32", "fp32", "int8" and "fp8" that the device has.
    software : str
        A product or a level of the table ``software``, such as "TensorRT"; the usual one of the device by default.
    devices : int
        Devices that each run batches of their own.
    seq : float, optional
        Sequence length, where the network has one [tokens].
    neighbours : bool
        Whether similar measurements correct the point.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device, number format or software that the catalogue does not have.
    ValueError
        One impossible scenario: the argument, its value and the remedy. Among several it gets NaN and a reason.

    Examples
    --------
    >>> one = forward_pass("resnet50", "t4", batch=128, precision="int8", software="TensorRT")
    >>> bool(one.low80 < one.point < one.high80), one.fits, 2000 < one.rate < 10000
    (True, 'yes', True)
    >>> forward_pass("resnet50", "v100", precision="fp8")
    Traceback (most recent call last):
    cookbook.catalog.Refused: precision = 'fp8': Tesla V100 SXM2 16GB has fp32, fp16; take one of these
    """
    network = network_of(model)
    assumed = _taken({"batch": (1, batch is None)})
    batch = 1 if batch is None else batch
    if seq is not None and not network.ops.needs_seq:
        raise refused("seq", seq, f": {network.title} has no sequence length; leave seq out")
    prompt = answers_tokens(network)
    request = scenario(
        GENERATION if prompt else FORWARD,
        {
            "model": named_network(network),
            "accelerator": _machines(accelerator),
            "batch": batch,
            "devices": devices,
            "precision": _given(precision),
            "software": _given(software),
            "counts": "samples",
            **(
                {"input_len": seq or network.seq, "tp": 1, "scenario": "prefill"}
                if prompt
                else {"seq": seq if seq is not None else network.seq, "scenario": "static"}
            ),
        },
    )
    return _assuming(_told(replace(estimate(request, neighbours), unit=UNITS[FORWARD]), request, network), assumed)


def _is_stated(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value)


def _given(value: Any) -> Any:
    """Return the value that is given; None where it is blank."""
    return None if isinstance(value, str) and not value else value


def answers(
    network: Workload,
    accelerator: Any,
    *,
    input_len: Any,
    output_len: Any,
    batch: Any = None,
    devices: Any = None,
    tp: Any = None,
    pp: Any = None,
    ep: Any = None,
    precision: Any = None,
    weights_format: Any = None,
    kv_format: Any = None,
    software: Any = None,
    delay_of: Any = None,
    request_rate: Any = None,
    **policy: Any,
) -> Scenario:
    """Return batches of answers as scenarios, arguments as for `generate`."""
    if not answers_tokens(network):
        raise refused("model", network.title, "is no language model; use cb.forward_pass")
    comes = request_rate is not None
    batch = 1 if batch is None and not comes else batch
    return scenario(
        GENERATION,
        {
            "model": named_network(network),
            "accelerator": _machines(accelerator),
            "batch": batch,
            "devices": devices,
            "tp": tp,
            "pp": pp,
            "ep": ep,
            "precision": _given(precision),
            "weights_format": _given(weights_format),
            "kv_format": _given(kv_format),
            "software": _given(software),
            "input_len": input_len,
            "output_len": request_sets.answers_of(input_len, output_len),
            "scenario": "server" if comes else "static",
            "counts": "output tokens",
            "delay_of": "pass" if _given(delay_of) is None and comes else _given(delay_of),
            "request_rate": request_rate,
            **policy,
        },
    )


@checked(
    model=MODEL,
    accelerator=SYSTEMS,
    **columns("inference", "input_len", "output_len", "batch", "devices", "tp", "pp", "ep", "precision"),
    **columns("inference", "weights_format", "kv_format", "software", "delay_of", "request_rate", "acceptance"),
    **columns("inference", "drafted", "prefix_hit", "schedule", "chunk"),
)
def generate(
    model: str | Workload,
    accelerator: Systems,
    *,
    input_len: Amounts | None = None,
    output_len: Amounts | None = None,
    batch: Amounts | None = None,
    devices: Amounts | None = None,
    tp: Amounts | None = None,
    pp: Amounts | None = None,
    ep: Amounts | None = None,
    precision: Names | None = None,
    weights_format: Names | None = None,
    kv_format: Names | None = None,
    software: Names | None = None,
    delay_of: Names | None = None,
    request_rate: Amounts | None = None,
    acceptance: Amounts | None = None,
    drafted: Amounts | None = None,
    prefix_hit: Amounts | None = None,
    schedule: Names | None = None,
    chunk: Amounts | None = None,
) -> Estimate:
    """Time of a static batch of answers of a language model: the prompt, then one pass per token with a growing cache.

    Arguments may be lists; they are taken together entry by entry, and give one estimate each. Queues are not
    modelled but for `request_rate`, whose delays are means; `cookbook.serve` has percentiles. Layers with a sliding
    window attend to the tokens within it, and keep the keys and values of no others. Layers that keep a state (linear
    attention, state spaces) read and write it once per token, however long the context, and have no constants of their
    own.

    Parameters
    ----------
    model : str or Workload
        A language model of the zoo, or one with changed arguments (of `cookbook.model`, `window` and `full_every`).
    accelerator : str, Accelerator or Machine
        A device, or the reader's own record.
    input_len, output_len : int or str
        Tokens of one prompt (1,024 by default) and of one answer (128); or a data set of the table ``request_sets`` in
        the place of the first, such as "sharegpt", for the mean lengths of its requests, which `assumed` reports.
    batch : int
        Answers of one replica at once, 1 by default; with `request_rate` the most of all replicas, by default as many
        as fit.
    devices, tp, pp : int
        Devices in all (tp x pp, or ep x pp, by default), shards of each layer, and stages.
    ep : int
        Devices that the experts of a mixture are spread over; where they are more than tp, groups of tp devices attend
        to requests of their own (attention data parallel).
    precision : str
        Number format of the products; by default what the software usually takes (mostly 16 bits); where only
        `weights_format` is given, that of the weights where the device computes in it, else 16 bits.
    weights_format, kv_format : str
        Number format in which weights are stored ("int4", "fp8" ...), and keys and values in the cache.
    software : str
        A product or a level of the table ``software``; the usual one of the device by default. Of few answers at once
        the part "launch" is its own time and outweighs that of the weights, so that another product differs most
        there. The usual one of GPUs was measured with a mixture of experts on eight devices alone: of a dense model on
        one, its release of 2024 was faster than is expected of it.
    delay_of : str
        "first token" (TTFT) or "token" (TPOT) for that delay alone; the whole answer by default.
    request_rate : float
        Requests that arrive in all [1/s], instead of a static batch; the time is then that of one request. Infinite:
        all are there at once, and as many are answered at a time as `batch` says or fit.
    acceptance, drafted : float, int
        Speculative decoding: share of drafted tokens that is taken, and tokens drafted for a step; drafting itself
        takes no time.
    prefix_hit : float
        Share of the tokens of a prompt whose keys and values, or the state after them, are kept from earlier requests.
    schedule : str
        "chunked prefill" or "prefill first", of requests that come and go; that of the software by default.
    chunk : int
        Tokens of prompts that one pass takes at most; that of the software by default.

    Raises
    ------
    cookbook.catalog.UnknownName
        A network, device, number format or software that the catalogue does not have.
    ValueError
        One impossible scenario: the argument, its value and the remedy. Among several it gets NaN and a reason.

    Examples
    --------
    >>> one = generate("llama2_7b", "h100-sxm", input_len=1024, output_len=128, batch=8)
    >>> bool(one.low80 < one.point < one.high80), one.fits
    (True, 'yes')
    """
    network = network_of(model)

    def taken(at: int) -> Assumptions:
        """Return lengths and batch of one entry that are not given."""
        named = next(request_sets.stands_in(request_sets.entry(input_len, at)), None) is not None
        late = str(request_sets.entry(delay_of, at)).strip().casefold() == FIRST_TOKEN
        answered = output_len is None and not named and not late
        return _taken(
            {
                "input_len": (USUAL_PROMPT, blank),
                "output_len": (request_sets.USUAL_ANSWER, answered),
                "batch": (1, batch is None and request_rate is None),
            }
        )

    blank = input_len is None
    input_len = USUAL_PROMPT if input_len is None else input_len
    request = answers(
        network,
        accelerator,
        input_len=input_len,
        output_len=output_len,
        batch=batch,
        devices=devices,
        tp=tp,
        pp=pp,
        precision=precision,
        weights_format=weights_format,
        kv_format=kv_format,
        software=software,
        delay_of=delay_of,
        request_rate=request_rate,
        acceptance=acceptance,
        drafted=drafted,
        prefix_hit=prefix_hit,
        ep=ep,
        schedule=_given(schedule),
        chunk=chunk,
    )

    answer = _told(estimate(request), request, network)
    sources = (*answer.sources, *request_sets.sources_of(input_len, output_len))
    answer = replace(answer, sources=tuple(dict.fromkeys(sources)))
    lists = any(isinstance(argument, (list, tuple)) for argument in (input_len, delay_of)) and request.several
    answer = _assuming(answer, request_sets.told(input_len, output_len))
    return _assuming(answer, [taken(at) for at in range(len(answer))] if lists else taken(0))


def _taken(blank: Mapping[str, tuple[Any, bool]]) -> Assumptions:
    """Return the usual values of arguments, where they were assumed."""
    return Assumptions({name: str(usual) for name, (usual, is_assumed) in blank.items() if is_assumed})


def _assuming(answer: Estimate, assumed: Assumptions | list[Assumptions]) -> Estimate:
    """Return the same estimates, whose `assumed` begins with `assumed`, of all or of each."""
    if not assumed:
        return answer
    own = answer.assumed.tolist() if np.ndim(answer.point) else [answer.assumed]
    added = [assumed] * len(own) if isinstance(assumed, Assumptions) else assumed
    joined = [Assumptions({**first.taken, **then.taken}) for first, then in zip(added, own, strict=True)]
    combined = np.empty(len(joined), dtype=object)
    combined[:] = joined
    return replace(answer, told=combined if np.ndim(answer.point) else joined[0])
