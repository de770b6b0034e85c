# shellcheck shell=bash
# What the templates and scaling_study.sh share; sourced, with `set -euo pipefail`. Settings: site.env.

slurm_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s: %s\n' "${SLURM_JOB_NAME:-${0##*/}}" "$*" >&2; }
die() {
  say "$@"
  exit 2
}

# require_whole NAME TEXT LEAST: in plain digits; shell arithmetic would take x for a variable and 010 for 8.
require_whole() {
  if ! [[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]] || (($2 < $3)); then die "$1 '$2' is no whole number from $3 to 999999999"; fi
}

# Reads the site's settings, sets up modules, finds the program.
read_site() {
  local site=${TALLSKETCH_SITE:-$slurm_folder/site.env} candidate
  [[ -f $site ]] || die "no site file '$site' (TALLSKETCH_SITE)"
  # shellcheck source=slurm/site.env
  . "$site"
  require_whole TALLSKETCH_GPUS_PER_NODE "$TALLSKETCH_GPUS_PER_NODE" 0
  require_whole TALLSKETCH_RANKS_PER_NODE "$TALLSKETCH_RANKS_PER_NODE" 1
  [[ -z $TALLSKETCH_CPUS_PER_TASK ]] || require_whole TALLSKETCH_CPUS_PER_TASK "$TALLSKETCH_CPUS_PER_TASK" 1
  case $TALLSKETCH_BACKEND in auto | cuda | host) ;; *) die "TALLSKETCH_BACKEND '$TALLSKETCH_BACKEND' is none of auto, cuda, host" ;; esac
  set +u # module commands of many sites use unset variables
  tallsketch_setup || die "tallsketch_setup of $site failed"
  set -u
  if [[ -z $TALLSKETCH ]]; then
    # In the project's folder, or in DIR/share/tallsketch as `cmake --install` leaves them.
    for candidate in "${slurm_folder%/*}"/build/{cuda,host}/tallsketch "${slurm_folder%/share/tallsketch/slurm}/bin/tallsketch"; do
      # A cuda build is for GPUs; where there are none, the host build does.
      [[ -x $candidate && ($TALLSKETCH_BACKEND != host || $candidate != */cuda/*) ]] && break
      candidate=
    done
    TALLSKETCH=${candidate:-$(command -v tallsketch || true)}
  fi
  [[ -n $TALLSKETCH ]] || die "no tallsketch found; name it in $site (TALLSKETCH=/path/to/tallsketch)"
  [[ -x $TALLSKETCH ]] || die "TALLSKETCH='$TALLSKETCH' is no program"
}

# least_cores: of the nodes of this job; they need not be alike: SLURM_JOB_CPUS_PER_NODE is such as 64(x4),32.
least_cores() {
  local least="" count
  for count in ${SLURM_JOB_CPUS_PER_NODE//,/ }; do
    count=${count%%(*}
    [[ -n $least ]] && ((least <= count)) || least=$count
  done
  echo "$least"
}

# cores_per_rank: of a full node, so that a rank has as many in all runs of a study; 0 where there are fewer than ranks.
cores_per_rank() { echo "${TALLSKETCH_CPUS_PER_TASK:-$(($(least_cores) / TALLSKETCH_RANKS_PER_NODE))}"; }

# has_room RANKS: whether this job has nodes and cores for so many, one node filled after the other; else 2, and what is missing.
has_room() {
  local ranks=$1 per_node nodes
  per_node=$((TALLSKETCH_RANKS_PER_NODE <= ranks ? TALLSKETCH_RANKS_PER_NODE : ranks))
  nodes=$(((ranks + per_node - 1) / per_node))
  if ((nodes > SLURM_JOB_NUM_NODES)); then
    say "$ranks ranks, $per_node a node, need $nodes nodes, and this job has $SLURM_JOB_NUM_NODES: sbatch --nodes=$nodes"
    return 2
  fi
  if (($(cores_per_rank) == 0)); then
    say "$TALLSKETCH_RANKS_PER_NODE ranks a node, and this job has $(least_cores) cores there: keep --exclusive, or ask for more"
    return 2
  fi
}

# on_ranks RANKS ARGUMENTS...: runs tallsketch on so many ranks of this job and shows the command line. The exit code is the
# program's; 2 where the job is too small.
on_ranks() {
  local ranks=$1 per_node=$TALLSKETCH_RANKS_PER_NODE cpus nodes words
  shift
  has_room "$ranks" || return
  cpus=$(cores_per_rank)
  ((per_node <= ranks)) || per_node=$ranks
  nodes=$(((ranks + per_node - 1) / per_node))
  read -ra words <<<"$TALLSKETCH_LAUNCHER"
  # --cpus-per-task: srun does not take it from sbatch. --gpus-per-node and never --gpus-per-task or --gpu-bind: a rank
  # must see all GPUs of its node, or NCCL cannot copy between them; it takes the one of its node-local number.
  words+=("--nodes=$nodes" "--ntasks=$ranks" "--ntasks-per-node=$per_node" "--cpus-per-task=$cpus")
  ((TALLSKETCH_GPUS_PER_NODE == 0)) || words+=("--gpus-per-node=$TALLSKETCH_GPUS_PER_NODE")
  export OMP_NUM_THREADS=$cpus
  run_shown "${words[@]}" "$TALLSKETCH" "$@"
}

# Shows a command line as one would type it, and runs it.
run_shown() {
  {
    printf '+'
    printf ' %q' "$@"
    echo
  } >&2
  "$@"
}
