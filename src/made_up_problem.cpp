#include "src/made_up_problem.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>
#include <lapacke.h>

#include "kernels/half.h"
#include "src/error.h"
#include "src/normals.h"

namespace tallsketch {

namespace {

void store(const std::vector<double>& values, ElementType type, void* a) {
  switch (type) {
    case ElementType::kFloat64: std::copy(values.begin(), values.end(), static_cast<double*>(a)); return;
    case ElementType::kFloat32:
      std::transform(values.begin(), values.end(), static_cast<float*>(a),
                     [](double value) { return static_cast<float>(value); });
      return;
    case ElementType::kFloat16:
      std::transform(values.begin(), values.end(), static_cast<std::uint16_t*>(a),
                     [](double value) { return float_to_half(static_cast<float>(value)); });
      return;
    case ElementType::kBfloat16:
      std::transform(values.begin(), values.end(), static_cast<std::uint16_t*>(a),
                     [](double value) { return float_to_bfloat16(static_cast<float>(value)); });
      return;
  }
}

}  // namespace

std::vector<double> orthonormal_matrix(std::int64_t n, std::uint64_t seed) {
  std::vector<double> q(static_cast<std::size_t>(n * n)), tau(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) normals(seed, j, DrawPurpose::kVectors, n, q.data() + j * n);
  const int order = checked_int(n, "n");
  lapack_int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, order, order, q.data(), order, tau.data());
  if (info == 0) info = LAPACKE_dorgqr(LAPACK_COL_MAJOR, order, order, order, q.data(), order, tau.data());
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACK's QR of a made-up matrix returned {}", info));
  return q;
}

std::vector<double> mixing_matrix(const MadeUpProblem& problem, const ProblemShape& shape) {
  const std::int64_t n = shape.n;
  const std::vector<double> v = orthonormal_matrix(n, problem.seed);
  std::vector<double> scaled = v, mix(v.size());
  for (std::int64_t j = 0; j < n; ++j) {
    const double share = n == 1 ? 0 : static_cast<double>(j) / static_cast<double>(n - 1);
    const double sigma = std::pow(problem.cond, -share) / std::sqrt(static_cast<double>(shape.m));
    for (std::int64_t i = 0; i < n; ++i) scaled[static_cast<std::size_t>(j * n + i)] *= sigma;
  }
  const int order = checked_int(n, "n");
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, order, order, order, 1.0, scaled.data(), order, v.data(), order,
              0.0, mix.data(), order);
  return mix;
}

double noise_of(const MadeUpProblem& problem, const ProblemShape& shape, const std::vector<double>& mix) {
  double squares = 0;  // of mix 1: the variance of an element of A 1
  for (std::int64_t i = 0; i < shape.n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < shape.n; ++j) sum += mix[static_cast<std::size_t>(j * shape.n + i)];
    squares += sum * sum;
  }
  return problem.residual * std::sqrt(squares);
}

void make_rows(const MadeUpProblem& problem, const ProblemShape& shape, const std::vector<double>& mix, RowRange rows,
               void* a, double* b) {
  const std::int64_t n = shape.n, r = shape.r, count = rows.size();
  std::vector<double> g(static_cast<std::size_t>(count * n)), product(g.size());
  for (std::int64_t i = 0; i < count; ++i) {
    normals(problem.seed, rows.begin + i, DrawPurpose::kMatrixEntries, n, g.data() + i * n);
  }
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, checked_int(count, "rows"), checked_int(n, "n"),
              static_cast<int>(n), 1.0, g.data(), static_cast<int>(n), mix.data(), static_cast<int>(n), 0.0,
              product.data(), static_cast<int>(n));
  store(product, shape.a_type, a);
  const double noise = noise_of(problem, shape, mix);
  for (std::int64_t i = 0; i < count; ++i) {
    double fitted = 0;
    for (std::int64_t j = 0; j < n; ++j) fitted += product[static_cast<std::size_t>(i * n + j)];
    normals(problem.seed, rows.begin + i, DrawPurpose::kNoise, r, b + i * r);
    for (std::int64_t k = 0; k < r; ++k) b[i * r + k] = fitted + noise * b[i * r + k];
  }
}

}  // namespace tallsketch
