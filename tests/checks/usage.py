"""Wrong usage and failures of the sample programs: one line on stderr, status 2 or 1. usage.py FOLDER (of the programs)"""
import subprocess
import sys
import tempfile
from pathlib import Path

from check import verdict

bench, char_gpt, char_lstm, dcgan, mnist, resnet = (Path(sys.argv[1]) / name for name in ('bench', 'char_gpt', 'char_lstm', 'dcgan', 'mnist', 'resnet'))


def cases(folder):
    """(status, part of the line, command)"""
    damaged = folder / 'damaged'
    damaged.mkdir()
    (damaged / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c' + bytes(100))
    (damaged / 't10k-labels-idx1-ubyte').write_bytes(b'\0\0\x08\x01\0\0\0\x02\x01\x02')
    other = folder / 'file'
    other.write_bytes(b'no directory')
    short = folder / 'short'
    short.write_text('to be or not to be, that is the question')
    saved = folder / 'saved'
    tiny = ['--steps', '1', '--length', '0', '--quiet']
    done = subprocess.run([str(char_gpt), '--config', 'tiny', '--save', saved, *tiny], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [
        (2, '--nets', [bench, '--nets', 'transformer']),
        (2, 'tiny, small or full', [bench, '--size', 'huge']),
        (1, 'cannot be read', [bench, '--peer', folder / 'missing']),
        (1, 'parse error', [bench, '--peer', short]),
        # What can be refused is refused before the training, not after it: these would train for hours.
        (1, 'could not be written', [bench, '--nets', 'resnet50', '--size', 'full', '--quiet', '--json', folder / 'no/such']),
        (1, 'could not be written', [bench, '--nets', 'resnet50', '--size', 'full', '--quiet', '--html', folder / 'no/such']),
        (1, 'could not be written', [resnet, '--depth', '50', '--quiet', '--json', folder / 'no/such']),
        (1, 'cannot create', [resnet, '--depth', '50', '--quiet', '--save', other / 'checkpoints']),
        (1, 'cannot open', [dcgan, '--quiet', '--judge', folder / 'missing']),
        (2, 'nothing to time', [bench, '--nets', 'mlp', '--steps', '3']),
        (2, 'on the CPU alone', [bench, '--ops', '--device', 'cuda']),
        (1, 'cuda:63', [bench, '--device', 'cuda:63']),
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
        (1, 'cannot be read', [char_gpt, '--data', folder / 'missing']),
        (1, 'is a directory', [char_lstm, '--data', folder]),
        (1, 'too short', [char_gpt, '--config', 'tiny', '--data', short]),
        (2, 'need a longer text', [char_lstm, '--width', '4', '--stretch', '2', '--batch', '30', '--data', short]),
        (2, '--config', [char_gpt, '--config', 'enormous']),
        (1, 'opt_level', [char_gpt, '--config', 'tiny', '--resume', saved, '--opt-level', 'O2', *tiny]),
        (1, 'the values do not fit', [char_gpt, '--config', 'small', '--resume', saved, *tiny]),
        (1, 'does not fit this training', [char_lstm, '--width', '4', '--resume', saved, *tiny]),
        (1, 'data_batch_1.bin', [resnet, '--data', folder]),
        (1, 'drop_last', [resnet, '--train', '16', '--test', '8', '--batch', '32', '--quiet']),
        (1, 'drop_last', [dcgan, '--train', '16', '--batch', '32', '--quiet']),
        (2, 'larger than the data', [mnist, '--train', '16', '--batch', '32', '--quiet']),
        (2, '--dropout', [char_gpt, '--dropout', '1.5']),
        (2, '--depth', [resnet, '--depth', '34']),
        (0, '', [char_gpt, '--help']),
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
