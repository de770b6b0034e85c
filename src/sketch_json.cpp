#include "src/sketch_json.h"

#include <optional>

#include "src/row_ranges.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t number_within(const Json& json, const char* field, std::int64_t least, std::int64_t most,
                           const std::string& what) {
  const auto value = json.at(field).get<std::int64_t>();
  require(value >= least && value <= most, ErrorKind::kInput, fmt::format("{} claims {} = {}", what, field, value));
  return value;
}

template <class T>
void read_if_said(const Json& json, const char* field, std::int64_t most, const std::string& what,
                  std::optional<T>& value) {
  if (json.contains(field)) value = static_cast<T>(number_within(json, field, 1, most, what));
}

}  // namespace

void add_sketch_fields(const SketchOptions& options, Json& json) {
  json["family"] = to_word(options.family);
  json["hash"] = to_word(options.hash);
  json["seed"] = options.seed;
  json["precision"] = to_word(options.precision);
  json["rounding"] = to_word(options.rounding);
  if (options.check_rows) json["check_rows"] = *options.check_rows;
  if (options.zeta) json["zeta"] = *options.zeta;
  if (options.kappa) json["kappa"] = *options.kappa;
  if (options.block_nnz) json["block_nnz"] = *options.block_nnz;
  if (options.block_rows) json["block_rows"] = *options.block_rows;
  if (options.input_blocks) json["input_blocks"] = to_word(*options.input_blocks);
}

SketchOptions sketch_options_of(const Json& json, const std::string& what) {
  SketchOptions options;
  options.family = value_of_word<SketchFamily>(json, "family", what);
  options.hash = value_of_word<SketchHash>(json, "hash", what);
  options.seed = json.at("seed").get<std::uint64_t>();
  options.precision = value_of_word<SketchPrecision>(json, "precision", what);
  options.rounding = value_of_word<SketchRounding>(json, "rounding", what);
  if (json.contains("check_rows")) options.check_rows = number_within(json, "check_rows", 0, kMaxSketchRows, what);
  if (options.family == SketchFamily::kBlockPerm) {
    read_if_said(json, "kappa", kMaxZeta, what, options.kappa);
    read_if_said(json, "block_nnz", kMaxZeta, what, options.block_nnz);
    read_if_said(json, "block_rows", kMaxDealRows, what, options.block_rows);
    if (json.contains("input_blocks")) options.input_blocks = value_of_word<InputBlocks>(json, "input_blocks", what);
  } else {
    read_if_said(json, "zeta", kMaxZeta, what, options.zeta);
  }
  return options;
}

std::vector<int> exponents_of_json(const Json& json, const std::string& what) {
  constexpr int kMost = 1100;  // beyond what doubles need; powers of two that are 0 or infinite would pass as converged
  auto exponents = json.get<std::vector<int>>();
  for (const int exponent : exponents) {
    require(exponent >= -kMost && exponent <= kMost, ErrorKind::kInput,
            fmt::format("{} claims a column scaled by 2^{}", what, exponent));
  }
  return exponents;
}

Json json_of_rows(const std::vector<RowRange>& rows) {
  Json json = Json::array();
  for (const RowRange& range : rows) json.push_back({range.begin, range.end});
  return json;
}

std::vector<RowRange> rows_of_json(const Json& json, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::vector<RowRange> rows;
  std::int64_t least = 0;
  for (const auto& range : json) {
    rows.push_back({range.at(0).get<std::int64_t>(), range.at(1).get<std::int64_t>()});
    const RowRange& last = rows.back();
    require(least <= last.begin && last.begin < last.end && last.end <= kMost, ErrorKind::kInput,
            fmt::format("{} claims the rows {}", what, describe(rows)));
    least = last.end + 1;
  }
  return rows;
}

}  // namespace tallsketch
