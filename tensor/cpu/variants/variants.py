"""Links kernels that are compiled several times, once per instruction set ("ISA").

The linker keeps one copy of an inline function. If that copy was compiled with AVX-512, a CPU
without AVX-512 crashes where the baseline calls it. So the objects of an ISA are linked to one
object whose symbols are local. Only its entry points, the functions that other code calls, stay
global; their names get the ISA as a suffix. The plain name of an entry point is a jump through a
table. The first jump calls mezzo_choose_kernels (tensor/device/cpu_isa.cpp), which fills the table.

A "group" is a list of sources that is compiled for the same ISAs. An entry point of a group without
a variant for an ISA uses that of the next lower one.

Both builds, meson.build beside this file and the CMakeLists.txt at the top, ask it for the groups.

Usage: variants.py groups SOURCE...
           Prints a line for each group: its name, its ISAs with commas between them, its sources.
       variants.py flags ISA
           Prints the compiler's flags for an ISA.
       variants.py merge ISA ARCHIVE OBJECT
           Links the archive to an object whose code is in the section .mezzo_ISA.
       variants.py table TABLE OUTSIDE... -- GROUP ISA OBJECT [GROUP ISA OBJECT]...
           Writes the table of merged objects, in assembler, and GROUP.entries beside it. OUTSIDE:
           archives of code that calls kernels.
       variants.py close ISA ENTRIES MERGED OBJECT
           Makes the symbols of a merged object local, except the entry points.
"""
import re
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

# The enumerators of CpuIsa, in order, and the compiler's flags for them.
ISAS = {
    'v3': '-march=x86-64-v3',
    'v4': '-march=x86-64-v4 -mprefer-vector-width=512',
    'bf16': '-march=x86-64-v4 -mprefer-vector-width=512 -mavx512bf16',
}
# Group -> the ISAs that make it faster, and the beginnings of its sources' names.
GROUPS = {
    # Only these may use AVX512-BF16.
    'bf16': (('v3', 'v4', 'bf16'), ('attention', 'conv', 'gemm', 'linear_chain', 'matmul_dot',
                                    'product', 'recurrent')),
    'elementwise': (('v3', 'v4'), ('elementwise', )),
    # As fast with AVX2 as with AVX-512, or f64, which is for references.
    'narrow': (('v3', ), ('arg_reduce', 'classes', 'copy', 'cross.', 'ctc_loss', 'embedding',
                          'exponents', 'gather', 'grid_sample', 'index', 'interpolate', 'join',
                          'linalg', 'overwrite', 'place', 'pool_avg', 'reduce_count',
                          'running_extreme', 'scan', 'sort', 'statistics_', 'triangle', 'unfold',
                          'updates_f64')),
    'other': (('v3', 'v4'), ('', )),  # the rest
}

# mezzo::cpu_kernels::elementwise<> and elementwise_derivative<>
KERNEL_TEMPLATES = ('_ZN5mezzo11cpu_kernels11elementwiseI',
                    '_ZN5mezzo11cpu_kernels22elementwise_derivativeI')

Symbol = namedtuple('Symbol', 'name kind binding visibility section')

# Writable data of inline functions that may exist once per variant.
MAY_BE_DOUBLE = (
    # the address of the personality routine, constant
    r'DW\.ref\.__gxx_personality_v0$',
    # a buffer without content between calls; a process runs one variant
    r'_Z(GV)?ZN5mezzo5optim6blocks7Scratch4hereEvE7scratch$',
    # the sizes of the caches; all variants find the same
    r'_Z(GV)?ZN5Eigen8internal20manage_caching_sizes',
)
MAY_BE_DOUBLE = re.compile('|'.join(MAY_BE_DOUBLE))


def fail(text):
    sys.exit(f'variants.py: {text}')


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        fail(f'{" ".join(map(str, command))}\n{done.stdout}{done.stderr}')
    return done.stdout


def sections_of(path):
    """Returns {number: (name, size, flags)} of an object."""
    found = {}
    for line in run('readelf', '-SW', path).splitlines():
        match = re.match(r'\s*\[\s*(\d+)\] (\S+)\s+\S+ +\S+ \S+ (\S+) \S+ +([A-Za-z]*) ', line)
        if match:
            found[match[1]] = (match[2], int(match[3], 16), match[4])
    return found


def symbols_of(path):
    """Returns the symbols of an object or archive that are not local."""
    found = []
    for line in run('readelf', '-sW', path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].endswith(':') and words[4] in ('GLOBAL', 'WEAK', 'UNIQUE'):
            found.append(Symbol(words[7], words[3], words[4], words[5], words[-2]))
    return found


def write_if_changed(path, text):
    """Leaves an unchanged file alone, so that ninja does not redo what depends on it."""
    path = Path(path)
    if not path.exists() or path.read_text(encoding='utf-8') != text:
        path.write_text(text, encoding='utf-8')


# ---- groups --------------------------------------------------------------------------------------


def print_groups(*sources):
    members = {group: [] for group in GROUPS}
    for source in sources:
        name = Path(source).name
        members[next(group for group, (_, beginnings) in GROUPS.items()
                     if name.startswith(beginnings))].append(source)
    for group, (isas, _) in GROUPS.items():
        print(group, ','.join(isas), *members[group])


def print_flags(isa):
    print(ISAS[isa])


# ---- merge --------------------------------------------------------------------------------------


def merge(isa, archive, made):
    # --force-group-allocation turns inline functions, which the linker could replace by copies of
    # other objects, into ordinary ones.
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / 'script'
        # .llvm_addrsig numbers the symbols of an object of clang, which are others afterwards
        script.write_text(
            f'SECTIONS {{ .mezzo_{isa} 0 : {{ *(.text .text.*) }}\n'
            '/DISCARD/ : { *(.llvm_addrsig) } }\n', 'utf-8')
        run('ld', '-r', '--force-group-allocation', '-T', script, '-o', made, '--whole-archive',
            archive)
    refuse_startup_code(archive, sections_of(made))
    refuse_double_data(archive, sections_of(made), symbols_of(made))


def refuse_startup_code(archive, sections):
    """A CPU without the instruction set would run it when the library is loaded."""
    for name, size, _ in sections.values():
        if size and re.match(r'\.(init|fini|preinit|ctors|dtors)(_array)?(\.|$)', name):
            fail(f'{archive}: a kernel source has static initialisation ({name}); '
                 'make the variables constexpr, constinit or local')


def refuse_double_data(archive, sections, symbols):
    """Refuses inline variables that are written, also those of inline functions: each variant would
    have its own."""
    for symbol in symbols:
        name, _, flags = sections.get(symbol.section, ('', 0, ''))
        if (symbol.binding != 'GLOBAL' and 'W' in flags and
                not name.startswith('.data.rel.ro') and not MAY_BE_DOUBLE.match(symbol.name)):
            fail(f'{archive}: a kernel source uses the inline variable {plain(symbol.name)}, of '
                 'which each variant would have a copy; compile the source for the baseline '
                 '(plain_kernel_sources), or make the variable an extern one')


def plain(name):
    return run('c++filt', name).strip()


# ---- table --------------------------------------------------------------------------------------


class Group:
    """The objects of a group of sources: isa -> {name: symbol}, and what they lack."""

    def __init__(self):
        self.defined = {}
        self.missing = set()

    def add(self, isa, path):
        symbols = symbols_of(path)
        self.defined[isa] = {symbol.name: symbol for symbol in symbols if symbol.section != 'UND'}
        self.missing |= {symbol.name for symbol in symbols if symbol.section == 'UND'}

    def all(self):
        """Returns {name: symbol} of the symbols of all instruction sets."""
        return {name: symbol for part in self.defined.values() for name, symbol in part.items()}

    def entries(self, wanted):
        """Returns {name: symbol}: what others want, and all functions that are not inline.

        The emulated device (tests/emulator), which is not among the archives, uses some of them.
        """
        first, *others = self.defined.values()
        in_all = set(first).intersection(*others)
        found = {}
        for name, symbol in sorted(self.all().items()):
            if name in wanted and symbol.kind != 'FUNC':
                fail(f'the variable {plain(name)} of a kernel source is used outside; expected '
                     'only functions')
            exported = symbol.binding == 'GLOBAL' and symbol.visibility == 'DEFAULT'
            if (name in wanted or exported) and name not in in_all:
                fail(f'{plain(name)} is used outside, but not compiled for every instruction set')
            if symbol.kind == 'FUNC' and name in in_all and (name in wanted or
                                                             symbol.binding == 'GLOBAL'):
                found[name] = symbol
        return found


TABLE_HEAD = '''# Made by variants.py: the functions of kernels that other code calls.
  .text
  .p2align 4
  .type mezzo_choose, @function
# Every jump below comes here until the kernels are chosen, with the address of its slot in r11.
# Keeps all registers that can hold arguments.
mezzo_choose:
  .cfi_startproc
'''
KEPT = ('rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9', 'rax', 'r10', 'r11')


def chooser(table):
    """Returns the code that all slots lead to at first."""
    lines = []
    for register in KEPT:
        lines += [f'push %{register}', '.cfi_adjust_cfa_offset 8']
    # 9 registers and the return address: aligned to 16 bytes
    lines += ['sub $128, %rsp', '.cfi_adjust_cfa_offset 128']
    lines += [f'movaps %xmm{i}, {16 * i}(%rsp)' for i in range(8)]
    lines += [f'lea {table}(%rip), %rdi', 'call mezzo_choose_kernels@PLT']
    lines += [f'movaps {16 * i}(%rsp), %xmm{i}' for i in range(8)]
    lines += ['add $128, %rsp', '.cfi_adjust_cfa_offset -128']
    for register in reversed(KEPT):
        lines += [f'pop %{register}', '.cfi_adjust_cfa_offset -8']
    lines += ['jmp *(%r11)', '.cfi_endproc', '.size mezzo_choose, . - mezzo_choose']
    return TABLE_HEAD + ''.join(f'  {line}\n' for line in lines)


def entry_code(number, symbol):
    binding = 'weak' if symbol.binding == 'WEAK' else 'globl'
    lines = [f'  .{binding} {symbol.name}']
    if symbol.visibility != 'DEFAULT':
        lines.append(f'  .{symbol.visibility.lower()} {symbol.name}')
    return '\n'.join(lines + [
        f'  .type {symbol.name}, @function', f'{symbol.name}:', '  .cfi_startproc',
        f'  jmp *mezzo_slots+{8 * number}(%rip)', f'.Lfirst{number}:',
        f'  lea mezzo_slots+{8 * number}(%rip), %r11', '  jmp mezzo_choose', '  .cfi_endproc',
        f'  .size {symbol.name}, . - {symbol.name}\n'
    ])


def table_text(table, entries):
    """`entries`: list of (symbol, ISAs for which it is compiled)."""
    text = chooser(table)
    text += ''.join(entry_code(i, symbol) for i, (symbol, _) in enumerate(entries))
    text += '  .data\n  .p2align 3\nmezzo_slots:\n'
    text += ''.join(f'  .quad .Lfirst{i}\n' for i in range(len(entries)))
    text += '  .section .data.rel.ro,"aw"\n  .p2align 3\n'
    for number, isa in enumerate(ISAS):
        text += f'mezzo_{isa}:\n'
        for symbol, isas in entries:
            best = [name for name in list(ISAS)[:number + 1] if name in isas][-1]
            text += f'  .quad {symbol.name}.{best}\n'
    # struct MezzoKernelTable of tensor/device/cpu_isa.cpp
    text += f'  .globl {table}\n  .hidden {table}\n{table}:\n  .quad {len(entries)}, mezzo_slots'
    text += ''.join(f', mezzo_{isa}' for isa in ISAS)
    return text + '\n  .section .note.GNU-stack,"",@progbits\n'


def refuse_copies(groups, present):
    """Refuses op kernels that code outside kernel sources defines too, because it sees their
    templates: callers would get that copy, which is compiled for the baseline."""
    copies = sorted({name for group in groups for name in group.all() if name in present
                     and name.startswith(KERNEL_TEMPLATES)})
    if copies:
        fail(f'defined by a kernel source and elsewhere: {plain(copies[0])} and '
             f'{len(copies) - 1} more; code outside kernel sources must not include '
             'tensor/cpu/elementwise_kernel.h')


def make_table(made, *words):
    border = words.index('--')
    outside, variants = words[:border], words[border + 1:]
    groups = {}
    for group, isa, path in zip(*[iter(variants)] * 3):
        groups.setdefault(group, Group()).add(isa, path)
    outside_symbols = [symbol for path in outside for symbol in symbols_of(path)]
    present = {symbol.name for symbol in outside_symbols if symbol.section != 'UND'}
    wanted = {symbol.name for symbol in outside_symbols if symbol.section == 'UND'} - present
    refuse_copies(groups.values(), present)
    entries = []
    for name, group in groups.items():
        others = [other.missing for other in groups.values() if other is not group]
        found = group.entries((wanted | set().union(*others)) - present)
        twice = [plain(symbol) for symbol in found if symbol in present]
        if twice:
            fail(f'defined by a kernel source and elsewhere: {", ".join(twice)}')
        entries += [(found[symbol], tuple(group.defined)) for symbol in sorted(found)]
        write_if_changed(Path(made).parent / f'{name}.entries', ''.join(
            f'{symbol}\n' for symbol in sorted(found)))
    write_if_changed(made, table_text(f'mezzo_{Path(made).stem}', entries))


# ---- close --------------------------------------------------------------------------------------


def close(isa, entries, merged, made):
    names = Path(entries).read_text(encoding='utf-8').split()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / 'kept'
        kept.write_text(''.join(f'{name}.{isa}\n' for name in names), encoding='utf-8')
        renamed = Path(folder) / 'renamed'
        renamed.write_text(''.join(f'{name} {name}.{isa}\n' for name in names), encoding='utf-8')
        run('objcopy', f'--redefine-syms={renamed}', f'--keep-global-symbols={kept}', merged, made)
    shared = [symbol.name for symbol in symbols_of(made)
              if symbol.section != 'UND' and not symbol.name.endswith(f'.{isa}')]
    if shared:
        fail(f'{made}: not local: {", ".join(map(plain, shared))}')


if __name__ == '__main__':
    {'groups': print_groups, 'flags': print_flags, 'merge': merge, 'table': make_table,
     'close': close}[sys.argv[1]](*sys.argv[2:])
