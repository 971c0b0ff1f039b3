"""Small random detectors and segmenters of transformers, with their processors."""

import torch
import transformers as t

NAMES = dict(enumerate(["dog", "cat", "traffic light"]))
SIZE = {"height": 64, "width": 64}
EDGES = {"shortest_edge": 48, "longest_edge": 72}


def backbone(**options):
    return t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", **options
    )


def detr(kind="Detr", **more):
    config = getattr(t, f"{kind}Config")(
        use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        backbone_config=backbone(out_features=["stage4"]), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=5,
        id2label=NAMES, **more,
    )  # fmt: skip
    return getattr(t, f"{kind}ForObjectDetection")(config), getattr(t, f"{kind}ImageProcessorPil")(size=EDGES)


def conditional_detr():
    return detr("ConditionalDetr")


def yolos():
    config = t.YolosConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=[48, 72],
        patch_size=8, num_detection_tokens=5, id2label=NAMES,
    )  # fmt: skip
    return t.YolosForObjectDetection(config), t.YolosImageProcessorPil(size=EDGES)


def rt_detr():
    """It has as many queries as places: which of equal places fewer would take depends on the device."""
    config = t.RTDetrConfig(
        backbone_config=t.RTDetrResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        ),
        encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], encoder_ffn_dim=16, encoder_attention_heads=2,
        d_model=16, num_queries=8**2 + 4**2 + 2**2, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=16,
        decoder_layers=1, decoder_attention_heads=2, id2label=NAMES, hidden_expansion=1.0,
        use_pretrained_backbone=False, initializer_range=0.1,
    )  # fmt: skip
    module = t.RTDetrForObjectDetection(config)
    # As it is initialised, all queries are alike, and which of them are chosen is up to rounding.
    torch.nn.init.normal_(module.model.enc_score_head.weight, std=30)
    for weight in module.parameters():
        if weight.ndim == 4:
            torch.nn.init.normal_(weight, std=(4 / weight[0].numel()) ** 0.5)
    return module, t.RTDetrImageProcessorPil(size=SIZE)


def segformer():
    config = t.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 8, 8], num_attention_heads=[1, 1, 1, 1], decoder_hidden_size=16,
        id2label=NAMES,
    )  # fmt: skip
    return t.SegformerForSemanticSegmentation(config), t.SegformerImageProcessorPil(size=SIZE)


def mask2former():
    swin = t.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=2, image_size=64,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = t.Mask2FormerConfig(
        backbone_config=swin, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=16,
        encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=16, num_queries=5, id2label=NAMES,
    )  # fmt: skip
    return t.Mask2FormerForUniversalSegmentation(config), t.Mask2FormerImageProcessorPil(size=SIZE)


def sharpened(pair):
    """With larger weights in the heads, so that scores differ."""
    module, processor = pair
    for name, weight in module.named_parameters():
        if "class" in name and weight.ndim > 1:
            torch.nn.init.normal_(weight, std=1.0)
        elif "class" in name and len(weight) == len(NAMES) + 1:
            weight.data[-1] -= 50.0  # rarely no object
    return module.eval(), processor


def owlvit(kind="OwlViT"):
    text = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "max_position_embeddings": 8}  # fmt: skip
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 64, "patch_size": 16}  # fmt: skip
    config = getattr(t, f"{kind}Config")(text_config=text, vision_config=vision, projection_dim=16)
    images = getattr(t, f"{kind.replace('OWL', 'Owl')}ImageProcessorPil")(size=SIZE)
    return getattr(t, f"{kind}ForObjectDetection")(config), Pair(images, words(length=8))


def owlv2():
    return owlvit("Owlv2")


def grounding_dino():
    swin = t.SwinConfig(
        embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=2, image_size=64,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    text = t.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32,
    )  # fmt: skip
    config = t.GroundingDinoConfig(
        backbone_config=swin, text_config=text, d_model=32, encoder_layers=1, encoder_ffn_dim=16,
        encoder_attention_heads=2, decoder_layers=2, decoder_ffn_dim=16, decoder_attention_heads=2, num_queries=5,
        max_text_len=16, use_pretrained_backbone=False,
    )  # fmt: skip
    images = t.GroundingDinoImageProcessorPil(size={"shortest_edge": 96, "longest_edge": 144})
    return t.GroundingDinoForObjectDetection(config), Pair(images, words(length=32))


class Pair:
    """What of a processor is used: its parts."""

    def __init__(self, image_processor, tokenizer):
        self.image_processor, self.tokenizer = image_processor, tokenizer


def words(length):
    """A tokenizer of a few whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "a", "dog", "cat", "traffic", "light"]
    tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokens.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return t.PreTrainedTokenizerFast(tokenizer_object=tokens, model_max_length=length, **special)


ZERO_SHOT = {make.__name__: make for make in (owlvit, owlv2, grounding_dino)}
DETECTORS = {make.__name__: make for make in (detr, conditional_detr, yolos, rt_detr)}
SEGMENTERS = {make.__name__: make for make in (segformer, mask2former)}
