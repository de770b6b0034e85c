#!/usr/bin/env bash
# Formatting of the C++ and CUDA sources (clang-format 14, as on Debian 12: other versions format otherwise), the scripts
# by shellcheck, and what the Slurm templates must not ask for. Run by CTest as build.style; skipped (77) where neither
# tool is there.
set -euo pipefail

cd "${TALLSKETCH_SOURCE_DIR:-$(dirname "$0")/../..}"
checked=0
status=0

clang_format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -n $clang_format && $("$clang_format" --version) == *" version 14."* ]]; then
  mapfile -t sources < <(find kernels src drivers tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' | sort)
  "$clang_format" --dry-run --Werror "${sources[@]}" || status=1
  checked=1
fi

if command -v shellcheck >/dev/null; then
  mapfile -t scripts < <(grep -rlE '^#!.*\b(ba)?sh$' bootstrap.sh .ci drivers slurm tests data 2>/dev/null | sort)
  shellcheck -x "${scripts[@]}" slurm/job.sh slurm/site.env || status=1
  checked=1
fi

# These hide the GPUs of a node from each other (C-22); comments may warn of them.
if grep -nE '^[^#]*--(gpus-per-task|gpu-bind)|^#SBATCH .*--(gpus-per-task|gpu-bind)' slurm/*.sbatch slurm/*.sh slurm/site.env; then
  echo "Slurm: ask for GPUs by --gpus-per-node only"
  status=1
fi

if ((status)); then
  echo "format with: clang-format-14 -i FILE..."
  exit 1
fi
((checked)) || { echo "skipped: neither clang-format 14 nor shellcheck is installed"; exit 77; }
