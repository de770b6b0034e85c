#include "src/cuda_device.h"

#include <fstream>

#include <fmt/format.h>

#include "src/cuda_backend.h"
#include "src/cuda_handles.h"
#include "src/text.h"

namespace tallsketch {

std::string uuid_text(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

namespace {

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::string driver_version_text() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (file >> version) return version;
  int cuda = 0;
  check(cudaDriverGetVersion(&cuda));
  return "for CUDA " + cuda_version_text(cuda);
}

std::string cuda_runtime_text() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version));
  return cuda_version_text(version);
}

std::string links_text(int device) {
  const auto devices = static_cast<int>(visible_devices());
  int by_nvlink = 0, by_pcie = 0;
  for (int other = 0; other < devices; ++other) {
    if (other == device) continue;
    int peers = 0, atomics = 0;
    check(cudaDeviceCanAccessPeer(&peers, device, other));
    if (peers == 0) continue;
    // CUDA does not name the link, but PCIe carries no atomics between GPUs.
    check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device, other));
    ++(atomics != 0 ? by_nvlink : by_pcie);
  }
  std::string text = fmt::format("{} GPU{} visible", devices, plural(devices));
  if (by_nvlink > 0) text += fmt::format(", NVLink to {}", by_nvlink);
  if (by_pcie > 0) text += fmt::format(", PCIe peer access to {}", by_pcie);
  if (devices > 1 && by_nvlink + by_pcie == 0) text += ", no peer access";
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
