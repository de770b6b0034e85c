// TaskRows: a problem [A | b] held in memory with an orthonormal basis Q of A's columns beside it, as a RowSource of
// [A | Q | b]: one sketch of it answers what a study asks. Made by study coherence.
#pragma once

#include <cstdint>
#include <vector>

#include "src/row_source.h"

namespace tallsketch {

class TaskRows final : public RowSource {
 public:
  /// Reads the source, A in FP32 and r = 1, once; every rank all of it.
  /// Cost    4 m n^2 operations (QR in FP64, chunk after chunk, and Q = A R^-1), 8 m (n + 1) bytes
  /// Errors  kUsage unless the columns of A are independent and m >= n + 1; kMemory
  explicit TaskRows(RowSource& source);
  /// Of A, Q and b of m rows and n columns.
  static double bytes(std::int64_t m, std::int64_t n) {
    return 8.0 * static_cast<double>(m) * (static_cast<double>(n) + 1);
  }
  TaskRows(const TaskRows&) = delete;  // basis() refers to it
  TaskRows& operator=(const TaskRows&) = delete;

  /// (m, 2 n), r = 1.
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override;

  /// Columns of A.
  std::int64_t n() const { return n_; }
  /// The triangle of a QR of [A | b], (n + 1, n + 1) row-major FP64, zero below the diagonal.
  const std::vector<double>& triangle() const { return triangle_; }
  /// Q alone as a RowSource, (m, n); b is zero. Borrowed.
  RowSource& basis() { return basis_; }

 private:
  class Basis final : public RowSource {
   public:
    explicit Basis(const TaskRows& rows) : rows_(rows) {}
    const ProblemShape& shape() const override { return shape_; }
    const SourceInfo& info() const override { return rows_.info(); }
    void read(RowRange rows, void* a, double* b) override;
    void set_shape(std::int64_t m, std::int64_t n) { shape_ = {m, n, 1, ElementType::kFloat32}; }

   private:
    const TaskRows& rows_;
    ProblemShape shape_;
  };

  void read_a_and_b(RowSource& source);
  void find_triangle();
  void find_basis();

  std::int64_t n_;
  ProblemShape shape_;
  SourceInfo info_;
  std::vector<float> a_and_q_;  // (m, 2 n)
  std::vector<double> b_;       // (m)
  std::vector<double> triangle_;
  Basis basis_{*this};
};

}  // namespace tallsketch
