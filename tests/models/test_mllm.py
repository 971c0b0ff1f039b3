import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers
from safetensors.torch import load_file

import whymask
from whymask import WhymaskError
from whymask.cli import main
from whymask.explainer.case import Case
from whymask.images.imaging import load_image
from whymask.models import towers
from whymask.models.llava import Llava
from whymask.models.qwen2_5_vl import Patches, Qwen25VL

from models import tiny_mllm
from models.checkpoints import without

PHOTO = load_image(f"{data_dir}/rocket.jpg")  # 640 x 427
QUESTION = "is there a dog on the sofa ?"
FAMILIES = {"qwen": tiny_mllm.qwen, "llava": tiny_mllm.llava}


@pytest.fixture(params=FAMILIES, scope="module")
def checkpoint(request, tmp_path_factory):
    """(folder, the stock parts it was saved from, the loaded model)."""
    parts = FAMILIES[request.param]()
    folder = tiny_mllm.save(parts, tmp_path_factory.mktemp(request.param))
    return folder, parts, whymask.load(str(folder))


def stock(parts, image, answer=()):
    """transformers' own way: image processor, tokenizer, model. Probabilities (L, vocabulary) of an image's prompt."""
    module, processor, words = parts
    processed = processor(images=image, return_tensors="pt")
    qwen = "image_grid_thw" in processed
    slot = words.convert_ids_to_tokens(module.config.image_token_id)
    message = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}]
    text = words.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    if qwen:
        count = int(processed["image_grid_thw"].prod()) // 4
        ids = words(text.replace(slot, slot * count), return_tensors="pt")["input_ids"]
    else:
        both = transformers.LlavaProcessor(
            processor, words, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1
        )
        ids = both(images=image, text=text, return_tensors="pt")["input_ids"]
    ids = torch.cat([ids, torch.tensor([answer], dtype=torch.int64)], dim=1)
    more = {"mm_token_type_ids": (ids == module.config.image_token_id).int()} if qwen else {}
    with torch.inference_mode():
        logits = module(input_ids=ids, **processed, **more).logits[0]
    return logits.float().softmax(dim=-1)[-1 - len(answer) :], {"input_ids": ids, **processed, **more}


def masked(case, rows):
    """The masked canvases as images."""
    return [np.where(row[case.partition.labels][..., None], case.bound.canvas, case.bound.fill) for row in rows]


@pytest.fixture
def rows():
    return np.concatenate([np.random.default_rng(0).random((5, 16)) < 0.5, np.ones((1, 16), bool)])


@pytest.mark.parametrize("target", [None, "Yes", "dog.", "a dog on the sofa", "a [[dog]] on the sofa", "a [[dog.]]"])
def test_equals_transformers_on_each_masked_image(checkpoint, rows, target):
    _, parts, model = checkpoint
    case = Case.of(PHOTO, model, target=target, question=QUESTION, regions="grid:4x4", fill="blur")
    response = model.respond(case.inputs(rows), [case.bound] * len(rows))
    words = parts[2]
    text = ["a", "dog", "on", "the", "sofa"]
    ids = words.convert_tokens_to_ids(text)
    for image, score, top in zip(masked(case, rows), response.score, response.top, strict=True):
        if target is None:
            (chances,), _ = stock(parts, image)
            expected = chances[case.bound.target.index]
        elif target == "Yes":
            (chances,), _ = stock(parts, image)
            expected = chances[words.convert_tokens_to_ids(["Yes", "yes"])].sum()
        elif target == "dog.":  # one word, two tokens
            dog, dot = words.convert_tokens_to_ids(["dog", "."])
            first, second = stock(parts, image, [dog])[0]
            expected = first[dog] * second[dot]
        elif target == " ".join(text):
            chances = stock(parts, image, ids[:-1])[0]
            expected = torch.stack([chance[i] for chance, i in zip(chances, ids, strict=True)]).mean()
        elif target == "a [[dog.]]":  # the probability of the marked word, which has two tokens
            dog, dot = words.convert_tokens_to_ids(["dog", "."])
            _, second, third = stock(parts, image, [ids[0], dog])[0]
            expected = second[dog] * third[dot]
        else:
            expected = stock(parts, image, ids[:1])[0][1][ids[1]]
        assert score == pytest.approx(float(expected), rel=1e-4)
        assert top == int(stock(parts, image)[0][0].argmax())
    assert np.ptp(response.score) > 0.01 * response.score.max()


def test_masking_is_bit_identical_to_masking_the_pixels(checkpoint, rows):
    _, (_, processor, _), model = checkpoint
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="slico:16", fill="mean")
    keep = rows[:, : case.partition.n] if case.partition.n <= 16 else np.resize(rows, (len(rows), case.partition.n))
    for image, composed in zip(masked(case, keep), case.inputs(keep), strict=True):
        expected = processor(images=image.astype(np.uint8), return_tensors="pt")["pixel_values"]
        assert torch.equal(composed.reshape(expected.shape), expected)


def test_different_questions_and_answers_share_a_batch(checkpoint):
    _, _, model = checkpoint
    asked = [("Yes", QUESTION), ("a dog on the sofa", "what do you see ?"), (None, "is there a cat in the image ?")]
    bounds = [model.bind(PHOTO, target=target, question=question) for target, question in asked]
    assert len({bound.key for bound in bounds}) == 1
    together = model.respond(torch.stack([bound.inputs for bound in bounds]), bounds)
    for i, bound in enumerate(bounds):
        alone = model.respond(bound.inputs[None], [bound])
        assert together.score[i] == pytest.approx(alone.score[0], abs=1e-5)
        assert together.top[i] == alone.top[0]


def test_one_forward_scores_every_word_of_a_text(checkpoint, rows):
    """Each as it is scored alone, with any word that is a token and another text, which takes a forward more."""
    _, _, model = checkpoint
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    targets = ["Yes", "a [[dog]] on the sofa", "a dog on the [[sofa]]", "a dog on the sofa", "a [[dog.]]", "the cat"]
    bounds = [model.answering(case.bound, target, QUESTION) for target in targets]
    sent = []
    own = type(model).logits

    def logits(self, inputs, asked):
        sent.append(len(inputs))
        return own(self, inputs, asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "logits", logits)
        together = model.respond_each(case.inputs(rows), bounds)
    assert sent == [len(rows)] * 2  # "dog." is read where the text says "on"; "the cat" begins otherwise
    assert together.score.shape == (len(rows), len(targets))
    for column, bound in enumerate(bounds):
        alone = model.respond(case.inputs(rows), [bound] * len(rows))
        np.testing.assert_allclose(together.score[:, column], alone.score, rtol=1e-5)
        np.testing.assert_array_equal(together.top, alone.top)


def test_the_own_answer_is_what_transformers_generates(checkpoint):
    _, parts, model = checkpoint
    bound = model.bind(PHOTO, question=QUESTION)
    _, inputs = stock(parts, bound.canvas)
    made = parts[0].generate(**inputs, max_new_tokens=6, do_sample=False)[0, inputs["input_ids"].shape[1] :].tolist()
    ends = parts[2].eos_token_id
    made = made[: made.index(ends)] if ends in made else made
    assert model.answer(PHOTO, QUESTION, tokens=6) == parts[2].decode(made).strip()
    assert bound.target.index == made[0]
    assert bound.target.label == model.labels[made[0]]
    other = model.bind(PHOTO, target="Yes", question="what do you see ?")
    assert model.generate(torch.stack([bound.inputs, other.inputs]), [bound, other], 6) == [
        model.answer(PHOTO, QUESTION, tokens=6), model.answer(PHOTO, "what do you see ?", tokens=6)
    ]  # fmt: skip


def test_explains_replays_and_saves(checkpoint, tmp_path):
    _, _, model = checkpoint
    found = whymask.explain(PHOTO, model, question=QUESTION, regions="grid:4x4", method="trace", params={"rounds": 2})
    assert len(found.regions) == 10
    assert found.provenance["question"] == QUESTION
    assert found.provenance["view"] == model.settings["view"]
    assert found.image.prediction == found.target.label
    assert str(found).startswith(f"{found.verdict} Asked {QUESTION!r}, the model says {found.target.label!r}, which")
    text = "a [[dog]] on the sofa"
    ordering = whymask.explain(PHOTO, model, question=QUESTION, target=text, method="greedy", regions="grid:2x2")
    curves = whymask.replay(whymask.Ordering.load(ordering.save(tmp_path / "saved.npz")), model)
    assert curves.insertion[-1] == pytest.approx(ordering.image.full_score, abs=1e-5)


def test_many_questions_at_once_equal_each_alone(checkpoint):
    _, _, model = checkpoint
    questions = [QUESTION, "is there a cat ?"]
    settings = {"regions": "grid:3x3", "k": 3, "method": "trace", "params": {"rounds": 2, "samples": 8}}
    many = dict(whymask.explain_many([PHOTO, PHOTO], model, questions=questions, targets=["Yes", "No"], **settings))
    for i, (question, target) in enumerate(zip(questions, ["Yes", "No"], strict=True)):
        alone = whymask.explain(PHOTO, model, question=question, target=target, **settings)
        assert many[i].regions == alone.regions
        assert many[i].score == pytest.approx(alone.score, abs=1e-5)


def test_the_graph_of_one_image_is_held_at_a_time(checkpoint):
    """As the paper's "original" rows do; classifiers take several images at once."""
    _, _, model = checkpoint
    sizes = []

    def note(head, inputs):
        if torch.is_grad_enabled():
            sizes.append(len(inputs[0]))

    heard = model.module.lm_head.register_forward_pre_hook(note)
    quick = {"iterations": 1, "ig_steps": 3, "size": 4}
    whymask.explain(PHOTO, model, question=QUESTION, method="igos++", params=quick, regions="grid:3x3")
    heard.remove()
    assert sizes.count(1) == len(sizes) >= 4 * 3


def test_goes_on_in_halves_when_memory_runs_out(checkpoint, monkeypatch):
    _, _, model = checkpoint
    settings = {
        "question": QUESTION,
        "target": "Yes",
        "regions": "grid:4x4",
        "method": "trace",
        "params": {"rounds": 2, "samples": 16},
    }
    expected = whymask.explain(PHOTO, model, batch_size=16, **settings)
    sizes, see = [], model.see

    def small(inputs, shape):
        if len(inputs) > 4:
            raise torch.OutOfMemoryError("out of memory")
        sizes.append(len(inputs))
        return see(inputs, shape)

    monkeypatch.setattr(model, "see", small)
    found = whymask.explain(PHOTO, model, batch_size=16, **settings)
    assert max(sizes) == 4
    assert found.regions == expected.regions
    assert found.score == pytest.approx(expected.score, abs=1e-5)


def test_the_stock_tower_is_the_fallback(checkpoint, monkeypatch):
    folder, _, model = checkpoint
    if not isinstance(model, Qwen25VL):
        pytest.skip("only Qwen2.5-VL has a tower of its own")
    monkeypatch.setattr("whymask.models.qwen2_5_vl.agrees", lambda: False)
    other = whymask.load(str(folder))
    assert (model.settings["windows"], other.settings["windows"]) == ("batched", "one by one")
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    rows = np.random.default_rng(1).random((4, 16)) < 0.5
    scores = [m.respond(case.inputs(rows), [case.bound] * 4).score for m in (model, other)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_the_padding_of_a_square_is_always_seen():
    parts = tiny_mllm.llava()
    model = Llava(*parts, name="padded", pad=True)
    assert model.settings["view"] == "padded to a square, 32 pixels"
    case = Case.of(PHOTO, model, target="Yes", question=QUESTION, regions="grid:4x4")
    assert case.bound.canvas.shape == (21, 32, 3)
    assert case.bound.box == (0, 0, 1, 1)
    rows = np.array([np.ones(16, bool), np.zeros(16, bool)])
    for image, composed in zip(masked(case, rows), case.inputs(rows), strict=True):
        square = np.broadcast_to(np.array([122, 117, 104], np.uint8), (32, 32, 3)).copy()
        square[5:26] = image
        expected = parts[1](images=square, return_tensors="pt")["pixel_values"][0]
        assert torch.equal(composed, expected)
    centre = Llava(*tiny_mllm.llava(), name="centre").bind(PHOTO, target="Yes", question=QUESTION)
    np.testing.assert_allclose(centre.box, (0.166, 0, 0.834, 1), atol=0.03)


def test_llava_sees_a_photo_that_was_reduced_first(tmp_path):
    """The cap reduces the longer side; the checkpoint's own preprocessing then works on the small photo."""
    parts = tiny_mllm.llava()
    folder = str(tiny_mllm.save(parts, tmp_path))
    model, own = whymask.load(folder, max_side=24), whymask.load(folder)
    small = PHOTO.resize((24, 16), Image.Resampling.BICUBIC)
    for resize in ("own", "squash"):
        bound = model.bind(PHOTO, target="Yes", question=QUESTION, resize=resize)
        expected = own.bind(small, target="Yes", question=QUESTION, resize=resize)
        np.testing.assert_array_equal(bound.canvas, expected.canvas)
        assert bound.box == expected.box
        assert not np.array_equal(bound.canvas, own.bind(PHOTO, question=QUESTION, resize=resize).canvas)
    assert model.settings["view"] == "centre crop, 32 pixels, longer side first at most 24"
    assert model.fingerprint != own.fingerprint
    for image in (
        small,
        PHOTO.resize((12, 9)),
        Image.fromarray(bound.canvas),
    ):  # nothing is enlarged, and a grid is left as it is
        resize = "none" if image.size == (32, 32) else "own"
        kept = [m.bind(image, target="Yes", question=QUESTION, resize=resize).canvas for m in (model, own)]
        np.testing.assert_array_equal(*kept)
    with pytest.raises(WhymaskError, match="max_side must be a whole number of at least 1"):
        whymask.load(folder, max_side=0)


def test_sizes_follow_the_image_processor():
    patches = Patches(unit=28, max_side=10_000, min_pixels=3136, max_pixels=401408)
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    for width, height in [(640, 480), (448, 448), (30, 30), (2000, 100), (5000, 4000), (28, 3000)]:
        expected = smart_resize(height, width, 28, 3136, 401408)
        assert patches.size(width, height) == expected[::-1]
    assert replace(patches, max_side=448).size(640, 480) == (448, 336)
    one_size = Patches(unit=28, max_side=10_000, min_pixels=112**2, max_pixels=112**2)  # as of a small checkpoint
    for width, height in [(112, 112), (100, 75), (57, 140), (300, 200)]:
        expected = smart_resize(height, width, 28, 112**2, 112**2)
        assert one_size.place(Image.new("RGB", (width, height)), "own")[0].shape[:2] == expected


def test_compiling_that_fails_leaves_the_model_as_it_was(checkpoint, monkeypatch):
    folder, _, model = checkpoint
    loaded = whymask.load(str(folder), compile=True)
    bound = loaded.bind(PHOTO, target="Yes", question=QUESTION)
    tried = []

    def broken(self, **_):
        tried.append(self)
        self._compiled_call_impl = lambda *_, **__: 1 / 0

    monkeypatch.setattr(torch.nn.Module, "compile", broken)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    inputs = torch.stack([bound.inputs] * 2)
    with pytest.warns(UserWarning, match="runs without compilation, which failed"):
        scores = loaded.respond(inputs, [bound] * 2).score
    assert len(tried) == 2
    assert loaded.settings["compiled"] == "no"
    np.testing.assert_array_equal(scores, model.respond(inputs, [bound] * 2).score)


def test_compiles_once_it_would_have_paid(checkpoint, monkeypatch):
    _, _, model = checkpoint
    bound = model.bind(PHOTO, target="Yes", question=QUESTION)
    inputs = torch.stack([bound.inputs] * 3)
    compiled = []
    monkeypatch.setattr(model, "_compile", None)
    monkeypatch.setattr(model, "_seen", 0)
    monkeypatch.setattr(model, "compile", lambda: compiled.append(model._seen))
    monkeypatch.setattr(model, "pays", 5)
    model.respond(inputs, [bound] * 3)
    model.respond(inputs, [bound] * 3)
    assert compiled == []  # never on a CPU unless told to
    monkeypatch.setattr(model, "_seen", 0)
    monkeypatch.setattr(towers, "compiles_by_itself", lambda device: True)
    for _ in range(4):
        model.respond(inputs, [bound] * 3)
    assert compiled == [6]


def test_bad_input_is_one_clear_sentence(checkpoint, tmp_path):
    folder, _, model = checkpoint
    cases = [
        ({"question": None}, "answers questions: pass a question"),
        ({"target": "zebra"}, "has no token for 'zebra'"),
        ({"resize": "crop"}, "resize is 'own', 'squash' or 'none'"),
        ({"resize": "none"}, "grid"),
    ]
    for wrong, words in cases:
        with pytest.raises(WhymaskError, match=words) as error:
            model.bind(PHOTO, **{"question": QUESTION, "target": "Yes", **wrong})
        assert "\n" not in str(error.value)
    if isinstance(model, Qwen25VL):
        with pytest.raises(WhymaskError, match="too long"):
            model.bind(Image.new("RGB", (1000, 3)), target="Yes", question=QUESTION)
    for missing, words in [("model.safetensors", "weights"), ("tokenizer*", "a tokenizer"), ("preproc*", "processor")]:
        part = tmp_path / words.replace(" ", "-")
        part.mkdir()
        for file in folder.iterdir():
            if not file.match(missing):
                (part / file.name).write_bytes(file.read_bytes())
        with pytest.raises(WhymaskError, match=f"lacks .*{words}"):
            whymask.load(str(part))
    with pytest.raises(WhymaskError, match="unknown dtype"):
        whymask.load(str(folder), dtype="int4")


def test_weights_that_are_missing_are_named(checkpoint, tmp_path):
    folder, *_ = checkpoint
    names = load_file(folder / "model.safetensors")
    for part in ("lm_head.weight", "layers.1.mlp.up_proj.weight"):
        (name,) = (name for name in names if name.endswith(part) and "vis" not in name)
        with pytest.raises(WhymaskError, match=rf"is incomplete: the weights \S*{part} are missing from"):
            whymask.load(str(without(folder, tmp_path / part, name)))


def test_a_template_in_the_processors_json_is_found(checkpoint, tmp_path):
    folder, parts, model = checkpoint
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(WhymaskError, match="no chat template"):
        whymask.load(str(tmp_path))
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": parts[2].chat_template}))
    assert whymask.load(str(tmp_path)).dialogue.prompt(QUESTION) == model.dialogue.prompt(QUESTION)


def test_the_command_line(checkpoint, tmp_path, monkeypatch, capsys):
    folder, *_ = checkpoint
    monkeypatch.chdir(tmp_path)
    PHOTO.save("photo.jpg")
    command = ["whymask", "explain", "photo.jpg", "--model", str(folder), "--question", QUESTION, "--target", "Yes"]
    monkeypatch.setattr("sys.argv", [*command, "--regions", "grid:3x4", "--quiet"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    said = capsys.readouterr().out
    assert f"Asked {QUESTION!r}, the model says " in said
    assert "Picture: whymask-out" in said
