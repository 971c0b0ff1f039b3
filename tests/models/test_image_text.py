"""Any image-text-to-text family: scores equal the family's own processor and forward, family by family."""

import json
from functools import wraps

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import load_image
from whymask.models import find
from whymask.models.image_text import ImageText
from whymask.models.multimodal import load
from whymask.models.precision import all_bits
from whymask.models.processing import Processing

from models.families import FAMILIES, load_processor, prepared

PHOTO = load_image(f"{data_dir}/rocket.jpg").resize((160, 107))
QUESTION = "Is there a dog on the sofa ?"
EXACT = [
    "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "qwen3_5", "qwen3_vl_moe", "llava", "vipllava", "gemma3", "paligemma",
    "glm4v", "glm46v", "idefics", "idefics2", "instructblip", "blip-2", "git", "janus", "kosmos-2", "lighton_ocr",
    "mllama", "paddleocr_vl", "deepseek_vl", "video_llama_3", "florence2", "t5gemma2", "cohere_compass",
]  # fmt: skip
PIXELS = ["internvl", "llava_next", "llava_onevision", "aya_vision", "idefics3", "ovis2", "emu3", "deepseek_vl_hybrid"]
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folders, models = {}, {}

    def get(model_type):
        if model_type not in transformers.CONFIG_MAPPING:
            pytest.skip(f"this transformers has no {model_type}")
        if model_type not in folders:
            folders[model_type] = FAMILIES[model_type].save(tmp_path_factory.mktemp(model_type))
            models[model_type] = load(str(folders[model_type]))
        return folders[model_type], models[model_type]

    return get


def asked(model_type, question=QUESTION):
    """A question as a user of this family types it."""
    family = FAMILIES[model_type]
    return question if family.chat else family.prompt.format(question=question)


def stock(folder, images, forced=()):
    """Probabilities (B, T, vocabulary) by the family's own processor and forward, one image at a time."""
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor, found = load_processor(folder), []
    for image in images:
        inputs = prepared(module, processor, Image.fromarray(image), QUESTION)
        name = "decoder_input_ids" if module.config.is_encoder_decoder else "input_ids"
        more, length = torch.tensor([forced], dtype=torch.int64), inputs[name].shape
        for key, part in inputs.items():
            if forced and part.shape[:2] == length and (key == name or name == "input_ids"):
                last = part[:, -1:].repeat(1, len(forced), *[1] * (part.ndim - 2))
                inputs[key] = torch.cat([part, more if key == name else last], dim=1)
        with torch.inference_mode():
            logits = module(**inputs).logits[0].float()
        found.append(logits.softmax(dim=-1)[-1 - len(forced) :])
    return torch.stack(found)


def masked(case, rows):
    """The masked canvases."""
    kept = rows[:, case.partition.labels][..., None]
    return np.where(kept, case.bound.canvas, case.bound.fill)


@pytest.fixture
def rows():
    return np.concatenate([np.random.default_rng(0).random((7, 16)) < 0.5, np.ones((1, 16), bool)])


@pytest.mark.parametrize("model_type", EXACT + PIXELS)
def test_scores_equal_the_familys_own_code(checkpoint, rows, model_type):
    folder, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4", fill="mean")
    response = model.respond(case.inputs(rows), [case.bound] * len(rows))
    chances = stock(folder, masked(case, rows))[:, 0]
    (forms,) = case.bound.answer.wanted
    np.testing.assert_allclose(response.score, chances[:, list(forms)].sum(dim=1), atol=1e-5)
    np.testing.assert_array_equal(response.top, chances.argmax(dim=1))
    assert np.ptp(response.score) > 1e-4 * response.score.max()
    # Alone, each image has the score it has in the batch: rounding of a sum over a few hundred elements.
    alone = [model.respond(case.inputs(rows[i : i + 1]), [case.bound]).score[0] for i in range(len(rows))]
    np.testing.assert_allclose(response.score, alone, rtol=1e-4)
    assert case.bound.settings["composition"] == ("exact" if model_type in EXACT else "masked pixels")


@pytest.mark.parametrize("model_type", ["qwen3_vl", "gemma3", "idefics2", "glm4v"])
def test_composed_inputs_are_bit_identical_to_masking_the_pixels(checkpoint, rows, model_type):
    folder, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4", fill="blur")
    processor, module = load_processor(folder), model.module
    for image, composed in zip(masked(case, rows), case.inputs(rows), strict=True):
        expected = prepared(module, processor, Image.fromarray(image), QUESTION)
        for name, part in case.bound.layout.split(composed[None]).items():
            assert torch.equal(part, expected[name])


@pytest.mark.parametrize("model_type", ["internvl", "llava_next", "idefics3"])
def test_the_text_is_processed_once(checkpoint, rows, model_type, monkeypatch):
    """Where masked images are processed, only the image processor runs."""
    folder, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4", fill="mean")
    processor = load_processor(folder)
    expected = [prepared(model.module, processor, Image.fromarray(image), QUESTION) for image in masked(case, rows)]
    monkeypatch.setattr(type(model.processing.processor), "__call__", lambda *_, **__: pytest.fail("not needed"))
    for count in (8, 3, 1):
        made = model._batch(case.inputs(rows[:count]), [case.bound] * count, [()] * count)
        for i, own in enumerate(expected[:count]):
            for name, part in own.items():
                assert torch.equal(made[name].unflatten(0, (count, -1))[i], part)


@pytest.mark.parametrize("model_type", ["internvl", "idefics3"])
def test_images_are_processed_while_others_are_run(checkpoint, model_type, monkeypatch):
    """Pieces of a batch give the scores of the batch."""
    _, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4")
    rows = np.random.default_rng(0).random((43, 16)) < 0.5
    expected = model.respond(case.inputs(rows), [case.bound] * 43)
    sizes, own = [], model._forward
    monkeypatch.setattr(
        model, "_forward", lambda batch, count: sizes.append(len(batch["input_ids"])) or own(batch, count)
    )
    monkeypatch.setattr(model, "_meanwhile", True)
    found = model.respond(case.inputs(rows), [case.bound] * 43)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-4)
    np.testing.assert_array_equal(found.top, expected.top)
    assert sizes == [8, 8, 8, 8, 8, 3]


@pytest.mark.parametrize("model_type", ["internvl", "llava_next", "idefics3"])
def test_threads_make_bytes_of_what_masks_change(checkpoint, model_type):
    """Values are looked up where the model runs; what is equal for the image and the fill is made once."""
    _, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4", fill="mean")
    (made,) = [one.result() for one in model.processing.begun([case.bound.canvas])]
    assert {name: part.dtype for name, part in made.items()} == {"pixel_values": torch.uint8}
    assert "pixel_values" not in case.bound.fixed


@pytest.mark.parametrize("factor", [np.max, lambda image: 1.0 + np.any(image[0] != image[1])])
def test_a_processor_whose_last_steps_look_at_the_whole_image_keeps_them(checkpoint, rows, factor, monkeypatch):
    """Whether a grey chart shows that they do, or the colours of the image only."""
    folder, _ = checkpoint("internvl")
    kind = type(load_processor(folder).image_processor)
    own = kind.normalize
    monkeypatch.setattr(kind, "normalize", lambda *given, **more: own(*given, **more) * np.float32(factor(given[1])))
    model, processor = load(str(folder)), load_processor(folder)
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4", fill="mean")
    made = model._batch(case.inputs(rows), [case.bound] * 8, [()] * 8)["pixel_values"].unflatten(0, (8, -1))
    for image, part in zip(masked(case, rows), made, strict=True):
        assert torch.equal(part, prepared(model.module, processor, Image.fromarray(image), QUESTION)["pixel_values"])


def test_threads_that_process_images_compute_by_themselves(checkpoint):
    """Sixteen threads with a team of sixteen each would wait for one another; the caller's thread keeps its team."""
    _, model = checkpoint("internvl")
    own = model.processing
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        processing = Processing(own.processor, own.dialogue, torch.device("cpu"), {})
        processing.begun([])
        assert processing._threads.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_check_continues_with_an_ordinary_token(checkpoint, monkeypatch):
    """Some families cannot read an image token, or the one before it, where no image is."""
    folder, _ = checkpoint("qwen3_vl")
    model = load(str(folder))
    words, own, said = model.dialogue.tokenizer, model._steps, []

    def steps(batch, forced, count):
        said.extend(token for ids in forced for token in ids)
        made = own(batch, forced, count).clone()
        made[..., words.convert_tokens_to_ids("<|vision_start|>")] = made.max() + 1
        return made

    monkeypatch.setattr(model, "_steps", steps)
    model.bind(PHOTO, question=QUESTION, target=0)
    assert said
    assert not set(said) & set(words.get_added_vocab().values())


def test_the_check_keeps_all_bits():
    cudnn = getattr(torch.backends.cudnn, "conv", torch.backends.cudnn)
    name = "fp32_precision" if hasattr(cudnn, "fp32_precision") else "allow_tf32"
    before = [getattr(backend, name) for backend in (cudnn, torch.backends.cuda.matmul)]
    with all_bits():
        assert {getattr(backend, name) for backend in (cudnn, torch.backends.cuda.matmul)} <= {"ieee", False}
    assert [getattr(backend, name) for backend in (cudnn, torch.backends.cuda.matmul)] == before


def test_where_images_are_processed(checkpoint, monkeypatch):
    """On the model's device, unless that computes something else: torchvision 0.27 has Lanczos filters on CPUs only."""
    _, model = checkpoint("internvl")
    own = model.processing

    def device():
        return Processing(own.processor, own.dialogue, torch.device("cuda"), {}).device.type

    assert device() == "cpu"  # a processor that runs on Pillow
    monkeypatch.setattr(type(own.images), "backend", "torchvision")
    assert device() == "cuda"
    monkeypatch.setattr(own.images, "resample", Image.Resampling.LANCZOS)
    for number, where in [("0.26.0+cu128", "cuda"), ("0.27.0", "cpu"), ("1.0", "cpu")]:
        monkeypatch.setattr("whymask.models.processing.version", lambda _, number=number: number)
        assert device() == where


def test_what_a_processor_changes_after_its_image_processor_is_kept(checkpoint, rows, monkeypatch):
    _, model = checkpoint("internvl")
    kind = type(model.processing.processor)
    own = kind.__call__

    def doubled(*given, **options):
        made = own(*given, **options)
        return {**made, "pixel_values": 2 * made["pixel_values"]}

    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    single = model._batch(case.inputs(rows), [case.bound] * 8, [()] * 8)
    monkeypatch.setattr(kind, "__call__", doubled)
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    made = model._batch(case.inputs(rows), [case.bound] * 8, [()] * 8)
    assert torch.equal(made["pixel_values"], 2 * single["pixel_values"])
    assert torch.equal(made["input_ids"], single["input_ids"])


@pytest.mark.parametrize("model_type", ["qwen3_vl", "internvl", "gemma3", "florence2", "git"])
@pytest.mark.parametrize("target", ["a dog on the sofa", "a [[dog]] on the sofa"])
def test_texts_and_marked_words(checkpoint, rows, model_type, target):
    folder, model = checkpoint(model_type)
    case = Case.of(PHOTO, model, target=target, question=asked(model_type), regions="grid:4x4")
    scores = model.respond(case.inputs(rows[:3]), [case.bound] * 3).score
    answer = case.bound.answer
    chances = stock(folder, masked(case, rows[:3]), answer.forced)
    each = torch.stack([chances[:, place, ids[0]] for place, ids in enumerate(answer.wanted) if ids])
    expected = each.mean(dim=0) if answer.mean else each.prod(dim=0)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(answer.wanted) >= 2


@pytest.mark.parametrize("model_type", ["paligemma", "kosmos-2"])
def test_answers_that_one_forward_would_change_are_generated(checkpoint, model_type):
    """A prompt whose tokens see what follows them: teacher forcing in one forward is not what the model generates."""
    _, model = checkpoint(model_type)
    bound = model.bind(PHOTO, target="a dog on the sofa", question=asked(model_type))
    assert model.settings["answers"] == "first token by one forward, others step by step"
    inputs = model._batch(bound.inputs[None], [bound], [()])
    logits = model.module.generate(
        **inputs, max_new_tokens=2, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    first, second = (int(step.argmax()) for step in logits.logits)
    text = f"{model.labels[first]}{model.dialogue.tokenizer.decode([second])}"
    assert model.answer(PHOTO, asked(model_type), tokens=2) == text.strip()
    scores = model.respond(bound.inputs[None], [bound]).score
    steps = model._steps(inputs, [bound.answer.forced], len(bound.answer.wanted)).softmax(dim=-1)
    expected = np.mean([steps[0, i, ids[0]] for i, ids in enumerate(bound.answer.wanted)])
    assert scores[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("model_type", ["qwen3_vl", "internvl", "florence2", "paligemma"])
def test_the_own_answer_is_what_transformers_generates(checkpoint, model_type):
    folder, model = checkpoint(model_type)
    bound = model.bind(PHOTO, question=asked(model_type))
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = prepared(module, load_processor(folder), Image.fromarray(bound.canvas), QUESTION)
    made = module.generate(
        **{name: part for name, part in inputs.items() if name not in ("labels", "decoder_input_ids")},
        max_new_tokens=5, do_sample=False, num_beams=1, output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    ids = made.sequences[0, -len(made.logits) :].tolist()
    assert bound.target.index == int(made.logits[0].argmax())
    ids = ids[: next((i for i, token in enumerate(ids) if token in model.ends()), len(ids))]
    assert model.answer(PHOTO, asked(model_type), tokens=5) == model.dialogue.read(ids)


def test_rows_that_disturb_each_other_run_one_by_one(checkpoint, rows, monkeypatch):
    folder, sound = checkpoint("qwen3_vl")
    model = load(str(folder))
    forward = model.module.forward

    @wraps(forward)
    def leaking(*arguments, **options):
        output = forward(*arguments, **options)
        output.logits = output.logits + output.logits.std(dim=0, correction=0)
        return output

    monkeypatch.setattr(model.module, "forward", leaking)
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    expected = sound.respond(case.inputs(rows), [sound.bind(PHOTO, target="Yes", question=QUESTION)] * len(rows))
    np.testing.assert_allclose(
        model.respond(case.inputs(rows), [case.bound] * len(rows)).score, expected.score, rtol=1e-4
    )
    assert (model.settings["batches"], sound.settings["batches"]) == ("one by one", "together")


def test_questions_of_different_lengths_do_not_share_a_batch(checkpoint):
    _, model = checkpoint("qwen3_vl")
    asked = [("Yes", QUESTION), ("No", "Is there a cat on the sofa ?"), ("Yes", "dog ?"), ("a dog", QUESTION)]
    keys = [model.bind(PHOTO, target=target, question=question).key for target, question in asked]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    settings = {"regions": "grid:3x3", "k": 3, "method": "trace", "params": {"rounds": 2, "samples": 8}}
    targets, questions = zip(*asked, strict=True)
    many = dict(whymask.explain_many([PHOTO] * 4, model, questions=questions, targets=targets, **settings))
    for i, (target, question) in enumerate(asked):
        alone = whymask.explain(PHOTO, model, question=question, target=target, **settings)
        assert many[i].regions == alone.regions
        assert many[i].score == pytest.approx(alone.score, abs=1e-5)


@pytest.mark.parametrize("model_type", ["qwen3_vl", "internvl"])
def test_explains_replays_repairs_and_saves(checkpoint, tmp_path, model_type):
    folder, _ = checkpoint(model_type)
    model = whymask.load(str(folder))
    assert isinstance(model, ImageText) or model_type == "qwen2_5_vl"
    found = whymask.explain(PHOTO, model, question=QUESTION, regions="grid:4x4", k=3)
    assert len(found.regions) == 3
    assert found.provenance["composition"] == ("exact" if model_type == "qwen3_vl" else "masked pixels")
    assert found.provenance["answers"] == "one forward"
    ordering = whymask.explain(PHOTO, model, question=QUESTION, target="a dog", method="greedy", regions="grid:2x2")
    curves = whymask.replay(whymask.Ordering.load(ordering.save(tmp_path / "saved.npz")), model)
    assert curves.insertion[-1] == pytest.approx(ordering.image.full_score, abs=1e-5)
    want = "No" if found.image.prediction == "Yes" else "Yes"
    repair = whymask.repair(PHOTO, model, question=QUESTION, want=want, regions="grid:4x4", k=3)
    assert repair.given == model.answer(PHOTO, QUESTION, tokens=8)
    soft = whymask.explain(PHOTO, model, question=QUESTION, method="rise", regions="grid:2x2", params={"masks": 8})
    assert sorted(soft.order) == [0, 1, 2, 3]


def test_gradients_pass_through_composed_inputs_alone(checkpoint):
    _, model = checkpoint("qwen3_vl")
    found = whymask.explain(PHOTO, model, question=QUESTION, target="a dog", method="gradient", regions="grid:4x4")
    assert sorted(found.order) == list(range(16))
    assert found.map is not None
    assert np.ptp(found.map) > 0
    case = Case.of(PHOTO, model, question=QUESTION, regions="grid:4x4")
    assert case.differentiable().at_once == 1  # as the paper's "original" rows
    _, tiles = checkpoint("internvl")
    with pytest.raises(WhymaskError, match="needs gradients"):
        whymask.explain(PHOTO, tiles, question=QUESTION, method="gradient", regions="grid:4x4")


def test_a_wrapped_model_stays_the_callers(checkpoint, rows):
    folder, loaded = checkpoint("qwen3_vl")
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).train()
    model = whymask.wrap(module, load_processor(folder))
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    before = model.respond(case.inputs(rows), [case.bound] * len(rows)).score
    np.testing.assert_allclose(before, loaded.respond(case.inputs(rows), [case.bound] * len(rows)).score, rtol=1e-5)
    assert all(part.training for part in module.modules())
    assert all(parameter.requires_grad for parameter in module.parameters())
    fingerprint = model.fingerprint
    with torch.no_grad():
        module.lm_head.weight.mul_(1.5)
    assert model.fingerprint != fingerprint
    assert np.abs(model.respond(case.inputs(rows), [case.bound] * len(rows)).score - before).max() > 1e-4


def test_a_pipeline_and_a_classifier_with_its_processor(checkpoint):
    folder, loaded = checkpoint("llava")
    parts = {
        "model": transformers.AutoModelForImageTextToText.from_pretrained(folder),
        "processor": load_processor(folder),
    }
    pipeline = transformers.pipeline("image-text-to-text", **parts)
    answer = whymask.wrap(pipeline).answer(PHOTO, QUESTION, tokens=4)
    assert answer == loaded.answer(PHOTO, QUESTION, tokens=4)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, num_labels=4
    )
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    model = whymask.wrap(transformers.ViTForImageClassification(config).eval(), processor)
    assert whymask.explain(PHOTO, model, k=2, regions="grid:3x3").target.label in model.labels
    with pytest.raises(WhymaskError, match="a processor belongs to a model of transformers, not to function"):
        whymask.wrap(lambda images: images, processor)


def test_what_cannot_be_wrapped_is_one_sentence(checkpoint):
    folder, loaded = checkpoint("qwen3_vl")
    assert repr(loaded) == f"<ImageText {folder} cpu fp32>"
    processor = load_processor(folder)
    for part in (processor.tokenizer, processor.image_processor):
        with pytest.raises(WhymaskError, match=r"whymask.wrap\(model, AutoProcessor.from_pretrained"):
            whymask.wrap(loaded.module, part)
    for name, value in {"device": "cuda", "dtype": "bf16", "device_map": "auto"}.items():
        with pytest.raises(WhymaskError, match=f"is wrapped unchanged: {name} is an option of whymask.load"):
            whymask.wrap(loaded.module, processor, **{name: value})
    for wrong, known in {"max_pixel": "max_pixels", "max_sides": "max_side"}.items():
        with pytest.raises(WhymaskError, match=f"unknown option {wrong!r}; did you mean {known!r}"):
            whymask.wrap(loaded.module, processor, **{wrong: 64})


def test_photos_are_seen_as_the_processor_resizes_them(checkpoint):
    """The canvas is the processor's own resized image, so that processing it again changes nothing."""
    _, model = checkpoint("qwen3_vl")
    bound = model.bind(PHOTO, target="Yes", question=QUESTION)
    whole, again = (model.processing.image(image)["pixel_values"] for image in (PHOTO, bound.canvas))
    assert torch.equal(whole, again)
    assert bound.box == (0, 0, 1, 1)
    _, centre = checkpoint("llava")  # the shorter side is resized, then the centre is cropped
    bound = centre.bind(PHOTO, target="Yes", question=QUESTION)
    assert bound.canvas.shape == (56, 56, 3)
    np.testing.assert_allclose(bound.box, ((160 - 107) / 2 / 160, 0, (160 + 107) / 2 / 160, 1), atol=0.01)
    squashed = model.bind(PHOTO, target="Yes", question=QUESTION, resize="squash")
    assert squashed.canvas.shape == model.bind(PHOTO, target="Yes", question=QUESTION).canvas.shape


def test_options_of_loader_and_processor(checkpoint):
    folder, model = checkpoint("qwen3_vl")
    small = load(str(folder), max_side=64)
    assert small.settings["view"] == "own preprocessing, longer side first at most 64"
    assert small.fingerprint != model.fingerprint
    sizes = {
        name: load(str(folder), **options).bind(PHOTO, target="Yes", question=QUESTION).canvas.size
        for name, options in {"all": {"max_side": None}, "few": {"max_pixels": 56 * 56, "min_pixels": 28 * 28}}.items()
    }
    assert sizes["few"] <= 3 * 56 * 56 < sizes["all"]
    tiles, _ = checkpoint("internvl")
    whole = load(str(tiles), crop_to_patches=False).bind(PHOTO, target="Yes", question=QUESTION)
    assert whole.settings["composition"] == "exact"  # tiles come with a thumbnail, one image does not
    for wrong in ({"max_pixel": 3}, {"devise": "cpu"}):
        with pytest.raises(WhymaskError, match=r"unknown option .* did you mean"):
            load(str(folder), **wrong)
    with pytest.raises(WhymaskError, match="unknown dtype"):
        load(str(folder), dtype="int3")
    with pytest.raises(WhymaskError, match="max_side must be a whole number"):
        load(str(folder), max_side=0)


def test_half_precision_stays_near_single(checkpoint, rows):
    """bf16 has 8 bits: scores of a small network move by a few of its units in the last place."""
    for model_type in ("qwen3_vl", "gemma3", "idefics2"):
        folder, full = checkpoint(model_type)
        half = load(str(folder), dtype="bf16")
        assert half.settings["dtype"] == "bf16"
        scores = []
        for model in (full, half):
            case = Case.of(PHOTO, model, target="Yes", question=asked(model_type), regions="grid:4x4")
            scores.append(model.respond(case.inputs(rows), [case.bound] * len(rows)).score)
        np.testing.assert_allclose(*scores, atol=16 * 2**-8 * scores[0].max())


def test_a_distributed_model_stays_where_it_is(checkpoint, monkeypatch):
    pytest.importorskip("accelerate", reason="accelerate is not installed: device_map= needs it")
    folder, loaded = checkpoint("qwen3_vl")
    monkeypatch.setattr(torch.nn.Module, "to", lambda *_, **__: pytest.fail("a dispatched model was moved"))
    model = load(str(folder), device_map="auto", dtype="fp32")
    assert model.answer(PHOTO, QUESTION, tokens=3) == loaded.answer(PHOTO, QUESTION, tokens=3)


def test_a_family_that_cannot_work_is_named_in_one_line(checkpoint, tmp_path):
    folder, _ = checkpoint("qwen3_vl")
    model = load(str(folder))
    model.module.config.vision_config.spatial_merge_size = 7  # the model and its processor disagree
    model.module.model.visual.spatial_merge_size = 7
    with pytest.raises(WhymaskError, match=r"models of the family 'qwen3_vl' such as .* wrap a function") as error:
        model.bind(PHOTO, question=QUESTION)
    assert "\n" not in str(error.value)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}))
    with pytest.raises(WhymaskError) as error:
        whymask.load(str(tmp_path))
    assert "\n" not in str(error.value)


def test_checkpoints_are_found_by_their_type(checkpoint):
    for model_type, loader in (
        ("qwen3_vl", "multimodal"), ("qwen2_5_vl", "qwen2_5_vl"), ("llava", "llava"), ("gemma3", "multimodal")
    ):  # fmt: skip
        family, _ = find(str(checkpoint(model_type)[0]))
        assert family.loader == f"whymask.models.{loader}:load"
        assert "question" in family.can


@pytest.mark.parametrize("tower", ["clip_vision_model", "siglip_vision_model", "pixtral"])
def test_llava_checkpoints_with_another_tower_take_the_generic_path(tmp_path, tower):
    parts = {"vision_config": {"model_type": tower}, "text_config": {"model_type": "llama"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", **parts}))
    loader = "llava" if tower == "clip_vision_model" else "multimodal"
    assert find(str(tmp_path))[0].loader == f"whymask.models.{loader}:load"


def test_a_model_that_the_image_does_not_reach_is_an_error(checkpoint, monkeypatch):
    """Where a processor and a model disagree about a name, both paths would run, blind to the image."""
    folder, _ = checkpoint("qwen3_vl")
    model = load(str(folder))
    batch = model._batch
    monkeypatch.setattr(model, "_batch", lambda inputs, *rest: batch(torch.zeros_like(inputs), *rest))
    with pytest.raises(WhymaskError, match="the image does not reach the model"):
        model.bind(PHOTO, question=QUESTION)


def test_lists_of_tensors_are_not_dropped(checkpoint, monkeypatch):
    folder, _ = checkpoint("qwen3_vl")
    model = load(str(folder))
    own = model.processing.processor

    class Listing:
        tokenizer, image_processor = own.tokenizer, own.image_processor

        def __call__(self, **options):
            made = own(**options)
            return {**made, "pixel_values": list(made["pixel_values"])}

    monkeypatch.setattr(model.processing, "processor", Listing())
    with pytest.raises(WhymaskError, match="returns pixel_values as a list"):
        model.bind(PHOTO, question=QUESTION)


def test_how_answers_are_scored_does_not_depend_on_an_answer_that_ends_at_once(checkpoint):
    folder, sound = checkpoint("qwen3_vl")
    model = load(str(folder))
    model.module.generation_config.eos_token_id = sound.bind(PHOTO, question=QUESTION).target.index
    model.bind(PHOTO, question=QUESTION)
    assert model.settings["answers"] == sound.settings["answers"] == "one forward"


def test_options_of_wrap_are_checked(checkpoint):
    folder, _ = checkpoint("qwen3_vl")
    module, processor = transformers.AutoModelForImageTextToText.from_pretrained(folder), load_processor(folder)
    for wrong in (0, "big"):
        with pytest.raises(WhymaskError, match="max_side must be a whole number of at least 1"):
            whymask.wrap(module, processor, max_side=wrong)
