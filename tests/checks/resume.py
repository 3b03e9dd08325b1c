"""A run that was killed and resumed prints the last line of one that was not, bit for bit. resume.py MNIST"""
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check import verdict

mnist = sys.argv[1]
EPOCHS = 4
SETTINGS = ['--net', 'mlp', '--train', '1500', '--test', '100', '--batch', '50', '--epochs', str(EPOCHS), '--threads', '1', '--quiet']


def last_line(level, *more):
    done = subprocess.run([mnist, *SETTINGS, '--opt-level', level, *more], stdout=subprocess.PIPE, text=True, timeout=200,
                          check=False)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else f'status {done.returncode}'


def run_and_kill(level, folder, checkpoints):
    """Kills a run once it has written so many checkpoints; False where it ended before."""
    with subprocess.Popen([mnist, *SETTINGS, '--opt-level', level, '--save', folder], stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            if len(list(Path(folder).glob('step-??????'))) >= checkpoints:
                run.send_signal(signal.SIGKILL)
                return run.wait() == -signal.SIGKILL
            time.sleep(0.002)
    return False


passed, failures = 0, []
for level in ('O0', 'O1', 'O2', 'O5'):
    whole = last_line(level)
    with tempfile.TemporaryDirectory() as folder:
        killed = run_and_kill(level, folder, 1)
        resumed = last_line(level, '--save', folder, '--resume', folder)
        again = last_line(level, '--resume', folder)
    if killed and resumed == again == whole:
        passed += 1
    else:
        failures.append(f'{level}: {whole}\nresumed: {resumed}\nresumed at its end: {again}\nkilled: {killed}')
verdict(passed, failures)
