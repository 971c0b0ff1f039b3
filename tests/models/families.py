"""Tiny random checkpoints of transformers' image-text-to-text families, and what each family's own code computes.

`FAMILIES[model_type].save(folder)` writes a checkpoint folder as a real one is: configuration, weights, tokenizer,
processor and chat template. `stock(folder, image, question)` is the reference that other code is compared with: the
family's own processor, then one forward of the family's own model.
"""

import json
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES
from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

from models.family_parts import DROPPED, SIZES
from models.family_table import TABLE

# Families without a tiny checkpoint here, and why.
ABSENT = {
    "diffusion_gemma": "it generates by diffusion of blocks, not token by token",
    "evolla": "its input is a protein, not an image",
    "fuyu": "its processor counts on the leading space of a sentencepiece tokenizer",
    "gemma3n": "its vision tower, the MobileNet-V5 of timm, has not been tried at a small size",
    "instructblipvideo": "its input is a video, not an image",
    "mistral4": "it is a language model without a vision tower",
    "pi0": "its output is a robot's actions, not text",
    "udop": "it needs the words and boxes of a text recognition beside the image",
}
WORDS = "Is there a dog cat sofa on the in image ? Yes No yes no what do you see it . , : red blue two User Assistant"


@dataclass(frozen=True)
class Family:
    """One model type: what its tiny checkpoint has that the others have not."""

    model_type: str
    tokens: dict[str, Any] = field(default_factory=dict)  # its special tokens by attribute: {"image_token": "<image>"}
    config: dict[str, Any] = field(default_factory=dict)  # on top of SIZES; texts under *_token_id are tokens
    processor: dict[str, Any] | None = field(default_factory=dict)  # None: the family has an image processor only
    image: dict[str, Any] = field(default_factory=dict)
    video: dict[str, Any] = field(default_factory=dict)
    chat: str | None = None  # the chat template
    prompt: str | None = "{question}"  # where there is no chat template; None: its processor writes the whole prompt
    options: dict[str, Any] = field(default_factory=dict)  # what its processor has to be asked for
    bos: bool = False  # whether its tokenizer starts a text with the bos token

    def tokenizer(self) -> transformers.PreTrainedTokenizerFast:
        return tokenizer(self.tokens, self.bos)

    def configuration(self) -> transformers.PreTrainedConfig:
        words = self.tokenizer()
        kind = transformers.CONFIG_MAPPING[self.model_type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            default = {} if getattr(kind, "has_no_defaults_at_init", False) else kind().to_dict()
            tiny = merged(shrunk(default, words, self.tokens), named(self.config, words))
            return kind(**tiny)

    def save(self, folder: Path) -> Path:
        """Write the checkpoint."""
        torch.manual_seed(0)
        words = self.tokenizer()
        module = transformers.AutoModelForImageTextToText.from_config(self.configuration())
        awaken(module)
        module.save_pretrained(folder)
        if self.chat:
            words.chat_template = self.chat
        words.save_pretrained(folder)
        self._describe(Path(folder))
        return Path(folder)

    def _describe(self, folder: Path) -> None:
        """The files that processors are loaded from, written as the hub has them: no processor class is imported."""
        class_ = PROCESSOR_MAPPING_NAMES.get(self.model_type)
        own = {} if self.processor is None else {"processor_class": class_, **self.processor}
        backends = IMAGE_PROCESSOR_MAPPING_NAMES.get(self.model_type) or {}
        image = {"image_processor_type": backends.get("torchvision") or backends.get("pil"), **self.image}
        video = VIDEO_PROCESSOR_MAPPING_NAMES.get(self.model_type) or {}
        video = {"torchvision": video} if isinstance(video, str) else video  # as transformers had it before 5.19
        files = {"processor_config.json": own, "preprocessor_config.json": {**own, **image}}
        if video or self.video:
            files["video_preprocessor_config.json"] = {"video_processor_type": video.get("torchvision"), **self.video}
        for name, content in files.items():
            if content:
                (folder / name).write_text(json.dumps(content, indent=1))


@cache
def bare() -> Tokenizer:
    """Byte-level BPE: every text can be written, the words above are one token each."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=sorted(alphabet), show_progress=False)
    made.train_from_iterator([f"{word} {word}" for word in WORDS.split()] * 2, trainer)
    return made


def tokenizer(tokens: dict[str, Any], bos: bool = False) -> transformers.PreTrainedTokenizerFast:
    """The tokenizer with a family's special tokens."""
    usual = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(bare().to_str()),
        **{name: tokens.get(name, token) for name, token in usual.items()},
    )
    special(words, {name: token for name, token in tokens.items() if name not in usual})
    if bos:
        words.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{words.bos_token} $A", special_tokens=[(words.bos_token, words.bos_token_id)]
        )
    return words


def special(words: Any, tokens: dict[str, Any]) -> Any:
    """The same tokenizer with a family's special tokens, those under "plain" without a name of their own."""
    own = {name: token for name, token in tokens.items() if name != "plain"}
    words.add_special_tokens({"extra_special_tokens": list(dict.fromkeys([*own.values(), *tokens.get("plain", ())]))})
    words.init_kwargs["extra_special_tokens"] = own
    words._set_model_specific_special_tokens(special_tokens=own)
    return words


def shrunk(config: dict[str, Any], words: Any, tokens: dict[str, Any]) -> dict[str, Any]:
    """A family's default configuration with the sizes of SIZES, and the ids of this tokenizer."""
    small: dict[str, Any] = {}
    for key, value in config.items():
        role = str(key).removesuffix("_id").removesuffix("_index")
        if key in DROPPED or key in ("transformers_version", "_name_or_path", "architectures"):
            continue
        if isinstance(value, dict):
            small[key] = shrunk(value, words, tokens)
        elif key == "vocab_size":
            small[key] = len(words)
        elif role != key and role in tokens:
            small[key] = words.convert_tokens_to_ids(tokens[role])
        elif role in ("bos_token", "eos_token", "pad_token", "decoder_start_token"):
            small[key] = {"bos": words.bos_token_id, "eos": words.eos_token_id}.get(role[:3], words.pad_token_id)
        else:
            small[key] = SIZES[key] if key in SIZES and type(value) is type(SIZES[key]) else value
    return small


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries are merged key by key, but one that names another model type replaces what was there."""
    out = dict(config)
    for key, value in changes.items():
        old = out.get(key)
        nested = isinstance(value, dict) and isinstance(old, dict) and "model_type" not in value
        out[key] = merged(old, value) if nested else value
    return out


def named(config: dict[str, Any], words: Any) -> dict[str, Any]:
    """Replace the tokens named in a configuration by their ids, and fill in the sub-models named by their type."""
    out: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and "model_type" in value:
            default = transformers.CONFIG_MAPPING[value["model_type"]]().to_dict()
            out[key] = merged(
                shrunk(default, words, {}), named({k: v for k, v in value.items() if k != "model_type"}, words)
            )
        elif key == "vocabulary_map":
            out[key] = {token: words.convert_tokens_to_ids(token) for token in value}
        elif isinstance(value, dict):
            out[key] = named(value, words)
        elif isinstance(value, str | list) and key.endswith(("_id", "_index", "_token_ids")):
            out[key] = words.convert_tokens_to_ids(value)
        else:
            out[key] = value
    return out


def awaken(module: torch.nn.Module) -> None:
    """Weights by which the answer depends on the image: none are zero, outputs are about as large as inputs."""
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.is_floating_point():
                continue
            if parameter.ndim >= 2:
                fan = parameter[0].numel() if parameter.ndim > 3 else parameter.shape[-1]
                parameter.normal_(0, fan**-0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)


def load_processor(folder: Path) -> Any:
    """The family's processor; where only its video processor needs a missing torchvision, without that."""
    described = Path(folder) / "processor_config.json"
    if not described.exists():
        return transformers.AutoImageProcessor.from_pretrained(folder)
    name = json.loads(described.read_text())["processor_class"]
    try:
        return transformers.AutoProcessor.from_pretrained(folder)
    except (ImportError, ValueError):
        kind = getattr(transformers, name)
        if "video_processor" not in kind.get_attributes():
            raise
    still = type(name, (kind,), {"check_argument_for_proper_class": lambda self, name, part: type(part)})
    parts = {
        "image_processor": transformers.AutoImageProcessor.from_pretrained(folder),
        "tokenizer": transformers.AutoTokenizer.from_pretrained(folder),
    }
    settings, _ = kind.get_processor_dict(folder)
    return still.from_args_and_dict([parts.get(part) for part in kind.get_attributes()], settings)


def inputs(processor: Any, image: Any, question: str, family: Family) -> dict[str, Any]:
    """What the family's own processor makes of one image and a question."""
    if family.chat:
        content = [{"type": "image", "image": image}, {"type": "text", "text": question}]
        made = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True, return_dict=True,
            return_tensors="pt", processor_kwargs=family.options,
        )  # fmt: skip
    else:
        text = {} if family.prompt is None else {"text": family.prompt.format(question=question)}
        made = processor(images=image, **text, return_tensors="pt", **family.options)
    return dict(made.to(torch.float32))


def prepared(module: Any, processor: Any, image: Any, question: str, family: Family | None = None) -> dict[str, Any]:
    """What the family's own model is called with for one image and a question."""
    made = inputs(processor, image, question, family or FAMILIES[module.config.model_type])
    if module.config.is_encoder_decoder and "decoder_input_ids" not in made:
        made["decoder_input_ids"] = torch.tensor([[start_token(module)]])
    return made


def stock(folder: Path, image: Any, question: str) -> torch.Tensor:
    """(T, vocabulary) log-probabilities after each token of the prompt, or of the decoder's where there is one."""
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = module(**prepared(module, load_processor(folder), image, question)).logits
    return torch.log_softmax(logits[0].float(), dim=-1)


def start_token(module: Any) -> int:
    """The token that the decoder's answers start with, as `generate` chooses it."""
    settings = (module.generation_config, module.config, module.config.get_text_config(decoder=True))
    for name in ("decoder_start_token_id", "bos_token_id"):
        for config in settings:
            if getattr(config, name, None) is not None:
                return int(getattr(config, name))
    raise ValueError("the configuration names no token that answers start with")


FAMILIES = {model_type: Family(model_type, **row) for model_type, row in TABLE.items()}
