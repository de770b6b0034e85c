#include "src/option_kinds.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace tallsketch {

// CLI11 alone would take "-1" for 2^64 - 1, and what is too large for the largest.
std::string check_seed(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "'" + text + "' is no whole number of 0 to 2^64 - 1";
}

/// "1.5G" as "1500000000"; empty where there is no fraction, or no whole number of bytes.
std::string without_fraction(const std::string& given) {
  const std::size_t digits = std::min(given.find_first_not_of("0123456789."), given.size());
  const std::string number = given.substr(0, digits);
  std::string unit = "1" + given.substr(digits);
  if (std::count(number.begin(), number.end(), '.') != 1 || unit == "1" || !CLI::AsSizeValue(true)(unit).empty())
    return "";
  const double bytes = std::strtod(number.c_str(), nullptr) * std::strtod(unit.c_str(), nullptr);
  constexpr double kExact = 0x1p53;
  return bytes <= kExact && bytes == std::floor(bytes) ? std::to_string(static_cast<std::int64_t>(bytes)) : "";
}

CLI::Validator size_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::string given = text;
        const std::string problem =
            "'" + given + "' is no size: a number of 0 to 2^63 - 1, and k, M, G, KiB, MiB or GiB";
        std::int64_t bytes = 0;
        if (given.empty() || given[0] < '0' || given[0] > '9') return problem;
        if (const std::string whole = without_fraction(given); !whole.empty()) text = whole;
        try {
          if (!CLI::AsSizeValue(true)(text).empty()) return problem;
        } catch (const CLI::Error&) {  // of what does not even begin as a whole number
          return problem;
        }
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
        return error == std::errc() && end == text.data() + text.size() ? "" : problem;
      },
      "");
}

std::string check_begins_with_digit(const std::string& text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9' ? "" : "'" + text + "' does not begin with a number";
}

// CLI::Range lets NaN through.
CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool good = !text.empty() && *end == '\0' && value >= least && value <= most;
        return good ? "" : fmt::format("'{}' is no number from {:g} to {:g}", text, least, most);
      },
      fmt::format("[{:g} - {:g}]", least, most));
}

std::string check_ratio(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const bool good = used == text.size() && std::isfinite(value) && value > 1 && value <= 1e6;
  return good ? "" : "'" + text + "' is no number above 1 (at most 1e6)";
}

std::string check_oversample(const std::string& text) {
  return text == "auto" || check_ratio(text).empty()
             ? ""
             : "'" + text + "' is neither auto nor a number above 1 (at most 1e6)";
}

std::string check_tolerance(const std::string& text) {
  if (text == "auto") return "";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool good = end == text.c_str() + text.size() && value > 0 && value < 1;
  return good ? "" : "'" + text + "' is neither auto nor a number above 0 and below 1";
}

void add_block_options(CLI::App& app, std::optional<int>& block_nnz, std::optional<std::int64_t>& block_rows) {
  app.add_option("--block-nnz", block_nnz, "blockperm: nonzeros of S in each of those blocks (default: 2)")
      ->check(CLI::Range(1, kMaxZeta));
  app.add_option("--block-rows", block_rows, "blockperm: sketch rows of a block (default: 128)")
      ->check(CLI::Range(std::int64_t{1}, kMaxDealRows));
}

CLI::Option* add_seconds(CLI::App& app, const std::string& name, double& seconds, const std::string& help) {
  return app.add_option(name, seconds, help)
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_INSENSITIVE, "s"))
      ->transform(CLI::Validator([](std::string& text) { return check_begins_with_digit(text); }, ""))
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str()
      ->type_name("TIME[s|m|h]");
}

CLI::Option* add_oversample(CLI::App& app, double& ratio) {
  return app
      .add_option_function<std::string>(
          "--oversample", [&ratio](const std::string& text) { ratio = text == "auto" ? 0 : std::stod(text); },
          "d = R n, rounded up to a multiple of 16 zeta, or of --block-rows; auto: 2 for sketch-solve, but at least "
          "960 "
          "rows; for refine what the cost model expects to be fastest (default: auto)")
      ->type_name("auto|R")
      ->check(check_oversample);
}

void add_tolerance(CLI::App& app, double& tolerance) {
  app.add_option_function<std::string>(
         "--tol", [&tolerance](const std::string& text) { tolerance = text == "auto" ? 0 : std::stod(text); },
         "refine: backward error of the column-scaled problem relative to ||A||_F; auto: 1e-15 for float64 data, "
         "1e-12 for narrower (default: auto)")
      ->type_name("auto|T")
      ->check(check_tolerance);
}

void add_scaling_option(CLI::App& app, ScalingChoice& scaling) {
  add_choice(
      app, "--scaling", scaling,
      "column scaling by powers of two: before an fp16 sketch and, in solve, where data leave the sketch's range");
}

void add_backend_choice(CLI::App& app, RunOptions& options) {
  add_choice(app, "--backend", options.backend, "where to compute; auto: cuda where every rank sees a GPU");
}

void add_sketch_seeds(CLI::App& app, std::uint64_t& seed, int& seeds) {
  app.add_option("--seed", seed, "first seed of the sketches, 64 bits")->capture_default_str()->check(check_seed);
  app.add_option("--seeds", seeds, "sketches of each case: seed, seed + 1, ...")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
}

}  // namespace tallsketch
