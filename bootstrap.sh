#!/usr/bin/env bash
# Installs what is missing, builds, and shows or tests tallsketch on Debian 12 or Ubuntu 24.04.
# Without root and without these systems: docs/install.md.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: ./bootstrap.sh demo|test|build|deps
  demo    build, then solve a real and a generated problem on 2 MPI ranks
  test    build with warnings as errors, then run all tests, and some of them again with sanitizers
  build   configure and build; with a CUDA toolkit the CUDA backend too
  deps    only install the Debian/Ubuntu packages that are missing
Needs root or sudo only while packages are missing. Environment:
  TALLSKETCH_JOBS=N      compile jobs (default: by cores and memory)
  TALLSKETCH_NO_DEPS=1   install nothing
  TALLSKETCH_NO_SANITIZERS=1  test: leave the builds with sanitizers out
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'bootstrap: %s\n' "$*" >&2
  exit 1
}

# ---- packages ----------------------------------------------------------------------------------------------------
libraries=(libopenmpi-dev libhdf5-openmpi-dev libopenblas-dev liblapacke-dev libcli11-dev nlohmann-json3-dev
  libfmt-dev librandom123-dev zlib1g-dev catch2)
# Tests only: files written by h5py, a serial HDF5 beside the parallel one for the configure checks, pictures of scaling
# studies, and a Slurm and network namespaces for the batch templates.
test_packages=(python3 python3-numpy python3-scipy python3-h5py python3-matplotlib libhdf5-dev
  slurmctld slurmd slurm-client munge iproute2)

# Prints the packages that are missing. Tools count as there when the command is, whoever installed it.
missing_packages() {
  local package
  command -v g++ >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || command -v make >/dev/null || echo ninja-build
  command -v git >/dev/null || echo git
  command -v mpirun >/dev/null || echo openmpi-bin
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

install_packages() {
  local wanted as_root=()
  [[ ${TALLSKETCH_NO_DEPS:-0} == 1 ]] && return
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "bootstrap: no apt-get here, so nothing is installed; configuring names what is missing (docs/install.md)"
    return
  fi
  mapfile -t wanted < <(missing_packages "$@")
  ((${#wanted[@]})) || return 0

  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "these packages are missing, and installing them needs root or sudo:
  ${wanted[*]}
Ask for: apt-get install --no-install-recommends ${wanted[*]}
or build from your cluster's modules: docs/install.md"
    fi
  fi
  say "installing ${wanted[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "Dpkg::Use-Pty=0")
  "${as_root[@]}" update || { sleep 5 && "${as_root[@]}" update; } ||
    echo "bootstrap: apt-get update failed twice; trying with the package lists that are here"
  "${as_root[@]}" install -y --no-install-recommends "${wanted[@]}" >/dev/null ||
    die "apt-get could not install: ${wanted[*]}"
}

# ---- build -------------------------------------------------------------------------------------------------------
# One job per core, but no more than memory carries: 1.5 GiB a compiler.
jobs() {
  local cores memory_kib by_memory
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  by_memory=$((${memory_kib:-4000000} / 1572864))
  ((by_memory >= 1)) || by_memory=1
  echo "${TALLSKETCH_JOBS:-$((cores < by_memory ? cores : by_memory))}"
}

have_cuda_toolkit() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }
have_gpu() { { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; } || [[ -e /dev/nvidia0 ]]; }

# configure PRESET OPTIONS...
configure() {
  local preset=$1 log=build/$1/configure.log
  shift
  say "building preset $preset"
  # Only for new build folders; one made with another generator keeps it.
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi
  mkdir -p "build/$preset"
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "configuring preset $preset failed"
  }
  grep '^-- tallsketch: ' "$log" || true
}

# compile PRESET TARGET
compile() { cmake --build "build/$1" --target "$2" --parallel "$(jobs)"; }

# build_all TARGET OPTIONS...: host, and cuda where a toolkit is; sets cuda_built.
build_all() {
  local target=$1
  shift
  cuda_built=0
  configure host "$@"
  compile host "$target"
  if ! have_cuda_toolkit; then
    echo "no CUDA toolkit here: the host backend alone is a complete build"
    return
  fi
  # AUTO: a toolkit without NCCL is no reason to fail; its configuring says what is missing.
  configure cuda -DTALLSKETCH_CUDA=AUTO "-DCMAKE_CUDA_ARCHITECTURES=$(architectures)" "$@"
  if grep -q '^-- tallsketch: CUDA backend: yes' build/cuda/configure.log; then
    compile cuda "$target"
    cuda_built=1
  fi
}

# The visible GPU's architecture, else Hopper's; one, because nvcc compiles everything once for each.
architectures() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ' || true)
  case $capability in
    '' | *[!0-9]* | 90) echo 90a-real ;;
    *) echo "$capability-real" ;;
  esac
}

# ---- demo --------------------------------------------------------------------------------------------------------
# What mpirun needs as root and on a small machine; for the commands of the demo only. See cmake/testing.cmake.
with_mpi_environment() {
  local threads=$(($(nproc) / 2))
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none \
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMP_NUM_THREADS=$((threads > 0 ? threads : 1)) "$@"
}

on_two_ranks() {
  local mpirun
  mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' build/host/CMakeCache.txt)
  echo "\$ mpirun -n 2 tallsketch $*"
  with_mpi_environment "$mpirun" -n 2 "$program" "$@"
}

demo() {
  local backend=host folder=build/demo shared_gpu=()
  build_all tallsketch
  program=build/host/tallsketch
  if ((cuda_built)) && have_gpu; then
    program=build/cuda/tallsketch
    backend=cuda
    # NCCL wants a GPU for every rank; two ranks that share one reduce by MPI.
    (($(nvidia-smi -L 2>/dev/null | grep -c '^GPU') >= 2)) || shared_gpu=(--comm mpi)
  fi
  rm -rf "$folder"
  mkdir -p "$folder"

  say "Real data, $backend backend: arrival delays of flights (data/README.md)"
  echo "What you see: the delays fitted by least squares, to the accuracy of a direct solver, with the proof (backward error)"
  echo "and the standard errors of all coefficients."
  on_two_ranks solve data/flights_january.h5 --standard-errors "${shared_gpu[@]}" \
    -o "$folder/flights.x.h5" --report "$folder/flights.report.json"
  echo "x: $folder/flights.x.h5   report: $folder/flights.report.json"

  say "Generated data, $backend backend: 400000 x 64"
  echo "What you see: the ranks write a random problem to one file, then solve it twice: by one random sketch, read once and"
  echo "approximate, and, preconditioned by a sketch, until the backward error of x is certified."
  on_two_ranks generate "$folder/generated.h5" --rows 400000 --cols 64
  on_two_ranks solve "$folder/generated.h5" --method sketch-solve "${shared_gpu[@]}" -o "$folder/sketched.x.h5"
  on_two_ranks solve "$folder/generated.h5" --preconditioner sketch "${shared_gpu[@]}" \
    -o "$folder/generated.x.h5" --report "$folder/generated.report.json"
  rm -f "$folder/generated.h5"  # 100 MB
  echo "x: $folder/generated.x.h5   report: $folder/generated.report.json"
}

# ---- test --------------------------------------------------------------------------------------------------------
# can_sanitize KIND: whether the compiler has the library of -fsanitize=KIND.
can_sanitize() {
  local probe=build/sanitizer_probe
  mkdir -p build
  printf 'int main() {}\n' | "${CXX:-g++}" -x c++ "-fsanitize=$1" -o "$probe" - 2>/dev/null && rm -f "$probe"
}

# sanitized_suite PRESET KIND: the tests of that suite (tests/CMakeLists.txt), which alone are built.
sanitized_suite() {
  if ! can_sanitize "$2"; then
    say "suite of preset $1: skipped, ${CXX:-g++} cannot link -fsanitize=$2 here"
    return
  fi
  configure "$1" -DTALLSKETCH_WERROR=ON
  compile "$1" "$1_suite" || return 1
  say "suite of preset $1"
  ctest --test-dir "build/$1" --output-on-failure --parallel "$(jobs)" -L "^$1_suite\$" --no-tests=error
}

run_tests() {
  local status=0
  # The other builds first, so that the last lines on the terminal are those of the whole suite.
  if [[ ${TALLSKETCH_NO_SANITIZERS:-0} == 1 ]]; then
    say "suites with sanitizers: skipped (TALLSKETCH_NO_SANITIZERS=1)"
  else
    sanitized_suite asan address || status=1
    sanitized_suite tsan thread || status=1
  fi
  build_all all -DTALLSKETCH_WERROR=ON
  if ((cuda_built)); then
    say "tests of preset cuda that need a GPU (skipped where there is none)"
    ctest --test-dir build/cuda --output-on-failure --parallel "$(jobs)" -L cuda --no-tests=ignore || status=1
  fi
  say "tests of preset host"
  ctest --test-dir build/host --output-on-failure --parallel "$(jobs)" --no-tests=error || status=1
  return "$status"
}

case ${1:-} in
  deps) install_packages "${libraries[@]}" ;;
  build)
    install_packages "${libraries[@]}"
    build_all all
    ;;
  demo)
    install_packages "${libraries[@]}"
    demo
    ;;
  test)
    install_packages "${libraries[@]}" "${test_packages[@]}"
    run_tests
    ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
