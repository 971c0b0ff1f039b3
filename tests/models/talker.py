"""A model that answers one question, small enough to know: what it says depends on which quadrants are bright."""

from dataclasses import replace

import numpy as np
import torch

from whymask.models.base import Response, Target

from models.tiny import quadrants

BRIGHT = np.full((32, 32, 3), 255, dtype=np.uint8)


class Talker:
    """Bottom right misleads it to "Yes"; without that it says "No", or "Well" where only bottom left is bright."""

    name, fingerprint, deterministic, default_k, batch_size = "talker", "talker", True, 2, 8
    labels = ("Yes", "No", "Well")

    def __init__(self, generated="No, not really."):
        self.settings = {"device": "cpu"}
        self.generated, self.forwards, self.generations = generated, 0, 0

    def bind(self, image, *, target=None, question=None, **options):
        bound = quadrants().bind(image, target=0, **options)
        named = Target(-1, target) if isinstance(target, str) else Target(target, self.labels[target])
        return replace(bound, target=named)

    def respond(self, inputs, bounds):
        self.forwards += len(inputs)
        light = torch.nn.functional.adaptive_avg_pool2d(inputs.mean(dim=1, keepdim=True), 2).flatten(1)
        yes = 0.9 * light[:, 3]
        no = 0.4 + 0.1 * light[:, 0] + 0.05 * light[:, 1]
        well = light[:, 2] * (1 - light[:, [0, 1, 3]].amax(dim=1))
        chances = torch.stack([yes, no, well], dim=1)
        wanted = [self.labels.index(bound.target.label) for bound in bounds]
        score = chances[torch.arange(len(inputs)), wanted] / chances.sum(dim=1)
        return Response(score.double().numpy(), chances.argmax(dim=1).numpy())

    def generate(self, inputs, bounds, tokens):
        self.generations += len(inputs)
        return [self.generated] * len(inputs)
