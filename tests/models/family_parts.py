"""What the tiny checkpoints of several image-text-to-text families share: sizes, chat templates, processors."""

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
    **dict.fromkeys(["linear_num_key_heads", "linear_num_value_heads", "moe_k"], 2),
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim", "v_head_dim", "index_head_dim"], 16),
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
    "kv_source_layers",
    "indexer_types",
    "per_layer_config",
    "layer_rope_theta",
    "rope_scaling_layers",
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

GEMMA: dict[str, Any] = {
    "tokens": {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
               "plain": ["<start_of_turn>", "<end_of_turn>"]},
    "config": {"mm_tokens_per_image": 4}, "bos": True, "processor": {"image_seq_length": 4}, "image": {"size": SQUARE},
    "chat": chat("<start_of_image>", "<start_of_turn>user\n", "<start_of_turn>model\n", "<end_of_turn>\n"),
}  # fmt: skip
INTERN: dict[str, Any] = {
    "tokens": {"eos_token": "<|im_end|>", "context_image_token": "<IMG_CONTEXT>", "start_image_token": "<img>",
               "end_image_token": "</img>", "video_token": "<video>", "plain": CHATML},
    "config": {"image_token_id": "<IMG_CONTEXT>", "vision_config": {"image_size": [56, 56], "patch_size": [14, 14]},
               "image_seq_length": 4},
    "chat": chatml("<IMG_CONTEXT>\n"), "processor": {"image_seq_length": 4}, "video": {"size": SQUARE},
    "image": {"size": SQUARE, "crop_to_patches": True, "min_patches": 1, "max_patches": 4},
}  # fmt: skip
PIXTRAL: dict[str, Any] = {
    "tokens": {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]",
               "plain": ["[INST]", "[/INST]"]}, "bos": True,
    "chat": chat("[IMG]", "[INST]", "[/INST]"), "processor": {"patch_size": 14, "spatial_merge_size": 2},
    "image": {"size": {"longest_edge": 112}, "patch_size": 28},
    "config": {"vision_config": {"image_size": 112}},
}  # fmt: skip
PINPOINTS = {"image_grid_pinpoints": [[56, 112], [112, 56], [112, 112]]}
ANYRES: dict[str, Any] = {
    "tokens": {"image_token": "<image>", "video_token": "<video>"}, "chat": chat("<image>\n", "[INST] ", " [/INST]"),
    "image": {**CROP, **PINPOINTS}, "config": PINPOINTS, "video": CROP,
    "processor": {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
}  # fmt: skip
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "rope_parameters": {**MROPE, "mrope_section": [2, 1, 1], "mrope_interleaved": True, "partial_rotary_factor": 0.5},
}
VQ = {
    "base_channels": 32,
    "channel_multiplier": [1, 1, 1, 1],
    "num_res_blocks": 1,
}  # 1/8 of the image's height and width
CODES = [
    f"IMGIMG{'ABC'[i // 10]}{'ABCDEFGHIJ'[i % 10]}Z" for i in range(26)
]  # Chameleon's names for the codes of its image tokenizer
MINICPM: dict[str, Any] = {
    "tokens": {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>", "image_start_token": "<image>",
               "image_end_token": "</image>", "slice_start_token": "<slice>", "slice_end_token": "</slice>",
               "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>", "plain": CHATML},
    "chat": chatml("<|image_pad|>\n"), "image": {"scale_resolution": 112, "max_slice_nums": 2, "patch_size": 14},
    "video": {"scale_resolution": 112, "max_slice_nums": 2, "patch_size": 14},
    "config": {"insert_layer_id": 0, "image_size": 112, "image_token_id": "<|image_pad|>",
               "video_token_id": "<|video_pad|>",
               "text_config": LINEAR, "vision_config": {"insert_layer_id": 0, "image_size": 112}},
}  # fmt: skip
OMNI: dict[str, Any] = {
    **QWEN, "tokens": {"eos_token": "<|im_end|>", "image_token": "<|IMAGE|>", "audio_token": "<|AUDIO|>",
                       "video_token": "<|VIDEO|>", "vision_bos_token": "<|vision_bos|>",
                       "vision_eos_token": "<|vision_eos|>",
                       "audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>", "plain": CHATML},
    "chat": chatml("<|vision_bos|><|IMAGE|><|vision_eos|>"), "processor": {"processor_class": "Qwen2_5OmniProcessor"},
    "image": {**GRID, "image_processor_type": "Qwen2VLImageProcessor",
               "feature_extractor_type": "WhisperFeatureExtractor"},
    "video": {**GRID, "video_processor_type": "Qwen2VLVideoProcessor"},
    "config": {"text_config": {"rope_parameters": MROPE}, "vision_start_token_id": "<|vision_bos|>",
               "vision_end_token_id": "<|vision_eos|>"},
}  # fmt: skip
MUSE: dict[str, Any] = {
    "tokens": {"image_token": "<|patch|>", "video_token": "<|video|>",
               "plain": ["<|image_start|>", "<|image_end|>", "<|vid_frame_separator|>", "<|vid_start|>", "<|vid_end|>",
                         *CHATML]},
    "chat": chatml("<|patch|>"), "image": GRID, "video": GRID,
    "config": {"out_hidden_size": 128, "vision_config": {"pos_emb_height": 8, "pos_emb_width": 8}},
}  # fmt: skip
GEMMA4: dict[str, Any] = {
    **GEMMA, "tokens": {**GEMMA["tokens"], "audio_token": "<audio>", "boa_token": "<boa>", "eoa_token": "<eoa>",
                        "video_token": "<|video|>"},
    "chat": chat("<image_soft_token>", "<start_of_turn>user\n", "<start_of_turn>model\n", "<end_of_turn>\n"),
    "image": {"patch_size": 14, "max_soft_tokens": 70}, "processor": {"image_seq_length": 70},
    "config": {"text_config": {"layer_types": ["sliding_attention", "full_attention"]}},
}  # fmt: skip
SAM_OCR: dict[str, Any] = {
    "tokens": {"image_token": "<image>"}, "prompt": "<image>\n{question}", "bos": True,
    "config": {"vision_config": {"sam_config": {"image_size": 1024, "patch_size": 16, "output_channels": 16,
                                                "downsample_channels": [16, 32]}}},
}  # fmt: skip
