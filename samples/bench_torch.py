#!/usr/bin/env python3
"""Trains the nets of Mezzo's bench in PyTorch and compares the times of both sides.

    samples/bench_torch.py --out peer.json [--nets mlp,char_gpt] [--levels O0] [--size small]
                           [--batch 0] [--threads 1,2] [--blocks 5] [--steps 12]
    build/samples/bench --peer peer.json

To write PyTorch's losses only, for the loss curves in tests/samples:

    samples/bench_torch.py --losses FILE [--nets ...] [--levels ...] [--size tiny] [--steps 20]

Both sides use the same initial weights, data, optimizer and level. Weights and data come from
`bench --export` as safetensors files. Levels are: autocast with a GradScaler (O1, O4), a 16-bit
model whose batch norms and masters are f32 (O2, O5), and a 16-bit model (O3), if PyTorch supports
them on the device. --compile uses torch.compile, if PyTorch has it.
Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import typing

import torch_peer

# (net, size, batch) -> target ratio of torch's time to Mezzo's in f32 on the CPU.
WANTED = {("mlp", "small", 128): 1.2, ("lenet", "small", 128): 1.0, ("resnet18", "full", 32): 0.8, ("char_lstm", "small", 16): 1.5,
          ("char_gpt", "full", 4): 1.0, ("char_gpt", "small", 12): 1.5}

parser = torch_peer.parser(__doc__, threads=None)
parser.add_argument("--nets", default="mlp,lenet,resnet18,char_lstm,char_gpt,dcgan,wgan_gp")
parser.add_argument("--levels", default="O0")
parser.add_argument("--size", default=None, help="tiny, small or full; default: the sizes that have targets")
parser.add_argument("--batch", type=int, default=0)
parser.add_argument("--steps", type=int, default=12, help="steps in a block")
parser.add_argument("--device", default="cpu")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--out", help="file for both sides' times, for bench --peer")
parser.add_argument("--losses", help="file for PyTorch's losses; measures no times")
args = parser.parse_args()
thread_counts = [int(n) for n in str(args.threads or len(os.sched_getaffinity(0))).split(",")]


def compare_in_turns():
    """Runs a process for each number of threads.

    set_num_threads() has no effect on a matrix library that has started its threads.
    """
    reports = []
    for threads in thread_counts:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "peer.json")
            # The last value of an option is used.
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
import torch_nets  # after the threads of torch are set

functional = torch.nn.functional


class Level(typing.NamedTuple):
    """What a level does in PyTorch."""
    low: torch.dtype = None  # the 16-bit dtype
    casts: bool = False  # ops run under autocast
    converts: bool = False  # the model is converted to the 16-bit dtype
    masters: bool = False  # batch norms stay f32, and the optimizer steps f32 copies of the parameters
    scales: bool = False  # the loss is scaled


LEVELS = {
    "O0": Level(),
    "O1": Level(torch.float16, casts=True, scales=True),
    "O2": Level(torch.float16, converts=True, masters=True, scales=True),
    "O3": Level(torch.float16, converts=True),
    "O4": Level(torch.bfloat16, casts=True),
    "O5": Level(torch.bfloat16, converts=True, masters=True),
}
CODES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """Returns ({name: tensor}, metadata) of a file.

    The file consists of eight bytes of length, a JSON header, and the tensors' bytes.
    """
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


# ---- levels --------------------------------------------------------------------------------------


def can_run(level):
    """Returns why PyTorch cannot train at the level on the device, or None if it can."""
    if args.device == "cpu" and LEVELS[level].low == torch.float16:
        return f"{level}: PyTorch trains in float16 on GPUs only"
    return None


class Levelled:
    """A net and its optimizer at a level, with casts, masters and loss scale as in Mezzo."""

    def __init__(self, net, make_optimizer, level):
        self.net, self.level = net.to(args.device), LEVELS[level]
        self.masters = None
        if self.level.converts:
            net.to(self.level.low)
        if self.level.masters:
            for module in net.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    module.float()
            self.masters = [p.detach().float().clone().requires_grad_() for p in net.parameters()]
        self.optimizer = make_optimizer(self.masters or list(net.parameters()))
        self.scaler = torch.cuda.amp.GradScaler(enabled=self.level.scales and args.device != "cpu")
        self.call = torch.compile(net) if args.compile and hasattr(torch, "compile") else net

    def casts(self):
        if self.level.casts:
            return torch.autocast(torch.device(args.device).type, dtype=self.level.low)
        return contextlib.nullcontext()

    def __call__(self, x):
        with self.casts():
            y = self.call(x.to(next(self.net.parameters()).dtype) if x.is_floating_point() and self.level.converts else x)
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
        net = loaded(torch_nets.NETS[facts["net"]], tensors, "net.", facts)
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
        self.generator = Levelled(loaded(torch_nets.Generator, tensors, "generator.", facts), optimizer_of(facts), level)
        self.discriminator = Levelled(loaded(torch_nets.Discriminator, tensors, "discriminator.", facts), optimizer_of(facts), level)
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


# ---- reports -------------------------------------------------------------------------------------


def export(folder, nets, size, batch):
    torch_peer.run_bench(args.bench, "--export", folder, "--nets", ",".join(nets), "--size", size, "--batch", batch)


def write_losses():
    """Writes lines of NET LEVEL LOSS..."""
    size = args.size or "tiny"
    nets = args.nets.split(",")
    with tempfile.TemporaryDirectory() as folder, open(args.losses, "w", encoding="utf-8") as out:
        export(folder, nets, size, args.batch)
        for net in nets:
            for level in args.levels.split(","):
                peer = make_peer(folder, net, level)
                print(net, level, *(f"{peer.step():.9g}" for _ in range(args.steps)), file=out)


def cases():
    """Returns (net, size, batch) of every comparison."""
    nets = args.nets.split(",")
    if args.size:
        return [(net, args.size, args.batch) for net in nets]
    return [case for case in WANTED if case[0] in nets]


def compare(net, size, batch, level):
    """Returns one row of the table: the median step time of both sides over alternating blocks."""
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
            except RuntimeError as e:  # PyTorch lacks a 16-bit op on the device
                print(f"{net} {level}: PyTorch cannot: {str(e).splitlines()[0]}", file=sys.stderr)
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "device": args.device, "blocks": args.blocks, "steps": args.steps, "runs": runs}, file, indent=1)


if not args.out and not args.losses:
    sys.exit("bench_torch: --out FILE or --losses FILE is required; try --help")
if args.losses:
    write_losses()
if args.out:
    write_comparison()
