#!/usr/bin/env bash
# Fuzzes the file readers with libFuzzer under AddressSanitizer and UBSan, built in build-fuzz/. The
# last line is "N passed, N failed", counting targets.
#   tests/fuzz.sh SECONDS [TARGET...]   seconds per target; without names all of tests/fuzz/
# Seeds are in tests/fuzz/corpus/. Faulty inputs are stored in build-fuzz/found/, new corpus entries
# in build-fuzz/corpus/.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../samples/setup.sh"

seconds=${1:-}
case $seconds in '' | *[!0-9]*) say "usage: tests/fuzz.sh SECONDS [TARGET...]"; exit 2 ;; esac
shift
targets=("$@")
[ $# -gt 0 ] || for file in tests/fuzz/*.cpp; do targets+=("$(basename "$file" .cpp)"); done

need_for_build clang
options=(-Dfuzz=enabled -Dtests=disabled -Dsamples=disabled -Db_lundef=false)
CXX=clang++ configure build-fuzz "${options[@]}" || exit
build build-fuzz "${targets[@]/#/tests/fuzz/fuzz_}" || { echo "0 passed, 1 failed"; exit 1; }

passed=0 failed=0
for target in "${targets[@]}"; do
  learned=build-fuzz/corpus/$target log=build-fuzz/$target.log
  mkdir -p "$learned" build-fuzz/found
  if build-fuzz/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -max_len=16384 \
    -rss_limit_mb=1024 -timeout=10 -artifact_prefix=build-fuzz/found/"$target"- \
    "$learned" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "$target: $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log") executions"
  else
    failed=$((failed + 1))
    echo "$target: found a fault; the end of $log:"
    tail -n 60 "$log"
  fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
