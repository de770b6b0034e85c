// Columns times powers of two: which exponents, and that the values are exact in every stored type.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "src/scaled_source.h"
#include "tests/support/catch.h"
#include "tests/support/exact_source.h"

using namespace tallsketch;

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
