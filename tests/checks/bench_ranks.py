"""Checks bench --ranks and bench --scaling-model, on one rank and on two.

Usage: bench_ranks.py BENCH [RANKS.SH]     (without ranks.sh only on one rank)
"""
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check import Expectations

bench = Path(sys.argv[1]).resolve()
script = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
expect = Expectations()

FEW = ['--size', 'tiny', '--steps', '6', '--warm-up', '1', '--seconds', '0', '--threads', '1']
# Weights of the tiny mlp: 784-64-64-10 with biases.
MLP = 784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10
FIGURES = ('step_ms', 'cpu_ms', 'joint_ms', 'joint_cpu_ms', 'single_ms', 'single_cpu_ms',
           'split_ms', 'split_cpu_ms', 'weak', 'weak_cpu', 'strong', 'strong_cpu')


def run(*options, ranks=1):
    """Runs the bench on ranks. Returns (its status, the output of each rank, standard error)."""
    command = [str(word) for word in (bench, *options)]
    with tempfile.TemporaryDirectory() as folder:
        if ranks > 1:
            # $0 is the folder; the launcher's number of the rank names the file.
            each = 'exec "$@" >"$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
            command = [str(script), str(ranks), 'sh', '-c', each, folder, *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
        if done.returncode == 77:
            return None
        outputs = [done.stdout] if ranks == 1 else [
            (Path(folder) / str(rank)).read_text(encoding='utf-8') for rank in range(ranks)]
        return done.returncode, outputs, done.stderr if ranks == 1 else done.stdout


def check_rows(report, ranks):
    expect(report['steps'] == 6 and report['threads'] == 1 and 'cpu_model' in report, 'facts',
           report)
    expect([(r['net'], r['level']) for r in report['runs']] ==
           [(net, level) for net in ('mlp', 'dcgan') for level in ('O0', 'O2')], 'rows', report)
    for row in report['runs']:
        expect(row['ranks'] == ranks and row['threads'] == 1 and row['turns'] == 1, 'counts', row)
        expect(all(row[name] > 0 for name in FIGURES), 'figures', row)
        for name, one, each in (('weak', 'joint_ms', 'step_ms'),
                                ('weak_cpu', 'joint_cpu_ms', 'cpu_ms'),
                                ('strong', 'single_ms', 'split_ms'),
                                ('strong_cpu', 'single_cpu_ms', 'split_cpu_ms')):
            expect(math.isclose(row[name] * ranks * row[each], row[one]), name, row)
        expect(row['weak_cpu_low'] is None, 'no interval of one turn', row)
        if ranks == 1:
            expect(row['bytes_per_step'] == row['comm_ms'] == row['exposed_ms'] == 0,
                   'one rank communicates nothing', row)
        else:
            expect(row['comm_ms'] > 0 and row['exposed_ms'] > 0, 'communication', row)
        if row['net'] == 'mlp':
            expect(row['samples'] == 16, 'batch of a rank', row)
            bytes_of = 0 if ranks == 1 else {'O0': 4, 'O2': 2}[row['level']] * MLP
            expect(row['bytes_per_step'] == bytes_of, 'bytes', row)


def rank_rows(folder, ranks):
    json_file, page = folder / f'{ranks}.json', folder / f'{ranks}.html'
    done = run('--ranks', '--nets', 'mlp,dcgan', '--levels', 'O0,O2', *FEW, '--json', json_file,
               '--html', page, ranks=ranks)
    if done is None:
        return False
    status, outputs, said = done
    expect(status == 0, f'status {status} of --ranks on {ranks}', said)
    lines = outputs[0].splitlines()
    expect(len(lines) == 5 and lines[0].split()[:3] == ['net', 'level', 'ranks'], 'table', lines)
    expect(all(line.split()[2] == f'{ranks}x1' for line in lines[1:]), 'ranks and threads', lines)
    expect(all(output == '' for output in outputs[1:]), 'rank 0 alone prints', outputs)
    if ranks == 1:
        expect('mpirun -np N' in said, 'how to launch', said)
    report = json.loads(json_file.read_text(encoding='utf-8'))
    check_rows(report, ranks)
    for line, row in zip(lines[1:], report['runs']):
        expect(line.split()[4:6] == [f'{row["step_ms"]:.2f}', f'{row["cpu_ms"]:.2f}'],
               'the table has the figures of JSON', [line, row])
    text = page.read_text(encoding='utf-8')
    for part in ('<h2>mlp</h2>', '<h2>dcgan</h2>', 'O2, strong, CPU', 'O0, communication',
                 '</html>'):
        expect(part in text, f'{part} on the page', text)
    return True


def odd_batch(folder):
    """A batch that the ranks cannot share has no strong efficiency."""
    json_file = folder / 'odd.json'
    status, outputs, said = run('--ranks', '--nets', 'mlp', '--levels', 'O0', '--batch', '3', *FEW,
                                '--json', json_file, ranks=2)
    expect(status == 0, f'status {status} with batches of 3', said)
    row, = json.loads(json_file.read_text(encoding='utf-8'))['runs']
    expect(row['samples'] == 3 and 'strong' not in row and 'split_ms' not in row, 'no strong', row)
    expect(outputs[0].splitlines()[1].split()[9:11] == ['-', '-'], 'a dash', outputs)


def model(folder, ranks):
    json_file = folder / f'model{ranks}.json'
    done = run('--scaling-model', '--nets', 'mlp,dcgan', '--levels', 'O0,O2', *FEW, '--rounds', '2',
               '--json', json_file, ranks=ranks)
    status, outputs, said = done
    expect(status == 0, f'status {status} of --scaling-model on {ranks}', said)
    text = outputs[0]
    expect('dcgan: left out' in text, 'nets of two models', text)
    expect(all(output == '' for output in outputs[1:]), 'rank 0 alone prints', outputs)
    report = json.loads(json_file.read_text(encoding='utf-8'))
    expect(('communicator' in report) == (ranks > 1), 'communicator', report)
    expect((f'{ranks} ranks ms  predicted ms' in text) == (ranks > 1), 'beside measured', text)
    if ranks > 1:
        sizes = [entry['bytes'] for entry in report['communicator']['all_reduce']]
        expect(sizes == [1024 * 4**i for i in range(8)], 'sizes', sizes)
    expect([r['level'] for r in report['runs']] == ['O0', 'O2'], 'rows', report)
    for row in report['runs']:
        times = [gradient['ms'] for gradient in row['gradients']]
        expect(len(times) == 6 and times == sorted(times) and 0 < times[0] and
               times[-1] < row['step_ms'], 'when gradients are ready', row)
        size = {'O0': 4, 'O2': 2}[row['level']]
        expect(sum(g['bytes'] for g in row['gradients']) == size * MLP, 'bytes', row)
        expect([p['ranks'] for p in row['predictions']] == [2**i for i in range(1, 10)] * 3,
               'predictions', row)
        for p in row['predictions']:
            expect(math.isclose(p['efficiency'] * p['step_ms'], row['step_ms']), 'efficiency', p)
        fabric = row['predictions'][0]['fabric']
        printed = re.search(rf'^mlp +{row["level"]} +{fabric} +step ms +(\S+)', text, re.M)
        predicted = row['predictions'][0]['step_ms']
        expect(printed and printed[1] == f'{predicted:.{2 if predicted < 100 else 1}f}', 'table',
               text)
        expect(('measured_ms' in row and row['predicted_ms'] > row['beside_ms']) == (ranks > 1),
               'predicted and measured', row)


with tempfile.TemporaryDirectory() as name:
    scratch = Path(name)
    rank_rows(scratch, 1)
    model(scratch, 1)
    if script and rank_rows(scratch, 2):
        odd_batch(scratch)
        model(scratch, 2)
expect.verdict()
