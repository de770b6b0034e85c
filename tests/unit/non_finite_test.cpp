// NaN, Inf and values beyond float: count and first place in every stored type, and the message of the source.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/non_finite.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double kFinite = std::numeric_limits<double>::max();
constexpr double kFloat = std::numeric_limits<float>::max();

/// A (m, n) float64 and b (m, r) from two vectors.
class Stored final : public RowSource {
 public:
  Stored(std::vector<double> a, std::vector<double> b, std::int64_t n, std::int64_t r)
      : a_(std::move(a)), b_(std::move(b)) {
    shape_ = {static_cast<std::int64_t>(a_.size()) / n, n, r, ElementType::kFloat64};
    info_ = {{"f.h5", "g.h5"}, "/A", "/rhs", "float64", "made", "computed", {}};
  }
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override {
    std::copy(a_.begin() + rows.begin * shape_.n, a_.begin() + rows.end * shape_.n, static_cast<double*>(a));
    std::copy(b_.begin() + rows.begin * shape_.r, b_.begin() + rows.end * shape_.r, b);
  }

 private:
  std::vector<double> a_, b_;
  ProblemShape shape_;
  SourceInfo info_;
};

/// The message of the error, "" without one; every chunk size must say the same.
std::string complaint(Stored source, SketchPrecision precision = SketchPrecision::kFp32) {
  const Communicator comm(MPI_COMM_WORLD);
  std::string first;
  for (const std::int64_t chunk : {1, 2, 3, 100}) {
    std::string message;
    try {
      throw_if_out_of_range(source, {0, source.shape().m}, chunk, precision, comm);
    } catch (const Error& e) {
      CHECK(e.exit_code() == 4);
      message = e.what();
    }
    if (chunk == 1) first = message;
    CHECK(message == first);
  }
  return first;
}

}  // namespace

TEMPLATE_TEST_CASE("Non-finite values are counted and the first is placed, in global rows", "", float, double) {
  const ElementType type = sizeof(TestType) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN(), inf = std::numeric_limits<TestType>::infinity();
  std::vector<TestType> data(5 * 3, TestType{1});
  data[0] = std::numeric_limits<TestType>::max();
  data[1] = std::numeric_limits<TestType>::lowest();
  data[2] = std::numeric_limits<TestType>::denorm_min();
  NonFinite found = find_outside(data.data(), type, {100, 105}, 3, {0, kFinite});
  CHECK(found.count == 0);
  data[14] = nan;
  found = find_outside(data.data(), type, {100, 105}, 3, {0, kFinite});
  CHECK(found.count == 1);
  CHECK(found.row == 104);
  CHECK(found.col == 2);
  data[4] = -inf;
  data[7] = inf;
  found = find_outside(data.data(), type, {100, 105}, 3, {0, kFinite});
  CHECK(found.count == 3);
  CHECK(found.row == 101);
  CHECK(found.col == 1);
  CHECK(find_outside(data.data(), type, {100, 100}, 3, {0, kFinite}).count == 0);
}

TEST_CASE("Every non-finite half is found and no finite one") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool finite = (bits & 0x7c00U) != 0x7c00U;
    if ((find_outside(&half, ElementType::kFloat16, {7, 8}, 1, {0, kFinite}).count == 0) != finite) {
      FAIL("half " << bits);
    }
  }
}

TEST_CASE("Values beyond float32 are found by its limit, the limit itself is not") {
  const double above = std::nextafter(kFloat, kFinite);
  const std::vector<double> data = {kFloat, -kFloat, above, 1e300};
  const NonFinite found = find_outside(data.data(), ElementType::kFloat64, {0, 2}, 2, {0, kFloat});
  CHECK(found.count == 2);
  CHECK(found.row == 1);
  CHECK(found.col == 0);
}

TEST_CASE("The message has matrix, count, place, dataset and files; A is told before b, non-finite before too large") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  CHECK(complaint({{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4}, 2, 1}) == "");
  CHECK_THAT(complaint({{1, 2, 3, 4, 5, nan, 7, inf}, {1, 2, nan, 4}, 2, 1}),
             ContainsSubstring("A has 2 non-finite") && ContainsSubstring("row 2, column 1 (0-based)") &&
                 ContainsSubstring("dataset /A") && ContainsSubstring("f.h5, g.h5"));
  CHECK_THAT(complaint({{1e300, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, -inf, 7, 8}, 2, 2}),
             ContainsSubstring("b has 1 non-finite") && ContainsSubstring("row 2, column 1") &&
                 ContainsSubstring("dataset /rhs"));
  CHECK_THAT(complaint({{1, 2, 3, 4, 5, 6, -1e39, 8}, {1, 2, 3, 1e40}, 2, 1}),
             ContainsSubstring("A has 1 values beyond the range of float32") && ContainsSubstring("row 3, column 0"));
  CHECK_THAT(complaint({{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 1e40}, 2, 1}),
             ContainsSubstring("b has 1 values beyond the range of float32"));
}

TEST_CASE("Float64 values that float32 would flush to zero are named; zeros and float32's own subnormals are not") {
  CHECK(complaint(Stored({1, 0, 1e-60, 2, -1e-39, 3}, {0, 0, 1}, 2, 1)) != "");
  CHECK_THAT(complaint(Stored({1, 0, 1e-60, 2, -1e-39, 3}, {0, 0, 1}, 2, 1)),
             ContainsSubstring("A has 2 values below the range of float32") && ContainsSubstring("row 1, column 0"));
  CHECK_THAT(complaint(Stored({1, 0, 1, 2, 1, 3}, {0, 1e-45, 1}, 2, 1)),
             ContainsSubstring("b has 1 values below the range of float32") && ContainsSubstring("row 1, column 0"));
  CHECK(complaint(Stored({1, 0, 2e-38, 2, -2e-38, 3}, {0, 0, 1}, 2, 1)) == "");
}

TEST_CASE("An FP64 sketch holds every finite float64") {
  CHECK(complaint({{1e300, 2, 3, 4, 5, 1e-320, 7, 8}, {1, 2, 3, 1e-60}, 2, 1}, SketchPrecision::kFp64) == "");
  CHECK_THAT(complaint({{1, 2, 3, 4, 5, std::nan(""), 7, 8}, {1, 2, 3, 4}, 2, 1}, SketchPrecision::kFp64),
             ContainsSubstring("A has 1 non-finite"));
}

TEST_CASE("The largest magnitude of every column of A and b is found over all chunks; NaN and Inf are placed instead") {
  const Communicator comm(MPI_COMM_WORLD);
  const double least = std::numeric_limits<double>::denorm_min();
  for (const std::int64_t chunk : {1, 2, 100}) {
    Stored source({1, -least, -5, 0, 2, 0}, {1e-30, 0, -1e300}, 2, 1);
    CHECK(finite_column_maxima(source, {0, 3}, chunk, comm) == std::vector<double>{5, least, 1e300});
    CHECK(finite_column_maxima(source, {1, 1}, chunk, comm) == std::vector<double>{0, 0, 0});
    Stored with_nan({1, 2, 3, std::nan(""), 4, 5}, {1, 2, INFINITY}, 2, 1);
    CHECK_THROWS_WITH(finite_column_maxima(with_nan, {0, 3}, chunk, comm),
                      ContainsSubstring("A has 1 non-finite") && ContainsSubstring("row 1, column 1"));
  }
}
