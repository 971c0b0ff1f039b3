"""SigLIP and SigLIP 2 small enough to run anywhere, saved as checkpoints like the real ones."""

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,' "]


def save(folder, *, naflex=False):
    """(model, processor): tokens are single letters of a text in lower case, padded to the 64 the model has places for.

    The processor is the one a user gets from the folder. As in the published checkpoints, its tokenizer gives no
    attention mask: padding is read like any letter.
    """
    torch.manual_seed(0)
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(["</s>", *LETTERS])}, unk_token="</s>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    settings = {"pad_token": "</s>", "unk_token": "</s>", "padding_side": "right", "model_input_names": ["input_ids"]}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**small, "vocab_size": len(tokenizer), "max_position_embeddings": 64, "bos_token_id": 0,
            "eos_token_id": 0, "pad_token_id": 0}  # fmt: skip
    if naflex:
        vision = {**small, "patch_size": 8, "num_patches": 36}
        model = transformers.Siglip2Model(transformers.Siglip2Config(text_config=text, vision_config=vision))
        images = transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=40)
        together = transformers.Siglip2Processor
    else:
        vision = {**small, "image_size": 64, "patch_size": 16}
        model = transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=vision))
        images = transformers.SiglipImageProcessorPil(size={"height": 64, "width": 64})
        together = transformers.SiglipProcessor
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
        model.logit_scale.fill_(2.0)
        model.logit_bias.fill_(-1.5)
    model.eval().save_pretrained(folder)
    together(images, tokenizer).save_pretrained(folder)
    parts = (transformers.AutoImageProcessor, transformers.AutoTokenizer)
    return model, together(*(part.from_pretrained(folder) for part in parts))
