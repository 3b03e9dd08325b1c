#!/usr/bin/env bash
# Builds and runs every test that needs no GPU; the last line is "N passed, N failed".
#   tests/run.sh                       all tests and checks
#   tests/run.sh --sanitize            all tests under AddressSanitizer and UBSan, built in build-asan/
#   tests/run.sh [--sanitize] NAME...  the named tests alone ("meson test -C build --list" names them)
# With CI=true warnings are errors and a check that cannot run has failed.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../samples/setup.sh"

# Whatever ends the script before there is a tally is one failure.
tallied=no
trap '[ $tallied = yes ] || { echo "0 passed, 1 failed"; exit 1; }' EXIT

build=build
options=(-Dtests=enabled)
selection=()
[ "${CI:-}" = true ] && options+=(-Dwerror=true)
if [ "${1:-}" = --sanitize ]; then
  shift
  build=build-asan
  options=(-Dtests=enabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1)
  selection=(--suite cpu --timeout-multiplier 5)
fi

need_for_build catch2 clang clang-format python3
find_python
configure $build "${options[@]}" || exit
ninja -C $build || exit
rm -f $build/meson-logs/testlog.json
"$MESON" test -C $build --no-rebuild --print-errorlogs "${selection[@]}" "$@"
tallied=yes
"$PYTHON" tests/tally.py $build/meson-logs/testlog.json
