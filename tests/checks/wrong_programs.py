"""Compiles programs with one mistake each and checks that the first error says what is wrong.

Usage: wrong_programs.py COMPILER...

The first line of each program is `// error: PATTERN`, a text that the first error must contain; a |
divides alternatives, as compilers differ. All errors of a program together must stay short.
"""
import sys
import tempfile
from pathlib import Path

from check import ROOT, in_parallel, must, run, verdict

PROGRAMS = ROOT / 'tests' / 'wrong_programs'
MOST_BYTES = 4000


def precompiled(compiler, folder):
    """Precompiles mezzo.h. Returns the options that use it."""
    clang = 'clang' in compiler
    made = Path(folder) / ('mezzo.pch' if clang else 'mezzo.h.gch')
    must([compiler, '-std=c++20', '-x', 'c++-header', ROOT / 'mezzo.h', '-o', made])
    return ['-include-pch', made] if clang else [f'-I{folder}']


def complaint(compiler, options, program):
    source = program.read_text(encoding='utf-8')
    patterns = source.splitlines()[0].removeprefix('// error: ').split('|')
    command = [compiler, '-std=c++20', '-fsyntax-only', f'-I{ROOT}', program]
    done = run([*command[:1], *options, *command[1:]])
    if done.returncode == 0:  # g++ precompiles a header without its pragmas
        done = run(command)
    first = next((line for line in done.stdout.splitlines() if 'error:' in line), '')
    if done.returncode == 0:
        return 'compiles'
    if not any(pattern in first for pattern in patterns):
        return f'the first error does not say "{" or ".join(patterns)}":\n{first}'
    if len(done.stdout) > MOST_BYTES:
        return f'{len(done.stdout)} bytes of errors, expected at most {MOST_BYTES}'
    return None


cases = [(compiler, program) for compiler in sys.argv[1:]
         for program in sorted(PROGRAMS.glob('*.cpp'))]
with tempfile.TemporaryDirectory() as parent:
    folders = {compiler: Path(parent) / compiler for compiler in sys.argv[1:]}
    for made in folders.values():
        made.mkdir()
    options_of = dict(zip(folders, in_parallel(lambda each: precompiled(*each), folders.items())))
    complaints = in_parallel(lambda case: complaint(case[0], options_of[case[0]], case[1]), cases)
failures = [f'{compiler} {program.name}: {text}'
            for (compiler, program), text in zip(cases, complaints) if text]
verdict(len(cases) - len(failures), failures)
