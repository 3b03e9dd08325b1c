"""Random faults in a row in one training of two processes that saves after every step. After each
fault no process is left, and the next job goes on from the checkpoint; in the end the result is
that of a training without faults.

Usage: random_faults.py SAMPLES_FOLDER MPI_LIBRARY
       MPI_LIBRARY may be empty where there is no MPI
       MEZZO_RANDOM_FAULTS is the number of faults (12), MEZZO_RANDOM_SEED what they are drawn from
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check import Expectations, run
from faulty_job import ENVIRONMENT, require_mpi

FAULTS = int(os.environ.get('MEZZO_RANDOM_FAULTS', 12))
SEED = int(os.environ.get('MEZZO_RANDOM_SEED', 1))
SIGNALS = ('SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGTERM', 'SIGINT', 'SIGSTOP')
SECONDS = 300  # for one job, on any machine
# A rank that is stopped ends the job after MEZZO_COMM_TIMEOUT_S. So many steps that all faults hit.
SETTINGS = ['--width', '2', '--plain', '--train', '1024', '--test', '50', '--batch', '8',
            '--opt-level', 'O2', '--quiet', '--epochs', str(max(2, FAULTS // 2))]


def command(program, *more):
    return [shutil.which('mpirun'), '--oversubscribe', '--bind-to', 'none', '-np', '2',
            str(program), *SETTINGS, *more]


def processes_of(program, folder):
    """Returns {rank: pid} of the running processes of the program that save to the folder: other
    tests may run the same program at the same time."""
    pattern = f'^{re.escape(str(program))} .*--save {re.escape(str(folder))} '
    found = subprocess.run(['pgrep', '-f', '--', pattern], stdout=subprocess.PIPE, text=True,
                           check=False).stdout.split()
    ranks = {}
    for pid in found:
        try:
            variables = Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
        except OSError:
            continue  # it has ended
        for variable in variables:
            if variable.startswith(b'OMPI_COMM_WORLD_RANK='):
                ranks[int(variable.split(b'=')[1])] = int(pid)
    return ranks


def checkpoints(folder):
    return sorted(path.name for path in Path(folder).glob('step-??????'))


def disturb(program, folder, draw):
    """Resumes the training and sends one rank a signal after its next checkpoint, at a random time.
    Returns the signal, the rank, the job's output and whether the job was disturbed."""
    name, rank = draw.choice(SIGNALS), draw.randrange(2)
    before = checkpoints(folder)
    resume = ['--resume', folder] if before else []
    with subprocess.Popen(command(program, '--save', folder, '--save-every', '1', *resume),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=ENVIRONMENT) as job:
        deadline = time.monotonic() + SECONDS
        while checkpoints(folder) == before and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        pid = processes_of(program, folder).get(rank)
        if pid and job.poll() is None:
            os.kill(pid, getattr(signal, name))
        output = job.communicate(timeout=SECONDS)[0]
    return name, rank, output, pid is not None and job.returncode != 0


def left_after(program, folder, seconds):
    """Returns the job's processes that still run after so many seconds."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(program, folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def main(folder, mpi_library):
    expect = Expectations()
    require_mpi(expect, mpi_library)
    program, draw = Path(folder).resolve() / 'resnet', random.Random(SEED)
    whole = run(command(program), env=ENVIRONMENT, timeout=SECONDS)
    expect(whole.returncode == 0, 'a training without faults succeeds', whole.stdout)
    with tempfile.TemporaryDirectory() as place:
        for number in range(FAULTS):
            name, rank, output, disturbed = disturb(program, place, draw)
            what = f'fault {number}: {name} to rank {rank}'
            expect(disturbed, f'{what}: the job ended with status 0', output)
            expect(checkpoints(place), f'{what}: there is no checkpoint', output)
            left = left_after(program, place, 5)
            expect(not left, f'{what}: processes are left: {left}', output)
        last = run(command(program, '--resume', place), env=ENVIRONMENT, timeout=SECONDS)
    expect(last.returncode == 0 and last.stdout.splitlines()[-1:] == whole.stdout.splitlines()[-1:],
           'the result is that of a training without faults', whole.stdout + last.stdout)
    expect.verdict()


main(*sys.argv[1:])
