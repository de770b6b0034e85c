// What the rows of [A | b] come from, by the options: files, or a synthetic problem. Called by the drivers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/options.h"
#include "src/row_source.h"
#include "src/synthetic_source.h"

namespace tallsketch {

class Communicator;

struct OpenedSource {
  std::unique_ptr<RowSource> rows;
  std::vector<double> x_true;  // (n); empty where nobody knows it
};

/// Collective. Errors: those of the kind of source, kUsage for sizes that make no problem.
/// progressed  as for open_file_source: touches the caller's Watchdog
OpenedSource open_source(const InputOptions& input, const SyntheticProblem& synthetic, const Communicator& comm,
                         const std::function<void()>& progressed = {});

/// One line for people: "A 1000 x 20 float32, contiguous, b with 1 column, 2 files, mpio independent".
std::string describe_source(const RowSource& source);

/// Where results go unless it is said: <stem of the first FILE><ending> beside it, or synthetic<ending> in this folder.
std::string default_output(const InputOptions& input, const SyntheticProblem& synthetic, const std::string& ending);

/// ||x - x_true|| / ||x_true||.
double relative_error(const std::vector<double>& x, const std::vector<double>& x_true);

}  // namespace tallsketch
