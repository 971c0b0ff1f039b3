"""A real server that shows no probabilities: `transformers serve` with tiny-llava."""

import os
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
pytest.importorskip("openai", reason="openai is not installed, which transformers serve needs")
pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
pytest.importorskip("accelerate", reason="accelerate is not installed, which transformers serve needs")

import httpx

import whymask
from whymask.models.tiny import CHECKPOINTS

MODEL = str(CHECKPOINTS / "tiny-llava")
QUESTION = "Is there a ball in the image?"
START = "from transformers.cli.transformers import main; main()"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-c", START, "serve", MODEL, "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 120
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def answers(url):
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_an_explanation_end_to_end(url):
    model = whymask.load(f"answers:{MODEL}", base_url=url, samples=2, reported=4, concurrency=2)
    assert model.at_once == 1  # it takes `n` and ignores it
    options = {"question": QUESTION, "target": "Yes", "k": 2, "regions": "grid:3x3", "fill": "black"}
    found = whymask.explain("scene:12", model, method="discs+swap", budget=8, params={"centres": 5}, **options)
    local = whymask.load("tiny-llava")
    bound = local.bind(found.image.only(found.regions), target="Yes", question=QUESTION)
    probability = float(local.respond(bound.inputs[None], [bound]).score[0])
    low, high = found.intervals["score"]
    assert low - 0.1 <= probability <= high + 0.1, (low, probability, high)
    assert found.full_score == 1  # at a probability of 0.9999
    assert "answers" in found.verdict.sentence
