// Damaged identities and files, read in this process, a hundred thousand a second: what parse_identity, parse_checkpoint and
// read_sketch make of them is either legal or an input error. Headers of .npy files: unit/npy_header_test.cpp. Whole runs on
// damaged files: fuzz/mutate_inputs.py.
#include <array>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/checkpoint.h"
#include "src/row_ranges.h"
#include "src/sketch_file.h"
#include "src/sketch_identity.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/temporary_folder.h"

using namespace tallsketch;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int kSeed = 20, kTexts = 3000;  // with instrumentation all would take minutes
#else
constexpr int kSeed = 20, kTexts = 60000;
#endif

StoredSketch make_sketch(SketchFamily family) {
  StoredSketch sketch;
  SketchOptions options;
  options.family = family;
  options.sketch_rows = 64;
  options.seed = 7;
  if (family == SketchFamily::kBlockPerm) options.block_rows = 32;
  sketch.n = 3;
  sketch.r = 2;
  sketch.rows = {{0, 100}, {200, 300}};
  sketch.spec = make_sketch_spec({300, 3, 2, ElementType::kFloat32}, options);
  sketch.exponents = {1, 0, -1, 0, 5};
  sketch.files = {"a.h5", "b.h5"};
  for (std::int64_t i = 0; i < sketch.spec.d * 5; ++i) sketch.sketch.push_back(static_cast<double>(i % 17) - 8);
  sketch.b_squares = {5, 7};
  return sketch;
}

Checkpoint make_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.run = {{"input", "made"}, {"n", "3"}, {"r", "2"}};
  checkpoint.attempt.fixed_rows = 64;
  checkpoint.rows = {{0, 10}, {20, 31}};
  checkpoint.b_squares = {5, 7};
  checkpoint.passes = {{"0123456789abcdef", {}}};
  checkpoint.warnings = {"a warning"};
  return checkpoint;
}

/// Damage to a text, decided by the dice.
class Damage {
 public:
  std::string operator()(std::string text) {
    for (int k = 1 + below(3); k > 0; --k) text = once(std::move(text));
    return text;
  }

 private:
  int below(std::size_t end) { return static_cast<int>(dice_() % end); }

  /// A number of the text, if one begins after a random place, becomes another.
  std::string with_other_number(std::string text) {
    static const std::array<const char*, 18> kNumbers = {"0",
                                                         "-1",
                                                         "1",
                                                         "0.5",
                                                         "1e999",
                                                         "65535",
                                                         "1073741824",
                                                         "1073741825",
                                                         "2147483647",
                                                         "2147483648",
                                                         "4294967296",
                                                         "1152921504606846976",
                                                         "-9e18",
                                                         "null",
                                                         "\"x\"",
                                                         "[]",
                                                         "9223372036854775807",
                                                         "18446744073709551615"};
    const std::size_t begin = text.find_first_of("0123456789", static_cast<std::size_t>(below(text.size() + 1)));
    if (begin == std::string::npos) return text;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    return text.replace(begin, end - begin, kNumbers.at(static_cast<std::size_t>(below(kNumbers.size()))));
  }

  std::string once(std::string text) {
    if (text.empty()) return text;
    const auto at = static_cast<std::size_t>(below(text.size()));
    static const std::string kLetters = "{}[]\",:0123456789-+.eEnulltrue\\u\0\x80\xff ";
    switch (below(6)) {
      case 0: text[at] = kLetters[static_cast<std::size_t>(below(kLetters.size()))]; return text;
      case 1: return text.erase(at, static_cast<std::size_t>(1 + below(12)));
      case 2: return text.insert(at, text.substr(static_cast<std::size_t>(below(text.size())), 20));
      case 3: return below(8) == 0 ? text.substr(0, at) : text;
      default: return with_other_number(std::move(text));
    }
  }

  std::mt19937_64 dice_{kSeed};
};

/// Whether f returns; anything but an input error fails the test.
template <class F>
bool accepted(const std::string& text, F&& f) {
  const auto [code, message] = error_of(f);
  if (code != 0 && code != static_cast<int>(ErrorKind::kInput)) FAIL(message << "\nof " << text);
  return code == 0;
}

}  // namespace

TEST_CASE("Damaged identities of sketch files are refused, or legal") {
  Damage damage;
  int legal = 0;
  for (const SketchFamily family : {SketchFamily::kSparseStack, SketchFamily::kBlockPerm}) {
    const std::string good = identity_json(make_sketch(family), "test");
    REQUIRE(parse_identity(good, "s.h5").n == 3);
    for (int k = 0; k < kTexts; ++k) {
      const std::string text = damage(good);
      StoredSketch sketch;
      if (!accepted(text, [&] { sketch = parse_identity(text, "s.h5"); })) continue;
      ++legal;
      const bool sizes = sketch.n >= 1 && sketch.r >= 1 && sketch.spec.d >= 1 && sketch.check_rows >= 0 &&
                         sketch.check_rows < sketch.spec.d && count_rows(sketch.rows) >= 1;
      if (!sizes) FAIL("illegal sizes are accepted of " << text);
    }
  }
  CHECK(legal > kTexts / 100);  // the damage is not all syntax
  CHECK(legal < kTexts * 3 / 2);
}

TEST_CASE("Damaged identities of checkpoints are refused, or legal, and never allocate more than their file holds") {
  constexpr std::int64_t kMostColumns = 1000;
  Damage damage;
  int legal = 0;
  const std::string good = checkpoint_json(make_checkpoint());
  REQUIRE(parse_checkpoint(good, "c.h5", {}).passes.size() == 1);
  for (int k = 0; k < kTexts; ++k) {
    const std::string text = damage(good);
    Checkpoint checkpoint;
    if (!accepted(text, [&] { checkpoint = parse_checkpoint(text, "c.h5", {}, kMostColumns); })) continue;
    ++legal;
    if (std::ssize(checkpoint.b_squares) > kMostColumns) FAIL("too many columns are accepted of " << text);
    if (checkpoint.attempt.fixed_rows < 1) FAIL("illegal sizes are accepted of " << text);
  }
  CHECK(legal > kTexts / 100);
  CHECK(legal < kTexts);
}

TEST_CASE("A sealed sketch file with any byte changed or without its seal is refused") {
  const StoredSketch sketch = make_sketch(SketchFamily::kSparseStack);
  const std::vector<std::byte> good = sketch_image(sketch, "test");
  const TemporaryFolder folder;
  const std::string path = folder.at("s.h5");
  const auto code_of = [&](const std::vector<std::byte>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               std::ssize(bytes));  // 1500 files: without waiting for a disk
    StoredSketch read;
    const int code = error_of([&] { read = read_sketch(path); }).first;
    if (code == 0 && read.sketch != sketch.sketch) FAIL("another sketch is read");
    return code;
  };
  REQUIRE(code_of(good) == 0);
  std::mt19937_64 dice(kSeed);
  constexpr std::size_t kSeal = 34;
  for (std::size_t at = 0; at < good.size(); at += at + 600 < good.size() && at > 1500 ? 7 : 1) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= static_cast<std::byte>(1U << (dice() % 8));
    if (code_of(bytes) != 3) FAIL("byte " << at << " of " << good.size());
  }
  std::vector<std::byte> unsealed(good.begin(), good.end() - kSeal);
  CHECK(code_of(unsealed) == 3);
}
