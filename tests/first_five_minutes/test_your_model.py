"""Your own model: whatever `wrap` takes is explained directly, and what cannot be guessed is asked for in one line."""

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError

PHOTO = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
QUICK = {"regions": "grid:2x2", "k": 1, "method": "trace", "params": {"rounds": 2}}


class Returns(torch.nn.Module):
    """Three classes from the mean of each colour, returned in some form."""

    def __init__(self, form=lambda logits: logits):
        super().__init__()
        self.scale, self.form = torch.nn.Parameter(torch.tensor(4.0)), form

    def forward(self, x):
        return self.form(self.scale * x.mean(dim=(2, 3)))


def colour(images):
    """The same three classes as probabilities."""
    return torch.tensor(images.mean(axis=(1, 2)) / 64).softmax(dim=1)


@pytest.fixture
def captum():
    """Gradient methods are captum's."""
    pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")


def full_score(net, **options):
    return whymask.explain(PHOTO, whymask.wrap(net, size=(20, 30), **options), **QUICK).full_score


def pixels(mean=0.0, std=255.0):
    """What a module of size (20, 30) is given of the photo: it has the grid's proportions, so nothing is cropped."""
    canvas = whymask.wrap(Returns(), size=(20, 30), crop=1.0).bind(PHOTO).canvas
    return torch.from_numpy(((canvas - mean) / std).astype(np.float32)).permute(2, 0, 1)[None]


def test_a_function_is_explained_directly():
    found = whymask.explain(PHOTO, colour, **QUICK)
    assert found.prediction in "012"
    assert [number for number, _ in whymask.explain_many([PHOTO] * 2, colour, **QUICK)] == [0, 1]
    ordering = whymask.explain(PHOTO, colour, method="greedy", regions="grid:2x2")
    assert len(whymask.replay(ordering, colour).insertion) == 4
    wrong = (int(found.prediction) + 1) % 3
    assert whymask.repair(PHOTO, colour, want=wrong, **QUICK).target.index == wrong


def test_a_pipeline_is_explained_directly():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=16, patch_size=8
    )
    module = transformers.ViTForImageClassification(config)
    processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    pipeline = transformers.pipeline("image-classification", model=module, image_processor=processor)
    scores = [
        whymask.explain(PHOTO, model, **QUICK).full_score
        for model in (pipeline, (module, processor), whymask.wrap(pipeline))
    ]
    assert scores[0] == pytest.approx(max(answer["score"] for answer in pipeline(_picture())), abs=1e-5)
    assert scores == [scores[0]] * 3
    with pytest.raises(WhymaskError, match=r"whymask.wrap\(model, AutoProcessor.from_pretrained\('NAME'\)\)"):
        whymask.explain(PHOTO, module)


def test_a_zero_shot_pipeline_is_explained_directly(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    from models.tiny_clip import save

    module, tokenizer = save(tmp_path / "clip")
    processor = transformers.CLIPImageProcessorPil.from_pretrained(tmp_path / "clip")
    pipeline = transformers.pipeline(
        "zero-shot-image-classification", model=module, image_processor=processor, tokenizer=tokenizer
    )
    labels = ["cat", "dog", "bird"]
    model = whymask.wrap(pipeline, classes=labels, templates=["This is a photo of {}."])
    expected = {answer["label"]: answer["score"] for answer in pipeline(_picture(), candidate_labels=labels)}
    found = whymask.explain(PHOTO, model, target="dog", **QUICK)
    assert found.full_score == pytest.approx(expected["dog"], abs=1e-5)


def _picture():
    from PIL import Image

    return Image.fromarray(PHOTO)


def test_what_a_module_does_not_say_is_asked_for_with_the_line_to_write():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    with pytest.raises(WhymaskError) as error:
        whymask.explain(PHOTO, net)
    message = str(error.value)
    assert "\n" not in message
    line = message.partition(": ")[2].partition(", with ImageNet")[0]
    assert line.startswith("whymask.wrap(model, size=224, mean=(123.675,")
    assert whymask.explain(PHOTO, eval(line, {"whymask": whymask, "model": net}), **QUICK).n == 4


def test_a_model_by_name_is_explained_directly():
    with pytest.raises(WhymaskError, match="unknown model 'efficientnet-lite9'; did you mean 'efficientnet-lite"):
        whymask.explain(PHOTO, "efficientnet-lite9")


@pytest.mark.parametrize(
    "form",
    [
        lambda logits: (logits,),
        lambda logits: [logits, [logits]],
        lambda logits: {"out": logits},
        lambda logits: {"logits": logits, "features": 2 * logits},
        lambda logits: type("Output", (), {"logits": logits})(),
    ],
)
@pytest.mark.usefixtures("captum")
def test_logits_in_tuples_and_dictionaries(form):
    assert full_score(Returns(form)) == full_score(Returns())
    found = whymask.explain(PHOTO, whymask.wrap(Returns(form), size=20), method="gradient", regions="grid:2x2")
    assert len(found.order) == 4


def test_several_tables_are_asked_for():
    net = Returns(lambda logits: {"a": 2 * logits, "b": logits})
    with pytest.raises(WhymaskError, match=r"several tables: 'a', 'b'; .*whymask.wrap\(model, ..., logits='a'\)"):
        full_score(net)
    assert full_score(net, logits="b") == full_score(Returns())
    assert full_score(net, logits="a") != full_score(Returns())
    with pytest.raises(WhymaskError, match="unknown entry of what Returns returns 'c'"):
        full_score(net, logits="c")


def test_a_grid_that_is_no_square_keeps_its_proportions():
    seen = set()
    net = Returns()
    net.register_forward_pre_hook(lambda _, inputs: seen.add(tuple(inputs[0].shape[1:])))
    found = whymask.explain(PHOTO, whymask.wrap(net, size=(20, 60), crop=1.0), **QUICK)
    assert seen == {(3, 20, 60)}
    assert found.mask.shape == (20, 60)
    assert found.image.box == pytest.approx((0, 0.25, 1, 0.75))  # 60 x 20 of 60 x 40
    upright = whymask.explain(PHOTO, whymask.wrap(net, size=(40, 20), crop=0.5), **QUICK)
    assert upright.image.box == pytest.approx((1 / 2 - 5 / 60, 0.25, 1 / 2 + 5 / 60, 0.75))  # half of 20 x 40
    for wrong in (0, (3, 4, 5), 2.5):
        with pytest.raises(WhymaskError, match="size"):
            whymask.wrap(net, size=wrong)


@pytest.mark.usefixtures("captum")
def test_grey_images():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    with pytest.raises(WhymaskError, match=r"grey images.* whymask.wrap\(model, size=28, mean=\[127.5\], std=\[127.5"):
        whymask.wrap(net, size=28)
    model = whymask.wrap(net, size=(20, 30), crop=1.0, mean=[33.0], std=[78.0])
    found = whymask.explain(PHOTO, model, target=1, **QUICK)
    from PIL import Image

    grey = np.asarray(Image.fromarray(found.image.canvas).convert("L"), dtype=np.float32)
    expected = net(torch.from_numpy((grey - 33) / 78)[None, None]).softmax(dim=1)[0, 1]
    assert found.full_score == pytest.approx(expected.item(), abs=1e-6)
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 3))  # no convolution says so
    assert whymask.explain(PHOTO, whymask.wrap(flat, size=28, mean=[0], std=[255]), **QUICK).n == 4
    order = whymask.explain(PHOTO, model, method="gradient", regions="grid:2x2").order
    assert sorted(order) == [0, 1, 2, 3]


def test_a_module_that_cannot_read_its_images_is_one_line():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 2))
    with pytest.raises(
        WhymaskError, match=r"Sequential fails on an image of shape \(3, 9, 9\): mat1 and mat2"
    ) as error:
        whymask.wrap(net, size=9)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("captum")
def test_labels_that_do_not_exclude_each_other():
    """activation="sigmoid": is there a dog, whatever else there is?"""
    net, labels = Returns(), ["cat", "dog", "kite"]
    options = {"size": (20, 30), "crop": 1.0, "labels": labels, "mean": 0, "std": 255.0}
    logits = net(pixels())[0].detach()
    for activation, expected in (("softmax", logits.softmax(dim=0)), ("sigmoid", logits.sigmoid())):
        model = whymask.wrap(net, activation=activation, **options)
        for label, score in zip(labels, expected, strict=True):
            found = whymask.explain(PHOTO, model, target=label, **QUICK)
            assert found.full_score == pytest.approx(float(score), abs=1e-5)
        assert found.prediction == labels[int(logits.argmax())]
        by_gradient = whymask.explain(PHOTO, model, target="dog", method="integrated-gradients", regions="grid:2x2")
        assert sorted(by_gradient.order) == [0, 1, 2, 3]


@pytest.mark.parametrize("squeezed", [False, True])
@pytest.mark.parametrize("bias", [-3.0, 3.0])
def test_one_logit_is_the_second_of_two_answers(squeezed, bias):
    net = Returns(lambda logits: logits.sum(dim=1) + bias if squeezed else logits.sum(dim=1, keepdim=True) + bias)
    options = {"size": (20, 30), "crop": 1.0, "mean": 0, "std": 255.0}
    with pytest.raises(WhymaskError, match=r"whymask.wrap\(model, ..., activation='sigmoid'\)"):
        whymask.wrap(net, **options)
    net.scale.data.fill_(0.1)
    chance = net(pixels()).sigmoid().item()
    model = whymask.wrap(net, activation="sigmoid", labels=["dog"], **options)
    for label, score in (("dog", chance), ("not dog", 1 - chance)):
        assert whymask.explain(PHOTO, model, target=label, **QUICK).full_score == pytest.approx(score, abs=1e-6)
    assert whymask.explain(PHOTO, model, **QUICK).target.label == ("dog" if chance > 0.5 else "not dog")
    assert whymask.wrap(net, activation="sigmoid", **options).labels == ["0", "1"]


@pytest.mark.usefixtures("captum")
def test_a_module_that_returns_probabilities():
    softmax = Returns(lambda logits: logits.softmax(dim=1))
    assert full_score(softmax, activation="none") == pytest.approx(full_score(Returns()), abs=1e-6)
    one = Returns(lambda logits: logits.sigmoid()[:, :1])
    found = whymask.explain(PHOTO, whymask.wrap(one, size=20, activation="none"), **QUICK)
    assert found.target.is_score
    with pytest.raises(WhymaskError, match=r"\[0, 1\]"):
        full_score(Returns(lambda logits: 9 + logits), activation="none")
    by_gradient = {
        activation: whymask.explain(
            PHOTO, whymask.wrap(net, size=20, activation=activation), method="gradient", regions="grid:4x4", target=0
        ).order
        for activation, net in (("none", softmax), ("softmax", Returns()))
    }
    assert sorted(by_gradient["none"]) == list(range(16))
    with pytest.raises(WhymaskError, match="unknown activation 'sigmod'; did you mean 'sigmoid'"):
        full_score(Returns(), activation="sigmod")


def test_a_multi_label_checkpoint_is_judged_label_by_label():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    for settings in ({"problem_type": "multi_label_classification", "num_labels": 3}, {"num_labels": 1}):
        config = transformers.ViTConfig(
            hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=16, patch_size=8,
            **settings,
        )  # fmt: skip
        module = transformers.ViTForImageClassification(config)
        processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
        model = whymask.wrap(module, processor, **({"activation": "sigmoid"} if config.num_labels == 1 else {}))
        found = whymask.explain(PHOTO, model, target=1, **QUICK)
        expected = module(**processor(_picture(), return_tensors="pt")).logits.sigmoid()[0]
        assert found.full_score == pytest.approx(expected[-1 if len(expected) == 1 else 1].item(), abs=1e-5)


def test_a_function_sees_as_much_as_is_asked_for():
    photo = np.zeros((300, 1024, 3), np.uint8)
    for options, shape in (({}, (150, 512)), ({"max_side": 256}, (75, 256)), ({"max_side": None}, (300, 1024))):
        seen = set()
        model = whymask.wrap(lambda x, seen=seen: seen.add(x.shape[1:3]) or np.full(len(x), 0.5), **options)
        whymask.explain(photo, model, **QUICK)
        assert seen == {shape}
    with pytest.raises(WhymaskError, match="max_side must be a whole number of at least 1, not 0"):
        whymask.wrap(colour, max_side=0)


def test_an_option_that_does_not_exist_is_one_line():
    with pytest.raises(WhymaskError, match="unknown option 'sise'; did you mean 'size'"):
        whymask.wrap(Returns(), sise=3)
    with pytest.raises(WhymaskError, match="unknown option 'max_sid'; did you mean 'max_side'"):
        whymask.wrap(colour, max_sid=3)


def test_progress_is_a_bar_on_stderr(capsys):
    whymask.explain(PHOTO, colour, progress=True, **QUICK)
    assert "forward" in capsys.readouterr().err
    assert len([*whymask.explain_many([PHOTO] * 2, colour, progress=True, **QUICK)]) == 2
    assert "2/2" in capsys.readouterr().err
