"""Checks wrong usage and failures of the sample programs: one line on stderr, status 2 or 1.

Usage: usage.py FOLDER (of the programs)
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from check import verdict

quick = ('--nets', 'mlp', '--levels', 'O0', '--size', 'tiny', '--quiet')  # of the bench
programs = ('bench', 'char_gpt', 'char_lstm', 'custom_op', 'dcgan', 'finetune', 'mnist', 'ops',
            'resnet', 'tour')
bench, char_gpt, char_lstm, custom_op, dcgan, finetune, mnist, ops, resnet, tour = (
    Path(sys.argv[1]) / name for name in programs)


def cases(folder):
    """Returns [(status, part of the line, command)]."""
    damaged = folder / 'damaged'
    damaged.mkdir()
    (damaged / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c' +
                                                     bytes(100))
    (damaged / 't10k-labels-idx1-ubyte').write_bytes(b'\0\0\x08\x01\0\0\0\x02\x01\x02')
    other = folder / 'file'
    other.write_bytes(b'no directory')
    short = folder / 'short'
    short.write_text('to be or not to be, that is the question')
    no_newline = folder / 'no newline'
    no_newline.write_text('abcdefgh ' * 1000)
    saved = folder / 'saved'
    tiny = ['--steps', '1', '--length', '0']
    smallest, none = ['--config', 'tiny', *tiny], ['--train', '64', '--epochs', '0']
    hours, narrow = ['--nets', 'resnet50', '--size', 'full'], ['--width', '4', *tiny]
    command = [str(char_gpt), *smallest, '--save', saved, '--quiet']
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [
        (2, '--nets', [bench, '--nets', 'transformer']),
        (2, 'all or one of', [bench, '--nets', 'mlp,transformer']),
        (2, 'default, tiny, small or full', [bench, '--size', 'huge']),
        (1, 'cannot be read', [bench, '--peer', folder / 'missing']),
        (1, 'parse error', [bench, '--peer', short]),
        # Errors are reported before the training, which would take hours.
        (2, 'could not be written', [bench, *hours, '--json', folder / 'no/such']),
        (2, 'could not be written', [bench, *hours, '--json-lines', folder / 'no/such']),
        (2, 'could not be written', [bench, *hours, '--html', folder / 'no/such']),
        (2, 'could not be written', [bench, '--micro', '--json-lines', folder / 'no/such']),
        (2, 'could not be written', [resnet, '--depth', '50', '--json', folder / 'no/such']),
        (2, 'could not be written', [resnet, '--depth', '50', '--profile', folder / 'no/such']),
        (2, '--tensorboard needs --report', [resnet, '--tensorboard', folder / 'events']),
        (2, 'write no rows', [bench, '--ops', '--json-lines', folder / 'rows']),
        # The disk is full in the middle of the run.
        (1, 'could not be written',
         [bench, *quick, '--json-lines', '/dev/full']),
        (1, 'cannot create', [resnet, '--depth', '50', '--save', other / 'checkpoints']),
        (1, 'cannot open', [dcgan, '--judge', folder / 'missing']),
        (1, '"\\n"; choose another --prompt', [char_gpt, *smallest, '--data', no_newline]),
        (1, '"\\n"; choose another --prompt', [char_lstm, *narrow, '--data', no_newline]),
        (2, '--prompt', [char_gpt, *smallest, '--prompt', '']),
        (2, '--prompt', [char_lstm, *narrow, '--prompt', '']),
        # A device without an end is rejected.
        (1, 'not a regular file', [char_gpt, '--data', '/dev/zero']),
        (1, 'not a regular file', [bench, '--peer', '/dev/zero']),
        # An error is one line, whatever it quotes.
        (2, 'O\\n1\\x1b[2J', [mnist, '--opt-level', 'O\n1\x1b[2J']),
        (2, '--a\\nb', [mnist, '--a\nb']),
        (1, 'no\\r\\n\\u009bwhere', [char_gpt, '--data', 'no\r\n\u009bwhere']),
        (2, 'nothing to time', [bench, '--nets', 'mlp', '--steps', '3']),
        (2, 'on the CPU only', [bench, '--ops', '--device', 'cuda']),
        (1, 'cuda:63', [bench, '--device', 'cuda:63']),
        (2, 'choose one', [bench, '--ranks', '--scaling-model']),
        (2, 'on the CPU only', [bench, '--ranks', '--device', 'cuda']),
        (2, '--ranks has no --csv', [bench, '--ranks', '--csv', folder / 'rows']),
        (2, '--ranks has no --report', [bench, '--ranks', '--report', folder / 'page.html']),
        (2, 'has no --json-lines', [bench, '--ranks', '--json-lines', folder / 'rows']),
        (2, '--scaling-model has no --html', [bench, '--scaling-model', '--html', folder / 'page']),
        (2, 'could not be written', [bench, *hours, '--ranks', '--json', folder / 'no/such']),
        (2, 'nothing to time', [bench, '--scaling-model', '--steps', '3']),
        (2, 'the letter O', [bench, '--levels', '01']),
        (2, 'unknown level', [mnist, '--opt-level', 'O9']),
        (2, '--epochs', [mnist, '--epochs', 'many']),
        (2, '--batch', [mnist, '--batch', '0']),
        (2, '--lr', [mnist, '--lr', '-1']),
        (2, '--lr', [mnist, '--lr', '0']),
        (2, '--lr', [mnist, *none, '--lr', 'nan']),
        (2, '--lr', [mnist, *none, '--lr', 'inf']),
        (2, '--temperature', [char_gpt, *smallest, '--temperature', 'nan']),
        (2, '--dropout', [char_gpt, *smallest, '--dropout', 'nan']),
        (2, '--nonsense', [custom_op, '--nonsense']),
        (2, 'nonsense', [custom_op, 'nonsense']),
        (2, '--nonsense', [mnist, '--nonsense']),
        (2, 'unknown device', [mnist, '--device', 'tpu']),
        (1, 'no MNIST files', [mnist, '--data', folder / 'nowhere']),
        (1, 't10k-images', [mnist, '--data', damaged]),
        (1, 'cannot read the directory', [mnist, '--resume', folder / 'missing', '--train', '64']),
        (1, 'Not a directory', [mnist, '--resume', other, '--train', '64']),
        (1, 'there is no checkpoint', [mnist, '--resume', folder, '--train', '64']),
        (1, 'cannot be read', [char_gpt, '--data', folder / 'missing']),
        (1, 'is a directory', [char_lstm, '--data', folder]),
        (1, 'too short', [char_gpt, '--config', 'tiny', '--data', short]),
        (2, 'need a longer text',
         [char_lstm, '--width', '4', '--stretch', '2', '--batch', '30', '--data', short]),
        (2, '--config', [char_gpt, '--config', 'enormous']),
        (1, 'opt_level',
         [char_gpt, '--config', 'tiny', '--resume', saved, '--opt-level', 'O2', *tiny]),
        (1, 'the values do not fit', [char_gpt, '--config', 'small', '--resume', saved, *tiny]),
        (1, 'does not fit this training', [char_lstm, '--width', '4', '--resume', saved, *tiny]),
        (1, 'data_batch_1.bin', [resnet, '--data', folder]),
        (1, 'drop_last', [resnet, '--train', '16', '--test', '8', '--batch', '32']),
        (1, 'drop_last', [dcgan, '--train', '16', '--batch', '32']),
        (2, 'larger than the data', [mnist, '--train', '16', '--batch', '32']),
        (2, '--dropout', [char_gpt, '--dropout', '1.5']),
        (2, '--depth', [resnet, '--depth', '34']),
        (2, 'belong together', [finetune, '--weights', folder / 'missing']),
        (2, 'belong together', [finetune, '--data', folder]),
        (1, 'No such file', [finetune, '--weights', folder / 'missing', '--data', folder]),
        (2, '--freeze', [finetune, '--freeze', '6']),
        (2, '--ema-decay', [finetune, '--ema-decay', '1.5']),
        (2, '--chapter', [tour, '--chapter', '0x']),
        (2, '--chapter', [tour, '--chapter', '9']),
        (2, '.html', [tour, '--report', folder / 'page']),
        (2, 'could not be written', [tour, '--report', folder / 'no/such.html']),
        (2, '--nonsense', [tour, '--nonsense']),
        (2, 'nonsense', [tour, 'nonsense']),
        (0, '', [tour, '--help']),
        (0, '', [char_gpt, '--help']),
        (0, '', [mnist, '--help']),
        (0, '', [custom_op, '--help']),
    ]


def without_place_for_results(folder):
    """Returns [(part of the line, command)] for a full standard output."""
    run = ['--epochs', '0', '--train', '64', '--test', '8', '--quiet']
    return [(part, command) for part, command in (
        ('mnist: the results', [mnist, '--help']),
        ('mnist: the results', [mnist, *run]),
        ('resnet: the results', [resnet, '--width', '4', '--batch', '8', *run]),
        ('char_gpt: the results', [char_gpt, '--config', 'tiny', '--steps', '1', '--quiet']),
        ('bench: the results', [bench, *quick]),
        ('custom_op: the results', [custom_op]),
        ('ops: the results', [ops]),
        ('tour: the results', [tour, '--chapter', '1']),
    )]


def failure(command, status, part, output=subprocess.PIPE):
    """Returns None if the command ends with the status and, unless 0, one line with the part."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return f'{" ".join(command)}\ndid not end; expected status {status} and {part!r}'
    lines = done.stderr.split('\n')[:-1]
    if done.returncode == status and (status == 0 or (len(lines) == 1 and part in lines[0])):
        return None
    return (f'{" ".join(command)}\nstatus {done.returncode}, expected {status} and {part!r}; '
            f'said:\n{done.stderr}')


with tempfile.TemporaryDirectory() as name, open('/dev/full', 'w', encoding='utf-8') as full:
    found = [failure(command, status, part) for status, part, command in cases(Path(name))]
    found += [failure(command, 1, part, full)
              for part, command in without_place_for_results(Path(name))]
failures = [text for text in found if text]
verdict(len(found) - len(failures), failures)
