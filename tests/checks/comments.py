"""Comments name only files and types that exist, and no documents outside the repository.

Lines of sources, scripts and build files have at most 100 columns, and "Precision:" in the comment
of a public function is its op's tag.

Usage: comments.py OPS      (OPS: the sample program "ops")
"""

import json
import re
import sys
from pathlib import Path

from check import ROOMS, ROOT, must, sources, verdict

WIDTH = 100
# A line may be wider if a literal or an address takes most of it.
LITERAL = re.compile(r"""("|'|`)(?:(?!\1)[^\\]|\\.)*\1""")
ADDRESS = re.compile(r'https?://\S+')
OTHER_SUFFIXES = ('.py', '.sh', '.inc', '.js', '.build')
COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
FILE = re.compile(
    r'(?<![\w/.<-])((?:\.\./)*[\w-]+(?:/[\w-]+)*\.(?:h|cpp|cu|md|py|sh))\b(?!\.in\b|[/(])'
)
# Documents that are not in the repository, with or without a section.
DOCUMENT = re.compile(
    r'\b(?:AMP|OPS|ENGINEERING|ARCHITECTURE|STYLE|GPU|SCALEOUT|FP8|TRIED)(?:\.md\b| \d)'
)
TYPE = re.compile(r'\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b')
# Names of others, which no source of ours has to contain.
FOREIGN = {
    'AddressSanitizer',
    'BatchNorm',
    'FlashAttention',
    'FusedDenseGeluDense',
    'GradScaler',
    'ImageNet',
    'LayerNorm',
    'LeNet',
    'LeVeque',
    'McClelland',
    'MyOp',
    'NaNs',
    'NumPy',
    'PositiveNumber',
    'PyTorch',
    'ReLU',
    'ResNet',
    'ShuffleNet',
    'ThreadSanitizer',
}
PRECISION = re.compile(r'Precision: (\w+)')
TAG_OF = {
    'follows': 'match',
    'match': 'match',
    'low': 'low',
    'f32': 'f32',
    'promote': 'promote',
    'banned': 'banned',
}
DOCUMENTED = re.compile(
    r'/\*\*(.*?)\*/\s*'
    r'((?:(?:MZ_API|inline)[^;{]*?\b(\w+)\([^;{]*[;{][^\n]*\n(?:  [^\n]*\n|\}\n)*)+)',
    re.DOTALL,
)
DECLARED = re.compile(r'^(?:MZ_API|inline) [\w:<>, &]+? (\w+)\(', re.MULTILINE)


def comments_of(text):
    return [m.group() for m in COMMENT.finditer(text) if not m.group().startswith('"')]


def code_of(text):
    return COMMENT.sub(lambda m: m.group() if m.group().startswith('"') else ' ', text)


def file_exists(path, name, by_name):
    places = (path.parent / name, Path(name))
    if any((ROOT / place).is_file() for place in places):
        return True
    return '/' not in name and name in by_name


def has_long_literal(line):
    is_comment = line.lstrip().startswith(('#', '//', '*', '/*'))
    found = (ADDRESS if is_comment else LITERAL).finditer(line)
    return any(len(one.group()) > WIDTH // 2 for one in found)


def complaints_about_width(path, text):
    is_data = False  # tables and raw strings
    for number, line in enumerate(text.splitlines(), 1):
        if 'clang-format off' in line or ('R"(' in line and ')"' not in line):
            is_data = True
        elif 'clang-format on' in line or ')"' in line:
            is_data = False
        if len(line) > WIDTH and not is_data and not has_long_literal(line):
            yield f'{path}:{number}: {len(line)} columns, expected at most {WIDTH}'


def complaints_about(path, text, words, by_name):
    for comment in comments_of(text):
        for name in FILE.findall(comment):
            if not file_exists(path, name, by_name):
                yield f'{path}: a comment names the file {name}, which does not exist'
        for found in DOCUMENT.findall(comment):
            yield f'{path}: a comment refers to {found}, which is not in the repository'
        for name in TYPE.findall(comment):
            if name not in words and name not in FOREIGN:
                yield f'{path}: a comment names {name}, which no source declares'


def complaints_about_tags(ops):
    """Where a doc comment in tensor/ops states another precision than the op."""
    tags = {op['name']: op['tag'] for op in ops if not op['internal']}
    for path in sorted((ROOT / 'tensor' / 'ops').rglob('*.h')):
        text = path.read_text(encoding='utf-8')
        for doc, declarations, _ in DOCUMENTED.findall(text):
            stated = PRECISION.search(doc)
            if not stated:
                continue
            said = TAG_OF.get(stated.group(1))
            names = {name for name in DECLARED.findall(declarations) if name in tags}
            if said is None and names:
                yield f'{path.name}: {sorted(names)}: "Precision: {stated.group(1)}" is no tag'
            for name in sorted(names):
                if said and tags[name] != said:
                    yield f'{path.name}: {name} has the tag {tags[name]}, its comment says {said}'


def main(program):
    files = sources(*ROOMS, 'samples', 'tests')
    texts = {path: (ROOT / path).read_text(encoding='utf-8') for path in files}
    words = set()
    for text in texts.values():
        words.update(re.findall(r'\w+', code_of(text)))
    by_name = {
        path.name
        for folder in (*ROOMS, 'samples', 'tests', '.')
        for path in ((ROOT / folder).rglob('*') if folder != '.' else ROOT.glob('*'))
    }
    failures = []
    for path, text in texts.items():
        failures += complaints_about_width(path, text)
        failures += complaints_about(path, text, words, by_name)
    for path in (*sources(*ROOMS, 'samples', 'tests', '.package', suffixes=OTHER_SUFFIXES),
                 Path('meson.build')):
        failures += complaints_about_width(path, (ROOT / path).read_text(encoding='utf-8'))
    failures += complaints_about_tags(json.loads(must([program, '--json'])))
    verdict(1 if not failures else 0, failures)


main(Path(sys.argv[1]).resolve())
