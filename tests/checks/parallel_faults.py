"""Faults in a training of several processes: wrappers of different models, ranks that fail, hang or
do something else in backward().

Usage: parallel_faults.py PROGRAM MPI_LIBRARY LATE_LIBRARY
       PROGRAM is that of tests/parallel/fault.cpp; MPI_LIBRARY may be empty where there is no MPI;
       LATE_LIBRARY is that of tests/comm/late_mpi.cpp
"""
import re
import sys

from check import Expectations
from faulty_job import (ANYTHING, TIMEOUT, check_deadly, check_harmless, check_nothing_left,
                        check_scenario, require_mpi)


def setups_differ(first, second):
    """The text on all ranks where the wrappers differ."""
    return [
        f'DistributedDataParallel 1: ranks differ; got {first} on rank 0, {second} on rank 1'
    ] * 2


def backward_differs(number, first, second):
    return [f'backward {number}: ranks differ; got {first} on rank 0, {second} on rank 1'] * 2


def in_bucket(what, bucket):
    return f'backward 4: {what}; waiting in bucket {bucket}'


NO_ANSWER = f'no answer for {TIMEOUT} s (MEZZO_COMM_TIMEOUT_S)'
FIRST = 'the first pass after zero_grad()'
FURTHER = 'a further pass, which adds to reduced gradients'
FAILURE = 'ValueError: no such word'

# scenario -> the error of rank 0 and of rank 1: a text, a pattern, or None for a rank that prints
# nothing
SCENARIOS = {
    # construction
    'shapes': setups_differ('fc2.weight f32[3,3]', 'fc2.weight f32[4,3]'),
    'order': setups_differ('fc1.weight f32[3,2]', 'fc2.weight f32[3,3]'),
    'number': setups_differ('fc1.weight f32[3,2]', 'scale f32[2]'),
    'dtypes': setups_differ('scale f32[2]', 'scale f64[2]'),
    'frozen': setups_differ('fc2.bias f32[3]', 'fc2.bias f32[3], frozen'),
    'buffers': setups_differ('mean f32[3], buffer', 'mean f32[2], buffer'),
    'formats': setups_differ('weight f32[3,2,2,2]', 'weight f32[3,2,2,2], strides [8,1,4,2]'),
    'levels': setups_differ('opt_level = O2', 'opt_level = O1'),
    'sessions': setups_differ('enabled = true', 'no session of mixed precision'),
    'scales': setups_differ('loss_scale = 128.0', 'loss_scale = 64.0'),
    'optimizers': setups_differ('optimizer SGD', 'optimizer AdamW'),
    'averages': setups_differ('average = false', 'average = true'),
    'reduce_dtypes': setups_differ('reduce_dtype = automatic', 'reduce_dtype = f32'),
    'bucket_sizes': setups_differ('bucket_mib = 2', 'bucket_mib = 3'),
    'orders': setups_differ('order = none', 'order = ranks'),
    # a rank that fails
    'throw_in_hook': [f'comm: rank 1 left backward 4: {FAILURE}', 'no such word'],
    'throw_in_forward': ['comm: rank 1 left its work: an exception', 'no such word'],
    'throw_in_scope': ['comm: rank 1 left its work: an exception', 'no such word'],
    'ended': [in_bucket('rank 1 has ended its program', '3 of 4 (fc1.weight)'), None],
    'hung': [in_bucket(NO_ANSWER, '3 of 4 (fc1.weight)'), None],
    'hung_first': [in_bucket(NO_ANSWER, '2 of 4 (fc2.bias)'), None],
    # the launcher wakes rank 1 before it ends it
    'stopped': [in_bucket(NO_ANSWER, '3 of 4 (fc1.weight)'), ANYTHING],
    # ranks that do different things
    'one_step_ahead': backward_differs(7, FURTHER, FIRST),
    'one_more': backward_differs(5, FIRST, FURTHER),
    'other_buckets': backward_differs(
        2, 'bucket 1: f32 x 12: fc2.bias fc2.weight',
        'bucket 1: f32 x 15: fc2.bias fc2.weight fc1.bias'),
    'other_wrapper': [re.compile('backward 5: ranks differ; got bucket 1: .*')] * 2,
    'loss_scales': [
        'amp: the loss scale differs; got 16384 on rank 0 after 2 checks, 1024 on rank 1 after 2 '
        'checks'
    ] * 2,
}
# the same errors where rank 1 is slow to see that a transfer has ended
LATE = ('loss_scales', 'one_step_ahead', 'other_buckets', 'throw_in_hook')
# the launcher ends these jobs
DEATHS = ('killed', 'left')


def main(program, mpi_library, late_library):
    expect = Expectations()
    require_mpi(expect, mpi_library)
    for scenario, expected in SCENARIOS.items():
        check_scenario(expect, program, scenario, expected)
    for scenario in LATE:
        check_scenario(expect, program, scenario, SCENARIOS[scenario],
                       MEZZO_MPI_LIBRARY=late_library, LATE_MPI_OF=mpi_library)
    for scenario in DEATHS:
        check_deadly(expect, program, scenario)
    check_harmless(expect, program, 'none')
    check_nothing_left(expect, program)
    expect.verdict()


main(*sys.argv[1:])
