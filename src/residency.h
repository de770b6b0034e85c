// Residency: where rows of A are. Decided by the plan; used by backends and the cost model.
#pragma once

namespace tallsketch {

/// Where a rank's rows of A stay between passes.
enum class Residency { kDevice, kHost, kFile };
const char* to_word(Residency residency);

/// Where rows are, for predictions.
struct RowPlace {
  Residency residency = Residency::kFile;  // between passes
  bool read = false;                       // they are there already: nothing is read first
};

}  // namespace tallsketch
