"""Adds up the tests of meson runs: tally.py build/meson-logs/testlog.json...

Every test program ends with "N passed, N failed" on stdout or stderr. One that crashed, timed out or printed no such line
is one failure; skipped ones are listed and count as neither. The total is printed last, alone on its line.
Exit status: 1 if anything failed or nothing passed.
"""
import json
import re
import sys

TALLY = re.compile(r'^(\d+) passed, (\d+) failed$', re.MULTILINE)


def count(test):
    """(passed, failed) of one entry of testlog.json."""
    lines = TALLY.findall(test.get('stdout', '') + '\n' + test.get('stderr', ''))
    passed, failed = map(int, lines[-1]) if lines else (0, 0)
    broke = test['result'] != 'OK' or not lines
    return passed, failed + (1 if broke and failed == 0 else 0)


def main(*paths):
    passed = failed = 0
    tests = []
    for path in paths:
        try:
            with open(path, encoding='utf-8', errors='replace') as log:
                tests += [json.loads(line) for line in log]
        except OSError as error:
            print(f'no test log: {error}', file=sys.stderr)
            failed += 1
    for test in tests:
        if test['result'] == 'SKIP':
            said = (test.get('stdout', '') + test.get('stderr', '')).strip()
            print(f'skipped: {test["name"]}: {said}')
            continue
        test_passed, test_failed = count(test)
        if test_failed:
            print(f'failed: {test["name"]} ({test["result"]})')
        passed += test_passed
        failed += test_failed
    if passed == 0 and failed == 0:
        print('nothing ran, which counts as a failure')
        failed = 1
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed or not passed else 0


sys.exit(main(*sys.argv[1:]))
