"""Several samples searched together: each one's numbers, its share of the time, and what failed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whymask.arrays import Bools
from whymask.bench.layout import Layout
from whymask.data.objects import overlap
from whymask.explainer.answers import mistake, yes_or_no
from whymask.explainer.case import Case, prefixes
from whymask.explainer.repairing import outcome, replies
from whymask.explainer.responder import Responder
from whymask.explainer.together import search_together
from whymask.methods import Recipe
from whymask.models.memory import PeakMemory
from whymask.results.verdict import ROUNDING
from whymask.search import drive
from whymask.search.driver import SearchResult
from whymask.search.protocol import Selection

Outcome = dict[str, Any] | Exception  # the numbers of a sample, or why there are none

DIGITS = 6  # of the points of curves that are kept
MOVED = ("insertion_auc", "deletion_auc")  # of an ordering, measured on other fills too


@dataclass(frozen=True)
class Measurement:
    """What is run on every sample, and what is recorded of it."""

    recipe: Recipe
    seed: int = 0
    budget: int | None = None
    budgets: tuple[int, ...] = ()  # the mask's score is also recorded after each of these numbers of forwards
    fills: tuple[str, ...] = ()  # what was found is scored on these fills too
    given: bool = False  # search for the model's own answer; what is found is judged by the sample's target
    keep: bool = False  # what figures of the evidence need is recorded too


@dataclass(eq=False)
class Subject:
    """A sample bound to a model, and the true objects (H, W) in it where they are known."""

    case: Case
    objects: Bools | None = None
    _again: dict[str, Case] = field(default_factory=dict)

    def again(self, **changes: str | None) -> Case:
        """The same image and regions with another fill, or with another target: None is the model's own answer."""
        key = str(changes)
        if key not in self._again:
            self._again[key] = self.case.again(**changes)
        return self._again[key]


def measure(subjects: Sequence[Subject], wanted: Measurement) -> Iterator[tuple[int, Outcome]]:
    """Yield (number of the subject, its outcome) as searches end.

    All subjects are of one model and share its batches. When something fails, those that are left are tried one by
    one, so that one subject's failure does not affect the others.
    """
    left = dict(enumerate(subjects))
    try:
        for number, found in _searched(subjects, wanted):
            del left[number]
            yield number, found
    except Exception as error:
        if len(subjects) == 1:
            yield 0, error
            return
        for number, subject in left.items():
            for _, result in measure([subject], wanted):
                yield number, result


def _searched(subjects: Sequence[Subject], wanted: Measurement) -> Iterator[tuple[int, dict[str, Any]]]:
    cases = [subject.again(target=None) if wanted.given else subject.case for subject in subjects]
    for case in (*cases, *(subject.case for subject in subjects)):  # every method pays for its own forwards
        case.forget()
    memory = PeakMemory(cases[0].model, thorough=True)
    searches = search_together(cases, wanted.recipe, wanted.seed, cases[0].batching, budget=wanted.budget)
    for number, found, seconds in searches:
        spent = {"seconds": seconds, **memory.spent()}
        yield number, {**numbers(subjects[number], wanted, found), **spent}


def numbers(subject: Subject, wanted: Measurement, found: SearchResult) -> dict[str, Any]:
    """What a table may report of a result."""
    case = subject.case
    counted = {
        "n": case.partition.n,
        "mec": found.ledger.mec,
        "nominal": found.ledger.nominal,
        "complete": found.complete,
        "label": case.bound.target.label,
        **({"layout": Layout.of(case)} if wanted.keep else {}),
    }
    return counted | (_of_mask if found.order is None else _of_ordering)(subject, wanted, found)


def _of_ordering(subject: Subject, wanted: Measurement, found: SearchResult) -> dict[str, Any]:
    """The curves of an ordering, on other fills too, its true objects and its repairs."""
    assert found.order is not None
    case, order = subject.case, found.order.tolist()
    curves = case.replay(order)
    ends = {"full": float(curves.insertion[-1]), "blank": float(curves.deletion[-1])}
    mask = [] if found.selection is None else list(found.selection.regions)
    result = {**curves.summary(), **ends, "replay": curves.forwards, "order": order, "mask": mask}
    for fill in wanted.fills:
        moved = subject.again(fill=fill).replay(order).summary()
        result |= {f"{name}/{fill}": moved[name] for name in MOVED}
    if wanted.keep:
        result |= {name: getattr(curves, name).round(DIGITS).tolist() for name in ("insertion", "deletion")}
    return result | _overlap(subject, order[: case.model.default_k]) | repair(case, prefixes(order), wanted.keep)


def _of_mask(subject: Subject, wanted: Measurement, found: SearchResult) -> dict[str, Any]:
    """The scores of a mask, on other fills and after smaller budgets too, its true objects and its repair."""
    assert found.selection is not None
    case, mask = subject.case, list(found.selection.regions)
    kept = np.isin(np.arange(case.partition.n), mask)
    ((score, removed, full, blank),), _ = case.ask(np.array([kept, ~kept, kept | True, kept & False]))
    result: dict[str, Any] = {
        "score": float(score),
        "removed_score": float(removed),
        "full": float(full),
        "blank": float(blank),
    }
    result |= {f"score/{fill}": _score(subject.again(fill=fill), kept) for fill in wanted.fills}
    result |= {f"score@{budget}": _score(case, _mask_at(wanted, found, budget)) for budget in wanted.budgets}
    area = float(case.partition.areas[mask].sum())
    result |= {**_enough(found.selection, score), "area": area, "mask": mask}
    return result | _overlap(subject, mask) | repair(case, kept[None], wanted.keep)


def _score(case: Case, kept: Bools) -> float:
    return float(case.ask(kept[None])[0][0, 0])


def _mask_at(wanted: Measurement, found: SearchResult, budget: int) -> Bools:
    """The mask (n,) of the same search stopped at a budget: all that it asks for is known by now."""
    if budget < found.ledger.mec:
        case: Case = found.about
        searches = [case.start(wanted.recipe, wanted.seed, budget=budget)]
        ((_, found),) = drive(searches, Responder(), batch_size=lambda: case.batching.size)
    assert found.mask is not None
    return found.mask


def _enough(selection: Selection, score: float) -> dict[str, Any]:
    """The size of the smallest mask, and whether it reaches its goal; empty for other searches."""
    if selection.goal is None:
        return {}
    return {"size": int(selection.mask.sum()), "sufficient": bool(score >= selection.goal - ROUNDING)}


def _overlap(subject: Subject, regions: Sequence[int]) -> dict[str, float]:
    return {} if subject.objects is None else overlap(subject.case, subject.objects, regions)


def repair(case: Case, rows: Bools, keep: bool = False) -> dict[str, Any]:
    """What becomes of a wrong answer when only these regions (B, n), a mask or the prefixes of an ordering, are kept.

    Nothing where the answer is right, unknown, or of another kind than a class, a yes or a no. With `keep`, also the
    answer to the mask, or to the shortest prefix that repairs (where none does, the one with the highest score), and
    which prefixes repair.
    """
    target = case.bound.target
    (top,) = case.responses.answers_to(case.whole_image)
    word = yes_or_no(target.label) is not None and target.label.isalpha()
    if top is None or (top == target.index if target.numbered else not word):
        return {}
    ((given, right),) = replies(case, case.whole_image)
    if right:
        return {}
    answers = replies(case, rows)
    tried = outcome(answers, rows @ case.partition.areas)
    result: dict[str, Any] = {"given": given, "mistake": mistake(given, target.label), "repaired": tried.repaired}
    result |= {"removed": tried.removed, "kept": tried.kept}
    if not keep:
        return result
    sizes = [size for size, (_, ok) in enumerate(answers, 1) if ok]
    shown = sizes[0] if sizes else 1 + int(case.ask(rows)[0][0].argmax())
    result["answer"] = answers[shown - 1][0]
    return result if len(rows) == 1 else {**result, "prefix": shown, "right": sizes}
