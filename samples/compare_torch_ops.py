#!/usr/bin/env python3
"""Time of single operations in f32, forward and backward: Mezzo's bench --ops against PyTorch, same shapes and threads, blocks interleaved.

    samples/compare_torch_ops.py [--bench build/samples/bench] [--only gelu,softmax] [--threads 1] [--blocks 5] [--rounds 15]

Prints for each operation the median of both sides over all blocks and the median ratio of a block (PyTorch / Mezzo: above 1 means Mezzo is
faster), with the smallest and largest, and what the project wants it to be. Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Operation -> the ratio that is wanted.
TARGETS = {"adam": 1.2, "attention": 1.0, "conv2d": 0.8, "cross_entropy": 1.2, "gelu": 1.2, "layer_norm": 1.2, "lstm": 1.5, "softmax": 1.2}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/samples/bench")
    parser.add_argument("--only", default=",".join(TARGETS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    return parser.parse_args()


# Must be set before torch starts its threads: two spinning pools on two cores cost it a factor of two.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
args = arguments()
os.environ["OMP_NUM_THREADS"] = str(args.threads)
try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("compare_torch_ops: no torch in this python3; apt-get install python3-torch and use /usr/bin/python3")


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


def forward_backward(f, g, leaves):
    """One call of what samples/bench/ops.cpp measures under the same name."""
    def step():
        f(*leaves).backward(g)
        for x in leaves:
            x.grad = None
    return step


def adam():
    parameters = [leaf(*shape) for _ in range(16) for shape in ((256, 256), (256,))]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return torch.optim.Adam(parameters).step


def attend(q, k, v):
    return functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


def attention():
    shape = (4, 6, 256, 64)
    return forward_backward(attend, torch.randn(shape), [leaf(*shape), leaf(*shape), leaf(*shape)])


def conv2d():
    return forward_backward(lambda x, w, b: functional.conv2d(x, w, b, padding=1), torch.randn(32, 64, 32, 32),
                            [leaf(32, 64, 32, 32), leaf(64, 64, 3, 3), leaf(64)])


def cross_entropy():
    classes = torch.randint(0, 1000, (1024,))
    return forward_backward(lambda x: functional.cross_entropy(x, classes), torch.ones(()), [leaf(1024, 1000)])


def gelu():
    return forward_backward(functional.gelu, torch.randn(1024, 1024), [leaf(1024, 1024)])


def layer_norm():
    return forward_backward(lambda x, w, b: functional.layer_norm(x, (1024,), w, b), torch.randn(1024, 1024),
                            [leaf(1024, 1024), leaf(1024), leaf(1024)])


def lstm():
    layer = nn.LSTM(512, 512)
    x = leaf(64, 16, 512)
    return forward_backward(lambda x, *_: layer(x)[0], torch.randn(64, 16, 512), [x, *layer.parameters()])


def softmax():
    return forward_backward(lambda x: functional.softmax(x, -1), torch.randn(1024, 1000), [leaf(1024, 1000)])


def peer_block(step):
    """Median milliseconds of a call."""
    step()
    times = []
    for _ in range(args.rounds):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def mezzo_block(name):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "ops.json")
        command = [args.bench, "--ops", "--only", name, "--rounds", str(args.rounds), "--threads", str(args.threads), "--json", report]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(report) as file:
            return json.load(file)["figures"][name]


def main():
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, f32, {args.blocks} blocks of {args.rounds} calls; ratio is torch/mezzo")
    print(f"{'operation':15} {'mezzo ms':>10} {'torch ms':>10} {'ratio':>7} {'of blocks':>14} {'wanted':>7}")
    for name in args.only.split(","):
        if name not in TARGETS:
            sys.exit(f"compare_torch_ops: --only: no such operation: {name}; there are {', '.join(TARGETS)}")
        step = globals()[name]()
        ours, theirs = [], []
        for _ in range(args.blocks):
            ours.append(mezzo_block(name))
            theirs.append(peer_block(step))
        ratios = [t / m for t, m in zip(theirs, ours)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name:15} {statistics.median(ours):10.3f} {statistics.median(theirs):10.3f} {statistics.median(ratios):7.2f} "
              f"{spread:>14} {TARGETS[name]:7.1f}", flush=True)


main()
