#!/usr/bin/env bash
# The kernels compile for an architecture before Hopper too: what it lacks is left out, not an error. Run by CTest as
# build.cuda_architectures; skipped (77) without nvcc.
set -euo pipefail

cd "${TALLSKETCH_SOURCE_DIR:-$(dirname "$0")/../..}"
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
[[ -n $nvcc ]] || { echo "skipped: no nvcc"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in kernels/*.cu; do
  echo "$source for sm_80"
  "$nvcc" -std=c++20 -O1 -Werror all-warnings -arch=sm_80 -I. -c "$source" -o "$work/object.o"
done
