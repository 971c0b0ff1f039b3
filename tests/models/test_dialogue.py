import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from whymask import WhymaskError
from whymask.models.base import Target
from whymask.models.dialogue import Dialogue, TokenTexts

from models.tiny_mllm import LLAVA_TEMPLATE, tokenizer

QUESTION = "is there a dog ?"
TURNS = (  # as LLaVA's own: a space before an answer, none after the prompt
    "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
LINES = TURNS.replace("}}: ", "}}:\n").replace("ASSISTANT:", "ASSISTANT:\n")  # as Qwen's own: an answer has its line
STRICT = LLAVA_TEMPLATE.replace("USER", "{% if message['role'] != 'user' %}{{ 1 + '' }}{% endif %}USER")
OPEN = LLAVA_TEMPLATE + " "  # ends with a space, which an answer's first token takes in


def dialogue(bare, template, **special):
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, **special)
    fast.add_special_tokens({"additional_special_tokens": ["<image>"]})
    fast.chat_template = template
    return Dialogue(fast, "small")


def sentencepiece(spaces, template):
    """Llama's way: a space is a part of the word it stands before, or, before a digit, a token of its own."""
    words = ["▁Yes", "Yes", "▁yes", "▁No", "▁a", "▁dog", "▁dogs", "▁u", "mb", "rella", "▁is", "▁there"]
    letters = "▁0123456789:?.\nabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    vocabulary = [("<unk>", 0.0), *((c, -10.0) for c in letters), *((word, -4.0) for word in words)]
    bare = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    if spaces == "normalised":
        bare.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        bare.decoder = decoders.Metaspace()
    else:
        bare.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=spaces, split=False)
        bare.decoder = decoders.Metaspace(prepend_scheme=spaces)
    return dialogue(bare, template, unk_token="<unk>")


SPACES = ("normalised", "always", "first", "never")


def byte_level(template):
    """Qwen's way: a word with a space before it is another token."""
    merges = ["Y e", "Ye s", "Ġ Yes", "y e", "ye s", "u m", "um b", "Ġ umb", "e l", "el l", "Ġumb r", "Ġumbr ell",
              "Ġumbrell a"]  # fmt: skip
    pairs = [tuple(merge.split()) for merge in merges]
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in pairs)]
    bare = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    return dialogue(bare, template)


def spelled(made, answer):
    """The tokens of an answer by position: those that are wanted, or in brackets the one that is only fed."""
    name = made.tokenizer.convert_ids_to_tokens
    fed = [*name(list(answer.forced)), None]
    assert len(answer.forced) == len(answer.wanted) - 1
    return [sorted(name(list(ids))) if ids else f"({one})" for ids, one in zip(answer.wanted, fed, strict=True)]


@pytest.mark.parametrize("spaces", SPACES)
@pytest.mark.parametrize("template", [LLAVA_TEMPLATE, TURNS, STRICT])
def test_a_word_of_several_tokens_is_scored_as_a_whole(spaces, template):
    made = sentencepiece(spaces, template)
    for text, expected in {
        "2": ["(▁)", ["2"]],
        "42": ["(▁)", ["4"], ["2"]],
        "umbrella": [["▁u"], ["mb"], ["rella"]],
        "2 dogs": ["(▁)", ["2"], ["▁dogs"]],
        "[[2]] dogs": ["(▁)", ["2"]],
        "a [[2]]": ["(▁a)", "(▁)", ["2"]],
        "[[42]]": ["(▁)", ["4"], ["2"]],
    }.items():
        answer = made.answer(text, QUESTION)
        assert spelled(made, answer) == expected
        assert answer.target == Target.named(text)


@pytest.mark.parametrize("spaces", SPACES)
@pytest.mark.parametrize("template", [LLAVA_TEMPLATE, TURNS])
def test_a_word_of_one_token_is_all_its_forms_there(spaces, template):
    made = sentencepiece(spaces, template)
    plain = ["Yes"] if spaces == "never" else []  # what this tokenizer makes of "Yes" on its own
    assert spelled(made, made.answer("yes", QUESTION)) == [[*plain, "▁Yes", "▁yes"]]
    assert spelled(made, made.answer("no", QUESTION)) == [["▁No"]]


def test_a_line_of_its_own_has_no_space_before_it():
    made = sentencepiece("first", LINES)
    assert spelled(made, made.answer("2", QUESTION)) == [["2"]]
    assert spelled(made, made.answer("Yes", QUESTION)) == [["Yes", "▁Yes", "▁yes"]]
    below = sentencepiece("first", TURNS.replace("}}: ", "}}:\n"))  # its template says so, its prompt does not
    assert spelled(below, below.answer("2", QUESTION)) == ["(\n)", ["2"]]
    made = byte_level(LINES)
    assert spelled(made, made.answer("umbrella", QUESTION)) == [["umb"], ["r"], ["ell"], ["a"]]
    assert spelled(made, made.answer("Yes", QUESTION)) == [["Yes", "yes", "ĠYes"]]
    assert spelled(made, made.answer("42", QUESTION)) == [["4"], ["2"]]


def test_bytes_after_a_colon():
    made = byte_level(TURNS)
    assert spelled(made, made.answer("umbrella", QUESTION)) == [["Ġumbrella"]]
    assert spelled(made, made.answer("Yes", QUESTION)) == [["Yes", "yes", "ĠYes"]]
    assert spelled(made, made.answer("42", QUESTION)) == ["(Ġ)", ["4"], ["2"]]
    assert spelled(made, made.answer("Yes.", QUESTION)) == [["ĠYes"], ["."]]
    parts = made.answer("é", QUESTION)  # a letter of two bytes
    assert spelled(made, parts) == ["(Ġ)", ["Ã"], ["©"]]


def test_tokens_that_would_swallow_the_end_of_the_prompt():
    """The model is given the prompt's own tokens, so an answer never changes them."""
    for made, space, expected in (
        (byte_level(OPEN), "Ġ", [["umb"], ["r"], ["ell"], ["a"]]),
        (sentencepiece("never", OPEN), "▁", [["u"], ["mb"], ["rella"]]),
        (sentencepiece("always", OPEN), "▁", [["▁u"], ["mb"], ["rella"]]),
    ):
        assert made.around(made.prompt(QUESTION), slot(made))[1][-1] == made.tokenizer.convert_tokens_to_ids(space)
        assert spelled(made, made.answer("umbrella", QUESTION)) == expected
        assert spelled(made, made.answer("2", QUESTION)) == [["2"]]
        assert len(made.answer("Yes", QUESTION).wanted) == 1


def slot(dialogue):
    """The token that the image takes the place of."""
    return dialogue.tokenizer.convert_tokens_to_ids("<image>")


@pytest.fixture(scope="module")
def words():
    fast = tokenizer(["</s>", "<image>"], LLAVA_TEMPLATE)
    return Dialogue(fast, "tiny")


@pytest.fixture(scope="module")
def bytes_():
    """A byte-level BPE, where a word with a space before it is another token."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    text = ["Yes", " Yes", "yes", "a dog on a sofa", "No no", "Yes yes no No"] * 9
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bare.train_from_iterator(text, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bare)
    fast.add_special_tokens({"additional_special_tokens": ["<image>"]})
    fast.chat_template = LLAVA_TEMPLATE
    return Dialogue(fast, "bytes")


def test_the_prompt_is_cut_at_the_image(words):
    before, after = words.around(words.prompt("is there a dog ?"), slot(words))
    assert words.read(list(before)) == "USER :"
    assert words.read(list(after)) == "is there a dog ? ASSISTANT :"


def test_a_word_is_all_its_surface_forms(words, bytes_):
    (forms,) = words.answer("yes", QUESTION).wanted
    assert {TokenTexts(words)[i] for i in forms} == {"Yes", "yes"}
    (yes,), (no,) = (bytes_.answer(word, QUESTION).wanted for word in ("Yes", "No"))
    forms = [bytes_.tokenizer.decode([i]) for i in yes]
    assert {"Yes", " Yes", "yes"} <= set(forms)
    assert {form.strip().lower() for form in forms} == {"yes"}
    assert not set(yes) & set(no)


def test_a_text_is_forced_and_a_marked_word_is_scored_alone(words, bytes_):
    answer = words.answer("a dog on the sofa", QUESTION)
    assert [words.read(list(ids)) for ids in answer.wanted] == ["a", "dog", "on", "the", "sofa"]
    assert words.read(list(answer.forced)) == "a dog on the"
    assert answer.places == (0, 1, 2, 3, 4)
    marked = words.answer("a [[dog]] on the sofa", QUESTION)
    assert [words.read(list(ids)) for ids in marked.wanted] == ["", "dog"]
    assert words.read(list(marked.forced)) == "a"
    assert marked.places == (1,)
    assert marked.text == "a [[dog]] on the sofa"
    assert words.answer("a [[ dog ]] on the sofa", QUESTION).wanted == marked.wanted
    assert bytes_.answer("[[ dog ]]sofa", QUESTION).wanted == bytes_.answer("[[dog]] sofa", QUESTION).wanted
    for wrong in ("a [[ ]] dog", "a [[dog]] on the [[sofa]]"):
        with pytest.raises(WhymaskError, match="mark one word of the answer"):
            words.answer(wrong, QUESTION)
    for wrong in (3.5, True, -1):
        with pytest.raises(WhymaskError, match="must be a whole number"):
            words.token(wrong)
    several = bytes_.answer("a [[sofa]] on", QUESTION)
    assert "".join(bytes_.tokenizer.decode(list(ids)) for ids in several.wanted).strip() == "sofa"
    assert len(several.forced) == len(several.wanted) - 1


def test_what_cannot_be_answered_is_one_clear_sentence(words):
    with pytest.raises(WhymaskError, match="no token for 'doggo' in tiny; did you mean 'dog'"):
        words.answer("doggo", QUESTION)
    with pytest.raises(WhymaskError, match="no token for 'horse'"):
        words.answer("a horse on the sofa", QUESTION)
    with pytest.raises(WhymaskError, match="empty"):
        words.answer("  ", QUESTION)
    with pytest.raises(WhymaskError, match=r"the question 'is there a kat \?' has no token for 'kat' in tiny; did you"):
        words.prompt(" is there a kat ?")
    with pytest.raises(WhymaskError, match="outside the vocabulary"):
        words.token(10_000)
    with pytest.raises(WhymaskError, match="2 slots for the image: leave '<image>' out"):
        words.around(words.prompt("<image> is there a dog ?"), slot(words))
    blind = tokenizer(["</s>", "<image>"], "{{ messages[0]['content'][1]['text'] }}")
    with pytest.raises(WhymaskError, match="0 slots for the image: its chat template must place '<image>'"):
        Dialogue(blind, "blind").around(Dialogue(blind, "blind").prompt("is there a dog ?"), slot(words))


def test_without_a_chat_template_the_question_is_the_prompt():
    plain = Dialogue(tokenizer(["</s>", "<image>"], None), "plain")
    assert plain.prompt("is there a dog ?\n") == "is there a dog ?\n"
    assert len(plain.answer("Yes", QUESTION).wanted) == 1
    assert plain.read(list(plain.answer("a dog", QUESTION).forced)) == "a"
    plain.slot = "<image>"
    assert plain.prompt("is there a dog ?") == plain.prompt("<image>is there a dog ?") == "<image>is there a dog ?"
