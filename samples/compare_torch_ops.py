#!/usr/bin/env python3
"""Compares the time of single operations, forward and backward, in Mezzo and in PyTorch.

    samples/compare_torch_ops.py [--bench build/samples/bench] [--only gelu,softmax]
                                 [--threads 1] [--blocks 5] [--rounds 15]

Operations are in f32, or in the dtype that their name ends with; "last" means channels-last.
Matmul and f16 convolutions are forward only: PyTorch takes seconds for the gradients of the latter.
It calls oneDNN for products and convolutions of 16-bit operands.
Both sides use the same shapes and numbers of threads, and their blocks alternate. For each
operation, prints the median time of both sides, the median, smallest and largest ratio of a block
(PyTorch / Mezzo: above 1 means that Mezzo is faster), and the project's target.
Needs a python3 with torch (Debian: apt-get install python3-torch).
"""
import math
import statistics
import sys

import torch_peer
import torch_rows

# Operation -> target ratio.
TARGETS = {"adam": 1.2, "attention": 1.0, "conv2d": 0.8, "conv2d_bf16": 1.0, "conv2d_f16": 1.0,
           "conv2d_last": 0.8, "conv2d_last_bf16": 1.0, "conv2d_last_f16": 1.0,
           "cross_entropy": 1.2, "gelu": 1.2, "layer_norm": 1.2, "linear": 0.9, "linear_bf16": 1.0,
           "linear_f16": 1.0, "lstm": 1.5, "matmul": 0.9, "matmul_bf16": 1.0, "matmul_f16": 1.0,
           "softmax": 1.2}

parser = torch_peer.parser(__doc__, threads=1)
parser.add_argument("--only", default=",".join(TARGETS))
parser.add_argument("--rounds", type=int, default=15)
args = parser.parse_args()
torch = torch_peer.load_torch(args.threads)
import torch_levels  # after the threads of torch are set

nn, functional = torch.nn, torch.nn.functional


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).requires_grad_()


def forward_backward(f, g, leaves):
    """Returns the step that samples/bench/ops.cpp measures under the same name."""
    def step():
        f(*leaves).backward(g)
        for x in leaves:
            x.grad = None
    return step


def adam():
    parameters = [leaf(*shape) for _ in range(16) for shape in ((256, 256), (256,))]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return torch_levels.make_optimizer(torch.optim.Adam, parameters)[0].step


def attend(q, k, v):
    return functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


def attention():
    shape = (4, 6, 256, 64)
    return forward_backward(attend, torch.randn(shape), [leaf(*shape), leaf(*shape), leaf(*shape)])


def conv2d(dtype=torch.float32, memory_format=torch.contiguous_format):
    def laid_out(*shape):
        return torch.randn(*shape).to(dtype).contiguous(memory_format=memory_format)

    def convolve(x, w, b):
        return functional.conv2d(x, w, b, padding=1)

    leaves = [laid_out(32, 64, 32, 32), laid_out(64, 64, 3, 3), torch.randn(64).to(dtype)]
    if dtype == torch.float16:
        return lambda: convolve(*leaves)
    return forward_backward(convolve, laid_out(32, 64, 32, 32),
                            [x.requires_grad_() for x in leaves])


def conv2d_last(dtype=torch.float32):
    return conv2d(dtype, torch.channels_last)


def cross_entropy():
    classes = torch.randint(0, 1000, (1024,))
    return forward_backward(lambda x: functional.cross_entropy(x, classes), torch.ones(()),
                            [leaf(1024, 1000)])


def gelu():
    return forward_backward(functional.gelu, torch.randn(1024, 1024), [leaf(1024, 1024)])


def layer_norm():
    return forward_backward(lambda x, w, b: functional.layer_norm(x, (1024,), w, b),
                            torch.randn(1024, 1024),
                            [leaf(1024, 1024), leaf(1024), leaf(1024)])


def linear(dtype=torch.float32):
    return forward_backward(functional.linear, torch.randn(128, 1024).to(dtype),
                            [leaf(128, 1024, dtype=dtype), leaf(1024, 1024, dtype=dtype),
                             leaf(1024, dtype=dtype)])


def matmul(dtype=torch.float32):
    a, b = (torch.randn(1024, 1024).to(dtype) for _ in range(2))
    return lambda: a @ b


def lstm():
    layer = nn.LSTM(512, 512)
    x = leaf(64, 16, 512)
    return forward_backward(lambda x, *_: layer(x)[0], torch.randn(64, 16, 512),
                            [x, *layer.parameters()])


def softmax():
    return forward_backward(lambda x: functional.softmax(x, -1), torch.randn(1024, 1000),
                            [leaf(1024, 1000)])


def step_of(name):
    """Returns PyTorch's step of an operation."""
    for ending, dtype in (("_bf16", torch.bfloat16), ("_f16", torch.float16)):
        if name.endswith(ending):
            return globals()[name.removesuffix(ending)](dtype)
    return globals()[name]()


def peer_block(step):
    """Returns the median milliseconds of a call."""
    step()
    return 1e3 * torch_peer.median_seconds(step, args.rounds)


def mezzo_block(name):
    report = torch_peer.bench_report(args.bench, "--ops", "--only", name, "--rounds", args.rounds,
                                     "--threads", args.threads)
    return report["figures"][name]


def main():
    print(f"torch {torch.__version__}, {args.threads} threads, {args.blocks} blocks of "
          f"{args.rounds} calls; ratio is torch/mezzo")
    print(f"{'operation':16} {'mezzo ms':>10} {'torch ms':>10} {'ratio':>7} {'of blocks':>14} "
          f"{'wanted':>7}")
    for name in args.only.split(","):
        if name not in TARGETS:
            sys.exit(f"compare_torch_ops: --only: no such operation: {name}; "
                     f"there are {', '.join(TARGETS)}")
        step = step_of(name)
        sides = {"mezzo": lambda: mezzo_block(name), "torch": lambda: peer_block(step)}
        times, errors = torch_rows.in_turns(sides, args.blocks)
        if errors:
            print(f"{name:16} failed: {', '.join(errors.values())}", flush=True)
            continue
        mezzo, peer = (statistics.median(times[side]) for side in ("mezzo", "torch"))
        ratio = torch_rows.Ratio(times["torch"], times["mezzo"])
        spread = f"{ratio.lowest:.2f} to {ratio.highest:.2f}"
        print(f"{name:16} {mezzo:10.3f} {peer:10.3f} {ratio.median:7.2f} {spread:>14} "
              f"{TARGETS[name]:7.1f}", flush=True)


main()
