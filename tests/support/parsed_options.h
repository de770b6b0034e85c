// The options of one subcommand, parsed as CLI11 parses them. Called by options_test and sketch_grid_test.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tallsketch {

/// Parses into what `add` declares on an app; the message of what CLI11 throws, "" if it accepts the arguments.
template <class Options>
std::string parse(void (*add)(CLI::App&, Options&), Options& options, std::vector<std::string> arguments) {
  CLI::App app;
  add(app, options);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tallsketch
