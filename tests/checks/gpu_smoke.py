"""Checks the GPU smoke test on the emulated device: every row, its limits, rows that hang or crash.

Usage: gpu_smoke.py PROGRAM
"""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from check import Expectations, run

program = Path(sys.argv[1]).resolve()
expect = Expectations()


def rows_of(output):
    """Returns {name: rest of its line}."""
    lines = output.splitlines()[1:-1]
    return {line[:38].strip(): line[39:] for line in lines if not line.startswith('  log: ')}


def tally_of(output):
    tally = re.fullmatch(r'(\d+) passed, (\d+) failed', output.splitlines()[-1])
    return tuple(int(n) for n in tally.groups())


def all_rows(names):
    start = time.monotonic()
    done = run([program, '--small'])
    seconds = time.monotonic() - start
    print(f'all rows: {seconds:.1f} s')
    expect(done.returncode == 0, f'status {done.returncode}, expected 0', done.stdout)
    expect(
        re.match(r'device: .*; Mezzo .*, commit .*; 20\d\d-\d\d-\d\dT[\d:]*Z\n', done.stdout),
        'the first line describes device, versions and time', done.stdout)
    rows = rows_of(done.stdout)
    expect(list(rows) == names, 'every row once, in the order of --list', done.stdout)
    expect(tally_of(done.stdout) == (len(names), 0), 'the tally', done.stdout)
    expect(all(re.search(r'CPU \S+  own \S+ +[\d.]+ us', row) for row in rows.values()),
           'each row has errors and a time', done.stdout)
    expect(seconds <= 62, f'{seconds:.1f} s, expected at most 60', done.stdout)


def limits(names):
    done = run([program, '--small', '--row-limit', '0.000001', '--only', 'attention'])
    chosen = [name for name in names if 'attention' in name]
    rows = rows_of('\n' + done.stdout.replace('device: ', '  log: '))
    late = sum(row == 'FAILED did not end within 1e-06 s' for row in rows.values())
    expect(done.returncode == 1 and late > 0, 'few rows end within a microsecond', done.stdout)
    expect(
        tally_of(done.stdout) == (len(chosen) - late, late), 'late rows have failed', done.stdout)
    expect(list(rows) == chosen, 'each row that is late is a line', done.stdout)
    done = run([program, '--small', '--limit', '0.000001'])
    expect(sum(tally_of(done.stdout)) == len(names), 'rows without time have failed', done.stdout)
    expect('not done: 1e-06 s were over' in done.stdout, 'and are reported', done.stdout)


def crash(names):
    """Kills the rows' process after the third row."""
    command = [str(program), '--small', '--only', 'f32']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        output = ''.join(running.stdout.readline() for _ in range(4))
        children = Path(f'/proc/{running.pid}/task/{running.pid}/children')
        os.kill(int(children.read_text(encoding='utf-8').split()[0]), signal.SIGKILL)
        output += running.stdout.read()
    chosen = [name for name in names if 'f32' in name]
    expect(running.returncode == 1 and tally_of(output) == (len(chosen) - 1, 1),
           'a crash is one failed row', output)
    expect(output.count('FAILED crashed with signal 9') == 1, 'and is reported', output)
    expect(list(rows_of(output)) == chosen, 'the other rows run', output)


def usage():
    for words, part in ((['--nonsense'], 'unknown option'), (['--only'], 'missing'),
                        (['--only', 'nothing'], 'no row'), (['--limit', '-1'], 'more than 0'),
                        (['--row-limit', 'x'], 'more than 0')):
        done = run([program, *words])
        one_line = done.stdout.count('\n') == 1 and part in done.stdout
        expect(done.returncode == 2 and one_line, f'{words}', done.stdout)


listed = run([program, '--list']).stdout.splitlines()
expect(len(listed) > 100 and len(set(listed)) == len(listed), 'names of --list', listed)
for check in (all_rows, limits, crash):
    check(listed)
usage()
expect.verdict()
