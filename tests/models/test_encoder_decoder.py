"""Encoder-decoder families against transformers' own processors and generation, on tiny random checkpoints."""

from importlib import import_module
from math import log
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.images.imaging import load_image
from whymask.models.differentiable import checked
from whymask.models.encoder_decoder import wrap_pair
from whymask.models.registry import ENCODER_DECODER, find

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
from models import tiny_encoder_decoder as tiny  # noqa: E402

PHOTO = load_image(f"{data_dir}/rocket.jpg").crop((100, 0, 500, 300)).resize((80, 60))
FONT = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf"
QUESTIONS = {"trocr": None, "donut": "<s_vqa>Is there a dog?<s_answer>", "blip": "a picture of"}
TARGETS = ["Yes", "umbrella", "a dog on the sofa", "a [[dog]] on the sofa"]
LAYOUTS = {"trocr": "exact", "blip": "exact", "blip_vqa": "exact", "florence2": "exact"}


class Tried:
    """A checkpoint, what whymask makes of it, and what transformers does."""

    def __init__(self, name, folder):
        self.name, self.folder = name, tiny.save(name, folder)
        self.options = {"max_patches": 20} if name in ("pix2struct", "vqa") else {}  # else 2048
        self.model = whymask.load(str(folder), **self.options)
        self.question = QUESTIONS.get(name, "Is there a dog?")
        module, _, self.words, self.together = tiny.FAMILIES[name]()
        self.module = type(module).from_pretrained(folder).eval()
        self.images = transformers.AutoImageProcessor.from_pretrained(folder)

    def bind(self, target=None):
        return self.model.bind(PHOTO, question=self.question, target=target)

    def given(self, image):
        """What a user passes to `generate`, as the families' documentation has it."""
        if self.name == "trocr":
            return dict(self.images(image, return_tensors="pt"))
        processor = self.together(self.images, self.words)
        if self.name in ("donut", "pix2struct"):
            made = processor(
                images=image, text=self.question, add_special_tokens=False, return_tensors="pt", **self.options
            )
            if self.name == "donut":
                return {"pixel_values": made["pixel_values"], "decoder_input_ids": made["input_ids"]}
            return {name: part for name, part in made.items() if name != "decoder_attention_mask"}
        return dict(processor(images=image, text=self.question, return_tensors="pt", **self.options))

    def generate(self, image, count, forced=()):
        """transformers' own tokens, and their log-probabilities by position, after the tokens that are forced."""
        skipped = 1 if self.name == "florence2" else 0  # the token that its texts begin with is generated too
        steps = iter(range(count + skipped))

        def allowed(_, ids):
            step = next(steps) - skipped
            return [forced[step]] if 0 <= step < len(forced) else list(range(len(self.words)))

        made = self.module.generate(
            **self.given(image), max_new_tokens=count + skipped, min_new_tokens=count + skipped, do_sample=False,
            num_beams=1, output_logits=True, return_dict_in_generate=True, prefix_allowed_tokens_fn=allowed,
        )  # fmt: skip
        logits = torch.cat(made.logits)[skipped:]
        return made.sequences[0, -count:].tolist(), logits.log_softmax(dim=-1).double().numpy()

    def expected(self, image, answer):
        """The score of an answer: a product over its words, or the mean over its tokens."""
        _, logs = self.generate(image, len(answer.wanted), answer.forced)
        chances = [np.exp(logs[i, list(ids)]).sum() for i, ids in enumerate(answer.wanted) if ids]
        return np.mean(chances) if answer.mean else np.prod(chances)


@pytest.fixture(scope="module", params=list(tiny.FAMILIES))
def tried(request, tmp_path_factory):
    """Pix2Struct writes questions in a font that transformers would download."""
    pix2struct = import_module(type(tiny.pix2struct()[1]).__module__)
    write = pix2struct.render_text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pix2struct, "render_text", lambda text, **_: write(text, font_path=FONT))
        yield Tried(request.param, tmp_path_factory.mktemp("encoder-decoder") / request.param)


def test_how_it_is_run(tried):
    bound = tried.bind()
    assert (tried.model.settings["answers"], tried.model.settings["batches"]) == ("one forward", "together")
    assert bound.settings["composition"] == LAYOUTS.get(tried.name, "masked pixels")


def test_its_own_answer_is_the_librarys(tried):
    (token,), logs = tried.generate(PHOTO, 1)
    bound = tried.bind()
    top = int(logs[0].argmax())
    assert bound.target.index == top
    assert tried.model.respond(bound.inputs[None], [bound]).score[0] == pytest.approx(np.exp(logs[0, top]), abs=1e-5)
    assert token == top or token not in tried.words.all_special_ids


@pytest.mark.parametrize("target", TARGETS)
def test_masked_images_are_scored_as_by_the_library_whatever_the_batch(target, tried):
    bound = tried.bind(target)
    height, width = bound.canvas.shape[:2]
    regions = (np.arange(height)[:, None] * 4 // height * 4 + np.arange(width) * 4 // width).astype(np.int32)
    rows = np.random.default_rng(0).random((8, 16)) < 0.5
    index = bound.index(regions)
    kept = [torch.from_numpy(row).to(index.device)[index] for row in rows]
    inputs = torch.stack([torch.where(keep, bound.inputs, bound.fill_inputs) for keep in kept])
    images = [np.where(row[regions][..., None], bound.canvas, bound.fill) for row in rows]
    expected = [tried.expected(Image.fromarray(image), bound.answer) for image in images]
    assert np.ptp(np.log(expected)) > 1e-3
    for size in (1, 3, 8):
        found = np.concatenate([tried.model.respond(part, [bound] * len(part)).score for part in inputs.split(size)])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(np.log(found), np.log(expected), atol=1e-3)


def test_questions_of_other_lengths_share_no_batch_but_a_call(tried):
    """What a search over several questions asks for at once is generated group by group."""
    model, image = tried.model, PHOTO
    other = None if tried.question is None else f"Is there {tried.question}"
    bounds = [model.bind(image, question=question) for question in (tried.question, other, tried.question)]
    together = model.generate(torch.stack([bound.inputs for bound in bounds]), bounds, 4)
    alone = [model.generate(bound.inputs[None], [bound], 4)[0] for bound in bounds]
    assert together == alone
    if tried.model.question_in != "header" and other is not None:  # what is drawn above an image has no length
        assert bounds[0].key != bounds[1].key


def test_what_it_says_is_what_the_library_says(tried):
    ids, logs = tried.generate(PHOTO, 3)
    bound = tried.bind()
    if not set(logs.argmax(axis=1)) & {*tried.model.ends(), tried.words.pad_token_id}:
        assert tried.model.generate(bound.inputs[None], [bound], 3) == [tried.words.decode(ids).strip()]
    assert (
        tried.model.answer(PHOTO, tried.question, tokens=3) == tried.model.generate(bound.inputs[None], [bound], 3)[0]
    )


def test_gradients_are_of_the_same_score_where_pixels_are_composed(tried):
    for target in TARGETS:
        bound = tried.bind(target)
        if bound.settings["composition"] != "exact":
            with pytest.raises(WhymaskError, match="needs gradients"):
                checked(tried.model, bound)
            continue
        image = checked(tried.model, bound)
        inputs = image.inputs[None].clone().requires_grad_()
        (slope,) = torch.autograd.grad(image.score(inputs).log().sum(), inputs)
        step = 1e-2 * slope / slope.norm()
        scores = [float(tried.model.respond((inputs + way * step).detach(), [bound]).score[0]) for way in (1, -1)]
        rise = log(scores[0]) - log(scores[1])
        assert rise == pytest.approx(2e-2 * float(slope.norm()), rel=0.05)


def test_it_is_explained_and_repaired(tried):
    few = {"regions": "grid:3x3", "method": "greedy", "batch_size": 8}
    found = whymask.explain(PHOTO, tried.model, question=tried.question, target="Yes", **few)
    assert sorted(found.order) == list(range(9))
    repaired = whymask.repair(PHOTO, tried.model, question=tried.question, want="No", **few)
    assert repaired.target.label == "No"


def test_who_needs_a_question(tried):
    if tried.name in ("trocr", "blip", "pix2struct"):
        assert tried.model.bind(PHOTO).target.label is not None
    else:
        with pytest.raises(WhymaskError, match="pass a question"):
            tried.model.bind(PHOTO)


def test_the_registry_knows_it(tried):
    assert find(str(tried.folder)) == (ENCODER_DECODER, str(tried.folder))


def test_a_ready_module_is_run_as_it_is(tried):
    processor = (tried.together or transformers.TrOCRProcessor)(tried.images, tried.words)
    tried.module.train()
    ours = whymask.wrap(tried.module, processor, **tried.options)
    bound = ours.bind(PHOTO, question=tried.question, target="Yes")
    theirs = tried.bind("Yes")
    found, expected = (m.respond(b.inputs[None], [b]).score for m, b in ((ours, bound), (tried.model, theirs)))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert tried.module.training
    tried.module.eval()


def test_what_the_decoder_starts_with_is_part_of_the_fingerprint(tried, tmp_path):
    assert tried.model.fingerprint == whymask.load(str(tried.folder), **tried.options).fingerprint
    other = tiny.save("trocr" if tried.name != "trocr" else "blip", tmp_path / "other")
    assert tried.model.fingerprint != whymask.load(str(other)).fingerprint


def test_a_font_that_cannot_be_had_is_one_sentence(tried, monkeypatch):
    def fail(*_, **__):
        raise FileNotFoundError("cannot find the requested files\nin a long story")

    if tried.name == "vqa":
        monkeypatch.setattr(import_module(type(tried.images).__module__), "render_text", fail)
        with pytest.raises(WhymaskError, match=r"^the font .* cannot be loaded: cannot find the requested files$"):
            tried.bind()


def test_pages_with_words_are_not_for_images_alone(tmp_path):
    config = transformers.UdopConfig()
    config.save_pretrained(tmp_path)
    words = r"^models of the family 'udop' need the words of a page .*wrap a function"
    with pytest.raises(WhymaskError, match=words):
        whymask.load(str(tmp_path))
    with pytest.raises(WhymaskError, match=words):
        wrap_pair(SimpleNamespace(config=config), None)
