#!/usr/bin/env bash
# Checks the code style with clang-format 19 (other versions format differently); --fix applies it.
#   tests/format.sh [--fix] [FILE...]      without files: the whole tree
#   tests/format.sh --tidy [--since COMMIT] [FILE...]
#       runs clang-tidy instead (see .clang-tidy), with the options of build/; without files: those
#       that differ from COMMIT, or else from the last commit
set -uo pipefail

if [ "${1:-}" = --tidy ]; then
  shift
  exec python3 "$(dirname "${BASH_SOURCE[0]}")/checks/tidy.py" build "$@"
fi

fix=no
[ "${1:-}" = --fix ] && { fix=yes; shift; }
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
  mapfile -t files < <(find mezzo.h amp autograd cuda measure nn optim samples tensor tests \
    -name '*.h' -o -name '*.cpp' -o -name '*.cu')
fi

for file in "${files[@]}"; do
  case $file in
    *.h | *.cpp | *.cu) ;;
    *) echo "format.sh: $file is not C++ or CUDA" >&2; exit 2 ;;
  esac
done

tool=$(command -v clang-format-19 || command -v clang-format)
case $("${tool:-false}" --version 2>/dev/null) in
  *"version 19."*) ;;
  *)
    echo "clang-format 19 is not installed (Debian: apt-get install clang-format-19)"
    [ "${CI:-}" = true ] && exit 1
    exit 77 ;;
esac

[ $fix = yes ] && exec "$tool" -i "${files[@]}"

# many files per process, since most of the time of a process is its start
bad=$(printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 60 "$tool" --dry-run 2>&1 |
  sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
if [ -z "$bad" ]; then
  echo "1 passed, 0 failed"
else
  printf 'not formatted: %s\n' $bad
  echo "run tests/format.sh --fix"
  echo "0 passed, 1 failed"
  exit 1
fi
