"""A job of two processes in which something goes wrong, for comm_faults.py and
parallel_faults.py."""
import os
import re
import shutil
import subprocess
import time

from check import run, skip

TIMEOUT = 2  # seconds: MEZZO_COMM_TIMEOUT_S
# What a busy machine may add; an error takes milliseconds, and mpirun a second to end a job.
SLACK = 20 if os.environ.get('CI') == 'true' else 8

ANYTHING = re.compile('.*')

NO_MPI = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(('OMPI_', 'PMI', 'SLURM_', 'MEZZO_COMM', 'MEZZO_MPI'))
}
ENVIRONMENT = NO_MPI | {
    'OMPI_ALLOW_RUN_AS_ROOT': '1',
    'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
    'MEZZO_COMM_TIMEOUT_S': str(TIMEOUT),
    'MEZZO_NUM_THREADS': '1',
    'ASAN_OPTIONS': 'detect_leaks=0',  # Open MPI loses memory of its own, and so do failed jobs
}


def start(program, scenario, **variables):
    """Runs the scenario on two ranks. Returns status, seconds, {rank: lines}."""
    begun = time.monotonic()
    done = run(['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', '2', program, scenario],
               env=ENVIRONMENT | variables, timeout=120)
    lines = {0: [], 1: []}
    for rank, text in re.findall(r'^rank ([01]): (.*)$', done.stdout, re.MULTILINE):
        lines[int(rank)].append(text)
    return done, time.monotonic() - begun, lines


def matches(text, expected):
    return expected.fullmatch(text) if isinstance(expected, re.Pattern) else text == expected


def check_end(expect, scenario, done, seconds):
    """Expects that a job ended in time, with a status other than 0."""
    expect(done.returncode != 0, f'{scenario}: the job ended with status 0', done.stdout)
    limit = TIMEOUT + 2 + SLACK
    expect(seconds < limit, f'{scenario}: took {seconds:.1f} s, expected {limit}', done.stdout)


def check_scenario(expect, program, scenario, expected, **variables):
    """Expects the first line that each rank prints: a text, a pattern, or None for nothing. Returns
    {rank: lines}."""
    done, seconds, lines = start(program, scenario, **variables)
    for rank, wanted in enumerate(expected):
        first = lines[rank][0] if lines[rank] else None
        right = first is None if wanted is None else first is not None and matches(first, wanted)
        expect(wanted is ANYTHING or right, f'{scenario}: rank {rank}, expected {wanted}',
               done.stdout)
    check_end(expect, scenario, done, seconds)
    return lines


def check_harmless(expect, program, scenario):
    """Expects that nothing goes wrong."""
    done, _, lines = start(program, scenario)
    expect(done.returncode == 0 and not lines[0] and not lines[1], f'{scenario}: failed',
           done.stdout)


def check_deadly(expect, program, scenario):
    """Expects that the launcher ends the job."""
    done, seconds, _ = start(program, scenario)
    expect(done.returncode != 0, f'{scenario}: the job ended with status 0', done.stdout)
    expect(seconds < 5 + SLACK, f'{scenario}: took {seconds:.1f} s', done.stdout)


def check_nothing_left(expect, program):
    """Expects that no process of the program runs."""
    left = subprocess.run(['pgrep', '-f', f'^{re.escape(program)} '], stdout=subprocess.PIPE,
                          text=True, check=False).stdout.split()
    expect(not left, f'processes are left: {left}')


def require_mpi(expect, mpi_library):
    """Ends the check where there is no MPI."""
    if mpi_library and shutil.which('mpirun'):
        return
    if expect.failures:
        expect.verdict()
    skip('there is no MPI (Debian: apt-get install libopenmpi-dev openmpi-bin)')
