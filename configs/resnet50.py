"""A ResNet-50 with the Keras v1 weights of ImageNet, as a torch module of one's own: the model of small/resnet50.toml.

Its quirks: convolutions have biases, a block's stride sits in its first 1 x 1 convolution, batch-norm eps is 1e-3 and
the input is BGR in 0 ... 255 minus a mean. The weights are a safetensors file with the parameter names of torchvision.
"""

from pathlib import Path

from safetensors.torch import load_file
from torch import nn

import whymask


class Bottleneck(nn.Module):
    """1 x 1 with the stride, 3 x 3, 1 x 1, and the shortcut."""

    def __init__(self, channels: int, width: int, stride: int, shortcut: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, stride), nn.BatchNorm2d(width, eps=1e-3)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width, eps=1e-3)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1), nn.BatchNorm2d(4 * width, eps=1e-3)
        if shortcut:
            norm = nn.BatchNorm2d(4 * width, eps=1e-3)
            self.downsample = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride), norm)
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        return (self.bn3(self.conv3(y)) + self.downsample(x)).relu()


class ResNet50(nn.Module):
    """RGB in 0 ... 255 minus the mean, in RGB order; turned to BGR inside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64, eps=1e-3)
        self.pool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, (width, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
            blocks = []
            for block in range(depth):
                blocks.append(Bottleneck(channels, width, 2 if block == 0 and stage > 1 else 1, block == 0))
                channels = 4 * width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x):
        x = self.pool(self.bn1(self.conv1(x.flip(1))).relu())
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean(dim=(2, 3)))


def load(weights: Path, **options):
    """The network with its weights, wrapped as any module of a user's."""
    network = ResNet50()
    state = {name: tensor.float() for name, tensor in load_file(weights).items()}
    missing, unexpected = network.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert all("num_batches_tracked" in name for name in missing), missing
    labels = whymask.load("efficientnet-lite0").labels
    mean = (123.68, 116.779, 103.939)
    return whymask.wrap(network, size=224, mean=mean, std=(1, 1, 1), crop=0.875, labels=labels, **options)
