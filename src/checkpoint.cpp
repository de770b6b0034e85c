#include "src/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/error.h"
#include "src/file_seal.h"
#include "src/hdf5_image.h"
#include "src/row_ranges.h"
#include "src/sketch_file.h"
#include "src/sketch_json.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr const char* kFormat = "tallsketch checkpoint";

/// With all that S depends on, because a sketch file may have said it, and not the command line.
Json json_of(const Attempt& attempt) {
  const SketchOptions& sketch = attempt.sketch;
  Json json = {{"compression", attempt.compression == Compression::kGram ? "gram" : "sketch"},
               {"reduce", to_word(sketch.reduce)},
               {"oversample", sketch.oversample},
               {"sketch_rows", sketch.sketch_rows},
               {"automatic_d", attempt.automatic_d},
               {"d", attempt.fixed_rows},
               {"from_file", attempt.from_file}};
  add_sketch_fields(sketch, json);
  return json;
}

Attempt attempt_of(const Json& json, const std::string& what, const SketchOptions& asked) {
  Attempt attempt;
  attempt.sketch = sketch_options_of(json, what);
  attempt.compression = json.at("compression").get<std::string>() == "gram" ? Compression::kGram : Compression::kSketch;
  SketchOptions& sketch = attempt.sketch;
  sketch.scaling = asked.scaling;
  sketch.given = asked.given;
  sketch.reduce = value_of_word<ReducePrecision>(json, "reduce", what);
  sketch.oversample = json.at("oversample").get<double>();
  sketch.sketch_rows = json.at("sketch_rows").get<std::int64_t>();
  attempt.automatic_d = json.at("automatic_d").get<bool>();
  attempt.fixed_rows = json.at("d").get<std::int64_t>();
  attempt.from_file = json.at("from_file").get<bool>();
  const bool legal = attempt.fixed_rows >= 1 && attempt.fixed_rows <= kMaxSketchRows && sketch.sketch_rows >= 0 &&
                     sketch.sketch_rows <= kMaxSketchRows && sketch.oversample >= 0 && sketch.oversample <= 1e6;
  require(legal, ErrorKind::kInput,
          fmt::format("{} claims d = {}, oversample {}, sketch_rows {}", what, attempt.fixed_rows, sketch.oversample,
                      sketch.sketch_rows));
  return attempt;
}

/// A number that the run of a checkpoint says.
std::int64_t run_number(const Checkpoint& checkpoint, const std::string& name, const std::string& what) {
  for (const IdentityField& field : checkpoint.run) {
    std::int64_t number = 0;
    const char* const end = field.value.data() + field.value.size();
    if (field.name == name && std::from_chars(field.value.data(), end, number).ptr == end) return number;
  }
  throw Error(ErrorKind::kInput, fmt::format("the run of {} does not say its {}", what, name));
}

std::int64_t sketch_rows(const Checkpoint& checkpoint, std::int64_t cols) {
  return checkpoint.attempt.compression == Compression::kGram ? cols : checkpoint.attempt.fixed_rows;
}

/// All values that are stored, for the checksum.
std::string checksum_of(const std::string& text, const Checkpoint& checkpoint) {
  std::vector<const std::vector<double>*> values = {&checkpoint.sketch, &checkpoint.b_squares};
  for (const LoggedPass& pass : checkpoint.passes) {
    values.push_back(&pass.sums.gradient);
    values.push_back(&pass.sums.residual_squares);
  }
  return checksum(text, values);
}

/// A Gram matrix has ||b||^2 on its diagonal, which is stored, too, and no negative number there. What is not finite stays: that
/// of A and b is told with its place, once the pass is complete.
void require_norms(const Checkpoint& checkpoint, std::int64_t cols, const std::string& what) {
  const auto r = std::ssize(checkpoint.b_squares);
  constexpr double kSame = 1e-6;  // the same squares, in another order
  for (std::int64_t k = 0; k < r; ++k) {
    const double claimed = checkpoint.b_squares[static_cast<std::size_t>(k)];
    bool right = !(claimed < 0);
    if (checkpoint.attempt.compression == Compression::kGram && std::isfinite(claimed)) {
      const std::int64_t j = cols - r + k;
      const double summed = checkpoint.sketch[static_cast<std::size_t>(j * cols + j)];
      right = right && (!std::isfinite(summed) || std::abs(summed - claimed) <= kSame * claimed);
    }
    require(
        right, ErrorKind::kInput,
        fmt::format("{} is corrupt: ||b||^2 = {:.9g} of column {} of b is not what it has summed; remove it to start "
                    "from the beginning",
                    what, claimed, k));
  }
}

}  // namespace

std::string question_of(const std::vector<double>& x, bool with_b) { return checksum(with_b ? "b" : "0", {&x}); }

std::string checkpoint_json(const Checkpoint& checkpoint) {
  Json json = {{"format", kFormat}, {"schema_version", kSchemaVersion}};
  json["run"] = Json::array();
  for (const IdentityField& field : checkpoint.run) json["run"].push_back({field.name, field.value});
  json["attempt"] = json_of(checkpoint.attempt);
  json["exponents"] = checkpoint.exponents;
  json["rows"] = json_of_rows(checkpoint.rows);
  json["b_columns"] = checkpoint.b_squares.size();
  json["passes"] = Json::array();
  for (const LoggedPass& pass : checkpoint.passes) json["passes"].push_back(pass.question);
  json["warnings"] = checkpoint.warnings;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Checkpoint parse_checkpoint(const std::string& text, const std::string& what, const SketchOptions& sketch,
                            std::int64_t most_columns) {
  Checkpoint checkpoint;
  try {
    const Json json = Json::parse(text);
    require(json.at("format").get<std::string>() == kFormat, ErrorKind::kInput,
            fmt::format("{} is no checkpoint: its format is '{}'", what, json.at("format").get<std::string>()));
    const auto version = json.at("schema_version").get<std::int64_t>();
    require(version == kSchemaVersion, ErrorKind::kInput,
            fmt::format("{} has schema_version {}; this tallsketch reads {}", what, version, kSchemaVersion));
    for (const auto& field : json.at("run")) {
      checkpoint.run.push_back({field.at(0).get<std::string>(), field.at(1).get<std::string>()});
    }
    checkpoint.attempt = attempt_of(json.at("attempt"), what, sketch);
    checkpoint.exponents = exponents_of_json(json.at("exponents"), what);
    checkpoint.rows = rows_of_json(json.at("rows"), what);
    const auto columns = json.at("b_columns").get<std::int64_t>();
    require(columns >= 1 && columns <= most_columns, ErrorKind::kInput,
            fmt::format("{} claims {} columns of b", what, columns));
    checkpoint.b_squares.resize(static_cast<std::size_t>(columns));
    for (const auto& question : json.at("passes")) checkpoint.passes.push_back({question.get<std::string>(), {}});
    checkpoint.warnings = json.at("warnings").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kInput, fmt::format("the identity of {} cannot be understood: {}", what, e.what()));
  }
  return checkpoint;
}

std::vector<std::byte> checkpoint_image(const Checkpoint& checkpoint) {
  Hdf5Image image;
  const auto r = static_cast<std::int64_t>(checkpoint.b_squares.size());
  const auto elements = static_cast<std::int64_t>(checkpoint.sketch.size());
  // A Gram matrix is square; of a sketch the number of rows is known.
  const std::int64_t rows = checkpoint.attempt.compression == Compression::kGram
                                ? static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(elements))))
                                : checkpoint.attempt.fixed_rows;
  image.add("/sketch", checkpoint.sketch, rows, elements / rows, 2);
  image.add("/b_squares", checkpoint.b_squares, r, 1, 1);
  if (!checkpoint.passes.empty()) {
    std::vector<double> sums;
    for (const LoggedPass& pass : checkpoint.passes) {
      sums.insert(sums.end(), pass.sums.gradient.begin(), pass.sums.gradient.end());
      sums.insert(sums.end(), pass.sums.residual_squares.begin(), pass.sums.residual_squares.end());
    }
    const auto count = static_cast<std::int64_t>(checkpoint.passes.size());
    image.add("/pass_sums", sums, count, static_cast<std::int64_t>(sums.size()) / count, 2);
  }
  const std::string text = checkpoint_json(checkpoint);
  image.add_text("/identity", text);
  image.add_attribute("/identity", "checksum", checksum_of(text, checkpoint));
  return sealed(image.bytes());
}

Checkpoint read_checkpoint(const std::string& path, const SketchOptions& sketch) {
  require_seal(path);
  const Hdf5File file = Hdf5File::open(path, nullptr);
  const std::string what = fmt::format("'{}'", path);
  require(file.has("/sketch") && file.has("/identity") && file.has("/b_squares"), ErrorKind::kInput,
          fmt::format("{} is no checkpoint: /sketch, /b_squares or /identity is missing", what));
  const std::string text = hdf5_text(file, "/identity");
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(double));
  Checkpoint checkpoint = parse_checkpoint(text, what, sketch, std::min(kMaxSketchRows, file.input().bytes() / kWord));
  const auto r = static_cast<std::int64_t>(checkpoint.b_squares.size());
  const std::int64_t n = run_number(checkpoint, "n", what), cols = n + r;
  const bool sizes = n >= 1 && cols <= kMaxSketchRows && r == run_number(checkpoint, "r", what);
  require(sizes, ErrorKind::kInput, fmt::format("{} claims n = {} and {} columns of b", what, n, r));
  const std::vector<int>& exponents = checkpoint.exponents;
  require(exponents.empty() || std::ssize(exponents) == cols, ErrorKind::kInput,
          fmt::format("{} has {} column exponents for {} columns", what, exponents.size(), cols));
  checkpoint.sketch = hdf5_values(file, "/sketch", sketch_rows(checkpoint, cols), cols, ElementType::kFloat64);
  checkpoint.b_squares = hdf5_values(file, "/b_squares", r, 1, ElementType::kFloat64);
  if (!checkpoint.passes.empty()) {
    const auto count = static_cast<std::int64_t>(checkpoint.passes.size());
    const std::vector<double> sums = hdf5_values(file, "/pass_sums", count, n * r + r, ElementType::kFloat64);
    auto from = sums.begin();
    for (LoggedPass& pass : checkpoint.passes) {
      pass.sums.gradient.assign(from, from + n * r);
      pass.sums.residual_squares.assign(from + n * r, from + n * r + r);
      from += n * r + r;
    }
  }
  const std::string stored = hdf5_text_attribute(file, "/identity", "checksum"), found = checksum_of(text, checkpoint);
  require(stored == found, ErrorKind::kInput,
          fmt::format("{} is corrupt: its checksum is {}, but says {}; remove it to start from the beginning", what,
                      found, stored));
  require_norms(checkpoint, cols, what);
  return checkpoint;
}

namespace {

/// What of a long text differs from another: from the word before the first difference on.
std::string excerpt(const std::string& text, const std::string& other) {
  constexpr std::size_t kShort = 100;
  if (text.size() <= kShort && other.size() <= kShort) return text;
  const auto [at, unused] = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  std::size_t begin = static_cast<std::size_t>(at - text.begin());
  for (int words = 0; begin > 0 && words<2; words += begin> 0 && text[begin - 1] == ' ' ? 1 : 0) --begin;
  const std::size_t end = std::min(text.size(), begin + kShort);
  return (begin > 0 ? "... " : "") + text.substr(begin, end - begin) + (end < text.size() ? " ..." : "");
}

}  // namespace

void require_same_run(const Checkpoint& stored, const std::vector<IdentityField>& now, const std::string& path) {
  for (std::size_t i = 0; i < std::min(stored.run.size(), now.size()); ++i) {
    const IdentityField &was = stored.run[i], &is = now[i];
    require(was.name == is.name, ErrorKind::kUsage,
            fmt::format(
                "'{}' is of another command or version of tallsketch: it tells '{}' where this run has '{}'; remove "
                "it to start from the beginning",
                path, was.name, is.name));
    require(
        was.value == is.value, is.name.starts_with("input") ? ErrorKind::kInput : ErrorKind::kUsage,
        fmt::format("'{}' is of another run: {} was '{}' there, and is '{}' now; repeat the run as it was, or remove "
                    "the checkpoint to start from the beginning",
                    path, is.name, excerpt(was.value, is.value), excerpt(is.value, was.value)));
  }
  require(
      stored.run.size() == now.size(), ErrorKind::kUsage,
      fmt::format("'{}' is of another command or version of tallsketch: it tells {} things of a run, not {}; remove it "
                  "to start from the beginning",
                  path, stored.run.size(), now.size()));
}

}  // namespace tallsketch
