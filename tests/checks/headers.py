"""Compiles every public header alone with warnings as errors; it may reach the standard library and public headers only.

Usage: headers.py COMPILER HEADER...
"""
import sys
import tempfile
from pathlib import Path

from check import WARNINGS, in_parallel, must, run, verdict

# Public headers may use these and what these include; what the compiler has no header for is left out.
STANDARD = '''algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
climits clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint
cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional
future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream system_error
thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version'''


def reached(make_rule):
    """The files of a make rule as written by -M."""
    return {str(Path(word).resolve()) for word in make_rule.replace('\\\n', ' ').split(':', 1)[1].split()}


def standard_files(compiler):
    lines = ''.join(f'#if __has_include(<{name}>)\n#include <{name}>\n#endif\n' for name in STANDARD.split())
    return reached(must([compiler, '-std=c++20', '-Wno-deprecated', '-M', '-x', 'c++', '-'], input=lines))


def main(compiler, headers):
    allowed = standard_files(compiler) | {str(Path(header).resolve()) for header in headers}

    def complaint(header):
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / 'alone.cpp'
            rule = Path(folder) / 'alone.d'
            alone.write_text(f'#include "{header}"\n', encoding='utf-8')
            done = run([compiler, *WARNINGS, '-fsyntax-only', '-MD', '-MF', rule, alone])
            if done.returncode != 0:
                return f'{header} does not compile alone with {compiler}:\n{done.stdout}'
            strangers = reached(rule.read_text(encoding='utf-8')) - allowed - {str(alone.resolve())}
            return f'{header} reaches {", ".join(sorted(strangers))}, which is not installed' if strangers else ''

    failures = list(filter(None, in_parallel(complaint, headers)))
    verdict(len(headers) - len(failures), failures)


main(sys.argv[1], sys.argv[2:])
