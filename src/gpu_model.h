// GpuModel: what predictions know of a kind of GPU, of its host and of the way between two of them. Pure data: a login node
// without a GPU has it too. Used by the cost model of the CUDA backend and by the scaling model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/strip_plan.h"
#include "src/link.h"

namespace tallsketch {

/// Between ranks of a node, by MPI from host memory, on machines with GPUs or without: measured; its rate is assumed.
inline constexpr Link kNodeMessages = {2e-6, 5e9};

struct GpuModel {
  const char* word = "";    // for --gpus
  const char* source = "";  // where the figures are from
  bool bulk_copies = true;  // TMA, and so the strip engine and the fused pass: compute capability 9.x
  cuda::DeviceLimits limits;
  // Bytes a second.
  double read_rate = 0;    // that a kernel reads
  double upload_rate = 0;  // over PCIe, from page-locked memory
  double lock_rate = 0;    // that host memory is page-locked
  double file_rate = 0;    // of files, a rank; assumed
  // An all-reduce by NCCL.
  Link link;                // NVLink: 2 (g - 1) / g bytes go over it
  double reduce_start = 0;  // seconds that no byte explains: counts compared, launch, polling
  // Operations a second, FP64.
  double gram_rate = 0;      // of A^T A
  double factor_rate = 0;    // of the Gram matrix of the sketch
  double cholesky_rate = 0;  // of its factorisation
  double qr_rate = 0;        // of QR of a sketch with up to 1024 columns, FP32
  // Bytes.
  double memory = 0;       // of the device
  double host_memory = 0;  // a rank's share; assumed
};

/// The GPU that the name says. Errors: kUsage, with the names that there are
const GpuModel& gpu_model(const std::string& word);

/// "h200", "h100", "a100"
std::vector<const char*> gpu_words();

}  // namespace tallsketch
