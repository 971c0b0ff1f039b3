"""What the tiny checkpoint of each image-text-to-text family has that the others have not."""

from typing import Any

# Sizes by the names that configurations give them: widths that must agree are all 32.
SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ["hidden_size", "d_model", "embed_dim", "projection_dim", "out_hidden_size", "text_hidden_size", "output_dim",
         "vision_hidden_size", "encoder_hidden_size", "projector_hidden_size", "word_embed_proj_dim",
         "image_text_hidden_size", "projection_hidden_size", "patch_embed_hidden_size", "lm_hidden_size"], 32),
    **dict.fromkeys(
        ["intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "mlp_dim",
         "moe_intermediate_size", "shared_expert_intermediate_size", "dense_intermediate_size"], 48),
    **dict.fromkeys(
        ["num_hidden_layers", "depth", "encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers",
         "n_layers", "layers", "num_attention_heads", "num_heads", "attention_heads", "num_key_value_heads",
         "encoder_attention_heads", "decoder_attention_heads", "num_experts_per_tok", "moe_topk",
         "cross_attention_frequency"], 2),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4),
    **dict.fromkeys(["n_group", "topk_group", "first_k_dense_replace", "n_shared_experts"], 1),
    **dict.fromkeys(["head_dim", "d_kv"], 16),
    "image_size": 56, "patch_size": 14, "max_position_embeddings": 1024, "mrope_section": [2, 3, 3],
    "deepstack_visual_indexes": [0, 1], "fullatt_block_indexes": [1], "global_attn_indexes": [1],
}  # fmt: skip
# Follow from the sizes, so the configuration makes them again.
DROPPED = {
    "layer_types",
    "mlp_layer_types",
    "no_rope_layers",
    "id2label",
    "label2id",
    "num_labels",
    "query_pre_attn_scalar",
}


def chat(image: str, user: str, assistant: str, end: str = "", start: str = "") -> str:
    """A chat template: parts in the order they come in, turns opened by role."""
    return (
        start + "{% for message in messages %}"
        f"{{% if message['role'] == 'assistant' %}}{assistant}{{% else %}}{user}{{% endif %}}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
        f"{{% if part['type'] == 'image' %}}{image}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}"
        f"{{% endfor %}}{{% endif %}}{end}{{% endfor %}}{{% if add_generation_prompt %}}{assistant}{{% endif %}}"
    )


def chatml(image: str) -> str:
    return chat(image, "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n")


LLAVA = chat("<image>\n", "USER: ", " ASSISTANT:")
SQUARE = {"height": 56, "width": 56}
CROP = {"size": {"shortest_edge": 56}, "crop_size": SQUARE}
CHATML = ["<|im_start|>", "<|im_end|>"]
GRID = {"patch_size": 14, "merge_size": 2, "size": {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}}
QWEN: dict[str, Any] = {
    "tokens": {"eos_token": "<|im_end|>", "image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
               "vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>", "plain": CHATML},
    "chat": chatml("<|vision_start|><|image_pad|><|vision_end|>"), "image": GRID, "video": GRID,
}  # fmt: skip
IDEFICS3: dict[str, Any] = {
    "tokens": {"eos_token": "<end_of_utterance>", "image_token": "<image>", "global_image_token": "<global-img>",
               "fake_image_token": "<fake_token_around_image>",
               "plain": [f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2)]},
    "chat": chat("<image>", "User:", "Assistant:", "<end_of_utterance>\n"), "processor": {"image_seq_len": 4},
    "image": {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}, "config": {"scale_factor": 2},
}  # fmt: skip
MROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
GLM: dict[str, Any] = {
    "tokens": {"image_token": "<|image|>", "video_token": "<|video|>", "image_start_token": "<|begin_of_image|>",
               "image_end_token": "<|end_of_image|>", "video_start_token": "<|begin_of_video|>",
               "video_end_token": "<|end_of_video|>", "plain": ["[gMASK]", "<sop>", "<|user|>", "<|assistant|>"]},
    "chat": chat("<|begin_of_image|><|image|><|end_of_image|>", "<|user|>\n", "<|assistant|>\n", "", "[gMASK]<sop>"),
    "image": GRID, "video": GRID,
    "config": {"text_config": {"rope_parameters": {**MROPE, "partial_rotary_factor": 1.0}},
               "vision_config": {"image_size": 112}},
}  # fmt: skip

TABLE: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {**QWEN, "config": {"text_config": {"rope_parameters": MROPE}, "vision_config": {"window_size": 56}}},
    "qwen2_vl": {**QWEN, "config": {"text_config": {"rope_parameters": MROPE}}},
    "qwen3_vl": {
        **QWEN,
        "config": {"text_config": {"rope_parameters": MROPE}, "vision_config": {"num_position_embeddings": 64}},
    },
    "llava": {
        "tokens": {"image_token": "<image>"}, "chat": LLAVA, "image": CROP,
        "processor": {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    },
    "internvl": {
        "tokens": {"eos_token": "<|im_end|>", "context_image_token": "<IMG_CONTEXT>", "start_image_token": "<img>",
                   "end_image_token": "</img>", "video_token": "<video>", "plain": CHATML},
        "config": {"image_token_id": "<IMG_CONTEXT>", "vision_config": {"image_size": [56, 56], "patch_size": [14, 14]},
                   "image_seq_length": 4},
        "chat": chatml("<IMG_CONTEXT>\n"), "processor": {"image_seq_length": 4},
        "image": {"size": SQUARE, "crop_to_patches": True, "min_patches": 1, "max_patches": 4},
        "video": {"size": SQUARE},
    },
    "gemma3": {
        "tokens": {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
                   "plain": ["<start_of_turn>", "<end_of_turn>"]},
        "config": {"mm_tokens_per_image": 4}, "bos": True,
        "chat": chat("<start_of_image>", "<start_of_turn>user\n", "<start_of_turn>model\n", "<end_of_turn>\n"),
        "processor": {"image_seq_length": 4}, "image": {"size": SQUARE},
    },
    "paligemma": {
        "tokens": {"image_token": "<image>"}, "prompt": "<image>answer en {question}\n", "bos": True,
        "image": {"size": SQUARE, "image_seq_length": 16},
    },
    "idefics3": IDEFICS3,
    "smolvlm": {**IDEFICS3, "video": IDEFICS3["image"]},
    "llava_next": {
        "tokens": {"image_token": "<image>"}, "chat": chat("<image>\n", "[INST] ", " [/INST]"),
        "image": {**CROP, "image_grid_pinpoints": [[56, 112], [112, 56], [112, 112]]},
        "config": {"image_grid_pinpoints": [[56, 112], [112, 56], [112, 112]]},
        "processor": {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    },
    "llava_onevision": {
        "tokens": {"eos_token": "<|im_end|>", "image_token": "<image>", "video_token": "<video>", "plain": CHATML},
        "chat": chatml("<image>\n"), "video": {"size": SQUARE},
        "image": {"size": SQUARE, "image_grid_pinpoints": [[56, 56], [56, 112], [112, 56], [112, 112]]},
        "config": {"image_grid_pinpoints": [[56, 56], [56, 112], [112, 56], [112, 112]]},
        "processor": {"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
    },
    "mistral3": {
        "tokens": {"image_token": "[IMG]", "plain": ["[IMG_BREAK]", "[IMG_END]", "[INST]", "[/INST]"]}, "bos": True,
        "chat": chat("[IMG]", "[INST]", "[/INST]"), "processor": {"patch_size": 14, "spatial_merge_size": 2},
        "image": {"size": {"longest_edge": 112}, "patch_size": 28},
        "config": {"vision_config": {"image_size": 112}},
    },
    "glm4v": GLM,
    "blip-2": {
        "tokens": {"plain": ["<image>"]}, "prompt": "Question: {question} Answer:", "bos": True,
        "image": {"size": SQUARE}, "processor": {"num_query_tokens": 4},
        "config": {"num_query_tokens": 4, "image_token_index": "<image>"},
    },
    "florence2": {
        "tokens": {"image_token": "<image>"}, "bos": True,
        "image": {"size": SQUARE, "crop_size": SQUARE, "image_seq_length": 5},
        "config": {"vision_config": {"depths": [1, 1, 1, 1], "embed_dim": [8, 16, 16, 32], "num_heads": [1, 1, 1, 2],
                                     "num_groups": [1, 1, 1, 2], "window_size": 4}},
    },
    "pix2struct": {
        "image": {"is_vqa": False, "max_patches": 16, "patch_size": {"height": 8, "width": 8}},
        "config": {"vision_config": {"patch_embed_hidden_size": 192}},
    },
    "vision-encoder-decoder": {
        "processor": None, "image": {"image_processor_type": "ViTImageProcessor", "size": SQUARE},
        "config": {"decoder_start_token_id": "<s>"},
    },
}  # fmt: skip
