#include "drivers/output_files.h"

#include <filesystem>

#include <fmt/format.h>

#include "src/atomic_file.h"
#include "src/error.h"

namespace tallsketch {

namespace {

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  // Absolute first: of a name that does not exist yet, weakly_canonical leaves "./" and the folder out.
  const auto resolved = [&](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(name, ignored), ignored);
  };
  return std::filesystem::equivalent(a, b, ignored) || resolved(a) == resolved(b);
}

}  // namespace

std::vector<std::string> input_files(const InputOptions& input) {
  std::vector<std::string> files;
  for (const std::string& file : input.files) files.push_back(parse_dataset_name(file).file);
  const DatasetName b = parse_dataset_name(input.b);
  if (!b.dataset.empty()) files.push_back(b.file);
  return files;
}

void check_outputs(const std::vector<std::string>& inputs, const std::string& name, const std::string& output,
                   const std::string& report) {
  const bool report_is_file = !report.empty() && report != "-";
  for (const std::string& input : inputs) {
    require(!same_file(output, input), ErrorKind::kUsage,
            fmt::format("{} '{}' is an input; choose another name (an input is never replaced)", name, output));
    require(!report_is_file || !same_file(report, input), ErrorKind::kUsage,
            fmt::format("--report '{}' is an input; choose another name (an input is never replaced)", report));
  }
  require(!report_is_file || !same_file(report, output), ErrorKind::kUsage,
          fmt::format("--report and {} are the same file '{}'", name, output));
  const AtomicFile probe(output);
  if (report_is_file) const AtomicFile report_probe(report);
}

}  // namespace tallsketch
