"""Checks every #include of the library, the comments that open headers, and where files of ops lie.

Folders include only lower ones: tensor <- autograd <- optim <- nn <- amp <- measure; cuda, the
backend, includes tensor, optim and amp. Third-party headers are confined to a few files. A file
that defines the shape rule, a kernel or the gradient of an op in tensor/ops/FAMILY/NAME.h lies in
tensor/ops/FAMILY or cuda/kernels/FAMILY; kernels of the CPU are in files called *_cpu.
tensor/ops/list.inc has a line for each header with a list of ops.

Usage: includes.py
"""
import re

from check import ROOMS, ROOT, sources, verdict

SEES = {
    'tensor': {'tensor'},
    'autograd': {'tensor', 'autograd'},
    'optim': {'tensor', 'autograd', 'optim'},
    'nn': {'tensor', 'autograd', 'optim', 'nn'},
    'amp': {'tensor', 'autograd', 'optim', 'nn', 'amp'},
    'measure': {'tensor', 'autograd', 'optim', 'nn', 'amp', 'measure'},
    'cuda': {'tensor', 'optim', 'amp', 'cuda'},
}
# The only header of cuda/ that other folders may include.
ENTRY = 'cuda/register.h'
# Third-party header -> where it may be included.
THIRD_PARTY = {
    r'Eigen/': r'tensor/(cpu/|ops/.*_cpu\.)|samples/bench/baselines\.cpp',  # samples measure against Eigen
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
OPS, KERNELS = 'tensor/ops', 'cuda/kernels'
# A struct of an op, or a list of ops, in a header of tensor/ops.
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
            if room in ROOMS and seen.parts[0] not in SEES[room] and str(seen) != ENTRY:
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


def families():
    """Returns the family of each op and list of ops: the folder of the header that has it."""
    return {
        name: path.parent.name
        for path in sources(OPS, suffixes=('.h', ))
        for name in DECLARED.findall((ROOT / path).read_text(encoding='utf-8'))
    }


def complaints_about_family(path, text, family_of):
    """Where a file that defines part of an op lies outside the op's family."""
    for found in DEFINED.finditer(text):
        op = found[1] or found[2] or found[3]
        family = family_of.get(op)
        if family and path.parent.name != family:
            yield f'defines {op} of the family {family}, so it must lie in a folder of that name'
        if family and path.stem.endswith('_cpu') and found[1] and '::cpu(' not in found[0]:
            yield f'defines {found[0]}..., but files called *_cpu have only kernels'


def complaints_about_list():
    """Where list.inc and the headers with a list of ops differ."""
    text = (ROOT / OPS / 'list.inc').read_text(encoding='utf-8')
    listed = {f'{family}/{name}'
              for family, name in re.findall(r'^MZ_(?:KERNEL_)?OPS\((\w+), (\w+)\)$', text, re.M)}
    listed |= {f'elementwise/{name}'
               for name in re.findall(r'^MZ_ELEMENTWISE_OPS\((\w+), \w+\)$', text, re.M)}
    with_ops = {path.relative_to(OPS).with_suffix('').as_posix()
                for path in sources(OPS, suffixes=('.h', ))
                if re.search(r'^using \w+Ops =', (ROOT / path).read_text('utf-8'), re.M)}
    if listed != with_ops:
        yield f'differs from the headers with ops: {sorted(listed ^ with_ops)}'


def main():
    failures = [f'tensor/ops/list.inc: {complaint}' for complaint in complaints_about_list()]
    family_of = families()
    entered = []
    for path in sources(*ROOMS, 'samples', 'tests'):
        text = (ROOT / path).read_text(encoding='utf-8')
        failures += [f'{path}: {complaint}' for complaint in complaints_about(path, text)]
        if path.suffix != '.h' and (path.is_relative_to(OPS) or path.is_relative_to(KERNELS)):
            failures += [f'{path}: {it}' for it in complaints_about_family(path, text, family_of)]
        if path.parts[0] in ROOMS and path.parts[0] != 'cuda' and re.search(
                rf'#\s*include ".*{ENTRY}"', text):
            entered.append(str(path))
    if len(entered) > 1:
        failures.append(f'{ENTRY} is included by {", ".join(entered)}; expected a single file')
    verdict(1 if not failures else 0, failures)


main()
