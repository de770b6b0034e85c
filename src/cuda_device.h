// What is asked of GPUs before there is work for them. Called by cuda_backend.
#pragma once

#include <string>

#include <cuda_runtime.h>

namespace tallsketch {

/// "GPU-" and 32 digits, as nvidia-smi prints it.
std::string uuid_text(const cudaDeviceProp& properties);

/// Of the kernel driver, "580.159.04"; where the system does not tell, the CUDA version that it is for.
std::string driver_version_text();

/// How a device reaches the others that this process can see: "4 GPUs visible, NVLink to 3". Devices that the launcher hides
/// from a rank cannot be told of.
std::string links_text(int device);

/// "13.0"
std::string cuda_runtime_text();

}  // namespace tallsketch
