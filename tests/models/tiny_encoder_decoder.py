"""Encoder-decoder families small enough to run anywhere, saved as checkpoints like the real ones."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

WORDS = "Is there a dog cat on the sofa in image ? Yes No yes no what do you see picture of . red blue"
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DECODER = {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
SIZE = {"height": 32, "width": 32}
TASK = ("<s_vqa>", "<s_answer>")


def tokenizer(*special, wrapped=True):
    """Byte-level BPE, by which every text can be written; the words above are a token each."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([f"{word} {word}" for word in WORDS.split()] * 2, trainer)
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **roles)
    words.add_special_tokens({"extra_special_tokens": list(special)})
    if wrapped:
        ends = [(words.bos_token, words.bos_token_id), (words.eos_token, words.eos_token_id)]
        made = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
        words.backend_tokenizer.post_processor = made
    return words


def ids(words, start="bos"):
    """The special tokens of a configuration."""
    named = {f"{role}_token_id": getattr(words, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    return {**named, "vocab_size": len(words), "decoder_start_token_id": getattr(words, f"{start}_token_id")}


def reader(words, encoder=None):
    """TrOCR: a ViT and a decoder, which reads no question."""
    decoder = transformers.TrOCRConfig(
        **DECODER, **ids(words), use_cache=False, is_decoder=True, add_cross_attention=True
    )
    encoder = encoder or transformers.ViTConfig(**VISION)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = words.bos_token_id, words.pad_token_id
    config.eos_token_id = words.eos_token_id
    return transformers.VisionEncoderDecoderModel(config)


def trocr():
    words = tokenizer()
    return reader(words), transformers.ViTImageProcessorPil(size=SIZE), words, None


def donut():
    words = tokenizer(*TASK)
    encoder = transformers.DonutSwinConfig(
        image_size=[32, 32], patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
    )
    images = transformers.DonutImageProcessorPil(size=SIZE)
    return reader(words, encoder), images, words, transformers.DonutProcessor


def pix2struct(is_vqa=False):
    words = tokenizer(wrapped=False)
    text = {"hidden_size": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, **ids(words, "pad")}
    vision = {"hidden_size": 32, "patch_embed_hidden_size": 192, "d_ff": 48, "d_kv": 8, "num_hidden_layers": 2,
              "num_attention_heads": 4}  # fmt: skip
    config = transformers.Pix2StructConfig(text_config=text, vision_config=vision, is_vqa=is_vqa)
    for name, token in ids(words, "pad").items():
        setattr(config, name, token)
    images = transformers.Pix2StructImageProcessorPil(
        patch_size={"height": 8, "width": 8}, max_patches=20, is_vqa=is_vqa
    )
    return transformers.Pix2StructForConditionalGeneration(config), images, words, transformers.Pix2StructProcessor


def vqa():
    return pix2struct(is_vqa=True)


def florence2():
    words = tokenizer("<image>")
    words.init_kwargs["extra_special_tokens"] = {"image_token": "<image>"}
    words._set_model_specific_special_tokens(special_tokens={"image_token": "<image>"})
    text = {"model_type": "bart", "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, **ids(words, "eos"),
            "forced_bos_token_id": words.bos_token_id}  # fmt: skip
    vision = {"depths": [1, 1, 1, 1], "embed_dim": [8, 16, 16, 32], "num_heads": [1, 1, 1, 2],
              "num_groups": [1, 1, 1, 2], "window_size": 2, "projection_dim": 32}  # fmt: skip
    config = transformers.Florence2Config(
        text_config=text, vision_config=vision, image_token_id=words.image_token_id, **ids(words, "eos")
    )
    module = transformers.Florence2ForConditionalGeneration(config)
    module.generation_config.forced_bos_token_id = words.bos_token_id
    images = transformers.CLIPImageProcessorPil(size=SIZE, crop_size=SIZE, image_seq_length=2)
    images.image_seq_length = 2
    return module, images, words, transformers.Florence2Processor


def blip(kind=transformers.BlipForConditionalGeneration):
    words = tokenizer()
    text = {**SMALL, **ids(words), "encoder_hidden_size": 32, "sep_token_id": words.eos_token_id,
            "max_position_embeddings": 64, "hidden_act": "gelu"}  # fmt: skip
    module = kind(transformers.BlipConfig(text_config=text, vision_config=VISION))
    return module, transformers.BlipImageProcessorPil(size=SIZE), words, transformers.BlipProcessor


def blip_vqa():
    return blip(transformers.BlipForQuestionAnswering)


FAMILIES = {build.__name__: build for build in (trocr, donut, pix2struct, vqa, florence2, blip, blip_vqa)}


def save(name, folder):
    """Write the checkpoint of a family; its answers depend on the image."""
    torch.manual_seed(0)
    module, images, words, together = FAMILIES[name]()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, parameter[0].numel() ** -0.5)
    module.eval().save_pretrained(folder)
    for part in (images, words) if together is None else (together(images, words),):
        part.save_pretrained(folder)
    return folder
