"""Prints the tests of a build directory that the words name, one a line: NAME itself, or the shards NAME_1, NAME_2, ... of a long one.

Usage: tests_named.py BUILD_DIR NAME...      (exit status 2 for a name that no test has)
"""
import difflib
import json
import re
import sys
from pathlib import Path


def main(build, *words):
    tests = json.loads((Path(build) / 'meson-info' / 'intro-tests.json').read_text(encoding='utf-8'))
    names = [test['name'] for test in tests]
    for word in words:
        found = [name for name in names if re.fullmatch(re.escape(word) + r'(_\d+)?', name)]
        if not found:
            near = difflib.get_close_matches(word, names, 3)
            hint = f'; did you mean {" or ".join(near)}?' if near else f'; meson test -C {build} --list names them'
            print(f'run.sh: no test is called {word}{hint}', file=sys.stderr)
            sys.exit(2)
        print('\n'.join(found))


main(*sys.argv[1:])
