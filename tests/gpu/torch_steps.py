#!/usr/bin/env python3
"""Times training steps in PyTorch: the nets, batches, levels and way of timing of gpu_steps.

    torch_steps.py NET BATCH LEVEL...     mlp, lenet, char_gpt, char_lstm, gpt2 or resnet50
    --small                               a few channels and tokens
    --cpu                                 on the CPU, to try the script out

Levels: O0 is f32 without TF32; O1 autocast to f16 with a GradScaler, the counterpart of Mezzo's O1
and O2; O4 autocast to bf16. Each runs eagerly and, except O0, with torch.compile, which needs a C
compiler. The first line is a JSON object: device, versions of driver and libraries, date. Each
other line is one as in gpu_steps. Status: 0, 1 where an eager step failed, 77 without torch or a
GPU.
"""
import argparse
import contextlib
import datetime
import json
import re
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
except ImportError as error:
    print(f'torch_steps.py: skipped, {error}')
    sys.exit(77)
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'samples'))
import torch_nets  # noqa: E402

functional = torch.nn.functional
LOW = {'O1': torch.float16, 'O4': torch.bfloat16}
CHARACTERS = 27  # of the bench's text


def warm_up_steps(level):
    return 4 if level == 'O0' else 16


def timed_steps(ms):
    """Returns how many steps are timed: those of about a second."""
    return int(min(max(1000 / ms, 6), 100))


def adam(parameters, device, lr):
    return torch.optim.Adam(parameters, lr=lr, **fused(torch.optim.Adam, device))


def digits(net, batch, device):
    net = net.to(device)
    x = torch.rand(batch, 1, 28, 28, device=device)
    return net, adam(net.parameters(), device, 1e-3), x, torch.randint(10, (batch,), device=device)


def mlp(batch, small, device):
    return digits(torch_nets.Mlp({'fc1.weight': (64 if small else 4096, 784)}, {}), batch, device)


def lenet(batch, small, device):
    shapes = {'conv1.weight': (4 if small else 32, 1, 5, 5)}
    return digits(torch_nets.LeNet(shapes, {}), batch, device)


class StatelessLstm(torch_nets.CharLstm):
    """Begins each stretch with a state of zeros."""

    def forward(self, x):
        return self.read(x, None)[0]


def char_lstm(batch, small, device):
    length, width = (16, 16) if small else (256, 512)
    shapes = {f'lstm.weight_ih_l{i}': (4 * width, width) for i in range(2)}
    shapes['embedding.weight'] = (CHARACTERS, width)
    net = StatelessLstm(shapes, {}).to(device)
    x, y = (torch.randint(CHARACTERS, (length, batch), device=device) for _ in range(2))
    return net, adam(net.parameters(), device, 2e-3), x, y


def transformer(sizes, options, batch, device):
    length, vocabulary, layers, heads, width = sizes
    shapes = {'token.weight': (vocabulary, width), 'position.weight': (length, width)}
    shapes.update({f'blocks.{i}.attention.qkv.weight': (3 * width, width) for i in range(layers)})
    net = torch_nets.CharGpt(shapes, {'heads': str(heads)})
    for p in net.parameters():
        if p.dim() >= 2:
            torch.nn.init.normal_(p, std=0.02)
    net = net.to(device)
    x, y = (torch.randint(vocabulary, (batch, length), device=device) for _ in range(2))
    kind = torch.optim.AdamW
    optimizer = kind(net.parameters(), weight_decay=0.1, **options, **fused(kind, device))
    return net, optimizer, x, y


def char_gpt(batch, small, device):
    sizes = (16, CHARACTERS, 2, 2, 16) if small else (256, CHARACTERS, 6, 6, 384)
    return transformer(sizes, {'lr': 1e-3, 'betas': (0.9, 0.99)}, batch, device)


def gpt2(batch, small, device):
    sizes = (16, 64, 2, 2, 32) if small else (1024, 50304, 12, 12, 768)
    return transformer(sizes, {'lr': 1e-4}, batch, device)


def resnet50(batch, small, device):
    pixels, classes, width = (32, 10, 4) if small else (224, 1000, 64)
    net = torch_nets.ResNet({'conv1.weight': (width, 3, 7, 7), 'fc.weight': (classes, 32 * width)},
                            {'depth': '50', 'stem': 'large'})
    net = net.to(device, memory_format=torch.channels_last)
    images = torch.randn(batch, 3, pixels, pixels, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    classes = torch.randint(classes, (batch,), device=device)
    kind = torch.optim.SGD
    optimizer = kind(net.parameters(),
                     lr=0.01,
                     momentum=0.9,
                     weight_decay=1e-4,
                     **fused(kind, device))
    return net, optimizer, images, classes


NETS = {'mlp': mlp, 'lenet': lenet, 'char_gpt': char_gpt, 'char_lstm': char_lstm, 'gpt2': gpt2,
        'resnet50': resnet50}


def fused(kind, device):
    """Returns options for one kernel over all parameters, where this PyTorch has it."""
    if device != 'cuda':
        return {}
    try:
        kind([torch.zeros(1, device=device, requires_grad=True)], lr=0.1, fused=True)
        return {'fused': True}
    except (TypeError, RuntimeError):
        return {}


def step_of(net, optimizer, x, y, level, device):
    """Returns a function that makes a training step and returns its loss, left on the device."""
    scales = level == 'O1' and device == 'cuda'
    scaler = torch.cuda.amp.GradScaler(enabled=scales)
    casts = torch.autocast(device, dtype=LOW[level]) if level in LOW else contextlib.nullcontext()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with casts:
            logits = net(x)
            loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step


def median_step(step, warm_up, device):
    """Returns (median step in milliseconds, its loss). Each step is synchronised."""
    def timed():
        start = time.perf_counter()
        loss = step()
        if device == 'cuda':
            torch.cuda.synchronize()
        return time.perf_counter() - start, loss

    for _ in range(warm_up):
        seconds, _ = timed()
    times = [timed() for _ in range(timed_steps(1e3 * seconds))]
    return 1e3 * statistics.median(t for t, _ in times), times[-1][1].item()


def run(make, level, way, args, device):
    torch.manual_seed(1)
    net, optimizer, x, y = make(args.batch, args.small, device)
    if way == 'compiled':
        if not hasattr(torch, 'compile'):
            raise RuntimeError(f'PyTorch {torch.__version__} has no torch.compile')
        net = torch.compile(net)
    step = step_of(net, optimizer, x, y, level, device)
    ms, loss = median_step(step, warm_up_steps(level), device)
    rate = 1e3 * args.batch / ms
    return {'step_ms': round(ms, 3), 'samples_per_s': round(rate, 1), 'loss': round(loss, 4)}


def environment(device):
    """Returns what a measurement depends on: device, versions, date."""
    facts = {'side': f'torch {torch.__version__}', 'device': device}
    if device == 'cuda':
        facts['device'] = torch.cuda.get_device_name()
        with contextlib.suppress(OSError, AttributeError):
            text = Path('/proc/driver/nvidia/version').read_text(encoding='utf-8')
            facts['driver'] = re.search(r' (\d+(?:\.\d+)+) ', text).group(1)
        facts.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
    with contextlib.suppress(ImportError):
        import triton
        facts['triton'] = triton.__version__
    facts['date'] = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('net', choices=NETS)
    parser.add_argument('batch', type=int)
    parser.add_argument('levels', nargs='+', choices=('O0', *LOW))
    parser.add_argument('--small', action='store_true')
    parser.add_argument('--cpu', action='store_true')
    args = parser.parse_args()
    device = 'cpu' if args.cpu else 'cuda'
    if device == 'cuda' and not torch.cuda.is_available():
        print('torch_steps.py: skipped, torch finds no GPU')
        return 77
    # As in Mezzo's O0; and the fastest convolution algorithms, searched for once.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(json.dumps(environment(device)), flush=True)
    failed = False
    for level in args.levels:
        for way in ('eager', 'compiled')[:1 if level == 'O0' else 2]:
            line = {'side': f'torch {torch.__version__}', 'net': args.net, 'batch': args.batch,
                    'level': level, 'way': way}
            try:
                line.update(run(NETS[args.net], level, way, args, device))
            except Exception as failure:  # without a compiler the other lines are still printed
                lines = str(failure).splitlines() or ['']
                line['error'] = f'{type(failure).__name__}: {lines[0]}'
                failed = failed or way == 'eager'
            print(json.dumps(line), flush=True)
            if device == 'cuda':
                torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
