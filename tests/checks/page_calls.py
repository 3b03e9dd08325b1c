"""Compiles the calls in the running text of pages.

`save(path, net)` is an error if no function takes these arguments in this order. NAMES says what a
name stands for there. Of calls with nothing or "..." between the parentheses, only the name has to
exist. Columns of tables that are Python's are left out.
"""
import re
import tempfile
from pathlib import Path

from check import ROOMS, ROOT, run

FENCED = re.compile(r'^```.*?^```$', re.MULTILINE | re.DOTALL)
SPAN = re.compile(r'`((?:[^`\n]|\n(?!\n))+)`')
# Pages about the past, and one that is made from declarations.
NOT_CHECKED = {'CHANGELOG.md', 'tensor/ops/OPTIONS.md'}
FOREIGN_COLUMN = re.compile(r'Python|PyTorch|torch|apex')
# What a program writes itself, and what is Python's.
EXEMPT = re.compile(r"""
    NAME | torch | save_file | sample\ 7 | ^find_package | ^double\( | ^base\ \*\  | ^saved\. |
    ^std\(x\)$ | ^(get|next|size)\(i?\)$ |
    ^(forward|derivative|gradient|infer|cpu|select|fail|num|backward|action)[<(]
    """, re.VERBOSE)
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
    'mezzo::optim::EarlyStopping': 'stopping',
    'mezzo::amp::Report': 'report',
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
    'double': 'v number value gamma eta_min power start_factor end_factor',
    'Device': 'device',
    'Profiler': 'profile',
    'FunctionContext': 'context',
}
# Methods that pages name without an object -> the object.
METHODS = {'step': 'optimizer', 'keep_f32': 'model', 'to': 'model', 'set_grad': 'x', 'add': 'model',
           'grad': 'x', 'options': 'optimizer', 'set_options': 'optimizer', 'batches': 'dataset'}


def declared_names():
    """Returns {name: type}."""
    return {name: kind for kind, names in NAMES.items() for name in names.split()}


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
        for line, code in (spans(text) if name not in NOT_CHECKED else ()):
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
        all_errors = '-ferror-limit=0' if 'clang' in str(command[-1]) else '-fmax-errors=0'
        done = run([*command, '-std=c++20', '-fsyntax-only', all_errors, '-w', f'-I{ROOT}', source])
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if ' error: ' in line]
        wrong += errors or [done.stdout]
        wrong.append('these are calls in running text; NAMES in tests/checks/page_calls.py declares '
                     'their arguments')
    return count, wrong
