import pytest

from bench.made_up import ordering, row, write
from bench.toy import TOY, photos


@pytest.fixture
def place(tmp_path):
    """Seven photos and their manifest, and the model."""
    (tmp_path / "toy.py").write_text(TOY)
    photos(tmp_path, 7)
    return tmp_path


GAINS = {"a": 0.5, "b": 0.02, "c": 0.0, "d": -0.1, "e": 0.25}


@pytest.fixture
def plain(tmp_path):
    """Records of a run that kept nothing: a tail, an ablation of k, and masks by budget."""
    trace = {"method": "trace+greedy", "parameters": {"samples": 32, "rounds": 5}}
    rows = [
        (row("greedy"), {name: ordering(0.6) for name in GAINS}),
        (row("phasewin", 1), {name: ordering(0.6 - gain) for name, gain in GAINS.items()}),
    ]
    for i, (k, samples) in enumerate([(8, 32), (4, 32), (4, 64), (16, 32)]):
        own = {**trace, "parameters": {"k": k, "samples": samples, "rounds": 5}}
        rows.append((row(f"t{k}-{samples}", 2 + i, settings=own), {name: ordering(k / 20, mec=k) for name in GAINS}))
    scores = {"score": 0.9, "mec": 100, "seconds": 1.0, "score@80": 0.7, "score@20": 0.3, "area": 0.1}
    rows.append((row("swap", 6, returns="mask"), dict.fromkeys(GAINS, scores)))
    return write(tmp_path / "made-up", rows)
