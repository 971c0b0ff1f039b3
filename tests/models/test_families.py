"""The test bed itself: each family's tiny checkpoint is complete, and its answer depends on the image."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from models.families import FAMILIES, WORDS, load_processor, prepared, stock, tokenizer

QUESTION = "Is there a dog in the image?"
CHECKED = ["qwen3_vl", "llava", "gemma3", "paligemma", "florence2", "vision-encoder-decoder"]
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def image(seed):
    """Coloured tiles of 14 pixels: (84, 112)."""
    tiles = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(tiles.repeat(14, 0).repeat(14, 1))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    made = {}

    def get(model_type):
        if model_type not in made:
            made[model_type] = FAMILIES[model_type].save(tmp_path_factory.mktemp(model_type))
        return made[model_type]

    return get


def test_families_are_those_of_transformers():
    assert set(FAMILIES) <= set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)


def test_words_are_single_tokens_and_all_text_survives():
    words = tokenizer({})
    for word in WORDS.split():
        assert len(words.tokenize(word)) == len(words.tokenize(f" {word}")) == 1
    text = "Where is the 42nd umbrella, über-all?"
    assert words.decode(words(text)["input_ids"]) == text


@pytest.mark.parametrize("model_type", CHECKED)
def test_checkpoints_load_by_their_folder(checkpoints, model_type):
    folder = checkpoints(model_type)
    config = transformers.AutoConfig.from_pretrained(folder)
    module, report = transformers.AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    assert config.model_type == model_type
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert module.get_output_embeddings().out_features >= len(words)
    assert bool(words.chat_template) == bool(FAMILIES[model_type].chat)


@pytest.mark.parametrize("model_type", CHECKED)
def test_answer_depends_on_the_image(checkpoints, model_type):
    folder = checkpoints(model_type)
    one, other = (stock(folder, image(seed), QUESTION) for seed in (0, 1))
    assert one.shape == other.shape
    torch.testing.assert_close(one.exp().sum(-1), torch.ones(len(one)))
    assert (one[-1].exp() - other[-1].exp()).abs().sum() / 2 > 1e-3  # rounding is a thousand times smaller


@pytest.mark.parametrize("model_type", CHECKED)
def test_question_reaches_the_model(checkpoints, model_type):
    folder = checkpoints(model_type)
    if FAMILIES[model_type].prompt is None:
        pytest.skip(f"{model_type} takes no question")
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    made = prepared(module, load_processor(folder), image(0), QUESTION)
    assert QUESTION in load_processor(folder).decode(made["input_ids"][0])
