"""Checks every #include of the library, and that headers open with a comment.

Folders include only lower ones: tensor <- autograd <- nn, optim <- amp; cuda includes tensor and
optim. Third-party headers are confined to a few files.

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
    'cuda': {'tensor', 'optim', 'cuda'},
}
# Headers of higher folders that a folder may include: the structs of kernel arguments.
ALSO_SEES = {'cuda': {'amp/scaling/scale_call.h'}}
# The only header of cuda/ that other folders may include.
ENTRY = 'cuda/register.h'
# Third-party header -> where it may be included.
THIRD_PARTY = {
    r'Eigen/': r'tensor/cpu/|samples/.*eigen.*\.cpp',  # samples measure against Eigen
    r'nlohmann/': r'(tensor/io|amp|samples)/.*\.cpp',
    r'zlib\.h': r'tensor/io/.*\.cpp',
    r'CLI/': r'samples/.*\.cpp',
    r'catch2/': r'tests/support/catch\.h',
    r'cuda|cublas|cudnn|nvtx': r'cuda/',
}
# Slow to compile in every program; g++ 12 lacks <format>.
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


def main():
    failures = []
    entered = []
    for path in sources(*ROOMS, 'samples', 'tests'):
        text = (ROOT / path).read_text(encoding='utf-8')
        failures += [f'{path}: {complaint}' for complaint in complaints_about(path, text)]
        if path.parts[0] in ROOMS and path.parts[0] != 'cuda' and re.search(
                rf'#\s*include ".*{ENTRY}"', text):
            entered.append(str(path))
    if len(entered) > 1:
        failures.append(f'{ENTRY} is included by {", ".join(entered)}; expected a single file')
    verdict(1 if not failures else 0, failures)


main()
