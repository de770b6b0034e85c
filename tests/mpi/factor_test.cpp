// The reduced problem as a backend makes it, on the host (mpi.factor) and on GPUs (cuda.factor): by QR and by Cholesky
// the triangle of the same matrix, without the rows held back and with a ridge; Gram jobs; S (b - A x).
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "src/sketch_factor.h"
#include "tests/support/dense_matrix.h"
#include "tests/support/dense_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/specs.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr double kRatio = 30;
constexpr std::int64_t kRows = 3000, kColumns = 11, kRhs = 2, kWidth = kColumns + kRhs;

class World {
 public:
  Communicator comm{MPI_COMM_WORLD};

  /// The reduced sketch or Gram matrix of the source, in the backend of every rank.
  Backend& compress(RowSource& source, const SketchSpec& spec, Compression compression) {
    SketchJob job{.spec = spec, .shape = source.shape(), .compression = compression};
    PlanLimits limits = backend_->plan_limits(job);
    limits.chunk_rows = 700;
    job.plan = make_plan(source.shape(), spec, comm.size(), limits, compression);
    job.rows = job.plan.rank_rows[static_cast<std::size_t>(comm.rank())];
    backend_->begin(job);
    for_each_chunk(job.rows, job.plan.chunk_rows, [&](RowRange rows) {
      ChunkBuffer& chunk = backend_->next_buffer(rows);
      source.read(rows, chunk.a, chunk.b);
      backend_->upload(chunk);
    });
    backend_->exchange();
    backend_->sketch();
    backend_->reduce();
    return *backend_;
  }

 private:
  PhaseTimer timer_;
  std::unique_ptr<Backend> backend_ = make_backend(run_options(), comm, timer_);
};

SketchSpec spec_in(SketchPrecision precision) {
  SketchSpec spec = make_spec(SketchHash::kPermuted, 192, 4);
  spec.precision = precision;
  return spec;
}

/// R^T R of the columns of A, and R12, against a matrix with its columns scaled as the factor says: the largest error
/// relative to the columns' norms, over n eps.
double gram_ratio(const TriangularFactor& factor, const DenseMatrix& matrix, double eps) {
  const DenseMatrix scaled = scaled_columns(matrix, factor.exponent), truth = transpose(scaled) * scaled;
  const std::vector<double> upper = upper_of(factor);
  DenseMatrix r(kWidth, kWidth);
  for (std::int64_t j = 0; j < kWidth; ++j) {
    for (std::int64_t i = 0; i <= std::min(j, kColumns - 1); ++i) {
      r(i, j) = upper[static_cast<std::size_t>(j * kWidth + i)];
    }
  }
  const DenseMatrix found = transpose(r) * r;
  double worst = 0;
  for (std::int64_t j = 0; j < kWidth; ++j) {
    for (std::int64_t i = 0; i <= std::min(j, kColumns - 1); ++i) {
      worst = std::max(worst, std::fabs(found(i, j) - truth(i, j)) / std::sqrt(truth(i, i) * truth(j, j)));
    }
  }
  return worst / (static_cast<double>(kWidth) * eps);
}

/// [scale M without its unused rows; sqrt(ridge) 2^exponents | 0]
DenseMatrix reduced_matrix(const DenseMatrix& sketch, double scale, const FactorChoice& choice) {
  DenseMatrix result(sketch.rows + kColumns, kWidth);
  for (std::int64_t j = 0; j < kWidth; ++j) {
    for (std::int64_t i = 0; i < sketch.rows; ++i) {
      result(i, j) = choice.unused.holds(i) ? 0 : scale * sketch(i, j);
    }
    const int exponent = choice.exponents.empty() ? 0 : choice.exponents[static_cast<std::size_t>(j)];
    if (j < kColumns) result(sketch.rows + j, j) = std::ldexp(std::sqrt(choice.ridge), exponent);
  }
  return result;
}

std::vector<int> some_exponents() {
  std::vector<int> exponents;
  for (int j = 0; j < kWidth; ++j) exponents.push_back(j % 5 - 2);
  return exponents;
}

}  // namespace

TEST_CASE("A backend's QR and Cholesky are the triangle of the sketch, without check rows, and with a ridge") {
  World world;
  DenseSource source(make_dense_problem(kRows, kColumns, kRhs, 10, 0.5, kSeed));
  for (const SketchPrecision precision : {SketchPrecision::kFp32, SketchPrecision::kFp64}) {
    const SketchSpec spec = spec_in(precision);
    Backend& backend = world.compress(source, spec, Compression::kSketch);
    const double eps = precision == SketchPrecision::kFp32 ? kFloatEpsilon : kDoubleEpsilon;
    bool good = true;
    if (world.comm.is_root()) {
      const DenseMatrix sketch = from_row_major(spec.d, kWidth, backend.sketch_copy());
      for (const FactorMethod method : {FactorMethod::kQr, FactorMethod::kCholesky}) {
        for (const std::int64_t unused : {0, 1, 64}) {
          for (const double ridge : {0.0, 0.3}) {
            for (const bool scaled : {false, true}) {
              const FactorChoice choice{method, make_check_rows(spec.d, unused), ridge,
                                        scaled ? some_exponents() : std::vector<int>{}};
              const std::optional<TriangularFactor> factor = backend.factor(choice);
              CHECK(factor);
              good = good && factor;
              if (!factor) continue;
              CHECK(factor->method == method);
              CHECK(factor->unit_roundoff == eps / 2);
              // Cholesky's matrix is FP64 whatever the sketch is in, and condition 10 loses two digits of it.
              const double ratio = gram_ratio(*factor, reduced_matrix(sketch, 0.5, choice),
                                              method == FactorMethod::kQr ? eps : kDoubleEpsilon);
              INFO("precision " << to_word(precision) << " Cholesky " << (method == FactorMethod::kCholesky)
                                << " unused " << unused << " ridge " << ridge << " ratio " << ratio);
              CHECK(ratio < kRatio);
              good = good && ratio < kRatio;
            }
          }
        }
      }
    }
    MPI_REQUIRE(good);
  }
}

TEST_CASE("A backend's Gram job is factored as the Gram matrix of all rows") {
  World world;
  for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32}) {
    DenseSource source(make_dense_problem(kRows, kColumns, kRhs, 10, 0.5, kSeed + 1), type);
    Backend& backend = world.compress(source, spec_in(SketchPrecision::kFp32), Compression::kGram);
    bool good = true;
    if (world.comm.is_root()) {
      const DenseProblem& problem = source.problem();
      const DenseMatrix all =
          beside(from_row_major(kRows, kColumns, problem.a), from_row_major(kRows, kRhs, problem.b));
      for (const double ridge : {0.0, 0.3}) {
        for (const bool scaled : {false, true}) {
          const FactorChoice choice{FactorMethod::kCholesky, {}, ridge, scaled ? some_exponents() : std::vector<int>{}};
          const std::optional<TriangularFactor> factor = backend.factor(choice);
          CHECK(factor);
          good = good && factor;
          if (!factor) continue;
          CHECK(factor->method == FactorMethod::kCholesky);
          CHECK(factor->unit_roundoff == kDoubleEpsilon / 2);
          const double ratio = gram_ratio(*factor, reduced_matrix(all, 1, choice), kDoubleEpsilon);
          INFO("ridge " << ridge << " ratio " << ratio);
          CHECK(ratio < kRatio);
          good = good && ratio < kRatio;
        }
      }
    }
    MPI_REQUIRE(good);
  }
}

TEST_CASE("Dependent columns have no Cholesky factor, of a sketch or of the rows, but with a ridge") {
  World world;
  DenseProblem problem = make_dense_problem(kRows, kColumns, kRhs, 10, 0.5, kSeed + 2);
  for (std::int64_t i = 0; i < kRows; ++i) problem.a[static_cast<std::size_t>(i * kColumns + 4)] = 0;
  DenseSource source(problem);
  for (const Compression compression : {Compression::kSketch, Compression::kGram}) {
    Backend& backend = world.compress(source, spec_in(SketchPrecision::kFp64), compression);
    bool good = true;
    if (world.comm.is_root()) {
      good =
          !backend.factor({FactorMethod::kCholesky, {}, 0, {}}) && backend.factor({FactorMethod::kCholesky, {}, 1, {}});
      CHECK(good);
    }
    MPI_REQUIRE(good);
  }
}

TEST_CASE("A backend's S (b - A x) is that of its sketch") {
  World world;
  DenseSource source(make_dense_problem(kRows, kColumns, kRhs, 10, 0.5, kSeed + 3));
  for (const SketchPrecision precision : {SketchPrecision::kFp32, SketchPrecision::kFp64}) {
    const SketchSpec spec = spec_in(precision);
    Backend& backend = world.compress(source, spec, Compression::kSketch);
    bool good = true;
    if (world.comm.is_root()) {
      const std::vector<double> x = row_major(random_matrix(kColumns, kRhs, kSeed + 4)), sketch = backend.sketch_copy();
      const std::vector<double> found = backend.sketch_residual(x);
      const std::vector<double> expected = residual_of_sketch(sketch, spec.d, kColumns, kRhs, 0.5, x);
      CHECK(found.size() == expected.size());
      const DenseMatrix difference = from_row_major(spec.d, kRhs, found) - from_row_major(spec.d, kRhs, expected);
      const double size = norm(from_row_major(spec.d, kWidth, sketch)) * norm(from_row_major(kColumns, kRhs, x));
      good = norm(difference) < kRatio * double(kColumns) * kDoubleEpsilon * size;
      CHECK(good);
    }
    MPI_REQUIRE(good);
  }
}
