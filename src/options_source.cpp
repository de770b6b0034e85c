#include "src/option_kinds.h"

namespace tallsketch {

namespace {

/// What `generate` writes and `--kind` makes.
struct SyntheticFlags {
  CLI::Option *kind, *rows, *cols;
  std::vector<CLI::Option*> others;
};

/// seed_flag  --seed, or another where that is the sketch's
/// kinds      what --help says of --kind beside its words
SyntheticFlags add_synthetic_options(CLI::App& app, SyntheticProblem& problem, const std::string& seed_flag,
                                     const std::string& kinds) {
  const auto size = [&](const char* name, std::int64_t& target, const std::string& help) {
    return app.add_option(name, target, help)->transform(size_value())->capture_default_str();
  };
  const Words<ElementType> types = {
      {"f4", ElementType::kFloat32}, {"f8", ElementType::kFloat64}, {"f2", ElementType::kFloat16}};
  SyntheticFlags flags;
  flags.rows = size("--rows", problem.m, "m")->type_name("M");
  flags.cols = size("--cols", problem.n, "n")->type_name("N");
  flags.kind = app.add_option_function<std::string>(
                      "--kind",
                      [&problem](const std::string& given) {
                        problem.kind = value_of("--kind", given, words_of(SyntheticKind{}));
                      },
                      kinds +
                          "gaussian: N(0,1) entries; coherent: identity head, tail of scale 1e-3, rows permuted; "
                          "coordinate: identity over zeros; lowrank: --rank plus 1e-5 noise; illcond: --cond; uniform: "
                          "multiples of 2^-11 in [-1, 1), made fastest")
                   ->type_name(joined(words_of(SyntheticKind{}), "|"));
  flags.others = {
      app.add_option("--cond", problem.cond, "condition number of kind illcond")
          ->capture_default_str()
          ->check(number_between(1, 1e15)),
      size("--rank", problem.rank, "rank of kind lowrank")->check(number_between(1, 1e9)),
      app.add_option("--noise", problem.noise, "standard deviation of b - A x_true, per entry")
          ->capture_default_str()
          ->check(number_between(0, 1e30)),
      app.add_option(seed_flag, problem.seed, "seed of the data, 64 bits")->capture_default_str()->check(check_seed),
      app.add_option_function<std::string>(
             "--dtype",
             [&problem, types](const std::string& given) { problem.type = value_of("--dtype", given, types); },
             "type of A; b is f8 with f8, else f4 (default: f4)")
          ->type_name(joined(types, "|"))};
  return flags;
}

}  // namespace

void add_source_options(CLI::App& app, InputOptions& input, SyntheticProblem& synthetic) {
  add_input_options(app, input);
  const std::vector<CLI::Option*> of_files = app.get_options(
      [&app](const CLI::Option* option) { return option != app.get_help_ptr() && option != app.get_help_all_ptr(); });
  const SyntheticFlags flags = add_synthetic_options(
      app, synthetic, "--data-seed",
      "instead of FILEs: rows that are made as they are read, nothing is stored (default: none). ");
  for (CLI::Option* option : of_files) option->excludes(flags.kind);
  flags.kind->needs(flags.rows)->needs(flags.cols);
  flags.rows->needs(flags.kind);
  flags.cols->needs(flags.kind);
  for (CLI::Option* option : flags.others) option->needs(flags.kind);
  app.get_option("FILE")->required(false);
  app.callback([&input, &synthetic] {
    if (input.files.empty() && !synthetic.kind) {
      throw CLI::RequiredError("FILE (or --kind, --rows and --cols)");
    }
  });
}

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  app.add_option("OUT", options.output, "HDF5 file to write: /A (m, n), /b (m), /x_true (n)")->required();
  options.problem.kind = SyntheticKind::kGaussian;
  const SyntheticFlags flags = add_synthetic_options(app, options.problem, "--seed", "(default: gaussian) ");
  flags.rows->required();
  flags.cols->required();
  app.add_option("--shards", options.shards, "number of files, of about equal rows: OUT.000.h5, OUT.001.h5, ...")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  add_run_options(app, options.run);
}

}  // namespace tallsketch
