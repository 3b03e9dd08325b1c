"""Prints the tests that the words name, on one line, and the targets they need, on a second line.

A word is the name of a test, or NAME for the shards NAME_1, NAME_2, ... of a long test.

Usage: tests_named.py BUILD_DIR WORD...      (exit status 2 for a word that names no test)
"""
import difflib
import json
import re
import sys
from pathlib import Path


def main(build, *words):
    def read(kind):
        return json.loads(
            (Path(build) / 'meson-info' / f'intro-{kind}.json').read_text(encoding='utf-8'))

    tests = read('tests')
    chosen = []
    for word in words:
        found = [test for test in tests if re.fullmatch(re.escape(word) + r'(_\d+)?', test['name'])]
        if not found:
            near = difflib.get_close_matches(word, [test['name'] for test in tests], 3)
            hint = (f'did you mean {" or ".join(near)}?'
                    if near else f'see meson test -C {build} --list')
            print(f'run.sh: no test is called {word}; {hint}', file=sys.stderr)
            sys.exit(2)
        chosen += found
    files = {target['id']: target['filename'] for target in read('targets')}
    here = Path(build).resolve()
    needed = {
        str(Path(file).relative_to(here))
        for test in chosen
        for target in test['depends']
        for file in files[target]
    }
    print(' '.join(test['name'] for test in chosen))
    print(' '.join(sorted(needed)))


main(*sys.argv[1:])
