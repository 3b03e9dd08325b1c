"""Adds up the tests of meson runs: tally.py build/meson-logs/testlog.json...

Every test program ends with "N passed, N failed" on stdout or stderr. One that crashed, timed out or printed no such line
is one failure; skipped ones are listed and count as neither. What failed comes last, with the end of what it printed, so that
whoever sees the end of a log alone sees it; then the total, alone on its line.
Exit status: 1 if anything failed or nothing passed.
"""
import json
import re
import sys

TALLY = re.compile(r'^(\d+) passed, (\d+) failed$', re.MULTILINE)
SHOWN = 60  # lines of a failed test


def count(test):
    """(passed, failed) of one entry of testlog.json."""
    lines = TALLY.findall(test.get('stdout', '') + '\n' + test.get('stderr', ''))
    passed, failed = map(int, lines[-1]) if lines else (0, 0)
    broke = test['result'] != 'OK' or not lines
    return passed, failed + (1 if broke and failed == 0 else 0)


def said(test):
    """What a test printed, its standard output first."""
    return '\n'.join(filter(None, (test.get(stream, '').strip() for stream in ('stdout', 'stderr'))))


def report_failures(failures):
    for test in failures:
        print(f'failed: {test["name"]} ({test["result"]}); it ended with')
        for line in said(test).splitlines()[-SHOWN:]:
            print(f'  | {line}')
    for test in failures:
        print(f'failed: {test["name"]} ({test["result"]})')


def main(*paths):
    passed = failed = 0
    failures = []
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
            lines = said(test).splitlines()
            print(f'skipped: {test["name"]}: {lines[0] if len(lines) == 1 else "every case of it"}')
            continue
        test_passed, test_failed = count(test)
        if test_failed:
            failures.append(test)
        passed += test_passed
        failed += test_failed
    report_failures(failures)
    if passed == 0 and failed == 0:
        print('nothing ran, which counts as a failure')
        failed = 1
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed or not passed else 0


sys.exit(main(*sys.argv[1:]))
