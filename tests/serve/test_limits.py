import asyncio
import threading

import pytest

from whymask.serve.guard import RequestError
from whymask.serve.limits import Turns


@pytest.mark.parametrize(("most", "seconds"), [(1, 1000), (9, 0.05)])
def test_who_cannot_have_a_turn_is_refused(most, seconds):
    """At once where too many are here already, else after a while."""
    turns, go_on = Turns(1, most=most, seconds=seconds, what="images"), threading.Event()

    async def two():
        first = asyncio.create_task(turns.run(go_on.wait, 20))
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as refused:
            await asyncio.wait_for(turns.run(int), 10)
        go_on.set()
        assert await first
        assert await turns.run(int, "7") == 7
        return refused.value

    refused = asyncio.run(two())
    assert refused.status == 503
    assert refused.headers["Retry-After"] == "10"
