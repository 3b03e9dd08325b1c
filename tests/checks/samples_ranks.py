"""The samples in several processes, unchanged: one output, equal results in two runs, checkpoints
that any number of processes resumes, signals and wrong usage that end all processes.

Usage: samples_ranks.py SAMPLES_FOLDER MPI_LIBRARY
       MPI_LIBRARY may be empty where there is no MPI
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check import Expectations, run, skip

DIGITS = ['--train', '192', '--epochs', '1', '--batch', '16']
TRAININGS = {
    'resnet_o1': ['resnet', '--width', '4', '--test', '16', '--opt-level', 'O1', *DIGITS],
    'resnet_o2': ['resnet', '--width', '4', '--test', '50', '--plain', '--opt-level', 'O2',
                  *DIGITS],
    'resnet_o5': ['resnet', '--width', '4', '--test', '50', '--opt-level', 'O5', *DIGITS],
    'dcgan': ['dcgan', '--width', '4', '--opt-level', 'O1', *DIGITS],
    'wgan_gp': ['dcgan', '--gradient-penalty', '--width', '4', '--opt-level', 'O4', *DIGITS],
    'char_gpt': ['char_gpt', '--config', 'tiny', '--steps', '6', '--accumulate', '2', '--dropout',
                 '0.1', '--opt-level', 'O2', '--length', '20'],
    'char_lstm': ['char_lstm', '--width', '16', '--steps', '5', '--opt-level', 'O1', '--length',
                  '20'],
}
RESULT = re.compile(r'^.*(?:\bloss -?[\d.]+|nats).*$', re.MULTILINE)
SECONDS = 600


def mpirun(ranks, words):
    return ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', str(ranks), *words]


def results(output):
    """The lines with losses, without times."""
    return [line for line in RESULT.findall(output) if 'ms per step' not in line]


def main(folder, library):
    if not library or not shutil.which('mpirun'):
        skip('there is no MPI (Debian: apt-get install libopenmpi-dev openmpi-bin)')
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                      MEZZO_NUM_THREADS='1')
    expect = Expectations()

    def start(ranks, words):
        command = [str(Path(folder) / words[0]), *words[1:]]
        return run(mpirun(ranks, command) if ranks > 1 else command, timeout=SECONDS)

    for name, words in TRAININGS.items():
        first, second = start(2, [*words, '--quiet']), start(2, [*words, '--quiet'])
        expect(first.returncode == 0, f'{name} with 2 ranks succeeds', first.stdout)
        expect(len(results(first.stdout)) == 1, f'{name} prints one result', first.stdout)
        expect(results(first.stdout) == results(second.stdout), f'{name}: two runs are equal',
               first.stdout + second.stdout)

    with tempfile.TemporaryDirectory() as place:
        words = [*TRAININGS['resnet_o5'], '--save', place, '--quiet']
        whole = start(2, [*words[:-3], '--quiet'])
        part = start(2, [*words, '--steps', '3'])
        expect(part.returncode == 0, 'two ranks save a checkpoint', part.stdout)
        again = start(2, [*words[:-3], '--quiet', '--resume', place])
        expect(results(again.stdout) == results(whole.stdout),
               'two ranks resume as without an interruption', whole.stdout + again.stdout)
        for ranks in (1, 3):
            other = start(ranks, [*words[:-3], '--quiet', '--resume', place])
            expect(other.returncode == 0 and len(results(other.stdout)) == 1,
                   f'{ranks} rank(s) resume a checkpoint of two', other.stdout)

    wrong = start(2, ['resnet', '--opt-level', 'O9'])
    expect(wrong.returncode != 0 and 'unknown level' in wrong.stdout, 'wrong usage ends the job',
           wrong.stdout)
    wrong = start(2, ['char_lstm', '--save', 'folder'])
    expect(wrong.returncode != 0 and 'need one process' in wrong.stdout,
           'char_lstm refuses to save in several processes', wrong.stdout)

    with tempfile.TemporaryDirectory() as place:
        command = mpirun(2, [str(Path(folder) / 'resnet'), '--width', '2', '--batch', '8',
                             '--epochs', '1000', '--save', place, '--save-every', '1', '--quiet'])
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.time() + SECONDS
        while not (Path(place) / 'latest').exists() and time.time() < deadline:
            time.sleep(0.1)
        job.send_signal(signal.SIGTERM)
        output = job.communicate(timeout=SECONDS)[0]
        expect(job.returncode != 0, 'a signal ends all ranks', output)
    expect.verdict()


if __name__ == '__main__':
    main(*sys.argv[1:])
