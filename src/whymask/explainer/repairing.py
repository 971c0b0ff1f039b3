"""repair: find the evidence for the answer that should have been given, keep only that, and ask again."""

from collections.abc import Sequence

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError
from whymask.explainer.answers import begins, in_words
from whymask.explainer.case import Case, Listener, prefixes
from whymask.explainer.controls import controls
from whymask.explainer.responder import Filled
from whymask.methods import Recipe
from whymask.metrics.repair import RepairOutcome, correction_region
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.search.objective import Ledger


def repair(
    case: Case, recipe: Recipe, seed: int = 0, *, budget: int | None = None, progress: Listener = None
) -> Repair:
    """Repair the answer to a case whose target is the wanted one; an answer that is right already is an error."""
    wanted = case.bound.target.label
    if "[[" in wanted:
        raise WhymaskError(f"the wanted answer is in plain words, such as 'No', not {wanted!r}.")
    ((given, right),) = replies(case, case.whole_image)
    if right:
        raise WhymaskError(f"{case.model.name} says {given!r} of the whole image: there is nothing to repair.")
    (found,) = case.search(recipe, [seed], budget=budget, progress=progress)
    return repaired(case, found)


def replies(case: Case, rows: Bools) -> list[tuple[str, bool]]:
    """What the model answers when only these regions (B, n) are kept, and whether that is the case's target.

    Images that a search has scored are not sent again. Only where the first token is neither yes nor no, a few tokens
    are generated. On several fills, the answer must be the target on every one of them; where it is not, the first
    other answer is returned.
    """
    case.ask(rows)
    by_fill = [_replies(filled, rows) for filled in case.fills]
    return [next((reply for reply in some if not reply[1]), some[0]) for some in zip(*by_fill, strict=True)]


def _replies(filled: Filled, rows: Bools) -> list[tuple[str, bool]]:
    """As `replies`, on one fill, for rows that have been scored."""
    bound, target = filled.bound, filled.bound.target
    tops = filled.responses.answers_to(rows)
    texts = in_words(filled.case.model, tops, lambda some: filled.inputs(rows[some]), [bound] * len(rows))
    if target.numbered:
        return [(text, top == target.index) for text, top in zip(texts, tops, strict=True)]
    return [(text, begins(text, target.label)) for text in texts]


def outcome(answers: Sequence[tuple[str, bool]], areas: Floats) -> RepairOutcome:
    """Whether a mask, or a prefix of an ordering, repairs the answer, and with how little removed.

    Args:
        answers: the `replies` to the mask, or to all prefixes.
        areas: (1,) or (n,) the share of the grid that each of them keeps.
    """
    right = [ok for _, ok in answers]
    if len(right) == 1:
        return RepairOutcome(right[0], kept=float(areas[0]))
    first = float(areas[right.index(True)]) if any(right) else None
    return RepairOutcome(any(right), correction_region(areas, right), kept=first)


def repaired(case: Case, found: EvidenceMask | Ordering) -> Repair:
    """Ask again with only the regions that were found for the wanted answer."""
    ((given, _),) = replies(case, case.whole_image)
    given_score, sent = _given_score(case)
    own = vars(found)
    if isinstance(found, EvidenceMask):
        ((answer, repaired),) = replies(case, found.chosen[None])
    else:
        rows = prefixes(found.order)
        (scores,), fresh = case.ask(rows)
        said = replies(case, rows)
        right = tuple(ok for _, ok in said)
        best = right.index(True) if any(right) else int(scores.argmax())
        kept = rows[best]
        (removed,), shown, more, _ = controls(case, kept, ~kept[None])
        sent += fresh + more
        answer, repaired = said[best]
        own = {name: own[name] for name in ("image", "provenance", "complete", "scored")}
        own |= {"order": found.order, "scores": tuple(scores.tolist()), "right": right}
        own |= {"regions": found.order[: best + 1], "ordered": True}
        own |= {"score": float(scores[best]), "removed_score": float(removed), "controls": shown}
    ((_, blank_repaired),) = replies(case, ~case.whole_image)
    ledger = Ledger(dict(found.ledger.entries))
    ledger.add("probe", "suff", sent, sent)
    own = own | {"ledger": ledger, "blank_repaired": blank_repaired}
    return Repair(**own, given=given, given_score=given_score, answer=answer, repaired=repaired)


def _given_score(case: Case) -> tuple[float, int]:
    """The probability of the model's own answer to the whole image, by its class or first token, and the forwards."""
    (answer,) = case.responses.answers_to(case.whole_image)
    ((score,),), sent = case.again(target=answer).ask(case.whole_image)
    return float(score), sent
