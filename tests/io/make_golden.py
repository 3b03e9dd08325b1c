#!/usr/bin/env python3
"""Writes golden_safetensors.h: a file made by the Python package `safetensors`.

The tests compare the writer's output with it byte for byte.

    python3 make_golden.py > golden_safetensors.h        (needs: pip install safetensors==0.5.3)
"""
import struct

import safetensors

from byte_arrays import text_of_arrays


def bytes_of(code, values):
    return struct.pack(f"<{len(values)}{code}", *values)


def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


TENSORS = {
    "fc1.weight": ("float32", [2, 3], bytes_of("f", [i * 0.5 for i in range(6)])),
    "fc1.bias": ("float32", [3], bytes_of("f", range(3))),
    'a "quoted" \\ name\n\t\x01': ("float32", [2], bytes_of("f", range(2))),
    "\u00fc\u20ac\U0001f600": ("float32", [1, 2], bytes_of("f", range(2))),
    "half": ("float16", [5], bytes_of("e", range(5))),
    "brain": ("bfloat16", [3, 1], bf16(range(3))),
    "double": ("float64", [2], bytes_of("d", range(2))),
    "long": ("int64", [2], bytes_of("q", range(2))),
    "int": ("int32", [3], bytes_of("i", range(3))),
    "byte": ("uint8", [3], bytes_of("B", range(3))),
    "truth": ("bool", [3], bytes_of("?", [True, False, True])),
    "zero_dim": ("float32", [], bytes_of("f", [7])),
    "empty": ("float32", [0, 4], b""),
}

content = safetensors.serialize(
    {
        name: {
            "dtype": dtype,
            "shape": shape,
            "data": data
        }
        for name, (dtype, shape, data) in TENSORS.items()
    },
    metadata={"format": "pt"})

origin = f"a file made by make_golden.py with safetensors {safetensors.__version__} for Python"
print(text_of_arrays(origin, {"kGoldenSafetensors": content}), end="")
