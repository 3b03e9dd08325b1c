#!/usr/bin/env bash
# Builds and runs every test that needs no GPU; the last line is "N passed, N failed".
#   tests/run.sh                       all tests and checks, then those of the emulated GPU, built in build-emulated/; there the kernels
#                                      and the emulator are under AddressSanitizer and UBSan
#   tests/run.sh --sanitize            all tests with everything under them, built in build-asan/
#   tests/run.sh [--sanitize] NAME...  the named tests alone ("meson test -C build --list" names them)
# With CI=true warnings are errors, a check that cannot run has failed, and the argument fuzzer
#   runs once more, with the ops under UBSan.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../samples/setup.sh"

# Whatever ends the script before there is a tally is one failure.
tallied=no
trap '[ $tallied = yes ] || { echo "0 passed, 1 failed"; exit 1; }' EXIT

build=build
options=(-Dtests=enabled)
selection=()
cuda_options=()
[ "${CI:-}" = true ] && options+=(-Dwerror=true)
if [ "${1:-}" = --sanitize ]; then
  shift
  build=build-asan
  options=(-Dtests=enabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dgpu_emulation=enabled)
  selection=(--suite cpu --suite gpu --timeout-multiplier 5)
fi

need_for_build catch2 clang clang-format python3
find_python
# A change lands only if the CUDA kernels compile; without a GPU to run them, for one architecture.
if [ "${CI:-}" = true ] && [ $build = build ] && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then
  cuda_options=(-Dcuda=enabled -Dgpu_arch=90)
fi
# Both builds compile most files in the same way; told to forget in which directory, ccache compiles them once.
export CCACHE_NOHASHDIR=1

# build_and_test DIR TARGETS... -- ARGUMENTS...: builds the targets (all without any) and runs meson test with the arguments
logs=()
build_and_test() {
  local dir=$1 targets=()
  shift
  while [ "$1" != -- ]; do targets+=("$1"); shift; done
  shift
  ninja -C "$dir" "${targets[@]}" || exit
  local name=testlog-${#logs[@]}
  rm -f "$dir/meson-logs/$name.json"
  logs+=("$dir/meson-logs/$name.json")
  "$MESON" test -C "$dir" --no-rebuild --print-errorlogs --logbase "$name" "$@"
}

configure $build "${options[@]}" "${cuda_options[@]}" || exit
build_and_test $build -- "${selection[@]}" "$@"
if [ $build = build ] && [ $# -eq 0 ]; then
  configure build-emulated "${options[@]}" -Db_lundef=false -Dgpu_emulation=sanitized || exit
  build_and_test build-emulated tests/test_{amp,gpu,ops,samples} samples/bench -- --suite gpu
  [ "${CI:-}" = true ] && build_and_test $build tests/fuzz_sanitized -- --suite sanitized
fi
tallied=yes
"$PYTHON" tests/tally.py "${logs[@]}"
