#include "src/cuda_gram.h"

#include <algorithm>

#include "kernels/gram_cuda.h"
#include "kernels/rounding.h"
#include "kernels/sketch_cuda.h"
#include "kernels/strip_plan.h"
#include "src/error.h"

namespace tallsketch {

namespace {

/// Narrow matrices: dsyrk takes 30 times as long as dgemm at n = 32, as long at 1024 and half as long at 2048
/// (H200, CUDA 13.0).
constexpr std::int64_t kNarrowestSyrk = 1024;

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // of one call of cuBLAS, whose sizes are ints

/// Columns of FP64 rows that are multiplied: a few of zeros more, so that cuBLAS's loads are aligned.
std::int64_t product_width(std::int64_t n, ElementType type) {
  const std::int64_t width = round_up(n, 8);
  return type == ElementType::kFloat64 ? std::min(width, cuda::device_pitch(n, type)) : width;
}

/// Rows in FP64 at a time; 0 where A is FP64 already.
std::int64_t rows_at_once(std::int64_t n, ElementType type, std::int64_t chunk_bytes) {
  if (type == ElementType::kFloat64) return 0;
  return std::clamp<std::int64_t>(chunk_bytes / (product_width(n, type) * 8), 1, kMostRows);
}

std::int64_t b_scratch_doubles(std::int64_t r) {
  return r <= cuda::kMostProductColumns ? cuda::column_product_doubles(r) : 0;
}

}  // namespace

void add_products(cublasHandle_t blas, const SlabView& x, double beta, double* out, std::int64_t out_pitch) {
  constexpr double kOne = 1;
  const auto* const data = static_cast<const double*>(x.data);
  const int n = checked_int(x.cols, "n"), rows = checked_int(x.rows, "rows"), pitch = checked_int(x.pitch, "a pitch"),
            leading = checked_int(out_pitch, "n");
  // Row-major rows are the columns of cuBLAS's matrix: out = X^T (X^T)^T.
  if (x.cols < kNarrowestSyrk) {
    check(
        cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, rows, &kOne, data, pitch, data, pitch, &beta, out, leading));
  } else {
    check(cublasDsyrk(blas, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, n, rows, &kOne, data, pitch, &beta, out, leading));
  }
}

std::int64_t DeviceGram::bytes(std::int64_t n, std::int64_t r, ElementType type) {
  const std::int64_t width = product_width(n, type);
  return 8 * (rows_at_once(n, type, kChunkBytes) * width + width * width + (2 * n + 1 + r) * r + b_scratch_doubles(r));
}

DeviceGram::DeviceGram(std::int64_t n, std::int64_t r, ElementType type, cublasHandle_t blas, const CudaStream& stream,
                       std::int64_t chunk_bytes)
    : n_(n),
      r_(r),
      pitch_(cuda::device_pitch(n, type)),
      width_(product_width(n, type)),
      chunk_rows_(rows_at_once(n, type, chunk_bytes)),
      blas_(blas),
      stream_(stream),
      rhs_(n, pitch_, r, type),
      wide_(chunk_rows_ * width_),
      of_a_(width_ * width_),
      zeros_(n * r),
      of_ab_((n + 1) * r),
      of_b_(r * r),
      b_scratch_(b_scratch_doubles(r)) {
  for (const DeviceBuffer<double>* buffer : {&of_a_, &zeros_, &of_ab_, &of_b_}) {
    check(cudaMemsetAsync(buffer->data(), 0, buffer->bytes(), stream_.get()));
  }
}

void DeviceGram::add_rows_of_a(const SlabView& a) {
  if (a.type == ElementType::kFloat64) {
    for (std::int64_t done = 0; done < a.rows; done += kMostRows) {
      SlabView part = rows_of(a, done, std::min(kMostRows, a.rows - done));
      part.cols = width_;
      add_products(blas_, part, 1, of_a_.data(), width_);
    }
    return;
  }
  for (std::int64_t done = 0; done < a.rows; done += chunk_rows_) {
    const SlabView part = rows_of(a, done, std::min(chunk_rows_, a.rows - done));
    check(cuda::convert_to_double(part, {}, wide_.data(), width_, width_, stream_.get()));
    add_products(blas_, {wide_.data(), part.rows, width_, width_, ElementType::kFloat64, part.first_row}, 1,
                 of_a_.data(), width_);
  }
}

void DeviceGram::add(const SlabView& a, const SlabView& b) {
  if (a.rows == 0) return;
  add_rows_of_a(a);
  rhs_.add(a, b, zeros_.data(), of_ab_.data(), of_ab_.data() + n_ * r_, stream_);
  if (r_ <= cuda::kMostProductColumns) {
    check(cuda::column_products(b, b_scratch_.data(), of_b_.data(), stream_.get()));
  } else {
    add_products(blas_, b, 1, of_b_.data(), r_);
  }
}

void DeviceGram::copy_to(double* gram) const {
  check(cuda::assemble_gram({of_a_.data(), width_, of_ab_.data(), of_b_.data()}, n_, r_, gram, stream_.get()));
}

}  // namespace tallsketch
