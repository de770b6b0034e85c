// ExactSource: [A | b] of small integers as a RowSource, so that every sketch of it is exact. For backend tests.
#pragma once

#include "src/row_source.h"
#include "tests/support/exact_data.h"

namespace tallsketch {

/// [A | b] of wide_exact_entry, A in float64: exact in an FP64 sketch only.
class WideExactSource final : public RowSource {
 public:
  WideExactSource(std::int64_t m, std::int64_t n, std::int64_t r) : shape_{m, n, r, ElementType::kFloat64} {
    info_ = {{"exact"}, "/A", "/b", "float64", "exact", "computed", {}};
  }
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override {
    auto* out = static_cast<double*>(a);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = 0; j < shape_.n; ++j) *out++ = wide_exact_entry(i, j);
      for (std::int64_t k = 0; k < shape_.r; ++k) *b++ = wide_exact_entry(i, shape_.n + k);
    }
  }

 private:
  ProblemShape shape_;
  SourceInfo info_;
};

class ExactSource final : public RowSource {
 public:
  ExactSource(std::int64_t m, std::int64_t n, std::int64_t r, ElementType type) : shape_{m, n, r, type} {
    info_ = {{"exact"}, "/A", "/b", "float32", "exact", "computed", {}};
  }
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override {
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      for (std::int64_t j = 0; j < shape_.n; ++j) {
        const std::int64_t at = i * shape_.n + j;
        if (shape_.a_type == ElementType::kFloat64) {
          static_cast<double*>(a)[at] = exact_entry(rows.begin + i, j);
        } else if (shape_.a_type == ElementType::kFloat32) {
          static_cast<float*>(a)[at] = static_cast<float>(exact_entry(rows.begin + i, j));
        } else {
          static_cast<std::uint16_t*>(a)[at] = exact_entry_as<std::uint16_t>(rows.begin + i, j);
        }
      }
      for (std::int64_t k = 0; k < shape_.r; ++k) b[i * shape_.r + k] = exact_entry(rows.begin + i, shape_.n + k);
    }
  }

 private:
  ProblemShape shape_;
  SourceInfo info_;
};

}  // namespace tallsketch
