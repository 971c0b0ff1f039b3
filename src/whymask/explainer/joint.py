"""Several answers to one image, searched together: a forward scores all of them."""

import time
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.explainer.case import Case, Listener
from whymask.explainer.responder import Filled, Responder
from whymask.models.base import meaning
from whymask.models.memory import PeakMemory
from whymask.results.mask import EvidenceMask
from whymask.search.batches import in_batches
from whymask.search.driver import Search, drive
from whymask.search.joint import Joint
from whymask.search.objective import SUFFICIENCY, Ledger
from whymask.search.oracle import Oracle


class JointCases:
    """Cases that differ in their answer alone, and the responses to all of them at once."""

    def __init__(self, cases: Sequence[Case], ledger: Ledger | None = None) -> None:
        self.cases, first = cases, cases[0]
        bounds = tuple(case.bound for case in cases)
        self.fills = [Filled(first, filled.bound, each=bounds) for filled in first.fills]
        self.ledger = Ledger() if ledger is None else ledger  # of everything that was asked for

    def _oracle(self) -> Oracle:
        responses = (filled.responses for filled in self.fills)
        return Oracle(*responses, how=self.cases[0].over_fills, targets=len(self.cases))

    def ask(self, rows: Bools) -> Floats:
        """Scores (B, T) of sets (B, n) outside a search."""
        oracle, batching = self._oracle(), self.cases[0].batching
        query = oracle.open(rows, SUFFICIENCY, "probe")
        pieces = [*zip(self.fills, query.by_fill, strict=True)]
        responses = in_batches(pieces, Responder(), lambda: batching.size, len(self.cases))
        scores = oracle.answer(query, np.concatenate(responses))
        self.ledger.add("probe", "suff", len(query.send), len(query.send))
        return scores

    def of(self, numbers: Sequence[int]) -> "JointCases":
        """Some of the cases, with what is known of them."""
        some = JointCases([self.cases[number] for number in numbers], self.ledger)
        for filled, own in zip(self.fills, some.fills, strict=True):
            scores = filled.responses.scores.items()
            own.responses.scores = {key: np.take(values, numbers).tolist() for key, values in scores}
            own.responses.answers = dict(filled.responses.answers)
        return some

    def search(
        self, recipe: Joint, seed: int, *, budget: int | None = None, progress: Listener = None
    ) -> list[EvidenceMask]:
        """A mask for each case, whose own ledger counts the forwards made for it."""
        first = self.cases[0]
        memory, start = PeakMemory(first.model), time.perf_counter()
        search = Search(
            recipe, first.problem(seed), first, budget=budget, oracle=self._oracle(), progress=progress,
            fills=self.fills,
        )  # fmt: skip
        batching = first.batching
        ((_, found),) = drive([search], Responder(), batch_size=lambda: batching.size, targets=len(self.cases))
        seconds = time.perf_counter() - start
        spent: dict[str, Any] = {**memory.spent(), "budget": budget, "seconds": seconds}
        spent["together"] = {"answers": len(self.cases), "forwards": found.ledger.mec}
        for counted, (nominal, mec) in found.ledger.entries.items():
            self.ledger.add(*counted, nominal, mec)
        fingerprint = first.model.fingerprint
        self.ask(np.concatenate([first.whole_image, ~first.whole_image]))  # what all of them are compared with
        results = []
        for number, (case, own) in enumerate(zip(self.cases, found.each, strict=True)):
            for filled, known in zip(case.fills, self.fills, strict=True):
                scores = {key: np.take(values, number) for key, values in known.responses.scores.items()}
                filled.responses.scores.update({key: float(score) for key, score in scores.items()})
                filled.responses.answers.update(known.responses.answers)
            before = case.sent
            result = case.result(own, case.provenance(recipe, seed, fingerprint) | spent)
            assert isinstance(result, EvidenceMask)
            results.append(result)
            self.ledger.add("probe", "suff", case.sent - before, case.sent - before)
        return results


def distinct(cases: Sequence[Case]) -> list[Case]:
    """The cases without those whose answer means the same as an earlier one's."""
    first: dict[Hashable, Case] = {}
    for case in cases:
        first.setdefault(meaning(case.bound), case)
    return [*first.values()]
