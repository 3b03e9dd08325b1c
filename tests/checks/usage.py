"""Wrong usage and failures of the sample programs: one line on stderr, status 2 or 1. usage.py MNIST BENCH"""
import subprocess
import sys
import tempfile
from pathlib import Path

from check import verdict

mnist, bench = sys.argv[1:3]


def cases(folder):
    """(status, part of the line, command)"""
    damaged = folder / 'damaged'
    damaged.mkdir()
    (damaged / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c' + bytes(100))
    (damaged / 't10k-labels-idx1-ubyte').write_bytes(b'\0\0\x08\x01\0\0\0\x02\x01\x02')
    other = folder / 'file'
    other.write_bytes(b'no directory')
    return [
        (2, '--nets', [bench, '--nets', 'transformer']),
        (2, 'the letter O', [bench, '--levels', '01']),
        (2, 'unknown level', [mnist, '--opt-level', 'O9']),
        (2, '--epochs', [mnist, '--epochs', 'many']),
        (2, '--batch', [mnist, '--batch', '0']),
        (2, '--lr', [mnist, '--lr', '-1']),
        (2, '--nonsense', [mnist, '--nonsense']),
        (2, 'unknown device', [mnist, '--device', 'tpu']),
        (1, 'MNIST is not here', [mnist, '--data', folder / 'nowhere']),
        (1, 't10k-images', [mnist, '--data', damaged]),
        (1, 'cannot read the directory', [mnist, '--resume', folder / 'missing', '--train', '64', '--quiet']),
        (1, 'Not a directory', [mnist, '--resume', other, '--train', '64', '--quiet']),
        (1, 'there is no checkpoint', [mnist, '--resume', folder, '--train', '64', '--quiet']),
        (1, 'cannot create', [mnist, '--save', other / 'checkpoints', '--net', 'mlp', '--train', '64', '--test', '8', '--epochs', '1', '--quiet']),
        (0, '', [mnist, '--help']),
    ]


passed, failures = 0, []
with tempfile.TemporaryDirectory() as name:
    for status, part, command in cases(Path(name)):
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        lines = [line for line in done.stderr.splitlines() if line]
        told = done.returncode == status and (status == 0 or (len(lines) == 1 and part in lines[0]))
        if told:
            passed += 1
        else:
            failures.append(f'{" ".join(command)}\nstatus {done.returncode}, expected {status}; said:\n{done.stderr}')
verdict(passed, failures)
