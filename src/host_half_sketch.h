// HostHalfSketch: the 16-bit sketch of paper F's GPU kernels, emulated bit for bit but for the order of additions: the same
// products, conversions, random bits and column factors, sums rounded to 16 bits at every addition. Slow; an oracle of
// the GPU's, and what lets the studies run on the host. Made by host_backend where a study asks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/rounded_half.h"
#include "kernels/sketch_rule.h"
#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/choices.h"

namespace tallsketch {

class Communicator;

class HostHalfSketch {
 public:
  /// Bytes that one will hold, nearly.
  static std::int64_t bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r);

  /// Of no rows. spec  SparseStack or BlockPerm, precision kFp16 or kBf16
  HostHalfSketch(const SketchSpec& spec, std::int64_t n, std::int64_t r, ScalingChoice scaling, int threads);

  /// Whether its column factors depend on the data (scales_by_data).
  bool scales() const;
  /// First, where it scales: every row once.
  /// a  (rows, n) row-major, of any type; rounded to FP32, as everywhere below
  void measure(const SlabView& a);
  /// Collective, then: the factors of all columns, from the rows of all ranks.
  void choose_factors(const Communicator& comm);
  /// Then, or at once where nothing scales: adds S [a diag(factor) | b], b in FP32.
  /// b      (rows, r) row-major FP64, of the same rows; ignored if r = 0
  /// Order  rows one after the other, at any number of threads
  /// Cost   some 4 to 8 ns for each of rows n zeta contributions and thread
  void add(const SlabView& a, const SlabView& b);
  /// Last: the sketch in FP32, (d, n + r) dense, its factors undone: exactly, but for 1/sqrt(zeta) of `--scaling none`.
  void finish(float* sketch) const;
  /// What add has lost so far.
  const RoundingLosses& losses() const { return losses_; }

 private:
  template <class Format>
  void add_rows(const SlabView& a);
  void add_b(const SlabView& b);
  void make_entries(const SlabView& rows);

  SketchSpec spec_;
  std::int64_t n_, r_;
  ScalingChoice scaling_;
  int threads_;
  std::vector<std::uint16_t> sketch_;  // (d, n)
  std::vector<float> sketch_b_;        // (d, r)
  std::vector<float> largest_;         // (n), where it scales
  std::vector<double> squares_;
  std::vector<double> factor_;        // (n)
  std::vector<SketchEntry> entries_;  // (rows, zeta), of the rows under way
  RoundingLosses losses_;
};

}  // namespace tallsketch
