#!/usr/bin/env bash
# Builds and runs the tests that need no GPU. The last line is "N passed, N failed"; the line before
# reports the times.
#   tests/run.sh              required for every change: all CPU tests, quick checks
#   tests/run.sh --gpu        required for changes to GPU code: also its kernels on an emulated
#                             device
#   tests/run.sh --all        as in CI: also warnings as errors, kernels compiled by nvcc if
#                             installed, the emulated device under AddressSanitizer and UBSan,
#                             kernels for all CPUs instead of this one,
#                             slow checks (suite "strict" of tests/meson.build), and what CI leaves
#                             out: all files by a second compiler, each header alone, training on
#                             four ranks (suite "repeated")
#   tests/run.sh --sanitize   all tests under AddressSanitizer and UBSan, built in build-asan/
#   tests/run.sh [OPTION] NAME...   only these tests (see meson test -C build --list)
# CI=true means --all without the suite "repeated" and turns skipped checks into failures.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../samples/setup.sh"

# An exit before the tally counts as one failure.
tallied=no
end() { [ $tallied = yes ] || { echo "0 passed, 1 failed"; exit 1; }; }
trap end EXIT
trap 'say "Interrupted; run this again to continue."; exit 130' INT TERM

all=${CI:-false} sanitize=false emulation=disabled
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=true ;;
    --gpu) emulation=enabled ;;
    --sanitize) sanitize=true ;;
    --*)
      say "run.sh: unknown option; got $1, expected --all, --gpu, --sanitize or names of tests"
      tallied=yes
      exit 2 ;;
    *) break ;;
  esac
  shift
done

need_for_build catch2 python3
if [ "$all" = true ]; then
  need chromium clang clang-format-19 cmake doxygen git libopenmpi-dev openmpi-bin qemu-user
fi
find_python

build=build
options=(-Dtests=enabled -Dgpu_emulation=$emulation)
selection=(--no-suite strict --no-suite repeated)
targets=all
if [ $sanitize = true ]; then
  build=build-asan
  options=(-Dtests=enabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
    -Dgpu_emulation=enabled)
  selection=(--suite cpu --suite gpu --timeout-multiplier 5)
elif [ "$all" = true ]; then
  # The kernels are only compiled, so one architecture is enough.
  cuda=$({ command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null &&
    echo enabled || echo auto)
  options=(-Dtests=enabled -Dwerror=true -Dmpi=enabled -Dgpu_emulation=sanitized -Dcuda=$cuda
    -Dgpu_arch=90 -Dgpu_optimised=measured -Dcpu_arch=portable -Ddebug=false)
  selection=()
  [ "${CI:-}" = true ] && selection=(--no-suite repeated)
fi

start=$SECONDS
configure $build "${options[@]}" || exit
# The check sass_budget needs a disassembler, which is not part of every toolkit. Without one, and
# without a package index, it is skipped.
if [ "$all" = true ] && [ "${cuda:-}" = enabled ] && [ ! -d $build/disassembler ]; then
  "$PYTHON" -m pip install --quiet --no-deps --target $build/disassembler \
    nvidia-cuda-nvdisasm >&2 || say "nvdisasm could not be installed: sass_budget is skipped"
fi
log=$build/meson-logs/testlog.json
rm -f "$log"
if [ $# -gt 0 ]; then
  chosen=$("$PYTHON" tests/tests_named.py $build "$@") || exit
  { read -r -a selection; read -r targets; } <<<"$chosen"
fi
# shellcheck disable=SC2086
[ $# -gt 0 ] && [ -z "$targets" ] || build $build $targets || exit
built=$SECONDS
"$MESON" test -C $build --no-rebuild --print-errorlogs "${selection[@]}"
[ -f "$log" ] || { disk_is_full; exit 1; }
tallied=yes
"$PYTHON" tests/tally.py --build-seconds $((built - start)) "$log"
