"""The checklists of CONTRIBUTING.md are right, and every list of levels has the rows of kLevels.

A checklist names an example. Each file that an item names must exist and mention the example; of a
folder, one file must. NAME in a path is the example's stem, FAMILY any name. What is `renorm` in
one file is `Renorm` in another.
The tables of levels in README.md and amp/README.md and the lists in Python are compared with
kLevels in amp/policy.h.

Usage: checklists.py
"""
import re

from check import ROOT, verdict

SECTION = re.compile(r'^## (Add .*?)\n(.*?)(?=^## )', re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r'\b[Ll]ook at `(\w+)`')
ITEM = re.compile(r'^- \[ \] (.*?)(?::|$)', re.MULTILINE)
PATH = re.compile(r'`((?:\w+/)*(?:\w*\.(?:h|cpp|cu|py|md|inc|txt|build))?)`')
LEVEL = re.compile(r'^    {"(\w+)", (\w+), (\w+), (\w+), (\w+), ([\w.]+), (\w+),', re.MULTILINE)
LISTS = ('samples/torch_levels.py', 'samples/bench_torch.py')  # LEVELS in Python


# ---- checklists ---------------------------------------------------------------------------------

def files_of(item):
    """Returns the paths in the head of an item; `.cpp` behind `NAME.h` is NAME.cpp."""
    paths = []
    for path in PATH.findall(item):
        paths.append(path if path[0] != '.' else paths[-1].rsplit('.', 1)[0] + path)
    return paths


def names_of(example):
    """Returns the example as it stands in C++ and in file names, without "Fused"."""
    plain = example.removeprefix('Fused')
    snake = re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', plain).lower()
    return [snake, plain, snake.title().replace('_', ''), example]


def complaints_about(section, item, example):
    names = names_of(example)
    mention = re.compile(rf'(?<![a-z])(?:{"|".join(names)})(?![a-z])')
    for path in files_of(item):
        pattern = path.replace('NAME', names[0]).replace('FAMILY', '*')
        found = [one for one in ROOT.glob(pattern + ('*' if path[-1] == '/' else ''))
                 if one.is_file()]
        if not found:
            yield f'{section}: {pattern} does not exist'
        elif not any(one.stem == names[0] or mention.search(one.read_text(encoding='utf-8'))
                     for one in found):
            yield f'{section}: {pattern} does not mention the example {example}'


def complaints_about_checklists():
    text = (ROOT / 'CONTRIBUTING.md').read_text(encoding='utf-8')
    for section, body in SECTION.findall(text):
        examples = []  # of the items below
        for paragraph in body.split('\n\n'):
            examples = EXAMPLE.findall(paragraph) or examples
            if paragraph.endswith(' of both:'):
                examples = EXAMPLE.findall(body)
            items = ITEM.findall(paragraph)
            if items and not examples:
                yield f'{section}: no example (look at `NAME`) stands before the items'
            for item in items:
                for example in examples:
                    yield from complaints_about(section, item, example)


# ---- levels -------------------------------------------------------------------------------------

def levels():
    """Returns {level: [model, casts, batch norm, masters, scale, 16-bit type]}, from kLevels."""
    rows = LEVEL.findall((ROOT / 'amp/policy.h').read_text(encoding='utf-8'))
    return {name: facts for name, *facts in rows}


def rows_of_table(page):
    """Returns {first cell: other cells} of the first table whose first level is O0."""
    table = re.search(r'^\| \| O0 \|.*\n\|[-|]+\|\n((?:\|.*\n)+)', page, re.MULTILINE)
    lines = page[table.start():table.end()].splitlines()
    cells = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    return {row[0]: row[1:] for row in cells}


def complaints_about_levels():
    facts = levels()
    model, casts, batch_norm, masters, scale, low = (list(row) for row in zip(*facts.values()))
    casts = [one if does == 'true' else does for does, one in zip(casts, low)]
    scale = [{'1.0': '1', 'kDynamic': 'dynamic'}.get(one, one) for one in scale]

    def plain(row, **words):
        words = {'unset': '-', 'true': 'yes', 'false': 'no', **words}
        return [words.get(cell, cell) for cell in row]

    tables = {
        'README.md': {
            '': list(facts),
            'model weights': plain(model, unset='unchanged'),
            'casts around ops': plain(casts),
            'batch norm kept in f32': plain(batch_norm),
            'f32 master weights': plain(masters),
            'loss scale': scale,
        },
        'amp/README.md': {
            '': list(facts),
            '`cast_model_type`': model,
            '`patch_functions` (casts around ops)': casts,
            '`keep_batchnorm_fp32`': batch_norm,
            '`master_weights`': masters,
            '`loss_scale`': scale,
        },
    }
    for name, table in tables.items():
        rows = rows_of_table((ROOT / name).read_text(encoding='utf-8'))
        for row, cells in table.items():
            if rows.get(row) != cells:
                yield (f'{name}: the row "{row}" of the levels is {rows.get(row)}, '
                       f'amp/policy.h says {cells}')
    for name in LISTS:
        text = (ROOT / name).read_text(encoding='utf-8')
        body = re.search(r'^LEVELS = [({](.*?)[)}]$', text, re.MULTILINE | re.DOTALL)[1]
        found = re.findall(r'"(O\d)"', body)
        if found != list(facts):
            yield f'{name}: LEVELS is {found}, amp/policy.h has {list(facts)}'


def main():
    failures = [*complaints_about_checklists(), *complaints_about_levels()]
    verdict(1 if not failures else 0, failures)


main()
