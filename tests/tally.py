"""Adds up the tests of meson runs: tally.py [--build-seconds N] build/meson-logs/testlog.json...

Every test program ends with "N passed, N failed" on stdout or stderr. One that crashed, timed out or printed no such line
is one failure; skipped ones are listed and count as neither. What failed comes last, with the end of what it printed, so that
whoever sees the end of a log alone sees it; then where the time went, and the total, alone on its line.
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


def where_the_time_went(build_seconds, tests):
    """One line. Tests and checks run side by side, so their seconds are sums over all of them."""
    def seconds(chosen):
        return sum(test['duration'] for test in chosen)

    def is_check(test):
        return test['name'].split(' / ')[0].endswith((':check', ':strict'))

    checks = [test for test in tests if is_check(test)]
    slowest = sorted(tests, key=lambda test: test['duration'], reverse=True)[:5]
    return (f'time: build {build_seconds} s; tests {seconds(tests) - seconds(checks):.0f} s and checks {seconds(checks):.0f} s, '
            f'added up over processes; slowest: ' + ', '.join(f'{test["name"].split(" / ")[-1]} {test["duration"]:.0f} s' for test in slowest))


def main(*words):
    build_seconds = words[1] if words[:1] == ('--build-seconds',) else None
    paths = words[2:] if build_seconds else words
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
    if build_seconds and tests:
        print(where_the_time_went(build_seconds, tests))
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed or not passed else 0


sys.exit(main(*sys.argv[1:]))
