"""What processes that work together log, and how many threads each of them takes.

Usage: comm_output.py PROGRAM MPI_LIBRARY
       PROGRAM is that of tests/comm/output.cpp; the library may be empty where there is no MPI
"""
import os
import re
import shutil
import sys

from check import Expectations, must, skip

ALONE = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(('OMPI_', 'PMI', 'SLURM_', 'MEZZO_'))
}
TOGETHER = ALONE | {
    'OMPI_ALLOW_RUN_AS_ROOT': '1',
    'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
    'ASAN_OPTIONS': 'detect_leaks=0',  # Open MPI loses memory of its own
}
CPUS = len(os.sched_getaffinity(0))

SUNK = ['0 an info', '1 a warning', '1 of two lines', '2 an error']
LOGGED = ['a warning', 'of two lines', 'an error']


def expected_lines(ranks, threads):
    """What `ranks` processes print, each with `threads` threads, in the order of the alphabet."""
    lines = ['an info']
    for rank in range(ranks):
        lines += [f'[rank {rank}] {line}' if rank else line for line in LOGGED]
        lines += [f'sink {rank} {line}' for line in SUNK]
        lines += [f'rank {rank}: {threads} threads']
    return sorted(lines)


def check(expect, what, command, environment, ranks, threads):
    printed = must(command, env=environment, timeout=120)
    lines = sorted(re.findall(r'^(?:\[rank|rank|sink|an? |of ).*$', printed, re.MULTILINE))
    expect(lines == expected_lines(ranks, threads), f'{what}: expected {threads} threads', printed)


def main(program, mpi_library):
    expect = Expectations()
    check(expect, 'alone', [program], ALONE, 1, CPUS)
    check(expect, 'alone with a variable', [program], ALONE | {'MEZZO_NUM_THREADS': '3'}, 1, 3)
    if not mpi_library or not shutil.which('mpirun'):
        if expect.failures:
            expect.verdict()
        skip('there is no MPI (Debian: apt-get install libopenmpi-dev openmpi-bin)')
    for ranks in (1, 2, 3):
        launch = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', ranks, program]
        check(expect, f'{ranks} ranks', launch, TOGETHER, ranks, max(1, CPUS // ranks))
        check(expect, f'{ranks} ranks with a variable', launch,
              TOGETHER | {'MEZZO_NUM_THREADS': '5'}, ranks, 5)
        check(expect, f'{ranks} ranks that set their threads', launch + [7], TOGETHER, ranks, 7)
    off = TOGETHER | {'MEZZO_COMM': 'off'}
    launch = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', 1, program]
    check(expect, 'not connected', launch, off, 1, CPUS)
    expect.verdict()


main(*sys.argv[1:])
