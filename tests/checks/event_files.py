"""Reads the event files of a training: with TensorBoard's own reader where Python's package
tensorboard is installed, and always with a parser of the record format.

Usage: event_files.py MNIST     (the sample program)

../io/summary_writer.cpp checks each kind of record; this checks that a whole training can be read.
"""
import csv
import json
import struct
import sys
import tempfile
from pathlib import Path

from check import Expectations, must

expect = Expectations()
STEPS = 8
SCALARS = ('training/loss', 'training/loss_scale', 'training/lr', 'training/skipped',
           'training/ms', 'test accuracy')


def crc32c(data):
    total = 0xffffffff
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82f63b78 if total & 1 else 0)
    return total ^ 0xffffffff


def masked(data):
    total = crc32c(data)
    return ((total >> 15 | total << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """Returns the contents of the records, whose checksums must be right."""
    out, at = [], 0
    while at < len(data):
        head = data[at:at + 8]
        size = struct.unpack('<Q', head)[0]
        body = data[at + 12:at + 12 + size]
        sums = struct.unpack('<I', data[at + 8:at + 12]) + struct.unpack(
            '<I', data[at + 12 + size:at + 16 + size])
        if sums != (masked(head), masked(body)):
            expect(False, f'record {len(out)} at byte {at} has a wrong checksum')
            break
        out.append(body)
        at += 16 + size
    return out


def check_with_tensorboard(folder, losses):
    try:
        from tensorboard.backend.event_processing import event_accumulator
    except ImportError:
        print('TensorBoard is not installed: its own reader was not tried')
        return
    events = event_accumulator.EventAccumulator(str(folder), {'scalars': 0, 'histograms': 0})
    events.Reload()
    tags = events.Tags()
    for tag in SCALARS:
        expect(tag in tags['scalars'], f'TensorBoard does not find {tag}', tags)
    read = {one.step: one.value for one in events.Scalars('training/loss')}
    for step, loss in losses.items():
        expect(step in read and abs(read[step] - loss) <= 1e-6 * abs(loss),
               f'TensorBoard reads another loss of step {step}', (read.get(step), loss))
    weights = [tag for tag in tags['histograms'] if tag.startswith('weight log2/')]
    expect(len(weights) >= 4, 'TensorBoard finds no histograms of weights', tags)
    for tag in weights:
        value = events.Histograms(tag)[0].histogram_value
        expect(sum(value.bucket) == value.num > 0, f'the counts of {tag}', value)
        expect(all(a < b for a, b in zip(value.bucket_limit, value.bucket_limit[1:])),
               f'the limits of {tag}', value)
    print(f'TensorBoard read {len(tags["scalars"])} scalars, {len(tags["histograms"])} histograms')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        must([
            Path(sys.argv[1]).resolve(), '--net', 'mlp', '--opt-level', 'O1', '--steps', STEPS,
            '--train', 512, '--test', 64, '--report', folder / 'run.jsonl', '--tensorboard',
            folder / 'events', '--quiet'
        ])
        steps = [
            json.loads(line) for line in (folder / 'run.jsonl').read_text().splitlines()
            if '"type":"step"' in line
        ]
        losses = {one['step']: one['losses'][0] for one in steps}
        expect(len(losses) == STEPS, 'the report lacks steps', losses)
        files = list((folder / 'events').glob('events.out.tfevents.*'))
        expect(len(files) == 1, 'expected one event file', files)
        found = records(files[0].read_bytes())
        expect(len(found) > STEPS * (len(SCALARS) - 1), 'too few records', len(found))
        expect(b'brain.Event:2' in found[0], 'the first record is not the version', found[0])
        rows = list(csv.DictReader((folder / 'events/scalars.csv').open()))
        for tag in SCALARS:
            expect(any(row['tag'] == tag for row in rows), f'the CSV lacks {tag}')
        for row in rows:
            if row['tag'] == 'training/loss':
                expect(float(row['value']) == losses[int(row['step'])], 'a loss of the CSV', row)
        check_with_tensorboard(folder / 'events', losses)
    expect.verdict()


if __name__ == '__main__':
    main()
