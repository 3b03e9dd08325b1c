#!/usr/bin/env python3
"""Step time of the sample nets in f32 with Adam: Mezzo's bench against PyTorch, same machine, same threads, blocks interleaved.

    samples/compare_torch.py [--bench build/samples/bench] [--nets mlp,lenet] [--threads 2] [--blocks 5] [--steps 40] [--batch 128]

Prints for each net the median step of both sides over all blocks and their ratio (PyTorch / Mezzo: above 1 means Mezzo is faster), with the
smallest and largest ratio of a block. Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import os

import torch_peer

parser = torch_peer.parser(__doc__, threads=len(os.sched_getaffinity(0)))
parser.add_argument("--nets", default="mlp,lenet")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--batch", type=int, default=128)
args = parser.parse_args()
torch = torch_peer.load_torch(args.threads)
nn = torch.nn


class Peer:
    """One net of samples/common/nets.h with Adam, on random images: the arithmetic does not depend on what they show."""

    def __init__(self, net):
        self.model = {"mlp": mlp, "lenet": lenet}[net]()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.x = torch.randn(args.batch, 1, 28, 28)
        self.y = torch.randint(0, 10, (args.batch,))
        self.block(3)

    def step(self):
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def block(self, steps):
        """Median seconds of a training step."""
        return torch_peer.median_seconds(self.step, steps)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def mezzo_block(net):
    """Median seconds of a training step of Mezzo at O0."""
    report = torch_peer.bench_report(args.bench, "--nets", net, "--levels", "O0", "--steps", args.steps, "--batch", args.batch, "--threads",
                                     args.threads, "--train", args.batch * 4, "--test", 16, "--quiet")
    return report["runs"][0]["step_ms"] / 1e3


def main():
    print(f"torch {torch.__version__}, {args.threads} threads, batch {args.batch}, f32, Adam, {args.blocks} blocks of {args.steps} steps")
    for net in args.nets.split(","):
        peer = Peer(net)
        c = torch_peer.Comparison(lambda: mezzo_block(net), lambda: peer.block(args.steps), args.blocks)
        print(f"{net}: mezzo {1e3 * c.mezzo:.2f} ms, torch {1e3 * c.torch:.2f} ms, "
              f"torch/mezzo {c.ratio:.2f} (blocks {c.lowest:.2f} to {c.highest:.2f})")


main()
