"""The order of calls on a stand-in for a CUDA device; tests/models/test_cuda.py measures on a real one."""

import gc
from types import SimpleNamespace

import pytest
import torch

from whymask.bench import measure
from whymask.explainer.case import Case
from whymask.methods import Recipe
from whymask.models.memory import PeakMemory

from models.tiny import lit, quadrants

DEVICE = ("synchronize", "reset_peak_memory_stats", "max_memory_allocated", "empty_cache")


@pytest.fixture
def calls(monkeypatch):
    made = []
    for name in DEVICE:
        monkeypatch.setattr(torch.cuda, name, lambda *device, name=name: made.append((name, *device)) or 7)
    monkeypatch.setattr(gc, "collect", lambda *generation: made.append(("collect", *generation)))
    return made


def test_the_device_finishes_before_peaks_are_reset_and_read(calls):
    memory = PeakMemory(SimpleNamespace(settings={"device": "cuda:1"}))
    assert calls == [("synchronize", "cuda:1"), ("reset_peak_memory_stats", "cuda:1")]
    assert memory.spent() == {"peak_memory": 7}
    assert calls[2:] == [("synchronize", "cuda:1"), ("max_memory_allocated", "cuda:1")]


@pytest.mark.parametrize("thorough", [False, True])
def test_language_models_start_clean(calls, thorough):
    """The paper's protocol: garbage collection, empty_cache, synchronisation, reset."""
    PeakMemory(SimpleNamespace(settings={"device": "cuda"}, generate=print), thorough=thorough)
    assert [name for name, *_ in calls] == ["collect", "empty_cache", "synchronize", "reset_peak_memory_stats"]
    assert calls[0] == ("collect", 2 if thorough else 1)  # the last generation is the oldest


def test_the_benchmark_measures_thoroughly(monkeypatch):
    """And the peak of one sample alone where samples are searched one by one."""
    made = []

    class Recorded(PeakMemory):
        def __init__(self, model, **options):
            super().__init__(model, **options)
            made.append(options)

    monkeypatch.setattr(measure, "PeakMemory", Recorded)
    subjects = [measure.Subject(Case.of(lit(i), quadrants(), target=i, regions="grid:2x2")) for i in range(2)]
    for subject in subjects:
        ((_, numbers),) = measure.measure([subject], measure.Measurement(Recipe("trace", {"k": 1, "rounds": 1})))
        assert "peak_memory" not in numbers  # of a CPU
    assert made == [{"thorough": True}] * 2


def test_other_devices_are_not_asked(calls):
    assert PeakMemory(SimpleNamespace(settings={"device": "cpu"})).spent() == {}
    assert calls == []
