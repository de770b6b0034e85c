// What is asked of GPUs before there is work for them. Called by cuda_backend.
#pragma once

#include <string>

#include <cuda_runtime.h>

namespace tallsketch {

/// "GPU-" and 32 digits, as nvidia-smi prints it.
std::string uuid_text(const cudaDeviceProp& properties);

}  // namespace tallsketch
