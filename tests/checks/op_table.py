"""The op reference in tensor/ops/README.md says what the program `ops` and the headers say.

The program knows tags, dtypes, kernels and gradients; the headers of the public functions have the
signatures. The page lists the kernels of all devices: a build without CUDA kernels is compared in
the rest, and cannot renew it.

Usage: op_table.py OPS PAGE [--renew]      (--renew writes the reference into the page)
"""
import json
import re
import sys
import textwrap
from pathlib import Path

from check import ROOT, must, run, verdict

START = '<!-- op reference: made by tests/checks/op_table.py, which also renews it -->\n'
END = '<!-- end of the op reference -->\n'
RENEW = ('meson setup build -Dgpu_emulation=enabled && ninja -C build samples/ops_emulated && '
         'python3 tests/checks/op_table.py build/samples/ops_emulated tensor/ops/README.md --renew')
TENSOR = ROOT / 'tensor' / 'core' / 'tensor.h'
IN_PLACE = re.compile(r'\bconst Tensor& (\w+)_\(')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.DOTALL)
PARAMETERS = r'\(((?:[^;()]|\([^()]*\))*)\)'
FUNCTION = re.compile(r'^(?:MZ_API|inline) ([\w:<>, ]+?&?) (\w+)' + PARAMETERS + r'\s*[;{]',
                      re.MULTILINE)
INNER_NAMESPACE = re.compile(r'^namespace mezzo::(\w+) {', re.MULTILINE)
STRUCTS = re.compile(r'^namespace mezzo::op {.*?^}  // namespace mezzo::op$',
                     re.MULTILINE | re.DOTALL)
METHOD = re.compile(r'^  (Tensor|std::vector<Tensor>|const Tensor&) (\w+)' + PARAMETERS +
                    r' const\s*[;{]', re.MULTILINE)
# Ops that have no function of their own name: the op -> the function that calls it.
CALLED_BY = {'trunc_divide': ('div', False), 'windows': ('unfold', True)}
DTYPES = {
    'f16 bf16 f32 f64': 'floating',
    'u8 i32 i64 f16 bf16 f32 f64': 'numbers',
    'bool u8 i32 i64': 'integers, bool',
    'bool u8 i32 i64 f16 bf16 f32 f64': 'all',
}


def headers():
    return [*sorted((ROOT / 'tensor' / 'ops').rglob('*.h'), key=lambda path: path.name), TENSOR]


def declared_in_place():
    """Ops with an in-place function, by the headers of the public functions."""
    names = {name for header in headers()
             for name in IN_PLACE.findall(header.read_text(encoding='utf-8'))}
    return names | {'trunc_divide'}  # by div_ with a rounding mode


def signature(result, name, parameters):
    """One declaration, wrapped between parameters at 96 columns."""
    opening = f'{result} {name}('.replace(' ', '\0')
    words = ', '.join(one.replace(' ', '\0') for one in ' '.join(parameters.split()).split(', '))
    text = textwrap.fill(f'{opening}{words});', 96, subsequent_indent=' ' * len(opening),
                         break_long_words=False, break_on_hyphens=False)
    return text.replace('\0', ' ')


def signatures():
    """{(function, is a method of Tensor): (header, [declaration, ...])}"""
    found = {}
    for header in headers():
        text = COMMENT.sub('', STRUCTS.sub('', header.read_text(encoding='utf-8')))
        is_method = header == TENSOR
        inner = ''.join(f'{name}::' for name in INNER_NAMESPACE.findall(text)[:1])
        for result, name, parameters in (METHOD if is_method else FUNCTION).findall(text):
            where = found.setdefault((name, is_method), (header, []))
            if where[0] == header:
                shown = f'Tensor::{name}' if is_method else f'{inner}{name}'
                where[1].append(signature(result, shown, parameters))
    return found


def place_of(op, known):
    """(header, declarations) of the op's public function, or None."""
    name = op['name']
    places = [CALLED_BY.get(name, (name, False)), (name, True),
              (f'{name}_', True), (f'{name}_', False)]
    return next((known[place] for place in places if place in known), None)


def complaints(ops, known):
    """What is wrong with the rows themselves."""
    for op in ops:
        if '|' in op['summary'] or '\n' in op['summary']:
            yield f'{op["name"]}: a table cell cannot hold the summary {op["summary"]!r}'
        if not op['internal'] and not (op['summary'] and op['dtypes']):
            yield f'{op["name"]}: summary or dtypes are missing'
        if not op['internal'] and place_of(op, known) is None:
            yield f'{op["name"]}: no header in tensor/ops declares it, nor does {TENSOR.name}'
    stated = {op['name'] for op in ops if op['in_place'] and not op['internal']}
    names = {op['name'] for op in ops}
    for name in sorted(declared_in_place() & names - stated):
        yield f'{name}: {name}_() is declared, but the row does not say in_place'
    for name in sorted(stated - declared_in_place()):
        yield f'{name}: the row says in_place, but no {name}_() is declared'


def tag_table(ops):
    """What each tag does at each level."""
    levels = sorted(ops[0]['levels'])
    at = {}
    for op in ops:
        at.setdefault(op['tag'], set()).add(tuple(op['levels'][level] for level in levels))
    lines = ['| tag | ops | ' + ' | '.join(levels) + ' |', '|---' * (2 + len(levels)) + '|']
    for tag in sorted(at):
        if len(at[tag]) > 1:
            verdict(0, [f'ops of the tag {tag} are treated differently: {at[tag]}'])
        count = sum(op['tag'] == tag for op in ops)
        lines.append(f'| `{tag}` | {count} | ' + ' | '.join(*at[tag]) + ' |')
    return '\n'.join(lines)


def row(op):
    dtypes = ' '.join(op['dtypes'])
    cells = [
        f'`{op["name"]}`', op['tag'], DTYPES.get(dtypes, dtypes),
        ' '.join(op['devices']) if op['body'] == 'kernel' else op['body'],
        ('-', '1st', '1st, 2nd')[op['derivatives']], 'in place' if op['in_place'] else '']
    return '| ' + ' | '.join(cells) + ' |'


def reference(ops, known):
    """The tables and signatures, one section per header."""
    by_header = {}
    for op in ops:
        header, declarations = place_of(op, known)
        by_header.setdefault(header, []).append((op, declarations))
    parts = [tag_table(ops)]
    for header in headers():
        if header not in by_header:
            continue
        entries = by_header[header]
        path = header.relative_to(ROOT)
        family = header.stem.replace('_', ' ').capitalize()
        title = 'Methods of Tensor' if header == TENSOR else family
        table = ['| op | tag | dtypes | kernels | gradient | forms |', '|---|---|---|---|---|---|',
                 *(row(op) for op, _ in entries)]
        text = []
        for op, declarations in entries:
            text.append(f'// {op["name"]}: {op["summary"]}')
            text += dict.fromkeys(declarations)
        parts.append('\n'.join([f'### {title}\n', f'Declared in [{path.name}](../../{path}).\n',
                                *table, '\n```', *text, '```']))
    return '\n\n'.join(parts)


def main(program, page, renew=''):
    program, page = Path(program).resolve(), Path(page).resolve()
    every_op = json.loads(must([program, '--json']))
    known = signatures()
    failures = list(complaints(every_op, known))
    if failures:
        verdict(0, failures)
    ops = [op for op in every_op if not op['internal']]
    has_cuda = any('cuda' in op['devices'] for op in every_op)
    text = page.read_text(encoding='utf-8')
    if text.count(START) != 1 or text.count(END) != 1:
        verdict(0, [f'{page}: the lines around the op reference are missing:\n{START}{END}'])
    before, rest = text.split(START)
    written, after = rest.split(END)
    made = f'\n{reference(ops, known)}\n\n'
    if not has_cuda:
        written = written.replace('| cpu cuda |', '| cpu |')
    if renew and not has_cuda:
        failures.append(f'this program has no CUDA kernels; renew the reference by\n{RENEW}')
    elif renew:
        page.write_text(f'{before}{START}{made}{END}{after}', encoding='utf-8')
    elif written != made:
        failures.append('the op reference is not what the registry and the headers say; renew it '
                        f'by a build that has CUDA kernels:\n{RENEW}')
    if run([program, '--nonsense']).returncode != 2:
        failures.append('ops --nonsense must end with status 2')
    verdict(3 if not failures else 0, failures)


main(*sys.argv[1:])
