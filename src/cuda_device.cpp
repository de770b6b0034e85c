#include "src/cuda_device.h"

#include <fmt/format.h>

#include "src/cuda_backend.h"

namespace tallsketch {

std::string uuid_text(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

std::int64_t visible_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;  // count is untouched without a driver
  }
  return count;
}

}  // namespace tallsketch
