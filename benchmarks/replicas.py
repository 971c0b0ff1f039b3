"""How throughput grows with the number of replicas of a served model.

Each replica answers a request after 50 ms, as many at once as --at-once says; the others wait, as for a GPU. All
replicas run in one process beside the client's. A round measures 1, 2 and 4 replicas one after the other, with a
client of its own that has learned its concurrency; linear is the throughput of one replica of the same round times
their number. Run: python benchmarks/replicas.py --at-once 1
"""

import argparse
import asyncio
import time
from functools import partial
from multiprocessing import get_context
from statistics import median

import numpy as np

from whymask.models.http import HttpModel

LATENCY = 0.05
REPLY = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"scores": [0.5]}'


async def answer(at_once, reader, writer):
    """Answer the requests of one connection, none of which is read beyond its length."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = [line[15:] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
            await reader.readexactly(int(length))
            async with at_once:
                await asyncio.sleep(LATENCY)
            writer.write(REPLY)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(replicas, at_once, ports):
    """Run replicas and send their ports."""
    handlers = [partial(answer, asyncio.Semaphore(at_once)) for _ in range(replicas)]
    servers = [await asyncio.start_server(handler, "127.0.0.1", 0, limit=2**20) for handler in handlers]
    ports.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.Event().wait()


def run(replicas, at_once, ports):
    """The process of the replicas."""
    asyncio.run(serve(replicas, at_once, ports))


def throughput(urls, at_once, seconds):
    """Requests per second of a client that has been at work for a while."""
    model = HttpModel(urls, batch_size=1)
    bound = model.bind(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    count = int(len(urls) * at_once * seconds / LATENCY)
    images = np.broadcast_to(bound.inputs, (count, *bound.inputs.shape))
    for part in (images[: count // 3], images):
        start = time.perf_counter()
        model.respond(part, [bound] * len(part))
        took = time.perf_counter() - start
    return count / took


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=run, args=(4, arguments.at_once, there), daemon=True)
    process.start()
    urls = [f"http://127.0.0.1:{port}" for port in here.recv()]
    found = {1: [], 2: [], 4: []}
    for number in range(arguments.rounds):
        for replicas, rates in found.items():
            rates.append(throughput(urls[:replicas], arguments.at_once, arguments.seconds))
        print(f"round {number + 1}: " + ", ".join(f"{n}: {rates[-1]:.1f}/s" for n, rates in found.items()), flush=True)
    print("| replicas | requests per second | of linear | in single rounds |\n|---|---|---|---|")
    for replicas, rates in found.items():
        shares = [rate / one / replicas for rate, one in zip(rates, found[1], strict=True)]
        each = ", ".join(f"{share:.2f}" for share in shares)
        print(f"| {replicas} | {median(rates):.1f} | {median(shares):.2f} | {each} |")
    process.terminate()
