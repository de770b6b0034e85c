#include "src/environment.h"

#include <array>
#include <cstdlib>

namespace tallsketch {

namespace {

constexpr std::array kRecorded = {
    "OMP_NUM_THREADS",      "OMP_PROC_BIND",         "OMP_PLACES",         "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",      "CUDA_VISIBLE_DEVICES",  "NCCL_ALGO",          "NCCL_PROTO",
    "NCCL_IB_DISABLE",      "NCCL_P2P_DISABLE",      "SLURM_JOB_ID",       "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS",         "SLURM_RESTART_COUNT",   "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "OMPI_COMM_WORLD_SIZE", "HDF5_USE_FILE_LOCKING",
};

}  // namespace

std::vector<std::pair<std::string, std::string>> recorded_environment() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* const name : kRecorded) {
    if (const char* const value = std::getenv(name)) found.emplace_back(name, value);
  }
  return found;
}

}  // namespace tallsketch
