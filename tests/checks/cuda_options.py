"""Checks -Dcuda, -Dgpu_root and -Dgpu_arch with a complete, partial, relocated or missing toolkit.

Only configures, with toolkits made of empty files and an nvcc that prints its version.

Usage: cuda_options.py MESON
"""
import os
import re
import sys
import tempfile
from pathlib import Path

from check import ROOT, in_parallel, run, verdict

LIBRARIES = ('libcudart.so.13', 'libcudart_static.a', 'libcublas.so.13', 'libcublasLt.so.13')
CUDNN = ('include/cudnn_graph.h', 'lib/libcudnn.so.9')
NVCC = '''#!/bin/sh
case $1 in
  --version) echo "Cuda compilation tools, release {release}, V{release}.88" ;;
  --dryrun) echo "#\\$ TOP={root}/bin/.." >&2 ;;
  --list-gpu-arch) printf 'compute_%s\\n' 75 80 90 100 88 ;;
esac
'''


def put(path, text='', mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')
    path.chmod(mode)


def toolkit(root, cudnn, release='13.0', libraries='lib'):
    """Creates a toolkit, with cuDNN in the given folder."""
    put(root / 'bin/nvcc', NVCC.format(root=root, release=release), 0o755)
    for name in LIBRARIES:
        put(root / libraries / name)
    put(root / 'include/cuda_runtime.h')
    put(root / 'include/cub/cub.cuh')
    for name in CUDNN:
        put(cudnn / name)
    return root


def make_toolkits(scratch):
    """Creates the toolkits that the cases use."""
    prefix, wheel = scratch / 'prefix', scratch / 'site-packages/nvidia'
    toolkit(prefix, prefix, libraries='lib64')
    toolkit(wheel / 'cu13', wheel / 'cudnn')
    toolkit(scratch / 'old', scratch / 'old', release='11.8')
    partial = toolkit(scratch / 'partial', scratch / 'partial')
    for name in ('lib/libcublasLt.so.13', 'include/cuda_runtime.h'):
        (partial / name).unlink()
    put(scratch / 'silent/bin/nvcc', '#!/bin/sh\nexit 1\n', 0o755)
    put(scratch / 'script/nvcc', f'#!/bin/sh\nexec {prefix}/bin/nvcc "$@"\n', 0o755)
    (scratch / 'link').mkdir()
    (scratch / 'link/nvcc').symlink_to(prefix / 'bin/nvcc')
    put(scratch / 'gpus/nvidia-smi', "#!/bin/sh\nprintf '9.0\\n8.0\\n8.0\\n6.1\\n'\n", 0o755)
    put(scratch / 'new_gpu/nvidia-smi', '#!/bin/sh\necho 15.0\n', 0o755)
    put(scratch / 'no_driver/nvidia-smi',
        "#!/bin/sh\necho 'NVIDIA-SMI has failed because 9.0 drivers did not answer.'\nexit 9\n",
        0o755)


# (options, folders before PATH, status, part of the output, architectures), S = scratch folder.
OFF, BAD_ARCH = [], 'expected auto alone, or numbers from 75 on'
CASES = [
    ('-Dcuda=disabled', '', 0, '', OFF),
    ('-Dcuda=auto -Dgpu_root=S/nowhere', '', 0,
     'CUDA is off, building CPU-only: missing nvcc; looked in S/nowhere/bin/nvcc', OFF),
    ('-Dcuda=enabled -Dgpu_root=S/nowhere', '', 1,
     'missing nvcc; looked in S/nowhere/bin/nvcc; pass -Dgpu_root', OFF),
    ('-Dcuda=enabled -Dgpu_root=S/old', '', 1, 'missing nvcc >= 12.0 (found 11.8.88)', OFF),
    ('-Dcuda=enabled -Dgpu_root=S/partial', '', 1,
     'missing libcublasLt.so.12 or 13, cuda_runtime.h; looked in S/partial, /usr, S/cudnn', OFF),
    ('-Dcuda=auto -Dgpu_root=S/partial', '', 0,
     'CUDA is off, building CPU-only: missing libcublasLt.so.12 or 13, cuda_runtime.h;', OFF),
    ('-Dcuda=enabled -Dgpu_root=S/silent', '', 1,
     'missing an nvcc that prints its version (S/silent/bin/nvcc does not)', OFF),
    ('-Dcuda=enabled -Dgpu_root=S/prefix', '', 0, 'of S/prefix for 80, 90 and PTX of 80',
     ['sm_80', 'sm_90', 'compute_80']),
    ('-Dcuda=enabled', 'S/link', 0, 'of S/prefix for 80, 90', ['sm_80', 'sm_90', 'compute_80']),
    ('-Dcuda=enabled', 'S/script', 0, 'of S/prefix for 80, 90', ['sm_80', 'sm_90', 'compute_80']),
    ('-Dcuda=enabled -Dgpu_root=S/site-packages/nvidia/cu13', '', 0, 'for 80, 90',
     ['sm_80', 'sm_90', 'compute_80']),
    ('-Dcuda=auto -Dgpu_root=S/prefix', '', 0, 'no GPU, building CPU-only', OFF),
    ('-Dcuda=auto -Dgpu_root=S/prefix', 'S/no_driver', 0, 'no GPU, building CPU-only', OFF),
    ('-Dcuda=auto -Dgpu_root=S/prefix', 'S/gpus', 0, 'for 80, 90', ['sm_80', 'sm_90',
                                                                    'compute_80']),
    ('-Dcuda=auto -Dgpu_root=S/prefix', 'S/new_gpu', 0, 'for 80, 90',
     ['sm_80', 'sm_90', 'compute_80']),
    ('-Dcuda=enabled -Dgpu_root=S/prefix -Dgpu_arch=100,90', '', 0, 'for 100, 90 and PTX of 90',
     ['sm_100', 'sm_90', 'compute_90']),
    ('-Dcuda=enabled -Dgpu_root=S/prefix -Dgpu_arch=75,90', '', 0, 'for 75, 90 and PTX of 90',
     ['sm_75', 'sm_90', 'compute_90']),
    ('-Dcuda=enabled -Dgpu_root=S/prefix -Dgpu_arch=75', '', 0, 'for 75 and PTX of 75',
     ['sm_75', 'compute_75']),
    ('-Dcuda=enabled -Dgpu_root=S/prefix -Dgpu_arch=89', '', 1,
     'got 89, expected one that CUDA 13.0.88 can compile for: 75, 80, 90', OFF),
    ('-Dgpu_arch=sm_90', '', 1, f'got "sm_90", {BAD_ARCH}', OFF),
    ('-Dgpu_arch=70', '', 1, f'got "70", {BAD_ARCH}', OFF),
    ('-Dgpu_arch=80,auto', '', 1, f'got "auto", {BAD_ARCH}', OFF),
    ('-Dgpu_arch=', '', 1, f'got "", {BAD_ARCH}', OFF),
]
if Path('/usr/include/cuda_runtime.h').exists():  # a system toolkit completes any other
    CASES = [case for case in CASES if 'S/partial' not in case[0]]
if not any(Path(nvcc).exists() for nvcc in ('/usr/local/cuda/bin/nvcc', '/opt/cuda/bin/nvcc')):
    CASES.append(
        ('-Dcuda=auto', '', 0,
         'no CUDA toolkit, building CPU-only: missing nvcc; looked in nvcc, /usr/local/cuda', OFF))
    CASES.append(
        ('-Dcuda=enabled', '', 1,
         'missing nvcc; looked in nvcc, /usr/local/cuda/bin/nvcc, /opt/cuda/bin/nvcc', OFF))


def without_cuda(folders):
    """Returns PATH without the folders that have an nvcc or an nvidia-smi."""
    return [
        folder for folder in folders.split(':')
        if not any((Path(folder) / name).exists() for name in ('nvcc', 'nvidia-smi'))
    ]


def architectures(build):
    """Returns the architectures that nvcc compiles for."""
    return set(
        re.findall(r'-gencode=\S*code=(\w+)', (build / 'build.ninja').read_text(encoding='utf-8')))


def faults(scratch, build, meson, case):
    """Returns a list of what is wrong with one case."""
    options, first, status, text, wanted = case
    environment = os.environ | {
        'PATH':
        ':'.join(
            filter(None, [first.replace('S/', f'{scratch}/'), *without_cuda(os.environ['PATH'])]))
    }
    environment.pop('CUDA_PATH', None)
    done = run([
        meson, 'setup', build, ROOT, '-Dtests=disabled', '-Dsamples=disabled', '-Dbuildtype=plain',
        *options.replace('S/', f'{scratch}/').split()
    ],
               env=environment)
    text = text.replace('S/', f'{scratch}/')
    warnings = done.stdout.count('WARNING')
    found = []
    if done.returncode != status:
        found.append(f'status {done.returncode}, expected {status}')
    if text not in done.stdout:
        found.append(f'"{text}" is not in the output')
    if warnings != (1 if text.startswith('CUDA is off') else 0):
        found.append(f'{warnings} warnings')
    if done.returncode == 0 and architectures(build) != set(wanted):
        found.append(f'compiles for {architectures(build)}, expected {set(wanted)}')
    if found:
        found.append(done.stdout)
    return found


def wheel_faults(scratch, build):
    """Checks that a build with the layout of Python wheels uses both of their folders."""
    wheel = scratch / 'site-packages/nvidia'
    commands = (build / 'build.ninja').read_text(encoding='utf-8')
    return [
        f'{word} is in no command'
        for word in (f'-isystem{wheel}/cu13/include', f'-isystem{wheel}/cudnn/include',
                     f'-Wl,-rpath,{wheel}/cu13/lib', f'-Wl,-rpath,{wheel}/cudnn/lib')
        if word not in commands
    ]


def main(meson):
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        make_toolkits(scratch)
        numbered = list(enumerate(CASES))
        found = in_parallel(
            lambda item: faults(scratch, scratch / f'build{item[0]}', meson, item[1]), numbered)
        for number, (options, *_) in numbered:
            if 'site-packages' in options:
                found[number] += wheel_faults(scratch, scratch / f'build{number}')
    failures = [
        f'{case[0]} {case[1]}: ' + '\n'.join(lines) for case, lines in zip(CASES, found) if lines
    ]
    verdict(len(CASES) - len(failures), failures)


main(*sys.argv[1:])
