"""A CPU runs only instructions that it has: looks at the machine code of a portable build.

Kernels for x86-64-v3, v4 and v4 with AVX512-BF16 are in sections of their own (see
tensor/cpu/variants/variants.py). Other code may not use AVX, and a section only its instruction
set. AVX gets into other code if the linker merges the copies of an inline function that were
compiled for different instruction sets. The check must find such a planted function.

Only some kernel sources are compiled with AVX512-BF16 (the group bf16 of variants.py). No other may
see code for it: the two would not agree on types and functions.

Usage: isa_code.py BUILD_DIR FILE... -- COMPILER...      (FILE: a library or program with kernels)
"""
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from check import ROOT, must, run, verdict

SECTION = re.compile(r'^Disassembly of section (\S+):$')
FUNCTION = re.compile(r'^[0-9a-f]+ <(.*)>:$')
# VEX or EVEX: all mnemonics with v but those of system instructions, mask registers, parts of BMI.
VECTOR = re.compile(r'v(?!er[rw]\b|m)|'
                    r'vm(?!call|clear|func|launch|load|mcall|ptr|read|resume|run|save|write|xo)|'
                    r'k[a-z]+[bwdq]\b|'
                    r'(andn|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx)\b')
WIDE = re.compile(r'%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])|\{')  # EVEX
BF16 = re.compile(r'vdpbf16ps|vcvtne2?ps2?bf16')
BUILT_WITHOUT_BF16 = re.compile(r'libkernels_(?!bf16_)\w+\.a\.p')
NOT_IN_V4 = re.compile(r'vp?dp(bf16|bus|wss)|vcvtne2?ps2?bf16|vpopcnt[bwdq]|vpsh[lr]d|'
                       r'vpermi?t?2?b\b|vpcompress[bw]|vpexpand[bw]|vpmadd52|vp2intersect|vaes|'
                       r'vpclmul|vgf2p8')


def excess(section, mnemonic, operands):
    """Returns whether code of this section may not use the instruction."""
    if section in ('.mezzo_v4', '.mezzo_bf16'):
        found = NOT_IN_V4.match(mnemonic)
        return bool(found) and not (section == '.mezzo_bf16' and BF16.match(mnemonic))
    if section == '.mezzo_v3':
        return bool(WIDE.search(operands) or NOT_IN_V4.match(mnemonic)) or bool(
            re.match(r'k[a-z]+[bwdq]\b', mnemonic))
    return bool(VECTOR.match(mnemonic))


def examine(path):
    """Returns ({section: number of vector instructions}, complaints)."""
    counts, complaints = {}, []
    section = function = ''
    command = ['objdump', '--disassemble', '--no-show-raw-insn', '--wide', str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            words = line.rstrip().split('\t')
            if len(words) < 2:
                header = SECTION.match(line)
                if header:
                    section = header[1]
                else:
                    header = FUNCTION.match(line)
                    function = header[1] if header else function
                continue
            mnemonic, _, operands = words[1].partition(' ')
            if VECTOR.match(mnemonic):
                counts[section] = counts.get(section, 0) + 1
            if excess(section, mnemonic, operands):
                complaints.append(f'{section}: {function}: {words[1]}')
    if process.returncode != 0:
        complaints.append(f'objdump {path} ended with status {process.returncode}')
    return counts, complaints


# A function that both files instantiate. The linker keeps that of the first.
PLANTED = '''#include <cstddef>
template <class T> __attribute__((noinline)) void twice(T* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += x[i];
}
void NAME(float* x, std::size_t n) { twice(x, n); }
'''


def planted(folder, compiler):
    """Returns a library whose baseline got a function that was compiled with AVX-512."""
    objects = []
    for name, options in (('wide', ['-march=x86-64-v4']), ('plain', [])):
        source = folder / f'{name}.cpp'
        source.write_text(PLANTED.replace('NAME', name), encoding='utf-8')
        objects.append(source.with_suffix('.o'))
        must([*compiler, '-O3', '-fPIC', *options, '-c', source, '-o', objects[-1]])
    must([*compiler, '-shared', *objects, '-o', folder / 'planted.so'])
    return folder / 'planted.so'


# Kernel sources that variants.py must refuse, with a part of its message.
REFUSED = {
    'static initialisation': """
        #include <cstdlib>
        int first = std::rand();""",
    'the inline variable counter': """
        inline int counter = 0;
        int next() { return ++counter; }""",
    'the inline variable only()::it': """
        struct It { int x = 1; };
        inline It& only() { static It it; return it; }
        int next() { return ++only().x; }""",
    'the variable sizes of a kernel source is used outside': """
        extern const int sizes[2];
        const int sizes[2] = {1, 2};""",
    'is used outside, but not compiled for every': """
        #if defined(__AVX512F__)
        int user_calls() { return 1; }
        #endif""",
}
USER = """
extern const int sizes[2];
int user_calls();
int use(int i) { return sizes[i] + user_calls(); }"""


def refusal(folder, compiler, text):
    """Returns what variants.py says about a kernel source, or '' if it accepts it."""
    script = ROOT / 'tensor/cpu/variants/variants.py'
    user = compiled(folder, 'user', compiler, USER)
    words = [sys.executable, script, 'table', folder / 'table.s', user, '--']
    for isa in ('v3', 'v4'):
        made = compiled(folder, isa, [*compiler, f'-march=x86-64-{isa}'], textwrap.dedent(text))
        done = run([sys.executable, script, 'merge', isa, made, folder / f'{isa}_merged.o'])
        if done.returncode != 0:
            return done.stdout
        words += ['kernels', isa, folder / f'{isa}_merged.o']
    done = run(words)
    return done.stdout if done.returncode != 0 else ''


def compiled(folder, name, compiler, text):
    source = folder / f'{name}.cpp'
    source.write_text(text, encoding='utf-8')
    made = source.with_suffix('.o')
    must([*compiler, '-std=c++20', '-O2', '-fPIC', '-c', source, '-o', made])
    return made


def included(path, seen):
    """Adds the file and all files of the repository that it includes."""
    if path not in seen:
        seen.add(path)
        for name in re.findall(r'^\s*#\s*include "(.*)"', path.read_text('utf-8'), re.MULTILINE):
            if (path.parent / name).exists():
                included((path.parent / name).resolve(), seen)
    return seen


def complaints_about_sources(build):
    """Yields the kernel sources that see code for AVX512-BF16 and are not compiled with it."""
    for entry in json.loads((build / 'compile_commands.json').read_text('utf-8')):
        source = (Path(entry['directory']) / entry['file']).resolve()
        if BUILT_WITHOUT_BF16.search(entry['output']) and source.suffix == '.cpp':
            for path in sorted(included(source, set())):
                if '__AVX512BF16__' in path.read_text('utf-8'):
                    yield (f'{source.relative_to(ROOT)} includes {path.relative_to(ROOT)}, which '
                           'uses __AVX512BF16__; add its name to the group bf16 '
                           '(tensor/cpu/variants/variants.py)')


def complaints_about(path):
    counts, complaints = examine(path)
    numbers = ', '.join(f'{number} in {name}' for name, number in counts.items())
    print(f'{path}: AVX instructions: {numbers}')
    yield from complaints[:20]
    for section in ('.mezzo_v3', '.mezzo_v4', '.mezzo_bf16'):
        if not counts.get(section):
            yield f'{path} has no kernels in {section}'


def main(build, *words):
    files, compiler = words[:words.index('--')], words[words.index('--') + 1:]
    failures = list(complaints_about_sources(Path(build)))
    for path in files:
        failures += complaints_about(path)
    with tempfile.TemporaryDirectory() as folder:
        if not any('twice' in line for line in examine(planted(Path(folder), compiler))[1]):
            failures.append('a function compiled with AVX-512 in the baseline was not found')
        for part, text in REFUSED.items():
            said = refusal(Path(folder), compiler, text)
            if part not in said:
                failures.append(f'variants.py said {said!r} about{text}\nexpected {part!r}')
    verdict(len(files) + 2 + len(REFUSED) if not failures else 0, failures)


main(*sys.argv[1:])
