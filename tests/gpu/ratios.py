#!/usr/bin/env python3
"""Prints how much faster Mezzo's captured steps are than PyTorch's, from logs of gpu_steps and
torch_steps.py.

    ratios.py LOG...

A row has the step time of Mezzo's captured step and, for PyTorch's autocast in the same 16-bit
dtype, eager and compiled, the ratio of its time to Mezzo's, with the target. Later lines replace
earlier ones of the same net, batch, level and way. Status: 0, or 77 if there is no pair.
"""
import json
import sys

AUTOCAST = {'O2': 'O1', 'O4': 'O4', 'O5': 'O4'}  # level of Mezzo -> of torch_steps.py
# (net, batch) -> least ratio of compiled PyTorch's time to that of a captured step at O2.
COMPILED = {
    ('mlp', 512): 2.5,
    ('lenet', 1024): 2.0,
    ('char_gpt', 64): 1.0,
    ('gpt2', 16): 0.9,
    ('resnet50', 256): 1.0,
}
EAGER = 1.2  # the same for eager autocast


def times_of(logs):
    """Returns {(net, batch, level, way): ms} of both sides; way is 'captured' for Mezzo."""
    times = {}
    for log in logs:
        with open(log, encoding='utf-8', errors='replace') as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if not isinstance(line, dict) or 'step_ms' not in line:
                    continue
                of_mezzo = line['side'] == 'mezzo'
                if of_mezzo == (line['way'] == 'captured'):
                    times[line['net'], line['batch'], line['level'], line['way']] = line['step_ms']
    return times


def ratio_text(theirs, ours, target):
    """Returns the ratio and, if there is a target, whether it is met."""
    if theirs is None:
        return '-'
    ratio = theirs / ours
    if target is None:
        return f'{ratio:.2f}'
    return f'{ratio:.2f} (>= {target}: {"met" if ratio >= target else "missed"})'


def rows_of(times):
    for (net, batch, level, way), ours in times.items():
        if way != 'captured' or level not in AUTOCAST:
            continue
        target = COMPILED.get((net, batch)) if level == 'O2' else None
        eager, compiled = (times.get((net, batch, AUTOCAST[level], way))
                           for way in ('eager', 'compiled'))
        if eager is None and compiled is None:
            continue
        yield (net, str(batch), level, f'{ours:.3f}', ratio_text(compiled, ours, target),
               ratio_text(eager, ours, EAGER if target else None))


def main():
    rows = list(rows_of(times_of(sys.argv[1:])))
    if not rows:
        print('ratios.py: skipped, no net has times of both sides')
        return 77
    rows.insert(0, ('net', 'batch', 'level', 'captured ms', 'compiled / captured',
                    'eager autocast / captured'))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0


if __name__ == '__main__':
    sys.exit(main())
