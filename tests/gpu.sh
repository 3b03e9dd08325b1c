#!/usr/bin/env bash
# Runs every test and the benchmark on this machine's GPU, from a build directory that was made here or carried here: it needs neither Meson nor
# a compiler, only the driver and the CUDA libraries. Ends with status 77 where there is no GPU.
#   tests/gpu.sh [--build DIR] [--libraries DIR[:DIR...]] [--results DIR] [--quick]
#     --build      the build directory (build-cuda)
#     --libraries  folders of libcublasLt and libcudnn; without it those of the system, else those of Python's nvidia-* packages
#     --results    where to write the report and the benchmark's JSON (gpu-results)
#     --quick      no compute-sanitizer, which takes the longest
# A build to carry: meson setup build-cuda -Dtests=enabled -Dcuda=enabled -Dgpu_arch=90 -Dcpu_arch=x86-64-v3
# What is carried, stripped if it is to be small: build-cuda/libmezzo.so*, build-cuda/tests/test_*, build-cuda/tests/gpu/libcuda.so.1 (which
# test_dnn takes for the driver), build-cuda/samples/bench, tests/gpu.sh, tests/golden/*.safetensors, tests/samples/curves.txt; none of the folders named *.p.
set -uo pipefail

build=build-cuda libraries='' results=gpu-results quick=no
while [ $# -gt 0 ]; do
  case $1 in
    --build | --libraries | --results)
      [ $# -ge 2 ] || { echo "gpu.sh: $1 needs a folder" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    --quick) quick=yes; shift ;;
    *) echo "gpu.sh: unknown option $1; known: --build DIR, --libraries DIRS, --results DIR, --quick" >&2; exit 2 ;;
  esac
done
[ -x "$build/tests/test_gpu" ] || { echo "gpu.sh: $build/tests/test_gpu is not there; build with -Dtests=enabled -Dcuda=enabled" >&2; exit 2; }

nvidia-smi -L >/dev/null 2>&1 || { echo "gpu.sh: skipped, this machine has no NVIDIA GPU or no driver"; exit 77; }

# wheel_folders: the library folders of Python's nvidia-* packages.
wheel_folders() {
  python3 - <<'PYTHON' 2>/dev/null
import glob, os, site
places = site.getsitepackages() + [site.getusersitepackages()]
print(':'.join(sorted({os.path.dirname(f) for p in places for f in glob.glob(p + '/nvidia/*/lib/*.so*')})))
PYTHON
}
loadable() { ldconfig -p 2>/dev/null | grep -q "libcudnn.so.9" && ldconfig -p | grep -q "libcublasLt.so"; }
[ -n "$libraries" ] || loadable || libraries=$(wheel_folders)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

MEZZO_TESTS=$(cd "$(dirname "$0")" && pwd)  # where the tests find what they compare with
export MEZZO_TESTS
for file in golden/layers.safetensors samples/curves.txt; do
  [ -f "$MEZZO_TESTS/$file" ] || { echo "gpu.sh: $MEZZO_TESTS/$file is not there; carry tests/golden/ and tests/samples/curves.txt too" >&2; exit 2; }
done

mkdir -p "$results" || exit 2
report=$results/report.txt
passed=0 failed=0
say() { printf '%s\n' "$*" | tee -a "$report"; }
: >"$report"

# run NAME COMMAND...: one line in the report; what the command printed goes into a file of its own.
run() {
  local name=$1 status tally start=$SECONDS
  shift
  "$@" >"$results/$name.log" 2>&1
  status=$?
  tally=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$results/$name.log" | tail -n 1)
  if [ $status -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  say "$name: status $status, ${tally:-no tally}, $((SECONDS - start)) s"
}

say "date: $(date -u +%Y-%m-%dT%H:%MZ)"
say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader)"
described=$("$build/tests/test_gpu" '[describe]' 2>&1)
if ! device=$(grep '^device: ' <<<"$described"); then
  say "gpu.sh: this build cannot use the GPU: $("$build/samples/bench" --device cuda --nets mlp --quiet 2>&1 >/dev/null | tail -n 1)"
  exit 1
fi
say "$device"

run gpu "$build/tests/test_gpu"
export MEZZO_TEST_DEVICE=cuda  # which cases run there: device_cases of meson.build
run amp_on_cuda "$build/tests/test_amp" '[casting],[deferred],[levels],[masters],[overflow],[product],[scaler]'
run ops_on_cuda "$build/tests/test_ops" '~[guards]'
run samples_on_cuda "$build/tests/test_samples" '[curves]'
unset MEZZO_TEST_DEVICE
for program in "$build"/tests/test_*; do
  name=${program##*/test_}
  case $name in gpu | *_emulated | *.p) continue ;; esac
  [ -x "$program" ] && [ -f "$program" ] && run "$name" "$program"
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ $quick = no ] && [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck initcheck synccheck; do
    run "sanitizer_$tool" "$sanitizer" --tool $tool --error-exitcode 1 "$build/tests/test_gpu"
  done
else
  say "compute-sanitizer: not run"
fi

run bench_micro "$build/samples/bench" --micro --device cuda --size full
run bench "$build/samples/bench" --device cuda --size full --json "$results/bench.json"
cat "$results/bench_micro.log" "$results/bench.log"
say "$passed passed, $failed failed"
[ $failed -eq 0 ]
