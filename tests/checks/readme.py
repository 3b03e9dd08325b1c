"""Compiles and runs every ```cpp block of every page, as a reader would type it.

Compiles the calls in running text, too (page_calls.py).

Checks besides: lines have at most 100 columns, README.md has at most 150 lines and the program of
samples/first.cpp, and links between pages lead to a file and a heading that exist.

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
from page_calls import FENCED, wrong_calls

BLOCK = re.compile(r'^```cpp\n(.*?)^```$(?:\s*^```output\n(.*?)^```$)?', re.MULTILINE | re.DOTALL)
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
    if page == ROOT / 'README.md':
        first = (ROOT / 'samples/first.cpp').read_text(encoding='utf-8')
        if first.partition('\n')[2] not in [program for program, _ in BLOCK.findall(text)]:
            yield 'has no program that is that of samples/first.cpp'
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
