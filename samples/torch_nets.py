"""The nets of samples/nets/*.h in PyTorch, with the same names of parameters.

A net is constructed from {name: shape} of its weights and the facts of its exported file.
Used by torch_training.py and tests/gpu/torch_steps.py.
"""
import math

import torch

nn, functional = torch.nn, torch.nn.functional


class Mlp(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        width = shapes["fc1.weight"][0]
        self.fc1, self.fc2 = nn.Linear(784, width), nn.Linear(width, width)
        self.fc3 = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1))))))


class LeNet(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        width = shapes["conv1.weight"][0]
        self.conv1, self.bn1 = nn.Conv2d(1, width, 5, padding=2, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 5, padding=2, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc1, self.fc2 = nn.Linear(2 * width * 49, 16 * width), nn.Linear(16 * width, 10)

    def forward(self, x):
        a = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 2)
        b = functional.max_pool2d(functional.relu(self.bn2(self.conv2(a))), 2)
        return self.fc2(functional.relu(self.fc1(b.flatten(1))))


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two or three convolutions with a residual connection."""

    def __init__(self, inputs, kernels, widths, stride):
        super().__init__()
        strides = [stride, 1] if len(kernels) == 2 else [1, stride, 1]
        self.count = len(kernels)
        before = inputs
        for i, (kernel, width) in enumerate(zip(kernels, widths), 1):
            setattr(self, f"conv{i}", conv(before, width, kernel, strides[i - 1]))
            setattr(self, f"bn{i}", nn.BatchNorm2d(width))
            before = width
        changed = inputs != before or stride != 1
        self.downsample = nn.Identity()
        if changed:
            self.downsample = nn.Sequential(conv(inputs, before, 1, stride),
                                            nn.BatchNorm2d(before))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = functional.relu(y) if i < self.count else y
        return functional.relu(y + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, shapes, facts):
        super().__init__()
        width, inputs = shapes["conv1.weight"][:2]
        self.small = facts["stem"] == "small"
        deep = facts["depth"] == "50"
        self.conv1 = conv(inputs, width, 3) if self.small else conv(inputs, width, 7, 2)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, blocks in enumerate([3, 4, 6, 3] if deep else [2, 2, 2, 2]):
            w, layer = width << stage, []
            for i in range(blocks):
                stride = 2 if stage > 0 and i == 0 else 1
                kernels, widths = ([1, 3, 1], [w, w, 4 * w]) if deep else ([3, 3], [w, w])
                layer.append(ResidualBlock(channels, kernels, widths, stride))
                channels = widths[-1]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, shapes["fc.weight"][0])

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = y if self.small else functional.max_pool2d(y, 3, 2, 1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            y = layer(y)
        return self.fc(y.mean((2, 3)))


class CharLstm(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        vocabulary, width = shapes["embedding.weight"]
        layers = sum(name.startswith("lstm.weight_ih") for name in shapes)
        self.embedding, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, width, layers)
        self.head = nn.Linear(width, vocabulary)
        self.state, self.turn = None, 0

    def forward(self, x):
        if self.turn % 4 == 0:
            self.state = None
        self.turn += 1
        y, *state = self.read(x, self.state)
        self.state = tuple(s.detach() for s in state)
        return y

    def read(self, x, state):
        """Returns the logits and the state after x; can be compiled, as it changes no attribute."""
        y, (h, c) = self.lstm(self.embedding(x), state)
        return self.head(y), h, c


class Position(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))

    def forward(self, x):
        return x + self.weight[:x.shape[1]]


def causal_attention(qkv, heads):
    n, t, c = qkv.shape
    q, k, v = qkv.view(n, t, 3, heads, c // (3 * heads)).permute(2, 0, 3, 1, 4)
    if hasattr(functional, "scaled_dot_product_attention"):
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        hidden = torch.ones(t, t, dtype=torch.bool, device=qkv.device).triu(1)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        y = functional.softmax(scores, -1) @ v
    return y.transpose(1, 2).reshape(n, t, c // 3)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        return self.proj(causal_attention(self.qkv(x), self.heads))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    def __init__(self, shapes, facts):
        super().__init__()
        vocabulary, width = shapes["token.weight"]
        layers = sum(name.endswith("qkv.weight") for name in shapes)
        self.token = nn.Embedding(vocabulary, width)
        self.position = Position(shapes["position.weight"])
        self.blocks = nn.ModuleList(Block(width, int(facts["heads"])) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x):
        x = self.position(self.token(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Conv1d(nn.Module):
    """The linear layer of Hugging Face's GPT-2, whose weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return functional.linear(x, self.weight.t(), self.bias)


class Gpt2Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, Conv1d(width, 3 * width), Conv1d(width, width)

    def forward(self, x):
        return self.c_proj(causal_attention(self.c_attn(x), self.heads))


class Gpt2Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = Conv1d(width, 4 * width), Conv1d(4 * width, width)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Gpt2Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), Gpt2Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, shapes, facts):
        super().__init__()
        vocabulary, width = shapes["transformer.wte.weight"]
        layers = sum(name.endswith("c_attn.weight") for name in shapes)
        body = self.transformer = nn.Module()
        body.wte = nn.Embedding(vocabulary, width)
        body.wpe = Position(shapes["transformer.wpe.weight"])
        body.h = nn.ModuleList(Gpt2Block(width, int(facts["heads"])) for _ in range(layers))
        body.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = body.wte.weight

    def forward(self, x):
        body = self.transformer
        x = body.wpe(body.wte(x))
        for block in body.h:
            x = block(x)
        return self.lm_head(body.ln_f(x))


class Generator(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        noise, width = shapes["up1.weight"][0], shapes["up3.weight"][1]
        self.up1 = nn.ConvTranspose2d(noise, 4 * width, 4, bias=False)
        self.bn1 = nn.BatchNorm2d(4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 3, 2, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.up3 = nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.up4 = nn.ConvTranspose2d(width, 1, 4, 2, 1)

    def forward(self, z):
        a = functional.relu(self.bn1(self.up1(z)))
        b = functional.relu(self.bn2(self.up2(a)))
        return torch.tanh(self.up4(functional.relu(self.bn3(self.up3(b)))))


class Discriminator(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        width = shapes["down1.weight"][0]
        norm = nn.BatchNorm2d if "bn2.weight" in shapes else nn.Identity
        self.down1, self.down2 = nn.Conv2d(1, width, 4, 2, 1), nn.Conv2d(width, 2 * width, 4, 2, 1)
        self.bn2, self.down3 = norm(2 * width), nn.Conv2d(2 * width, 4 * width, 3, 2, 1)
        self.bn3, self.score = norm(4 * width), nn.Conv2d(4 * width, 1, 4)

    def forward(self, x):
        a = functional.leaky_relu(self.down1(x), 0.2)
        b = functional.leaky_relu(self.bn2(self.down2(a)), 0.2)
        return self.score(functional.leaky_relu(self.bn3(self.down3(b)), 0.2)).flatten()


NETS = {"mlp": Mlp, "lenet": LeNet, "resnet18": ResNet, "resnet50": ResNet,
        "char_lstm": CharLstm, "char_gpt": CharGpt, "gpt2": Gpt2}
