"""Makes the API reference from the public headers, or checks that they are documented.

Usage: docs.py DOXYGEN VERSION FOLDER [--check|--renew]      (FOLDER: where html/ is written)
With --check, each undocumented function, type, option field or enumerator is a failure, and so is
a comment on a function, field or enumerator that has only words of its name. A reference such as
"Sets allow_tf32()." counts as a comment. A reference of the options (OPTIONS) that is not what the
headers say is a failure, too; --renew writes it.
"""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import options

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
FILLERS = {'a', 'an', 'for', 'if', 'in', 'it', 'its', 'of', 'return', 'returns', 'set', 'the', 'to',
           'true', 'whether'}
# Types that users meet through the headers of mezzo.h.
BESIDES = '''amp/weights/conversion.h amp/policy.h amp/options.h amp/scaling/scale.h
    amp/scaling/scale_loss.h nn/data/batches.h nn/data/dataset.h
    nn/module.h nn/state_dict.h optim/optimizer.h optim/optimizer_of.h
    tensor/core/op.h tensor/core/shape.h tensor/memory/storage.h'''.split()

# Reached by mezzo.h, but for the library's own use.
INTERNAL = {ROOT / 'optim/step/tensor_list.h'}


def included_by(header):
    path = ROOT / header
    return [(path.parent / name).resolve() for name in INCLUDE.findall(path.read_text('utf-8'))]


def reached(header):
    """Returns the headers that a program gets with a header."""
    found, new = set(), {ROOT / header}
    while new:
        found |= new
        new = {path for one in new for path in included_by(one) if path.is_file()} - found
    return found


def headers():
    """What mezzo.h includes, the ops, headers with options, and a few more."""
    found = {ROOT / 'mezzo.h', *included_by('mezzo.h'), *included_by('tensor/ops/ops.h'),
             *included_by('tensor/ops/elementwise/pointwise.h')}
    found |= {path for path in reached('mezzo.h') - INTERNAL
              if options.STRUCT.search(path.read_text('utf-8'))}
    found |= {ROOT / name for name in BESIDES}
    missing = sorted(str(path) for path in found if not path.is_file())
    if missing:
        sys.exit(f'docs.py: no such header: {", ".join(missing)}')
    return sorted(found)


def pages():
    return [*ROOT.glob('*.md'), *ROOT.glob('*/README.md'), ROOT / 'tensor/ops/README.md',
            options.PAGE, ROOT / 'tests/gpu/RESULTS.md']


def made_by_macro(warning):
    """Returns whether a function without a comment is made by a macro, at which the comment is."""
    path, line = warning.split(':')[:2]
    lines = Path(path).read_text('utf-8').splitlines()
    return re.match(r'MZ_\w*NUMBER\w*\(', lines[int(line) - 1])


def words_of(text):
    """Returns the words in a text or a name, in lower case and without plurals."""
    words = re.findall(r'[a-z0-9]+', re.sub(r'([a-z0-9])([A-Z])', r'\1 \2', text).lower())
    return {word[:-1] if word.endswith('s') and len(word) > 3 else word for word in words}


def repetitions(folder):
    """Lists comments that only repeat the name of what they stand at."""
    for path in sorted((folder / 'xml').glob('*.xml')):
        for entry in xml.etree.ElementTree.parse(path).iter():
            if entry.tag not in ('memberdef', 'enumvalue') or entry.get('prot') == 'private':
                continue
            text = ' '.join(''.join(part.itertext()) for part in entry if part.tag in
                            ('briefdescription', 'detaileddescription')).strip()
            name = entry.findtext('name')
            if text and '()' not in text and words_of(text) <= words_of(name) | FILLERS:
                place = entry.find('location')
                where = path.name if place is None else f'{place.get("file")}:{place.get("line")}'
                yield f'{where}: the comment on {name} only repeats it: "{text}"'


def main(doxygen, version, folder, mode=''):
    check = mode in ('--check', '--renew')
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    values = {'VERSION': version, 'OUTPUT': folder, 'ROOT': ROOT, 'HERE': HERE,
              'INPUT': ' '.join(map(str, [*headers(), *pages()])), 'HTML': 'NO' if check else 'YES',
              'XML': 'YES' if check else 'NO'}
    text = (HERE / 'Doxyfile.in').read_text(encoding='utf-8')
    for name, value in values.items():
        text = text.replace(f'@{name}@', str(value))
    (folder / 'Doxyfile').write_text(text, encoding='utf-8')
    shutil.rmtree(folder / 'xml', ignore_errors=True)  # of headers that are gone
    subprocess.run([doxygen, folder / 'Doxyfile'], check=True, stdout=subprocess.DEVNULL)
    warnings = (folder / 'warnings.txt').read_text(encoding='utf-8').splitlines()
    missing = sorted({line for line in warnings
                      if line.endswith('is not documented.') and not made_by_macro(line)})
    if not check:
        print(f'{folder}/html/index.html')
        return 0
    missing += repetitions(folder)
    missing += options.differences(folder / 'xml', renew=mode == '--renew')
    for line in missing:
        print(line.replace(f'{ROOT}/', '').replace(' warning:', ''))
    print(f'{len(headers()) if not missing else 0} passed, {len(missing)} failed')
    return 1 if missing else 0


sys.exit(main(*sys.argv[1:]))
