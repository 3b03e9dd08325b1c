"""Checks that killed, interrupted or out-of-disk runs resume with bit-identical results.

Compares the last line that a resumed run prints with that of an undisturbed one.

Usage: resume.py FOLDER (of the programs)
"""
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check import verdict

programs = Path(sys.argv[1])
mnist = programs / 'mnist'
EPOCHS = 4
SETTINGS = [
    '--net', 'mlp', '--train', '1500', '--test', '100', '--batch', '50', '--epochs',
    str(EPOCHS), '--threads', '1', '--quiet'
]


def last_line(level, *more):
    done = subprocess.run([mnist, *SETTINGS, '--opt-level', level, *more],
                          stdout=subprocess.PIPE,
                          text=True,
                          timeout=200,
                          check=False)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else f'status {done.returncode}'


def run_and_kill(level, folder, checkpoints):
    """Kills a run after `checkpoints` checkpoints. Returns False if it ended before."""
    with subprocess.Popen([mnist, *SETTINGS, '--opt-level', level, '--save', folder],
                          stdout=subprocess.DEVNULL) as run:
        while run.poll() is None:
            if len(list(Path(folder).glob('step-??????'))) >= checkpoints:
                run.send_signal(signal.SIGKILL)
                return run.wait() == -signal.SIGKILL
            time.sleep(0.002)
    return False


def last_line_of(program, *options):
    done = subprocess.run([programs / program, *options],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          text=True,
                          timeout=200,
                          check=False)
    return done.stdout.splitlines(
    )[-1] if done.returncode == 0 else f'status {done.returncode}: {done.stderr}'


def interrupt(folder, how):
    """Sends a signal within an epoch. Returns whether the run saves and exits with 128 + signal."""
    command = [mnist, *SETTINGS, '--opt-level', 'O2', '--save', folder, '--save-every', '5']
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        while run.poll() is None and not list(Path(folder).glob('step-??????')):
            time.sleep(0.002)
        run.send_signal(how)
        return run.wait() == 128 + how


def run_out_of_disk(folder):
    """Limits the file size. Returns whether saving fails in one line and keeps the checkpoints."""
    before = sorted(path.name for path in Path(folder).glob('step-??????'))
    done = subprocess.run(
        [mnist, *SETTINGS, '--opt-level', 'O2', '--save', folder, '--resume', folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=200,
        check=False,
        restore_signals=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    after = sorted(path.name for path in Path(folder).glob('step-??????'))
    return done.returncode == 1 and len(done.stderr.splitlines()) == 1 and before == after


# Program -> options of a run of eight steps with a checkpoint after four.
OTHERS = {
    'char_gpt': [
        '--config', 'tiny', '--steps', '8', '--dropout', '0.1', '--accumulate', '2', '--opt-level',
        'O1'
    ],
    'char_lstm': ['--width', '16', '--steps', '8', '--opt-level', 'O2'],
    'dcgan':
    ['--width', '4', '--train', '64', '--batch', '16', '--epochs', '2', '--opt-level', 'O1'],
    'finetune':
    [
        '--train', '60', '--test', '20', '--batch', '16', '--epochs', '3', '--steps', '8',
        '--opt-level', 'O2'
    ],
    'resnet': [
        '--width', '4', '--train', '64', '--test', '16', '--batch', '16', '--epochs', '2',
        '--opt-level', 'O2'
    ],
}

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
        failures.append(
            f'{level}: {whole}\nresumed: {resumed}\nresumed at its end: {again}\nkilled: {killed}')

whole = last_line('O2')
for how in (signal.SIGINT, signal.SIGTERM):
    with tempfile.TemporaryDirectory() as folder:
        interrupted, unharmed = interrupt(folder, how), run_out_of_disk(folder)
        resumed = last_line('O2', '--resume', folder)
    if interrupted and unharmed and resumed == whole:
        passed += 1
    else:
        failures.append(f'{how.name}: {interrupted}, whole after a full disk: {unharmed}\n{whole}\n'
                        f'resumed: {resumed}')

for program, options in OTHERS.items():
    with tempfile.TemporaryDirectory() as folder:
        whole = last_line_of(program, *options, '--quiet', '--save', folder, '--save-every', '4')
        resumed = last_line_of(program, *options, '--quiet', '--resume', f'{folder}/step-000004')
    if whole == resumed and not whole.startswith('status'):
        passed += 1
    else:
        failures.append(f'{program}: {whole}\nresumed: {resumed}')
verdict(passed, failures)
