#include "src/stored_sketch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/choices.h"
#include "src/error.h"
#include "src/row_ranges.h"
#include "src/sketch_identity.h"
#include "src/text.h"

namespace tallsketch {

namespace {

bool is_block_perm(const SketchSpec& spec) { return spec.family == SketchFamily::kBlockPerm; }

/// "all 1", or the first that differs from `other`.
std::string describe_exponents(const std::vector<int>& exponents, const std::vector<int>& other) {
  if (exponents.empty()) return "none";
  for (std::size_t j = 0; j < exponents.size(); ++j) {
    const int against = j < other.size() ? other[j] : 0;
    if (exponents[j] != against) return fmt::format("2^{} in column {} of [A | b]", exponents[j], j);
  }
  return "the same";
}

}  // namespace

ProblemShape StoredSketch::shape() const { return {count_rows(rows), n, r, a_type}; }

SketchOptions options_of(const StoredSketch& sketch) {
  const SketchSpec& spec = sketch.spec;
  SketchOptions options;
  options.family = spec.family;
  options.hash = spec.hash;
  options.precision = spec.precision;
  options.rounding = spec.rounding;
  if (is_block_perm(spec)) {
    options.kappa = spec.kappa;
    options.block_nnz = spec.block_nnz;
    options.block_rows = spec.block_rows;
    options.input_blocks = spec.input_blocks;
  } else {
    options.zeta = spec.zeta;
  }
  options.check_rows = sketch.check_rows;
  options.sketch_rows = spec.d - sketch.check_rows;
  options.seed = spec.seed;
  return options;
}

std::vector<IdentityField> identity_fields(const StoredSketch& sketch) {
  const SketchSpec& spec = sketch.spec;
  std::vector<IdentityField> fields = {{"n", fmt::to_string(sketch.n)},
                                       {"r", fmt::to_string(sketch.r)},
                                       {"dtype of A", to_word(sketch.a_type)},
                                       {"family", to_word(spec.family)},
                                       {"hash", to_word(spec.hash)},
                                       {"d", fmt::to_string(spec.d)},
                                       {"check_rows", fmt::to_string(sketch.check_rows)},
                                       {"zeta", fmt::to_string(spec.zeta)},
                                       {"seed", fmt::to_string(spec.seed)},
                                       {"precision", to_word(spec.precision)},
                                       {"rounding", to_word(spec.rounding)}};
  if (is_block_perm(spec)) {
    fields.insert(fields.end(), {{"kappa", fmt::to_string(spec.kappa)},
                                 {"block_nnz", fmt::to_string(spec.block_nnz)},
                                 {"block_rows", fmt::to_string(spec.block_rows)},
                                 {"input_blocks", to_word(spec.input_blocks)},
                                 {"total_rows", fmt::to_string(spec.total_rows)}});
  }
  return fields;
}

void add(const StoredSketch& part, const std::string& part_name, const std::string& sum_name, StoredSketch& sum) {
  const std::vector<IdentityField> ours = identity_fields(sum), theirs = identity_fields(part);
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    require(ours[i].value == theirs[i].value, ErrorKind::kInput,
            fmt::format("'{}' and '{}' are different sketches: {} is {} and {}; make both with the same options",
                        sum_name, part_name, ours[i].name, ours[i].value, theirs[i].value));
  }
  require(sum.exponents == part.exponents, ErrorKind::kInput,
          fmt::format("columns of '{}' and '{}' were scaled by different powers of two, because values of A or b leave "
                      "the range of the sketch: {} and {}; make both with --precision fp64, or scale the columns",
                      sum_name, part_name, describe_exponents(sum.exponents, part.exponents),
                      describe_exponents(part.exponents, sum.exponents)));
  std::vector<RowRange> rows = sum.rows;
  rows.insert(rows.end(), part.rows.begin(), part.rows.end());
  const std::int64_t twice = row_given_twice(rows);
  require(twice < 0, ErrorKind::kInput,
          fmt::format("row {} is in '{}', which covers {}, and in '{}', which covers {}: its sketch would count twice",
                      twice, sum_name, describe(sum.rows), part_name, describe(part.rows)));
  sum.rows = joined_ranges(rows);
  // In the precision of the sketch, as ranks are summed.
  const bool narrow = sum.spec.precision != SketchPrecision::kFp64;
  for (std::size_t i = 0; i < sum.sketch.size(); ++i) {
    sum.sketch[i] = narrow ? static_cast<double>(static_cast<float>(sum.sketch[i]) + static_cast<float>(part.sketch[i]))
                           : sum.sketch[i] + part.sketch[i];
  }
  for (std::size_t k = 0; k < sum.b_squares.size(); ++k) sum.b_squares[k] += part.b_squares[k];
  sum.files.insert(sum.files.end(), part.files.begin(), part.files.end());
}

void require_no_contradiction(const SketchOptions& options, const StoredSketch& sketch, const std::string& name) {
  const SketchOptions stored = options_of(sketch);
  const auto compare = [&](const char* option, const std::string& asked, const std::string& has) {
    if (std::count(options.given.begin(), options.given.end(), option) == 0) return;
    require(asked == has, ErrorKind::kUsage,
            fmt::format("{} {} contradicts '{}', whose sketch has {}: leave the option out, or make another sketch",
                        option, asked, name, has));
  };
  const auto compare_number = [&](const char* option, const auto& asked, const auto& has) {
    compare(option, asked ? fmt::to_string(*asked) : "", has ? fmt::to_string(*has) : "none");
  };
  compare("--sketch", to_word(options.family), to_word(stored.family));
  compare_number("--zeta", options.zeta, stored.zeta);
  compare_number("--kappa", options.kappa, stored.kappa);
  compare_number("--block-nnz", options.block_nnz, stored.block_nnz);
  compare_number("--block-rows", options.block_rows, stored.block_rows);
  if (options.input_blocks) {
    compare("--input-blocks", to_word(*options.input_blocks),
            stored.input_blocks ? to_word(*stored.input_blocks) : "none");
  }
  compare("--hash", to_word(options.hash), to_word(stored.hash));
  compare("--precision", to_word(options.precision), to_word(stored.precision));
  compare("--rounding", to_word(options.rounding), to_word(stored.rounding));
  compare("--seed", fmt::to_string(options.seed), fmt::to_string(stored.seed));
  compare("--sketch-rows", fmt::to_string(options.sketch_rows), fmt::to_string(stored.sketch_rows));
  const auto count = [&](const char* option) { return std::count(options.given.begin(), options.given.end(), option); };
  if (count("--check-rows") > 0) {
    SketchOptions asked = stored;
    asked.check_rows = options.check_rows;
    compare("--check-rows", fmt::to_string(check_row_count(asked)), fmt::to_string(sketch.check_rows));
  }
  if (count("--oversample") > 0 && options.oversample > 0) {
    SketchOptions asked = stored;
    asked.sketch_rows = 0;
    asked.oversample = options.oversample;
    const SketchSpec spec = make_sketch_spec({sketch.rows.back().end, sketch.n, sketch.r, sketch.a_type}, asked);
    require(spec.d == sketch.spec.d, ErrorKind::kUsage,
            fmt::format("--oversample {} contradicts '{}': it gives d = {}, and the sketch has d = {}: leave the "
                        "option out, or make another sketch",
                        options.oversample, name, spec.d, sketch.spec.d));
  }
}

void require_same_b(const std::vector<double>& read, const std::vector<double>& stored, const std::string& name) {
  constexpr double kSame = 1e-6;  // sums of the same squares in another order agree to this; those of another b do not
  for (std::size_t k = 0; k < read.size(); ++k) {
    const double was = stored[k], is = read[k];
    const bool same = is == was || std::abs(is - was) <= kSame * std::abs(was) || !std::isfinite(was);
    require(same, ErrorKind::kInput,
            fmt::format("'{}' is the sketch of another b: ||b||^2 of its column {} is {:.9g}, and that of FILE {:.9g}",
                        name, k, was, is));
  }
}

void require_sketch_of(const ProblemShape& shape, const StoredSketch& sketch, const std::string& name) {
  require(sketch.n == shape.n && sketch.r == shape.r, ErrorKind::kUsage,
          fmt::format("the sketch of '{}' is of {} columns of A and {} of b, and FILE has {} and {}: it is of another "
                      "matrix",
                      name, sketch.n, sketch.r, shape.n, shape.r));
  const bool whole = sketch.rows.size() == 1 && sketch.rows.front().begin == 0 && sketch.rows.front().end == shape.m;
  require(
      whole, ErrorKind::kUsage,
      fmt::format("the sketch of '{}' covers the rows {}, and FILE has the rows [0, {}): give all FILEs that it was "
                  "made from, add the sketches of the other rows (sketch --merge), or leave FILE out to solve the "
                  "rows that are in it",
                  name, describe(sketch.rows), shape.m));
  require(sketch.spec.total_rows == 0 || sketch.spec.total_rows == shape.m, ErrorKind::kUsage,
          fmt::format("the sketch of '{}' has contiguous input blocks of a matrix of {} rows, and FILE has {}", name,
                      sketch.spec.total_rows, shape.m));
}

}  // namespace tallsketch
