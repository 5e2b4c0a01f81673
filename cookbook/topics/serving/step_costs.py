"""Costs of iterations of one engine, and its memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cookbook.catalog.fields import MAX_AMOUNT, MAX_TOKENS, Field
from cookbook.formulas.generation import attended_tokens

__all__ = ["StepCosts"]


COST, CAPACITY = (
    Field.function("one of a number of tokens and of the tokens that each attends to"),
    Field.number(1, MAX_AMOUNT),
)
MEMBERS = {
    name: replace(declared, name=name)
    for name, declared in {
        **dict.fromkeys(("kv_tokens", "max_sequences", "chunk"), CAPACITY),
        **dict.fromkeys(("transfer", "state", "state_seconds"), Field.number(0, MAX_AMOUNT)),
        "windowed": Field.number(0, 1),
        **dict.fromkeys(("decode", "prefill"), COST),
    }.items()
}
WINDOW = Field.count(name="window", high=MAX_TOKENS)


@dataclass(frozen=True)
class StepCosts:
    """Costs of iterations of one engine, and its memory; an engine is the devices with one copy of the weights.

    Attributes
    ----------
    decode : callable
        Seconds of an iteration that gives each sequence of a batch one token, from the batch and the tokens whose keys
        and values a sequence reads, on average also over layers; of arrays, and straight lines in the second.
    prefill : callable
        Seconds of a pass over tokens of prompts, from the number of tokens and the tokens that each of them attends to,
        on average also over layers; of arrays, and straight lines in the second.
    kv_tokens : float
        Tokens whose keys and values fit, kept in all layers.
    max_sequences : int
        Most sequences of one iteration.
    chunk : int
        Most tokens of one iteration; with prompts before answers, most tokens of one pass unless one prompt has more.
    transfer : float
        Seconds to move keys and values of one token to another engine.
    window, windowed : float
        Sliding window in tokens, and the share of the layers that attend within it and keep nothing that has left it.
    state : float
        Tokens whose keys and values take as much memory as the state of a sequence in layers that do not attend,
        however long it is. Of a network in which none attends a token is such a state, and its window one token.
    state_seconds : float
        Seconds that reading and writing one state adds to an iteration; `decode` has them already.
    """

    decode: Callable[[Any, Any], Any]
    prefill: Callable[[Any, Any], Any]
    kv_tokens: float
    max_sequences: int = 256
    chunk: int = 2048
    transfer: float = 0.0
    window: float = math.inf
    windowed: float = 0.0
    state: float = 0.0
    state_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, declared in MEMBERS.items():
            declared.read(getattr(self, name))
        if not (isinstance(self.window, float) and self.window == math.inf):
            WINDOW.read(self.window)

    def kept(self, tokens: Any, span: Any = 0.0) -> np.ndarray:
        """Return the tokens of a sequence that layers keep and read on average, as `attended_tokens` has them.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5).kept([800, 2000]).tolist()
        [800.0, 1500.0]
        """
        return attended_tokens(tokens, self.window, self.windowed, span)

    def held(self, tokens: Any) -> np.ndarray:
        """Return the memory of a sequence, in tokens whose keys and values all layers keep: `kept` and its state.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5, state=50).held([800, 2000]).tolist()
        [850.0, 1550.0]
        """
        return self.kept(tokens) + self.state

    def longest(self, kept: float) -> float:
        """Return the tokens of a sequence of which layers keep `kept` on average; infinite where no length keeps more.

        >>> StepCosts(max, max, 1e6, window=1000, windowed=0.5).longest(1500)
        2000.0
        """
        beyond = (kept - self.window) / (1 - self.windowed) if self.windowed < 1 else math.inf
        return kept if kept < self.window else self.window + beyond
