#include "src/gpu_model.h"

#include <array>

#include <fmt/format.h>

#include "src/error.h"

namespace tallsketch {

namespace {

/// Measured (docs/scaling.md names the lines): an H200 SXM behind PCIe 5, two of them joined by NVLink.
constexpr GpuModel kH200 = {.word = "h200",
                            .source = "measured on one and two H200s",
                            .bulk_copies = true,
                            .limits = {},
                            .read_rate = 4.55e12,
                            .upload_rate = 53e9,
                            .lock_rate = 4e9,
                            .file_rate = 10e9,  // from the page cache it was 40e9, from disks and by HDF5 less
                            .link = {13e-6, 250e9},
                            .reduce_start = 25e-6,
                            .gram_rate = 62e12,
                            .factor_rate = 5.4e13,
                            .cholesky_rate = 3e13,
                            .qr_rate = 3e12,
                            .memory = 143771.0 * (1 << 20),
                            .host_memory = 128.0 * (1 << 30)};

/// The vendor's figures of a GPU, SXM parts.
struct Datasheet {
  double memory_rate, matrix_rate, link_rate, upload_rate;  // FP64 matrix units; NVLink and PCIe, one direction
};
constexpr Datasheet kH200Sheet = {4.8e12, 67e12, 450e9, 64e9};
constexpr Datasheet kH100Sheet = {3.35e12, 67e12, 450e9, 64e9};
constexpr Datasheet kA100Sheet = {2.039e12, 19.5e12, 300e9, 32e9};

/// A GPU that reaches the shares of its datasheet that an H200 reaches of its own.
/// mib  of memory, as nvidia-smi shows it: datasheets round it, by up to 7 %
constexpr GpuModel from_datasheet(const char* word, const char* source, const Datasheet& sheet, double mib) {
  const double matrix = sheet.matrix_rate / kH200Sheet.matrix_rate;
  GpuModel model = kH200;
  model.word = word;
  model.source = source;
  model.read_rate *= sheet.memory_rate / kH200Sheet.memory_rate;
  model.upload_rate *= sheet.upload_rate / kH200Sheet.upload_rate;
  model.link.rate *= sheet.link_rate / kH200Sheet.link_rate;
  model.gram_rate *= matrix;
  model.factor_rate *= matrix;
  model.cholesky_rate *= matrix;
  model.qr_rate *= matrix;
  model.memory = mib * (1 << 20);
  return model;
}

constexpr GpuModel make_a100() {
  GpuModel model = from_datasheet("a100", "from the datasheet of an A100 SXM 80 GB, not measured", kA100Sheet, 81920);
  model.bulk_copies = false;
  model.limits = {108, 163 << 10};
  return model;
}

constexpr std::array<GpuModel, 3> kModels = {
    kH200, from_datasheet("h100", "from the datasheet of an H100 SXM 80 GB, not measured", kH100Sheet, 81559),
    make_a100()};

}  // namespace

std::vector<const char*> gpu_words() {
  std::vector<const char*> words;
  for (const GpuModel& model : kModels) words.push_back(model.word);
  return words;
}

const GpuModel& gpu_model(const std::string& word) {
  for (const GpuModel& model : kModels) {
    if (word == model.word) return model;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("no figures of a GPU '{}'; known are {}", word, fmt::join(gpu_words(), ", ")));
}

}  // namespace tallsketch
