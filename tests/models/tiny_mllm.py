"""Multimodal models small enough to run anywhere, saved as checkpoints like the real ones."""

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = "is there a dog cat sofa on the in image ? Yes No yes no what do you see it . USER : ASSISTANT"
QWEN_TEMPLATE = (
    "<|im_start|>you see the image<|im_end|><|im_start|>"
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}<|im_end|><|im_start|>"
)
LLAVA_TEMPLATE = (
    "{% for message in messages %}USER: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %} ASSISTANT:"
)


def tokenizer(specials, template):
    vocabulary = {word: i for i, word in enumerate(["<unk>", *WORDS.split()])}
    bare = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="<unk>", eos_token=specials[0])
    words.add_special_tokens({"additional_special_tokens": list(specials)})
    words.chat_template = template
    return words


def qwen():
    """(module, image processor, tokenizer) of the Qwen2.5-VL architecture; windows of 2 x 2 image tokens."""
    words = tokenizer(["<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"],
                      QWEN_TEMPLATE)  # fmt: skip
    torch.manual_seed(0)
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "vocab_size": len(words), "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
            "bos_token_id": None, "eos_token_id": words.eos_token_id,
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 36, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1],
        },
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        vision_start_token_id=words.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=words.convert_tokens_to_ids("<|vision_end|>"),
    )  # fmt: skip
    processor = transformers.Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, size={"shortest_edge": 256, "longest_edge": 4096}
    )
    return sharpened(transformers.Qwen2_5_VLForConditionalGeneration(config)), processor, words


def llava():
    """(module, image processor, tokenizer) of the LLaVA-1.5 architecture."""
    words = tokenizer(["</s>", "<image>"], LLAVA_TEMPLATE)
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
            vocab_size=len(words), max_position_embeddings=512, bos_token_id=None, eos_token_id=words.eos_token_id,
        ),
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=32,
            patch_size=8, projection_dim=16,
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2, vision_feature_select_strategy="default",
    )  # fmt: skip
    processor = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_mean=[0.48, 0.46, 0.41]
    )
    return sharpened(transformers.LlavaForConditionalGeneration(config)), processor, words


def sharpened(module):
    """Random weights answer almost evenly: make them care what they see."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(4)
    return module.eval()


def save(parts, folder):
    """A checkpoint folder as the real ones are."""
    for part in parts:
        part.save_pretrained(folder)
    return folder
