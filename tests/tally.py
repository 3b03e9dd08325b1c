"""Adds up the tests of meson runs.

Usage: tally.py [--build-seconds N] build/meson-logs/testlog.json...

Every test program prints "N passed, N failed" last, on stdout or stderr. A program that crashes,
times out or prints no such line is one failure; skipped programs are listed and not counted.
Failures come at the end with the last lines of their output, then the times, then the total alone
on the last line. Exit status: 1 if anything failed or nothing passed.
"""
import json
import re
import sys

TALLY = re.compile(r'^(\d+) passed, (\d+) failed$', re.MULTILINE)
SHOWN = 60  # lines of a failed test


def count(test):
    """Returns (passed, failed) of one entry of testlog.json."""
    lines = TALLY.findall(test.get('stdout', '') + '\n' + test.get('stderr', ''))
    passed, failed = map(int, lines[-1]) if lines else (0, 0)
    broke = test['result'] != 'OK' or not lines
    return passed, failed + (1 if broke and failed == 0 else 0)


def output_of(test):
    """Returns what a test printed, standard output first."""
    return '\n'.join(filter(None,
                            (test.get(stream, '').strip() for stream in ('stdout', 'stderr'))))


def report_failures(failures):
    for test in failures:
        print(f'failed: {test["name"]} ({test["result"]}); the end of its output:')
        for line in output_of(test).splitlines()[-SHOWN:]:
            print(f'  | {line}')
    for test in failures:
        print(f'failed: {test["name"]} ({test["result"]})')


def where_the_time_went(build_seconds, tests):
    """Returns one line on the times. Tests run in parallel; seconds are sums over all of them."""
    def seconds(chosen):
        return sum(test['duration'] for test in chosen)

    def is_check(test):
        return test['name'].split(' / ')[0].endswith((':check', ':strict'))

    checks = [test for test in tests if is_check(test)]
    slowest = sorted(tests, key=lambda test: test['duration'], reverse=True)[:5]
    return (
        f'time: build {build_seconds} s; tests {seconds(tests) - seconds(checks):.0f} s '
        f'and checks {seconds(checks):.0f} s, '
        f'added up over processes; slowest: ' +
        ', '.join(f'{test["name"].split(" / ")[-1]} {test["duration"]:.0f} s' for test in slowest))


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
            lines = output_of(test).splitlines()
            print(f'skipped: {test["name"]}: {lines[0] if len(lines) == 1 else "all cases"}')
            continue
        test_passed, test_failed = count(test)
        if test_failed:
            failures.append(test)
        passed += test_passed
        failed += test_failed
    report_failures(failures)
    if passed == 0 and failed == 0:
        print('no test ran; this counts as a failure')
        failed = 1
    if build_seconds and tests:
        print(where_the_time_went(build_seconds, tests))
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed or not passed else 0


sys.exit(main(*sys.argv[1:]))
