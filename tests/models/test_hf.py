"""Transformers classifiers built small in process, against transformers' own processor and model."""

import numpy as np
import pytest
import torch
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.images.imaging import load_image
from whymask.models import hf, hf_classifier

from models.checkpoints import edited, without

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
PHOTO = load_image(f"{data_dir}/rocket.jpg")


def vit():
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=64, patch_size=16,
        num_labels=5, id2label={i: f"class {i}, alias {i}" for i in range(5)},
    )  # fmt: skip
    return transformers.ViTForImageClassification(config), transformers.ViTImageProcessorPil(
        size={"height": 64, "width": 64}
    )


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5,
        id2label={i: f"class {i}, alias {i}" for i in range(5)},
    )  # fmt: skip
    return transformers.ResNetForImageClassification(config), transformers.ConvNextImageProcessorPil(
        size={"shortest_edge": 64}, crop_pct=0.875, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]
    )


def convnext():
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=5, id2label={i: f"class {i}" for i in range(5)}
    )
    return transformers.ConvNextForImageClassification(config), transformers.ConvNextImageProcessorPil(
        size={"shortest_edge": 384}
    )


@pytest.fixture(params=[vit, resnet, convnext])
def checkpoint(request, tmp_path):
    torch.manual_seed(0)
    model, processor = request.param()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # random weights answer almost evenly; make them care
    model.eval().save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    # As a user loads it: where torchvision is installed, its resizing differs from Pillow's by a grey level.
    return tmp_path, model, transformers.AutoImageProcessor.from_pretrained(tmp_path)


def test_equals_the_library_on_the_unmasked_image(checkpoint):
    folder, model, processor = checkpoint
    with torch.inference_mode():
        expected = model(**processor(images=PHOTO, return_tensors="pt")).logits.softmax(dim=-1)[0].numpy()
    ours = whymask.load(str(folder))
    for target in range(5):
        bound = ours.bind(PHOTO, target=target)
        assert ours.respond(bound.inputs[None], [bound]).score[0] == pytest.approx(expected[target], abs=1e-4)
    assert ours.bind(PHOTO).target.index == expected.argmax()
    assert ours.bind(PHOTO, target="class 3").target.index == 3


def test_the_box_is_what_the_crop_keeps(checkpoint):
    folder, _, processor = checkpoint
    box = whymask.load(f"hf:{folder}").bind(PHOTO, target=0).box
    width, height = PHOTO.size  # 640 x 427
    if "crop_pct" in processor.to_dict() and processor.size["shortest_edge"] < 384:
        side = 0.875 * height / width / 2
        expected = (0.5 - side, 0.0625, 0.5 + side, 0.9375)
    else:
        expected = (0, 0, 1, 1)
    np.testing.assert_allclose(box, expected, atol=0.01)


def test_explains(checkpoint):
    folder, *_ = checkpoint
    found = whymask.explain(
        PHOTO, whymask.load(str(folder)), regions="grid:4x4", k=3, method="trace", params={"rounds": 2}
    )
    assert len(found.regions) == 3


def test_a_ready_pipeline():
    torch.manual_seed(0)
    model, processor = vit()
    pipeline = transformers.pipeline("image-classification", model=model.eval(), image_processor=processor)
    expected = {row["label"]: row["score"] for row in pipeline(PHOTO)}
    ours = whymask.wrap(pipeline)
    bound = ours.bind(PHOTO)
    assert bound.target.label == max(expected, key=expected.get).split(",")[0]
    assert ours.respond(bound.inputs[None], [bound]).score[0] == pytest.approx(max(expected.values()), abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pipeline_in_training_stays_as_it_is(dtype):
    torch.manual_seed(0)
    model, processor = vit()
    pipeline = transformers.pipeline("image-classification", model=model.to(dtype), image_processor=processor)
    model.train()
    model.vit.eval()
    before = {name: (p.dtype, p.requires_grad, id(p)) for name, p in model.named_parameters()}
    ours = whymask.wrap(pipeline)
    assert ours.settings["dtype"] == {torch.float32: "fp32", torch.bfloat16: "bf16"}[dtype]
    first = ours.fingerprint
    whymask.explain(PHOTO, ours, regions="grid:2x2", k=1)
    assert {name: (p.dtype, p.requires_grad, id(p)) for name, p in model.named_parameters()} == before
    assert (model.training, model.vit.training) == (True, False)
    torch.nn.init.ones_(model.classifier.bias)
    assert ours.fingerprint != first
    assert whymask.wrap(pipeline, dtype="fp16").module.model is not model


SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 32}


def segformer():
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 1, 1], decoder_hidden_size=8
    )
    return transformers.SegformerForSemanticSegmentation(config)


def backbone():
    return transformers.ViTModel(transformers.ViTConfig(**SMALL))


def dino():
    return transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, patch_size=16))


def test_a_package_that_transformers_lacks_is_one_sentence(checkpoint, monkeypatch):
    def lacking(*_, **__):
        raise ImportError("\nAutoImageProcessor requires the Torchvision library but it was not found in\nyour ...")

    monkeypatch.setattr(transformers.AutoImageProcessor, "from_pretrained", lacking)
    with pytest.raises(WhymaskError, match=r"^cannot load .*: it needs torchvision, .*: pip install torchvision\.$"):
        whymask.load(str(checkpoint[0]))


@pytest.mark.parametrize("build", [segformer, backbone, dino])
def test_a_checkpoint_without_a_head_is_refused(build, tmp_path, capfd):
    build().save_pretrained(tmp_path)
    vit()[1].save_pretrained(tmp_path)
    verbosity = transformers.logging.get_verbosity()
    capfd.readouterr()
    # Older versions of transformers miss weights of the backbone too, under names they had before.
    lack = r"(has no classification head|is incomplete): the weights classifier.bias, classifier.weight"
    with pytest.raises(WhymaskError, match=rf"^{tmp_path} {lack}.* are missing from the checkpoint\.$"):
        hf_classifier.load(str(tmp_path))  # as a classifier; by its name a segmenter is loaded as what it is
    assert "REPORT" not in "".join(capfd.readouterr())
    assert transformers.logging.get_verbosity() == verbosity


def test_weights_that_are_missing_or_have_another_shape_are_named(tmp_path):
    model, processor = resnet()
    for part in (model, processor):
        part.save_pretrained(tmp_path / "whole")
    name = "resnet.embedder.embedder.convolution.weight"
    part = without(tmp_path / "whole", tmp_path / "part", name)
    with pytest.raises(WhymaskError, match=f"is incomplete: the weights {name} are missing"):
        whymask.load(str(part))
    few = without(tmp_path / "whole", tmp_path / "few", *(n for n in model.state_dict() if "running_mean" in n))
    with pytest.raises(WhymaskError, match=r"running_mean, \S+ and 3 more are missing"):
        whymask.load(str(few))
    other = edited(tmp_path / "whole", tmp_path / "other", lambda n, t: t[:3] if n.startswith("classifier") else t)
    with pytest.raises(WhymaskError, match=r"does not fit its configuration: the weights classifier.1.bias, \S+ have"):
        whymask.load(str(other))
    counters = [name for name in model.state_dict() if name.endswith("num_batches_tracked")]
    assert counters
    assert len(whymask.load(str(without(tmp_path / "whole", tmp_path / "counted", *counters))).labels) == 5
    for part in (transformers.Dinov2ForImageClassification(dino().config), vit()[1]):
        part.save_pretrained(tmp_path / "dino")
    token = "dinov2.embeddings.mask_token"
    assert len(whymask.load(str(without(tmp_path / "dino", tmp_path / "tuned", token))).labels) == 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"problem_type": "regression"}, r"is a model for regression: wrap a function"),
        ({"num_labels": 1}, r"returns one number, .* whymask.wrap\(model, ..., activation='sigmoid'\)"),
    ],
)
def test_what_is_no_softmax_over_classes_is_refused(settings, reason, tmp_path):
    config = transformers.ViTConfig(**SMALL, **settings)
    model, processor = transformers.ViTForImageClassification(config), vit()[1]
    for part in (model, processor):
        part.save_pretrained(tmp_path)
    pipeline = transformers.pipeline("image-classification", model=model, image_processor=processor)
    for load in (lambda: whymask.load(str(tmp_path)), lambda: whymask.wrap(pipeline)):
        with pytest.raises(WhymaskError, match=reason):
            load()


def test_a_folder_without_a_model_is_one_clear_sentence(tmp_path):
    for name in (str(tmp_path), f"hf:{tmp_path}"):
        with pytest.raises(WhymaskError, match="cannot load") as error:
            whymask.load(name)
        assert "\n" not in str(error.value)


class Hub:
    """Stands in for a class of transformers: nothing has been downloaded before."""

    @staticmethod
    def from_pretrained(checkpoint, **options):
        assert options["local_files_only"], "it would try for half a minute"
        raise OSError("nothing there")


class Silent:
    """Stands in for a class of transformers that fails without a message."""

    @staticmethod
    def from_pretrained(checkpoint, **options):
        raise ValueError


def test_an_error_without_a_message_is_named_by_its_type(tmp_path):
    with pytest.raises(WhymaskError, match="with transformers: ValueError"):
        hf.from_checkpoint(Silent, str(tmp_path))


def test_a_hub_that_cannot_be_reached_is_not_tried_again(monkeypatch):
    asked = []

    def connect(address, timeout):
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(hf, "getproxies", dict)
    monkeypatch.setattr(hf, "create_connection", connect)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://hub.invalid:8080")
    hf.unreachable_hub.cache_clear()
    try:
        for _ in range(2):
            with pytest.raises(WhymaskError, match=r"'some/model'.*http://hub\.invalid:8080 cannot"):
                hf.from_checkpoint(Hub, "some/model")
    finally:
        hf.unreachable_hub.cache_clear()
    assert asked == [("hub.invalid", 8080)]
