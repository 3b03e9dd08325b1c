"""Counts the code of loss scaling: lines without blanks and comments, and types (classes, structs
and enums), in every file of amp, optim and cuda that holds a loss scale, an overflow flag or the
result of a step. Of files that are mostly about something else, only the types of TYPES_OF count.

Not counted, as they hold none of the three: master weights. Nor are the users of a flag or a scale
counted, which get it as an argument: the step of an optimizer (optim/optimizer), the kernels of
lists and updates, the session (amp/session), checkpoints, reports. Of earlier commits not counted
either: the gradients that a scope sets aside and adds again (amp/scaling/scope_gradients), the
counters of updates and their device copy (optim/clock, device_counters, captured_steps). They are
parts of amp/scaling/gradients and optim/step/step_state today, and counted.

Usage: scaling_size.py [COMMIT]   (default: the working tree)
"""
import re
import subprocess
import sys

from check import ROOT

# Names of today and of earlier commits. optim/clock held the results of steps until step_record.
FILES = re.compile(
    r'amp/scaling/(?!master\.|scope_gradients\.).*|amp/session_core\.h'
    r'|amp/diagnose/nonfinite_gradient\..*|amp/checkpoint/iteration\..*'
    r'|optim/(scale_|step_re|nonfinite_location|device_step_state).*|optim/step/(step_|nonfinite).*'
    r'|cuda/kernels/(deferred|scale_call)\.cu')
RESULTS_IN_CLOCK = 'StepRecord {'
# Types of a flag or a result in files that are not counted otherwise.
TYPES_OF = {
    'optim/multi_tensor.h': ('FoundInf', 'CheckFinite'),
    'optim/step/tensor_list.h': ('FoundInf',),
    'optim/optimizer.h': ('StepCondition', 'StepObserver'),
}
TYPE = re.compile(
    r'^\s*(?:template\s*<[^>]*>\s*)?(?:class|struct|enum(?: class)?)\s+(?:MZ_API\s+)?([\w:]+)'
    r'[^;(){]*\{',
    re.MULTILINE)


def git(*words):
    return subprocess.run(['git', *words], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout


def is_commit(name):
    return subprocess.run(['git', 'rev-parse', '--verify', '--quiet', name + '^{commit}'], cwd=ROOT,
                          check=False, capture_output=True).returncode == 0


def files(commit):
    if commit:
        names = git('ls-tree', '-r', '--name-only', commit).splitlines()
    else:
        names = git('ls-files', '--cached', '--others', '--exclude-standard').splitlines()
        names = [name for name in names if (ROOT / name).is_file()]
    return sorted(name for name in set(names) if is_counted(name, commit) and name[-2:] != 'md')


def is_counted(name, commit):
    if name == 'optim/clock.h':
        return RESULTS_IN_CLOCK in text_of(name, commit)
    return name in TYPES_OF or FILES.fullmatch(name)


def text_of(name, commit):
    return git('show', f'{commit}:{name}') if commit else (ROOT / name).read_text()


def code_of(text):
    """Returns the text without comments."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
    return re.sub(r'//[^\n]*', '', text)


def counted_part(name, code):
    """Returns the code of a file that counts: all of it, or the definitions of some types."""
    if name not in TYPES_OF:
        return code
    types = '|'.join(TYPES_OF[name])
    return '\n'.join(re.findall(rf'^(?:class|struct|enum class) (?:MZ_API )?(?:{types})\b[^;{{]*{{'
                                r'(?:[^\n{}]*}|.*?^});', code, re.MULTILINE | re.DOTALL))


def main():
    commit = sys.argv[1] if len(sys.argv) == 2 else None
    if len(sys.argv) > 2 or (commit and not is_commit(commit)):
        sys.exit('usage: scaling_size.py [COMMIT]')
    lines, types = 0, []
    for name in files(commit):
        code = counted_part(name, code_of(text_of(name, commit)))
        count, found = sum(1 for line in code.splitlines() if line.strip()), TYPE.findall(code)
        print(f'{count:5} {name}  {" ".join(found)}')
        lines += count
        types += found
    print(f'{lines} lines, {len(types)} types')


if __name__ == '__main__':
    main()
