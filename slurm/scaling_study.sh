#!/usr/bin/env bash
# Strong and weak scaling over a list of rank counts: one JSON file a run, for plot_scaling.py.
# Inside a Slurm job (salloc, sbatch; scaling_array.sbatch) and on a machine without Slurm alike.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: slurm/scaling_study.sh [OPTIONS] [-- OPTIONS OF TALLSKETCH...]
Solves made-up problems (nothing is stored) on each number of ranks.
  --ranks "1 2 4"         numbers of ranks, in plain digits
  --rows M                strong scaling: rows of A, whatever the number of ranks
  --rows-per-rank M       weak scaling: rows of A for each rank; both may be given (default: 1M of both)
  --cols N                columns of A (default: 64)
  --what WHAT             refine: to the accuracy of a direct solver (default) | sketch-solve: one pass, then a small problem |
                          sketch: the pass alone
  --resident              rows are made in the memory of the GPU (or host) by `tallsketch bench solve`: measures GPUs and
                          network without making and uploading rows; options after -- are those of bench solve
  --repeats K             runs of each case (default: 3); with --resident each is the best of five solves in one process
  --backend B             cuda | host | auto (default: by site.env)
  --launcher "mpirun -n"  command that starts RANKS ranks as LAUNCHER RANKS PROGRAM (default: srun by site.env inside a
                          Slurm job, else mpirun --bind-to none -n)
  --out DIR               folder of the results (default: scaling); results that are there are not measured again;
                          sizes, options, backend, launcher, ranks of a node, threads and version must be those of DIR/settings
  --force                 measure these runs again
Results: DIR/strong.ranks-0004.run-01.json and so on. Then: slurm/plot_scaling.py DIR
Exit code: 0; 1 where a run failed: it is named, its output is kept in DIR/failed, the other runs of its case are skipped,
other cases go on; 2 for wrong use, or where so many ranks cannot be started: nothing is measured; 9 where DIR cannot be written
TEXT
}

slurm_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=slurm/job.sh
. "$slurm_scripts/job.sh"

ranks_list="1 2 4" rows="" rows_per_rank="" cols=64 what=refine resident=0 repeats=3 backend="" launcher="" out=scaling
force=0
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --resident | --force) printf -v "${1#--}" 1 ;;
    --)
      shift
      break
      ;;
    --ranks | --rows | --rows-per-rank | --cols | --what | --repeats | --backend | --launcher | --out)
      (($# >= 2)) || die "$1 needs a value (--help)"
      name=${1#--}
      [[ $name == ranks ]] && name=ranks_list
      printf -v "${name//-/_}" %s "$2"
      shift
      ;;
    *) die "unknown option '$1' (--help; options of tallsketch come after --)" ;;
  esac
  shift
done

most_rows=281474976710656 most_cols=16777216 # 2^48, 2^24: of problems that tallsketch makes
# size NAME TEXT MOST: a positive whole number; k, M and G are 10^3, 10^6, 10^9.
size() {
  local digits=${2%[kMG]} factor=1
  [[ $digits =~ ^[1-9][0-9]{0,17}$ ]] || die "$1 '$2' is no positive whole number below 10^18 (k, M, G may follow)"
  case $2 in *k) factor=1000 ;; *M) factor=1000000 ;; *G) factor=1000000000 ;; esac
  ((digits <= $3 / factor)) || die "$1 '$2' is more than $3"
  echo $((digits * factor))
}

read -ra counts <<<"${ranks_list//,/ }"
((${#counts[@]})) || die "--ranks is empty"
for count in "${counts[@]}"; do require_whole --ranks "$count" 1; done
doubled=$(printf '%s\n' "${counts[@]}" | sort -n | uniq -d)
[[ -z $doubled ]] || die "--ranks '$ranks_list' names ${doubled//$'\n'/, } twice"
most=$(printf '%s\n' "${counts[@]}" | sort -n | tail -n 1)
[[ -n $rows || -n $rows_per_rank ]] || rows=1M rows_per_rank=1M
[[ -z $rows ]] || rows=$(size --rows "$rows" $most_rows)
[[ -z $rows_per_rank ]] || rows_per_rank=$(size --rows-per-rank "$rows_per_rank" $((most_rows / most)))
cols=$(size --cols "$cols" $most_cols)
require_whole --repeats "$repeats" 1
# bench solve takes bytes of float32 for rows.
most_bytes=9223372036854775807
((!resident || (${rows:-0} <= most_bytes / 4 / cols && ${rows_per_rank:-0} <= most_bytes / 4 / cols / most))) ||
  die "--resident: so many rows of --cols $cols are more than $most_bytes bytes"
case $what in refine | sketch-solve | sketch) ;; *) die "--what '$what' is none of refine, sketch-solve, sketch" ;; esac
case $backend in '' | auto | cuda | host) ;; *) die "--backend '$backend' is none of auto, cuda, host" ;; esac

read_site
if [[ -z $launcher && -n ${SLURM_JOB_ID:-} ]]; then
  by_srun=1 ranks_per_node=$TALLSKETCH_RANKS_PER_NODE
  has_room "$most" || exit
  threads=$(cores_per_rank)
else
  by_srun=0 ranks_per_node="" # the launcher's business
  launcher=${launcher:-mpirun --bind-to none -n}
  if [[ -z ${OMP_NUM_THREADS:-} ]]; then
    # As many for a rank in all runs; without this, fewer ranks would have more each.
    export OMP_NUM_THREADS=$(($(nproc) > most ? $(nproc) / most : 1))
    echo "OMP_NUM_THREADS=$OMP_NUM_THREADS, for all runs (set it to choose)"
  fi
  require_whole OMP_NUM_THREADS "$OMP_NUM_THREADS" 1
  threads=$OMP_NUM_THREADS
fi
backend=${backend:-$TALLSKETCH_BACKEND}

# start RANKS ARGUMENTS...
start() {
  local ranks=$1 words
  if ((by_srun)); then
    on_ranks "$@"
    return
  fi
  read -ra words <<<"$launcher"
  run_shown "${words[@]}" "$ranks" "$TALLSKETCH" "${@:2}"
}

scratch=$(mkdir -p "$out" && mktemp -d "$out/.run.XXXXXX") || {
  say "cannot write to the folder '$out' (--out)"
  exit 9
}
running=0
finish() {
  ((!running)) || cat "$scratch/log" >&2 # stopped in the middle of a run: its words would be lost
  rm -rf "$scratch"
}
trap finish EXIT

# Asked for by the launcher: a program of Open MPI that srun has not started may refuse to run inside a job. On the most
# ranks: a launcher that cannot start so many says it now, not after hours of smaller runs.
version=$(start "$most" --version 2>"$scratch/log" | grep '^tallsketch ') || {
  cat "$scratch/log" >&2
  hint=""
  ((by_srun || most <= $(nproc))) || hint=" More ranks than the $(nproc) cores here, for trying only: --launcher 'mpirun --oversubscribe --bind-to none -n'"
  die "'$TALLSKETCH --version' failed on $most ranks: nothing is measured.$hint"
}
# One folder, one study: other sizes, threads or programs would be compared with these as if they were the same.
settings="what=$what rows=$rows rows-per-rank=$rows_per_rank cols=$cols backend=$backend resident=$resident threads=$threads"
settings+=" ranks-per-node=$ranks_per_node launcher=${launcher:-$TALLSKETCH_LAUNCHER} version=${version#tallsketch } options=${*@Q}"
# A folder without a result is no study yet.
has_results() { compgen -G "$out/strong.*.json" >/dev/null || compgen -G "$out/weak.*.json" >/dev/null; }
if [[ -f $out/settings && $(<"$out/settings") != "$settings" ]] && has_results; then
  die "$out holds another study: choose another --out, or go on with the same settings (threads: OMP_NUM_THREADS, by srun TALLSKETCH_CPUS_PER_TASK)
  there: $(<"$out/settings")
  now:   $settings"
fi
printf '%s\n' "$settings" >"$scratch/settings"
mv "$scratch/settings" "$out/settings"

# measure RANKS ROWS RESULT OPTIONS...: the program's exit code; RESULT is there only after 0. Everything else that is said
# goes to standard output.
measure() {
  local ranks=$1 m=$2 result=$3
  shift 3
  if ((resident)); then
    local route=refine bytes=$((m * cols * 4 / ranks))
    [[ $what == refine ]] || route=sketch-cholesky
    # The result is a line of standard output; launchers may add theirs.
    start "$ranks" bench solve --route "$route" --cols "$cols" --bytes "$bytes" --repeats 5 --backend "$backend" "$@" >"$scratch/out" ||
      return
    grep '^{' "$scratch/out" >"$result"
    return
  fi
  local command=(solve --method "$what" -o "$scratch/x.h5")
  [[ $what == sketch ]] && command=(sketch -o "$scratch/s.h5")
  start "$ranks" "${command[@]}" --kind uniform --rows "$m" --cols "$cols" --backend "$backend" --report "$result" --quiet "$@"
}

failed=() measured=0 kept=0 skipped=0
# study NAME RANKS ROWS OPTIONS...: the runs of a case, up to the first that fails: the next would fail alike, perhaps after hours.
study() {
  local name=$1 ranks=$2 m=$3 run file code broken=""
  shift 3
  for ((run = 1; run <= repeats; ++run)); do
    file=$(printf '%s.ranks-%04d.run-%02d.json' "$name" "$ranks" "$run")
    if [[ -f $out/$file && ($force == 0 || -n $broken) ]]; then
      kept=$((kept + 1))
      continue
    fi
    if [[ -n $broken ]]; then
      echo "skipped: $file, as $broken failed"
      skipped=$((skipped + 1))
      continue
    fi
    rm -f "$out/$file"
    code=0 running=1
    measure "$ranks" "$m" "$scratch/$file" "$@" >"$scratch/log" 2>&1 || code=$?
    running=0
    grep -m 1 '^+ ' "$scratch/log" || true
    if ((code == 0)); then
      mv "$scratch/$file" "$out/$file"
      measured=$((measured + 1))
    else
      mkdir -p "$out/failed"
      mv "$scratch/log" "$out/failed/${file%.json}.log"
      # The program's own line, where there is one: launchers say more, and later.
      { grep -m 1 'tallsketch: error:' "$out/failed/${file%.json}.log" || tail -n 5 "$out/failed/${file%.json}.log"; } | sed 's/^/    /'
      echo "FAILED: $file, exit code $code; its output: $out/failed/${file%.json}.log"
      failed+=("$file")
      broken=$file
    fi
  done
}

for ranks in "${counts[@]}"; do
  [[ -z $rows ]] || study strong "$ranks" "$rows" "$@"
  [[ -z $rows_per_rank ]] || study weak "$ranks" $((rows_per_rank * ranks)) "$@"
done

echo "$out: $measured measured, $kept there before, ${#failed[@]} failed, $skipped skipped"
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
