#!/usr/bin/env python3
"""Writes curves.txt beside it: the first 20 losses of every net of the bench at size tiny.

    python3 make_curves.py BENCH        (a build's samples/bench; needs a python3 with torch)

A line is NET LEVEL LOSS...; the lines of PyTorch's f32 losses have the level "torch". Weights and
data are the same on both sides (samples/bench_torch.py).
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 20
ROOT = Path(__file__).resolve().parents[2]
bench = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    ours, torch = Path(folder, 'ours.json'), Path(folder, 'torch.txt')
    subprocess.run([bench, '--nets', 'all', '--size', 'tiny', '--steps',
                    str(STEPS), '--quiet', '--json', ours],
                   check=True,
                   stdout=subprocess.DEVNULL)
    runs = json.loads(ours.read_text(encoding='utf-8'))['runs']
    nets = sorted({run['net'] for run in runs})
    subprocess.run([
        sys.executable, ROOT / 'samples/bench_torch.py', '--bench', bench, '--nets', ','.join(nets),
        '--levels', 'O0', '--size', 'tiny', '--steps',
        str(STEPS), '--losses', torch
    ],
                   check=True)
    lines = [
        line.replace(' O0 ', ' torch ') for line in torch.read_text(encoding='utf-8').splitlines()
    ]
lines += [
    ' '.join([run['net'], run['level'], *(f'{loss:.9g}' for loss in run['losses'])]) for run in runs
]
Path(__file__).with_name('curves.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')
