"""Runs the tests of the ops with the kernels for each instruction set that this CPU has.

The best of them is in use by default, and the test "ops" runs it.

Usage: isa_ops.py OPS_TESTS CUSTOM_OP
"""
import os
import sys

from check import run, verdict

ISAS = ('v3', 'v4', 'bf16')


def main(tests, custom_op):
    def at(isa, *command):
        return run(command, env=os.environ | {'MEZZO_CPU_ISA': isa})

    here = [isa for isa in ISAS if at(isa, custom_op).returncode == 0]
    failures = []
    for isa in here[:-1] or here:
        done = at(isa, tests)
        if done.returncode != 0:
            failures.append(f'MEZZO_CPU_ISA={isa}:\n{done.stdout}')
    ran = ', '.join(here[:-1] or here)
    print(f'the tests of the ops ran at {ran}; the test "ops" runs at {here[-1]}')
    verdict(len(here[:-1] or here) - len(failures), failures)


main(*sys.argv[1:])
