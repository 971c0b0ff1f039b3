"""Explaining several answers at once: classes, given answers, or the words of a text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from whymask.errors import WhymaskError, whole
from whymask.explainer.case import Case, Listener
from whymask.explainer.joint import JointCases, distinct
from whymask.explainer.settings import Settings
from whymask.explainer.words import check_text, marked, role, writes
from whymask.models.classifier import Classifier
from whymask.results.mask import EvidenceMask
from whymask.results.masks import EvidenceMasks
from whymask.results.words import Word
from whymask.search.joint import Joint
from whymask.search.objective import Ledger

ONE_SEARCH = ("method", "alternatives", "null", "params")  # settings of a search for one answer


def check_several(settings: Settings) -> None:
    """Raise an error for settings that a search for several answers does not have."""
    for name in ONE_SEARCH:
        if getattr(settings, name):
            raise WhymaskError(f"several answers have their own search method: leave {name} out.")
    if settings.keep == "answer":
        raise WhymaskError("only one of several answers can be the model's: keep a share of each score, keep=0.9.")


def recipe_for(settings: Settings, targets: int) -> Joint:
    """The search for masks of k regions, or for the smallest that keep a share of each answer's score."""
    joint = Joint(targets, settings.k if isinstance(settings.k, int) else None)
    return replace(joint, share=settings.keep) if isinstance(settings.keep, int | float) else joint


def listed(answers: Sequence[int | str] | None, top: int | None) -> list[int | str]:
    """The answers as a list, empty where the likeliest classes are meant; raises an error for anything else."""
    found = [] if answers is None or isinstance(answers, str) or not isinstance(answers, Iterable) else [*answers]
    if bool(found) == (top is not None) or (answers is not None and not found):
        raise WhymaskError("pass top=5 for the likeliest classes, or a list of answers, answers=['cat', 'dog'].")
    return [one.item() if isinstance(one, np.generic) else one for one in found]


def likeliest(case: Case, top: int, ledger: Ledger) -> list[int | str]:
    """The numbers of a classifier's likeliest answers on the whole image, the first choice first."""
    model = case.model
    if not isinstance(model, Classifier):
        raise WhymaskError(f"top is for classifiers: pass answers=['Yes', 'No'] to {model.name}.")
    if whole("top", top, 1) > len(model.labels):
        raise WhymaskError(f"top is {top}, but the number of answers of {model.name} is {len(model.labels)}.")
    every = JointCases([case.answering(number) for number in range(len(model.labels))], ledger)
    (scores,) = every.ask(case.whole_image)
    return [int(number) for number in np.argsort(-scores, kind="stable")[:top]]


def explain_answers(
    case: Case, answers: Sequence[int | str], top: int, settings: Settings, progress: Listener = None
) -> EvidenceMasks:
    """A mask for each of some answers, of which those that score the same count once; or for the `top` likeliest."""
    ledger = Ledger()
    ledger.add("probe", "suff", case.bound.probes, case.bound.probes)
    chosen = answers or likeliest(case, top, ledger)
    joint = JointCases(distinct([case.answering(answer) for answer in chosen]), ledger)
    return _explained(joint, range(len(joint.cases)), settings, progress)


def explain_words(case: Case, text: str, settings: Settings, progress: Listener = None) -> EvidenceMasks:
    """A mask for each word of a text that the image supports; `case` explains the text as a whole."""
    found, model = check_text(text), writes(case.model)
    joint = JointCases([case.answering(marked(text, span)) for span in found])
    full, blank = joint.ask(np.concatenate([case.whole_image, ~case.whole_image])).tolist()
    roles = [role(*one) for one in zip(found, full, blank, strict=True)]
    searched = [number for number, one in enumerate(roles) if one == "content"]
    masks = _explained(joint, searched, settings, progress, case)
    by_word = dict(zip(searched, masks.each, strict=True))
    words = tuple(
        Word(
            text[span.start : span.end], span.start, span.end, roles[i], full[i], blank[i], by_word.get(i),
            model.places(joint.cases[i].bound),
        )
        for i, span in enumerate(found)
    )  # fmt: skip
    return EvidenceMasks(**vars(masks) | {"text": text, "words": words})


def _explained(
    joint: JointCases, numbers: Sequence[int], settings: Settings, progress: Listener, base: Case | None = None
) -> EvidenceMasks:
    """Masks for some of the cases, as a result about `base`, or about the first of them."""
    base = base or joint.cases[0]
    recipe = recipe_for(settings, len(numbers))
    each: list[EvidenceMask] = []
    if len(numbers):
        each = joint.of(numbers).search(recipe, settings.seed, budget=settings.budget, progress=progress)
    ledger = joint.ledger
    ((full, blank),), sent = base.ask(np.concatenate([base.whole_image, ~base.whole_image]))
    ledger.add("probe", "suff", sent + base.bound.probes, sent + base.bound.probes)
    provenance = base.provenance(recipe, settings.seed, base.model.fingerprint)
    spent = {name: each[0].provenance[name] for name in ("budget", "seconds", "together")} if each else {}
    complete = all(mask.complete for mask in each)
    return EvidenceMasks(base.explained(full, blank), ledger, provenance | spent, complete, each=tuple(each))
