"""Checks every #include of the library, the comments that open headers, and the names of op files.

Folders include only lower ones: tensor <- autograd <- nn, optim <- amp <- measure; cuda includes
tensor and optim. Third-party headers are confined to a few files. A file that defines the shape
rule, a kernel or the gradient of an op in tensor/ops/NAME.h is called NAME or NAME_PART in every
folder; for an op in tensor/elementwise/NAME.h, elementwise_NAME. tensor/ops/list.inc has a line for
each header with a list of ops.

Usage: includes.py
"""
import re

from check import ROOMS, ROOT, sources, verdict

SEES = {
    'tensor': {'tensor'},
    'autograd': {'tensor', 'autograd'},
    'nn': {'tensor', 'autograd', 'nn'},
    'optim': {'tensor', 'autograd', 'optim'},
    'amp': {'tensor', 'autograd', 'nn', 'optim', 'amp'},
    'measure': {'tensor', 'autograd', 'nn', 'optim', 'amp', 'measure'},
    'cuda': {'tensor', 'optim', 'cuda'},
}
# Headers of other folders that a folder may include: arguments of kernels, and the kernel that
# copies gradients and checks them.
ALSO_SEES = {'cuda': {'amp/scaling/scale_call.h'}, 'nn': {'optim/multi_tensor.h'}}
# The only header of cuda/ that other folders may include.
ENTRY = 'cuda/register.h'
# Third-party header -> where it may be included.
THIRD_PARTY = {
    r'Eigen/': r'tensor/cpu/|samples/.*eigen.*\.cpp',  # samples measure against Eigen
    r'mpi\.h': r'tensor/comm/mpi_engine\.cpp',
    r'nlohmann/': r'(tensor/io|amp|measure|samples|tests/measure)/.*\.cpp',
    r'zlib\.h': r'tensor/io/.*\.cpp',
    r'(png|jpeglib|jerror)\.h': r'tensor/io/image\.cpp',
    r'CLI/': r'samples/.*\.cpp',
    r'catch2/': r'tests/support/catch\.h',
    r'cuda|cublas|cudnn|nvtx': r'cuda/',
}
# Slow to compile in every program; g++ 12 lacks <format>.
TOO_COSTLY = {'format', 'iostream', 'random', 'ranges', 'regex'}
OP_FOLDERS = ('tensor/ops', 'tensor/cpu', 'autograd/rules', 'cuda/kernels', 'cuda/blas', 'cuda/dnn')
# A kernel that serves the ops of several stems: its own stem -> theirs.
SHARED_KERNELS = {
    'product': {'addmm', 'matmul'},  # every matrix product (tensor/ops/product.h)
}
# A header of tensor/ops whose list has ops of other headers.
LISTS_OTHERS = 'product'
# Files of autograd/ops, where the functions of several stems may form a family, that have the stem
# of no op.
FAMILIES = {
    'common_dtype',  # no op: the dtype of several operands
    'create',  # new tensors
    'multinomial',  # no op: draws by those of random and sort
    'norm',  # batch_norm, group_norm, layer_norm
    'number',  # no op: C++ numbers as operands
    'one_operand',  # no op: defines functions of one tensor
    'operators',  # +, ==, & of arithmetic and compare
    'pad',  # of place
    'pointwise',  # no op: includes the families of elementwise functions
    'window',  # no op: sizes in the options of conv and pool
}
# A struct of an op, or a list of ops, in a header of tensor/ops or tensor/elementwise.
DECLARED = re.compile(r'^(?:template <.*>\s)?(?:struct|using) (\w+)', re.MULTILINE)
# What a source file defines of an op: a function, a CUDA kernel, the kernels of a list.
DEFINED = re.compile(
    r'^(?=\S).*?\b(\w+)(?:<\w+>)?::(?:infer|view|cpu|backward|composite)\('
    r'|\battach<(?:op::)?(\w+)|\bop::(\w+Ops)\{\}', re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def complaints_about(path, text):
    room = path.parts[0]
    for bracket, name in INCLUDE.findall(text):
        if bracket == '"':
            target = (ROOT / path.parent / name).resolve()
            if not target.is_file():
                yield f'"{name}" is not a file relative to this one'
                continue
            seen = target.relative_to(ROOT)
            if target.suffix == '.cpp':
                yield f'"{name}" is not a header'
            if room in ROOMS and seen.parts[0] not in SEES[room] and str(seen) not in {
                    ENTRY, *ALSO_SEES.get(room, ())}:
                yield f'"{name}": {room}/ may only include {", ".join(sorted(SEES[room]))}'
            continue
        for pattern, allowed in THIRD_PARTY.items():
            if re.match(pattern, name) and not re.match(allowed, str(path)):
                yield f'<{name}> may only be included in {allowed}'
        if room in ROOMS and path.suffix == '.h' and name in TOO_COSTLY:
            yield f'<{name}> in a header is too slow to compile'
    if path.suffix == '.h':
        yield from complaints_about_opening(text)
        # these are never included, and g++ warns about the line in a header that it precompiles
        if 'precompiled' not in str(path) and '#pragma once' not in text:
            yield 'lacks #pragma once'


def complaints_about_opening(text):
    if not text.startswith('// '):
        yield 'must open with a comment line that says what the file holds'


def stems_of_ops():
    """Returns the stem that the files of each op or list of ops have."""
    return {
        name: prefix + path.stem
        for folder, prefix in (('tensor/elementwise', 'elementwise_'), ('tensor/ops', ''))
        for path in sources(folder, suffixes=('.h', ))
        for name in DECLARED.findall((ROOT / path).read_text(encoding='utf-8'))
    }


def complaints_about_stem(path, text, stem_of):
    """Where a file that defines part of an op has another stem than the op."""
    for found in DEFINED.finditer(text):
        op = found[1] or found[2] or found[3]
        stem = stem_of.get(op)
        if stem is None or stem in SHARED_KERNELS.get(path.stem, ()):
            continue
        if path.stem != stem and not path.stem.startswith(stem + '_'):
            yield f'defines {op}, so its name must be {stem}{path.suffix} or begin with {stem}_'


def complaints_about_family(path, stems):
    """Where a file of public functions has neither the stem of an op nor that of a family."""
    if path.stem not in FAMILIES | {stem.removeprefix('elementwise_') for stem in stems}:
        yield 'has the stem of no header of tensor/ops or tensor/elementwise'


def complaints_about_list():
    """Where list.inc and the headers with a list of ops differ."""
    text = (ROOT / 'tensor/ops/list.inc').read_text(encoding='utf-8')
    listed = re.findall(r'^MZ_(?:KERNEL_)?OPS\((\w+)\)$', text, re.MULTILINE)
    with_ops = sorted(path.stem for path in sources('tensor/ops', suffixes=('.h', ))
                      if path.stem != LISTS_OTHERS
                      and re.search(r'^using \w+Ops =', (ROOT / path).read_text('utf-8'), re.M))
    if listed != with_ops:
        yield f'differs from the headers with ops: {sorted(set(listed) ^ set(with_ops))} or order'


def main():
    failures = [f'tensor/ops/list.inc: {complaint}' for complaint in complaints_about_list()]
    stem_of = stems_of_ops()
    entered = []
    for path in sources(*ROOMS, 'samples', 'tests'):
        text = (ROOT / path).read_text(encoding='utf-8')
        failures += [f'{path}: {complaint}' for complaint in complaints_about(path, text)]
        folder = path.parent.as_posix()
        if folder in OP_FOLDERS and path.suffix != '.h':
            failures += [f'{path}: {it}' for it in complaints_about_stem(path, text, stem_of)]
        if folder == 'autograd/ops':
            failures += [f'{path}: {it}' for it in complaints_about_family(path, stem_of.values())]
        if path.parts[0] in ROOMS and path.parts[0] != 'cuda' and re.search(
                rf'#\s*include ".*{ENTRY}"', text):
            entered.append(str(path))
    if len(entered) > 1:
        failures.append(f'{ENTRY} is included by {", ".join(entered)}; expected a single file')
    verdict(1 if not failures else 0, failures)


main()
