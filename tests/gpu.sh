#!/usr/bin/env bash
# Tests and measures this machine's GPU from a build directory that was built or copied here. Needs
# the driver, the CUDA libraries and Python, but neither Meson nor a compiler. cuda/README.md says
# what to build and copy.
#   tests/gpu.sh [--stage N]... [--part NAME]... [--resume] [--build DIR] [--libraries DIR[:DIR...]]
#                [--results DIR] [--limit S] [--emulated] [--list]
#     --stage      1: smoke test, micro, bench, captured steps (5 min); 2: all device tests (9 min);
#                  3: training steps of six nets, compared with PyTorch (9 min); 4: ncu,
#                  compute-sanitizer, earlier failures (9 min). Default: all
#     --part       only the named parts (--list prints name, stage and limit of each)
#     --resume     skip the parts that passed according to the report
#     --build      the build directory (build-cuda)
#     --libraries  folders of libcublasLt and libcudnn; they are searched first, then the system's,
#                  then those of Python's nvidia-* packages
#     --results    folder (gpu-results) of the report, report.txt, and of the archive of all logs,
#                  logs.tar.gz. Both are appended to after each part
#     --limit      maximum seconds for each part, where less than the part's own limit
#     --emulated   try the script on the emulated device of a build with -Dgpu_emulation=enabled;
#                  small sizes, limits ten times as long
# Each part has its own limit. A part that fails, hangs or crashes does not stop the others.
# Status: 0 all passed or were skipped, 1 some did not, 2 wrong usage, 77 no GPU, or nothing ran.
set -uo pipefail

usage() { echo "gpu.sh: $*" >&2; exit 2; }

build=build-cuda libraries='' results=gpu-results limit=6000 emulated='' resume=no list=no
stages=() chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --build | --libraries | --results | --limit | --stage | --part)
      [ $# -ge 2 ] || usage "$1 needs a value"
      case $1 in
        --stage) stages+=("$2") ;;
        --part) chosen+=("$2") ;;
        *) printf -v "${1#--}" %s "$2" ;;
      esac
      shift 2 ;;
    --resume) resume=yes; shift ;;
    --emulated) emulated=_emulated; shift ;;
    --list) list=yes; shift ;;
    *) usage "unknown option; got $1, expected --stage N, --part NAME, --resume, --build DIR," \
         "--libraries DIRS, --results DIR, --limit S, --emulated or --list" ;;
  esac
done
for stage in "${stages[@]}"; do
  [[ $stage =~ ^[1-4]$ ]] || usage "unknown stage; got $stage, expected 1, 2, 3 or 4"
done
[ ${#stages[@]} -gt 0 ] || stages=(1 2 3 4)
[[ $limit =~ ^[1-9][0-9]*$ ]] || usage "--limit: got $limit, expected a whole number of seconds"

tests=$(cd "$(dirname "$0")" && pwd)
processes=16  # that run the op tests at once
option=-Dcuda=enabled full=full net_levels=O0,O2,O4,O5 nets=mlp,lenet,char_gpt
small=() patience=1
small_nets=('mlp 512' 'lenet 1024' 'char_gpt 64' 'char_lstm 64')
large_nets=('gpt2 16' 'resnet50 256' 'gpt2 8')
if [ -n "$emulated" ]; then
  processes=2
  option=-Dgpu_emulation=enabled full=tiny net_levels=O0,O2 nets=mlp
  small=(--small) patience=10
  small_nets=('mlp 4' 'lenet 4' 'char_gpt 2' 'char_lstm 2')
  large_nets=('gpt2 3' 'resnet50 2' 'gpt2 2')
fi

# ---- the parts -----------------------------------------------------------------------------
# part NAME STAGE SECONDS PROGRAM ARGUMENT...
on_device=(env MEZZO_TEST_DEVICE=cuda)
of_no_other_part='~[graph]'
for tag in memory order overlap pinned stream attention conv format optim packed large alignment \
  recurrent; do
  of_no_other_part+="~[$tag]"
done
# Runs the tests of a program that match a filter in several processes: in_processes PROGRAM COUNT
# FILTER. Tests with the tag [sharded] divide their work by MEZZO_TEST_SHARD; each of the others
# runs in one process. Prints what all printed and one tally; ends with the highest status.
# shellcheck disable=SC2016
in_processes='
program=$1 count=$2 filter=$3
[ -x "$program" ] || { echo "$program is not there"; exit 77; }
folder=$(mktemp -d)
trap "rm -rf $folder" EXIT
# Catch2 3 has another option for the names alone.
names() {
  local list
  if list=$("$program" --list-test-names-only "$1" 2>/dev/null) || [ -n "$list" ]; then
    printf "%s\n" "$list"  # the status is the number of tests
    return
  fi
  list=$("$program" --list-tests --verbosity quiet "$1" 2>/dev/null)
  printf "%s\n" "$list"
}
mapfile -t sharded < <(names "$filter[sharded]")
mapfile -t others < <(names "$filter~[sharded]")
pids=()
for ((k = 0; k < count; k++)); do
  for ((i = k; i < ${#others[@]}; i += count)); do echo "${others[i]}"; done >"$folder/$k"
  printf "%s\n" "${sharded[@]}" >>"$folder/$k"
  MEZZO_TEST_SHARD=$((k + 1))/$count "$program" -f "$folder/$k" >"$folder/$k.log" 2>&1 &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid"
  ended=$?
  [ $ended -le $status ] || status=$ended
done
cat "$folder"/*.log
awk "/^[0-9]+ passed, [0-9]+ failed\$/ { passed += \$1; failed += \$3 }
  END { print passed + 0 \" passed, \" failed + 0 \" failed\" }" "$folder"/*.log
exit $status'
user_libraries=${LD_LIBRARY_PATH:-}
all_parts() {
  local test=$build/tests/test_ bench=$build/samples/bench$emulated batch
  local smoke=$build/tests/gpu_smoke$emulated steps=$build/tests/gpu_steps$emulated
  local torch=(env "LD_LIBRARY_PATH=$user_libraries" python3 "$tests/gpu/torch_steps.py")
  local net_batch net
  part smoke 1 70 "$smoke" "${small[@]}"
  part micro 1 60 "$bench" --micro --device cuda --size $full --json-lines "$logs/micro.jsonl"
  part bench 1 90 "$bench" --device cuda --size $full --nets $nets --levels $net_levels --quiet \
    --together 1 --seconds 0 --json-lines "$logs/bench.jsonl"
  part graph 1 60 "${test}gpu$emulated" '[graph]'
  # Several processes, because an error of the device ends all later tests of its process.
  part gpu_rest 2 30 "${test}gpu$emulated" "$of_no_other_part"
  part gpu_memory 2 30 "${test}gpu$emulated" '[memory],[order],[overlap],[pinned],[stream]'
  part gpu_layers 2 40 "${test}gpu$emulated" '[attention],[conv],[format],[optim]'
  part gpu_packed 2 40 "${test}gpu$emulated" '[packed]'
  part gpu_large 2 40 "${test}gpu$emulated" '[large]'
  part amp 2 90 "${on_device[@]}" "${test}amp$emulated" \
    '[casting],[late],[levels],[masters],[overflow],[product],[scaler]'
  part samples 2 60 "${on_device[@]}" "${test}samples$emulated" '[curves]'
  part ops 2 75 "${on_device[@]}" bash -c "$in_processes" in_processes "${test}ops$emulated" \
    $processes '~[guards]'
  # Last: a misaligned access or blocks that wait for each other may leave the device unusable.
  part gpu_alignment 2 30 "${test}gpu$emulated" '[alignment]'
  part gpu_recurrent 2 30 "${test}gpu$emulated" '[recurrent]'
  # Levels in the order of what they tell, in case the time is over. PyTorch's O1 is the counterpart
  # of O2, its O4 that of O5.
  for net_batch in "${small_nets[@]}"; do
    net=${net_batch% *} batch=${net_batch#* }
    part "$net" 3 30 "$steps" "${small[@]}" "$net" "$batch" O2 O4 O5 O1 O0
    part "torch_$net" 3 70 "${torch[@]}" "$net" "$batch" O1 O4 O0
  done
  for net_batch in "${large_nets[@]}"; do
    net=${net_batch% *} batch=${net_batch#* }
    part "${net}_b$batch" 3 75 "$steps" "${small[@]}" "$net" "$batch" O2 O4 O5 O1 O0
    part "torch_${net}_b$batch" 3 160 "${torch[@]}" "$net" "$batch" O1 O4 O0
  done
  part ratios 3 10 ratios
  part ncu 4 150 ncu_of_slowest
  for tool in memcheck racecheck; do
    part $tool 4 120 compute-sanitizer --tool $tool --error-exitcode 1 "$smoke" --small --in-process
  done
}
# Succeeds for parts whose whole output is reported. Of others, the end is reported if they fail.
shows_all() {
  [[ $1 =~ ^(smoke|micro|bench|ratios|(torch_)?(mlp|lenet|char_gpt|char_lstm|[a-z0-9]+_b[0-9]+))$ ]]
}
declare -A seconds_of_stage=([1]=300 [2]=560 [3]=560 [4]=560)

# Prints the five rows of the smoke test with the lowest bandwidth, for Nsight Compute.
slowest_rows() {
  grep -v FAILED "$logs/smoke.log" 2>/dev/null | grep -E 'GB/s *$' |
    grep -Ev '^(host|events|streams)' | awk '{print $(NF - 1) "\t" substr($0, 1, 38)}' | sort -n |
    head -n 5 | cut -f 2 | sed 's/ *$//'
}

names=()
part() { names+=("$1"); [ $list = no ] || echo "$1: stage $2, $3 s"; }
logs=''
all_parts
[ $list = no ] || exit 0
for name in "${chosen[@]}"; do
  [[ " ${names[*]} " == *" $name "* ]] ||
    usage "unknown part; got $name, expected one of ${names[*]}"
done

# ---- prerequisites -------------------------------------------------------------------------
[ -x "$build/tests/gpu_smoke$emulated" ] ||
  usage "$build/tests/gpu_smoke$emulated is not there; build with -Dtests=enabled and $option"
if [ -z "$emulated" ]; then
  facts=name,driver_version,memory.total
  if ! gpu=$(timeout 20 nvidia-smi --query-gpu=$facts --format=csv,noheader 2>/dev/null); then
    echo "gpu.sh: skipped, this machine has no NVIDIA GPU or no driver"
    exit 77
  fi
else
  gpu='emulated on the host: times are not those of a GPU'
fi
report=$results/report.txt archive=$results/logs.tar.gz
{ mkdir -p "$results" && : >>"$report" && : >>"$archive.new" && rm "$archive.new"; } 2>/dev/null ||
  usage "results folder $results cannot be written"

# wheel_folders: prints the library folders of Python's nvidia-* packages.
wheel_folders() {
  python3 - <<'PYTHON' 2>/dev/null
import glob, os, site
places = site.getsitepackages() + [site.getusersitepackages()]
files = [f for place in places for f in glob.glob(place + '/nvidia/*/lib/*.so*')]
print(':'.join(sorted({os.path.dirname(f) for f in files})))
PYTHON
}
# system_folders: prints the folders in which the loader finds the libraries, of any version.
system_folders() {
  ldconfig -p 2>/dev/null | sed -nE 's|.* => (.*)/lib(cublasLt\|cudnn)\.so[^/]*$|\1|p' | sort -u |
    paste -sd :
}
# joined FOLDERS...: joins lists of folders, without the empty ones.
joined() {
  local all='' list
  for list in "$@"; do all+="${list:+${all:+:}$list}"; done
  echo "$all"
}
# The wheels' folders come last but always: the system may have another major version.
[ -n "$emulated" ] ||
  LD_LIBRARY_PATH=$(joined "$libraries" "$user_libraries" "$(system_folders)" "$(wheel_folders)")
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-$libraries}
export MEZZO_TESTS=$tests  # where the tests find their reference files

# ---- running -------------------------------------------------------------------------------
logs=$(mktemp -d)
[ -s "$archive" ] && tar -xzf "$archive" -C "$logs" 2>/dev/null
say() { printf '%s\n' "$*" | tee -a "$report"; }
pack() { tar -czf "$archive.new" -C "$logs" . 2>/dev/null && mv "$archive.new" "$archive"; }
running='' again=no
interrupted() {
  [ -z "$running" ] || kill "$running" 2>/dev/null
  say "gpu.sh: interrupted"
  pack
  rm -rf "$logs"
  exit 130
}
trap interrupted INT TERM HUP

# last_status NAME: prints the part's last status in the report.
last_status() { grep -E "^$1: " "$report" | tail -n 1 | sed -E 's/^[^:]*: ([a-z ]*[a-z]).*/\1/'; }

declare -A count=([passed]=0 [failed]=0 [crashed]=0 ['timed out']=0 [skipped]=0 ['not run']=0)
# record NAME STATUS TEXT: counts and prints the status of a part.
record() {
  count[$2]=$((count[$2] + 1))
  say "$1: $2${3:+, $3}"
}

# missing PROGRAM ARGUMENT...: prints the program if it is not installed.
missing() {
  [ "$1" != env ] || { shift; while [[ $1 == *=* ]]; do shift; done; }
  command -v "$1" >/dev/null || echo "$1"
}

# tool NAME: prints the program of the CUDA toolkit, or its path where it is not in PATH.
tool() {
  local inside=/usr/local/cuda/bin/$1
  if [ -n "$(missing "$1")" ] && [ -x "$inside" ]; then echo "$inside"; else echo "$1"; fi
}

part() {
  local name=$1 of_stage=$2 seconds=$3 status start=$SECONDS left word tally log=$logs/$1.log
  shift 3
  if [ $again = yes ]; then
    [ "$of_stage" -lt 4 ] || return
    case $(last_status "$name") in failed | crashed | 'timed out') ;; *) return ;; esac
  else
    [ "$of_stage" -eq "$stage" ] || return
  fi
  [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $name "* ]] || return
  if [ $resume = yes ] && [ "$name" != ratios ] && [ "$(last_status "$name")" = passed ]; then
    return
  fi
  left=$((stage_end - SECONDS))
  [ "$name" != ratios ] || left=10
  [ $left -ge 5 ] || { record "$name" 'not run' "the stage's time limit is reached"; return; }
  seconds=$((seconds * patience))
  [ $seconds -le $left ] || seconds=$left
  [ $seconds -le $limit ] || seconds=$limit

  if [ "$1" = ncu_of_slowest ]; then
    [ -z "$emulated" ] || { record "$name" skipped "the device is emulated"; return; }
    local rows=()
    mapfile -t rows < <(slowest_rows)
    [ ${#rows[@]} -gt 0 ] || { record "$name" skipped "there is no log of the smoke test"; return; }
    set -- "$(tool ncu)"
    # Only the calls that gpu_smoke times, which it marks by an NVTX range.
    # shellcheck disable=SC2016
    [ -n "$(missing "$1")" ] || set -- bash -c 'failed=0
      for row in "${@:3}"; do
        echo "==== $row"
        "$1" --clock-control none --nvtx --nvtx-include mezzo@timed/ --launch-count 20 "$2" \
          --in-process --only "$row" || failed=1
      done
      exit $failed' ncu "$1" "$build/tests/gpu_smoke" "${rows[@]}"
  elif [ "$1" = compute-sanitizer ]; then
    [ -z "$emulated" ] || { record "$name" skipped "the device is emulated"; return; }
    set -- "$(tool compute-sanitizer)" "${@:2}"
  elif [ "$1" = ratios ]; then
    set -- python3 "$tests/gpu/ratios.py" "$logs"/*.log
  elif [[ $name == torch_* ]] && [ -n "$emulated" ]; then
    record "$name" skipped "the device is emulated"
    return
  fi
  word=$(missing "$@")
  [ -z "$word" ] || { record "$name" skipped "$word is not there"; return; }

  timeout -k 5 "$seconds" "$@" >"$log" 2>&1 &
  running=$!
  { wait "$running"; } 2>/dev/null  # hides bash's messages about signals
  status=$?
  running=''
  tally=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
  local text="${tally:+$tally, }$((SECONDS - start)) s"
  if [ $status -eq 0 ]; then
    record "$name" passed "$text"
  elif [ $status -eq 124 ] || { [ $status -eq 137 ] && [ $((SECONDS - start)) -ge "$seconds" ]; }
  then
    record "$name" 'timed out' "limit $seconds s, $text"
  elif [ $status -eq 77 ] && [ "$name" != smoke ]; then
    record "$name" skipped "$(tail -n 1 "$log")"
  elif [ $status -gt 128 ]; then
    record "$name" crashed "signal $((status - 128)), $text"
  else
    record "$name" failed "status $status, $text"
  fi
  if shows_all "$name"; then
    sed 's/^/    /' "$log" | head -n 400 | tee -a "$report"
  elif [ $status -ne 0 ] && [ $status -ne 77 ]; then
    tail -n 25 "$log" | sed 's/^/    /' | tee -a "$report"
  fi
  pack
}

say "==== $(date -u +%Y-%m-%dT%H:%MZ), stage ${stages[*]}${chosen[*]:+, part ${chosen[*]}}"
say "GPU: $gpu"
for stage in "${stages[@]}"; do
  stage_end=$((SECONDS + patience * seconds_of_stage[$stage]))
  again=no
  all_parts
  if [ "$stage" -eq 4 ]; then
    again=yes
    all_parts
  fi
done
summary=''
for status in passed failed crashed 'timed out' 'not run' skipped; do
  summary+="${summary:+, }${count[$status]} $status"
done
say "parts: $summary"
pack
rm -rf "$logs"
[ $((count[failed] + count[crashed] + count['timed out'] + count['not run'])) -eq 0 ] || exit 1
[ "${count[passed]}" -gt 0 ] || [ "${count[skipped]}" -eq 0 ] || exit 77
exit 0
