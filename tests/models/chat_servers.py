"""Chat servers over models that run here: `whymask serve-model` itself, and what other servers would make of it."""

import socket
import threading
from base64 import b64decode
from contextlib import contextmanager
from io import BytesIO

import httpx
import torch
from PIL import Image

from whymask.models.dialogue import Answer
from whymask.models.openai_chat import OpenAIChatModel
from whymask.serve.connections import Server
from whymask.serve.model_app import create_model_app

from models.serving import serving

QWEN = "<|im_start|>user <|vision_start|><|image_pad|><|vision_end|>{question}<|im_end|><|im_start|>assistant "
PROMPTS = {"tiny-qwen": QWEN, "tiny-caption": QWEN, "tiny-llava": "USER: <image> {question} ASSISTANT:"}
"""The chat templates as text, which SGLang's /generate needs."""
MARKS = {name: prompt.rstrip().rpartition("}")[2] for name, prompt in PROMPTS.items()}  # the end of a prompt
NEWER = ("logprob_token_ids",)  # fields that an older vLLM ignores
OURS = ("logprob_token_ids", "prompt_logprobs", "return_tokens_as_token_ids", "continue_final_message",
        "add_generation_prompt", "mm_processor_kwargs")  # fmt: skip
IGNORED = {"prompt_logprobs": NEWER, "top_logprobs": OURS, "none": (*OURS, "logprobs", "top_logprobs")}


@contextmanager
def serve_model(model):
    """The URL of `whymask serve-model` on a free port."""
    app = create_model_app(model, model.name, hosts={"127.0.0.1"})
    listening = socket.create_server(("127.0.0.1", 0))
    running = Server(app, log_level="critical")
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()


@contextmanager
def at_level(level, model):
    """(URL and options of a client, log) of a server that returns what this level is made of."""
    if level == "input_token_logprobs":
        with serving(SGLang(model)) as log:
            yield {"base_url": log.url, "prompt": PROMPTS[model.name]}, log
        return
    ignored = {"top_logprobs": OURS, "prompt_logprobs": NEWER, "none": (*OURS, "logprobs", "top_logprobs")}.get(
        level, ()
    )
    with (
        serve_model(model) as url,
        httpx.Client(base_url=url, timeout=60) as client,
        serving(lambda body: forwarded(client, body, ignored)) as log,
    ):
        yield {"base_url": f"{log.url}/v1"}, log


def forwarded(client, body, ignored):
    """The reply to a request without the fields that a server ignores."""
    if "messages" in body and body["messages"][-1]["role"] == "assistant" and "continue_final_message" in ignored:
        body = body | {"messages": body["messages"][:-1]}
    reply = client.post("/chat/completions", json={name: part for name, part in body.items() if name not in ignored})
    return reply.status_code, {}, reply.content


class SGLang:
    """What SGLang's /generate returns, computed by a model that runs here."""

    def __init__(self, model):
        self.model, self.lock = model, threading.Lock()

    def __call__(self, body):
        with self.lock, torch.no_grad():
            return self.reply(body)

    def reply(self, body):
        model, dialogue = self.model, self.model.dialogue
        images = [Image.open(BytesIO(b64decode(one))).convert("RGB") for one in body["image_data"]]
        view = model.view(images[0] if len(images) == 1 else images)
        ids = dialogue.tokens(body["text"])
        start = body["text"].index(MARKS[model.name]) + len(MARKS[model.name])
        prompt = body["text"][:start]  # up to where any answer begins
        said = tuple(ids[len(dialogue.tokens(prompt)) :])
        bound = model.prompted(view, prompt)
        tokens = body["sampling_params"]["max_new_tokens"]
        if tokens > 1:
            return {"text": " " + model.said(model.write(bound.inputs[None], [bound], tokens)[0]), "meta_info": {}}
        bound = bound.answered(Answer("", ((),) * (len(said) + 1), said), 0)
        logprobs = torch.cat([piece.float() for piece in model.logits(bound.inputs[None], [bound])]).log_softmax(dim=1)
        own, after = logprobs[:-1], logprobs[-1]

        def triple(row, token):
            return [float(row[token]), int(token), dialogue.tokenizer.decode([int(token)])]

        top = int(after.argmax())
        meta = {"output_token_logprobs": [triple(after, top)]}
        if body.get("token_ids_logprob"):
            meta["output_token_ids_logprobs"] = [[triple(after, token) for token in body["token_ids_logprob"]]]
        if body.get("logprob_start_len", -1) == 0:
            # Where an image is one token of the text, the server has as many as it makes of it: -1 for each.
            before = [[None if i == 0 else -1.0, 0, "?"] for i in range(model.length(bound))]
            meta["input_token_logprobs"] = before + [triple(row, token) for row, token in zip(own, said, strict=True)]
            likeliest = [[triple(row, int(row.argmax()))] for row in own]
            meta["input_top_logprobs"] = [None] * len(before) + likeliest if body.get("top_logprobs_num") else None
        return {"text": dialogue.tokenizer.decode([top]), "meta_info": meta}


def chat(model, options, **more):
    """The client of such a server."""
    return OpenAIChatModel(model.name, **options, **more)
