"""Compiles programs with one mistake each and checks that the first error says what is wrong.

Usage: wrong_programs.py COMPILER...

The first line of each program is `// error: PATTERN`, a text that the first error must contain; a |
divides alternatives, as compilers differ. All errors of a program together must stay short.
"""
import sys

from check import ROOT, in_parallel, run, verdict

PROGRAMS = ROOT / 'tests' / 'wrong_programs'
MOST_BYTES = 4000


def complaint(compiler, program):
    source = program.read_text(encoding='utf-8')
    patterns = source.splitlines()[0].removeprefix('// error: ').split('|')
    done = run([compiler, '-std=c++20', '-fsyntax-only', f'-I{ROOT}', program])
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
complaints = in_parallel(lambda case: complaint(*case), cases)
failures = [f'{compiler} {program.name}: {text}'
            for (compiler, program), text in zip(cases, complaints) if text]
verdict(len(cases) - len(failures), failures)
