# Sourced by samples/run.sh and tests/run.sh: installs missing Debian packages and configures a
# build directory. Prints to stderr only, so that stdout contains the program's output.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

say() { printf '%s\n' "$*" >&2; }

# Sets MESON to a working meson of version 1.0 or newer. The first one in PATH may be broken or old.
find_meson() {
  local candidate version
  for candidate in meson /usr/bin/meson; do
    version=$("$candidate" --version 2>/dev/null) || continue
    [ "${version%%.*}" -ge 1 ] 2>/dev/null && MESON=$candidate && return
  done
  return 1
}

# Sets PYTHON to a working python3.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import json' >/dev/null 2>&1 && PYTHON=$candidate && return
  done
  return 1
}

# have PACKAGE: succeeds if the contents of the package are installed, from any source.
have() {
  case $1 in
    g++) command -v "${CXX:-c++}" ;;
    meson) find_meson ;;
    ninja-build) command -v ninja ;;
    python3) find_python ;;
    libeigen3-dev) pkg-config --exists eigen3 ;;
    nlohmann-json3-dev) pkg-config --exists nlohmann_json ;;
    libcli11-dev) pkg-config --exists CLI11 ;;
    zlib1g-dev) pkg-config --exists zlib ;;
    libpng-dev) pkg-config --exists libpng ;;
    libjpeg62-turbo-dev) pkg-config --exists libjpeg ;;
    catch2) pkg-config --exists catch2 ;;
    libopenmpi-dev) pkg-config --exists ompi ;;
    openmpi-bin) command -v mpirun ;;
    qemu-user) command -v qemu-x86_64 ;;
    clang) command -v clang++ ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# need PACKAGE...: installs missing packages, as root or through sudo. Otherwise prints the command
# and exits.
need() {
  local package missing=() as_root=()
  for package; do have "$package" || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return
  local command="apt-get install --yes --no-install-recommends ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    say "Missing: ${missing[*]} (Debian package names). Install them and run this again."
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    # sudo cannot ask for a password without a terminal
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      say "Some packages are missing. Run this as root, then try again:"
      say "  $command"
      exit 1
    fi
  fi
  say "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update --quiet >&2 ||
    say "apt-get update failed; continuing with the existing package lists"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command >&2 ||
    { say "Failed: $command"; exit 1; }
}

# need_for_build [PACKAGE...]: installs the packages that every build needs, and the given ones.
need_for_build() {
  need g++ meson ninja-build ccache pkg-config libeigen3-dev nlohmann-json3-dev libcli11-dev \
    zlib1g-dev libpng-dev libjpeg62-turbo-dev "$@"
  find_meson ||
    { say "meson 1.0 or newer is needed; found: $(meson --version 2>&1 | head -n 1)"; exit 1; }
}

# Settings of ccache: reuse objects of other build directories, and objects with an unchanged
# precompiled header. CCACHE_DEPEND takes the includes from the compiler's dependency file, because
# running the preprocessor first takes a tenth of the time of a first build.
export CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1

# disk_is_full: succeeds, with a message, if less than 200 MB are free on the disk of the build.
disk_is_full() {
  [ "$(df --output=avail -k . | tail -n 1)" -lt 200000 ] || return
  say "The disk of $PWD is full. Free 3 GB (rm -r build* frees earlier builds) and run this again."
}

# configure DIR [OPTION...]: sets up the build directory, or reconfigures it if the options differ
# from those of the last call. Kernels are compiled for this CPU only, unless the options say
# otherwise, since compiling them for all CPUs takes minutes. A directory that was configured for
# another compiler than CXX, or whose setup was interrupted, is set up again.
configure() {
  local dir=$1 record=$1/.configured anew=
  shift
  if [ -n "${CXX:-}" ] && [ -f "$dir/build.ninja" ] &&
    ! grep -q "\"$CXX\"" "$dir/meson-info/intro-compilers.json" 2>/dev/null; then
    say "$dir/ was configured for another compiler than $CXX; setting it up again"
    anew=--wipe
  elif [ -f "$dir/build.ninja" ] && [ -f "$dir/meson-private/coredata.dat" ]; then
    [ $# -eq 0 ] || [ "$*" = "$(cat "$record" 2>/dev/null)" ] && return 0
    anew=--reconfigure
  elif [ -d "$dir/meson-private" ]; then
    rm -rf "$dir/meson-private" "$dir/meson-info"
  fi
  # A first build takes less time in units of several files.
  if ! "$MESON" setup $anew "$dir" -Dcpu_arch=native -Dunity=on -Dunity_size=8 "$@" >&2; then
    disk_is_full ||
      say "Configuring $dir/ failed (above). If it has other content, remove it and run this again."
    return 1
  fi
  printf '%s' "$*" >"$record"
}

# build DIR [TARGET...]: builds the targets, or all targets. The message follows the compiler's
# errors.
build() {
  ninja -C "$@" >&2 && return
  disk_is_full ||
    say "The build in $1/ failed (first error above). If $1/ is broken, remove it and try again."
  return 1
}
