"""Whether a mask is above chance: the same search for other answers (`null=`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from whymask.errors import WhymaskError
from whymask.explainer.case import Case
from whymask.explainer.together import search_together
from whymask.methods import Recipe
from whymask.models.base import meaning
from whymask.models.classifier import Classifier
from whymask.results.mask import EvidenceMask
from whymask.search.objective import Ledger

Null: TypeAlias = int | Sequence[int | str]
"""How many other answers to search for, or which."""


def other_answers(case: Case, null: Null, seed: int) -> list[int | str]:
    """The given answers, or a number of a classifier's other classes, drawn at random."""
    target = case.bound.target
    if isinstance(null, Sequence):
        return list(null)
    if not isinstance(case.model, Classifier) or len(case.model.labels) < 2:
        raise WhymaskError(
            f"{case.model.name} has no list of classes to draw other answers from: pass them, null=['Yes', 'Maybe']."
        )
    taken = [target.index, *([] if case.rival is None else [case.rival.target.index])]
    others = np.delete(np.arange(len(case.model.labels)), [index for index in taken if index >= 0])
    return [int(one) for one in case.problem(seed).rng().permutation(others)[:null]]


def with_null(
    case: Case, found: EvidenceMask, recipe: Recipe, seed: int, null: Null, *, budget: int | None = None
) -> EvidenceMask:
    """The same result with the scores that the same search reaches for other answers.

    Their forwards are counted apart, as the ledger's stage "null".
    """
    if found.controls is None:
        return found
    named = [case.again(target=answer) for answer in other_answers(case, null, seed)]
    compared = {meaning(bound) for bound in (case.bound, case.rival) if bound is not None}
    cases = [*{meaning(one.bound): one for one in named if meaning(one.bound) not in compared}.values()]
    if not cases:
        raise WhymaskError(f"null names no other answer than {case.bound.target.label!r}: pass different ones.")
    scores: dict[str, float] = {}
    kept: dict[str, bool] = {}
    ledger = Ledger(dict(found.ledger.entries))
    for number, other, _ in search_together(cases, recipe, seed, case.batching, budget=budget):
        assert other.mask is not None
        ((score,),), sent = cases[number].ask(other.mask[None])
        target = cases[number].bound.target
        label = f"{target.label} ({target.index})" if target.label in scores else target.label  # two kinds of crane
        scores[label] = float(score)
        if case.keep_answer:
            (kept[label],) = cases[number].kept(other.mask[None])
        ledger.add("null", "suff", other.ledger.nominal + sent, other.ledger.mec + sent)
    controls = replace(found.controls, null=dict(sorted(scores.items())))
    if controls.kept:
        controls = replace(controls, kept=replace(controls.kept, null=dict(sorted(kept.items()))))
    return replace(found, controls=controls, ledger=ledger)
