"""Faults between processes: every rank gets an error that says what happened, in time, and the job
ends with a status other than 0 and leaves no process behind.

Usage: comm_faults.py PROGRAM MPI_LIBRARY FAKE_MPI_LIBRARY
       PROGRAM is that of tests/comm/fault.cpp; the libraries may be empty where there is no MPI
"""
import re
import sys

from check import Expectations, run
from faulty_job import (ANYTHING, ENVIRONMENT, TIMEOUT, check_deadly, check_harmless,
                        check_nothing_left, check_scenario, require_mpi)

LABEL = 'bucket 3 of 7 (fc1.weight ... conv2.weight)'


def differ(first, second):
    """The text on all ranks where rank 1 is in another operation than rank 0."""
    return [
        f'comm: ranks are not in the same operation; got {first} on rank 0, {second} on rank 1, '
        'expected the same calls in the same order on all ranks'
    ] * 2


def backward_differs(first, second):
    return [f'backward 1: ranks differ; got {first} on rank 0, {second} on rank 1'] * 2


SUM = 'all_reduce(sum, ranks) of f32 x'
NO_ANSWER = f'backward 3: no answer for {TIMEOUT} s (MEZZO_COMM_TIMEOUT_S); waiting in '

# scenario -> the error of rank 0 and of rank 1: a text, a pattern, or None for a rank that prints
# nothing
SCENARIOS = {
    'counts': differ(f'{SUM} 4', f'{SUM} 8'),
    'large_counts': differ(f'{SUM} 40000', f'{SUM} 80000'),
    'dtypes': differ(f'{SUM} 4', 'all_reduce(sum, ranks) of f16 x 4'),
    'orders': differ(f'{SUM} 4', 'all_reduce(sum, fast) of f32 x 4'),
    'kinds': differ(f'{SUM} 4', 'barrier'),
    'roots': differ('broadcast(root 0) of f32 x 9', 'broadcast(root 1) of f32 x 9'),
    'unchecked_counts': [
        re.compile(r'comm: (this rank|rank 1) failed in all_gather of f32 x \d+: .*TRUNCATE.*'),
        re.compile(r'comm: (this rank|rank 0) failed in all_gather of f32 x \d+: .*TRUNCATE.*')
    ],
    'signatures': backward_differs('b f32[4]', 'b f16[4]'),
    'more_lines': backward_differs('nothing', 'b'),
    'round_kinds': differ('backward 1', 'checkpoint 1'),
    'other_signature': differ('backward 1 as operation 1 with signature 8',
                              'backward 1 as operation 1 with signature 7'),
    'frame_meets_data': [re.compile(r'backward 1: no answer for 2 s .*')] * 2,
    'throw_in_round': [
        'comm: rank 1 left backward 3: OutOfMemory: relu: no memory; got 4 GiB',
        'relu: no memory; got 4 GiB'
    ],
    'throw_outside': ['comm: rank 1 left its work: an exception', 'data: no such file'],
    'ended_early': [differ('backward 3', 'the end of the program')[0], None],
    'ended_with_3': [differ('backward 3', 'the end of the program')[0], None],
    'ended_in_bucket': [f'backward 3: rank 1 has ended its program; waiting in {LABEL}', None],
    'hung': [NO_ANSWER + 'backward 3', None],
    'hung_in_bucket': [NO_ANSWER + LABEL, None],
    # the launcher wakes rank 1 before it ends it
    'stopped': [NO_ANSWER + 'backward 3', ANYTHING],
    'no_init': [
        'comm::init: no answer for 2 s (MEZZO_COMM_TIMEOUT_S); every process has to call '
        'comm::init()', None
    ],
}
# the launcher ends these jobs
DEATHS = ('killed', 'crashed', 'left_at_once', 'uncaught')
# nothing is wrong
HARMLESS = ('none', 'slow_end')


def check_next_call(expect, scenario, expected, lines):
    """Expects that each rank with an error got one at its next call as well."""
    for rank, wanted in enumerate(expected):
        expect(wanted in (None, ANYTHING) or any(line.startswith('again ') for line in lines[rank]),
               f'{scenario}: rank {rank}: no error at the next call', lines[rank])


def check_launch(expect, program, wanted, **variables):
    """Starts the program without mpirun, but with variables of a launcher."""
    environment = ENVIRONMENT | {'MEZZO_COMM_TIMEOUT_S': '5'} | variables
    done = run([program, 'none'], env=environment, timeout=120)
    expect(re.search(wanted, done.stdout), f'{variables}: expected {wanted}', done.stdout)
    expect(done.returncode == 9, f'{variables}: status {done.returncode}, expected 9', done.stdout)


def main(program, mpi_library, fake_library):
    expect = Expectations()
    check_launch(expect, program, r'comm::init: processes started by torchrun need NCCL, which '
                 r'this build lacks; got RANK=1, WORLD_SIZE=2; mpirun -np 2 PROGRAM\n',
                 RANK='1', WORLD_SIZE='2', MASTER_ADDR='localhost', MASTER_PORT='1')
    open_mpi = {'OMPI_COMM_WORLD_RANK': '0', 'OMPI_COMM_WORLD_SIZE': '2'}
    check_launch(expect, program, r'comm::init: the MPI part of Mezzo cannot be loaded; got '
                 r'/nowhere\.so: .*; apt-get install libopenmpi-dev openmpi-bin, then build with '
                 r'-Dmpi=enabled\n', MEZZO_MPI_LIBRARY='/nowhere.so', **open_mpi)
    check_launch(expect, program, r'comm::init: MEZZO_COMM_TIMEOUT_S is wrong; got '
                 r'MEZZO_COMM_TIMEOUT_S=soon, expected a positive number of seconds\n',
                 **open_mpi | {'MEZZO_COMM_TIMEOUT_S': 'soon'})
    if fake_library:
        check_launch(expect, program, r'comm::init: the launcher and the MPI that Mezzo was built '
                     r'with do not match; got a launcher of Open MPI \(OMPI_COMM_WORLD_RANK=0, '
                     r'OMPI_COMM_WORLD_SIZE=2\), expected MPICH 4\.0\.2; mpiexec\.hydra -np 2 '
                     r'PROGRAM\n', MEZZO_MPI_LIBRARY=fake_library, **open_mpi)
    require_mpi(expect, mpi_library)
    check_launch(expect, program, r'comm::init: the launcher and the MPI that Mezzo was built with '
                 r'do not match; got a launcher of MPICH \(PMI_RANK=0, PMI_SIZE=2\), expected '
                 r'Open MPI [0-9.]+; mpirun\.openmpi -np 2 PROGRAM\n', PMI_RANK='0', PMI_SIZE='2')
    check_launch(expect, program, r'comm::init: MPI was not started by its own launcher; got rank '
                 r'0 of 1 from MPI and OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2; start with',
                 **open_mpi)
    for scenario, expected in SCENARIOS.items():
        lines = check_scenario(expect, program, scenario, expected)
        if scenario != 'no_init':
            check_next_call(expect, scenario, expected, lines)
    for scenario in DEATHS:
        check_deadly(expect, program, scenario)
    for scenario in HARMLESS:
        check_harmless(expect, program, scenario)
    check_nothing_left(expect, program)
    expect.verdict()


main(*sys.argv[1:])
