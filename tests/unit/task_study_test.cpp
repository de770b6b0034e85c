// The tasks of study coherence: on sketches whose errors are known, and what FlashBlockRow and a dense Gaussian S make of a
// problem against S as a matrix and against theory.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/block_row.h"
#include "kernels/signed_entry.h"
#include "src/error.h"
#include "src/sketch_geometry.h"
#include "src/sketch_tasks.h"
#include "src/spread.h"
#include "src/synthetic_source.h"
#include "src/task_rows.h"
#include "src/task_study.h"
#include "tests/support/catch.h"
#include "tests/support/dense_source.h"

using namespace tallsketch;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

SyntheticSource made(SyntheticKind kind, std::int64_t m, std::int64_t n) {
  SyntheticProblem problem;
  problem.kind = kind;
  problem.m = m;
  problem.n = n;
  problem.rank = 2;
  problem.seed = 5;
  return SyntheticSource(problem);
}

/// All rows, [A | Q | b] in FP64: the sketch by S = factor * unit matrix.
SketchedTasks unsketched(TaskRows& rows, double factor) {
  const std::int64_t m = rows.shape().m, n = rows.n();
  std::vector<float> a(at(m * 2 * n));
  std::vector<double> b(at(m));
  rows.read({0, m}, a.data(), b.data());
  SketchedTasks sketch{{}, m, n};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < 2 * n; ++j) sketch.values.push_back(factor * a[at(i * 2 * n + j)]);
    sketch.values.push_back(factor * b[at(i)]);
  }
  return sketch;
}

double dot(const SketchedTasks& rows, std::int64_t j, std::int64_t k) {
  const std::int64_t width = 2 * rows.n + 1;
  double sum = 0;
  for (std::int64_t i = 0; i < rows.d; ++i) sum += rows.values[at(i * width + j)] * rows.values[at(i * width + k)];
  return sum;
}

}  // namespace

TEST_CASE("Beside A and b stands an orthonormal basis, and the triangle has their inner products") {
  // More rows than a chunk of 4096; lowrank has a condition of some 1e6.
  for (const SyntheticKind kind : {SyntheticKind::kGaussian, SyntheticKind::kLowRank, SyntheticKind::kCoordinate}) {
    constexpr std::int64_t kRows = 5000, kCols = 7, kWidth = kCols + 1;
    SyntheticSource source = made(kind, kRows, kCols);
    TaskRows rows(source);
    const SketchedTasks all = unsketched(rows, 1);
    std::vector<float> a(at(kRows * kCols));
    std::vector<double> b(at(kRows));
    source.read({0, kRows}, a.data(), b.data());
    bool same = true;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kCols; ++j) {
        same = same && all.values[at(i * (2 * kCols + 1) + j)] == a[at(i * kCols + j)];
      }
      same = same && all.values[at(i * (2 * kCols + 1) + 2 * kCols)] == b[at(i)];
    }
    INFO("kind " << to_word(kind));
    CHECK(same);
    for (std::int64_t j = 0; j <= kCols; ++j) {
      for (std::int64_t k = 0; k <= kCols; ++k) {
        const std::int64_t column_j = j < kCols ? j : 2 * kCols, column_k = k < kCols ? k : 2 * kCols;
        double of_triangle = 0;
        for (std::int64_t i = 0; i < kWidth; ++i) {
          of_triangle += rows.triangle()[at(i * kWidth + j)] * rows.triangle()[at(i * kWidth + k)];
        }
        const double scale = std::sqrt(dot(all, column_j, column_j) * dot(all, column_k, column_k));
        CHECK(std::fabs(of_triangle - dot(all, column_j, column_k)) < 1e-12 * scale);
        if (j == kCols || k == kCols) continue;
        CHECK(std::fabs(dot(all, kCols + j, kCols + k) - (j == k ? 1 : 0)) < 1e-6);  // Q is FP32
      }
    }
    std::vector<float> q(at(3 * kCols));
    std::vector<double> zeros(3, 1.0);
    rows.basis().read({4095, 4098}, q.data(), zeros.data());
    CHECK(zeros == std::vector<double>(3, 0.0));
    CHECK(double{q[at(kCols + 2)]} == all.values[at(4096 * (2 * kCols + 1) + kCols + 2)]);
  }
}

TEST_CASE("A study's problem has independent columns and more rows than columns") {
  DenseProblem problem;
  problem.m = 6;
  problem.n = 2;
  problem.r = 1;
  problem.a = {1, 2, 2, 4, 3, 6, 4, 8, 5, 10, 6, 12};
  problem.b = {1, 0, 0, 0, 0, 0};
  DenseSource dependent(problem, ElementType::kFloat32);
  CHECK_THROWS_AS(TaskRows(dependent), Error);
  SyntheticSource square = made(SyntheticKind::kGaussian, 4, 4);
  CHECK_THROWS_AS(TaskRows(square), Error);
}

TEST_CASE("Ridge regression and least squares by QR, of problems solved by hand") {
  const std::vector<double> tall = {1, 0, 1, 0, 2, 2, 0, 0, 5};  // M = diag(1, 2) over zeros, c = (1, 2, 5)
  const auto x = ridge_solution(tall, 3, 2, 0);
  REQUIRE(x.has_value());
  CHECK((*x)[0] == Catch::Approx(1));
  CHECK((*x)[1] == Catch::Approx(1));
  const auto shrunk = ridge_solution(tall, 3, 2, 1);
  CHECK((*shrunk)[0] == Catch::Approx(0.5));  // 1 / (1 + 1)
  CHECK((*shrunk)[1] == Catch::Approx(0.8));  // 4 / (4 + 1)
  // M = [3 4], c = 5: fewer rows than columns, x = M^T (M M^T + lambda)^-1 c.
  CHECK(!ridge_solution({3, 4, 5}, 1, 2, 0).has_value());
  const auto wide = ridge_solution({3, 4, 5}, 1, 2, 25);
  CHECK((*wide)[0] == Catch::Approx(0.3));
  CHECK((*wide)[1] == Catch::Approx(0.4));
  CHECK(!ridge_solution({1, 1, 1, 2, 2, 1, 3, 3, 1}, 3, 2, 0).has_value());  // equal columns
  CHECK(!ridge_solution({1, 0, 1, 2, 0, 1, 3, 0, 1}, 3, 2, 0).has_value());  // a zero column
  // Triangle of [A | b] with R = diag(2, 1), R12 = (2, 3), R22 = 6: at x = (1, 1) the residual is (0, -2, 6), b (2, 3, 6).
  CHECK(relative_residual({2, 0, 2, 0, 1, 3, 0, 0, 6}, 2, {1, 1}) == Catch::Approx(std::sqrt(40.0 / 49)));
}

TEST_CASE("No sketch has no error, twice the rows three times the Gram matrix, and x does not mind") {
  SyntheticSource source = made(SyntheticKind::kGaussian, 300, 6);
  TaskRows rows(source);
  constexpr double kRidge = 1e-3;
  const TaskErrors exact = exact_errors(rows.triangle(), 6, kRidge);
  const TaskErrors same = task_errors(unsketched(rows, 1), rows.triangle(), kRidge);
  CHECK(same.gram < 1e-6);
  CHECK(same.ose < 1e-6);  // Q is FP32
  CHECK(same.ridge.value() == Catch::Approx(exact.ridge.value()).epsilon(1e-9));
  CHECK(same.solve.value() == Catch::Approx(exact.solve.value()).epsilon(1e-9));
  CHECK(exact.ridge.value() > exact.solve.value());
  const TaskErrors twice = task_errors(unsketched(rows, 2), rows.triangle(), kRidge);
  CHECK(twice.gram == Catch::Approx(3).epsilon(1e-6));
  CHECK(twice.ose == Catch::Approx(3).epsilon(1e-6));
  CHECK(twice.solve.value() == Catch::Approx(exact.solve.value()).epsilon(1e-9));
  const double row_and_diagonal = exact.solve.value();
  CHECK(row_and_diagonal ==
        Catch::Approx(std::fabs(rows.triangle()[48]) / std::sqrt(dot(unsketched(rows, 1), 12, 12))));  // |R22| / ||b||
}

TEST_CASE("A sketch of fewer rows than columns embeds nothing, has a ridge solution and no other") {
  SyntheticSource source = made(SyntheticKind::kGaussian, 300, 6);
  TaskRows rows(source);
  SketchedTasks sketch = unsketched(rows, 1);
  sketch.d = 5;
  sketch.values.resize(5 * 13);
  const TaskErrors errors = task_errors(sketch, rows.triangle(), 1e-3);
  CHECK(errors.ose >= 1);
  CHECK(errors.ridge.has_value());
  CHECK(!errors.solve.has_value());
  sketch.values[3] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(task_errors(sketch, rows.triangle(), 1e-3), Error);
}

TEST_CASE("A dense sketch is one S for A, Q and b, and its errors are what theory expects") {
  constexpr std::int64_t kCols = 16, kSketchRows = 128, kWidth = 2 * kCols + 1;
  SyntheticSource source = made(SyntheticKind::kGaussian, 2000, kCols);
  TaskRows rows(source);
  const SketchedTasks sketch = gaussian_tasks(rows.triangle(), kCols, kSketchRows, 3);
  double departure = 0;
  for (std::int64_t i = 0; i < kSketchRows; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      double product = 0;  // (S Q) R
      for (std::int64_t k = 0; k <= j; ++k) {
        product += sketch.values[at(i * kWidth + kCols + k)] * rows.triangle()[at(k * (kCols + 1) + j)];
      }
      departure = std::max(departure, std::fabs(product - sketch.values[at(i * kWidth + j)]));
    }
  }
  CHECK(departure < 1e-10);
  const double exact = exact_errors(rows.triangle(), kCols, 1e-3).solve.value();
  std::vector<double> excess, gram, ose, by_singular_values;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const TaskErrors errors =
        task_errors(gaussian_tasks(rows.triangle(), kCols, kSketchRows, seed), rows.triangle(), 1e-3);
    excess.push_back(errors.solve.value() / exact - 1);
    gram.push_back(errors.gram);
    ose.push_back(errors.ose);
    by_singular_values.push_back(gaussian_geometry(kSketchRows, kCols, 1000 + seed).distortion());
  }
  // sqrt(d / (d - n)) - 1, as for any Gaussian S; the mean of squares of Gram errors is (n + 1) / d with nearly orthogonal columns: ||G||_F^2 = n, sum of variances (n^2 + n) / d. The spectrum is that of a Gaussian (d, n) matrix.
  CHECK(spread_of(excess).median == Catch::Approx(std::sqrt(128.0 / 112) - 1).epsilon(0.1));
  CHECK(spread_of(gram).median == Catch::Approx(std::sqrt((kCols + 1.0) / kSketchRows)).epsilon(0.1));
  CHECK(spread_of(ose).median == Catch::Approx(spread_of(by_singular_values).median).epsilon(0.1));
}

TEST_CASE("FlashBlockRow of A, Q and b is its S times them") {
  constexpr std::int64_t kRows = 700, kCols = 3, kWidth = 2 * kCols + 1;
  SyntheticSource source = made(SyntheticKind::kGaussian, kRows, kCols);
  TaskRows rows(source);
  SketchSpec spec;
  spec.seed = 11;
  spec.d = 256;
  spec.kappa = 3;
  spec.block_nnz = 2;
  const SketchedTasks sketch = block_row_tasks(spec, rows);
  const SketchedTasks all = unsketched(rows, 1);
  const BlockRowSpec rule{spec.seed, kRows, spec.d, spec.kappa, spec.block_nnz};
  double departure = 0, entries = 0;
  for (std::int64_t i = 0; i < spec.d; ++i) {
    std::vector<double> row_of_s(at(kRows), 0.0);
    for (std::int32_t l = 0; l < spec.kappa; ++l) {
      const SampledBlock block = sampled_block(rule, i / kBlockRowSize, l);
      for (std::int32_t u = 0; u < spec.block_nnz; ++u) {
        const std::uint32_t entry = sampled_row(rule, i, l, u, block.rows);
        row_of_s[at(block.first + entry_row(entry))] += with_sign(1.0, entry);
      }
    }
    for (std::int64_t j = 0; j < kWidth; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kRows; ++k) sum += row_of_s[at(k)] * all.values[at(k * kWidth + j)];
      sum *= std::sqrt(static_cast<double>(kRows) / (256 * 3 * 2));
      departure = std::max(departure, std::fabs(sum - sketch.values[at(i * kWidth + j)]));
      entries += std::fabs(sum);
    }
  }
  CHECK(departure < 1e-5);  // the scale is an FP32 number
  CHECK(entries > 0);
}
