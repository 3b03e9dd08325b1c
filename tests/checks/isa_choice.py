"""MEZZO_CPU_ISA, and CPUs that lack an instruction set (emulated by qemu), in a portable build.

Usage: isa_choice.py SAMPLES_DIR TENSOR_TESTS
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from check import Expectations, skip

ISAS = ('v3', 'v4', 'bf16', 'amx')
expect = Expectations()


def run(isa, *command):
    environment = os.environ | {'MEZZO_CPU_ISA': isa, 'MEZZO_NUM_THREADS': '1'}
    return subprocess.run([str(word) for word in command], env=environment, text=True,
                          capture_output=True, timeout=1200, check=False)


def expect_line(done, status, part, what):
    """Expects the status and one line on stderr that has the part."""
    lines = done.stderr.splitlines()
    expect(done.returncode == status and len(lines) == 1 and part in lines[0],
           f'{what}: expected status {status} and one line with {part!r}',
           f'status {done.returncode}\n{done.stdout[-2000:]}{done.stderr}')


def expect_success(done, what):
    expect(done.returncode == 0, f'{what} failed', f'{done.stdout[-2000:]}{done.stderr}')


def main(samples, tests):
    custom_op = Path(samples) / 'custom_op'
    for isa in ('avx2', 'V3', 'v5', 'v3 '):
        expect_line(run(isa, custom_op), 2, 'expected v3, v4, bf16 or amx', f'MEZZO_CPU_ISA={isa}')
    expect_success(run('v5', tests, '[unknown_isa]'), 'the error for an unknown name')
    here = [isa for isa in ISAS if run(isa, custom_op).returncode == 0]
    expect('v3' in here, 'this CPU lacks v3')
    for isa in here:
        expect_success(run(isa, tests, '[cpu_isa]'), f'MEZZO_CPU_ISA={isa}')
    for isa in ISAS:
        if isa not in here:
            part = 'AMX cannot be used: ' if isa == 'amx' else 'this CPU lacks'
            expect_line(run(isa, custom_op), 2, part, f'MEZZO_CPU_ISA={isa}')
    if 'amx' in here:
        expect_success(run('', tests, '[.small_signal_stack]'), 'a refused permission')
        expect_success(run('amx', tests, '[.small_signal_stack]'), 'a refused permission for amx')

    emulator = shutil.which('qemu-x86_64')
    if not emulator and not expect.failures:
        skip('qemu-x86_64 is not here (Debian: qemu-user)')
    if not emulator:
        expect.verdict()
    old = [emulator, '-cpu', 'Nehalem']
    expect_line(run('', *old, custom_op), 1, 'expected x86-64-v3', 'a CPU below v3')
    expect_line(run('v5', *old, custom_op), 2, 'expected v3', 'MEZZO_CPU_ISA=v5 below v3')
    expect_success(run('', *old, Path(samples) / 'ops'), 'a program without kernels below v3')
    expect_success(run('', *old, tests, '[below_v3]'), 'the error of a CPU below v3')
    # The emulator has no AVX-512.
    medium = [emulator, '-cpu', 'max']
    expect_success(run('', *medium, tests, '[cpu_isa]'), 'a CPU with v3')
    for isa in ('v4', 'bf16', 'amx'):
        part = 'AMX cannot be used: the CPU' if isa == 'amx' else 'this CPU lacks'
        expect_line(run(isa, *medium, custom_op), 2, part, f'MEZZO_CPU_ISA={isa} at v3')
    print(f'chosen here: {", ".join(here)}; emulated: a CPU below v3, one with v3')
    expect.verdict()


main(*sys.argv[1:])
