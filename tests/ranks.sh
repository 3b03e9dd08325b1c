#!/usr/bin/env bash
# Runs a program in several processes that work together.
#   tests/ranks.sh N PROGRAM [ARGUMENTS]
# Prints what rank 0 printed last; if a process fails, what each of them printed. Exit status: that
# of mpirun; 77 where there is no mpirun, and 1 with CI=true.
set -uo pipefail

if [ $# -lt 2 ] || ! [ "$1" -gt 0 ] 2>/dev/null; then
  echo "ranks.sh: usage: tests/ranks.sh N PROGRAM [ARGUMENTS]" >&2
  exit 2
fi
ranks=$1
shift
if ! command -v mpirun >/dev/null; then
  echo "ranks.sh: there is no mpirun (Debian: apt-get install libopenmpi-dev openmpi-bin)"
  [ "${CI:-}" = true ] && exit 1
  exit 77
fi

options=()
case $(mpirun --version 2>&1) in
  *"Open MPI"*)
    # more processes than cores, and as root, as in a container
    options=(--oversubscribe --bind-to none)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ;;
esac
# Open MPI loses memory of its own at exit
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export MEZZO_NUM_THREADS=${MEZZO_NUM_THREADS:-1} MEZZO_COMM_TIMEOUT_S=${MEZZO_COMM_TIMEOUT_S:-120}

output=$(mktemp -d) || exit
trap 'rm -rf "$output"' EXIT
mpirun "${options[@]}" -np "$ranks" sh -c '
  output=$1
  shift
  exec "$@" >"$output/${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" 2>&1' sh "$output" "$@" \
  >"$output/mpirun" 2>&1
status=$?
if [ $status -eq 0 ]; then
  tail -n 40 "$output/0"
else
  for file in "$output"/*; do
    echo "--- $(basename "$file")"
    tail -n 40 "$file"
  done
fi
exit $status
