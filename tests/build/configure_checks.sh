#!/usr/bin/env bash
# Configures the project in ways that must fail with a helpful message, or must work although something is odd.
# Run by CTest as build.configure (environment: cmake/testing.cmake), or by hand from anywhere.
set -euo pipefail

source_dir=${TALLSKETCH_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cmake=${CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# configure NAME OPTIONS...: leaves the output in $work/NAME.log and the status in $status
configure() {
  local name=$1
  shift
  status=0
  "$cmake" -S "$source_dir" -B "$work/$name" -DTALLSKETCH_TESTS=OFF "$@" >"$work/$name.log" 2>&1 || status=$?
}

# expect NAME pass|fail TEXT...: the status, and that every text stands in the output (line breaks do not count)
expect() {
  local name=$1 wanted=$2 text flat ok=1
  shift 2
  flat=$(tr -s ' \n' ' ' <"$work/$name.log")
  if [[ $wanted == pass && $status -ne 0 ]] || [[ $wanted == fail && $status -eq 0 ]]; then
    echo "FAILED $name: configure ended with $status, expected to $wanted"
    ok=0
  fi
  for text in "$@"; do
    if [[ $flat != *"$text"* ]]; then
      echo "FAILED $name: the output lacks: $text"
      ok=0
    fi
  done
  if ((ok)); then
    echo "ok $name"
  else
    failures=$((failures + 1))
    sed 's/^/    /' "$work/$name.log"
  fi
}

# One message names all that is missing, by Debian package.
configure missing -DTALLSKETCH_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON
expect missing fail "libcli11-dev" "libhdf5-openmpi-dev" "apt-get install --no-install-recommends" "docs/install.md"

configure no_lapacke -DTALLSKETCH_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_LAPACKE=ON
expect no_lapacke fail "liblapacke-dev"

# The default, whatever flavours of HDF5 are installed (C-41).
configure default -DTALLSKETCH_CUDA=OFF
expect default pass "CUDA backend: no" "HDF5"
if [[ -e /usr/lib/$(uname -m)-linux-gnu/hdf5/openmpi/libhdf5.so ]]; then
  expect default pass "parallel"
fi

# Serial HDF5 is accepted, and said so. Debian's libhdf5-dev.
serial=/usr/lib/$(uname -m)-linux-gnu/hdf5/serial
if [[ -e $serial/libhdf5.so ]]; then
  configure serial -DTALLSKETCH_CUDA=OFF -DHDF5_ROOT="$serial"
  expect serial pass "SERIAL" "every rank reads its own rows"
else
  echo "left out: serial HDF5 (libhdf5-dev is not installed)"
fi

configure bad_cuda -DTALLSKETCH_CUDA=maybe
expect bad_cuda fail "allowed are AUTO, ON and OFF"

# CUDA: what is missing is named; architectures that the toolkit rejects are named (C-42).
configure no_nvcc -DTALLSKETCH_CUDA=ON -DCMAKE_CUDA_COMPILER="$work/nowhere/bin/nvcc"
expect no_nvcc fail "TALLSKETCH_CUDA=ON, but these are missing" "TALLSKETCH_CUDA=OFF"

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [[ -n $nvcc ]]; then
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  if ((version >= 13)); then
    configure arch70 -DTALLSKETCH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=70
    expect arch70 fail "does not compile for architecture 70" "it knows 75"
  fi
  if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
    configure native -DTALLSKETCH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native
    expect native fail "native needs a GPU"
  fi
  configure major -DTALLSKETCH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=all-major
  expect major pass "CUDA backend: yes"
  configure no_nccl -DTALLSKETCH_CUDA=ON -DCMAKE_DISABLE_FIND_PACKAGE_NCCL=ON
  expect no_nccl fail "NCCL" "NCCL_HOME"
  configure auto_no_nccl -DTALLSKETCH_CUDA=AUTO -DCMAKE_DISABLE_FIND_PACKAGE_NCCL=ON
  expect auto_no_nccl pass "CUDA backend: no (TALLSKETCH_CUDA=AUTO" "NCCL"
else
  echo "left out: CUDA architectures (no nvcc)"
fi

((failures == 0)) || { echo "$failures checks failed"; exit 1; }
