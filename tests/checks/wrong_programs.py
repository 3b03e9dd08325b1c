"""Compiles programs with one mistake each and checks that the first error says what is wrong.

Usage: wrong_programs.py COMPILER...

The first line of each program is `// error: PATTERN`, a text that the first error must contain; a |
divides alternatives, as compilers differ. All errors of a program together must stay short.
"""
import sys
import tempfile
from pathlib import Path

from check import ROOT, in_parallel, precompiled, run, verdict

PROGRAMS = ROOT / 'tests' / 'wrong_programs'
STANDARD = ['-std=c++20']
MOST_BYTES = 4000


def complaint(compiler, with_header, program):
    source = program.read_text(encoding='utf-8')
    patterns = source.splitlines()[0].removeprefix('// error: ').split('|')
    command = [compiler, *STANDARD, '-fsyntax-only', f'-I{ROOT}', program]
    done = run([*command, *with_header])
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
with tempfile.TemporaryDirectory() as folder:
    with_headers = {compiler: precompiled(compiler, STANDARD, ROOT / 'mezzo.h',
                                          Path(folder) / str(number))
                    for number, compiler in enumerate(sys.argv[1:])}
    complaints = in_parallel(lambda case: complaint(case[0], with_headers[case[0]], case[1]), cases)
failures = [f'{compiler} {program.name}: {text}'
            for (compiler, program), text in zip(cases, complaints) if text]
verdict(len(cases) - len(failures), failures)
