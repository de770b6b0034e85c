#include "src/cuda_reduced_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "kernels/gram_cuda.h"
#include "kernels/rounding.h"
#include "kernels/sketch_cuda.h"
#include "src/cuda_gram.h"
#include "src/cuda_triangle.h"
#include "src/error.h"

namespace tallsketch {

namespace {

template <class T>
constexpr cudaDataType kCudaType = sizeof(T) == sizeof(double) ? CUDA_R_64F : CUDA_R_32F;

constexpr double kOne = 1, kZero = 0;

/// Columns of FP64 matrices begin at whole 128 bytes: cuBLAS is up to twice as fast as with an odd pitch.
std::int64_t aligned_pitch(std::int64_t rows) { return round_up(rows, 16); }

void require_sensible(std::size_t device_bytes, std::size_t host_bytes, std::int64_t rows, std::int64_t cols) {
  constexpr std::size_t kAbsurd = std::size_t{1} << 42;  // an overflowed query asks for exabytes
  require(device_bytes < kAbsurd && host_bytes < kAbsurd, ErrorKind::kMemory,
          fmt::format("cuSOLVER asks for {} bytes to factor a {} x {} sketch; use a smaller --oversample", device_bytes,
                      rows, cols));
}

}  // namespace

CudaReducedSolver::CudaReducedSolver(const CudaStream& stream) : stream_(stream), blas_(make_blas(stream)) {
  cusolverDnHandle_t solver = nullptr;
  check(cusolverDnCreate(&solver));
  solver_.reset(solver);
  check(cusolverDnSetStream(solver, stream.get()));
  cusolverDnParams_t params = nullptr;
  check(cusolverDnCreateParams(&params));
  params_.reset(params);
}

template <class T>
TriangularFactor CudaReducedSolver::qr_of_sketch(const SketchView<T>& sketch, std::int64_t n, std::int64_t r,
                                                 double scale, const CheckRows& unused) {
  const std::int64_t d = sketch.rows, cols = n + r;
  TriangularFactor factor{
      n,       r, kUnitRoundoffOf<T>, FactorMethod::kQr, column_exponents(statistics_.look(sketch, stream_).largest),
      nullptr, {}};
  auto* const numbers = room_for<double>(cols, numbers_);
  // The factor has to be a finite double: an FP64 column of subnormal numbers is scaled as far as that goes.
  for (std::size_t j = 0; j < factor.exponent.size(); ++j) {
    factor.exponent[j] = std::min(factor.exponent[j], std::numeric_limits<double>::max_exponent - 1);
    numbers[j] = std::ldexp(scale, factor.exponent[j]);
  }
  auto* const info = room_for<int>(4 + 4 * cols, small_);
  auto* const column_factor = reinterpret_cast<double*>(info + 4);
  T* const tau = reinterpret_cast<T*>(column_factor + cols);
  check(cudaMemcpyAsync(column_factor, numbers, static_cast<std::size_t>(cols) * 8, cudaMemcpyHostToDevice,
                        stream_.get()));
  T* const q = room_for<T>(d * cols, matrix_);
  check(cuda::transpose_scaled(sketch, column_factor, unused, q, stream_.get()));

  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXgeqrf_bufferSize(solver_.get(), params_.get(), d, cols, kCudaType<T>, q, d, kCudaType<T>, tau,
                                    kCudaType<T>, &device_bytes, &host_bytes));
  require_sensible(device_bytes, host_bytes, d, cols);
  auto* const work = room_for<std::byte>(static_cast<std::int64_t>(device_bytes), work_);
  host_work_.resize(host_bytes);
  check(cusolverDnXgeqrf(solver_.get(), params_.get(), d, cols, kCudaType<T>, q, d, kCudaType<T>, tau, kCudaType<T>,
                         work, device_bytes, host_work_.data(), host_bytes, info));
  const int status = fetch_factor(q, d, info, factor);
  require(status == 0, ErrorKind::kInternal, fmt::format("cusolverDnXgeqrf returned info = {}", status));
  return factor;
}

template <class T>
std::optional<TriangularFactor> CudaReducedSolver::cholesky_of_sketch(const SketchView<T>& sketch, std::int64_t n,
                                                                      std::int64_t r, const CheckRows& unused,
                                                                      const GramOrigin& origin) {
  // In FP64 with columns of zeros up to an aligned width, so that all of cuBLAS's loads are aligned.
  const std::int64_t cols = n + r, width = aligned_pitch(cols);
  auto* const wide = room_for<double>(sketch.rows * width, matrix_);
  check(cuda::convert_to_double({sketch.data, sketch.rows, cols, sketch.pitch, kElementType<T>, 0}, unused, wide, width,
                                width, stream_.get()));
  auto* const gram = room_for<double>(width * width, gram_);
  add_products(blas_.get(), {wide, sketch.rows, width, width, ElementType::kFloat64, 0}, 0, gram, width);
  return factor_scaled(gram, width, gram, width, n, r, origin);
}

std::optional<TriangularFactor> CudaReducedSolver::cholesky_of_gram(const double* gram, std::int64_t n, std::int64_t r,
                                                                    const GramOrigin& origin) {
  const std::int64_t cols = n + r, pitch = aligned_pitch(cols);
  return factor_scaled(gram, cols, room_for<double>(pitch * cols, gram_), pitch, n, r, origin);
}

std::vector<double> CudaReducedSolver::diagonal_of(const double* gram, std::int64_t cols, std::int64_t pitch) {
  auto* const on_device = room_for<double>(cols, small_);
  auto* const on_host = room_for<double>(cols, numbers_);
  check(cuda::gram_diagonal(gram, cols, pitch, on_device, stream_.get()));
  check(cudaMemcpyAsync(on_host, on_device, static_cast<std::size_t>(cols) * 8, cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronize();
  return {on_host, on_host + cols};
}

std::vector<double> CudaReducedSolver::column_norms(const double* gram, std::int64_t cols) {
  std::vector<double> norms = diagonal_of(gram, cols, cols);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

/// Scales the Gram matrix into `triangle`, which may be the same memory, and factors it there.
std::optional<TriangularFactor> CudaReducedSolver::factor_scaled(const double* gram, std::int64_t pitch,
                                                                 double* triangle, std::int64_t triangle_pitch,
                                                                 std::int64_t n, std::int64_t r,
                                                                 const GramOrigin& origin) {
  const std::int64_t cols = n + r;
  std::vector<double> squares = diagonal_of(gram, cols, pitch);
  const double scale_square = origin.scale * origin.scale;
  for (std::int64_t j = 0; j < n; ++j) squares[static_cast<std::size_t>(j)] += ridge_square(origin, j) / scale_square;
  TriangularFactor factor{n, r, origin.unit_roundoff, FactorMethod::kCholesky, gram_exponents(squares), nullptr, {}};
  // What is added to a column's diagonal element, in 8 bytes; its exponent, in 4.
  auto* const info = room_for<int>(4 + 3 * cols, small_);
  auto* const device_added = reinterpret_cast<double*>(info + 4);
  auto* const device_exponent = reinterpret_cast<int*>(device_added + cols);
  auto* const added = room_for<double>(2 * cols, numbers_);
  auto* const exponent = reinterpret_cast<int*>(added + cols);
  std::copy(factor.exponent.begin(), factor.exponent.end(), exponent);
  for (std::int64_t j = 0; j < cols; ++j) added[j] = j < n ? std::ldexp(ridge_square(origin, j), 2 * exponent[j]) : 0;
  check(
      cudaMemcpyAsync(device_added, added, static_cast<std::size_t>(cols) * 12, cudaMemcpyHostToDevice, stream_.get()));
  check(cuda::scale_gram(gram, cols, pitch, scale_square, device_exponent, device_added, triangle, triangle_pitch,
                         stream_.get()));
  double* const factored = factor_lower(triangle, triangle_pitch, n, r, info);

  const int status = fetch_factor(factored, triangle_pitch, info, factor);
  require(status >= 0, ErrorKind::kInternal, fmt::format("cusolverDnXpotrf returned info = {}", status));
  if (status > 0) return std::nullopt;
  for (std::int64_t k = 0; k < r; ++k) {
    double* const column = factor.right.data() + k * cols;
    double rest = column[n + k];
    for (std::int64_t i = 0; i < n; ++i) rest -= column[i] * column[i];
    std::fill(column + n, column + cols, 0.0);
    column[n + k] = std::sqrt(std::max(0.0, rest));  // b in the range of A leaves rounding, of either sign
  }
  return factor;
}

/// R11 and R12 = R11^-T G12 from the lower triangle of the Gram matrix; the rest of G22 stays. In the solver's memory,
/// column-major with the same pitch.
double* CudaReducedSolver::factor_lower(double* triangle, std::int64_t pitch, std::int64_t n, std::int64_t r,
                                        int* info) {
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXpotrf_bufferSize(solver_.get(), params_.get(), CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, triangle,
                                    pitch, CUDA_R_64F, &device_bytes, &host_bytes));
  require_sensible(device_bytes, host_bytes, n, n);
  auto* const work = room_for<std::byte>(static_cast<std::int64_t>(device_bytes), work_);
  host_work_.resize(host_bytes);
  check(cusolverDnXpotrf(solver_.get(), params_.get(), CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, triangle, pitch,
                         CUDA_R_64F, work, device_bytes, host_work_.data(), host_bytes, info));
  const int rows = checked_int(n, "n"), rhs = checked_int(r, "r"), leading = checked_int(pitch, "n + r");
  double* const upper = room_for<double>(pitch * (n + r), matrix_);
  check(cublasDgeam(blas_.get(), CUBLAS_OP_T, CUBLAS_OP_N, rows + rhs, rows + rhs, &kOne, triangle, leading, &kZero,
                    upper, leading, upper, leading));
  return upper;
}

/// R11 as it lies on the device, R12 and R22 on the host. Returns `info`, which a factorisation has left on the device.
/// matrix  in/out column-major device, `pitch` rows: a QR's R, or R11 beside G12, which becomes R12 = R11^-T G12
template <class T>
int CudaReducedSolver::fetch_factor(T* matrix, std::int64_t pitch, const int* info, TriangularFactor& factor) {
  const std::int64_t n = factor.n, r = factor.r, cols = n + r, height = std::min(cols, pitch);
  T* const right = room_for<T>(cols * r, right_);
  auto* const status = room_for<int>(1, status_);
  check(cudaMemcpyAsync(status, info, sizeof *info, cudaMemcpyDeviceToHost, stream_.get()));
  if (!triangle_ || triangle_->n != n || triangle_.use_count() > 1) {
    triangle_.reset();
    triangle_ = std::make_shared<TriangleMemory>(n);
  }
  const auto r11 = std::make_shared<DeviceTriangle>(matrix, pitch, triangle_, blas_.get(), stream_);
  if constexpr (std::is_same_v<T, double>) {
    if (factor.method == FactorMethod::kCholesky) r11->solve_transposed(matrix + n * pitch, pitch, r);
  }
  if (r > 0) {
    check(cudaMemcpy2DAsync(right, static_cast<std::size_t>(cols) * sizeof(T), matrix + n * pitch,
                            static_cast<std::size_t>(pitch) * sizeof(T), static_cast<std::size_t>(height) * sizeof(T),
                            static_cast<std::size_t>(r), cudaMemcpyDeviceToHost, stream_.get()));
  }
  stream_.synchronize();
  factor.r11 = r11;
  factor.right.assign(static_cast<std::size_t>(cols * r), 0.0);
  for (std::int64_t k = 0; k < r; ++k) {
    std::copy_n(right + k * cols, std::min(n + k + 1, height), factor.right.begin() + k * cols);
  }
  return *status;
}

void CudaReducedSolver::warm_up_triangle() {
  if (!triangle_ || triangle_.use_count() > 1) return;  // somebody's R lies there
  const DeviceTriangle triangle(triangle_->r.data(), triangle_->n, triangle_, blas_.get(), stream_);
  static_cast<void>(triangle.condition_estimate());
}

template TriangularFactor CudaReducedSolver::qr_of_sketch(const SketchView<float>&, std::int64_t, std::int64_t, double,
                                                          const CheckRows&);
template TriangularFactor CudaReducedSolver::qr_of_sketch(const SketchView<double>&, std::int64_t, std::int64_t, double,
                                                          const CheckRows&);
template std::optional<TriangularFactor> CudaReducedSolver::cholesky_of_sketch(const SketchView<float>&, std::int64_t,
                                                                               std::int64_t, const CheckRows&,
                                                                               const GramOrigin&);
template std::optional<TriangularFactor> CudaReducedSolver::cholesky_of_sketch(const SketchView<double>&, std::int64_t,
                                                                               std::int64_t, const CheckRows&,
                                                                               const GramOrigin&);

}  // namespace tallsketch
