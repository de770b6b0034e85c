// Columns times powers of two: which exponents, and that the values are exact in every stored type.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/half.h"
#include "src/scaled_source.h"
#include "tests/support/catch.h"
#include "tests/support/exact_source.h"

using namespace tallsketch;

namespace {

/// One row of bfloat16 words, and b = 1.
class RowOfWords final : public RowSource {
 public:
  explicit RowOfWords(std::vector<std::uint16_t> words)
      : shape_{1, static_cast<std::int64_t>(words.size()), 1, ElementType::kBfloat16}, words_(std::move(words)) {}
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange, void* a, double* b) override {
    std::copy(words_.begin(), words_.end(), static_cast<std::uint16_t*>(a));
    *b = 1;
  }

 private:
  ProblemShape shape_;
  SourceInfo info_;
  std::vector<std::uint16_t> words_;
};

}  // namespace

TEST_CASE(
    "Exponents bring every column's largest magnitude into [0.5, 1), within the powers of two of the stored type") {
  const auto exponents_of = [](double largest, ElementType type) {
    return scaling_exponents({largest, largest}, {9, 1, 1, type});  // a column of A, and one of b
  };
  for (const double largest : {1.0, 0.75, 3e-200, 1e300, 0x1p-1021}) {
    const std::vector<int> e = exponents_of(largest, ElementType::kFloat64);
    CHECK(std::ldexp(largest, e[0]) >= 0.5);
    CHECK(std::ldexp(largest, e[0]) < 1);
    CHECK(e[1] == e[0]);
  }
  CHECK(exponents_of(0, ElementType::kFloat64) == std::vector<int>{0, 0});
  CHECK(exponents_of(std::numeric_limits<double>::max(), ElementType::kFloat64)[0] == -1022);
  CHECK(exponents_of(std::numeric_limits<double>::denorm_min(), ElementType::kFloat64)[0] == 1023);
  CHECK(exponents_of(std::numeric_limits<float>::max(), ElementType::kFloat32) == std::vector<int>{-126, -128});
  CHECK(exponents_of(0x1p-149, ElementType::kFloat32) == std::vector<int>{127, 148});
  CHECK(exponents_of(1000, ElementType::kFloat16) == std::vector<int>{0, -10});
  CHECK(exponents_of(1e37, ElementType::kBfloat16) == std::vector<int>{-123, -123});
  CHECK(exponents_of(1e-37, ElementType::kBfloat16) == std::vector<int>{122, 122});
  CHECK(exponents_of(0x1.fep127, ElementType::kBfloat16) == std::vector<int>{-126, -128});
  CHECK(exponents_of(0x1p-133, ElementType::kBfloat16) == std::vector<int>{127, 132});
}

TEST_CASE("A scaled source gives every element of every type exactly times its column's power of two") {
  const std::vector<int> exponents = {3, -126, 120, 0, 1000, -1022};  // 4 columns of A, 2 of b
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16}) {
    ExactSource source(50, 4, 2, type);
    std::vector<int> of_type = exponents;
    if (type == ElementType::kFloat16) std::fill_n(of_type.begin(), 4, 0);
    ScaledSource scaled(source, of_type);
    CHECK(scaled.shape().m == 50);
    CHECK(scaled.info().a_name == "/A");
    std::vector<double> storage(7 * 4), b(7 * 2);
    scaled.read({20, 27}, storage.data(), b.data());
    bool equal = true;
    for (std::size_t i = 0; i < 7 * 4; ++i) {
      const double value = type == ElementType::kFloat64 ? storage[i]
                           : type == ElementType::kFloat32
                               ? double{reinterpret_cast<const float*>(storage.data())[i]}
                               : half_to_double(reinterpret_cast<const std::uint16_t*>(storage.data())[i]);
      const auto row = static_cast<std::int64_t>(20 + i / 4), col = static_cast<std::int64_t>(i % 4);
      equal = equal && value == std::ldexp(exact_entry(row, col), of_type[i % 4]);
    }
    for (std::size_t i = 0; i < 7 * 2; ++i) {
      const auto row = static_cast<std::int64_t>(20 + i / 2), col = static_cast<std::int64_t>(4 + i % 2);
      equal = equal && b[i] == std::ldexp(exact_entry(row, col), of_type[4 + i % 2]);
    }
    INFO("type " << static_cast<int>(type));
    CHECK(equal);
  }
}

TEST_CASE("bfloat16 is scaled word by word, exactly, from both ends of its range; what is not a number stays so") {
  // One column each: what is stored, its exponent, what comes out.
  struct Column {
    float stored;
    int exponent;
    float scaled;
  };
  const Column columns[] = {{float_of_bits(0x7cf00000), -123, std::ldexp(float_of_bits(0x7cf00000), -123)},  // 1e37
                            {-float_of_bits(0x7cf00000), -123, -std::ldexp(float_of_bits(0x7cf00000), -123)},
                            {float_of_bits(0x02080000), 122, std::ldexp(float_of_bits(0x02080000), 122)},  // 1e-37
                            {0x1.fep127F, -126, 0x1.fep1F},
                            {0x1p-133F, 127, 0x1p-6F},  // the least subnormal
                            {0x1.8p-126F, -1, 0x1.8p-127F},
                            {0x1.02p-126F, -1, 0x1p-127F},  // a bit too many for a subnormal: to even
                            {-0.0F, 100, -0.0F},
                            {std::numeric_limits<float>::infinity(), -126, std::numeric_limits<float>::infinity()}};
  const auto n = static_cast<std::int64_t>(std::size(columns));
  std::vector<std::uint16_t> stored;
  std::vector<int> exponents;
  for (const Column& column : columns) {
    stored.push_back(float_to_bfloat16(column.stored));
    REQUIRE(bfloat16_to_float(stored.back()) == column.stored);
    exponents.push_back(column.exponent);
  }
  stored.push_back(0x7fc1);  // NaN
  exponents.insert(exponents.end(), {-3, 5});
  RowOfWords source(stored);
  ScaledSource scaled(source, exponents);
  std::vector<std::uint16_t> a(stored.size());
  double b = 0;
  scaled.read({0, 1}, a.data(), &b);
  for (std::int64_t j = 0; j < n; ++j) {
    CAPTURE(j);
    const auto at = static_cast<std::size_t>(j);
    CHECK(bits_of_float(bfloat16_to_float(a[at])) == bits_of_float(columns[j].scaled));
  }
  CHECK(std::isnan(bfloat16_to_float(a.back())));
  CHECK(b == 32);
}
