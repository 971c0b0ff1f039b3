"""Encoder-decoder models of transformers: captioners, readers of text and documents, BLIP and Florence-2.

The answer is a text of the decoder's own. Where the question goes depends on the family: into the encoder (Florence-2,
BLIP for question answering), onto the image as a header (Pix2Struct for question answering), or into the decoder, whose
text then continues it: the task prompt of Donut, the beginning of a caption. The latter need no question.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch

from whymask.errors import WhymaskError, first_line
from whymask.models.dialogue import Context, Dialogue
from whymask.models.generation import AnswerIds
from whymask.models.hf import from_checkpoint, name_of
from whymask.models.image_text import ImageText
from whymask.models.multimodal import check_borrowed, load_module, load_processor, separated
from whymask.models.processing import template_of

QuestionIn = Literal["encoder", "header", "decoder"]
"""Where the question goes."""
MAX_SIDE = 2560
"""Larger images are reduced to this many pixels on their longer side: none of these families sees more."""


class EncoderDecoder(ImageText):
    """A model whose decoder answers, with `decoder_input_ids`."""

    text = "decoder_input_ids"

    def __init__(self, module: Any, processor: Any, *, name: str, **settings: Any) -> None:
        self.question_in: QuestionIn = where_asked(module, processor)
        super().__init__(module, _Asked(processor, self.question_in, self.start(module)), name=name, **settings)
        self._besides["start"] = self.start(module)

    @staticmethod
    def start(module: Any) -> list[int]:
        """What the decoder's texts begin with, as transformers' own generation has it."""
        settings = (module.generation_config, module.config, module.config.get_text_config(decoder=True))

        def first(*names: str) -> list[int]:
            found = (getattr(config, name, None) for name in names for config in settings)
            return [next((int(token) for token in found if token is not None), -1)]

        encoder = getattr(module.config, "encoder", None)
        if encoder is not None and "donut" in encoder.model_type:  # its prompts begin with tokens of their own
            return []
        start, forced = first("decoder_start_token_id", "bos_token_id"), first("forced_bos_token_id")
        return [token for token in (*start, *forced) if token >= 0]

    def dialogue_of(self, processor: Any) -> Dialogue:
        """Answers begin a text, or continue the question; only an encoder's prompts may have a chat template."""
        template = (
            template_of(processor.processor) if self.question_in == "encoder" else SimpleNamespace(chat_template=None)
        )
        return _Decoded(processor.tokenizer, self.name, template, self.question_in)

    def asked(self, question: str | None) -> str:
        """The question; a model whose decoder reads it needs none."""
        return question or "" if self.question_in == "decoder" and self.start(self.module) else super().asked(question)

    def _continued(self, made: dict[str, torch.Tensor], said: AnswerIds) -> dict[str, torch.Tensor]:
        """What was said follows what the decoder starts with; the encoder's inputs stay."""
        return made | {self.text: torch.cat([made[self.text], made[self.text].new_tensor(said)], dim=1)}


class Blip(EncoderDecoder):
    """BLIP for captions or for question answering, whose own forward returns no logits."""

    @staticmethod
    def start(module: Any) -> list[int]:
        """The token with which its own `generate` begins a text."""
        return [module.config.text_config.bos_token_id]

    def ends(self) -> set[int]:
        """The tokens that end an answer; its texts end with the separator token."""
        return super().ends() | {self.module.config.text_config.sep_token_id}

    def _forward(self, batch: dict[str, torch.Tensor], count: int) -> torch.Tensor:
        """The decoder on what the encoder makes of image and question, or on the image itself."""
        hidden = self.module.vision_model(pixel_values=batch["pixel_values"]).last_hidden_state
        if self.question_in == "encoder":
            question = {name: batch[name] for name in ("input_ids", "attention_mask")}
            hidden = self.module.text_encoder(**question, encoder_hidden_states=hidden).last_hidden_state
        logits: torch.Tensor = self.module.text_decoder(
            input_ids=batch[self.text], encoder_hidden_states=hidden, use_cache=False
        ).logits
        return logits[:, -count:]

    def _generated(self, batch: dict[str, torch.Tensor], **options: Any) -> Any:
        """Its `generate` takes the beginning of a caption with one token behind it, and adds its own to an answer's."""
        if self.question_in == "encoder":
            return super()._generated({name: part for name, part in batch.items() if name != self.text}, **options)
        begun = torch.nn.functional.pad(batch[self.text], (0, 1))
        return super()._generated({"pixel_values": batch["pixel_values"], "input_ids": begun}, **options)


class _Decoded(Dialogue):
    """Answers that begin a text of their own, or continue the question."""

    def __init__(self, tokenizer: Any, name: str, template: Any, question_in: QuestionIn) -> None:
        super().__init__(tokenizer, name, template)
        self.question_in = question_in

    def prompt(self, question: str, images: int = 1) -> str:
        """The prompt as text; what is drawn needs no tokens."""
        spoken = self.question_in == "encoder" or (self.question_in == "decoder" and question.strip())
        return super().prompt(question, images) if spoken else self.render(question)

    def context(self, question: str) -> Context:
        """What an answer follows: nothing, or the question, and a space unless it ends with a task token."""
        prompt = self.render(question) if self.question_in == "decoder" else ""
        joined = not prompt or prompt.endswith(tuple(self.tokenizer.get_added_vocab()))
        return Context(prompt if joined else f"{prompt} ", self._tokens(prompt)["input_ids"])

    def _tokens(self, text: str) -> Any:
        return self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)


class _Asked:
    """A processor that puts the question where the family reads it, and gives what the decoder starts with."""

    def __init__(self, processor: Any, question_in: QuestionIn, start: list[int]) -> None:
        self.processor, self.question_in, self.start = processor, question_in, start
        self.tokenizer, self.image_processor = processor.tokenizer, processor.image_processor
        self.image_token = getattr(processor, "image_token", None) if question_in == "encoder" else None

    def __call__(self, text: Sequence[str], images: Sequence[Any], **options: Any) -> dict[str, Any]:
        """Inputs of the encoder, and `decoder_input_ids` (B, T) that an answer follows."""
        words: dict[str, Any] = {} if self.question_in == "decoder" else {"text": list(text)}
        if self.question_in != "encoder":
            options.pop("add_special_tokens", None)
        try:
            made = dict(self.processor(images=list(images), **words, **options))
        except OSError as error:  # Pix2Struct writes questions in a font that transformers downloads
            message = f"the font in which this model reads questions cannot be loaded: {first_line(error)}"
            raise WhymaskError(message) from None
        prompts = text if self.question_in == "decoder" else [""] * len(text)
        begun = [[*self.start, *self.tokenizer(each, add_special_tokens=False)["input_ids"]] for each in prompts]
        return made | {"decoder_input_ids": torch.tensor(begun)}


def where_asked(module: Any, processor: Any) -> QuestionIn:
    """Where a model reads the question."""
    family = module.config.model_type
    if family == "pix2struct":
        return "header" if processor.image_processor.is_vqa else "decoder"
    if family == "blip":
        return "encoder" if hasattr(module, "text_encoder") else "decoder"
    return "decoder" if family == "vision-encoder-decoder" else "encoder"


def check_family(config: Any) -> None:
    """Raise an error for a family that an image and a question are not enough for."""
    if config.model_type == "udop":
        raise WhymaskError(
            "models of the family 'udop' need the words of a page and their positions, which whymask does not give "
            "them: wrap a function that returns the probability of the answer, see docs/extending.md."
        )


class _Pair:
    """An image processor and a tokenizer, where a checkpoint has no processor for both."""

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor, self.tokenizer = image_processor, tokenizer

    def __call__(self, images: Sequence[Any], **options: Any) -> Any:
        """The inputs of images alone."""
        return self.image_processor(images, **options)


def load(checkpoint: str, *, max_side: int | None = MAX_SIDE, **options: Any) -> EncoderDecoder:
    """An encoder-decoder checkpoint; the options are those of `multimodal.load`."""
    import transformers

    config = from_checkpoint(transformers.AutoConfig, checkpoint)
    check_family(config)
    if config.model_type == "vision-encoder-decoder":  # published with processors of many kinds, or none
        parts = (transformers.AutoImageProcessor, transformers.AutoTokenizer)
        processor: Any = _Pair(*(from_checkpoint(part, checkpoint) for part in parts))
    else:
        processor = load_processor(checkpoint)
    placed, options = separated(processor, options, checkpoint)
    answers = "BlipForQuestionAnswering" in (config.architectures or ())
    kind = "AutoModelForVisualQuestionAnswering" if answers else "AutoModelForImageTextToText"
    module = load_module(kind, checkpoint, **placed)
    return _kind(module)(module, processor, name=checkpoint, max_side=max_side, options=options)


def wrap_pair(module: Any, processor: Any, *, max_side: int | None = MAX_SIDE, **options: Any) -> EncoderDecoder:
    """An existing encoder-decoder model with its processor; it is not modified."""
    check_family(module.config)
    name = name_of(module)
    check_borrowed(processor, options, name)
    return _kind(module)(module, processor, name=name, max_side=max_side, options=options, borrowed=True)


def _kind(module: Any) -> type[EncoderDecoder]:
    return Blip if module.config.model_type == "blip" else EncoderDecoder
