// Names of datasets, and the words of the options. The command line as a whole: tests/cli.
#include "src/options.h"
#include "tests/support/catch.h"
#include "tests/support/parsed_options.h"

using namespace tallsketch;

namespace {

std::string parse(SolveOptions& options, std::vector<std::string> arguments) {
  return parse(add_solve_options, options, std::move(arguments));
}

}  // namespace

TEST_CASE("A dataset name splits at the last colon before a slash") {
  struct Row {
    const char *text, *file, *dataset;
  };
  for (const Row& row :
       {Row{"a.h5", "a.h5", ""}, Row{"a.h5:/A", "a.h5", "/A"}, Row{"dir/a.h5:/g/A", "dir/a.h5", "/g/A"},
        Row{"/b", "/b", ""}, Row{"/abs/a.h5", "/abs/a.h5", ""}, Row{"/abs/a.h5:/A", "/abs/a.h5", "/A"},
        Row{"a:b.h5", "a:b.h5", ""}, Row{"a:b.h5:/A", "a:b.h5", "/A"}, Row{":/A", ":/A", ""},
        Row{"x:/y:/z", "x:/y", "/z"}, Row{"", "", ""}, Row{"a.h5:/", "a.h5", "/"}}) {
    INFO(row.text);
    const DatasetName name = parse_dataset_name(row.text);
    CHECK(name.file == row.file);
    CHECK(name.dataset == row.dataset);
  }
}

TEST_CASE("Defaults of solve are those of the contract") {
  SolveOptions options;
  REQUIRE(parse(options, {"f.h5"}) == "");
  CHECK(options.input.files == std::vector<std::string>{"f.h5"});
  CHECK(options.input.a == "/A");
  CHECK(options.input.b == "/b");
  CHECK(!options.sketch.zeta);
  CHECK(options.sketch.hash == SketchHash::kPermuted);
  CHECK(options.sketch.precision == SketchPrecision::kFp32);
  CHECK(options.sketch.rounding == SketchRounding::kNearest);
  CHECK(options.sketch.reduce == ReducePrecision::kFp32);
  CHECK(options.sketch.oversample == 0);  // auto
  CHECK(options.sketch.seed == 0);
  CHECK(options.run.timeout == 600);
  CHECK(options.run.backend == BackendChoice::kAuto);
}

TEST_CASE("The precision of the sketch is one of those that a backend has") {
  for (const auto& [word, precision] : {std::pair{"fp32", SketchPrecision::kFp32},
                                        {"fp16", SketchPrecision::kFp16},
                                        {"fp64", SketchPrecision::kFp64}}) {
    SolveOptions options;
    CHECK(parse(options, {"f.h5", "--precision", word}) == "");
    CHECK(options.sketch.precision == precision);
    CHECK(to_word(precision) == std::string(word));
  }
  SolveOptions options;
  CHECK(parse(options, {"f.h5", "--precision", "fp8"}) != "");
}

TEST_CASE("Sizes take decimal and binary suffixes, times take units") {
  struct Row {
    const char* text;
    std::uint64_t value;
  };
  for (const Row& row : {Row{"0", 0}, Row{"17", 17}, Row{"2k", 2000}, Row{"2K", 2000}, Row{"3M", 3000000},
                         Row{"1G", 1000000000}, Row{"1KiB", 1024}, Row{"1MiB", 1048576}, Row{"2GiB", 2147483648},
                         Row{"1 GiB", 1073741824}, Row{"9223372036854775807", 9223372036854775807U}}) {
    INFO(row.text);
    SolveOptions options;
    CHECK(parse(options, {"f.h5", "--memory", row.text, "--chunk-rows", row.text}) == "");
    CHECK(options.run.memory_bytes == row.value);
    CHECK(options.run.chunk_rows == row.value);
  }
  for (const char* text : {"-1", "-1k", "+1", "", "k", "1X", "1e6", "9223372036854775808", "20000000000G", "nan"}) {
    INFO(text);
    SolveOptions options;
    CHECK(parse(options, {"f.h5", std::string("--memory=") + text}) != "");
  }
  struct Time {
    const char* text;
    double seconds;
  };
  for (const Time& row : {Time{"0", 0}, Time{"90", 90}, Time{"90s", 90}, Time{"2m", 120}, Time{"1h", 3600}}) {
    INFO(row.text);
    SolveOptions options;
    CHECK(parse(options, {"f.h5", "--timeout", row.text}) == "");
    CHECK(options.run.timeout == row.seconds);
  }
}

TEST_CASE("A seed is a whole number of 64 bits, and nothing wraps around") {
  SolveOptions options;
  CHECK(parse(options, {"f.h5", "--seed", "18446744073709551615"}) == "");
  CHECK(options.sketch.seed == 18446744073709551615U);
  for (const char* text : {"-1", "18446744073709551616", "1.5", "x", ""}) {
    INFO(text);
    CHECK(parse(options, {"f.h5", std::string("--seed=") + text}) != "");
  }
}

TEST_CASE("The oversampling is auto or a number above 1") {
  for (const auto& [text, value] :
       {std::pair<const char*, double>{"auto", 0}, {"2", 2}, {"1.0001", 1.0001}, {"16", 16}, {"1e6", 1e6}}) {
    INFO(text);
    SolveOptions options;
    CHECK(parse(options, {"f.h5", "--oversample", text}) == "");
    CHECK(options.sketch.oversample == value);
  }
  for (const char* text : {"1", "0", "-3", "nan", "inf", "1.0000001e6", "2x", "Auto", ""}) {
    INFO(text);
    SolveOptions options;
    CHECK(parse(options, {"f.h5", std::string("--oversample=") + text}) != "");
  }
}

TEST_CASE("A number outside its range is refused with option, value and range, and so is what is no number") {
  const auto message = [](const std::string& option, const std::string& text) {
    const std::vector<std::string> given = {option + "=" + text};
    SolveOptions solve;
    BenchSolveOptions bench;
    StudyGeometryOptions study;
    if (option == "--ridge") return parse(solve, {"f.h5", given[0]});
    if (option == "--coherence") return parse(add_study_geometry_options, study, given);
    return parse(add_bench_solve_options, bench, given);
  };
  struct Row {
    const char* option;
    std::vector<const char*> inside, outside;
    const char* range;
  };
  for (const Row& row : {Row{"--ridge", {"0", "1e150"}, {"-1e-9", "1.0001e150"}, "from 0 to 1e+150"},
                         Row{"--cond", {"1", "1e15"}, {"0.999", "1.0001e15"}, "from 1 to 1e+15"},
                         Row{"--residual", {"0", "1e30"}, {"-1e-9", "1.0001e30"}, "from 0 to 1e+30"},
                         Row{"--coherence", {"0", "1"}, {"-1e-9", "1.0001"}, "from 0 to 1"}}) {
    for (const char* text : row.inside) {
      CAPTURE(row.option, text);
      CHECK(message(row.option, text) == "");
    }
    std::vector<const char*> refused = {"nan", "inf", "-inf", "much", "1x"};
    refused.insert(refused.end(), row.outside.begin(), row.outside.end());
    for (const char* text : refused) {
      const std::string told = message(row.option, text);
      CAPTURE(row.option, text, told);
      CHECK(told.find(row.option) != std::string::npos);
      CHECK(told.find("'" + std::string(text) + "'") != std::string::npos);
      CHECK(told.find(row.range) != std::string::npos);
    }
  }
}

TEST_CASE("Precision, rounding and reduction are chosen by their words, which the report writes") {
  SolveOptions options;
  REQUIRE(parse(options, {"f.h5", "--precision", "bf16", "--rounding", "stochastic", "--reduce", "fp16"}) == "");
  CHECK(options.sketch.precision == SketchPrecision::kBf16);
  CHECK(options.sketch.rounding == SketchRounding::kStochastic);
  CHECK(options.sketch.reduce == ReducePrecision::kFp16);
  CHECK(std::string(to_word(options.sketch.precision)) == "bf16");
  CHECK(std::string(to_word(options.sketch.rounding)) == "stochastic");
  CHECK(std::string(to_word(options.sketch.reduce)) == "fp16");
  REQUIRE(parse(options, {"f.h5", "--precision", "fp16", "--rounding", "dither", "--reduce", "fp32"}) == "");
  CHECK(options.sketch.rounding == SketchRounding::kDither);
  CHECK(std::string(to_word(options.sketch.rounding)) == "dither");
  for (const char* text : {"--precision=fp8", "--rounding=up", "--rounding=", "--reduce=bf16"}) {
    INFO(text);
    CHECK(parse(options, {"f.h5", text}) != "");
  }
}

TEST_CASE("zeta is bounded on both sides") {
  for (const auto& [text, accepted] :
       {std::pair<const char*, bool>{"0", false}, {"1", true}, {"1024", true}, {"1025", false}}) {
    INFO(text);
    SolveOptions options;
    CHECK((parse(options, {"f.h5", "--zeta", text}) == "") == accepted);
  }
}

TEST_CASE("A solve takes files or a problem that is made, one of them, and what belongs to it") {
  SolveOptions made;
  REQUIRE(parse(made, {"--kind", "uniform", "--rows", "2k", "--cols", "7", "--data-seed", "5", "--dtype", "f2",
                       "--cond", "1e3", "--rank", "3", "--noise", "0", "--seed", "9"}) == "");
  CHECK(made.input.files.empty());
  CHECK(made.synthetic.kind == SyntheticKind::kUniform);
  CHECK(made.synthetic.m == 2000);
  CHECK(made.synthetic.n == 7);
  CHECK(made.synthetic.seed == 5);
  CHECK(made.sketch.seed == 9);
  CHECK(made.synthetic.type == ElementType::kFloat16);
  CHECK(made.synthetic.cond == 1e3);
  CHECK(made.synthetic.rank == 3);
  CHECK(made.synthetic.noise == 0);
  const auto refused = [](std::vector<std::string> arguments) {
    SolveOptions options;
    return parse(options, std::move(arguments));
  };
  CHECK(refused({}).find("FILE") != std::string::npos);
  CHECK(refused({"f.h5", "--kind", "uniform", "--rows", "9", "--cols", "2"}).find("excludes") != std::string::npos);
  CHECK(refused({"--kind", "uniform", "--rows", "9", "--cols", "2", "--b", "/c"}).find("excludes") !=
        std::string::npos);
  CHECK(refused({"--kind", "uniform", "--rows", "9"}).find("--cols") != std::string::npos);
  CHECK(refused({"--kind", "uniform", "--cols", "9"}).find("--rows") != std::string::npos);
  CHECK(refused({"f.h5", "--rows", "9"}).find("--kind") != std::string::npos);
  CHECK(refused({"f.h5", "--noise", "0"}).find("--kind") != std::string::npos);
  CHECK(refused({"--kind", "cauchy", "--rows", "9", "--cols", "2"}).find("cauchy") != std::string::npos);
  CHECK(refused({"--kind", "illcond", "--cond", "0.5", "--rows", "9", "--cols", "2"}) != "");
}

TEST_CASE("generate makes a gaussian problem unless another kind is asked for") {
  GenerateOptions plain, other;
  REQUIRE(parse(add_generate_options, plain, {"o.h5", "--rows", "9", "--cols", "2"}) == "");
  CHECK(plain.problem.kind == SyntheticKind::kGaussian);
  CHECK(plain.problem.type == ElementType::kFloat32);
  REQUIRE(parse(add_generate_options, other,
                {"o.h5", "--rows", "9", "--cols", "2", "--kind", "uniform", "--seed", "3"}) == "");
  CHECK(other.problem.kind == SyntheticKind::kUniform);
  CHECK(other.problem.seed == 3);
  CHECK(parse(add_generate_options, other, {"o.h5", "--rows", "9"}) != "");
}
