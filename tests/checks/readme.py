"""Compiles and runs every ```cpp block of the README, as a reader would type it.

Usage: readme.py LIBRARY_DIR README COMPILER...

A block with a main() is a whole program. Any other is what stands inside one: its #include lines move to the top, the rest
goes into the main() of a program that includes mezzo.h and uses the namespace. A block fenced as ```output right after says
what the program must print. Code that is not meant to run is fenced without a language.
"""
import re
import sys
import tempfile
from pathlib import Path

from check import ROOT, WARNINGS, run, verdict

BLOCK = re.compile(r'^```cpp\n(.*?)^```$(?:\s*^```output\n(.*?)^```$)?', re.MULTILINE | re.DOTALL)
INCLUDE_LINE = re.compile(r'^\s*#include.*$', re.MULTILINE)
SECONDS = 120


def program_of(block):
    if re.search(r'\bint main\(', block):
        return block
    includes = '\n'.join(INCLUDE_LINE.findall(block))
    body = INCLUDE_LINE.sub('', block)
    return f'#include <mezzo.h>\n{includes}\nusing namespace mezzo;\nint main() {{\n{body}\n}}\n'


def complaint(command, library_dir, program, expected):
    """What is wrong with the program, or ''."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / 'block.cpp'
        source.write_text(program, encoding='utf-8')
        binary = Path(folder) / 'block'
        # An unused value is what a short example is made of.
        built = run([*command, *WARNINGS, '-Wno-unused-variable', '-Wno-unused-but-set-variable', f'-I{ROOT}', source,
                     '-o', binary, f'-L{library_dir}', f'-Wl,-rpath,{library_dir}', '-lmezzo', '-pthread'])
        if built.returncode != 0:
            return f'does not compile:\n{built.stdout}'
        done = run(['timeout', SECONDS, binary], cwd=folder)
        if done.returncode != 0:
            return f'ended with status {done.returncode}:\n{done.stdout}'
        if expected is not None and done.stdout != expected:
            return f'printed\n{done.stdout}but the text says\n{expected}'
    return ''


def main(library_dir, document, *command):
    text = Path(document).read_text(encoding='utf-8')
    blocks = list(BLOCK.finditer(text))
    failures = []
    if len(blocks) != len(re.findall(r'^```cpp', text, re.MULTILINE)):
        failures.append(f'{document}: a ```cpp block is not closed, or has more in its first line')
    for block in blocks:
        line = text[:block.start()].count('\n') + 1
        wrong = complaint(command, Path(library_dir).resolve(), program_of(block.group(1)), block.group(2))
        if wrong:
            failures.append(f'{document}:{line}: the program {wrong}')
    verdict(max(0, len(blocks) - len(failures)), failures)


main(*sys.argv[1:])
