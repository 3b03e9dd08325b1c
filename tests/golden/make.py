#!/usr/bin/env python3
"""Writes the golden files beside it: PyTorch's results for ops, layers, nets and more.

    python3 make.py PROGRAM    (needs torch, torchvision and torchmetrics; any version; the files
                                record that of torch)

PROGRAM is build/tests/test_golden, which lists the cases of ops. For each case "op/variant" a file
holds the operands as "name:x0", "name:x1", ..., the f64 results as "name:y0", ..., the gradients of
the operands that have one as "name:g0", ..., and the results and gradients computed in f32 under
the same names with the suffix ":f32".
Floating operands are stored in f32, and f64 runs on the same values. The incoming gradient of a
result is (i mod 7) / 4 - 1/2 at element i.
"""
import json
import struct
import sys
from pathlib import Path

import torch

from golden import cases_of, operands_of
from layers import tensors_of_layers
from metrics import tensors_of_metrics
from models import tensors_of_models
from training import tensors_of_training
from transforms import tensors_of_transforms

FAMILIES = ('pointwise', 'reduce', 'linear', 'linalg', 'window', 'index', 'loss', 'sequence',
            'space')
CODES = {
    torch.float64: 'F64',
    torch.float32: 'F32',
    torch.float16: 'F16',
    torch.int64: 'I64',
    torch.int32: 'I32',
    torch.uint8: 'U8',
    torch.bool: 'BOOL'
}


def incoming(y):
    values = torch.arange(y.numel(), dtype=torch.float64) % 7 * 0.25 - 0.5
    return values.to(y.dtype).reshape(y.shape)


def evaluate(case, operands, dtype):
    """Returns (results, {operand number: gradient}) of a case computed in dtype."""
    inputs = []
    for spec, value in zip(case.specs, operands):
        x = value.to(dtype, copy=True) if value.is_floating_point() else value.clone()
        inputs.append(x.requires_grad_(spec.gradient))
    results = case.call(*inputs)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    recorded = [y for y in results if y.requires_grad]
    if recorded:
        torch.autograd.backward(recorded, [incoming(y) for y in recorded])
    gradients = {k: x.grad for k, x in enumerate(inputs) if x.grad is not None}
    return [y.detach() for y in results], gradients


def tensors_of(cases):
    tensors = {}
    for case in cases:
        operands = operands_of(case)
        for k, x in enumerate(operands):
            tensors[f'{case.name}:x{k}'] = x
        for dtype, mark in ((torch.float64, ''), (torch.float32, ':f32')):
            results, gradients = evaluate(case, operands, dtype)
            for k, y in enumerate(results):
                if y.is_floating_point() or not mark:  # integer results do not depend on dtype
                    tensors[f'{case.name}:y{k}{mark}'] = y
            for k, g in gradients.items():
                tensors[f'{case.name}:g{k}{mark}'] = g
    return tensors


def write(path, tensors, notes={}):
    """Writes a safetensors file, with the widest elements first so that all are aligned."""
    header = {'__metadata__': {'format': 'pt', 'torch': torch.__version__, **notes}}
    body = b''
    for name, x in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        content = x.contiguous().numpy().tobytes()
        header[name] = {
            'dtype': CODES[x.dtype],
            'shape': list(x.shape),
            'data_offsets': [len(body), len(body) + len(content)]
        }
        body += content
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


def main():
    all_cases = cases_of(sys.argv[1])
    for family in FAMILIES:
        cases = [case for case in all_cases if case.family == family]
        path = Path(__file__).with_name(f'{family}.safetensors')
        write(path, tensors_of(cases))
        print(f'{path.name}: {len(cases)} cases, {path.stat().st_size} bytes')
    tensors, names = tensors_of_layers(incoming)
    path = Path(__file__).with_name('layers.safetensors')
    write(path, tensors, names)
    print(f'{path.name}: {len(names)} layers, {path.stat().st_size} bytes')
    tensors, names = tensors_of_models()
    path = Path(__file__).with_name('models.safetensors')
    write(path, tensors, names)
    print(f'{path.name}: {len(names)} models, {path.stat().st_size} bytes')
    tensors = tensors_of_training()
    path = Path(__file__).with_name('training.safetensors')
    write(path, tensors)
    print(f'{path.name}: {len(tensors)} optimizers and schedules, {path.stat().st_size} bytes')
    tensors = tensors_of_transforms()
    path = Path(__file__).with_name('transforms.safetensors')
    write(path, tensors)
    print(f'{path.name}: {len(tensors)} transforms, {path.stat().st_size} bytes')
    tensors = tensors_of_metrics()
    path = Path(__file__).with_name('metrics.safetensors')
    write(path, tensors)
    print(f'{path.name}: {len(tensors)} tensors of metrics, {path.stat().st_size} bytes')


if __name__ == '__main__':
    main()
