"""Checks the bench's rows: they are written at once, say where and how they were measured, and a
run that fails is a row too.

Usage: bench_rows.py BENCH
"""
import csv
import datetime
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
               '2000', '--steps', '2', '--warm-up', '0', '--seconds', '0', '--threads', '1',
               '--quiet', '--json', json_file, '--json-lines', rows, '--html', page]
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
    expect(">failed</td>" in text and "<p class='error'>resnet50 O0 failed: " in text,
           'failed rows, page', text)


def rows_as_they_come(folder):
    """Ends the bench before the second net's first row; the first net's rows must be there."""
    rows = folder / 'early'
    os.mkfifo(rows)
    command = [bench, '--nets', 'mlp,resnet50', '--levels', 'O0,O1', '--size', 'small', '--steps',
               '6', '--seconds', '0', '--together', '1', '--quiet', '--json-lines', rows]
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


def facts_and_times(folder):
    """Every report says where and how its rows were measured, and has the time of each step."""
    json_file, csv_file, rows = folder / 'facts.json', folder / 'facts.csv', folder / 'facts'
    command = [bench, '--nets', 'mlp,dcgan', '--levels', 'O0,O1,O4', '--size', 'tiny', '--steps',
               '8', '--warm-up', '2', '--seconds', '0', '--threads', '1', '--quiet', '--json',
               json_file, '--csv', csv_file, '--json-lines', rows]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=900, check=False)
    expect(done.returncode == 0, f'status {done.returncode}', done.stderr)
    report = json.loads(json_file.read_text(encoding='utf-8'))
    facts, *written = lines_of(rows)
    runs = report.pop('runs')
    expect({**facts, **{k: report[k] for k in report if k.endswith('_per_s')}} == report,
           'facts of the JSON lines', facts)  # a roof that was measured again is higher
    expect(written == runs, 'rows of the JSON lines', written)
    model = re.search(r'^model name\s*: (.*)$', Path('/proc/cpuinfo').read_text(encoding='utf-8'),
                      re.M)
    expect(report['cpu_model'] == (model[1] if model else ''), 'CPU', report)
    expect(report['cores'] == len(os.sched_getaffinity(0)), 'cores', report)
    expect(report['threads'] == 1, 'threads', report)
    expect(report['cpu_isa'] in ('baseline', 'v3', 'v4', 'bf16', 'amx'), 'instruction set', report)
    expect(re.fullmatch(r'(gcc|clang) \d+\.\d+\.\d+', report['compiler']), 'compiler', report)
    expect('cpu_arch=' in report['flags'] and 'optimization=' in report['flags'], 'flags', report)
    expect(re.fullmatch(r'\d+\.\d+\.\d+', report['mezzo']), 'version', report)
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.strptime(
        report['date'], '%Y-%m-%dT%H:%M:%SZ').replace(tzinfo=datetime.timezone.utc)
    expect(-5 < age.total_seconds() < 900, 'date', report)
    if report['commit'] != 'unknown':  # built in a repository
        commit = report['commit'].removesuffix('-dirty') + '^{commit}'
        command = ['git', '-C', Path(__file__).parent, 'rev-parse', '--verify', commit]
        known = subprocess.run(command, capture_output=True, text=True, check=False)
        expect(known.returncode == 0, 'commit', [report['commit'], known.stderr])
    for run in runs:
        expect(len(run['times_ms']) == len(run['losses']) == 8, 'a time for each step', run)
        expect(all(time > 0 for time in run['times_ms']), 'times', run)
        # Two turns: the median has no interval.
        expect(run['unstable'] and run['low_ms'] is None, 'unstable', run)
        turns = [sorted(run['times_ms'][2:7])[2], run['times_ms'][7]]
        expect(abs(run['step_ms'] - sum(turns) / 2) < 1e-9, 'median of the turns', run)
        parts = report['multiplies_bf16'] and report['cpu_isa'] == 'amx'  # of f16, by AMX
        wanted = {'O0': False, 'O1': not parts, 'O4': not report['multiplies_bf16']}[run['level']]
        expect(run['emulated'] == wanted, 'emulated levels', run)
        for note, is_true in [('Unstable', True), ('Emulated', wanted)]:
            noted = any(run['level'] in line.split(': ')[1] for line in done.stdout.splitlines()
                        if line.startswith(note + ' ('))
            expect(noted == is_true, note, [run['level'], done.stdout])
    expect(done.stdout.splitlines()[-1].startswith('Too few rows are stable'), 'the last line',
           done.stdout)
    expect(report['cache_bytes_per_s'] >= report['memory_bytes_per_s'] > 0, 'bandwidth', report)
    expect(report['bf16_flops_per_s'] >= report['f32_flops_per_s'] > 0, 'products', report)
    csv_agrees(csv_file, report, runs)


def how_products_are_computed(folder):
    """The line before the table names it, as the JSON does; without --nets there are five."""
    json_file = folder / 'default.json'
    command = [str(bench), '--levels', 'O0', '--size', 'tiny', '--steps', '2', '--warm-up', '1',
               '--seconds', '0', '--json', str(json_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    expect(done.returncode == 0, f'status {done.returncode}', done.stderr)
    report = json.loads(json_file.read_text(encoding='utf-8'))
    bf16 = report['cpu_isa'] if report['multiplies_bf16'] else 'f32'
    f16 = bf16 if bf16 == 'amx' else 'f32'
    expect(f'{report["hardware"]}. Products of bf16 are computed by {bf16}, those of f16 by {f16}'
           in done.stderr, 'how products are computed', done.stderr)
    expect([run['net'] for run in report['runs']] ==
           ['mlp', 'lenet', 'resnet18', 'char_lstm', 'char_gpt'], 'default nets', report['runs'])
    expect('O0' in done.stdout.splitlines()[-1], 'no sentence about one level', done.stdout)


def csv_agrees(csv_file, report, runs):
    with open(csv_file, newline='', encoding='utf-8') as file:
        table = list(csv.DictReader(file))
    expect(len(table) == len(runs), 'a line for each run', table)
    for line, run in zip(table, runs):
        expect(None not in line and None not in line.values(), 'as many cells as names', line)
        for name, value in {**report, **run}.items():
            if isinstance(value, dict):
                same = all(float(line[f'{name}.{key}']) == part for key, part in value.items())
            elif isinstance(value, list):
                same = [float(word) for word in line[name].split(' ')] == value
            elif isinstance(value, bool):
                same = line[name] == str(value).lower()
            elif value is None:
                same = line[name] == ''
            elif isinstance(value, str):
                same = line[name] == value
            else:
                same = float(line[name]) == value
            expect(same, f'{name} in CSV', [line.get(name), value])


def micro_rows(folder):
    rows = folder / 'micro'
    command = [str(bench), '--micro', '--quiet', '--json-lines', str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    expect(done.returncode == 0, f'--micro: status {done.returncode}', done.stderr)
    facts, *written = lines_of(rows)
    expect('cpu_model' in facts and 'steps' not in facts, 'first line of --micro', facts)
    expect(len(written) == len(done.stdout.splitlines()) - 1, 'a line for each row', done.stdout)
    expect(all(r['figure'] > 0 for r in written), 'figures', written)


with tempfile.TemporaryDirectory() as name:
    for check in (failed_run, rows_as_they_come, facts_and_times,
                  how_products_are_computed, micro_rows):
        check(Path(name))
expect.verdict()
