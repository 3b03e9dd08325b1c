"""Helpers of the checks: paths of sources, running commands, and the tally that tally.py reads."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ('tensor', 'autograd', 'nn', 'optim', 'amp', 'measure', 'cuda')
WARNINGS = ['-std=c++20', '-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Werror']


def sources(*folders, suffixes=('.h', '.cpp', '.cu')):
    """Returns the source files of the folders, as paths relative to ROOT."""
    return sorted(
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob('*')
        if path.suffix in suffixes)


def run(command, **options):
    """Runs a command and captures stdout and stderr together as text."""
    return subprocess.run([str(word) for word in command],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          errors='replace',
                          check=False,
                          **options)


def must(command, **options):
    """Runs a command that must succeed. Returns its output."""
    done = run(command, **options)
    if done.returncode != 0:
        verdict(
            0,
            [f'{" ".join(map(str, command))}\nended with status {done.returncode}\n{done.stdout}'])
    return done.stdout


def in_parallel(function, items):
    """Returns [function(item) for item in items], computed on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def skip(reason):
    """Ends the check as skipped; with CI=true as failed."""
    print(reason)
    sys.exit(1 if os.environ.get('CI') == 'true' else 77)


def verdict(passed, failures):
    """Prints the failures and the tally, and ends the check."""
    for failure in failures:
        print(failure)
    print(f'{passed} passed, {len(failures)} failed')
    sys.exit(1 if failures else 0)


class Expectations:
    """Counts expectations that hold and keeps those that fail: expect(holds, what, output)."""

    def __init__(self):
        self.passed = 0
        self.failures = []

    def __call__(self, holds, what, output=''):
        if holds:
            self.passed += 1
        else:
            self.failures.append(f'{what}\n{output}')

    def verdict(self):
        verdict(self.passed, self.failures)
