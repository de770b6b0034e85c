// S and the rows that it covers as fields of JSON text, and back: the same in sketch files and in checkpoints. Pure.
// Used by sketch_file, checkpoint and checkpoint_keeper.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/choices.h"
#include "src/error.h"
#include "src/options.h"
#include "src/row_range.h"

namespace tallsketch {

/// The value of a word of a file. what  for the message: "'s.h5'". Errors: kInput
template <class E>
E value_of_word(const nlohmann::ordered_json& json, const char* field, const std::string& what) {
  const auto found = json.at(field).get<std::string>();
  for (const auto& [word, value] : words_of(E{})) {
    if (found == word) return value;
  }
  throw Error(ErrorKind::kInput, fmt::format("{} has the unknown {} '{}'", what, field, found));
}

/// Adds the options that S depends on beside its d: family, hash, seed, precision, rounding, check rows, and of zeta, kappa
/// and the blocks those that are said.
void add_sketch_fields(const SketchOptions& options, nlohmann::ordered_json& json);

/// Those options, the others at their defaults. Zeta is read of a sparsestack, kappa and the blocks of a blockperm.
/// Errors  kInput for words and numbers that no command line may have, naming the field; nlohmann's own for a field that is
///         missing or of another type
SketchOptions sketch_options_of(const nlohmann::ordered_json& json, const std::string& what);

/// [[begin, end], ...]; ranges are sorted, disjoint and not adjacent.
nlohmann::ordered_json json_of_rows(const std::vector<RowRange>& rows);
/// Errors  kInput where they are not
std::vector<RowRange> rows_of_json(const nlohmann::ordered_json& json, const std::string& what);

/// The powers of two that columns were scaled by. Errors: kInput beyond those of doubles
std::vector<int> exponents_of_json(const nlohmann::ordered_json& json, const std::string& what);

}  // namespace tallsketch
