"""Training steps of the bench's nets in PyTorch, from the files of `bench --export`.

Used by bench_torch.py.
"""
import json
import os
import struct

import torch

import torch_nets
from torch_levels import Levelled, optimizer_of

functional = torch.nn.functional
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


class Training:
    """Steps of one or two nets that cycle through four batches."""

    def __init__(self, tensors, facts, level, device, compiles):
        self.tensors, self.facts = tensors, facts
        self.level, self.device, self.compiles = level, device, compiles
        self.number = 0

    def levelled(self, kind, prefix):
        values = {name[len(prefix):]: value for name, value in self.tensors.items()
                  if name.startswith(prefix)}
        net = kind({name: tuple(value.shape) for name, value in values.items()}, self.facts)
        net.load_state_dict(values)
        net.to(memory_format=self.format())
        return Levelled(net, optimizer_of(self.facts), self.level, self.device, self.compiles)

    def format(self):
        is_last = self.facts.get("format") == "channels_last"
        return torch.channels_last if is_last else torch.contiguous_format

    def batch_part(self, name):
        part = self.tensors[name].to(self.device)
        return part.contiguous(memory_format=self.format()) if part.dim() == 4 else part

    def batches_of(self, *parts):
        return [[self.batch_part(f"{part}.{i}") for part in parts] for i in range(4)]

    def next_batch(self):
        self.number += 1
        return self.batches[(self.number - 1) % 4]


class Supervised(Training):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.net = self.levelled(torch_nets.NETS[self.facts["net"]], "net.")
        self.form = self.net.form
        self.max_norm = float(self.facts.get("max_norm", 0))
        self.batches = self.batches_of("x", "y")

    def step(self):
        x, y = self.next_batch()
        logits = self.net(x)
        loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        self.net.zero_grad()
        self.net.backward(loss)
        self.net.step(self.max_norm)
        return loss.item()


def verdict_loss(scores, right):
    return functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, right))


class Gan(Training):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.penalty = self.facts["net"] == "wgan_gp"
        self.generator = self.levelled(torch_nets.Generator, "generator.")
        self.discriminator = self.levelled(torch_nets.Discriminator, "discriminator.")
        self.form = self.generator.form
        self.batches = self.batches_of("real", "noise", "more_noise", "share")

    def gradient_penalty(self, real, made, share):
        between = (share * real + (1 - share) * made).detach().requires_grad_()
        slope, = torch.autograd.grad(self.discriminator(between).sum(), between, create_graph=True)
        return ((slope.square().sum((1, 2, 3)) + 1e-12).sqrt() - 1).square().mean()

    def step(self):
        real, noise, more_noise, share = self.next_batch()
        d, g = self.discriminator, self.generator
        made = g(noise).detach()
        d.zero_grad()
        if self.penalty:
            penalty = self.gradient_penalty(real, made, share)
            loss = d(made).mean() - d(real).mean() + 10 * penalty
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


def make_training(folder, net, level, device, compiles=False):
    """Returns the training of an exported net."""
    tensors, facts = read_safetensors(os.path.join(folder, net + ".safetensors"))
    kind = Gan if net in ("dcgan", "wgan_gp") else Supervised
    return kind(tensors, facts, level, device, compiles)
