#!/usr/bin/env bash
# Reports the size of the rooms and the cost of the build against the budgets. Not a test, since
# speed depends on the machine. Builds from scratch in build-budgets/ without ccache.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../samples/setup.sh"
need_for_build python3
find_python

"$PYTHON" tests/room_sizes.py

build=build-budgets
compiler=${CXX:-g++}

row() { printf '%-48s %s\n' "$1" "$2"; }

# measure NAME COMMAND...: prints the CPU seconds and the peak memory of the command
measure() {
  local name=$1 cost
  shift
  cost=$("$PYTHON" - "$@" <<'PYTHON'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f'{used.ru_utime + used.ru_stime:.2f} s, {used.ru_maxrss / 1024:.0f} MB')
PYTHON
  )
  row "$name" "$cost"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo '#include <mezzo.h>' >"$scratch/empty.cpp"
for budget in "$compiler" clang++; do
  command -v "$budget" >/dev/null || continue
  measure "#include <mezzo.h>, $budget -O2 (1.4 s, 225 MB)" \
    "$budget" -std=c++20 -O2 -I. -c "$scratch/empty.cpp" -o "$scratch/empty.o"
done

rm -rf $build
CCACHE_DISABLE=1 "$MESON" setup $build -Dtests=disabled >"$scratch/setup.log" ||
  { cat "$scratch/setup.log"; exit 1; }
SECONDS=0
CCACHE_DISABLE=1 ninja -C $build >"$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }
row "clean build, no tests, $(nproc) cores, wall (300 s)" "$SECONDS s"

cp $build/libmezzo.so "$scratch/stripped.so"
strip "$scratch/stripped.so"
row "stripped shared library (14.5 MB)" "$(($(stat -c %s "$scratch/stripped.so") / 1000)) kB"
echo "slowest files, wall while building (60 s):"
awk -F'\t' 'NR > 1 && $4 ~ /\.o$/ { printf "%7.1f s  %s\n", ($2 - $1) / 1000, $4 }' \
  $build/.ninja_log | sort -rn | head -n 8
