"""Checks every #include of the library: rooms look down only, third parties stay where they belong, headers say what they are.

Usage: includes.py      (ARCHITECTURE: tensor <- autograd <- nn, optim; amp sees those; cuda sees tensor and optim's kernels)
"""
import re

from check import ROOMS, ROOT, sources, verdict

SEES = {
    'tensor': {'tensor'},
    'autograd': {'tensor', 'autograd'},
    'nn': {'tensor', 'autograd', 'nn'},
    'optim': {'tensor', 'autograd', 'optim'},
    'amp': {'tensor', 'autograd', 'nn', 'optim', 'amp'},
    'cuda': {'tensor', 'optim', 'cuda'},
}
# The one call that leads into the GPU room.
ENTRY = 'cuda/register.h'
# Third-party header -> where it may be included.
THIRD_PARTY = {
    r'Eigen/': r'tensor/cpu/|samples/.*eigen.*\.cpp',  # the second: to measure against it
    r'nlohmann/': r'(tensor/io|amp|samples)/.*\.cpp',
    r'zlib\.h': r'tensor/io/.*\.cpp',
    r'CLI/': r'samples/.*\.cpp',
    r'catch2/': r'tests/support/catch\.h',
    r'cuda|cublas|cudnn|nvtx': r'cuda/',
}
# Costly in every program, and absent from g++ 12 in the last case.
TOO_COSTLY = {'format', 'iostream', 'random', 'ranges', 'regex'}
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
                yield f'"{name}": {room}/ may only look into {", ".join(sorted(SEES[room]))}'
            continue
        for pattern, allowed in THIRD_PARTY.items():
            if re.match(pattern, name) and not re.match(allowed, str(path)):
                yield f'<{name}> belongs into {allowed} only'
        if room in ROOMS and path.suffix == '.h' and name in TOO_COSTLY:
            yield f'<{name}> in a header costs every program too much'
    if path.suffix == '.h':
        yield from complaints_about_opening(text)
        # nobody includes those; and g++ warns about the line in a header that it precompiles
        if 'precompiled' not in str(path) and '#pragma once' not in text:
            yield 'lacks #pragma once'


def complaints_about_opening(text):
    """A header opens with what it is, what it sees and what to read next, in this order; more may follow."""
    if not re.match(r'// .*\n(//.*\n)*// Sees: .*\n(//.*\n)*// Read next: ', text):
        yield 'must open with comment lines: what it is, "Sees: ...", "Read next: ..."'


def main():
    failures = []
    entered = []
    for path in sources(*ROOMS, 'samples', 'tests'):
        text = (ROOT / path).read_text(encoding='utf-8')
        failures += [f'{path}: {complaint}' for complaint in complaints_about(path, text)]
        if path.parts[0] in ROOMS and path.parts[0] != 'cuda' and re.search(rf'#\s*include ".*{ENTRY}"', text):
            entered.append(str(path))
    if len(entered) > 1:
        failures.append(f'{ENTRY} is included by {", ".join(entered)}, but one call is the only way in')
    verdict(1 if not failures else 0, failures)


main()
