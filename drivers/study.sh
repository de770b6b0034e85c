#!/bin/bash
# Every study of tallsketch and every figure, by one command:
#
#   drivers/study.sh small OUT     on the host, or a GPU if there is one: minutes
#   drivers/study.sh full OUT      the papers' sizes, on a GPU of 100 GB and more: minutes
#   drivers/study.sh tiny OUT      what CI runs: seconds, a few cases of each
#   drivers/study.sh figures OUT   the figures alone, from the CSV files in OUT
#
# OUT gets a CSV file a study and PNG and SVG figures (drivers/plot_study.py). Studies whose CSV is in OUT already are not run
# again; results of another size are not taken for this one's: OUT/.size says which size OUT is of. Environment: TALLSKETCH, the program (default: build/cuda/tallsketch, else build/host/tallsketch beside this script),
# PYTHON with matplotlib (default: /usr/bin/python3), LAUNCH, words before the program, such as "mpirun -n 2".
# Exit codes: those of tallsketch and of plot_study.py; 2 for wrong use, such as OUT with results of another size.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage="usage: study.sh tiny|small|full|figures OUT (study.sh says more in its first lines)"
[[ $# -eq 2 ]] || { echo "$usage" >&2; exit 2; }
size=$1 out=$2
case $size in tiny | small | full | figures) ;; *) echo "study.sh: '$size' is no size; $usage" >&2; exit 2 ;; esac

program=${TALLSKETCH:-}
for build in cuda host; do
  [[ -n $program ]] || [[ ! -x $source_dir/build/$build/tallsketch ]] || program=$source_dir/build/$build/tallsketch
done
[[ $size == figures || -x $program ]] || { echo "study.sh: no program '$program'; build it, or set TALLSKETCH" >&2; exit 2; }
mkdir -p "$out"
if [[ $size != figures ]]; then
  there=$(cat "$out/.size" 2>/dev/null || echo "unknown size")
  if [[ $there != "$size" ]] && compgen -G "$out/*.csv" >/dev/null; then
    echo "study.sh: $out has results of $there, not of $size; use another folder, or remove its CSV files" >&2
    exit 2
  fi
  echo "$size" >"$out/.size"
fi

# study NAME TOPIC OPTIONS...: OUT/NAME.csv, by `tallsketch study TOPIC OPTIONS`
study() {
  local name=$1 topic=$2
  shift 2
  [[ $size != figures ]] || return 0
  if [[ -s $out/$name.csv ]]; then
    echo "$name: $out/$name.csv is there"
    return 0
  fi
  local start=$SECONDS
  # shellcheck disable=SC2086  # LAUNCH is a list of words
  ${LAUNCH:-} "$program" study "$topic" --quiet -o "$out/$name.csv.part" "$@"  # a study that fails may leave a part
  mv "$out/$name.csv.part" "$out/$name.csv"
  echo "$name: $((SECONDS - start)) s"
}

case $size in
  tiny)
    study geometry geometry --rows 1024 --cols 16 --coherence 0,1 --oversample 4 --zeta 1,4 --block-rows 16 --precision fp32,fp16 --seeds 2
    study coherence coherence --kind gaussian,coherent --rows 1024 --cols 16 --oversample 4 --zeta 1,4 --kappa 1,2 --block-nnz 1,2 \
      --block-rows 16 --repeats 1 --seeds 2
    study lstsq lstsq --rows 2048 --cols 16 --oversample 2,8 --zeta 1,4 --seeds 2
    study range range --rows 4096 --cols 16 --oversample 4 --power=-40,-20,0,20 --seeds 2
    ;;
  small)
    study geometry geometry --precision fp32,fp16
    study coherence coherence
    study lstsq lstsq
    study range range
    ;;
  full)
    study geometry geometry --rows 16384 --cols 256 --head random --sketch sparsestack,gaussian --oversample 2 --precision fp32,fp16
    study geometry_n1024 geometry --rows 16384 --cols 1024 --head random --coherence 0,1 --zeta 4 --sketch sparsestack,gaussian \
      --oversample 2 --precision fp32,fp16
    study coherence coherence --rows 131072 --cols 512 --rank 64 --kind gaussian,lowrank --sketch-rows 1024,2048,4096 --zeta 1,4 \
      --kappa 1,2,4 --block-nnz 2 --block-rows 128 --kernel auto,flash,spmm --no-coherence --seeds 5
    study coherence_16384 coherence --rows 16384 --cols 1024 --rank 64 --kind gaussian,lowrank --sketch-rows 64,512,2048,4096 --zeta 4 \
      --kappa 1,2,4 --block-nnz 2 --block-rows 64 --input-blocks interleaved --sketch sparsestack,blockperm,gaussian \
      --kernel auto,flash,spmm --no-coherence --seeds 3
    study lstsq lstsq --rows 2097152 --cols 1024 --zeta 1,4 --precision fp32,fp16,bf16 --method sketch-solve
    study lstsq_refine lstsq --rows 2097152 --cols 1024 --zeta 1,4 --hash permuted --precision fp32 --method refine --seeds 5
    study range range --rows 65536 --cols 256
    study range_permuted range --rows 65536 --cols 256 --hash permuted --rounding nearest
    ;;
esac

files=("$out"/*.csv)
[[ -e ${files[0]} ]] || { echo "study.sh: no CSV files in $out" >&2; exit 2; }
"${PYTHON:-/usr/bin/python3}" "$source_dir/drivers/plot_study.py" "${files[@]}" --out "$out"
