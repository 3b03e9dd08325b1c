#!/usr/bin/env python3
"""Step time of the sample nets in f32 with Adam: Mezzo's bench against PyTorch, same machine, same threads, blocks interleaved.

    samples/compare_torch.py [--bench build/samples/bench] [--nets mlp,lenet] [--threads 2] [--blocks 5] [--steps 40] [--batch 128]

Prints for each net the median step of both sides over all blocks and their ratio (PyTorch / Mezzo: above 1 means Mezzo is faster), with the
smallest and largest ratio of a block. Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/samples/bench")
    parser.add_argument("--nets", default="mlp,lenet")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=128)
    return parser.parse_args()


# Must be set before torch starts its threads: two spinning pools on two cores cost it a factor of two.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
args = arguments()
os.environ["OMP_NUM_THREADS"] = str(args.threads)
try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("compare_torch: no torch in this python3; apt-get install python3-torch and use /usr/bin/python3")


class Peer:
    """One net of samples/common/nets.h with Adam, on random images: the arithmetic does not depend on what they show."""

    def __init__(self, net):
        torch.manual_seed(1)
        self.model = {"mlp": mlp, "lenet": lenet}[net]()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.x = torch.randn(args.batch, 1, 28, 28)
        self.y = torch.randint(0, 10, (args.batch,))
        self.block(3)

    def block(self, steps):
        """Median seconds of a training step."""
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            loss = nn.functional.cross_entropy(self.model(self.x), self.y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def mezzo_block(net):
    """Median seconds of a training step of Mezzo at O0."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "bench.json")
        command = [args.bench, "--nets", net, "--levels", "O0", "--steps", str(args.steps), "--batch", str(args.batch), "--threads", str(args.threads),
                   "--train", str(args.batch * 4), "--test", "16", "--quiet", "--json", report]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(report) as file:
            return json.load(file)["runs"][0]["step_ms"] / 1e3


def main():
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, batch {args.batch}, f32, Adam, {args.blocks} blocks of {args.steps} steps")
    for net in args.nets.split(","):
        peer = Peer(net)
        ours, theirs = [], []
        for _ in range(args.blocks):
            ours.append(mezzo_block(net))
            theirs.append(peer.block(args.steps))
        ratios = [t / m for t, m in zip(theirs, ours)]
        print(f"{net}: mezzo {1e3 * statistics.median(ours):.2f} ms, torch {1e3 * statistics.median(theirs):.2f} ms, "
              f"torch/mezzo {statistics.median(ratios):.2f} (blocks {min(ratios):.2f} to {max(ratios):.2f})")


main()
