#include "src/open_source.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/file_source.h"
#include "src/host_threads.h"
#include "src/text.h"

namespace tallsketch {

OpenedSource open_source(const InputOptions& input, const SyntheticProblem& synthetic, const Communicator& comm,
                         const std::function<void()>& progressed) {
  if (!synthetic.kind) return {open_file_source(input, comm, progressed), {}};
  OpenedSource opened;
  comm.together([&] {
    auto source = std::make_unique<SyntheticSource>(synthetic, host_threads(comm));
    opened.x_true = source->x_true();
    opened.rows = std::move(source);
  });
  return opened;
}

std::string describe_source(const RowSource& source) {
  const ProblemShape& shape = source.shape();
  const SourceInfo& info = source.info();
  const auto files = static_cast<std::int64_t>(info.files.size());
  return fmt::format("A {} x {} {}, {}, b with {} column{}, {}, {}", shape.m, shape.n, info.dtype, info.layout, shape.r,
                     plural(shape.r), files > 0 ? fmt::format("{} file{}", files, plural(files)) : info.a_name,
                     info.io_mode);
}

std::string default_output(const InputOptions& input, const SyntheticProblem& synthetic, const std::string& ending) {
  if (synthetic.kind) return "synthetic" + ending;
  const std::filesystem::path path(input_paths(input).front());
  return (path.parent_path() / (path.stem().string() + ending)).string();
}

double relative_error(const std::vector<double>& x, const std::vector<double>& x_true) {
  double error = 0, size = 0;
  for (std::size_t j = 0; j < x_true.size(); ++j) {
    error = std::hypot(error, x[j] - x_true[j]);
    size = std::hypot(size, x_true[j]);
  }
  return error / size;
}

}  // namespace tallsketch
