"""A CLIP small enough to run anywhere, saved as a checkpoint like the real ones."""

import json

import torch
import transformers


def save(folder):
    """(model, tokenizer): its texts and images point in different directions, its tokens are single letters."""
    torch.manual_seed(0)
    letters = [*"abcdefghijklmnopqrstuvwxyz.,'"]
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**small, "vocab_size": len(vocabulary), "max_position_embeddings": 40, "eos_token_id": len(vocabulary) - 1,
            "bos_token_id": len(vocabulary) - 2, "pad_token_id": len(vocabulary) - 1}  # fmt: skip
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**small, "image_size": 64, "patch_size": 16}, projection_dim=16,
        logit_scale_init_value=1.0,
    )  # fmt: skip
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    for part in (model, tokenizer, processor):
        part.save_pretrained(folder)
    return model, tokenizer
