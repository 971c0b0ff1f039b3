import pytest

from whymask import WhymaskError
from whymask.errors import ExhaustedError
from whymask.models.spending import Price, Purse, Spending, Spent, in_words, usage


def reply(tokens_in, tokens_out):
    return {"usage": {"prompt_tokens": float(tokens_in), "completion_tokens": float(tokens_out)}}


def test_a_price_list_is_two_numbers():
    assert Price.of("2/8").cost(500_000, 250_000) == 3.0
    assert str(Price.of(" 0.150 / .6")) == "0.15/0.6"
    for text in ("2", "2/", "-1/2", "a/b", "1/2/3", "nan/1", "1e3/2", None):
        with pytest.raises(WhymaskError, match=r"IN/OUT, such as 0\.15/0\.60"):
            Price.of(text)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (reply(12, 3), (12, 3)),
        ({"usage": {"prompt_tokens": 12.0}}, (12, 0)),
        ({"meta_info": {"prompt_tokens": 12.0, "completion_tokens": 1.0}}, (12, 1)),
        ({"usage": None, "choices": []}, None),
        ({"usage": {"prompt_tokens": "12"}}, None),
        ({"usage": {"prompt_tokens": -1.0}}, None),
        ({"usage": {"prompt_tokens": float("inf")}}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_tokens_that_a_reply_reports(body, tokens):
    assert usage(body) == tokens


def test_every_request_is_counted_and_every_reply_once():
    spending = Spending("1/10")
    for retry, hedge, answer in [(0, 0, reply(100, 5)), (0, 0, None), (1, 0, reply(100, 5)), (0, 1, None)]:
        spending.send(retry=bool(retry), hedge=bool(hedge))
        spending.ended(reply=answer)
    assert spending.spent == Spent(4, 1, 1, replies=2, images=2, silent=0, tokens_in=200, tokens_out=10)
    assert spending.spent.as_dict(spending.price) == {
        "requests": 4, "retries": 1, "hedges": 1, "tokens_in": 200, "tokens_out": 10, "price": "1/10",
        "cost": pytest.approx(0.0003),
    }  # fmt: skip


def test_tokens_are_unknown_where_any_reply_does_not_report_them():
    spending = Spending("1/10")
    for answer in (reply(100, 5), {"scores": []}):
        spending.send()
        spending.ended(reply=answer)
    found = spending.spent.as_dict(spending.price)
    assert (found["tokens_in"], found["tokens_out"], found["cost"]) == (None, None, None)
    assert in_words(found) == "2 requests"


def test_requests_are_limited():
    spending = Spending(max_requests=3)
    for left in (3, 2, 1):
        assert spending.left == left
        spending.send()
        spending.ended()
    with pytest.raises(ExhaustedError, match="max_requests=3"):
        spending.send()
    assert spending.spent.requests == 3


def test_the_cost_is_limited_by_the_mean_of_the_replies_and_what_is_under_way():
    spending = Spending("10/0", max_cost=0.01)  # ten replies of 100 tokens
    assert spending.left is None
    spending.send()
    spending.ended(reply=reply(100, 0))
    assert spending.left == 9
    for left in range(8, -1, -1):
        spending.send()
        assert spending.left == left
    with pytest.raises(ExhaustedError, match=r"max_cost=0\.01"):
        spending.send()
    for _ in range(9):
        spending.ended(reply=reply(50, 0))  # they were shorter
    assert spending.left == (1000 - 550) // 55


def test_the_cost_of_a_request_depends_on_its_images():
    spending = Spending("10/0", max_cost=0.1, per_request=16)  # a hundred images of 100 tokens
    spending.send(1)
    spending.ended(1, reply(100, 0))
    assert spending.left == 99 // 16
    for _ in range(6):
        spending.send(16)
    assert spending.left == 0
    spending.send(3)
    with pytest.raises(ExhaustedError):
        spending.send(1)


def test_what_a_server_is_asked_about_itself_says_nothing_about_images():
    """Requests about small grey images cost money, but less than those about the images that are explained."""
    spending = Spending("10/0", max_cost=0.01)  # 1,000 tokens
    for _ in range(5):
        spending.send(0)
        spending.ended(0, reply(10, 0))
    spending.send()
    spending.ended(reply=reply(100, 0))
    assert spending.left == (1000 - 5 * 10 - 100) // 100
    assert spending.spent.tokens_in == 150


def test_how_many_requests_a_forward_takes():
    assert Spending().known
    spending = Spending(max_requests=100, per_request=4)
    assert (spending.known, spending.each) == (False, 1.0)
    spending.responded(8, 2)
    assert (spending.known, spending.each) == (True, 1.0)
    spending.responded(3, 1)
    assert spending.each == 1.0
    spending.responded(8, 5)  # retries, or several for each image
    assert spending.each == pytest.approx(8 / 5)


def test_a_limit_of_the_cost_needs_what_it_is_made_of():
    with pytest.raises(WhymaskError, match="max_cost needs the price"):
        Spending(max_cost=1.0)
    for value in (0, -1, float("inf"), float("nan"), True, "1"):
        with pytest.raises(WhymaskError, match="max_cost must be a positive number"):
            Spending("1/1", max_cost=value)
    with pytest.raises(WhymaskError, match="max_requests must be"):
        Spending(max_requests=0)
    spending = Spending("1/1", max_cost=1.0)
    spending.send()
    with pytest.raises(WhymaskError, match=r"does not report the tokens.*pass max_requests"):
        spending.ended(reply={"scores": [0.5]})


def test_a_purse_pays_for_images_in_whole_requests():
    purse = Purse(5, per_request=16)
    assert purse.images == 80
    purse.pay(17)
    purse.pay(0)
    assert (purse.requests, purse.images) == (3, 48)
    purse.pay(100)
    assert purse.images == 0
