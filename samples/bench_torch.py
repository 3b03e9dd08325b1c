#!/usr/bin/env python3
"""Trains the nets of Mezzo's bench in PyTorch: same initial weights, same data, same optimizer and level; both sides in turns.

    samples/bench_torch.py --out peer.json [--nets mlp,char_gpt] [--levels O0] [--size small] [--batch 0] [--threads 1,2] [--blocks 5] [--steps 12]
    build/samples/bench --peer peer.json

    samples/bench_torch.py --losses FILE [--nets ...] [--levels ...] [--size tiny] [--steps 20]     PyTorch's losses alone, for the golden curves

Weights and data come from `bench --export` as safetensors files. Levels are autocast with a GradScaler (O1, O4), a 16-bit model whose batch norms and
masters are f32 (O2, O5), a 16-bit model (O3), each where this PyTorch can do it on this device. --compile runs the net through torch.compile, where
there is one. Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import contextlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import torch_peer

# (net, size, batch) -> torch's time over Mezzo's that is wanted in f32 on the CPU.
WANTED = {("mlp", "small", 128): 1.2, ("lenet", "small", 128): 1.0, ("resnet18", "full", 32): 0.8, ("char_lstm", "small", 16): 1.5,
          ("char_gpt", "full", 4): 1.0, ("char_gpt", "small", 12): 1.5}

parser = torch_peer.parser(__doc__, threads=None)
parser.add_argument("--nets", default="mlp,lenet,resnet18,char_lstm,char_gpt,dcgan,wgan_gp")
parser.add_argument("--levels", default="O0")
parser.add_argument("--size", default=None, help="tiny, small or full; without it the sizes that something is wanted of")
parser.add_argument("--batch", type=int, default=0)
parser.add_argument("--steps", type=int, default=12, help="in a block")
parser.add_argument("--device", default="cpu")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--out", help="file for both sides' times, for bench --peer")
parser.add_argument("--losses", help="file for PyTorch's losses alone")
args = parser.parse_args()
thread_counts = [int(n) for n in str(args.threads or len(os.sched_getaffinity(0))).split(",")]


def compare_in_turns():
    """A process for each number of threads: set_num_threads() does not reach a matrix library that has started its own."""
    reports = []
    for threads in thread_counts:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "peer.json")
            # The last of an option's values counts.
            subprocess.run([sys.executable, *sys.argv, "--threads", str(threads), "--out", path], check=True)
            with open(path, encoding="utf-8") as file:
                reports.append(json.load(file))
    runs = [run for same in zip(*(report["runs"] for report in reports)) for run in same]
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({**reports[0], "runs": runs}, file, indent=1)


if args.out and len(thread_counts) > 1:
    compare_in_turns()
    sys.exit()
torch = torch_peer.load_torch(max(thread_counts))
nn, functional = torch.nn, torch.nn.functional

LOW = {"O1": torch.float16, "O2": torch.float16, "O3": torch.float16, "O4": torch.bfloat16, "O5": torch.bfloat16}
CODES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """({name: tensor}, metadata) of a file: eight bytes of length, a header in JSON, the tensors' bytes."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(content[start:end]), dtype=CODES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors, metadata


# ---- the nets, with the names of samples/nets/*.h -------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        width = shapes["fc1.weight"][0]
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x):
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1))))))


class LeNet(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        width = shapes["conv1.weight"][0]
        self.conv1, self.bn1 = nn.Conv2d(1, width, 5, padding=2, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, 2 * width, 5, padding=2, bias=False), nn.BatchNorm2d(2 * width)
        self.fc1, self.fc2 = nn.Linear(2 * width * 49, 16 * width), nn.Linear(16 * width, 10)

    def forward(self, x):
        a = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 2)
        b = functional.max_pool2d(functional.relu(self.bn2(self.conv2(a))), 2)
        return self.fc2(functional.relu(self.fc1(b.flatten(1))))


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two or three convolutions around which the input is carried over."""

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
        self.downsample = nn.Sequential(conv(inputs, before, 1, stride), nn.BatchNorm2d(before)) if changed else nn.Identity()

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
        y, state = self.lstm(self.embedding(x), self.state)
        self.state = tuple(s.detach() for s in state)
        return self.head(y)


class Position(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))

    def forward(self, x):
        return x + self.weight[:x.shape[1]]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if hasattr(functional, "scaled_dot_product_attention"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            hidden = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
            y = functional.softmax(scores, -1) @ v
        return self.proj(y.transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    def __init__(self, shapes, facts):
        super().__init__()
        vocabulary, width = shapes["token.weight"]
        layers = sum(name.endswith("qkv.weight") for name in shapes)
        self.token, self.position = nn.Embedding(vocabulary, width), Position(shapes["position.weight"])
        self.blocks = nn.ModuleList(Block(width, int(facts["heads"])) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x):
        x = self.position(self.token(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Generator(nn.Module):
    def __init__(self, shapes, _):
        super().__init__()
        noise, width = shapes["up1.weight"][0], shapes["up3.weight"][1]
        self.up1, self.bn1 = nn.ConvTranspose2d(noise, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width)
        self.up2, self.bn2 = nn.ConvTranspose2d(4 * width, 2 * width, 3, 2, 1, bias=False), nn.BatchNorm2d(2 * width)
        self.up3, self.bn3 = nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width)
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


NETS = {"mlp": Mlp, "lenet": LeNet, "resnet18": ResNet, "resnet50": ResNet, "char_lstm": CharLstm, "char_gpt": CharGpt}

# ---- levels ---------------------------------------------------------------------------------------------------------------


def can_run(level):
    """Why this PyTorch cannot train at the level on this device, or nothing."""
    if level == "O0" or args.device != "cpu":
        return None
    return None if LOW[level] == torch.bfloat16 else f"{level}: PyTorch trains in float16 on GPUs alone"


class Levelled:
    """A net and its optimizer at a level: casts, masters and loss scale as Mezzo's levels have them."""

    def __init__(self, net, make_optimizer, level):
        self.net, self.level = net.to(args.device), level
        self.masters = None
        low = LOW.get(level)
        if level in ("O2", "O3", "O5"):
            net.to(low)
            if level != "O3":
                for module in net.modules():
                    if isinstance(module, nn.modules.batchnorm._BatchNorm):
                        module.float()
                self.masters = [p.detach().float().clone().requires_grad_() for p in net.parameters()]
        self.optimizer = make_optimizer(self.masters or list(net.parameters()))
        self.scaler = torch.cuda.amp.GradScaler(enabled=level in ("O1", "O2") and args.device != "cpu")
        self.call = torch.compile(net) if args.compile and hasattr(torch, "compile") else net

    def casts(self):
        if self.level in ("O1", "O4"):
            return torch.autocast(torch.device(args.device).type, dtype=LOW[self.level])
        return contextlib.nullcontext()

    def __call__(self, x):
        with self.casts():
            y = self.call(x.to(next(self.net.parameters()).dtype) if x.is_floating_point() and self.level in ("O2", "O3", "O5") else x)
        return y.float()

    def zero_grad(self):
        for p in self.net.parameters():
            p.grad = None

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, max_norm=0):
        parameters = list(self.net.parameters())
        if self.masters:
            for master, p in zip(self.masters, parameters):
                master.grad = None if p.grad is None else p.grad.float()
        if max_norm:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.masters or parameters, max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.masters:
            with torch.no_grad():
                for master, p in zip(self.masters, parameters):
                    p.copy_(master)


def optimizer_of(facts):
    betas = tuple(float(b) for b in facts.get("betas", "0.9,0.999").split(","))
    lr, decay = float(facts["lr"]), float(facts.get("weight_decay", 0))
    if facts["optimizer"] == "sgd":
        return lambda p: torch.optim.SGD(p, lr=lr, momentum=float(facts["momentum"]), weight_decay=decay)
    kind = torch.optim.AdamW if facts["optimizer"] == "adamw" else torch.optim.Adam
    return lambda p: kind(p, lr=lr, betas=betas, weight_decay=decay)


def loaded(kind, tensors, prefix, facts):
    values = {name[len(prefix):]: value for name, value in tensors.items() if name.startswith(prefix)}
    net = kind({name: tuple(value.shape) for name, value in values.items()}, facts)
    net.load_state_dict(values)
    return net


class Supervised:
    def __init__(self, tensors, facts, level):
        net = loaded(NETS[facts["net"]], tensors, "net.", facts)
        self.net = Levelled(net, optimizer_of(facts), level)
        self.max_norm = float(facts.get("max_norm", 0))
        self.batches = [(tensors[f"x.{i}"].to(args.device), tensors[f"y.{i}"].to(args.device)) for i in range(4)]
        self.number = 0

    def step(self):
        x, y = self.batches[self.number % 4]
        self.number += 1
        logits = self.net(x)
        loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        self.net.zero_grad()
        self.net.backward(loss)
        self.net.step(self.max_norm)
        return loss.item()


def verdict_loss(scores, right):
    return functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, right))


class Gan:
    def __init__(self, tensors, facts, level):
        self.penalty = facts["net"] == "wgan_gp"
        self.generator = Levelled(loaded(Generator, tensors, "generator.", facts), optimizer_of(facts), level)
        self.discriminator = Levelled(loaded(Discriminator, tensors, "discriminator.", facts), optimizer_of(facts), level)
        self.batches = [[tensors[f"{part}.{i}"].to(args.device) for part in ("real", "noise", "more_noise", "share")] for i in range(4)]
        self.number = 0

    def gradient_penalty(self, real, made, share):
        between = (share * real + (1 - share) * made).detach().requires_grad_()
        slope, = torch.autograd.grad(self.discriminator(between).sum(), between, create_graph=True)
        return ((slope.square().sum((1, 2, 3)) + 1e-12).sqrt() - 1).square().mean()

    def step(self):
        real, noise, more_noise, share = self.batches[self.number % 4]
        self.number += 1
        d, g = self.discriminator, self.generator
        made = g(noise).detach()
        d.zero_grad()
        if self.penalty:
            loss = d(made).mean() - d(real).mean() + 10 * self.gradient_penalty(real, made, share)
        else:
            loss = verdict_loss(d(real), 1.0) + verdict_loss(d(made), 0.0)
        d.backward(loss)
        d.step()
        g.zero_grad()
        d.net.requires_grad_(False)
        scores = d(g(more_noise))
        g.backward(-scores.mean() if self.penalty else verdict_loss(scores, 1.0))
        d.net.requires_grad_(True)
        g.step()
        return loss.item()


def make_peer(folder, net, level):
    tensors, facts = read_safetensors(os.path.join(folder, net + ".safetensors"))
    return (Gan if net in ("dcgan", "wgan_gp") else Supervised)(tensors, facts, level)


# ---- what is asked for ----------------------------------------------------------------------------------------------------


def export(folder, nets, size, batch):
    torch_peer.run_bench(args.bench, "--export", folder, "--nets", ",".join(nets), "--size", size, "--batch", batch)


def write_losses():
    """NET LEVEL LOSS... on a line each."""
    size = args.size or "tiny"
    nets = args.nets.split(",")
    with tempfile.TemporaryDirectory() as folder, open(args.losses, "w", encoding="utf-8") as out:
        export(folder, nets, size, args.batch)
        for net in nets:
            for level in args.levels.split(","):
                peer = make_peer(folder, net, level)
                print(net, level, *(f"{peer.step():.9g}" for _ in range(args.steps)), file=out)


def cases():
    """(net, size, batch) of every comparison."""
    nets = args.nets.split(",")
    if args.size:
        return [(net, args.size, args.batch) for net in nets]
    return [case for case in WANTED if case[0] in nets]


def compare(net, size, batch, level):
    """One line of the table: both sides' median step over all blocks, which take turns."""
    threads, = thread_counts
    with tempfile.TemporaryDirectory() as folder:
        export(folder, [net], size, batch)
        peer = make_peer(folder, net, level)
    for _ in range(3):
        peer.step()

    def mezzo_block():
        report = torch_peer.bench_report(args.bench, "--nets", net, "--levels", level, "--size", size, "--batch", batch, "--device",
                                         args.device, "--steps", args.steps + 3, "--warm-up", 3, "--threads", threads, "--quiet")
        return report["runs"][0]["step_ms"] / 1e3, report["runs"][0]["samples"]

    samples = mezzo_block()[1]
    c = torch_peer.Comparison(lambda: mezzo_block()[0], lambda: torch_peer.median_seconds(peer.step, args.steps), args.blocks)
    run = {"net": f"{net} {size}", "level": level, "threads": threads, "batch": samples, "mezzo_ms": 1e3 * c.mezzo, "torch_ms": 1e3 * c.torch,
           "ratio": c.ratio, "lowest": c.lowest, "highest": c.highest}
    if level == "O0" and (net, size, samples) in WANTED:
        run["wanted"] = WANTED[net, size, samples]
    print(f"{run['net']} {level}, {threads} threads: torch/mezzo {c.ratio:.2f}", file=sys.stderr)
    return run


def write_comparison():
    runs = []
    for net, size, batch in cases():
        for level in args.levels.split(","):
            if can_run(level):
                print(can_run(level), file=sys.stderr)
                continue
            try:
                runs.append(compare(net, size, batch, level))
            except RuntimeError as e:  # an op that this PyTorch does not have in 16 bits on this device
                print(f"{net} {level}: PyTorch cannot: {str(e).splitlines()[0]}", file=sys.stderr)
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "device": args.device, "blocks": args.blocks, "steps": args.steps, "runs": runs}, file, indent=1)


if not args.out and not args.losses:
    sys.exit("bench_torch: --out FILE or --losses FILE is needed; try --help")
if args.losses:
    write_losses()
if args.out:
    write_comparison()
