// Stored sketches: which can be added, what their files hold, and what is refused of files that are not what they should be.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "src/atomic_file.h"
#include "src/file_seal.h"
#include "src/hdf5_image.h"
#include "src/hdf5_writer.h"
#include "src/row_ranges.h"
#include "src/sketch_file.h"
#include "src/sketch_identity.h"
#include "src/stored_sketch.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

StoredSketch make_sketch(const SketchOptions& options, std::vector<RowRange> rows, std::int64_t n = 3,
                         std::int64_t r = 2, std::int64_t total_rows = 1000) {
  StoredSketch sketch;
  sketch.spec = make_sketch_spec({total_rows, n, r, ElementType::kFloat32}, options);
  sketch.check_rows = check_row_count(options);
  sketch.n = n;
  sketch.r = r;
  sketch.rows = std::move(rows);
  sketch.sketch.resize(static_cast<std::size_t>(sketch.spec.d * (n + r)));
  for (std::size_t i = 0; i < sketch.sketch.size(); ++i) sketch.sketch[i] = static_cast<double>(i % 17) - 8;
  for (std::int64_t k = 0; k < r; ++k) sketch.b_squares.push_back(static_cast<double>(3000 * k + 1000));
  sketch.files = {"a.h5"};
  return sketch;
}

SketchOptions block_perm(InputBlocks blocks = InputBlocks::kInterleaved) {
  SketchOptions options;
  options.family = SketchFamily::kBlockPerm;
  options.sketch_rows = 64;
  options.block_rows = 16;
  options.input_blocks = blocks;
  return options;
}

SketchOptions stack(std::int64_t d = 64) {
  SketchOptions options;
  options.sketch_rows = d;
  return options;
}

/// The file of an image, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& bytes)
      : path_((std::filesystem::temp_directory_path() / fmt::format("tallsketch-{}-{}.h5", ::getpid(), count_++))
                  .string()) {
    write_file_atomically(path_, bytes);
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Ranges of rows are sorted and joined where they touch; a row in two of them is found") {
  CHECK(describe(joined_ranges({{20, 30}, {0, 10}, {10, 15}, {40, 40}})) == "[0, 15), [20, 30)");
  CHECK(describe(std::vector<RowRange>{}) == "none");
  CHECK(count_rows({{0, 15}, {20, 30}}) == 25);
  CHECK(row_given_twice({{20, 30}, {0, 10}, {10, 20}}) == -1);
  CHECK(row_given_twice({{20, 30}, {0, 21}}) == 20);
  CHECK(row_given_twice({{0, 100}, {3, 4}}) == 3);
  CHECK(row_given_twice({{0, 100}, {3, 4}, {50, 51}}) == 3);
  CHECK(row_given_twice({}) == -1);
  std::vector<RowRange> many;
  for (std::int64_t i = 0; i < 10; ++i) many.push_back({2 * i, 2 * i + 1});
  CHECK(has(describe(many), "[14, 15) and 2 more"));
}

TEST_CASE("A sketch comes back from its file as it was, of every family and precision") {
  std::vector<SketchOptions> all = {stack(), stack(128), block_perm(), block_perm(InputBlocks::kContiguous)};
  all[1].zeta = 8;
  all[1].hash = SketchHash::kIndependent;
  all[1].precision = SketchPrecision::kFp64;
  all[1].seed = ~std::uint64_t{0};
  all[1].check_rows = 16;
  all[2].precision = SketchPrecision::kBf16;
  all[2].rounding = SketchRounding::kDither;
  for (const SketchOptions& options : all) {
    StoredSketch sketch = make_sketch(options, {{5, 10}, {100, 1000}});
    sketch.exponents = {0, -3, 1000, 4, 5};
    sketch.sketch[3] = 0x1.000002p0;  // a float32, and no shorter
    if (options.precision == SketchPrecision::kFp64) sketch.sketch[4] = 0x1.0000000000001p0;
    const TemporaryFile file(sketch_image(sketch, "tallsketch sketch \xff"));  // no UTF-8
    const StoredSketch back = read_sketch(file.path());
    const std::vector<IdentityField> ours = identity_fields(sketch), theirs = identity_fields(back);
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i].value == theirs[i].value);
    CHECK(back.spec.batch_rows == sketch.spec.batch_rows);
    CHECK(back.spec.wiring.multiplier == sketch.spec.wiring.multiplier);
    CHECK(back.sketch == sketch.sketch);
    CHECK(back.b_squares == sketch.b_squares);
    CHECK(back.exponents == sketch.exponents);
    CHECK(back.files == sketch.files);
    CHECK(describe(back.rows) == describe(sketch.rows));
    CHECK(back.shape().m == 905);
  }
}

TEST_CASE("Sketches of disjoint rows add up exactly, in the precision of the sketch, and their rows join") {
  StoredSketch sum = make_sketch(stack(), {{10, 20}});
  const StoredSketch one = sum;
  StoredSketch part = make_sketch(stack(), {{0, 10}, {30, 40}});
  add(part, "part", "sum", sum);
  CHECK(describe(sum.rows) == "[0, 20), [30, 40)");
  CHECK(sum.b_squares == std::vector<double>{2000, 8000});
  CHECK(sum.files.size() == 2);
  for (std::size_t i = 0; i < sum.sketch.size(); ++i) REQUIRE(sum.sketch[i] == 2 * one.sketch[i]);
  // FP32 rounds to nearest even, as ranks' sums do.
  sum.sketch[0] = 0x1p24;
  part.sketch[0] = 1;
  part.rows = {{50, 51}};
  add(part, "part", "sum", sum);
  CHECK(sum.sketch[0] == 0x1p24);
}

TEST_CASE("Sketches that differ in any field, or share a row, are not added, and the message says why") {
  SketchOptions other = stack();
  std::set<std::string> found;  // fields in which two of them differed
  const auto refused = [&](const StoredSketch& a, const StoredSketch& b) {
    const std::vector<IdentityField> ours = identity_fields(a), theirs = identity_fields(b);
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
      if (ours[i].value == theirs[i].value) continue;
      found.insert(ours[i].name);
      break;
    }
    StoredSketch sum = a;
    const auto [code, message] = error_of([&] { add(b, "second.h5", "first.h5", sum); });
    CHECK(code == 3);
    CHECK(has(message, "first.h5"));
    CHECK(has(message, "second.h5"));
    return message;
  };
  const StoredSketch first = make_sketch(stack(), {{0, 10}});
  const auto with = [&](const std::function<void(SketchOptions&)>& change) {
    other = stack();
    change(other);
    return make_sketch(other, {{10, 20}});
  };
  CHECK(has(refused(first, make_sketch(stack(128), {{10, 20}})), "d is 64 and 128"));
  CHECK(has(refused(first, with([](auto& o) { o.zeta = 8; })), "zeta is 4 and 8"));
  CHECK(has(refused(first, with([](auto& o) { o.seed = 7; })), "seed is 0 and 7"));
  CHECK(has(refused(first, with([](auto& o) { o.hash = SketchHash::kIndependent; })),
            "hash is permuted and independent"));
  CHECK(has(refused(first, with([](auto& o) { o.precision = SketchPrecision::kFp64; })), "precision is fp32 and fp64"));
  CHECK(has(refused(first, with([](auto& o) {
                      o.sketch_rows = 48;
                      o.check_rows = 16;
                    })),
            "d is 64 and 112"));
  CHECK(has(refused(first, make_sketch(stack(), {{10, 20}}, 4)), "n is 3 and 4"));
  CHECK(has(refused(first, make_sketch(stack(), {{10, 20}}, 3, 1)), "r is 2 and 1"));
  CHECK(has(refused(first, make_sketch(block_perm(), {{10, 20}})), "family is sparsestack and blockperm"));
  StoredSketch wide = make_sketch(stack(), {{10, 20}});
  wide.a_type = ElementType::kFloat64;
  CHECK(has(refused(first, wide), "dtype of A is float32 and float64"));
  StoredSketch scaled = make_sketch(stack(), {{10, 20}});
  scaled.exponents = {0, 0, -5, 0, 0};
  CHECK(has(refused(first, scaled), "none and 2^-5 in column 2"));
  CHECK(has(refused(scaled, first), "2^-5 in column 2 of [A | b] and none"));
  CHECK(has(refused(first, make_sketch(stack(), {{9, 20}})), "row 9 is in 'first.h5', which covers [0, 10)"));
  const StoredSketch blocks = make_sketch(block_perm(InputBlocks::kContiguous), {{0, 10}});
  CHECK(has(refused(blocks, make_sketch(block_perm(InputBlocks::kContiguous), {{10, 20}}, 3, 2, 999)),
            "total_rows is 1000 and 999"));
  const auto refused_block = [&](const std::function<void(SketchOptions&)>& change) {
    SketchOptions options = block_perm();
    const StoredSketch one = make_sketch(options, {{0, 10}});
    change(options);
    return refused(one, make_sketch(options, {{10, 20}}));
  };
  CHECK(has(refused_block([](auto& o) {
              o.kappa = 4;
              o.block_nnz = 1;
            }),
            "kappa is 2 and 4"));
  CHECK(has(refused_block([](auto& o) { o.block_nnz = 8; }), "zeta is 4 and 16"));  // kappa times block_nnz
  CHECK(has(refused_block([](auto& o) { o.block_rows = 32; }), "block_rows is 16 and 32"));
  CHECK(has(refused_block([](auto& o) { o.input_blocks = InputBlocks::kContiguous; }),
            "input_blocks is interleaved and contiguous"));
  const auto half = [](auto rounding) {
    SketchOptions options = stack();
    options.precision = SketchPrecision::kBf16;
    options.rounding = rounding;
    return make_sketch(options, {{rounding == SketchRounding::kDither ? 10 : 0, 20}});
  };
  CHECK(has(refused(half(SketchRounding::kStochastic), half(SketchRounding::kDither)),
            "rounding is stochastic and dither"));
  StoredSketch unchecked = make_sketch(stack(), {{10, 20}});
  unchecked.check_rows = 32;
  CHECK(has(refused(first, unchecked), "check_rows is"));
  for (const IdentityField& field : identity_fields(blocks)) {
    CAPTURE(field.name);
    CHECK(found.count(field.name) == (field.name == "block_nnz" ? 0 : 1));
  }
}

TEST_CASE("Options beside a stored sketch may repeat what it is, and not contradict it") {
  const StoredSketch sketch = make_sketch(stack(), {{0, 100}});
  const auto refused = [&](std::vector<std::string> given, const std::function<void(SketchOptions&)>& set) {
    SketchOptions options;
    set(options);
    options.given = std::move(given);
    return error_of([&] { require_no_contradiction(options, sketch, "s.h5"); });
  };
  CHECK(refused({}, [](auto& o) { o.seed = 5; }).first == 0);  // not said on the command line
  CHECK(refused({"--seed"}, [](auto& o) { o.seed = 0; }).first == 0);
  CHECK(refused({"--zeta", "--sketch-rows"}, [](auto& o) {
          o.zeta = 4;
          o.sketch_rows = 64;
        }).first == 0);
  CHECK(refused({"--oversample"}, [](auto& o) { o.oversample = 21; }).first == 0);  // 63, rounded up to 64
  CHECK(refused({"--check-rows"}, [](auto& o) { o.check_rows = 0; }).first == 0);
  const auto message = [&](const std::string& name, const std::function<void(SketchOptions&)>& set) {
    const auto [code, text] = refused({name}, set);
    CHECK(code == 2);
    CHECK(has(text, "s.h5"));
    return text;
  };
  CHECK(has(message("--seed", [](auto& o) { o.seed = 5; }), "--seed 5 contradicts 's.h5', whose sketch has 0"));
  CHECK(has(message("--zeta", [](auto& o) { o.zeta = 8; }), "--zeta 8"));
  CHECK(has(message("--kappa", [](auto& o) { o.kappa = 2; }), "--kappa 2"));
  CHECK(has(message("--block-rows", [](auto& o) { o.block_rows = 16; }), "--block-rows 16"));
  CHECK(has(message("--input-blocks", [](auto& o) { o.input_blocks = InputBlocks::kContiguous; }), "contiguous"));
  CHECK(has(message("--precision", [](auto& o) { o.precision = SketchPrecision::kFp64; }), "--precision fp64"));
  CHECK(has(message("--hash", [](auto& o) { o.hash = SketchHash::kIndependent; }), "--hash independent"));
  CHECK(has(message("--sketch", [](auto& o) { o.family = SketchFamily::kBlockPerm; }), "--sketch blockperm"));
  CHECK(has(message("--oversample", [](auto& o) { o.oversample = 22; }), "gives d = 128"));
  CHECK(has(message("--check-rows", [](auto& o) { o.check_rows = 64; }), "--check-rows 64"));
  CHECK(has(message("--sketch-rows", [](auto& o) { o.sketch_rows = 128; }), "--sketch-rows 128"));
}

TEST_CASE("A sketch is of a matrix only with its columns and exactly its rows") {
  const auto kind = [](std::vector<RowRange> rows, ProblemShape shape) {
    return error_of([&] { require_sketch_of(shape, make_sketch(stack(), std::move(rows)), "s.h5"); });
  };
  CHECK(kind({{0, 100}}, {100, 3, 2, ElementType::kFloat32}).first == 0);
  CHECK(has(kind({{0, 100}}, {101, 3, 2, ElementType::kFloat32}).second, "[0, 100), and FILE has the rows [0, 101)"));
  CHECK(kind({{1, 100}}, {100, 3, 2, ElementType::kFloat32}).first == 2);
  CHECK(kind({{0, 50}, {51, 100}}, {100, 3, 2, ElementType::kFloat32}).first == 2);
  CHECK(kind({{0, 100}}, {100, 4, 2, ElementType::kFloat32}).first == 2);
  CHECK(kind({{0, 100}}, {100, 3, 1, ElementType::kFloat32}).first == 2);
  const StoredSketch blocks = make_sketch(block_perm(InputBlocks::kContiguous), {{0, 999}});
  CHECK(has(error_of([&] {
              require_sketch_of({999, 3, 2, ElementType::kFloat32}, blocks, "s.h5");
            }).second,
            "1000 rows"));
}

TEST_CASE("Files that are no sketches, of another version, or damaged are refused, before memory is taken") {
  const StoredSketch sketch = make_sketch(stack(), {{0, 100}});
  const std::string identity = identity_json(sketch, "test");
  const auto image_of = [&](const std::string& text, std::int64_t rows, std::int64_t cols, bool right_sum = true) {
    Hdf5Image image;
    std::vector<double> values(static_cast<std::size_t>(rows * cols), 1.0);
    image.add("/SA", values, rows, cols, 2, ElementType::kFloat32);
    image.add("/b_squares", sketch.b_squares, 2, 1, 1);
    image.add_text("/identity", text);
    image.add_attribute("/identity", "checksum", right_sum ? checksum(text, {&values, &sketch.b_squares}) : "0");
    return sealed(image.bytes());
  };
  const auto message = [&](const std::vector<std::byte>& bytes) {
    const TemporaryFile file(bytes);
    const auto [code, text] = error_of([&] { read_sketch(file.path()); });
    CHECK(code == 3);
    CHECK(has(text, file.path()));
    return text;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = identity;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return image_of(text.replace(at, from.size(), to), 64, 5);
  };
  {
    const TemporaryFile good(image_of(identity, 64, 5));
    CHECK(read_sketch(good.path()).sketch.size() == 320);
  }
  CHECK(has(message(image_of(identity, 64, 5, false)), "checksum"));
  CHECK(has(message(image_of(identity, 63, 5)), "63 x 5"));
  CHECK(has(message(image_of(identity, 64, 4)), "64 x 4"));
  CHECK(has(message(image_of("{", 64, 5)), "cannot be understood"));
  CHECK(has(message(changed("tallsketch sketch", "other")), "no sketch file"));
  CHECK(has(message(changed("\"schema_version\":1", "\"schema_version\":2")), "schema_version 2"));
  CHECK(has(message(changed("\"seed\":0", "\"sead\":0")), "seed"));
  CHECK(has(message(changed("\"d\":64", "\"d\":1000000000")), "1000000000 x 5"));
  CHECK(has(message(changed("\"d\":64", "\"d\":1000000000000")), "d = 1000000000000"));
  CHECK(has(message(changed("\"d\":64", "\"d\":-64")), "d = -64"));
  CHECK(has(message(changed("\"n\":3", "\"n\":0")), "n = 0"));
  CHECK(has(message(changed("\"n\":3", "\"n\":1000000000000000")), "legal sketch"));
  CHECK(has(message(changed("\"zeta\":4", "\"zeta\":0")), "zeta = 0"));
  CHECK(has(message(changed("permuted", "other")), "'other'"));
  CHECK(has(message(changed("float32", "float31")), "'float31'"));
  CHECK(has(message(changed("[[0,100]]", "[[0,100],[100,200]]")), "[0, 100), [100, 200)"));
  CHECK(has(message(changed("[[0,100]]", "[[100,0]]")), "[100, 0)"));
  CHECK(has(message(changed("[[0,100]]", "[]")), "no rows"));
  CHECK(has(message(changed("\"exponents\":[]", "\"exponents\":[1]")), "1 column exponents for 5"));
  {
    std::vector<std::byte> cut = sketch_image(sketch, "test");
    cut.resize(cut.size() / 2);
    CHECK(has(message(cut), "truncated"));
  }
  CHECK(error_of([] { read_sketch("no-such-file.h5"); }).first == 3);
  {
    Hdf5Image image;
    image.add("/A", {1.0}, 1, 1, 2);
    CHECK(has(message(image.bytes()), "does not end with the seal"));
    CHECK(has(message(sealed(image.bytes())), "/SA, /b_squares or /identity is missing"));
  }
  std::vector<double> nan(320, 1.0);
  nan[7] = std::nan("");
  StoredSketch broken = sketch;
  broken.sketch = nan;
  CHECK(has(message(sketch_image(broken, "test")), "NaN"));
  const auto with_b_squares = [&](double value) {
    StoredSketch other = sketch;
    other.sketch.assign(320, 1.0);  // ||S b||^2 = 64, of which a quarter, for zeta = 4, is what ||b||^2 is about
    other.b_squares = {16, value};
    return sketch_image(other, "test");
  };
  for (const double wrong : {-1.0, 0.0, 0.159, std::nan("")}) {
    CHECK(has(message(with_b_squares(wrong)), "||b||^2"));
  }
  for (const double possible : {0.161, 16.0, 1e300, std::numeric_limits<double>::infinity()}) {
    const TemporaryFile file(with_b_squares(possible));
    CHECK(read_sketch(file.path()).b_squares[1] == possible);
  }
}

TEST_CASE("A long identity, of many files, is no problem for its file") {
  StoredSketch sketch = make_sketch(stack(), {{0, 100}});
  sketch.files.assign(3000, std::string(80, 'f'));  // 240 kB: more than an HDF5 attribute holds
  const TemporaryFile file(sketch_image(sketch, "test"));
  CHECK(read_sketch(file.path()).files.size() == 3000);
  // x, too, has a provenance that names them.
  const TemporaryFile short_one(solution_image({{1, 2}, {}}, 2, 1, "{}")),
      long_one(solution_image({{1, 2}, {}}, 2, 1, std::string(300000, 'p')));
  const Hdf5File brief = Hdf5File::open(short_one.path(), nullptr), wordy = Hdf5File::open(long_one.path(), nullptr);
  CHECK(hdf5_text_attribute(brief, "/x", "provenance") == "{}");
  CHECK(!brief.has("/provenance"));
  CHECK(has(hdf5_text_attribute(wordy, "/x", "provenance"), "/provenance"));
  CHECK(hdf5_text(wordy, "/provenance").size() == 300000);
  CHECK(hdf5_values(wordy, "/x", 2, 1, ElementType::kFloat64) == std::vector<double>{1, 2});
}
