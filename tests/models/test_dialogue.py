import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from whymask import WhymaskError
from whymask.models.dialogue import Dialogue, TokenTexts

from models.tiny_mllm import LLAVA_TEMPLATE, tokenizer


@pytest.fixture(scope="module")
def words():
    fast = tokenizer(["</s>", "<image>"], LLAVA_TEMPLATE)
    return Dialogue(fast, fast.convert_tokens_to_ids("<image>"), "tiny")


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
    return Dialogue(fast, fast.convert_tokens_to_ids("<image>"), "bytes")


def test_the_prompt_is_cut_at_the_image(words):
    before, after = words.prompt("is there a dog ?")
    assert words.read(list(before)) == "USER :"
    assert words.read(list(after)) == "is there a dog ? ASSISTANT :"


def test_a_word_is_all_its_surface_forms(words, bytes_):
    assert {TokenTexts(words)[i] for i in words.word("yes")} == {"Yes", "yes"}
    forms = [bytes_.tokenizer.decode([i]) for i in bytes_.word("Yes")]
    assert {"Yes", " Yes", "yes"} <= set(forms)
    assert {form.strip().lower() for form in forms} == {"yes"}
    assert not set(bytes_.word("Yes")) & set(bytes_.word("No"))
    assert bytes_.answer("Yes").wanted == (bytes_.word("Yes"),)


def test_a_word_of_several_tokens_counts_by_its_first_as_typed(bytes_):
    (only,) = bytes_.word("Qed")[:1]
    assert bytes_.tokenizer.decode([only]).strip() in ("", "Q")
    assert len(bytes_.word("Qed")) <= 2


def test_a_text_is_forced_and_a_marked_word_is_scored_alone(words, bytes_):
    answer = words.answer("a dog on the sofa")
    assert [words.read(list(ids)) for ids in answer.wanted] == ["a", "dog", "on", "the", "sofa"]
    assert words.read(list(answer.forced)) == "a dog on the"
    assert answer.scored == 5
    marked = words.answer("a [[dog]] on the sofa")
    assert [words.read(list(ids)) for ids in marked.wanted] == ["", "dog"]
    assert words.read(list(marked.forced)) == "a"
    assert marked.text == "a [[dog]] on the sofa"
    assert words.answer("a [[ dog ]] on the sofa").wanted == marked.wanted
    assert bytes_.answer("[[ dog ]]sofa").wanted == bytes_.answer("[[dog]] sofa").wanted
    for wrong in ("a [[ ]] dog", "a [[dog]] on the [[sofa]]"):
        with pytest.raises(WhymaskError, match="mark one word of the answer"):
            words.answer(wrong)
    for wrong in (3.5, True, -1):
        with pytest.raises(WhymaskError, match="must be a whole number"):
            words.token(wrong)
    several = bytes_.answer("a [[sofa]] on")
    assert "".join(bytes_.tokenizer.decode(list(ids)) for ids in several.wanted).strip() == "sofa"
    assert len(several.forced) == len(several.wanted) - 1


def test_what_cannot_be_answered_is_one_clear_sentence(words):
    with pytest.raises(WhymaskError, match="no token for 'doggo' in tiny; did you mean 'dog'"):
        words.answer("doggo")
    with pytest.raises(WhymaskError, match="no token for 'horse'"):
        words.answer("a horse on the sofa")
    with pytest.raises(WhymaskError, match="empty"):
        words.answer("  ")
    with pytest.raises(WhymaskError, match=r"the question 'is there a kat \?' has no token for 'kat' in tiny; did you"):
        words.prompt(" is there a kat ?")
    with pytest.raises(WhymaskError, match="outside the vocabulary"):
        words.token(10_000)
    with pytest.raises(WhymaskError, match="2 slots for the image: leave '<image>' out"):
        words.prompt("<image> is there a dog ?")
    blind = tokenizer(["</s>", "<image>"], "{{ messages[0]['content'][1]['text'] }}")
    with pytest.raises(WhymaskError, match="0 slots for the image: its chat template must place '<image>'"):
        Dialogue(blind, words.image_token, "blind").prompt("is there a dog ?")
    mute = tokenizer(["</s>", "<image>"], None)
    with pytest.raises(WhymaskError, match="no chat template"):
        Dialogue(mute, words.image_token, "mute")
