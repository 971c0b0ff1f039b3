import pytest

from bench.toy import TOY, photos


@pytest.fixture
def place(tmp_path):
    """Seven photos and their manifest, and the model."""
    (tmp_path / "toy.py").write_text(TOY)
    photos(tmp_path, 7)
    return tmp_path
