// The kinds of command-line options that CLI11 has not: choices by word, lists of them, checked numbers and sizes.
// Included by options*.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include "src/choices.h"
#include "src/options.h"

namespace tallsketch {

template <class E>
std::string joined(const Words<E>& words, const char* between) {
  std::string list;
  for (const auto& [word, value] : words) list += (list.empty() ? "" : between) + std::string(word);
  return list;
}

/// The value of a word. Errors: CLI::ValidationError that names option, word and the legal ones
template <class E>
E value_of(const std::string& option, const std::string& given, const Words<E>& words) {
  for (const auto& [word, value] : words) {
    if (given == word) return value;
  }
  throw CLI::ValidationError(option, "'" + given + "' is not one of " + joined(words, "|"));
}

/// An option whose words map to values; --help lists the words.
/// target  an E, which holds the default, or what takes one: then the first word is the default
template <class E, class Target>
void add_choice(CLI::App& app, const std::string& name, Target& target, const Words<E>& words,
                const std::string& help) {
  std::string chosen = words.front().first;
  if constexpr (std::is_same_v<E, Target>) {
    for (const auto& [word, value] : words) {
      if (value == target) chosen = word;
    }
  }
  app.add_option_function<std::string>(
         name, [&target, name, words](const std::string& given) { target = value_of(name, given, words); },
         help + " (default: " + chosen + ")")
      ->type_name(joined(words, "|"));
}
template <class E>
void add_choice(CLI::App& app, const std::string& name, E& target, const std::string& help) {
  add_choice(app, name, target, words_of(E{}), help);
}

/// The same for a list, separated by commas. target  holds the default
template <class E>
void add_list(CLI::App& app, const std::string& name, std::vector<E>& target, const Words<E>& words,
              const std::string& help = "") {
  std::string defaults;
  for (const E value : target) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) defaults += (defaults.empty() ? "" : ",") + std::string(word);
    }
  }
  app.add_option_function<std::vector<std::string>>(
         name,
         [&target, name, words](const std::vector<std::string>& given) {
           target.clear();
           for (const std::string& word : given) target.push_back(value_of(name, word, words));
         },
         joined(words, ", ") + ": a list" + (help.empty() ? "" : "; " + help) + " (default: " + defaults + ")")
      ->delimiter(',')
      ->type_name("LIST");
}
template <class E>
void add_list(CLI::App& app, const std::string& name, std::vector<E>& target, const std::string& help = "") {
  add_list(app, name, target, words_of(E{}), help);
}

/// A list of whole numbers of 1 to `most`.
template <class T>
CLI::Option* add_numbers(CLI::App& app, const std::string& name, std::vector<T>& target, const std::string& help,
                         std::int64_t most) {
  CLI::Option* option = app.add_option(name, target, help)->delimiter(',')->type_name("LIST");
  if (!target.empty()) option->capture_default_str();
  return option->check(CLI::Range(T{1}, static_cast<T>(most)));
}

// Why a text is no seed, number above 1, d / n or tolerance; empty if it is one.
std::string check_seed(const std::string& text);
/// A number of this range, both ends included; NaN is none.
CLI::Validator number_between(double least, double most);
std::string check_ratio(const std::string& text);
std::string check_oversample(const std::string& text);
std::string check_tolerance(const std::string& text);
/// CLI11 alone would take a unit without a number for one of it.
std::string check_begins_with_digit(const std::string& text);

/// "64M" to "64000000". CLI11 alone would take "-5" for 2^64 - 5.
CLI::Validator size_value();

/// Pieces that several subcommands share.
void add_block_options(CLI::App& app, std::optional<int>& block_nnz, std::optional<std::int64_t>& block_rows);
/// A time, in seconds unless it has a unit.
CLI::Option* add_seconds(CLI::App& app, const std::string& name, double& seconds, const std::string& help);
CLI::Option* add_oversample(CLI::App& app, double& ratio);
void add_tolerance(CLI::App& app, double& tolerance);
void add_scaling_option(CLI::App& app, ScalingChoice& scaling);
void add_backend_choice(CLI::App& app, RunOptions& options);

/// --seed and --seeds of a study: as many sketches of each case, of seeds that follow each other.
void add_sketch_seeds(CLI::App& app, std::uint64_t& seed, int& seeds);

}  // namespace tallsketch
