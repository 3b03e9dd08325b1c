"""The op table in the README is the one that the program `ops` prints, and what it says about in-place forms is what the headers declare.

The README's table has the kernels of all devices: a build without CUDA kernels is compared in the rest, and cannot renew it.

Usage: op_table.py OPS README [--renew]      (--renew writes the table into the README)
"""
import json
import re
import sys
from pathlib import Path

from check import ROOT, must, run, verdict

START = '<!-- op table: made by build/samples/ops, renewed by tests/checks/op_table.py build/samples/ops README.md --renew -->\n'
CUDA_KERNEL = '| cpu cuda |'
END = '<!-- end of the op table -->\n'
IN_PLACE = re.compile(r'\bconst Tensor& (\w+)_\(')


def declared_in_place():
    """Ops with an in-place function, by the headers of the public functions."""
    headers = [*(ROOT / 'autograd' / 'ops').glob('*.h'), ROOT / 'tensor' / 'tensor.h']
    names = {name for header in headers for name in IN_PLACE.findall(header.read_text(encoding='utf-8'))}
    return names | {'trunc_divide'}  # by div_ with a rounding mode


def complaints(ops):
    """What is wrong with the rows themselves."""
    for op in ops:
        if '|' in op['summary'] or '\n' in op['summary']:
            yield f'{op["name"]}: a table cell cannot hold the summary {op["summary"]!r}'
        if not op['internal'] and not (op['summary'] and op['dtypes']):
            yield f'{op["name"]}: summary or dtypes are missing'
    stated = {op['name'] for op in ops if op['in_place'] and not op['internal']}
    known = {op['name'] for op in ops}
    for name in sorted(declared_in_place() & known - stated):
        yield f'{name}: {name}_() is declared, but the row does not say in_place'
    for name in sorted(stated - declared_in_place()):
        yield f'{name}: the row says in_place, but no {name}_() is declared'


def main(program, readme, renew=''):
    program, readme = Path(program).resolve(), Path(readme).resolve()
    table = must([program])
    ops = json.loads(must([program, '--json']))
    failures = list(complaints(ops))
    has_cuda = any('cuda' in op['devices'] for op in ops)
    text = readme.read_text(encoding='utf-8')
    if text.count(START) != 1 or text.count(END) != 1:
        verdict(0, failures + [f'{readme.name}: the lines around the op table are missing:\n{START}{END}'])
    before, rest = text.split(START)
    written, after = rest.split(END)
    if not has_cuda:
        written = written.replace(CUDA_KERNEL, '| cpu |')
    if renew and not has_cuda:
        failures.append('this program has no CUDA kernels; renew the table by ops_emulated of a build with -Dgpu_emulation=enabled')
    elif renew:
        readme.write_text(f'{before}{START}\n{table}\n{END}{after}', encoding='utf-8')
    elif written != f'\n{table}\n':
        failures.append('the op table of the README is not that of the registry; renew it by a build that has CUDA kernels, for example\n'
                        'meson setup build -Dgpu_emulation=enabled && ninja -C build samples/ops_emulated && '
                        'python3 tests/checks/op_table.py build/samples/ops_emulated README.md --renew')
    if run([program, '--nonsense']).returncode != 2:
        failures.append('ops --nonsense must end with status 2')
    verdict(3 if not failures else 0, failures)


main(*sys.argv[1:])
