from whymask.explainer.answers import begins, yes_or_no


def test_an_answer_begins_with_a_whole_word():
    assert begins(" yes, it is", "Yes")
    assert begins("No.", "no")
    assert not begins("Not at all", "No")
    assert not begins("I see no dog", "No")
    assert [yes_or_no(text) for text in ("YES!", "no", "", "maybe")] == ["Yes", "No", None, None]
