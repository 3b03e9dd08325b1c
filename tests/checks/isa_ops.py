"""Runs the tests of the ops with the kernels for each instruction set that this CPU has.

The test "ops" runs those in use by default. Exact products must have the same
bits with all of them. Left out are the tests of derivatives by finite differences and by a second
formula: gradients are compared with f64's too.

Usage: isa_ops.py OPS_TESTS CUSTOM_OP
"""
import os
import sys

from check import run, verdict

ISAS = ('v3', 'v4', 'bf16', 'amx')


def main(tests, custom_op):
    def at(isa, *command):
        return run(command, env=os.environ | {'MEZZO_CPU_ISA': isa})

    here = [isa for isa in ISAS if at(isa, custom_op).returncode == 0]
    failures = []
    chosen = at('', tests, '[.isa_name]').stdout.split('chosen: ')[-1].split()[0]
    others = [isa for isa in here if isa != chosen]
    for isa in others:
        done = at(isa, tests, '~[derivatives]')
        if done.returncode != 0:
            failures.append(f'MEZZO_CPU_ISA={isa}:\n{done.stdout}')
    bits = {isa: at(isa, tests, '[.product_bits]').stdout for isa in here}
    bits = {isa: [line for line in text.splitlines() if line.startswith('bits of ')]
            for isa, text in bits.items()}
    first = bits[here[0]]
    if len(first) < 50:
        failures.append(f'only {len(first)} checksums of exact products, expected 50 or more')
    for isa in here[1:]:
        differing = [f'{a} at {here[0]}, {b} at {isa}' for a, b in zip(first, bits[isa]) if a != b]
        if differing or len(first) != len(bits[isa]):
            failures.append('\n'.join(['exact products differ:', *differing]))
    print(f'{len(first)} checksums of exact products compared at {", ".join(here)}')
    print(f'the tests of the ops ran at {", ".join(others)}; the test "ops" runs at {chosen}')
    verdict(len(others) + len(here) - len(failures), failures)


main(*sys.argv[1:])
