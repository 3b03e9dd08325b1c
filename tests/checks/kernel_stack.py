"""Ceilings of the stack of a thread, in bytes, in kernel files whose arrays must be in registers.
The driver reserves the stack of all threads of a GPU.

Usage: kernel_stack.py NVCC FLAG...
"""
import re
import sys
import tempfile
from pathlib import Path

from check import in_parallel, kernel_source, must, verdict

CEILINGS = {'grid_sample': 0}
FRAME = re.compile(r'Function properties for (\S+)\n\s*(\d+) bytes stack frame')


def frames_of(name, folder, nvcc):
    """Compiles a kernel file and returns [(kernel, bytes of its stack frame)]."""
    return FRAME.findall(
        must([
            *nvcc, '-arch=sm_90', '-cubin', '-Xptxas=-v', kernel_source(name, folder), '-o',
            folder / f'{name}.cubin'
        ]))


def main(*nvcc):
    passed, failures = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        lists = in_parallel(lambda name: frames_of(name, Path(scratch), nvcc), CEILINGS)
    for (name, ceiling), frames in zip(CEILINGS.items(), lists):
        if not frames:
            failures.append(f'{name}.cu has no kernels')
        for kernel, stack in frames:
            if int(stack) > ceiling:
                failures.append(f'{must(["c++filt", kernel]).strip()}: {stack} bytes of stack, '
                                f'of {ceiling}')
        passed += sum(1 for _, stack in frames if int(stack) <= ceiling)
    verdict(passed, failures)


main(*sys.argv[1:])
