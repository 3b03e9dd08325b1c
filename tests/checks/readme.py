"""Compiles and runs every ```cpp block of every page, as a reader would type it.

Compiles the calls in running text, too: `save(path, net)` is an error if no function takes these
arguments in this order. NAMES says what a name stands for there. Of calls with nothing or "..."
between the parentheses, only the name has to exist. Columns of tables that are Python's are left
out.

Checks besides: lines have at most 100 columns, README.md has at most 150 lines, and links between
pages lead to a file and a heading that exist.

Usage: readme.py LIBRARY_DIR COMPILER...

A block with a main() is a whole program. Any other is what stands inside one: its #include lines
move to the top, the rest goes into the main() of a program that includes mezzo.h and uses the
namespace; it may `return` a status. A block fenced as ```output right after says what the program
must print; what it logs is not compared. Code that is not meant to run is fenced without a
language.

The blocks of a page are compiled as one program, since most of the time goes into mezzo.h. Each
runs in a process and a folder of its own.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check import ROOMS, ROOT, WARNINGS, in_parallel, run, verdict

BLOCK = re.compile(r'^```cpp\n(.*?)^```$(?:\s*^```output\n(.*?)^```$)?', re.MULTILINE | re.DOTALL)
FENCED = re.compile(r'^```.*?^```$', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r'^#+ (.*)$', re.MULTILINE)
LINK = re.compile(r'\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$', re.MULTILINE)
INCLUDE_LINE = re.compile(r'^[ \t]*#include.*$', re.MULTILINE)
SECONDS = 120
COLUMNS = 100
README_LINES = 150


def pages():
    folders = [*ROOMS, 'samples', 'tests']
    below = (page for folder in folders for page in (ROOT / folder).rglob('*.md'))
    return sorted([*ROOT.glob('*.md'), *below])


# ---- text ---------------------------------------------------------------------------------------

def anchors(text):
    """The headings of a page as links name them."""
    headings = HEADING.findall(FENCED.sub('', text))
    return {re.sub(r'[^\w\- ]', '', heading).strip().lower().replace(' ', '-')
            for heading in headings}


def dead_links(page, text):
    for inline, reference in LINK.findall(FENCED.sub('', text)):
        target, _, anchor = (inline or reference).partition('#')
        if '://' in target:
            continue
        there = page if target == '' else (page.parent / target).resolve()
        if not there.exists():
            yield f'the link {target} leads nowhere'
        elif anchor and anchor not in anchors(there.read_text(encoding='utf-8')):
            yield f'{target or "this page"} has no heading for #{anchor}'


def complaints(page, text):
    """What is wrong with the page apart from its programs."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield f'line {number} has {len(line)} columns, expected at most {COLUMNS}'
    if page == ROOT / 'README.md' and text.count('\n') > README_LINES:
        yield f'{text.count(chr(10))} lines, expected at most {README_LINES}'
    if len(BLOCK.findall(text)) != len(re.findall(r'^```cpp', text, re.MULTILINE)):
        yield 'a ```cpp block is not closed, or has more in its first line'
    yield from dead_links(page, text)


# ---- programs -----------------------------------------------------------------------------------

def function_of(block):
    """The block as a function run(), without its includes."""
    body = INCLUDE_LINE.sub('', block)
    if re.search(r'\bint main\(\)', body):
        end = body.rindex('}')  # of main, which is the last function
        return re.sub(r'\bint main\(\)', 'int run()', body[:end]) + 'return 0;\n' + body[end:]
    return f'using namespace mezzo; int run() {{\n{body}\nreturn 0;\n}}\n'


def program_of(page, text, blocks):
    """One program; its argument is the number of the block that it runs."""
    includes = {'#include <mezzo.h>', '#include <cstdlib>'}
    functions, calls = '', ''
    for number, block in enumerate(blocks):
        includes.update(line.strip() for line in INCLUDE_LINE.findall(block.group(1)))
        line = text[:block.start(1)].count('\n') + 1
        # the line that run() opens on is one less than that of a body that is not a whole program
        shift = 0 if 'int main(' in block.group(1) else 1
        functions += (f'namespace block_{number} {{\n#line {line - shift} "{page}"\n'
                      f'{function_of(block.group(1))}}}\n')
        calls += f'    case {number}: return block_{number}::run();\n'
    return ('\n'.join(sorted(includes)) + '\n' + functions + 'int main(int, char** arguments) {\n'
            f'  switch (std::atoi(arguments[1])) {{\n{calls}  }}\n  return 99;\n}}\n')


# ---- calls in running text ----------------------------------------------------------------------

SPAN = re.compile(r'`((?:[^`\n]|\n(?!\n))+)`')
NOT_CALLS = {  # pages on which running text has other things that look like calls
    'CHANGELOG.md', 'tensor/ops/OPTIONS.md'}
FOREIGN_COLUMN = re.compile(r'Python|PyTorch|torch|apex')
# What a program writes itself, and what is Python's.
EXEMPT = re.compile(r'NAME|torch|save_file|^(forward|derivative|gradient|infer|cpu|select|fail|num|backward|'
                    r'action)[<(]|^saved\.|^std\(x\)$|sample 7|^(get|next|size)\(i?\)$|^double\(|^base \* |^find_package')
CALLS_HEAD = '''#include <mezzo.h>
using namespace mezzo;
using namespace mezzo::amp;
using namespace mezzo::optim;
using namespace mezzo::nn;
using namespace mezzo::data;
using T = float;
using mezzo::nn::models::ResNet;
struct Any {  // an object of the type that is wanted
  template <class Wanted> operator Wanted() const;
  Tensor operator()(const Tensor& x) const;
};
struct Op {
  static constexpr OpTraits traits{.name = "op", .precision = Precision::match};
  template <class V> static V forward(const V& x) { return x; }
  template <class V> static V derivative(const V& x, const V&) { return x; }
};
struct Net : mezzo::nn::Sequential {
  mezzo::nn::Linear head;
  mezzo::nn::Sequential heads;
};
struct Norm : mezzo::nn::BatchNorm2d {
  operator const mezzo::nn::LayerNorm&() const;
};
using RateFactor = double (*)(std::int64_t step);
struct F {
  static constexpr const char* name = "F";
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static Grads backward(FunctionContext&, const Grads& g) { return g; }
};
'''
# Names in running text -> their types. A name is declared where it stands for an object.
NAMES = {
    'Tensor': 'x y loss l out rows mask scaled residual branch',
    'Net': 'model net m block',
    'Norm': 'norm',
    'RateFactor': 'factor',
    'mezzo::nn::Linear': 'fc1 fc2 fc3',
    'mezzo::nn::Embedding': 'embedding',
    'mezzo::nn::ExponentialMovingAverage': 'ema',
    'mezzo::optim::AdamW': 'optimizer o',
    'mezzo::amp::Session': 'session',
    'mezzo::amp::GradScaler': 'scaler',
    'mezzo::amp::StateDict': 's',
    'mezzo::data::Dataset': 'dataset digits',
    'mezzo::data::ImageFolder': 'images',
    'mezzo::comm::World': 'world',
    'mezzo::comm::Communicator': 'c',
    'Any': 'f body options then schedules milestones managed',
    'std::vector<Tensor>': 'p',
    'std::vector<double>': 'numbers',
    'std::string': 'path folder name line image_path label_path',
    'std::int64_t': 'n N seed group root color key i step_size t_max total_iters t_0 t_mult steps '
                    'step total_steps',
    'double': 'v number gamma eta_min power start_factor end_factor',
    'Device': 'device',
    'Profiler': 'profile',
    'FunctionContext': 'context',
}
METHODS = {'step': 'optimizer', 'keep_f32': 'model', 'to': 'model', 'set_grad': 'x', 'add': 'model',
           'grad': 'x', 'options': 'optimizer', 'set_options': 'optimizer', 'batches': 'dataset'}


def declared_names():
    types = {}
    for kind, names in NAMES.items():
        types.update((name, kind) for name in names.split())
    return types


def spans(text):
    """Yields (line, code) of the code in running text and tables, but for Python's columns."""
    lines = FENCED.sub(lambda block: '\n' * block[0].count('\n'), text).splitlines()
    running = '\n'.join('' if line.startswith('|') else line for line in lines)
    for match in SPAN.finditer(running):
        yield running[:match.start()].count('\n') + 1, ' '.join(match[1].split())
    foreign, was_table = set(), False
    for number, line in enumerate(lines, 1):
        is_table = line.startswith('|')
        cells = line.strip().strip('|').split('|') if is_table else []
        if not was_table:
            foreign = {i for i, cell in enumerate(cells) if FOREIGN_COLUMN.search(cell)}
        was_table = is_table
        for i, cell in enumerate(cells):
            if i not in foreign:
                for match in SPAN.finditer(cell):
                    yield number, match[1]


def is_call(code):
    return (re.search(r'[\w>]\(|\w\{', code) and not EXEMPT.search(code) and
            all(code.count(a) == code.count(b) for a, b in ('()', '{}', '[]')))


def statement_of(code, names):
    """A statement that is an error unless the call is right."""
    code = re.sub(r'^(\.\w+ = |const auto \w+ = )', '', code).rstrip(';')
    if declared := re.match(r'(const )?[\w:]+ (\w+)( = |\()', code):
        names = {name: kind for name, kind in names.items() if name != declared[2]}
    first = re.match(r'\w+', code)
    if first and first[0] in METHODS and code[first.end():first.end() + 1] in ('(', '<'):
        code = f'{METHODS[first[0]]}.{code}'
    used = [name for name in dict.fromkeys(re.findall(r'(?<![\w.:])(\w+)\b(?!\s*(?:::|\(|<\w+>\())',
                                                      code)) if name in names]
    return ' '.join([*(f'extern {names[name]} {name};' for name in used), f'{code};'])


def wrong_calls(texts, command):
    """(number of calls, what is wrong with calls in running text)."""
    names = declared_names()
    headers = '\n'.join(path.read_text('utf-8') for room in ROOMS
                        for path in (ROOT / room).rglob('*.h'))
    count, wrong, functions = 0, [], []
    for page, text in texts:
        name = str(page.relative_to(ROOT))
        for line, code in (spans(text) if name not in NOT_CALLS else ()):
            if not is_call(code):
                continue
            count += 1
            bare = re.fullmatch(r'(?:\w+(?:::|\.))*(\w+)(?:<\w+>)?[({](?:.*\.\.\..*)?[)}]', code)
            if bare and (not re.search(r'\.\w|::', code) or '...' in code):
                if not re.search(rf'\b{bare[1]}(<\w+>)?\(|(struct|class)( MZ_API)? {bare[1]}\b',
                                 headers):
                    wrong.append(f'{name}: line {line}: no function {bare[1]}() exists')
                continue
            functions.append(f'#line {line} "{name}"\nvoid call_{count}() {{ '
                             f'{statement_of(code, names)} }}\n')
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / 'calls.cpp'
        source.write_text(f'{CALLS_HEAD}namespace calls {{\n{"".join(functions)}}}\n',
                          encoding='utf-8')
        done = run([*command, '-std=c++20', '-fsyntax-only', '-fmax-errors=0', '-w', f'-I{ROOT}',
                    source])
    if done.returncode != 0:
        wrong += [f'a call in running text: {line}' for line in done.stdout.splitlines()
                  if ': error:' in line or line.startswith('cc1plus')]
    return count, wrong


def wrong_blocks(page, text, blocks, library_dir, command):
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / 'page.cpp', Path(folder) / 'page'
        source.write_text(program_of(page, text, blocks), encoding='utf-8')
        # An unused value is what a short example is made of.
        built = run([*command, *WARNINGS, '-Wno-unused-variable', '-Wno-unused-but-set-variable',
                     f'-I{ROOT}', source, '-o', binary, f'-L{library_dir}',
                     f'-Wl,-rpath,{library_dir}', '-lmezzo', '-pthread'])
        if built.returncode != 0:
            yield f'does not compile:\n{built.stdout}'
            return
        for number, block in enumerate(blocks):
            own_folder = Path(folder) / str(number)
            own_folder.mkdir()
            done = run(['timeout', SECONDS, binary, number], cwd=own_folder,
                       stderr=subprocess.PIPE)
            line = text[:block.start()].count('\n') + 1
            if done.returncode != 0:
                yield (f'line {line}: ended with status {done.returncode}:\n{done.stdout}'
                       f'{done.stderr}')
            elif block.group(2) is not None and done.stdout != block.group(2):
                yield f'line {line}: printed\n{done.stdout}but the text says\n{block.group(2)}'


def main(library_dir, *command):
    library_dir = Path(library_dir).resolve()

    def check(page):
        """(number of blocks, what is wrong)"""
        text = page.read_text(encoding='utf-8')
        blocks = list(BLOCK.finditer(text))
        wrong = list(complaints(page, text))
        if blocks:
            wrong += wrong_blocks(page, text, blocks, library_dir, command)
        return len(blocks), [f'{page.relative_to(ROOT)}: {what}' for what in wrong]

    results = in_parallel(check, pages())
    results.append(wrong_calls([(page, page.read_text(encoding='utf-8')) for page in pages()],
                               command))
    failures = [failure for _, wrong in results for failure in wrong]
    passed = sum(count for count, _ in results) + len(results)
    verdict(max(0, passed - len(failures)), failures)


if __name__ == '__main__':
    main(*sys.argv[1:])
