"""Checks the comparison with PyTorch: rows, targets, bench --peer, and bench_torch.py itself.

Usage: torch_peer.py BENCH

bench_torch.py runs with the python3 in TORCH_PYTHON, or this one, or /usr/bin/python3, whichever
has torch first; without torch only the rest is checked.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from check import ROOT, Expectations, run

sys.path.insert(0, str(ROOT / 'samples'))
import torch_ranks  # noqa: E402
import torch_rows  # noqa: E402

bench = Path(sys.argv[1]).resolve()
expect = Expectations()


def turns():
    calls = []

    def side(name, fails_at=None):
        def block():
            calls.append(name)
            if calls.count(name) == fails_at:
                raise RuntimeError(f'{name} raised:\n\n  the cause\nmore')
            return len(calls)
        return block

    times, errors = torch_rows.in_turns({'a': side('a'), 'b': side('b', 2), 'c': side('c')}, 3)
    expect(calls == list('abcabcac'), 'sides alternate, without one that failed', calls)
    expect(times == {'a': [1, 4, 7], 'c': [3, 6, 8]}, 'results by side', times)
    expect(errors == {'b': 'RuntimeError: b raised: the cause'}, 'the error as a line', errors)


def a_row(level='O4', times=None, errors=None, o0_times=(1.0, 1.0, 1.0)):
    times = times or {'mezzo': [0.5, 0.6, 0.7], 'torch': [0.6, 0.6, 0.6], 'compiled': [1, 1.2, 0.7]}
    target = torch_rows.TARGETS['mlp', 'small', 128][level]
    facts = {'net': 'mlp small', 'level': level, 'threads': 1, 'batch': 128, 'optimizer': 'fused'}
    return torch_rows.row(facts, times, errors or {}, o0_times, target)


def rows():
    row = a_row()
    expected = {'mezzo_ms': 600, 'torch_ms': 600, 'compiled_ms': 1000, 'ratio': 1.0,
                'highest': 1.2, 'compiled_ratio': 2.0, 'compiled_lowest': 1.0, 'wanted': 1.05,
                'o0_ratio': 0.6, 'o0_wanted': 0.68}
    got = {key: round(row[key], 6) for key in expected}
    expect(got == expected, 'medians, ratios and targets', row)
    line, = torch_rows.in_words(row)
    expect(line == 'mlp small O4, 1 threads: torch/mezzo 1.00 (wanted >= 1.05: missed), '
           'compiled/mezzo 2.00, mezzo O4/O0 0.60 (wanted <= 0.68: met)', 'a row in words', line)
    f32 = a_row('O0')
    expect(f32['wanted'] == 1.6 and 'o0_ratio' not in f32, 'O0 has no ratio to itself', f32)
    bf16 = a_row('O5', o0_times=None)
    expect(not {'wanted', 'o0_ratio', 'o0_wanted'} & set(bf16), 'no O0, no ratio to it', bf16)
    failed = a_row(times={'mezzo': [1.0]}, errors={'torch': 'why'}, o0_times=None)
    expect('ratio' not in failed and 'wanted' not in failed, 'a failed side has no ratio', failed)
    expect(torch_rows.in_words(failed) == ['mlp small O4, 1 threads: PyTorch cannot: why'],
           'a failure in words', failed)


def several_ranks():
    """Rows of bench_torch.py --ranks."""
    times = {'full': {'ms': [4, 2], 'cpu_ms': [2, 4]}, 'joint': {'ms': [4, 4], 'cpu_ms': [2, 8]},
             'single': {'ms': [2, 2], 'cpu_ms': [1, 3]}}
    one = torch_ranks.figures(times, 2)
    expect(one == {'step_ms': 3, 'cpu_ms': 3, 'joint_ms': 4, 'joint_cpu_ms': 5, 'single_ms': 2,
                   'single_cpu_ms': 2, 'weak': 0.75, 'weak_cpu': 0.75}, 'figures of turns', one)
    times['split'] = {'ms': [1, 2], 'cpu_ms': [1, 1]}
    both = torch_ranks.figures(times, 2)
    expect(both['strong'] == 0.75 and both['strong_cpu'] == 1.0, 'a shared batch', both)
    facts = {'net': 'mlp small', 'level': 'O0', 'ranks': 2, 'threads': 1, 'batch': 64}
    blocks = {'mezzo': [{**one, 'weak_cpu': share} for share in (0.6, 0.7, 0.9)], 'torch': [one]}
    met = torch_ranks.row(facts, blocks, {}, 0.7)
    expect(met['mezzo']['weak_cpu'] == 0.7 and met['mezzo']['weak_cpu_highest'] == 0.9 and
           not met['met'], 'below PyTorch', met)
    lines = torch_ranks.in_words(met)
    expect(lines[0] == 'mlp small O0, 2 ranks x 1: mezzo 3.0 ms of CPU a step and rank, efficiency '
           '0.70 (0.60-0.90) (wanted >= 0.7 and above PyTorch: missed)', 'a side in words', lines)
    alone = torch_ranks.row(facts, {'mezzo': blocks['mezzo']}, {'torch': 'why'}, 0.7)
    expect(alone['met'], 'without PyTorch', alone)
    expect(torch_ranks.in_words(alone)[1] == 'mlp small O0, 2 ranks x 1: torch failed: why',
           'a failure in words', alone)


def merging():
    def report(threads, *cases):
        return {'torch': '2', 'runs': [{'net': net, 'level': level, 'threads': threads}
                                       for net, level in cases]}
    both = torch_rows.merged([report(1, ('a', 'O0'), ('a', 'O4')), report(2, ('a', 'O4'))])
    got = [(run['level'], run['threads']) for run in both['runs']]
    expect(got == [('O0', 1), ('O4', 1), ('O4', 2)], 'rows of one level together', got)


def printed(folder, report):
    path = folder / 'peer.json'
    path.write_text(json.dumps(report), encoding='utf-8')
    done = run([bench, '--peer', path])
    expect(done.returncode == 0, 'status of bench --peer', done.stdout)
    return done.stdout.splitlines() + [''] * 4


def table_of_new_report(folder):
    failed = a_row(times={'mezzo': [0.5]}, errors={'torch': 'no LSTM'}, o0_times=[1.0])
    lines = printed(folder, {'torch': '2.9', 'device': 'cpu', 'blocks': 3, 'steps': 12,
                             'runs': [a_row(), failed]})
    expect(lines[0] == 'PyTorch 2.9 on cpu, medians of 3 blocks of 12 steps', 'facts', lines)
    expect('compiled ms  compiled/mezzo  optimizer' in lines[1], 'columns', lines)
    words = lines[2].split()
    expect(words[:7] == ['mlp', 'small', 'O4', '1', '128', '600.00', '0.60'] and
           words[7:] == ['<=', '0.68', 'met', '600.00', '1.00', '0.86-1.20', '>=', '1.05', 'missed',
                         '1000.00', '2.00', 'fused'], 'a complete row', lines[2])
    expect(lines[3].split()[10:] == ['failed', 'failed', '-', '-', '-', '-', 'fused'],
           'a row with a failed side', lines[3])
    expect(lines[4] == 'mlp small O4, 1 threads, torch failed: no LSTM', 'its error', lines[4])


def table_of_old_report(folder):
    """Reports without torch.compile and with targets in f32 only."""
    old = {'net': 'mlp small', 'level': 'O0', 'threads': 2, 'batch': 128, 'mezzo_ms': 10.0,
           'torch_ms': 15.0, 'ratio': 1.5, 'lowest': 1.4, 'highest': 1.6, 'wanted': 1.2}
    lines = printed(folder, {'torch': '1.13', 'device': 'cpu', 'blocks': 5, 'steps': 12,
                             'runs': [old]})
    expect(lines[2].split()[2:] == ['O0', '2', '128', '10.00', '-', '-', '15.00', '1.50',
                                    '1.40-1.60', '>=', '1.20', 'met', '-', '-', '-'],
           'an old row', lines[2])


def python_with_torch():
    for python in (os.environ.get('TORCH_PYTHON'), sys.executable, '/usr/bin/python3'):
        if python and Path(python).exists() and run([python, '-c', 'import torch']).returncode == 0:
            return python
    return None


def compare(python, folder, *options, **variables):
    """Runs bench_torch.py at the smallest size. Returns its report and its standard error."""
    path = folder / 'out.json'
    command = [python, ROOT / 'samples/bench_torch.py', '--bench', bench, '--size', 'tiny',
               '--steps', '2', '--blocks', '2', '--out', path, *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env={**os.environ, **variables})
    expect(done.returncode == 0, 'status of bench_torch.py', done.stderr)
    return json.loads(path.read_text(encoding='utf-8')), done.stderr


def every_level(python, folder):
    """Each row has Mezzo's time, and PyTorch's or an error of one line; bf16 runs everywhere."""
    report, _ = compare(python, folder, '--nets', 'mlp,char_lstm', '--levels', 'O0,O1,O3,O4,O5',
                        '--threads', '1,2', '--no-compile')
    got = [(run['net'].split()[0], run['level'], run['threads']) for run in report['runs']]
    expect(got == [(net, level, threads) for net in ('mlp', 'char_lstm')
                   for level in ('O0', 'O1', 'O3', 'O4', 'O5') for threads in (1, 2)], 'rows', got)
    for row in report['runs']:
        ran = row.get('torch_ms', 0) > 0 and row.get('ratio', 0) > 0
        expect(ran != ('torch_error' in row) and row['mezzo_ms'] > 0, 'PyTorch or an error', row)
        expect(ran or row['level'] in ('O1', 'O3'), 'f32 and bf16 run', row)
        expect(not ran or row['optimizer'] in ('fused', 'foreach'), 'the form is said', row)
        expect('\n' not in row.get('torch_error', ''), 'an error is one line', row)
        expect('compiled_ms' not in row, '--no-compile', row)


def compiled_or_a_reason(python, folder):
    """torch.compile is a column, or one line says why not; the rest goes on."""
    report, said = compare(python, folder, '--nets', 'mlp', '--levels', 'O0', '--threads', '1')
    row, = report['runs']
    compiles = run([python, '-c', 'import torch; torch.compile']).returncode == 0
    expect(('compiled_ms' in row or 'compiled_error' in row) == compiles, 'torch.compile', row)
    expect(compiles or 'has no torch.compile\n' in said, 'the reason', said)
    report, said = compare(python, folder, '--nets', 'mlp', '--levels', 'O0', '--threads', '1',
                           CXX=str(folder / 'no compiler'),
                           TORCHINDUCTOR_CACHE_DIR=str(folder / 'cache'))
    row, = report['runs']
    expect('ratio' in row and 'compiled_ms' not in row, 'without a compiler', row)
    expect(not compiles or 'torch.compile failed: ' in said, 'the reason in words', said)


def ranks_of_both(python, folder):
    """PyTorch starts its processes itself; Mezzo needs mpirun."""
    path = folder / 'ranks.json'
    done = run([python, ROOT / 'samples/bench_torch.py', '--bench', bench, '--ranks', '2', '--nets',
                'mlp', '--size', 'tiny', '--steps', '5', '--blocks', '1', '--threads', '1', '--out',
                path])
    row, = json.loads(path.read_text(encoding='utf-8'))['ranks']
    expect('torch' in row and row['torch']['weak_cpu'] > 0 and row['torch']['strong_cpu'] > 0,
           'PyTorch on two ranks', [row, done.stdout])
    # Without MPI Mezzo's side is an error; bench_ranks.py checks it.
    expect(('mezzo' in row) != ('mezzo_error' in row), 'Mezzo on two ranks', row)
    expect(done.returncode == (0 if 'mezzo' in row else 1), 'status of --ranks', done.stdout)


def losses(python, folder):
    path = folder / 'losses'
    done = run([python, ROOT / 'samples/bench_torch.py', '--bench', bench, '--nets', 'char_lstm',
                '--levels', 'O0,O1,O4', '--steps', '2', '--threads', '1', '--losses', path])
    lines = [line.split() for line in path.read_text(encoding='utf-8').splitlines()]
    expect(done.returncode == 0, 'status of --losses', done.stdout)
    expect([words[1] for words in lines if words[1] != 'O1'] == ['O0', 'O4'], 'levels', lines)
    expect(all(len(words) == 4 for words in lines), 'losses of every step', lines)


def levels(python):
    done = run([python, ROOT / 'tests/checks/torch_levels.py'])
    expect(done.returncode == 0, 'torch_levels.py', done.stdout)


with tempfile.TemporaryDirectory() as name:
    scratch = Path(name)
    turns()
    rows()
    several_ranks()
    merging()
    table_of_new_report(scratch)
    table_of_old_report(scratch)
    with_torch = python_with_torch()
    if with_torch:
        levels(with_torch)
        for check in (every_level, compiled_or_a_reason, ranks_of_both, losses):
            check(with_torch, scratch)
    else:
        print('bench_torch.py was not run: no python3 with torch')
expect.verdict()
