"""Compiles every public header with warnings as errors.

A public header may include only the standard library and public headers.

Usage: headers.py --alone COMPILER HEADER...  each alone: proves that it includes what it uses
       headers.py --rooms COMPILER HEADER...  a folder's headers together, the last first: faster
"""
import sys
import tempfile
from pathlib import Path

from check import ROOT, WARNINGS, headers_reached, in_parallel, must, precompiled, run, verdict

# Precompiled for the headers that reach it by their own includes, when each is compiled alone.
SHARED = ROOT / 'tensor' / 'core' / 'tensor.h'

# Public headers may use these and what these include. Headers that the compiler lacks are left out.
STANDARD = '''
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine
csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
exception execution filesystem forward_list fstream functional future initializer_list iomanip ios
iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set
shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
unordered_set utility valarray variant vector version
'''


def reached(make_rule):
    """Returns the files of a make rule as written by -M."""
    return {
        str(Path(word).resolve())
        for word in make_rule.replace('\\\n', ' ').split(':', 1)[1].split()
    }


def standard_files(compiler):
    lines = ''.join(f'#if __has_include(<{name}>)\n#include <{name}>\n#endif\n'
                    for name in STANDARD.split())
    return reached(
        must([compiler, '-std=c++20', '-Wno-deprecated', '-M', '-x', 'c++', '-'], input=lines))


def groups_of(how, headers):
    """Returns the groups of headers that are compiled together."""
    if how == '--alone':
        return [[header] for header in headers]
    folders = {}
    for header in sorted(headers, reverse=True):
        folders.setdefault(Path(header).resolve().relative_to(ROOT).parts[0], []).append(header)
    return list(folders.values())


def main(how, compiler, headers):
    with tempfile.TemporaryDirectory() as folder:
        with_shared = []
        if how == '--alone':
            with_shared = precompiled(compiler, WARNINGS, SHARED, Path(folder) / 'shared')
        check(how, compiler, headers, with_shared)


def check(how, compiler, headers, with_shared):
    allowed = standard_files(compiler) | {str(Path(header).resolve()) for header in headers}
    allowed |= {str(word) + '.gch' for word in with_shared}

    def complaint(group):
        shared = with_shared if SHARED in headers_reached(Path(group[0]).resolve()) else []
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / 'source.cpp'
            rule = Path(folder) / 'source.d'
            source.write_text(''.join(f'#include "{header}"\n' for header in group),
                              encoding='utf-8')
            done = run(
                [compiler, *WARNINGS, *shared, '-fsyntax-only', '-MD', '-MF', rule, source])
            names = group[0] if len(group) == 1 else f'{group[0]} and {len(group) - 1} others'
            if done.returncode != 0:
                return f'{names} does not compile with {compiler}:\n{done.stdout}'
            strangers = reached(
                rule.read_text(encoding='utf-8')) - allowed - {str(source.resolve())}
            if not strangers:
                return ''
            return f'{names} reaches {", ".join(sorted(strangers))}, which are not public headers'

    groups = groups_of(how, headers)
    failures = list(filter(None, in_parallel(complaint, groups)))
    verdict(len(groups) - len(failures), failures)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
