"""Writes a synthetic report file (JSONL, format 1) for tests of the report's page.

Usage: report_data.py OUT.jsonl [--kind KIND]

Kinds: lenet (one run at O1 with overflows), gpt (1,000 steps, 50 samples, many layers), levels (two
nets at O0 to O5), nan (a run that diverges), static (a static scale that is no power of two, two
losses), truncated (cut off within a line), bare (no modules, no session, no samples), empty (only
the first line of a run).
"""
import argparse
import json
import math
import random
from pathlib import Path

LEVELS = ['O0', 'O1', 'O2', 'O3', 'O4', 'O5']
LOW = {'O0': None, 'O1': 'f16', 'O2': 'f16', 'O3': 'f16', 'O4': 'bf16', 'O5': 'bf16'}
MODEL = {'O2': 'f16', 'O3': 'f16', 'O5': 'bf16'}
OPS = [('conv2d', 'low', '2-D convolution'),
       ('linear', 'low', 'x times a transposed weight, plus bias'),
       ('matmul', 'low', 'matrix product'),
       ('scaled_dot_product_attention', 'low', 'attention of one call'),
       ('softmax', 'f32', 'exponentials divided by their sum'),
       ('layer_norm', 'f32', 'layer normalization'), ('cross_entropy', 'f32', 'loss of logits'),
       ('exp', 'f32', 'e to the power x'), ('log_softmax', 'f32', 'logarithm of softmax'),
       ('sum', 'f32', 'sum of elements'), ('add', 'promote', 'sum of two tensors'),
       ('mul', 'promote', 'product of two tensors'), ('cat', 'promote', 'joins tensors'),
       ('relu', 'match', 'the positive part'), ('gelu', 'match', 'Gaussian error linear unit'),
       ('max_pool2d', 'match', 'largest of each window'),
       ('batch_norm', 'match', 'batch normalization'), ('embedding', 'match', 'rows of a table'),
       ('reshape', 'match', 'the same elements in another shape'),
       ('dropout', 'match', 'zeroes elements'),
       ('binary_cross_entropy', 'banned', 'loss of probabilities')]
CATEGORIES = [
    'weights', 'masters', 'gradients', 'optimizer state', 'activations', 'cast cache', 'workspace',
    'communication', 'other'
]
BYTES = {'f16': 2, 'bf16': 2, 'f32': 4}


def action(tag, level):
    if tag == 'promote':
        return 'promote'
    if level not in ('O1', 'O4') or tag == 'match':
        return 'as is'
    return {'low': LOW[level], 'f32': 'f32', 'banned': 'refused'}[tag]


def policy():
    return {
        'type':
        'policy',
        'levels':
        LEVELS,
        'ops': [{
            'name': name,
            'tag': tag,
            'levels': [action(tag, one) for one in LEVELS],
            'summary': summary
        } for name, tag, summary in OPS]
    }


class Net:
    """Modules [(path, type)], parameters {name: shape} and ops [(op, module, output shape)]."""
    def __init__(self, title, modules, parameters, ops):
        self.title, self.modules, self.parameters, self.ops = title, modules, parameters, ops


def lenet():
    modules = [('', 'LeNet'), ('conv1', 'Conv2d'), ('bn1', 'BatchNorm2d'), ('conv2', 'Conv2d'),
               ('bn2', 'BatchNorm2d'), ('fc1', 'Linear'), ('fc2', 'Linear')]
    parameters = {
        'conv1.weight': [32, 1, 5, 5],
        'bn1.weight': [32],
        'bn1.bias': [32],
        'conv2.weight': [64, 32, 5, 5],
        'bn2.weight': [64],
        'bn2.bias': [64],
        'fc1.weight': [512, 3136],
        'fc1.bias': [512],
        'fc2.weight': [10, 512],
        'fc2.bias': [10]
    }
    ops = [('conv2d', 'conv1', [64, 32, 28, 28]), ('batch_norm', 'bn1', [64, 32, 28, 28]),
           ('relu', '', [64, 32, 28, 28]), ('max_pool2d', '', [64, 32, 14, 14]),
           ('conv2d', 'conv2', [64, 64, 14, 14]), ('batch_norm', 'bn2', [64, 64, 14, 14]),
           ('relu', '', [64, 64, 14, 14]), ('max_pool2d', '', [64, 64, 7, 7]),
           ('reshape', '', [64, 3136]), ('linear', 'fc1', [64, 512]), ('relu', '', [64, 512]),
           ('linear', 'fc2', [64, 10]), ('cross_entropy', '', [])]
    return Net('mnist lenet', modules, parameters, ops)


def mlp():
    modules = [('', 'Sequential'), ('1', 'Linear'), ('3', 'Linear')]
    parameters = {'1.weight': [64, 784], '1.bias': [64], '3.weight': [10, 64], '3.bias': [10]}
    ops = [('reshape', '0', [64, 784]), ('linear', '1', [64, 64]), ('relu', '2', [64, 64]),
           ('linear', '3', [64, 10]), ('cross_entropy', '', [])]
    return Net('mlp small', modules, parameters, ops)


def gpt(layers=6, width=384):
    modules = [('', 'CharGpt'), ('token', 'Embedding'), ('position', 'LearnedPositionalEmbedding')]
    parameters = {'token.weight': [256, width], 'position.weight': [256, width]}
    wide = [16, 256, width]
    ops = [('embedding', 'token', wide), ('add', 'position', wide)]
    for i in range(layers):
        at = f'blocks.{i}'
        modules += [(at, 'Block')]
        for name, kind, shape in (('norm1', 'LayerNorm', None), ('attention', 'CausalAttention',
                                                                 None), ('attention.qkv', 'Linear',
                                                                         [3 * width, width]),
                                  ('attention.proj', 'Linear', [width, width]), ('norm2',
                                                                                 'LayerNorm', None),
                                  ('up', 'Linear', [4 * width,
                                                    width]), ('down', 'Linear', [width,
                                                                                 4 * width])):
            modules.append((f'{at}.{name}', kind))
            if shape:
                parameters[f'{at}.{name}.weight'] = shape
                parameters[f'{at}.{name}.bias'] = [shape[0]]
            elif kind == 'LayerNorm':
                parameters[f'{at}.{name}.weight'] = [width]
        ops += [('layer_norm', f'{at}.norm1', wide),
                ('linear', f'{at}.attention.qkv', [16, 256, 3 * width]),
                ('scaled_dot_product_attention', f'{at}.attention', wide),
                ('linear', f'{at}.attention.proj', wide), ('add', at, wide),
                ('layer_norm', f'{at}.norm2', wide), ('linear', f'{at}.up', [16, 256, 4 * width]),
                ('gelu', at, [16, 256, 4 * width]), ('linear', f'{at}.down', wide),
                ('add', at, wide)]
    modules += [('norm', 'LayerNorm'), ('head', 'Linear')]
    parameters['norm.weight'] = [width]
    ops += [('layer_norm', 'norm', wide), ('linear', 'head', [16, 256, 256]),
            ('cross_entropy', '', [])]
    return Net('char_gpt', modules, parameters, ops)


def cut_to(dtype, lo, counts, scale_shift):
    """Returns (lo, counts, zero, inf) of elements that are rounded to the dtype."""
    if dtype != 'f16':
        return lo + scale_shift, counts, 0, 0
    lo += scale_shift
    low, high = max(0, -25 - lo), max(0, min(len(counts), 16 - lo))
    zero, inf = sum(counts[:low]), sum(counts[high:])
    return lo + low if counts[low:high] else 0, counts[low:high], zero, inf


def spread(generator, n, centre, width):
    """Returns (lo, counts) of n elements whose log2 is nearly normal around centre."""
    ends = [math.floor(centre - 4 * width), math.ceil(centre + 2.5 * width)]
    weights = [
        math.exp(-((e + 0.5 - centre) / width)**2 / 2) * generator.uniform(0.9, 1.1)
        for e in range(ends[0], ends[1])
    ]
    counts = [math.floor(n * weight / sum(weights)) for weight in weights]
    counts[len(counts) // 2] += n - sum(counts)
    first = next(i for i, count in enumerate(counts) if count)
    last = max(i for i, count in enumerate(counts) if count)
    return ends[0] + first, counts[first:last + 1]


def histogram(generator, kind, name, n, dtype, centre, width, zeros=0.0, scale=1):
    """Returns one row of a sample."""
    lo, counts = spread(generator, n - int(n * zeros), centre, width)
    lo, counts, lost, inf = cut_to(dtype, lo, counts, math.floor(math.log2(scale)))
    top = lo + len(counts) - 1 if counts else 0
    largest = 2.0**top * generator.uniform(1.02, 1.95) if counts else 0
    if dtype == 'f16':
        largest = min(largest, 65504.0)
    return {
        'kind': kind,
        'name': name,
        'dtype': dtype,
        'n': n,
        'zero': int(n * zeros) + lost,
        'inf': inf,
        'nan': 0,
        'lo': lo,
        'counts': counts,
        'max': largest,
        'scale': scale
    }


def product(shape):
    return math.prod(shape) if shape else 1


class Run:
    """Makes the lines of one run of a net at a level."""
    def __init__(self, number, net, level, steps, every, seed=1, **changes):
        self.number, self.net, self.level, self.steps, self.every = number, net, level, steps, every
        self.generator = random.Random(f'{seed} {net.title} {level}')
        self.low = LOW[level]
        self.dynamic = level in ('O1', 'O2')
        self.scale = 65536.0 if self.dynamic else 1.0
        self.changes = changes
        self.drift = 0.0  # of the loss, against f32

    def line(self, line_type, **fields):
        return {'type': line_type, 'run': self.number, **fields}

    def weight_dtype(self, name):
        return MODEL.get(self.level, 'f32') if 'bn' not in name else 'f32'

    def op_dtype(self, tag):
        if self.level in MODEL:
            return MODEL[self.level]
        return self.low if self.low and tag in ('low', 'match') else 'f32'

    def head(self):
        net = self.net
        yield self.line('run', format=1, title=net.title, group=net.title, level=self.level,
                        started='2026-11-23T10:00:00Z', mezzo='0.1.0', commit='b170011',
                        device='cpu', hardware='AMD EPYC 9R14, 2 threads, AVX512-BF16',
                        every=self.every, loss_scale=self.changes.get(
                            'scale', 'dynamic' if self.dynamic else 1), cast_dtype=self.low,
                        options={'cast_model_type': MODEL.get(self.level,
                                                              'unset')}, emulated=self.low == 'f16')
        yield self.line(
            'model', model=0, name='', modules=[{
                'path': path,
                'type': kind
            } for path, kind in net.modules], parameters=[{
                'name':
                name,
                'module':
                name.rsplit('.', 1)[0],
                'shape':
                shape,
                'dtype':
                self.weight_dtype(name),
                'master':
                self.level in ('O2', 'O5') and self.weight_dtype(name) != 'f32'
            } for name, shape in net.parameters.items()])

    def graph(self):
        ops, last = [], -1
        residual = -1
        for op, module, shape in self.net.ops:
            tag = next(one[1] for one in OPS if one[0] == op)
            dtype = self.op_dtype(tag)
            inputs = [{
                'from': last,
                'name': '' if last >= 0 else 'input',
                'dtype': dtype if last >= 0 else 'f32',
                'shape': self.net.ops[0][2]
            }]
            if self.level in ('O1', 'O4') and tag == 'low':
                ops.append({
                    'op': 'to',
                    'module': module,
                    'tag': 'match',
                    'in': inputs,
                    'out': [{
                        'dtype': dtype,
                        'shape': shape
                    }]
                })
                inputs = [{'from': len(ops) - 1, 'dtype': dtype, 'shape': shape}]
            if op == 'add' and residual >= 0:
                inputs.append({'from': residual, 'dtype': dtype, 'shape': shape})
            inputs += [{
                'from': -1,
                'name': name,
                'dtype': self.weight_dtype(name),
                'shape': size
            } for name, size in self.net.parameters.items() if name.rsplit('.', 1)[0] == module]
            ops.append({
                'op': op,
                'module': module,
                'tag': tag,
                'in': inputs,
                'out': [{
                    'dtype': dtype,
                    'shape': shape
                }]
            })
            last = len(ops) - 1
            if op in ('add', 'embedding'):
                residual = last
        return self.line('graph', step=0, ops=ops)

    def casts(self, step):
        entries = []
        if self.level in ('O1', 'O4'):
            for op, module, shape in self.net.ops:
                tag = next(one[1] for one in OPS if one[0] == op)
                if tag not in ('low', 'f32'):
                    continue
                pair = ('f32', self.low) if tag == 'low' else (self.low, 'f32')
                for direction in ('forward', 'backward'):
                    source, target = pair if direction == 'forward' else pair[::-1]
                    n = product(shape)
                    entries.append({
                        'module':
                        module,
                        'op':
                        op,
                        'rule':
                        tag,
                        'direction':
                        direction,
                        'from':
                        source,
                        'to':
                        target,
                        'count':
                        2,
                        'cache_hits':
                        step > 0,
                        'elements':
                        n,
                        'bytes':
                        n * BYTES[target],
                        'overflowed':
                        0,
                        'flushed':
                        self.generator.randint(0, n // 500) if target == 'f16' else 0
                    })
        for entry in entries:
            entry['cache_hits'] = int(entry['cache_hits'])
        return self.line('casts', step=step, entries=entries)

    def memory(self, step):
        weights = sum(product(shape) for shape in self.net.parameters.values())
        points, activations, gradients = [], 0, 0
        held = BYTES[MODEL.get(self.level, 'f32')]

        def point(at, phase, workspace=0):
            points.append({
                'at':
                at,
                'phase':
                phase,
                'bytes': [
                    weights * held, weights * 4 if self.level in ('O2', 'O5') else 0, gradients,
                    weights * 8, activations,
                    weights * 2 if self.level in ('O1', 'O4') and phase != 'step' else 0, workspace,
                    0, 200000
                ]
            })

        for op, module, shape in self.net.ops:
            activations += product(shape) * (2 if self.low else 4)
            point(f'{module} {op}'.strip(), 'forward', 1 << 20 if op == 'conv2d' else 0)
        for op, module, shape in reversed(self.net.ops):
            gradients = min(weights * held, gradients + weights * held // len(self.net.ops) + 1)
            point(f'{module} {op}'.strip(), 'backward', 2 << 20 if op == 'conv2d' else 0)
            activations -= product(shape) * (2 if self.low else 4)
        point('Adam', 'step', weights * 4)
        return self.line('memory', step=step, categories=CATEGORIES, points=points)

    def gradient_row(self, name, n, progress, depth):
        centre = -9.0 - 4 * progress - 8 * depth + self.changes.get('gradient_shift', 0)
        return histogram(self.generator, 'weight_grad', name, n,
                         'f32' if self.level != 'O3' else 'f16', centre, 3.5, 0.02, 1)

    def sample(self, step):
        progress = step / max(1, self.steps)
        rows, seen = [], {}
        for i, (op, module, shape) in enumerate(self.net.ops):
            tag = next(one[1] for one in OPS if one[0] == op)
            name = f'{module} {op}'.strip()
            seen[name] = seen.get(name, 0) + 1
            name += f'#{seen[name]}' if seen[name] > 1 else ''
            n, dtype = product(shape), self.op_dtype(tag)
            more = {'module': module, 'op': op}
            zeros = 0.48 if op == 'relu' else 0.0
            rows.append({
                **histogram(self.generator, 'activation', name, n, dtype, -1.5 + 0.1 * (i % 7), 2.2,
                            zeros),
                **more
            })
            depth = 1 - i / len(self.net.ops)
            rows.append({
                **histogram(self.generator, 'activation_grad', name, n, dtype, -17 - 6 * depth, 3.2,
                            zeros, self.scale),
                **more
            })
        for i, (name, shape) in enumerate(self.net.parameters.items()):
            n, dtype = product(shape), self.weight_dtype(name)
            rows.append(histogram(self.generator, 'weight', name, n, dtype, -5.5, 1.6))
            rows.append(self.gradient_row(name, n, progress, 1 - i / len(self.net.parameters)))
            row = histogram(self.generator, 'update', name, n, 'f32', -12 - progress, 1.2)
            lo, counts = spread(self.generator, n - n // 50, -7.5 - 3 * progress, 2.4)
            rows.append({**row, 'ratio': {'lo': lo, 'counts': counts, 'zero': n // 50}})
        for row in rows:
            if row['kind'] in ('weight', 'weight_grad', 'update'):
                row['module'] = row['name'].rsplit('.', 1)[0]
        return self.line('sample', step=step, rows=rows)

    def overflow_sample(self, step):
        rows = [
            self.gradient_row(name, product(shape), 0, 0)
            for name, shape in self.net.parameters.items()
        ]
        rows[-2].update(inf=3, nan=1, n=rows[-2]['n'] + 4)
        for row in rows:
            row['module'] = row['name'].rsplit('.', 1)[0]
        return self.line('sample', step=step, rows=rows)

    def step(self, step, overflow):
        progress = step / max(1, self.steps)
        base = random.Random(f'loss {self.net.title} {step}')
        loss = 2.3 * math.exp(-3 * progress) + base.uniform(0, 0.06)
        size = {None: 0, 'f16': 4e-5, 'bf16': 6e-4}[self.low] * (0.3 if self.level == 'O2' else 1)
        self.drift = 0.97 * self.drift + self.generator.gauss(0, size)
        loss += self.drift
        if step >= self.changes.get('nan_from', self.steps):
            loss = ('nan', 'inf', '-inf')[step % 3]
        losses = [loss] * self.changes.get('losses', 1)
        result = 'skipped' if overflow else 'stepped'
        more = {
            'first_nonfinite': 'inf at [3,17] of ' + list(self.net.parameters)[-2]
        } if overflow else {}
        if step % self.every == 0:
            more['sampled'] = True
        casts = 2 * sum(1
                        for op in self.net.ops if op[0] in ('linear', 'conv2d')) if self.level in (
                            'O1', 'O4') else 0
        ms = {'O0': 9.0, 'O1': 7.1, 'O2': 6.4, 'O3': 6.1, 'O4': 6.6, 'O5': 5.9}[self.level]
        return self.line('step', step=step, losses=losses,
                         scales=[self.changes.get('scale', self.scale)], results=[result],
                         ms=round(ms * self.generator.uniform(0.95, 1.1), 3), casts=casts,
                         cast_bytes=casts * 51200, memory=29000000 + 1000 * (step % 5),
                         lrs=[1e-3 * 0.99**step], **more)

    def logged(self, step):
        """What the program logs after every 10th step."""
        if step % 10 != 9:
            return
        for name, value in (('validation loss', 1.1 * 2.3 * 0.98**step + 0.2),
                            ('accuracy', 1 - 0.9 * 0.97**step)):
            yield self.line('log', step=step, name=name, value=value)

    def lines(self):
        yield from self.head()
        good = 0
        sampled = 0
        for step in range(self.steps):
            overflow = self.dynamic and (step in (0, 1, 37)
                                         or step >= self.changes.get('nan_from', self.steps))
            yield self.step(step, overflow)
            yield from self.logged(step)
            if step % self.every == 0 or step == self.steps - 1:
                yield self.sample(step)
                yield self.casts(step)
                if step == 0:
                    yield self.graph()
                if sampled in (0, 2):
                    yield self.memory(step)
                sampled += 1
            elif overflow:
                yield self.overflow_sample(step)
            good = 0 if overflow else good + 1
            if overflow:
                self.scale = max(2.0**-126, self.scale / 2)
            elif self.dynamic and good % 60 == 0:
                self.scale *= 2
        yield self.line('end', steps=self.steps, seconds=round(self.steps * 0.0071, 2),
                        complete=True)
        yield from self.findings()

    def findings(self):
        names = list(self.net.parameters)
        if self.low == 'f16':
            yield self.line(
                'finding', kind='underflow', severity='problem', names=[names[0]], level='O4',
                loss_scale=4096,
                text=f'12.3 % of the gradients of {names[0]} become zero in f16 without '
                'loss scaling; a loss scale of 2^12 keeps 99.9 % of them.')
        if self.level == 'O3':
            yield self.line(
                'finding', kind='lost_update', severity='problem', names=names[:3], level='O2',
                text='41 % of the updates of fc1.weight are below 2^-11 of their weight and lost '
                'without f32 masters.')
        if self.dynamic:
            yield self.line(
                'finding', kind='overflow', severity='hint', names=[names[-2]],
                text='3 of the steps overflowed at the start, while the scale was found.')
        yield self.line(
            'finding', kind='healthy', severity='good', names=[],
            text='Loss is finite in all steps; weights and activations fit the range of f16.')


def many_runs():
    number = 0
    for net, steps in ((lenet(), 120), (mlp(), 60)):
        for level in LEVELS:
            yield from Run(number, net, level, steps, 20).lines()
            number += 1


def bare():
    """A plain f32 run without session and modules."""
    yield {
        'type': 'run',
        'run': 0,
        'format': 1,
        'title': 'plain',
        'group': 'plain',
        'level': 'none',
        'started': '2026-11-23T10:00:00Z',
        'mezzo': '0.1.0',
        'device': 'cpu',
        'hardware': 'a CPU',
        'every': 20,
        'cast_dtype': None,
        'emulated': False
    }
    for step in range(3):
        yield {
            'type': 'step',
            'run': 0,
            'step': step,
            'losses': [1 / (1 + step)],
            'scales': [],
            'results': ['stepped'],
            'ms': 1.5
        }
    yield {'type': 'end', 'run': 0, 'steps': 3, 'seconds': 0.1, 'complete': True}
    yield {'type': 'of_a_later_version', 'run': 0}


def objects_of(kind):
    if kind in ('lenet', 'truncated'):
        return Run(0, lenet(), 'O1', 120, 20).lines()
    if kind == 'gpt':
        return Run(0, gpt(), 'O1', 1000, 20).lines()
    if kind == 'levels':
        return many_runs()
    if kind == 'nan':
        return Run(0, lenet(), 'O2', 90, 20, nan_from=60, gradient_shift=8).lines()
    if kind == 'static':
        net = mlp()
        net.title = 'mlp <b>&amp; </script><!--<script>'  # text, whatever it looks like
        return Run(0, net, 'O3', 50, 10, scale=1000.0, losses=2).lines()
    if kind == 'bare':
        return bare()
    return Run(0, mlp(), 'O5', 0, 20).head()


KINDS = ('lenet', 'gpt', 'levels', 'nan', 'static', 'truncated', 'bare', 'empty')


def text_of(kind):
    """Returns the text of a report file."""
    lines = [json.dumps(one) for one in objects_of(kind)]
    if kind not in ('bare', 'empty'):
        lines.insert(1, json.dumps(policy()))
    text = '\n'.join(lines) + '\n'
    return text[:int(len(text) * 0.6)] if kind == 'truncated' else text


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('out', type=Path)
    parser.add_argument('--kind', choices=KINDS, default='lenet')
    arguments = parser.parse_args()
    arguments.out.write_text(text_of(arguments.kind), encoding='utf-8')
