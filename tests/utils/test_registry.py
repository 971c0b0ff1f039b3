import threading
import time
from dataclasses import dataclass

import pytest

from whymask import WhymaskError
from whymask.utils.registry import Registry


@dataclass(frozen=True)
class Thing:
    name: str
    loader: object = None


def test_another_thread_waits_for_the_entry_points(monkeypatch):
    class Slow:
        name = value = "late"

        def load(self):
            time.sleep(0.2)
            return Thing("late")

    monkeypatch.setattr("whymask.utils.registry.entry_points", lambda group: [Slow()])
    registry, found = Registry("thing", "example.things"), []
    threads = [threading.Thread(target=lambda: found.append("late" in registry)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


def test_what_is_loaded_may_look_names_up(monkeypatch):
    registry = Registry("thing", "example.things")

    class Curious:
        name = value = "curious"

        def load(self):
            assert "other" not in registry
            return Thing("curious")

    monkeypatch.setattr("whymask.utils.registry.entry_points", lambda group: [Curious()])
    assert list(registry) == ["curious"]


def test_a_broken_entry_point_costs_only_itself(monkeypatch):
    class Broken:
        name, value = "broken", "broken:thing"

        def load(self):
            raise ImportError("no module named broken")

    monkeypatch.setattr("whymask.utils.registry.entry_points", lambda group: [Broken()])
    registry = Registry("thing", "example.things")
    registry.add(Thing("own"))
    with pytest.warns(UserWarning, match="the thing 'broken' .* cannot be loaded: ImportError"):
        assert list(registry) == ["own"]


def test_the_same_definition_may_come_again():
    """As in a notebook cell that is run twice; another definition of that name is an error."""
    registry = Registry("thing", "example.things")

    def defined():
        def load():
            return None

        return load

    registry.add(Thing("mine", defined()))
    later = Thing("mine", defined())
    registry.add(later)
    assert registry["mine"] is later
    with pytest.raises(WhymaskError, match="already a thing called 'mine'"):
        registry.add(Thing("mine", len))
