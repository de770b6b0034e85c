// The triangle of the reduced problem on the GPU: QR and Cholesky against the host's, check rows, ridge, what has no
// Cholesky factor; and the sketched residual.
#include <cmath>
#include <limits>
#include <vector>

#include "src/cuda_reduced_solver.h"
#include "src/reduced_solver.h"
#include "tests/support/catch.h"
#include "tests/support/device_data.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 200, kN = 45, kR = 2, kCols = kN + kR;

/// Columns of magnitude 1e3 and one of 1e-20, of condition about 10 when they are scaled.
template <class T>
std::vector<T> made_up_sketch() {
  std::vector<T> sketch(static_cast<std::size_t>(kRows * kCols));
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    sketch[i] = static_cast<T>(std::sin(0.37 * static_cast<double>(i * i % 9973)) * (i % kCols == 5 ? 1e-20 : 1e3));
  }
  return sketch;
}

template <class T>
SketchView<T> view_of(const DeviceBuffer<T>& sketch) {
  return {sketch.data(), kRows, kCols, kCols};
}

/// The host's Gram matrix of a sketch, rows of `unused` left out: (cols, cols) column-major, upper triangle.
template <class T>
std::vector<double> gram_of(const std::vector<T>& sketch, const CheckRows& unused) {
  std::vector<double> gram(static_cast<std::size_t>(kCols * kCols), 0.0);
  for (std::int64_t i = 0; i < kRows; ++i) {
    if (unused.holds(i)) continue;
    const T* const row = sketch.data() + i * kCols;
    for (std::int64_t j = 0; j < kCols; ++j) {
      for (std::int64_t k = 0; k <= j; ++k) {
        gram[static_cast<std::size_t>(j * kCols + k)] += double{row[k]} * double{row[j]};
      }
    }
  }
  return gram;
}

/// The largest difference of two triangles' columns, in their norms, rows compared up to their signs.
double difference(const TriangularFactor& a, const TriangularFactor& b) {
  const std::vector<double> of_a = upper_of(a), of_b = upper_of(b);
  double worst = 0;
  for (std::int64_t j = 0; j < kN; ++j) {
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i <= j; ++i) {
      const auto at = static_cast<std::size_t>(j * kCols + i);
      error = std::max(error, std::fabs(std::fabs(of_a[at]) - std::fabs(of_b[at])));
      norm = std::max(norm, std::fabs(of_b[at]));
    }
    worst = std::max(worst, error / norm);
  }
  return worst;
}

void check_same_x(const TriangularFactor& a, const TriangularFactor& b, double relative, double absolute) {
  const ReducedSolution x = solve_reduced(a, kRows), y = solve_reduced(b, kRows);
  REQUIRE(x.rank == kN);
  REQUIRE(y.rank == kN);
  for (std::size_t i = 0; i < x.x.size(); ++i) {
    CHECK(x.x[i] == Catch::Approx(y.x[i]).epsilon(relative).margin(absolute));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("The device QR gives the host's R up to the signs of its rows, and the same x", "", float, double) {
  constexpr double kRoundoff = std::numeric_limits<TestType>::epsilon() / 2;
  const std::vector<TestType> sketch = made_up_sketch<TestType>();
  const auto device = to_device(sketch);
  const CudaStream stream;
  CudaReducedSolver solver(stream);
  for (const CheckRows& unused : {CheckRows{}, make_check_rows(kRows, 16)}) {
    const TriangularFactor on_device = solver.qr_of_sketch(view_of(device), kN, kR, 0.5, unused);
    const TriangularFactor on_host = qr_of_sketch(sketch, kRows, kN, kR, 0.5, unused);
    INFO("unused rows " << unused.count);
    CHECK(on_device.exponent == on_host.exponent);
    CHECK(on_device.unit_roundoff == kRoundoff);
    CHECK(on_device.method == FactorMethod::kQr);
    // Rows of R move by the condition of the columns before them, times the rounding of a QR of 200 rows.
    CHECK(difference(on_device, on_host) < 200 * kRoundoff * solve_reduced(on_host, kRows).condition);
    const bool single = sizeof(TestType) == 4;
    check_same_x(on_device, on_host, single ? 1e-3 : 1e-10, single ? 1e-6 : 1e-12);
  }
}

TEMPLATE_TEST_CASE("Cholesky of the sketch's Gram matrix on the device is the host's, with check rows and ridge", "",
                   float, double) {
  const std::vector<TestType> sketch = made_up_sketch<TestType>();
  const auto device = to_device(sketch);
  const CudaStream stream;
  CudaReducedSolver solver(stream);
  std::vector<int> exponents(kCols, 0);
  exponents[3] = 7;
  for (const CheckRows& unused : {CheckRows{}, make_check_rows(kRows, 16)}) {
    for (const double ridge : {0.0, 1e4}) {
      const GramOrigin origin{kUnitRoundoffOf<TestType>, 0.5, ridge, ridge > 0 ? exponents : std::vector<int>{}};
      const auto on_device = solver.cholesky_of_sketch(view_of(device), kN, kR, unused, origin);
      const auto on_host = cholesky_of_gram(gram_of(sketch, unused), kN, kR, origin);
      INFO("unused rows " << unused.count << " ridge " << ridge);
      REQUIRE(on_device);
      REQUIRE(on_host);
      CHECK(on_device->exponent == on_host->exponent);
      CHECK(on_device->unit_roundoff == on_host->unit_roundoff);
      CHECK(on_device->method == FactorMethod::kCholesky);
      const double condition = solve_reduced(*on_host, kRows).condition;
      CHECK(difference(*on_device, *on_host) < 200 * 0x1p-53 * condition * condition);
      check_same_x(*on_device, *on_host, 1e-9, 1e-11);
      for (std::int64_t k = kN; k < kCols; ++k) {
        const auto at = static_cast<std::size_t>(k * (kCols + 1));
        CHECK(upper_of(*on_device)[at] == Catch::Approx(upper_of(*on_host)[at]).epsilon(1e-10));
      }
    }
  }
}

TEST_CASE("Cholesky and QR of an FP64 sketch give the same x on the device") {
  const auto device = to_device(made_up_sketch<double>());
  const CudaStream stream;
  CudaReducedSolver solver(stream);
  const auto cholesky = solver.cholesky_of_sketch(view_of(device), kN, kR, {}, {kUnitRoundoffOf<double>, 0.5, 0, {}});
  REQUIRE(cholesky);
  check_same_x(*cholesky, solver.qr_of_sketch(view_of(device), kN, kR, 0.5), 1e-9, 1e-11);
}

TEST_CASE("A Gram matrix on the device has the host's factor, and one of dependent columns has none") {
  const std::vector<double> sketch = made_up_sketch<double>();
  std::vector<double> gram = gram_of(sketch, {});
  const CudaStream stream;
  CudaReducedSolver solver(stream);
  const auto on_device = solver.cholesky_of_gram(to_device(gram).data(), kN, kR, {kUnitRoundoffOf<double>, 1, 0, {}});
  const auto on_host = cholesky_of_gram(gram, kN, kR, {kUnitRoundoffOf<double>, 1, 0, {}});
  REQUIRE(on_device);
  REQUIRE(on_host);
  check_same_x(*on_device, *on_host, 1e-9, 1e-11);

  for (std::int64_t j = 7; j < kCols; ++j) gram[static_cast<std::size_t>(j * kCols + 7)] = 0;  // a column of zeros
  std::fill_n(gram.begin() + 7 * kCols, kCols, 0.0);
  CHECK_FALSE(solver.cholesky_of_gram(to_device(gram).data(), kN, kR, {kUnitRoundoffOf<double>, 1, 0, {}}));
  const auto norms = solver.column_norms(to_device(gram).data(), kCols);
  CHECK(norms[7] == 0);
  CHECK(norms[8] == std::sqrt(gram[8 * (kCols + 1)]));
}

TEMPLATE_TEST_CASE("The sketched residual on the device is the host's", "", float, double) {
  const std::vector<TestType> sketch = made_up_sketch<TestType>();
  const auto device = to_device(sketch);
  std::vector<double> x(static_cast<std::size_t>(kN * kR));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<double>(i));
  const auto device_x = to_device(x);
  const auto out = zeros<double>(kRows * kR);
  check(cuda::sketch_residual(view_of(device), kN, device_x.data(), 0.5, out.data(), nullptr));
  const std::vector<double> got = to_host(out), expected = residual_of_sketch(sketch, kRows, kN, kR, 0.5, x);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(got[i] - expected[i]));
  CHECK(worst < 45 * 45 * 1e3 * 0x1p-53);  // sums of 45 products below 1e3, in another order
}
