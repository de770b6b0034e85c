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

void check_outputs(const std::vector<std::string>& inputs, std::vector<OutputFile> outputs) {
  std::erase_if(outputs, [](const OutputFile& output) { return output.path.empty() || output.path == "-"; });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    for (const std::string& input : inputs) {
      require(!same_file(output.path, input), ErrorKind::kUsage,
              fmt::format("{} '{}' is an input; choose another name (an input is never replaced)", output.option,
                          output.path));
    }
    for (std::size_t j = 0; j < i; ++j) {
      require(!same_file(output.path, outputs[j].path), ErrorKind::kUsage,
              fmt::format("{} and {} are the same file '{}'", output.option, outputs[j].option, outputs[j].path));
    }
  }
  for (const OutputFile& output : outputs) const AtomicFile probe(output.path);
}

}  // namespace tallsketch
