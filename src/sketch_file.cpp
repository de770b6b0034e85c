#include "src/sketch_file.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/error.h"
#include "src/file_seal.h"
#include "src/hdf5_image.h"
#include "src/row_ranges.h"
#include "src/sketch_identity.h"
#include "src/sketch_json.h"
#include "src/text.h"
#include "src/version.h"
#include "src/word_hash.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr const char* kFormat = "tallsketch sketch";

ElementType stored_type(const SketchSpec& spec) {
  return spec.precision == SketchPrecision::kFp64 ? ElementType::kFloat64 : ElementType::kFloat32;
}

ElementType type_of_word(const std::string& word, const std::string& what) {
  for (const ElementType type :
       {ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16, ElementType::kBfloat16}) {
    if (word == to_word(type)) return type;
  }
  throw Error(ErrorKind::kInput, fmt::format("{} is of an A of the unknown type '{}'", what, word));
}

/// Fields of A, b and the rows, and whether they can be.
void parse_rows(const Json& json, const std::string& what, StoredSketch& sketch) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  sketch.n = json.at("n").get<std::int64_t>();
  sketch.r = json.at("r").get<std::int64_t>();
  const bool sizes = sketch.n >= 1 && sketch.r >= 1 && sketch.n <= kMost && sketch.r <= kMost;
  require(sizes, ErrorKind::kInput, fmt::format("{} claims n = {}, r = {}", what, sketch.n, sketch.r));
  sketch.a_type = type_of_word(json.at("dtype").get<std::string>(), what);
  sketch.rows = rows_of_json(json.at("rows"), what);
  require(!sketch.rows.empty(), ErrorKind::kInput, fmt::format("{} covers no rows", what));
  sketch.exponents = exponents_of_json(json.at("exponents"), what);
  require(sketch.exponents.empty() || std::ssize(sketch.exponents) == sketch.n + sketch.r, ErrorKind::kInput,
          fmt::format("{} has {} column exponents for {} columns", what, sketch.exponents.size(), sketch.n + sketch.r));
  sketch.files = json.at("files").get<std::vector<std::string>>();
}

/// S: as options, which are checked as those of a command line are. All that S depends on is said.
void parse_spec(const Json& json, const std::string& what, StoredSketch& sketch) {
  SketchOptions options = sketch_options_of(json, what);
  sketch.check_rows = json.at("check_rows").get<std::int64_t>();
  const auto d = json.at("d").get<std::int64_t>();
  require(d >= 1 && d <= kMaxSketchRows && sketch.check_rows < d, ErrorKind::kInput,
          fmt::format("{} claims d = {} with {} check rows", what, d, sketch.check_rows));
  options.sketch_rows = d - sketch.check_rows;
  const auto zeta = json.at("zeta").get<std::int64_t>();
  std::int64_t total_rows = 0;
  if (options.family == SketchFamily::kBlockPerm) {
    for (const char* const field : {"kappa", "block_nnz", "block_rows", "input_blocks"}) json.at(field);
    total_rows = json.at("total_rows").get<std::int64_t>();
  }
  const std::int64_t last = sketch.rows.back().end, m = total_rows > 0 ? total_rows : last;
  require(last <= m, ErrorKind::kInput, fmt::format("{} claims row {} of {}", what, last - 1, m));
  try {
    sketch.spec = make_sketch_spec({m, sketch.n, sketch.r, sketch.a_type}, options);
  } catch (const Error& e) {
    throw Error(ErrorKind::kInput, fmt::format("{} describes no legal sketch: {}", what, e.what()));
  }
  const bool same = sketch.spec.d == d && sketch.spec.zeta == zeta && sketch.spec.total_rows == total_rows;
  require(same, ErrorKind::kInput,
          fmt::format("{} contradicts itself: d = {}, zeta = {}, total_rows = {}, which would be {}, {}, {}", what, d,
                      zeta, total_rows, sketch.spec.d, sketch.spec.zeta, sketch.spec.total_rows));
}

/// b is in the file twice: sketched, and as its norm, which what is said of x is relative to.
void require_norms_of_b(const StoredSketch& sketch, const std::string& what) {
  // ||S b||^2 / ||b||^2 is about 1, and above 100 once in 1e22 sketches even of a single row (chi-squared, one degree).
  constexpr double kFar = 100, kLeast = 1e-280;  // below, squares of small numbers are no measure
  const auto cols = static_cast<std::size_t>(sketch.n + sketch.r), n = static_cast<std::size_t>(sketch.n);
  for (std::size_t k = 0; k < sketch.b_squares.size(); ++k) {
    const double claimed = sketch.b_squares[k];
    double sketched = 0;
    for (std::size_t at = n + k; at < sketch.sketch.size(); at += cols)
      sketched += sketch.sketch[at] * sketch.sketch[at];
    sketched /= sketch.spec.zeta;
    require(
        claimed >= 0 && sketched <= kFar * std::max(claimed, kLeast), ErrorKind::kInput,
        fmt::format("{} is corrupt: it claims ||b||^2 = {:.3g} for column {} of b, and its sketch says {:.3g}; make it "
                    "again",
                    what, claimed, k, sketched));
  }
}

}  // namespace

std::string checksum(const std::string& text, const std::vector<const std::vector<double>*>& values) {
  WordHash hash;
  for (const char c : text) hash.add(std::uint64_t{static_cast<unsigned char>(c)});
  for (const std::vector<double>* part : values) {
    for (const double value : *part) hash.add(value);
  }
  return fmt::format("{:016x}", hash.value());
}

std::string identity_json(const StoredSketch& sketch, const std::string& command_line) {
  Json json = {{"format", kFormat}, {"schema_version", kSchemaVersion}};
  add_sketch_fields(options_of(sketch), json);
  json["d"] = sketch.spec.d;
  json["zeta"] = sketch.spec.zeta;  // of a blockperm, too: kappa times block_nnz
  if (sketch.spec.family == SketchFamily::kBlockPerm) json["total_rows"] = sketch.spec.total_rows;
  json["n"] = sketch.n;
  json["r"] = sketch.r;
  json["dtype"] = to_word(sketch.a_type);
  json["rows"] = json_of_rows(sketch.rows);
  json["exponents"] = sketch.exponents;
  json["files"] = sketch.files;
  json["tool"] = {{"version", version_number()}, {"git", version_git()}};
  json["command_line"] = command_line;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StoredSketch parse_identity(const std::string& text, const std::string& what) {
  StoredSketch sketch;
  try {
    const Json json = Json::parse(text);
    require(json.at("format").get<std::string>() == kFormat, ErrorKind::kInput,
            fmt::format("{} is no sketch file: its format is '{}'", what, json.at("format").get<std::string>()));
    const auto version = json.at("schema_version").get<std::int64_t>();
    require(version == kSchemaVersion, ErrorKind::kInput,
            fmt::format("{} has schema_version {}; this tallsketch reads {}", what, version, kSchemaVersion));
    parse_rows(json, what, sketch);
    parse_spec(json, what, sketch);
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kInput, fmt::format("the identity of {} cannot be understood: {}", what, e.what()));
  }
  return sketch;
}

std::vector<std::byte> sketch_image(const StoredSketch& sketch, const std::string& command_line) {
  Hdf5Image image;
  const std::string identity = identity_json(sketch, command_line);
  image.add("/SA", sketch.sketch, sketch.spec.d, sketch.n + sketch.r, 2, stored_type(sketch.spec));
  image.add("/b_squares", sketch.b_squares, sketch.r, 1, 1);
  image.add_text("/identity", identity);
  image.add_attribute("/identity", "checksum", checksum(identity, {&sketch.sketch, &sketch.b_squares}));
  return sealed(image.bytes());
}

StoredSketch read_sketch(const std::string& path) {
  require_seal(path);
  const Hdf5File file = Hdf5File::open(path, nullptr);
  const std::string what = fmt::format("'{}'", path);
  require(file.has("/SA") && file.has("/identity") && file.has("/b_squares"), ErrorKind::kInput,
          fmt::format("{} is no sketch file: /SA, /b_squares or /identity is missing (tallsketch sketch writes them)",
                      what));
  const std::string identity = hdf5_text(file, "/identity");
  StoredSketch sketch = parse_identity(identity, what);
  sketch.sketch = hdf5_values(file, "/SA", sketch.spec.d, sketch.n + sketch.r, stored_type(sketch.spec));
  sketch.b_squares = hdf5_values(file, "/b_squares", sketch.r, 1, ElementType::kFloat64);
  const std::string stored = hdf5_text_attribute(file, "/identity", "checksum");
  const std::string found = checksum(identity, {&sketch.sketch, &sketch.b_squares});
  require(stored == found, ErrorKind::kInput,
          fmt::format("{} is corrupt: its checksum is {}, but says {}; make it again", what, found, stored));
  sketch.checksum = stored;
  const bool finite =
      std::all_of(sketch.sketch.begin(), sketch.sketch.end(), [](double v) { return std::isfinite(v); });
  require(finite, ErrorKind::kInput, fmt::format("/SA of {} has NaN or Inf", what));
  require_norms_of_b(sketch, what);
  return sketch;
}

}  // namespace tallsketch
