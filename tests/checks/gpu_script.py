"""Checks tests/gpu.sh (stages, statuses, report, archive) with stubs and with an emulated GPU.

Usage: gpu_script.py BUILD_DIR     (of a build with the emulated device)
"""
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from check import ROOT, Expectations

SCRIPT = ROOT / 'tests/gpu.sh'
expect = Expectations()

SMOKE_ROWS = '\n'.join(f'{f"row {i}":38} CPU 1e-7  own -  {i}.0 us  {100 - i}.5 GB/s'
                       for i in range(8))
PROGRAMS = {
    'bin/nvidia-smi': 'echo "A GPU, 1.0, 1 MiB"',
    'bin/python3':
    'case $* in *torch_steps*) echo "torch_steps.py: skipped, no torch"; exit 77 ;; '
    f'*ratios*) exec {sys.executable} "$@" ;; esac',
    'bin/ncu': 'echo "ncu $*"; [[ $* == *--nvtx-include\\ mezzo@timed/* ]]',
    'bin/compute-sanitizer': 'echo "sanitizer $*"; [ "$2" = memcheck ]',
    'build/tests/gpu_smoke':
    f'echo run >>"$FOLDER/smoke_runs"; echo "{SMOKE_ROWS}"; echo "8 passed, 0 failed"',
    'build/tests/gpu_steps': 'echo "{}"',
    'build/tests/test_gpu':
    "[ \"${1:-}\" = '[graph]' ] && { trap '' TERM; sleep 1000; }; echo '4 passed, 0 failed'",
    'build/tests/test_amp': 'echo "device $MEZZO_TEST_DEVICE"; echo "3 passed, 1 failed"; exit 1',
    # 40 tests of one process each, and two that all processes divide.
    'build/tests/test_ops': """
case "$*" in
  "--list-test-names-only ~[guards][sharded]") printf '%s\\n' 'values, [all]' strides; exit 2 ;;
  "--list-test-names-only ~[guards]~[sharded]") seq -f 'test, %g' 40; exit 40 ;;
  "-f "*) sed "s|^|$MEZZO_TEST_SHARD runs |" "$2"; echo "$(wc -l <"$2") passed, 0 failed" ;;
  *) exit 3 ;;
esac""",
    'build/tests/test_samples': 'echo "no CUDA device"; exit 77',
    'build/samples/bench': 'case $* in *--micro*) kill -SEGV $$ ;; esac; echo "a table"',
}


class Stand:
    """A folder with stub programs, and the script's runs on them."""

    def __init__(self, folder):
        self.folder = folder
        self.results = folder / 'results'
        for name, body in PROGRAMS.items():
            self.program(name, body)

    def program(self, name, body):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/usr/bin/env bash\n{body}\n', encoding='utf-8')
        path.chmod(0o755)

    def command(self, *words):
        return [
            'bash',
            str(SCRIPT), '--build',
            str(self.folder / 'build'), '--results',
            str(self.results), '--limit', '5', *words
        ]

    def environment(self):
        return {
            **os.environ, 'PATH': f'{self.folder / "bin"}:{os.environ["PATH"]}',
            'FOLDER': str(self.folder)
        }

    def run(self, *words):
        return subprocess.run(self.command(*words),
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True,
                              env=self.environment(),
                              check=False,
                              timeout=120)

    def statuses(self, output):
        """Returns {part: status} of a run's output."""
        return dict(
            re.findall(r'^(\w+): (passed|failed|crashed|timed out|skipped|not run)\b', output,
                       re.M))

    def logs(self):
        with tarfile.open(self.results / 'logs.tar.gz') as archive:
            return sorted(Path(name).name for name in archive.getnames() if name.endswith('.log'))


def first_stage(stand):
    done = stand.run('--stage', '1')
    expect(done.returncode == 1, 'status of stage 1', done.stdout)
    wanted = {'smoke': 'passed', 'micro': 'crashed', 'bench': 'passed', 'graph': 'timed out'}
    expect(stand.statuses(done.stdout) == wanted, f'stage 1: expected {wanted}', done.stdout)
    expect('micro: crashed, signal 11' in done.stdout, 'the signal of a crash', done.stdout)
    expect('graph: timed out, limit 5 s' in done.stdout, 'the limit of a part that hangs',
           done.stdout)
    expect('smoke: passed, 8 passed, 0 failed' in done.stdout and '    row 3' in done.stdout,
           'rows and tally', done.stdout)
    expect('parts: 2 passed, 0 failed, 1 crashed, 1 timed out' in done.stdout, 'the summary',
           done.stdout)
    expect(stand.logs() == ['bench.log', 'graph.log', 'micro.log', 'smoke.log'],
           'logs of the archive', stand.logs())
    expect(
        sorted(p.name for p in stand.results.iterdir()) == ['logs.tar.gz', 'report.txt'],
        'two result files')
    report = (stand.results / 'report.txt').read_text(encoding='utf-8')
    expect(report == done.stdout, 'the report is what was printed', report)


def resumption(stand):
    stand.program('build/tests/test_gpu', 'echo "4 passed, 0 failed"')
    before = (stand.results / 'report.txt').read_text(encoding='utf-8')
    done = stand.run('--stage', '1', '--resume')
    expect(
        stand.statuses(done.stdout) == {
            'micro': 'crashed',
            'graph': 'passed'
        }, 'what --resume runs', done.stdout)
    expect((stand.results / 'report.txt').read_text(encoding='utf-8') == before + done.stdout,
           'the report is appended to')
    expect(stand.logs() == ['bench.log', 'graph.log', 'micro.log', 'smoke.log'],
           'earlier logs stay', stand.logs())
    expect((stand.folder / 'smoke_runs').read_text(encoding='utf-8') == 'run\n',
           'the smoke test ran once')


def other_stages(stand):
    done = stand.run('--stage', '2')
    wanted = {
        **{
            f'gpu_{part}': 'passed'
            for part in ('rest', 'memory', 'layers', 'packed', 'large', 'alignment', 'recurrent')
        },
        'amp': 'failed',
        'samples': 'skipped',
        'ops': 'passed'
    }
    expect(list(stand.statuses(done.stdout))[-1] == 'gpu_recurrent', 'the riskiest part is last',
           done.stdout)
    expect(done.returncode == 1 and stand.statuses(done.stdout) == wanted,
           f'stage 2: expected {wanted}', done.stdout)
    expect(
        'amp: failed, status 1, 3 passed, 1 failed' in done.stdout and
        '    device cuda' in done.stdout, 'the end of a failed part', done.stdout)
    expect('ops: passed, 72 passed, 0 failed' in done.stdout, 'the tally of 16 processes',
           done.stdout)
    with tarfile.open(stand.results / 'logs.tar.gz') as archive:
        text = archive.extractfile('./ops.log').read().decode()
    runs = re.findall(r'^(\d+)/16 runs (.*)$', text, re.M)
    once = [test for _, test in runs if test.startswith('test, ')]
    expect(sorted(once) == sorted(f'test, {i}' for i in range(1, 41)),
           'each test runs in one process', text)
    for test in ('values, [all]', 'strides'):
        expect(sorted(int(k) for k, ran in runs if ran == test) == list(range(1, 17)),
               f'{test}: all processes run it', text)
    done = stand.run('--stage', '3')
    statuses = stand.statuses(done.stdout)
    torch = [status for name, status in statuses.items() if name.startswith('torch')]
    expect(
        done.returncode == 0 and len(statuses) == 15 and torch == ['skipped'] * 7 and
        statuses['ratios'] == 'skipped', 'stage 3', done.stdout)
    done = stand.run('--stage', '4')
    wanted = {
        'ncu': 'passed',
        'memcheck': 'passed',
        'racecheck': 'failed',
        'micro': 'crashed',
        'amp': 'failed'
    }
    expect(
        stand.statuses(done.stdout) == wanted, 'stage 4: tools, then earlier failures', done.stdout)
    expect(list(stand.statuses(done.stdout))[0] == 'ncu', 'tools come first', done.stdout)
    with tarfile.open(stand.results / 'logs.tar.gz') as archive:
        text = archive.extractfile('./ncu.log').read().decode()
    rows = re.findall(r'^==== (.*)$', text, re.M)
    expect(rows == [f'row {i}' for i in (7, 6, 5, 4, 3)], 'ncu profiles the five slowest rows',
           text)


def selection(stand):
    done = stand.run('--part', 'samples')
    expect(done.returncode == 77 and stand.statuses(done.stdout) == {'samples': 'skipped'},
           '--part, all skipped', done.stdout)
    done = stand.run('--part', 'bench', '--part', 'gpu_rest')
    expect(
        done.returncode == 0 and stand.statuses(done.stdout) == {
            'bench': 'passed',
            'gpu_rest': 'passed'
        }, '--part', done.stdout)
    (stand.folder / 'build/tests/test_ops').unlink()
    done = stand.run('--part', 'ops', '--part', 'gpu_rest')
    expect(
        done.returncode == 0 and 'ops: skipped' in done.stdout and
        'test_ops is not there' in done.stdout, 'a missing program', done.stdout)


def step_line(**facts):
    return json.dumps({'net': 'mlp', 'batch': 512, **facts})


def comparison(stand):
    """Stage 3 with times of both sides."""
    lines = [
        step_line(side='mezzo', level='O2', way='eager', step_ms=9.0),
        step_line(side='mezzo', level='O2', way='captured', step_ms=2.0),
        step_line(side='mezzo', level='O4', way='captured', error='no memory')
    ]
    stand.program('build/tests/gpu_steps', '\n'.join(f"echo '{line}'" for line in lines))
    lines = [
        step_line(side='torch 2', level='O1', way='eager', step_ms=2.2),
        step_line(side='torch 2', level='O1', way='compiled', step_ms=5.4),
        step_line(side='torch 2', level='O4', way='eager', step_ms=2.2)
    ]
    body = '\n'.join(f"echo '{line}'" for line in lines)
    stand.program('bin/torch', body)
    stand.program('bin/python3', f'case $* in *torch_steps*) {stand.folder}/bin/torch ;; '
                  f'*ratios*) exec {sys.executable} "$@" ;; esac')
    done = stand.run('--part', 'mlp', '--part', 'torch_mlp', '--part', 'ratios')
    row = r'mlp +512 +O2 +2\.000 +2\.70 \(>= 2\.5: met\) +1\.10 \(>= 1\.2: missed\)'
    expect(done.returncode == 0 and re.search(row, done.stdout), 'the ratios of a net', done.stdout)
    expect(not re.search(r'mlp +512 +O4', done.stdout), 'a level without a time', done.stdout)


def interruption(stand):
    stand.program('build/samples/bench', 'echo "half a table"; touch "$FOLDER/started"; sleep 1000')
    with subprocess.Popen(stand.command('--part', 'bench', '--limit', '100'),
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          env=stand.environment()) as running:
        for _ in range(600):
            if (stand.folder / 'started').exists():
                break
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        output = running.stdout.read()
    expect(running.returncode == 130 and 'interrupted' in output,
           f'status {running.returncode} of SIGTERM', output)
    with tarfile.open(stand.results / 'logs.tar.gz') as archive:
        text = archive.extractfile('./bench.log').read().decode()
    expect(text == 'half a table\n', 'the archive has the output so far', text)


def bad_input(stand):
    file = stand.folder / 'file'
    file.write_text('', encoding='utf-8')
    for words, part in ((['--stage', '5'], 'unknown stage'), (['--stage', 'one'], 'unknown stage'),
                        (['--part', 'nothing'], 'unknown part'), (['--nonsense'], 'unknown option'),
                        (['--limit', 'soon'], '--limit'), (['--stage'], 'needs a value'),
                        (['--build', str(stand.folder / 'no')], 'is not there'),
                        (['--results', str(file / 'sub')], 'cannot be written'),
                        (['--results', '/proc/no'], 'cannot be written')):
        done = stand.run(*words)
        expect(done.returncode == 2 and done.stdout.count('\n') == 1 and part in done.stdout,
               f'{words}', done.stdout)
    stand.program('bin/nvidia-smi', 'exit 9')
    done = stand.run('--stage', '1')
    expect(done.returncode == 77 and 'no NVIDIA GPU' in done.stdout, 'without a GPU', done.stdout)


# The test gpu_smoke runs all rows of the part smoke; the other nets differ in name alone.
EMULATED = ('graph', 'mlp', 'char_lstm')


def emulated(build, folder):
    """Checks the real programs on the emulated device."""
    done = subprocess.run([
        'bash',
        str(SCRIPT), '--emulated', '--build', build, '--results',
        str(folder / 'emulated'),
        *(word for part in EMULATED for word in ('--part', part)), '--part', 'memcheck'
    ],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          check=False)
    found = Stand.statuses(None, done.stdout)
    wanted = {**{part: 'passed' for part in EMULATED}, 'memcheck': 'skipped'}
    expect(done.returncode == 0 and found == wanted, f'the emulated device: expected {wanted}',
           done.stdout)
    expect('GPU: emulated on the host' in done.stdout,
           'the report says that the device is emulated', done.stdout)


with tempfile.TemporaryDirectory() as name:
    stands = Stand(Path(name))
    for check in (first_stage, resumption, other_stages, selection, comparison, interruption,
                  bad_input):
        check(stands)
    emulated(sys.argv[1], Path(name))
expect.verdict()
