"""Checks the bench's rows: they are written at once, and a run that fails is a row too.

Usage: bench_rows.py BENCH
"""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from check import Expectations

bench = Path(sys.argv[1]).resolve()
expect = Expectations()


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def little_memory():
    """Limits memory so that mlp fits and resnet50 does not. AddressSanitizer has its own limit."""
    if b'__asan_init' not in bench.read_bytes():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def failed_run(folder):
    json_file, rows, page = folder / 'all.json', folder / 'rows', folder / 'page.html'
    command = [bench, '--nets', 'resnet50,mlp', '--levels', 'O0,O2', '--size', 'full', '--batch',
               '2000', '--steps', '2', '--warm-up', '0', '--threads', '1', '--quiet', '--json',
               json_file, '--json-lines', rows, '--html', page]
    asan = ':max_allocation_size_mb=1500:allocator_may_return_null=1'
    environment = {**os.environ, 'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + asan}
    done = subprocess.run([str(word) for word in command],
                          capture_output=True,
                          text=True,
                          check=False,
                          timeout=900,
                          preexec_fn=little_memory,
                          env=environment)
    everything = done.stdout + done.stderr
    expect(done.returncode == 1, f'status {done.returncode}, expected 1', everything)
    expect(done.stderr == 'bench: 2 of 4 runs failed\n', 'one line on stderr', done.stderr)
    for level in ('O0', 'O2'):
        for row in (rf'^resnet50 +{level} +failed ', rf'^mlp +{level} +\d'):
            expect(re.search(row, done.stdout, re.M), f'the row {row}', done.stdout)
        expect(f'resnet50 {level} failed: ' in done.stdout, f'error of {level}', done.stdout)
    runs = json.loads(json_file.read_text(encoding='utf-8'))['runs']
    wanted = [(net, level, net == 'resnet50') for net in ('resnet50', 'mlp')
              for level in ('O0', 'O2')]
    expect([(r['net'], r['level'], 'error' in r) for r in runs] == wanted, 'runs of --json', runs)
    expect('memory' in runs[0].get('error', ''), 'the error names its cause', runs[0])
    facts, *written = lines_of(rows)
    expect(facts['size'] == 'full' and facts['steps'] == 2, 'first of the JSON lines', facts)
    expect(written == runs, 'JSON lines are the runs of --json', written)
    text = page.read_text(encoding='utf-8')
    expect('<td>failed</td>' in text and '<p>resnet50 O0 failed: ' in text, 'failed rows, page',
           text)


def rows_as_they_come(folder):
    """Ends the bench at the second net's first row; the first net's rows must be there."""
    rows = folder / 'early'
    os.mkfifo(rows)
    command = [bench, '--nets', 'mlp,resnet50', '--levels', 'O0,O1', '--size', 'small', '--steps',
               '4', '--quiet', '--json-lines', rows]
    signal.alarm(600)  # ends this check if the bench ends without opening the pipe
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL) as running:
        try:
            with open(rows, encoding='utf-8') as file:
                read = [json.loads(file.readline() or '{}') for _ in range(3)]
                still_running = running.poll() is None
        finally:
            running.kill()  # a bench that waits for a reader would not end
    signal.alarm(0)
    expect([r.get('level') for r in read] == [None, 'O0', 'O1'], 'rows as they come', read)
    expect(still_running, 'rows are written before the end', read)


def micro_rows(folder):
    rows = folder / 'micro'
    command = [str(bench), '--micro', '--quiet', '--json-lines', str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    expect(done.returncode == 0, f'--micro: status {done.returncode}', done.stderr)
    facts, *written = lines_of(rows)
    expect('hardware' in facts and 'steps' not in facts, 'first line of --micro', facts)
    expect(len(written) == len(done.stdout.splitlines()) - 1, 'a line for each row', done.stdout)
    expect(all(r['figure'] > 0 for r in written), 'figures', written)


with tempfile.TemporaryDirectory() as name:
    for check in (failed_run, rows_as_they_come, micro_rows):
        check(Path(name))
expect.verdict()
